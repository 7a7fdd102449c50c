# shellcheck shell=bash
# Which nodes there are, and which of them answer. Sourced by penstock-run.
#
# Nodes are asked by what mpirun reaches them by (ssh, or the rsh agent that it is told), PROBES at a time, each with
# a time limit of its own. Those that do not answer are tried once more, by the launcher itself: it may have ways that
# ssh has not. Slurm knows its nodes, and is asked once.

readonly PROBES=32
readonly PROBE_S=10        # for an answer to ssh
readonly SECOND_PROBE_S=20 # for an answer to mpirun

# Hosts of a list with commas or spaces, or of a file, one a line: without what stands behind a name (":4", "slots=4"),
# comments, and what editors and other systems leave (the line ends of Windows, a byte order mark). One a line.
host_names() {
    awk 'NR == 1 { sub(/^\357\273\277/, "") }
        { sub(/#.*/, ""); gsub(/[\r\t]/, " "); count = split($0, parts, ",") }
        { for (i = 1; i <= count; i++) if (split(parts[i], words, " ")) print words[1] }' |
        sed -E 's/^\[(.*)\](:[0-9]*)?$/\1/; /:.*:/!s/:.*//' | awk 'NF && !seen[$0]++'
}

# Sets host_list (empty: this machine, or all nodes of the job where nobody needs their names) and node_count.
find_nodes() {
    host_list=()
    if [[ $hosts ]]; then
        mapfile -t host_list < <(tr -s ' \t\r\n' , <<<"$hosts" | host_names)
    elif [[ $hostfile ]]; then
        mapfile -t host_list < <(host_names <"$hostfile")
    elif [[ $job && ($job != slurm || $torchrun$nodes$restarts) ]]; then
        mapfile -t host_list < <(job_hosts)
        wait $! || exit 4 # said there
        ((${#host_list[@]})) || misused "the list of this $job job's nodes names no host: for a run on this machine alone unset ${JOB_SIGNS[$job]}"
    fi
    [[ ! $hosts$hostfile ]] || ((${#host_list[@]})) || misused "'$hosts$hostfile' names no host"
    local host
    for host in "${host_list[@]}"; do
        [[ $host != *:* ]] || misused "'$host': mpirun takes no IPv6 addresses; give the host a name (in /etc/hosts or DNS)"
        [[ $host =~ ^[A-Za-z0-9._-]+$ ]] || misused "'$host' is no name of a host: it has other characters than letters, digits, '.', '-' and '_'"
    done
    node_count=${#host_list[@]}
    if ((node_count == 0)); then
        node_count=${SLURM_JOB_NUM_NODES:-1}
    fi
    if [[ $nodes ]]; then
        ((nodes <= node_count)) || misused "--nodes $nodes, but there are only $node_count"
        host_list=("${host_list[@]:0:nodes}")
        node_count=$nodes
    fi
}

# Sets agent: the words that reach a node, as mpirun has them of its options or the environment.
find_agent() {
    local i value=ssh name names variable
    if [[ $launcher == pals ]]; then
        names=''
    elif [[ $launcher == hydra ]]; then
        value=${HYDRA_LAUNCHER_EXEC:-ssh}
        names=$'-launcher-exec\n--launcher-exec'
    else
        # Both know plm_rsh_agent as an option.
        names=$(mca_names "$mca" agent)$'\nplm_rsh_agent'
        for variable in $(mca_variables "$mca" agent); do
            [[ ! ${!variable-} ]] || { value=${!variable} && break; }
        done
    fi
    for ((i = 0; i + 1 < ${#launcher_options[@]}; i++)); do
        [[ $'\n'$names$'\n' != *$'\n'"${launcher_options[i]}"$'\n'* ]] || value=${launcher_options[i + 1]}
    done
    # "ssh : rsh" is the first that is there.
    while [[ $value == *:* ]] && read -r name _ <<<"${value%%:*}" && ! command -v "$name" >/dev/null; do
        value=${value#*:}
    done
    read -ra agent <<<"${value%%:*}"
    ((${#agent[@]})) || agent=(ssh)
    [[ ${agent[0]##*/} != ssh ]] || agent+=(-n -o BatchMode=yes -o "ConnectTimeout=$PROBE_S")
}

# answering SECONDS WORD... <HOSTS: prints the hosts, one a line, for which the command WORD... HOST true succeeds.
# timeout has a process group of its own, so that it ends all that the command has started: a SIGTERM is passed on to it.
answering() {
    # shellcheck disable=SC2016
    xargs -r -d '\n' -n 1 -P "$PROBES" sh -c '
        for host; do :; done
        timeout -k 1 "$@" true </dev/null >/dev/null 2>&1 &
        trap "kill $!; exit 1" TERM
        wait $! && echo "$host"
        true' sh "$@"
}

# The same of all nodes of a Slurm job.
answering_in_slurm() {
    timeout --foreground "$PROBE_S" sinfo --noheader --Node --nodes="$(paste -sd ,)" --format='%N %t' |
        awk '$2 !~ /\*|down|fail/ && !seen[$1]++ { print $1 }'
}

# And of a Flux instance.
answering_in_flux() {
    local hosts
    hosts=$(cat)
    timeout --foreground "$PROBE_S" flux hostlist --expand --delimiter=$'\n' available </dev/null | grep -xF "$hosts"
}

# ask FUNCTION ARGUMENT...: sets `answered` to the hosts of `asked` that do. A signal is heard meanwhile.
ask() {
    local file answers
    ((${#asked[@]})) || return 0
    file=$(mktemp)
    exec {answers}<>"$file"
    rm -f "$file"
    "$@" < <(printf '%s\n' "${asked[@]}") >&"$answers" {answers}>&- &
    probing=$!
    wait "$probing" || true
    probing=''
    mapfile -t answered <"/dev/fd/$answers"
    exec {answers}>&-
}

# Takes those of `answered` out of `asked`, and into the table `alive`.
note_answers() {
    local host
    for host in "${answered[@]}"; do alive[$host]=1; done
    answered=()
    local -a silent=()
    for host in "${asked[@]}"; do
        [[ ${alive[$host]-} ]] || silent+=("$host")
    done
    asked=("${silent[@]}")
}

# Takes the nodes that do not answer out of host_list; fails if none is left.
leave_out_nodes() {
    local -a asked=("${host_list[@]}") answered=() here=() agent=()
    local -A alive=([localhost]=1 [$HOSTNAME]=1 [${HOSTNAME%%.*}]=1)
    local host
    ((${#host_list[@]} > 1)) || return 0
    note_answers
    if [[ $job == @(slurm|flux) ]]; then
        ask "answering_in_$job"
        ((${#answered[@]})) || return 0 # it does not answer itself: its launcher will say so
    else
        find_agent
        ask answering "$PROBE_S" "${agent[@]}"
        note_answers
        if [[ $launcher == pals ]]; then
            ask answering "$SECOND_PROBE_S" "$mpiexec" "${launcher_options[@]}" -n 1 --ppn 1 --hosts
        elif [[ $launcher == hydra ]]; then
            ask answering "$SECOND_PROBE_S" "$mpiexec" "${launcher_options[@]}" -n 1 -hosts
        else
            ask answering "$SECOND_PROBE_S" "$mpiexec" "${launcher_options[@]}" -np 1 --host
        fi
    fi
    note_answers
    ((${#asked[@]})) || return 0
    for host in "${host_list[@]}"; do
        [[ ! ${alive[$host]-} ]] || here+=("$host")
    done
    say "no answer from ${asked[*]}: left out, ${#here[@]} of ${#host_list[@]} nodes go on"
    host_list=("${here[@]}") node_count=${#here[@]} left_out+=" ${asked[*]}"
    ((node_count))
}
