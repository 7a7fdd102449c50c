# shellcheck shell=bash
# What Open MPI calls its settings. Sourced by penstock-run and tests.
#
# The launcher of Open MPI 4 is ORTE, that of Open MPI 5 is PRRTE, which ignores ORTE's names without a word. A setting of the
# launcher is an option, --mca NAME VALUE, or a variable: OMPI_MCA_NAME for ORTE, PRTE_MCA_NAME for PRRTE. Settings of MPI
# itself (btl_*, pml_*, mpi_*) are OMPI_MCA_NAME in both.

# One line a setting: our word for it, its names in ORTE and in PRRTE (the first is the usual one; - where there is none).
readonly MCA_NAMES='
files         orte_tmpdir_base                prte_tmpdir_base
segments      btl_vader_backing_directory     btl_sm_backing_directory
daemon        orte_launch_agent               prte_launch_agent
agent         plm_rsh_agent,orte_rsh_agent    plm_ssh_agent,prte_ssh_agent
flat          plm_rsh_no_tree_spawn           plm_ssh_no_tree_spawn
hostfile      orte_default_hostfile           prte_default_hostfile
interface     oob_tcp_if_include              prte_if_include
kill_after    odls_base_sigkill_timeout       -
idle          oob_tcp_keepalive_time          oob_tcp_keepalive_time
probe_after   oob_tcp_keepalive_intvl         oob_tcp_keepalive_intvl
probes        oob_tcp_keepalive_probes        oob_tcp_keepalive_probes
'

# mca_launcher VERSION: what the text that mpiexec --version prints belongs to: orte, prrte, or nothing.
mca_launcher() {
    if [[ $1 == *PRRTE* || $1 =~ "(Open MPI) "([5-9]|[1-9][0-9]) ]]; then
        echo prrte
    elif [[ $1 == *"Open MPI"* || $1 == *OpenRTE* ]]; then
        echo orte
    fi
}

# mca_names LAUNCHER SETTING: its names, one a line.
mca_names() {
    awk -v column="$([[ $1 == prrte ]] && echo 3 || echo 2)" -v setting="$2" '
        $1 == setting && $column != "-" { gsub(",", "\n", $column); print $column }' <<<"$MCA_NAMES"
}

# mca_option LAUNCHER SETTING VALUE: adds it to `words`, if the launcher has it.
mca_option() {
    local name
    name=$(mca_names "$1" "$2")
    [[ ! $name ]] || words+=(--mca "${name%%$'\n'*}" "$3")
}

# mca_variables LAUNCHER SETTING: the names of its variables, one a line.
mca_variables() {
    local prefix=OMPI_MCA_
    [[ $1 != prrte ]] || prefix=PRTE_MCA_
    mca_names "$1" "$2" | sed "s/^/$prefix/"
}
