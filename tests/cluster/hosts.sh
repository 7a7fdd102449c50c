#!/usr/bin/env bash
# Several hosts on one machine, to test on what otherwise takes a cluster. Needs root and iproute2.
#
#     tests/cluster/hosts.sh with 3 --rate 1gbit -- mpirun -np 3 hostname
#
# brings up a head node and the hosts h1, h2, h3, runs the command on the head node, takes everything down, also
# after failures and signals, and ends with the command's exit code. By hand, one step after another:
#
#     hosts.sh up 3 [OPTION...]      says what it is called and how to go on
#     hosts.sh on h1 CMD...          runs CMD on one host, or on "head"; signals reach CMD itself
#     hosts.sh all CMD...            runs CMD on all hosts at once; lines begin with the host's name
#     hosts.sh lose h2               as if its power failed: its link and all that runs there are gone, for good
#     hosts.sh list                  the clusters of this machine
#     hosts.sh down                  ends all processes there, and removes everything
#     hosts.sh down --dead           what scripts that were killed have left; "up" and "with" do so first
#     hosts.sh down --all            every cluster, also those that others work with
#
# Options of "up" and "with":
#     --rate RATE          of each host's link, in both directions, as tc writes it: 1gbit (unlimited)
#     --cpus h1=0.5,...    processor time of a host, in cores (unlimited)
#     --memory h1=512M,... memory of a host's processes, with their page cache, and what they write to /dev/shm and /tmp
#     --share DIR          all hosts see this directory, also below /tmp; may be given several times
#     --name NAME          of the cluster (found by chance). "on", "all", "lose" and "down" take it before other
#                          arguments; else it is CLUSTER_NAME, or the only cluster there is
#
# A host has a hostname, network, /dev/shm, /tmp, /etc/hosts and /sys of its own; all other files are shared, as on
# a cluster, and so is what lies below /tmp of this repository, CLUSTER_DIR, and what --share names. Addresses are
# 10.77.0.1 for head, 10.77.0.11 for h1, and so on. Nothing is made outside of these namespaces but
# /tmp/penstock-cluster.NAME and, with --cpus or --memory, a cgroup for each host: there is no way from a host to any other
# network, several clusters do not know of each other, and what is left of one ends with its processes.
#
# Commands find these variables set, and so does a shell that sources /tmp/penstock-cluster.NAME/env:
#     CLUSTER_NAME, CLUSTER_DIR    the cluster, and its directory: /tmp/penstock-cluster.NAME
#     TMPDIR                       $CLUSTER_DIR/tmp: temporary files that all hosts share
#     CLUSTER_HOSTS                h1,h2,h3
#     CLUSTER_HOSTFILE             Open MPI's, with one slot a host
#     CLUSTER_RSH                  "$CLUSTER_RSH h2 CMD..." is like ssh: variables do not travel (mpirun -x does)
#     OMPI_MCA_*, PRTE_MCA_*, HYDRA_* let Open MPI's and MPICH's mpirun start on these hosts without further options
# mpirun has to run on the head node or a host, which know the hosts' names.
#
# Exit codes: the command's; 1 failed; 2 wrong usage; 77 this machine cannot, with the reason.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=launch/mca.sh
source "$root/launch/mca.sh"
PATH+=:/usr/sbin:/sbin
readonly PREFIX=/tmp/penstock-cluster.
readonly CGROUP=penstock-cluster. # and the cluster's name: a folder with one for each host
readonly NETWORK=10.77.0
readonly HOSTS_MAX=64

say() {
    printf 'hosts.sh: %s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

misused() {
    say "$*; the top of this script says how it is used"
    exit 2
}

# This machine lacks something, and no other way of calling the script helps: tests skip.
cannot() {
    say "$*"
    exit 77
}

check_machine() {
    local program
    ((EUID == 0)) || cannot "hosts need root"
    for program in ip tc nsenter unshare mount hostname; do
        command -v "$program" >/dev/null ||
            cannot "there is no program '$program': apt-get install iproute2 util-linux mount hostname"
    done
    unshare --net --uts --mount true 2>/dev/null ||
        cannot "root may not make namespaces here: a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN (--privileged)"
    ! grep -q " $PREFIX" /proc/self/mountinfo || fail "this is a host of a cluster: start others from outside"
}

# --- processes ------------------------------------------------------------------------------------

# Everything that runs on the hosts of the cluster in $dir, which is a mount point in their namespaces alone.
# The numbers of processes and of namespaces say less: they are used again.
processes() {
    grep -ls " $dir " /proc/[0-9]*/mountinfo | cut -d / -f 3 || true
}

# holder HOST: the process that keeps a host's namespaces, or nothing if it is gone.
holder() {
    local pid
    pid=$(cat "$dir/$1.pid" 2>/dev/null) || return 0
    ! grep -qs " $dir " "/proc/$pid/mountinfo" || printf '%s\n' "$pid"
}

start_time() {
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
}

# --- up -------------------------------------------------------------------------------------------

hosts=
name=
rate=
cpus=
memory=
shared=()

parse_up() {
    hosts=${1-}
    [[ $hosts =~ ^[1-9][0-9]?$ && $hosts -le $HOSTS_MAX ]] ||
        misused "the number of hosts is 1 to $HOSTS_MAX, not '$hosts'"
    shift
    while (($#)); do
        [[ $1 == --?* && $# -ge 2 ]] || misused "'$1' is no option, or needs a value"
        case $1 in
            --rate) rate=$2 ;;
            --cpus) cpus=$2 ;;
            --memory) memory=$2 ;;
            --name) name=$2 ;;
            --share)
                [[ -d $2 ]] || misused "--share takes a directory, not '$2'"
                shared+=("$(realpath "$2")")
                ;;
            *) misused "'$1' is no option" ;;
        esac
        shift 2
    done
    [[ $name =~ ^[A-Za-z0-9_-]{0,32}$ ]] || misused "a name has letters, digits, '_' and '-', at most 32: not '$name'"
    [[ -z $rate || $rate =~ ^[0-9.]+[kmgt]?(bit|bps)$ ]] || misused "--rate takes 1gbit or 500mbit, not '$rate'"
    [[ -z $cpus || ,$cpus =~ ^(,h[0-9]+=[0-9]*\.?[0-9]+)+$ ]] || misused "--cpus takes h1=0.5,h2=1.5, not '$cpus'"
    [[ -z $memory || ,$memory =~ ^(,h[0-9]+=[1-9][0-9]*[KMG]?)+$ ]] ||
        misused "--memory takes h1=512M,h2=1G, not '$memory'"
}

make_directory() {
    if [[ $name ]]; then
        dir=$PREFIX$name
        mkdir -m 700 "$dir" 2>/dev/null || fail "there is a cluster '$name' already: 'hosts.sh list' says more"
    else
        dir=$(mktemp -d "${PREFIX}XXXX")
        name=${dir#"$PREFIX"}
    fi
    printf '%s %s\n' $$ "$(start_time $$)" >"$dir/owner"
    mkdir -m 1777 "$dir/tmp"
    shared+=("$dir" "$root")
}

write_files() {
    local i list= launcher
    {
        printf '127.0.0.1 localhost\n%s.1 head\n' "$NETWORK"
        for ((i = 1; i <= hosts; i++)); do printf '%s.%d h%d\n' "$NETWORK" $((10 + i)) "$i"; done
    } >"$dir/hosts"
    for ((i = 1; i <= hosts; i++)); do
        printf 'h%d slots=1\n' "$i" >>"$dir/hostfile"
        printf 'h%d:1\n' "$i" >>"$dir/hostfile.hydra"
        list+=${list:+,}h$i
    done
    cat >"$dir/env" <<ENV
export CLUSTER_NAME=$name CLUSTER_DIR=$dir TMPDIR=$dir/tmp
export CLUSTER_HOSTS=$list CLUSTER_HOSTFILE=$dir/hostfile CLUSTER_RSH=$dir/rsh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_tcp_if_include=$NETWORK.0/24
export HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC=$dir/rsh HYDRA_HOST_FILE=$dir/hostfile.hydra HYDRA_IFACE=eth0
ENV
    for launcher in orte prrte; do
        printf 'export %s=%s\n' "$(mca_variables "$launcher" agent | head -n 1)" "$dir/rsh" \
            "$(mca_variables "$launcher" hostfile)" "$dir/hostfile" "$(mca_variables "$launcher" interface)" "$NETWORK.0/24" \
            "$(mca_variables "$launcher" files)" /tmp
    done >>"$dir/env"
    # Becomes the command, so that signals reach it. The cgroup is entered while it is still to be seen.
    cat >"$dir/enter" <<ENTER
#!/bin/bash
# enter HOST CMD...: becomes CMD on a host of this cluster, in the caller's directory.
host=\$1
shift
pid=\$(cat "$dir/\$host.pid" 2>/dev/null) && grep -qs " $dir " "/proc/\$pid/mountinfo" || {
    printf '%s\n' "there is no host '\$host' in cluster '$name'" >&2
    exit 1
}
if [[ -e $dir/\$host.cgroup ]]; then
    while read -r group; do echo \$\$ >"\$group/cgroup.procs" || exit 1; done <"$dir/\$host.cgroup"
fi
source "$dir/env"
exec nsenter -t "\$pid" --net --uts --mount -- env -C "\$PWD" -- "\$@"
ENTER
    cat >"$dir/rsh" <<RSH
#!/bin/bash
# rsh HOST CMD...: like ssh, joins the words, and runs them in a shell without the caller's variables. Does not hear of
# the end of a host that is lost.
host=\$1
shift
# As ssh does: what a launcher has left open, such as the socket it listens on, would outlive it here.
for fd in /proc/self/fd/*; do
    fd=\${fd##*/}
    ((fd < 3 || fd == 255)) || exec {fd}<&-
done
cd $(printf %q "$HOME") || exit 1
env -i HOME=$(printf %q "$HOME") USER=root LOGNAME=root SHELL=/bin/bash PATH=$(printf %q "$PATH") \\
    $dir/enter "\$host" /bin/bash -c "\$*"
code=\$?
[[ ! -e $dir/\$host.lost ]] || ((code < 128)) || exec sleep infinity
exit \$code
RSH
    chmod 700 "$dir/enter" "$dir/rsh"
}

# What a host does first, in new namespaces: NAME DIRECTORY SHARED...
# shellcheck disable=SC2016
readonly HOST_SETUP='
set -euo pipefail
host=$1 dir=$2
shift 2
hostname "$host"
ip link set lo up
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$dir/hosts" /etc/hosts

# Mounts of this network: of the others /sys would show interfaces and their counters.
exec {cgroup}</sys/fs/cgroup
mount -t sysfs sysfs /sys
mount --no-canonicalize --rbind "/proc/self/fd/$cgroup" /sys/fs/cgroup

# What is shared is held open while /tmp is covered.
exec {old}</tmp
mount -t tmpfs -o mode=1777 tmpfs /tmp
for shared in "$@"; do
    [[ $shared == /tmp/* ]] || continue
    mkdir -p "$shared"
    mount --no-canonicalize --rbind "/proc/self/fd/$old/${shared#/tmp/}" "$shared"
done
exec {cgroup}<&- {old}<&-
echo ready
exec -a "penstock-host-$host" sleep infinity'

make_host() {
    local host=$1 i
    setsid unshare --net --uts --mount --propagation private bash -c "$HOST_SETUP" bash \
        "$host" "$dir" "${shared[@]}" </dev/null >"$dir/$host.log" 2>&1 &
    printf '%s\n' $! >"$dir/$host.pid"
    disown $! # or bash tells of its end
    for ((i = 0; i < 500; i++)); do
        ! grep -qs '^ready$' "$dir/$host.log" || return 0
        kill -0 "$(<"$dir/$host.pid")" 2>/dev/null || break
        sleep 0.02
    done
    cannot "cannot make host $host: $(<"$dir/$host.log")"
}

# Runs ip or tc in a host's network.
net() {
    local host=$1 output
    shift
    output=$(nsenter -t "$(<"$dir/$host.pid")" --net "$@" 2>&1) || cannot "this failed: $*: $output"
}

# The head's eth0 is the bridge: the other end of each host's eth0 is a port of it.
connect_hosts() {
    local i
    net head ip link add eth0 type bridge
    net head ip addr add $NETWORK.1/24 dev eth0
    net head ip link set eth0 up
    for ((i = 1; i <= hosts; i++)); do
        net head ip link add "h$i" type veth peer name eth0 netns "$(<"$dir/h$i.pid")"
        net head ip link set "h$i" master eth0 up
        net "h$i" ip addr add "$NETWORK.$((10 + i))/24" dev eth0
        net "h$i" ip link set eth0 up
        [[ $rate ]] || continue
        net head tc qdisc add dev "h$i" root tbf rate "$rate" burst 256kb latency 50ms
        net "h$i" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms
    done
}

# The kernel's table of neighbours, one for all hosts, has room for 1,024: of more than 24 hosts each is told the others' addresses,
# and such entries do not count. (Of fewer it is not: who is lost then cannot be reached at once.)
introduce_hosts() {
    local i j list=
    ((hosts > 24)) || return 0
    for ((i = 0; i <= hosts; i++)); do
        ((i)) && j=$((10 + i)) || j=1
        list+="neigh replace $NETWORK.$j lladdr $(net_address $i) nud permanent dev eth0"$'\n'
    done
    for ((i = 0; i <= hosts; i++)); do
        ((i)) && j=h$i || j=head
        net "$j" ip link set eth0 address "$(net_address $i)"
        nsenter -t "$(<"$dir/$j.pid")" --net ip -batch - <<<"$list" >/dev/null || cannot "host $j cannot be told the others' addresses"
    done
}

# net_address NUMBER: of the interface of a host; 0 is the head's.
net_address() {
    printf '02:00:0a:4d:00:%02x' "$1"
}

# Sets folder to the cluster's cgroup of one controller. Version 1 has a tree for each controller, version 2 one for all.
cluster_cgroup() {
    local controller=$1 option=$2
    folder=/sys/fs/cgroup
    if [[ -e $folder/$controller/tasks ]]; then
        folder+=/$controller
    elif ! { echo "+$controller" >$folder/cgroup.subtree_control; } 2>/dev/null; then
        cannot "$option: the $controller controller of $folder cannot be used here"
    fi
    folder+=/$CGROUP$name
    mkdir -p "$folder" 2>/dev/null || cannot "$option: cannot make cgroup $folder"
    grep -qsxF "$folder" "$dir/cgroup" || printf '%s\n' "$folder" >>"$dir/cgroup"
    [[ ! -e $folder/cgroup.subtree_control ]] || echo "+$controller" >"$folder/cgroup.subtree_control"
}

# Sets group to one host's cgroup in folder.
host_cgroup() {
    local host=$1 option=$2
    [[ -e $dir/$host.pid ]] || misused "$option: there is no host $host"
    group=$folder/$host
    mkdir -p "$group"
    grep -qsxF "$group" "$dir/$host.cgroup" || printf '%s\n' "$group" >>"$dir/$host.cgroup"
}

# A limit of the host's control group: file and text of version 2, then of version 1.
write_limit() {
    if [[ -e $group/$1 ]]; then
        echo "$2" >"$group/$1"
    else
        echo "$4" >"$group/$3"
    fi
}

limit_cpus() {
    local folder group part quota
    [[ $cpus ]] || return 0
    cluster_cgroup cpu --cpus
    for part in ${cpus//,/ }; do
        quota=$(awk -v cores="${part#*=}" 'BEGIN { printf "%d", cores * 100000 }')
        ((quota >= 1000)) || misused "--cpus: ${part%=*} gets at least 0.01 cores"
        host_cgroup "${part%=*}" --cpus
        write_limit cpu.max "$quota 100000" cpu.cfs_quota_us "$quota"
    done
}

limit_memory() {
    local folder group part
    [[ $memory ]] || return 0
    cluster_cgroup memory --memory
    for part in ${memory//,/ }; do
        host_cgroup "${part%=*}" --memory
        write_limit memory.max "${part#*=}" memory.limit_in_bytes "${part#*=}"
    done
}

up() {
    local host
    check_machine
    parse_up "$@"
    down_dead
    make_directory
    trap down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    write_files
    make_host head
    for host in $(host_names); do make_host "$host"; done
    connect_hosts
    introduce_hosts
    limit_cpus
    limit_memory
}

host_names() {
    sed -n 's/^.* \(h[0-9]*\)$/\1/p' "$dir/hosts"
}

# --- down -----------------------------------------------------------------------------------------

# Ends what runs on the hosts, first kindly, removes the rest, and keeps the exit code.
down() {
    local code=$? kept host i
    local -a groups
    trap '' INT TERM HUP
    disown -a # or bash tells of each process that is killed
    kept=" $(for host in "$dir"/*.pid; do holder "$(basename "$host" .pid)"; done | tr '\n' ' ')"
    signal_until_gone TERM 60 "$kept" || signal_until_gone KILL 100 "$kept" || true
    signal_until_gone KILL 100 "" || say "processes of cluster '$name' cannot be killed: $(processes | tr '\n' ' ')"
    if [[ -e $dir/cgroup ]]; then
        # The kernel takes a moment until a cgroup counts as empty.
        mapfile -t groups <"$dir/cgroup"
        for ((i = 0; i < 50; i++)); do
            find "${groups[@]}" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [[ $(find "${groups[@]}" -maxdepth 0 2>/dev/null) ]] || break
            sleep 0.1
        done
    fi
    rm -rf --one-file-system "$dir"
    return "$code"
}

# signal_until_gone SIGNAL TIMES EXCEPT: every 50 ms, to processes that come later, too.
signal_until_gone() {
    local i pid left
    for ((i = 0; i < $2; i++)); do
        left=
        for pid in $(processes); do
            [[ $3 == *" $pid "* ]] && continue
            left=1
            # Once is enough to ask; what was asked gets its time.
            [[ $1 != KILL && $i -gt 0 ]] || kill -"$1" "$pid" 2>/dev/null || true
        done
        [[ $left ]] || return 0
        sleep 0.05
    done
    return 1
}

# The clusters of this machine, as directories.
clusters() {
    find "${PREFIX%/*}" -mindepth 1 -maxdepth 1 -type d -uid 0 -path "$PREFIX*"
}

# Is the cluster in $dir one that nobody will take down?
is_dead() {
    local owner
    owner=$(cat "$dir/owner" 2>/dev/null) || return 1
    [[ $(start_time "${owner% *}") != "${owner#* }" ]]
}

down_dead() {
    local name dir
    for dir in $(clusters); do
        name=${dir#"$PREFIX"}
        is_dead || continue
        say "taking down '$name', whose script was killed"
        down
    done
}

down_all() {
    for dir in $(clusters); do
        name=${dir#"$PREFIX"}
        down
    done
}

list() {
    local dir state
    for dir in $(clusters); do
        state='till it is taken down'
        [[ ! -e $dir/owner ]] || state="while process $(cut -d ' ' -f 1 "$dir/owner") runs"
        ! is_dead || state='dead'
        printf '%s: %d hosts, %d processes, since %s, %s\n' "${dir#"$PREFIX"}" \
            "$(host_names | wc -l)" "$(processes | wc -l)" "$(stat -c %y "$dir/env" | cut -c 1-16)" "$state"
    done
}

# --- commands -------------------------------------------------------------------------------------

# Takes "--name NAME" off the arguments, and sets dir. What is left: arguments.
choose() {
    local -a all
    if [[ ${1-} == --name ]]; then
        name=${2-}
        shift 2
    else
        name=${CLUSTER_NAME-}
    fi
    arguments=("$@")
    if [[ ! $name ]]; then
        mapfile -t all < <(clusters)
        ((${#all[@]} == 1)) || misused "there are ${#all[@]} clusters (hosts.sh list): name one with --name"
        name=${all[0]#"$PREFIX"}
    fi
    dir=$PREFIX$name
    [[ $name =~ ^[A-Za-z0-9_-]+$ && -d $dir && -O $dir ]] || fail "there is no cluster '$name': see 'hosts.sh list'"
}

on() {
    (($# >= 2)) || misused "'on' takes a host and a command"
    exec "$dir/enter" "$@"
}

all() {
    local host code=0
    local -a pids=()
    (($#)) || misused "'all' takes a command"
    for host in $(host_names); do
        env --default-signal=INT,QUIT "$dir/enter" "$host" "$@" > >(sed -u "s/^/$host: /") 2>&1 </dev/null &
        pids+=($!)
    done
    trap 'kill "${pids[@]}" 2>/dev/null' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    for host in "${pids[@]}"; do
        wait "$host" || code=$?
    done
    trap - EXIT
    return "$code"
}

lose() {
    local host=${1-} network pid
    [[ $host =~ ^h[0-9]+$ && $(holder "$host") ]] || misused "'lose' takes a host that is there, not '$host'"
    network=$(readlink "/proc/$(holder "$host")/ns/net")
    # First the link, so that nothing gets out to say that a process has ended.
    net head ip link del "$host"
    mv "$dir/$host.pid" "$dir/$host.lost"
    for pid in $(processes); do
        [[ $(readlink "/proc/$pid/ns/net") != "$network" ]] || kill -KILL "$pid" 2>/dev/null || true
    done
}

with() {
    local -a options=()
    while (($#)) && [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    (($# >= 2)) || misused "'with' takes '--' and a command at its end"
    shift
    up "${options[@]}"
    # In the background, or traps would wait for its end; with what the background takes from a command.
    env --default-signal=INT,QUIT "$dir/enter" head "$@" <&0 &
    wait $!
}

(($#)) || misused "no command"
command=$1
shift
case $command in
    up)
        up "$@"
        trap - EXIT
        rm "$dir/owner"
        cat <<UP
cluster '$name' is up: head and $hosts hosts
    $0 on head mpirun -np $hosts hostname
    $0 down --name $name
UP
        ;;
    with) with "$@" ;;
    on | all | lose)
        choose "$@"
        "$command" "${arguments[@]}"
        ;;
    list) list ;;
    down)
        case ${1-} in
            --dead) down_dead ;;
            --all) down_all ;;
            *)
                choose "$@"
                ((!${#arguments[@]})) || misused "'${arguments[0]}' is no option of 'down'"
                down
                ;;
        esac
        ;;
    -h | --help) sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0" ;;
    *) misused "'$command' is no command" ;;
esac
