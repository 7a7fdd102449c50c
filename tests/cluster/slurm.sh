#!/usr/bin/env bash
# Slurm on hosts.sh's hosts: srun, sbatch, squeue and scontrol as on a real cluster. Needs root, iproute2, slurmctld,
# slurmd, slurm-client, munge and libpmix-dev (without which there is no srun --mpi=pmix).
#
#     tests/cluster/slurm.sh with 3 -- srun -N 3 hostname
#
# brings up hosts and Slurm, waits until all nodes are idle, runs the command on the head node, takes everything down,
# also after failures and signals, and ends with the command's exit code. By hand:
#
#     slurm.sh up 3 [OPTION...]
#     hosts.sh on head sbatch job.sh
#     hosts.sh down
#
# Options are those of hosts.sh, and what it says about hosts holds here. Jobs run as root, in the partition "main",
# each of whose nodes h1, h2, ... has 8 processors and 8 GPUs in Slurm's books, whatever the machine has. Jobs may be
# requeued (scontrol requeue) and start again 6 s later; between SIGTERM and SIGKILL they get 10 s. There is no
# accounting: scontrol show job knows a job for 5 minutes after its end.
#
# Beside hosts.sh's variables commands find SLURM_CONF; those that let mpirun start on hosts by itself are not set, as
# a job's mpirun asks Slurm. Logs are in CLUSTER_DIR/slurm.
#
# Exit codes: the command's; 1 failed; 2 wrong usage; 77 this machine cannot, with the reason.
set -euo pipefail

PATH+=:/usr/sbin:/sbin
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly IDLE_TIMEOUT_S=60

say() {
    printf 'slurm.sh: %s\n' "$*" >&2
}

misused() {
    say "$*; the top of this script says how it is used"
    exit 2
}

cannot() {
    say "$*: apt-get install slurmctld slurmd slurm-client munge libpmix-dev"
    exit 77
}

check_programs() {
    local program
    for program in munged slurmctld slurmd srun sbatch; do
        command -v "$program" >/dev/null || cannot "there is no program '$program'"
    done
    [[ $(ldconfig -p) == *'libpmix.so '* ]] || cannot "there is no libpmix.so, which Slurm's pmix plugin loads"
}

write_configuration() {
    local host i
    mkdir -p "$dir/state"
    cat >"$dir/slurm.conf" <<CONF
ClusterName=penstock
SlurmctldHost=head(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
# A requeued job waits until its old credential has expired.
AuthInfo=socket=$dir/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmdSpoolDir=/tmp/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobRequeue=1
KillWait=10
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
GresTypes=gpu
CONF
    for host in ${CLUSTER_HOSTS//,/ }; do
        printf 'NodeName=%s NodeAddr=%s CPUs=8 Gres=gpu:8\n' "$host" "$(getent hosts "$host" | cut -d ' ' -f 1)"
    done >>"$dir/slurm.conf"
    printf 'PartitionName=main Nodes=%s Default=YES MaxTime=INFINITE\n' "$CLUSTER_HOSTS" >>"$dir/slurm.conf"
    # The default fence lets one rank in some dozens of jobs out of it too early: with Slurm 22.05 and Open MPI 4.1 a
    # peer's first message then finds no receiver, and MPI_Init dies with SIGSEGV. Seen with plain MPI programs.
    printf '%s\n' PMIxCliTmpDirBase=/tmp PMIxCollFence=tree >"$dir/mpi.conf"
    for i in {0..7}; do mknod "$dir/gpu$i" c 1 3; done # /dev/null: slurmd wants devices
    printf 'AutoDetect=off\nName=gpu File=%s\n' "$dir/gpu[0-7]" >"$dir/gres.conf"
    cat >>"$CLUSTER_DIR/env" <<ENV
export SLURM_CONF=$dir/slurm.conf
unset OMPI_MCA_plm_rsh_agent OMPI_MCA_orte_default_hostfile PRTE_MCA_plm_ssh_agent PRTE_MCA_prte_default_hostfile HYDRA_LAUNCHER HYDRA_LAUNCHER_EXEC HYDRA_HOST_FILE
ENV
}

# background NAME HOST CMD...: a daemon with a log.
background() {
    local name=$1
    shift
    setsid "$CLUSTER_DIR/enter" "$@" </dev/null >"$dir/$name.log" 2>&1 &
}

# On the head node: starts Slurm on the cluster that this process is part of.
start() {
    local host i idle hosts=${CLUSTER_HOSTS//[^,]/}
    dir=$CLUSTER_DIR/slurm
    write_configuration
    # shellcheck disable=SC1091
    source "$CLUSTER_DIR/env"
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
    # --force: the directory is closed to other users, who have no business here.
    background munged head munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
        --pid-file="$dir/munged.pid" --seed-file="$dir/munged.seed" --log-file="$dir/munged.log"
    background slurmctld head slurmctld -D
    for host in ${CLUSTER_HOSTS//,/ }; do
        background "slurmd.$host" "$host" slurmd -D -N "$host"
    done
    for ((i = 0; i < IDLE_TIMEOUT_S * 10; i++)); do
        idle=$(sinfo --noheader --states=idle --format=%D 2>/dev/null) || idle=
        [[ $idle != $((${#hosts} + 1)) ]] || return 0
        sleep 0.1
    done
    say "${idle:-no} nodes are idle after $IDLE_TIMEOUT_S s, not $((${#hosts} + 1)); the ends of their logs:"
    tail -n 5 "$dir"/*.log >&2
    exit 1
}

(($#)) || misused "no command"
command=$1
shift
case $command in
    up | with)
        check_programs
        ;;&
    up)
        output=$("$here/hosts.sh" up "$@")
        name=$(sed -n "s/^cluster '\(.*\)' is up.*/\1/p" <<<"$output")
        "$here/hosts.sh" on --name "$name" head "$here/slurm.sh" start || {
            "$here/hosts.sh" down --name "$name"
            exit 1
        }
        cat <<UP
cluster '$name' is up, with Slurm on ${1-} nodes
    $here/hosts.sh on head sinfo
    $here/hosts.sh down --name $name
UP
        ;;
    with)
        options=()
        while (($#)) && [[ $1 != -- ]]; do
            options+=("$1")
            shift
        done
        (($# >= 2)) || misused "'with' takes '--' and a command at its end"
        shift
        exec "$here/hosts.sh" with "${options[@]}" -- "$here/slurm.sh" start "$@"
        ;;
    start) # by this script alone: on the head node; becomes the command, if there is one
        [[ ${CLUSTER_DIR-} ]] || misused "this is no cluster: use 'up' or 'with'"
        check_programs
        start
        ((!$#)) || exec "$@"
        ;;
    -h | --help) sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0" ;;
    *) misused "'$command' is no command" ;;
esac
