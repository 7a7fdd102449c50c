# penstock-run: the commands it makes (--dry-run), its refusals, exit codes and signals. What it does on many hosts
# and under Slurm is in tests/cluster.
. "$(dirname "$0")/lib.sh"
bin=$(dirname "$penstock")
"$penstock" synth data.zarr --samples 32 --videos 4 >/dev/null
penstock=$bin/penstock-run
unset PENSTOCK_RUN_DIR PENSTOCK_LIBRARY "${!SLURM_@}"

cat >run.yaml <<'YAML'
dataset: {uri: data.zarr}
batch: {global_size: 8}
order: {epochs: 2}
delivery: {trainers: 2}
YAML
printf '# two nodes\nn1 slots=4\n\nn2:2  # the second\nn1\n' >hosts

# One name for each of mpirun's options, whichever MPI this is.
if "$penstock" -c run.yaml --dry-run -- true | grep -q -- --bind-to; then
    mpi=openmpi ppn='--map-by ppr' hosts='--host n1:1,n2:1'
else
    mpi=hydra ppn='-ppn ' hosts='-hosts n1,n2'
fi

# commands LINES ARGUMENT...: what --dry-run prints for them in `out`, which is LINES lines beside exports, and
# nothing on standard error.
commands() {
    local lines=$1
    shift
    "$penstock" -c run.yaml --dry-run "$@" >out 2>err || fail "penstock-run --dry-run $*: $(cat err)"
    [ ! -s err ] || fail "--dry-run $*: says $(cat err)"
    [ "$(grep -vc '^export ' out)" -eq "$lines" ] || fail "--dry-run $*: not $lines lines: $(cat out)"
}

# What penstock-run needs, and nothing of Slurm.
mkdir bare
for program in awk bash cat dirname env flock grep mktemp readlink realpath sed setpriv sh tr uname wc; do ln -s "$(type -P $program)" bare; done
# A program that stands in PATH under the name of torchrun, so that where it stands in the command can be seen.
mkdir path
printf '#!/bin/sh\necho torchrun "$@"; exit 9\n' >path/torchrun
chmod +x path/torchrun

commands 1 -- python3 'a b.py' --flag
contains "$(cat out)" " -- $(command -v python3) a\\ b.py --flag"
[[ $(cat out) != *"$ppn"* ]] || fail "options for several nodes on one: $(cat out)"
commands 1 --readers-per-node=3 -- true
contains "$(cat out)" " 3 "

for where in "--hosts n1,n2" "--hosts=n1:8,n2,n1" "--hostfile hosts"; do
    # shellcheck disable=SC2086
    commands 1 $where -- true
    contains "$(cat out)" "$hosts"
    contains "$(cat out)" "$ppn"
done
# Lists as people write them, and other systems.
printf '\357\273\277n1 slots=4\r\n\r\nn2\tslots=2 # the second\r\n' >windows
printf 'n1, n2\n' >commas
for where in "--hosts=n1, n2" "--hosts= n1:4 n2" $'--hosts=\tn1,\r\nn2,,' --hostfile=windows --hostfile=commas; do
    commands 1 "$where" -- true
    contains "$(cat out)" "$hosts"
done
for name in ::1 fd00::2 '[fd00::2]:4'; do
    refuses 4 "': mpirun takes no IPv6 addresses; give the host a name" -c run.yaml --hosts "n1,$name" -- true
done
refuses 4 "'me@n1' is no name of a host" -c run.yaml --hosts me@n1 -- true
# Names that Open MPI 4 refuses or crashes at, and no ssh where no other machine is to be reached.
if [[ $mpi == openmpi && $("${PENSTOCK_MPIEXEC:-mpiexec}" --version 2>&1) =~ "(Open MPI) 4"|OpenRTE ]]; then
    for name in gpu_node_1 "$(printf 'a%.0s' {1..64})"; do
        printf '#!/bin/sh\necho %s\n' "$name" >path/uname
        chmod +x path/uname
        PATH=$PWD/path:$PATH commands 1 -- true
        contains "$(cat out)" 'PMIX_MCA_preg=\^native '
        contains "$(cat out)" "--mca regx naive --mca plm isolated"
        PATH=$PWD/path:$PATH commands 1 --hosts "localhost,$name" -- true
        contains "$(cat out)" "--mca regx naive --mca plm isolated"
        PATH=$PWD/path:$PATH commands 1 --hosts "$name,n2" -- true
        [[ $(cat out) == *"--mca regx naive "* && $(cat out) != *isolated* ]] || fail "hosts $name,n2: $(cat out)"
        rm path/uname
    done
    # Nor where mpirun may have hosts that are not named here.
    PBS_NODEFILE=hosts commands 1 -- true
    ! grep isolated out || fail "no ssh in a job of PBS"
    commands 1 --launcher-options '-H n1,n2' -- true
    ! grep isolated out || fail "no ssh with hosts of mpirun's"
fi
commands 1 --hosts n1,n2,n3 --nodes 2 --readers-per-node 2 -- true
contains "$(cat out)" " 4 "
[[ $(cat out) != *n3* ]] || fail "--nodes 2 takes a third: $(cat out)"
if [ $mpi = openmpi ]; then
    # By name, so that no secret is on a command line; not what describes this machine.
    PENSTOCK_ORDER_SEED=4 AWS_SECRET_ACCESS_KEY=hush https_proxy=p:1 NCCL_DEBUG=INFO TMPDIR=/tmp SSH_TTY=/dev/tty \
        commands 1 --hosts n1,n2 -- true
    for name in PENSTOCK_ORDER_SEED AWS_SECRET_ACCESS_KEY https_proxy NCCL_DEBUG PATH; do
        contains "$(cat out)" "-x $name "
    done
    [[ $(cat out) != *hush* ]] || fail "a secret on a command line: $(cat out)"
    [[ $(cat out) != *TMPDIR* && $(cat out) != *SSH_TTY* ]] || fail "what is this machine's goes to others: $(cat out)"
fi

# 1,024 nodes that nobody has: by a file, and as Slurm lists them.
for ((i = 1; i <= 1024; i++)); do printf 'node%04d slots=8\n' $i; done >many
printf '#!/bin/sh\n[ "$*" = "show hostnames node[0001-1024]" ] && cut -d" " -f1 many\n' >path/scontrol
printf '#!/bin/sh\n' >path/srun
chmod +x path/scontrol path/srun
# many_nodes LINES EACH ARGUMENT...: of so many lines two have all nodes in order, the first with EACH processes.
many_nodes() {
    local each=$2
    PATH=$PWD/path:$PATH commands "$1" --set batch.global_size=8192 "${@:3}"
    [ "$(grep -c 'node0001.*node0512.*node1024' out)" -eq 2 ] || fail "${*:3}: $(cut -c 1-400 out)"
    [ "$(grep -o 'node[0-9]\{4\}' out | sort -u | wc -l)" -eq 1024 ] || fail "${*:3}: not 1,024 nodes"
    contains "$(cat out)" " node0001$each,node0002$each,node0003$each,"
}
slots=:1
[ $mpi = openmpi ] || slots=''
many_nodes 3 "$slots" --hostfile many --torchrun 8 -- train.py
contains "$(cat out)" "delivery.trainers=8192 "
contains "$(cat out)" " --nnodes=1024 "
many_nodes 4 "${slots/1/2}" --hostfile many --readers-per-node 2 --restarts 3 --set delivery.trainers=1024 -- true
contains "$(cat out)" " 2048 "
export SLURM_JOB_ID=7 SLURM_JOB_NODELIST='node[0001-1024]'
many_nodes 3 "$slots" --launcher mpirun --torchrun 8 -- train.py
PATH=$PWD/path:$PATH commands 3 --set batch.global_size=8192 --launcher srun --torchrun 8 -- train.py
[ "$(grep -c -- '--nodes=1024 --ntasks=1024 --ntasks-per-node=1' out)" -eq 2 ] || fail "srun on 1,024 nodes: $(cat out)"
contains "$(cat out)" "--rdzv-endpoint=node0001:2"
PATH=$PWD/path:$PATH commands 3 --set batch.global_size=8000 --launcher srun --nodes 1000 --torchrun 8 -- train.py
contains "$(cat out)" "--nodelist=node0001,node0002,"
[[ $(cat out) != *node1001* ]] || fail "--nodes 1000 takes more"
unset SLURM_JOB_ID SLURM_JOB_NODELIST
rm path/scontrol path/srun many

commands 1 --set order.seed=3 --set 'dataset.fields.a=b[c]' --report r.json -q --launcher-options '--x 1' -- true
contains "$(cat out)" '--set order.seed=3 --set dataset.fields.a=b\[c\] '
contains "$(cat out)" '--report r.json --quiet'
contains "$(cat out)" " --x 1 "

commands 1 --no-trainers
contains "$(grep ^export out)" PENSTOCK_RUN_DIR=/tmp/penstock-
PENSTOCK_RUN_DIR=/tmp/mine// commands 1 --no-trainers
contains "$(cat out)" "delivery.run_dir=/tmp/mine "
# shellcheck disable=SC1003
commands 1 --no-trainers --set 'delivery.run_dir=/tmp/your "own"\x\/'
contains "$(grep ^export out)" 'PENSTOCK_RUN_DIR=/tmp/your\ \"own\"\\x\\ '

(
    PATH=$PWD/path:$PATH
    commands 3 --torchrun 4 -- train.py --lr 1
    contains "$(cat out)" "$PWD/path/torchrun --nproc-per-node=4 --standalone train.py --lr 1"
    commands 3 --torchrun 4 --hosts n1,n2 -- train.py
    contains "$(cat out)" "delivery.trainers=8"
    contains "$(cat out)" "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=n1:2"
    refuses 4 "--torchrun 4 on 2 nodes starts 8 trainers" -c run.yaml --torchrun 4 --hosts n1,n2 --set delivery.trainers=4 -- train.py
    PENSTOCK_DELIVERY_TRAINERS=2 refuses 4 "'PENSTOCK_DELIVERY_TRAINERS=2', but --torchrun 4 on 1 node starts 4 trainers" -c run.yaml --torchrun 4 -- train.py
    commands 3 --torchrun 2 --hosts n1,n2 --set delivery.trainers=4 -- train.py
    commands 3 --torchrun 4 --hosts n1,n2 -- train.py
    [ "$(grep -c -- "$hosts" out)" -eq 2 ] || fail "torchrun is not started on both hosts: $(cat out)"
    # Steps of a Slurm job; srun is not called. Names of nodes are not needed with trainers of the readers.
    ln -s /bin/true path/srun
    SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=3 commands 1 --readers-per-node 2 --launcher srun -- true
    contains "$(cat out)" "--overlap"
    contains "$(cat out)" "--nodes=3 --ntasks=6 --ntasks-per-node=2"
    SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=3 commands 1 --launcher mpirun -- true
    contains "$(cat out)" "export SLURM_OVERLAP=1"
    contains "$(cat out)" "$ppn"
    rm path/srun
    for more in "" "--torchrun 2"; do
        # shellcheck disable=SC2086
        PATH=$PWD/path:$PWD/bare SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 refuses 4 "for a run on this machine alone unset SLURM_JOB_ID" -c run.yaml $more -- true
    done
    SLURM_JOB_ID=7 refuses 4 "leave --hosts and --hostfile away" -c run.yaml --hosts n1 -- true
) || exit 1

# Supervised: trainers are a step of their own, each with a keeper, and learn where readers are.
commands 4 --restarts 5 -- python3 'a b.py'
contains "$(cat out)" "--set delivery.reconnect_timeout=600 --supervised"
contains "$(cat out)" "penstock-run --keep 5 2 2 localhost 2"
contains "$(cat out)" " $(command -v python3) a\\ b.py"
contains "$(cat out)" "# watched; the first is started again up to 5 times"
commands 4 --restarts 5 --set delivery.reconnect_timeout=30 --hosts n1,n2,n3 -- true
contains "$(cat out)" "--set delivery.reconnect_timeout=30 --set delivery.run_dir="
contains "$(cat out)" "--keep 5 1 2 n1 2" # two trainers on two of the three hosts
commands 2 --restarts 5 --no-trainers
echo '{}' >state.json
commands 4 --restarts 5 --state state.json -- true
contains "$(cat out)" "PENSTOCK_STATE_FILE=$PWD/state.json"
contains "$(cat out)" "--resume state.json"
commands 1 --state later.json -- true
[[ $(cat out) != *--resume* ]] || fail "resumes from a state that is not there yet: $(cat out)"
refuses 4 "leave --resume away" -c run.yaml --resume state.json --state state.json -- true
refuses 1 "there is no folder for the state 'no/state.json'" -c run.yaml --state no/state.json -- true
refuses 4 "whole number" -c run.yaml --restarts many -- true

refuses 4 "give one with -c run.yaml" -- true
refuses 1 "cannot read the configuration 'not.yaml'" -c not.yaml -- true
refuses 4 "penstock-run: error: --set order.sed=1: unknown key 'order.sed': did you mean 'order.seed'?" -c run.yaml --set order.sed=1 -- true
refuses 1 "no program 'not-there'" -c run.yaml -- not-there
refuses 4 "behind -c" run.yaml
refuses 4 "put their command behind --" -c run.yaml
refuses 4 "goes with no trainer command" -c run.yaml --no-trainers -- true
refuses 4 "'--host' is no option" -c run.yaml --host n1 -- true
refuses 4 "'--nodes' is no option, or needs a value" -c run.yaml --nodes
refuses 4 "whole number" -c run.yaml --readers-per-node numa -- true
refuses 4 "exclude each other" -c run.yaml --hosts a --hostfile hosts -- true
refuses 1 "cannot read the host file 'no'" -c run.yaml --hostfile no -- true
refuses 4 "names no host" -c run.yaml --hostfile /dev/null -- true
refuses 4 "there are only 2" -c run.yaml --hosts a,b --nodes 3 -- true
refuses 4 "this is none: use salloc or sbatch" -c run.yaml --launcher srun -- true
refuses 1 "for a run from the start leave --resume away" -c run.yaml --resume no.json -- true
(PATH=/usr/bin:/bin && command -v torchrun >/dev/null) ||
    PATH=/usr/bin:/bin refuses 1 "torchrun is not in PATH" -c run.yaml --torchrun 2 -- t.py
OMPI_COMM_WORLD_SIZE=2 refuses 4 "start penstock-run alone" -c run.yaml -- true
SLURM_STEP_NUM_TASKS=4 refuses 4 "has started it 4 times" -c run.yaml -- true
PENSTOCK_MPIEXEC=/no/mpirun refuses 1 "'/no/mpirun'" -c run.yaml -- true

help=$("$penstock" --help)
contains "$help" "Usage: penstock-run"
[ "$help" = "$("$penstock" -h)" ] || fail "-h is not --help"
[[ $("$penstock" --version) =~ ^penstock-run\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version"

# Another MPI's mpirun, as the reader sees it.
other=PMI_SIZE
[ $mpi = openmpi ] || other=OMPI_COMM_WORLD_SIZE
if env $other=2 timeout 60 "$bin/penstock-reader" -c run.yaml -- true 2>err; then fail "a world of its own is accepted"; fi
contains "$(cat err)" "has started 2 processes, but MPI knows of this one alone"

# A trainer whose keeper has died before the trainer begins does not begin, and a keeper whose launcher has died starts
# none: neither may take the batches of those that are started in their places.
mkdir slow
cat >slow/setpriv <<'SH'
#!/bin/sh
case "$*" in *"--pdeathsig KILL"*) echo $$ >forked.new; mv forked.new forked; until [ -e dead ]; do sleep 0.01; done ;; esac
exec /usr/bin/setpriv "$@"
SH
chmod +x slow/setpriv
PATH=$PWD/slow:$PATH PMI_RANK=0 "$penstock" --keep 1 1 1 localhost 1 touch strayed &
until [ -e forked ]; do sleep 0.01; done
kill -KILL $!
wait $! || touch dead
while kill -0 "$(cat forked)" 2>/dev/null; do sleep 0.01; done
[ ! -e strayed ] || fail "a trainer begins after its keeper has died"
(
    # shellcheck disable=SC2016
    PMI_RANK=0 bash -c 'while (($(ps -o ppid= -p $$) == $0)); do sleep 0.01; done
        ps -o ppid= -p $$ >adopter; exec "$@"' "$BASHPID" "$penstock" --keep 1 1 1 localhost 1 touch strayed &
    echo $! >orphan
)
while kill -0 "$(cat orphan)" 2>/dev/null; do sleep 0.01; done
(($(cat adopter) != 1)) || [ ! -e strayed ] || fail "a keeper starts a trainer after its launcher has died"

# Runs: one command for readers that start trainers, two for trainers that are started beside them.
digests() {
    cut -d ' ' -f 1,2,4,5 digest.* | sort -n
    rm digest.*
}
# The first one's configuration comes by environment alone. It is started by another run's trainer, and takes nothing of that run.
mkdir outer
touch outer/cursor-1-0
PENSTOCK_STARTED_BY=n1-9-3 PENSTOCK_RUN_DIR=$PWD/outer PENSTOCK_CURSORS=$PWD/outer/cursor-1- PENSTOCK_STATE=no.json PENSTOCK_DATASET_URI=data.zarr PENSTOCK_BATCH_GLOBAL_SIZE=8 PENSTOCK_ORDER_EPOCHS=2 PENSTOCK_DELIVERY_TRAINERS=2 \
    timeout 60 "$penstock" -q -- penstock-trainer --digest 'digest.{rank}' || fail "a run fails with $?"
[ -e outer/cursor-1-0 ] || fail "a run within another removes that one's cursors"
digests >one
[ "$(wc -l <one)" -eq 64 ] || fail "a run delivers $(wc -l <one) samples, not 64"

commands 1 --readers-per-node 2 -q --set order.placement=fixed -- "$bin/penstock-trainer" --digest 'digest.{rank}'
timeout 60 bash out || fail "the commands of --dry-run fail with $?"
digests | cmp - one || fail "the commands of --dry-run deliver something else"

# What torchrun does, as far as penstock-run is concerned: N processes with their ranks in the environment.
cat >path/torchrun <<'SH'
#!/bin/bash
n=${1#--nproc-per-node=} && shift 2
trap 'kill $(jobs -p); wait; exit 1' TERM
for ((i = 0; i < n; i++)); do
    RANK=$i WORLD_SIZE=$n LOCAL_RANK=$i LOCAL_WORLD_SIZE=$n "$@" &
done
for ((i = 0; i < n; i++)); do wait -n || exit; done
SH
run_torchrun() {
    PATH=$PWD/path:$PATH timeout 60 "$penstock" -c run.yaml -q --torchrun 2 "$@"
}
run_torchrun -- "$bin/penstock-trainer" --digest 'digest.{rank}' || fail "with torchrun: $?"
digests | cmp - one || fail "torchrun's trainers get something else"

# no_process MARK: what penstock-run has started, known by a word in its environment, is gone.
no_process() {
    local i
    for ((i = 0; i < 600; i++)); do
        grep -qs "$1" /proc/[0-9]*/environ || return 0
        sleep 0.1
    done
    fail "left behind: $(grep -ls "$1" /proc/[0-9]*/environ)"
}
mark=TEST_LAUNCH_MARK=$$-$RANDOM

PATH="$PWD/path:$PATH" commands 4 --torchrun 2 --restarts 3 -- train.py
contains "$(cat out)" "--max-restarts=3"

# Each side's failure ends the other; the first one's code is the whole's. All of these at a time, as readers that wait for trainers may take 10 s.
# fails NAME ARGUMENT...: a run of two trainers of torchrun; what it says in err.NAME, how it ends in code.NAME.
fails() {
    local code=0
    env "$mark" PATH="$PWD/path:$PATH" timeout 60 "$penstock" -c run.yaml -q --torchrun "${@:2}" 2>"err.$1" || code=$?
    echo $code >"code.$1"
}
fails seven 2 -- sh -c 'exit 7' &
[ $mpi = hydra ] || fails unconnected 2 -- true & # trainers that never connect are not waited for
fails readers 2 --set dataset.uri=no.zarr -- "$bin/penstock-trainer" &
fails late 1 --set dataset.uri=no.zarr --set delivery.grace=1 -- sh -c 'sleep 9; touch saved' &
wait
[ "$(cat code.seven)" -eq 7 ] || fail "trainers' exit code 7 comes out as $(cat code.seven): $(cat err.seven)"
[[ $(tail -n 1 err.seven) == "penstock-run: error: the trainers' step ended with exit code 7; what the script printed is above" ]] ||
    fail "no cause is named: $(cat err.seven)"
! grep -q 'mpi\|^---' err.seven || fail "mpirun's own words beside the cause: $(cat err.seven)"
if [ $mpi = openmpi ]; then
    [ "$(cat code.unconnected)" -eq 4 ] || fail "trainers that end well without connecting make it $(cat code.unconnected): $(cat err.unconnected)"
    contains "$(tail -n 1 err.unconnected)" "ended with exit code 0, and not all trainers had connected"
fi
[ "$(cat code.readers)" -eq 1 ] || fail "the reader's exit code 1 comes out as $(cat code.readers): $(cat err.readers)"
contains "$(cat err.readers)" "no.zarr"
[ "$(cat code.late)" -ne 0 ] || fail "a run without its dataset succeeds"
[ ! -e saved ] || fail "trainers have more than delivery.grace"
no_process "$mark"

# Started by a script in the background, it would ignore SIGINT for ever. After SIGKILL nobody is there to end the rest.
for signal in INT TERM KILL; do
    env --default-signal=INT "$mark" PATH="$PWD/path:$PATH" "$penstock" -c run.yaml -q --torchrun 2 \
        --set order.epochs=100000 -- "$bin/penstock-trainer" --compute-ms 20 --digest digest 2>err &
    launcher=$!
    for ((i = 0; i < 300; i++)); do
        [ ! -s digest ] || break
        sleep 0.1
    done
    [ -s digest ] || fail "nothing is delivered: $(cat err)"
    kill -$signal $launcher
    code=0
    wait $launcher || code=$?
    [ "$code" -eq $((128 + $(kill -l $signal))) ] || fail "SIG$signal ends it with $code: $(cat err)"
    [ $signal = KILL ] || contains "$(cat err)" "penstock-run: stopped by SIG$signal: readers and trainers end"
    no_process "$mark"
    rm -f digest
done

# What is first in PATH is started, and found by what that starts, whatever mpiexec puts in front.
mkdir -p venv/bin
cat >venv/bin/penstock-trainer <<SH
#!/bin/bash
echo "\$PATH" >>'$PWD/paths'
echo "libraries \${LD_LIBRARY_PATH-none}, \${PENSTOCK_PATH-none}" >>'$PWD/paths'
exec '$bin/penstock-trainer' "\$@"
SH
chmod +x venv/bin/penstock-trainer
same_path() {
    local mine
    mine=$(printf '%s\n%s' "$PWD/venv/bin:$PATH" "libraries ${LD_LIBRARY_PATH-none}, none")
    [ "$(sort -u paths)" = "$(sort -u <<<"$mine")" ] || fail "$1: trainers have not this PATH: $(sort -u paths)"
    rm paths
}
for way in "-- penstock-trainer" "--restarts 2 -- penstock-trainer" "--torchrun 2 -- $PWD/venv/bin/penstock-trainer"; do
    # shellcheck disable=SC2086
    PATH=$PWD/venv/bin:$PATH:$PWD/path timeout 60 "$penstock" -c run.yaml -q $way >log 2>&1 || fail "$way: $(cat log)"
    PATH=$PATH:$PWD/path same_path "penstock-run $way"
done
if [ $mpi = openmpi ]; then # the same of mpirun itself, called by a name with a slash
    mpirun=$("$penstock" -c run.yaml --dry-run -- true | grep -o '^[^ ]*mpi[^ ]* ' | head -n 1)
    PATH=$PWD/venv/bin:$PATH timeout 60 $mpirun --allow-run-as-root -np 1 "$bin/penstock-reader" -c run.yaml -q \
        -- penstock-trainer >log 2>&1 || fail "mpirun: $(cat log)"
    same_path mpirun
fi

# The cause is the last line, and is there once; mpirun's own words are there with --verbose, or when there are no others.
last() {
    code=0
    timeout 60 "$penstock" -c run.yaml -q "${@:3}" >log 2>&1 || code=$?
    [ "$code" -eq "$1" ] || fail "penstock-run ${*:3}: exit code $code, not $1: $(cat log)"
    [[ $(tail -n 1 log) == *$2* && $(grep -cF -- "$2" log) -eq 1 ]] || fail "'$2' is not the last line, once: $(cat log)"
}
words='(mpiexec|prterun) detected that|BAD TERMINATION'
# With --log json the readers' lines and penstock-run's own are objects, sieved or not; and what --trace wrote is a trace.
last 4 '"level":"error","rank":0,' --log json -- sh -c 'echo own words >&2; exit 7'
contains "$(cat log)" "own words"
[[ ! $(cat log) =~ $words|"non-zero" ]] || fail "mpirun's words beside objects: $(cat log)"
timeout 60 "$penstock" -c run.yaml --log json --trace trace.json -- penstock-trainer >log 2>&1 || fail "--log json: $(cat log)"
python3 - <<'PY' || fail "--log json, --trace: $(cat log)"
import json
told = [json.loads(line) for line in open("log") if line.startswith("{")]
assert {"epoch 0 delivered: 32 samples" in line["message"] for line in told} == {True, False}, told
trace = json.load(open("trace.json.0"))
names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
assert {"main", "worker-0", "round-0"} <= names, names
PY
timeout 60 "$penstock" --log json -- true >log 2>&1 && fail "no configuration is an error"
python3 -c 'import json, sys; [line] = sys.stdin; line = json.loads(line); assert line["program"] == "penstock-run" and \
    line["level"] == "error" and line["message"].startswith("no configuration"), line' <log || fail "an object of its own: $(cat log)"
timeout 60 "$penstock" -c run.yaml --log xml -- true >log 2>&1 && fail "--log xml is an error"
contains "$(cat log)" "--log 'xml': neither text nor json"
last 4 "error: reader 0 on " -- sh -c 'echo own words >&2; exit 7'
contains "$(cat log)" "own words"
[[ ! $(cat log) =~ $words|"non-zero" ]] || fail "mpirun's words: $(cat log)"
last 1 "no.zarr" --set dataset.uri=no.zarr -- true
[ "$(wc -l <log)" -eq 1 ] || fail "more than the cause: $(cat log)"
timeout 60 "$penstock" -c run.yaml -q --verbose -- false >log 2>&1 || true
# Open MPI 5 has no words for a process that ends MPI and exits with another code than 0.
[ $mpi = hydra ] || [[ $($mpirun --version) =~ "Open MPI) "[5-9] || $(cat log) =~ $words ]] || fail "mpirun's words are not there: $(cat log)"
# shellcheck disable=SC2016
timeout 60 "$penstock" -c run.yaml -q -- sh -c 'kill -KILL $PPID; exec sleep 9' >log 2>&1 && fail "a killed reader is no failure"
[[ $(cat log) =~ "signal 9" ]] || fail "nothing says that the reader was killed: $(cat log)"

# What runs that are dead have left of this user's goes with the next start, by its names; not what is locked, or a link.
mkdir -p tmp/penstock-{dead,dead.val,dead.2,alive,empty} tmp/elsewhere kept
printf '%s\n' "$PWD/tmp/penstock-"{dead,dead.val,none,empty} "$PWD/kept" >tmp/penstock-dead/penstock-run.lock
echo "$PWD/tmp/penstock-alive" >tmp/penstock-alive/penstock-run.lock
echo "$PWD/tmp/penstock-link" >tmp/elsewhere/penstock-run.lock
ln -s elsewhere tmp/penstock-link
: >tmp/penstock-empty/penstock-run.lock
exec {alive}>>tmp/penstock-alive/penstock-run.lock
flock "$alive"
# A trainer killed after its goodbye, when the readers have left: its next process hears of the end, and is the last.
# The folders of its run are locked, and have their names in them.
# shellcheck disable=SC2016
code=0
TMPDIR=$PWD/tmp timeout 60 "$penstock" -c run.yaml -q --restarts 3 -- sh -c "$bin/penstock-trainer || exit
    cat \$PENSTOCK_RUN_DIR/penstock-run.lock >>$PWD/names; flock -n \$PENSTOCK_RUN_DIR/penstock-run.lock true || echo locked >>$PWD/names
    [ \$RANK = 0 ] || exit 0; while [ -e \$PENSTOCK_RUN_DIR/reader-0.sock ]; do sleep 0.05; done && kill -KILL \$\$" >log 2>&1 || code=$?
contains "$(cat log)" "all epochs are consumed, and the readers have left"
contains "$(cat log)" "(SIGKILL), after 1 of 3 restarts, and after all batches were delivered"
[ "$code" -eq 1 ] || fail "a trainer killed after the end: exit code $code: $(cat log)"
exec {alive}>&-
[ "$(cd tmp && echo * ../kept)" = "elsewhere penstock-alive penstock-dead.2 penstock-empty penstock-link ../kept" ] || fail "leftovers: $(ls tmp)"
grep -qx locked names && grep -qx '/tmp/penstock-[0-9-]*' names || fail "the folders of a run are not marked: $(cat names)"
while read -r folder; do [ ! -e "$folder" ] || fail "$folder is left"; done <names

# What is kept back is no more than that: halves of lines and lines of dashes come as they are, at once.
sieve=$bin/../libexec/penstock/penstock-sieve
dashes=$(printf '%074d' 0 | tr 0 -)
# fed PIECE OUTPUT...: each piece goes in when all that the ones before say has come out.
fed() {
    rm -f pieces
    mkfifo pieces
    "$sieve" $$ <pieces 2>all &
    exec {writer}>pieces
    while (($#)); do
        printf "$1" >&$writer
        for ((i = 0; i < 600; i++)); do
            [ "$(cat all)" != "$(printf "$2")" ] || break
            sleep 0.1
        done
        ((i < 600)) || fail "after '$1': $(cat all)"
        shift 2
    done
    exec {writer}>&-
    wait $!
}
before="10%%|#\\r20%%|##\\n$dashes\\ntitle\\n$dashes\\n"
fed '10%%|#' '10%%|#' \
    "\\r20%%|##\\n$dashes\\ntitle\\n$dashes\\npenstock-reader: error: the cause\\n$dashes\\nPrimary job  terminated normally, but 1 process\\nmore\\n$dashes\\npen" \
    "${before}pen" 'stock\nlast' "${before}penstock\\nlast"
[ "$(cat all)" = "$(printf '10%%|#\r20%%|##\n%s\ntitle\n%s\npenstock\nlastpenstock-reader: error: the cause\n' "$dashes" "$dashes")" ] ||
    fail "sieved: $(cat all)"

# Behind a progress bar, which has no end of line, the cause and what asks for it begin a line of their own.
fed '50%%|##' '50%%|##' 'penstock-reader: error: one\nnext\n60%%|#' '50%%|##\nnext\n60%%|#' '\036\nlast\n' \
    '50%%|##\nnext\n60%%|#\npenstock-reader: error: one\nlast'
[ "$(cat all)" = \
    "$(printf '50%%|##\nnext\n60%%|#\npenstock-reader: error: one\nlast')" ] || fail "behind a progress bar"
# sieved BLOCK LINE...: what comes out of LINE... and mpirun's words BLOCK.
sieved() {
    { printf '%s\n' "${@:2}" && printf '%s\n%s\n%s\n' "$dashes" "$1" "$dashes"; } | "$sieve" $$ 2>&1
}
noticed='mpiexec noticed that process rank 1 with PID 7 on node n1 exited on signal 9 (Killed).'
for line in "penstock-reader: stopped by SIGTERM" "penstock-reader: all trainers are there again after 2.00 s" \
    "Traceback (most recent call last):" "penstock-run: trainer 1 on n1 ended with exit code 1: restart 1 of 2"; do
    contains "$(sieved "$noticed" "$line")" "$noticed"
done
for line in "penstock-reader: error: the cause" "penstock-reader: stopped by SIGINT, in good order, before epoch 1 step 2" \
    "penstock-reader: asked to end by SIGUSR2, in good order, before epoch 1 step 2" \
    "penstock-run: trainer 1 on n1 ended with exit code 1, after 2 of 2 restarts"; do
    [ "$(sieved "$noticed" "$line")" = "$line" ] || fail "mpirun's words stand beside '$line': $(sieved "$noticed" "$line")"
done
# Objects of --log json are judged as the text that they stand for, and stay whole, also behind a progress bar.
object() {
    printf '{"program":"penstock-reader","time":"2026-01-31T12:00:00.123Z","level":"%s","rank":0,"host":"n1","message":"%s"}' "$1" "$2"
}
cause=$(object error "reader 1 on n1: '\\\"level\\\":' is no option $(printf '%03000d' 0)")
[ "$(sieved "$noticed" "$cause" "$(object info epoch)")" = "$(printf '%s\n' "$(object info epoch)" "$cause")" ] ||
    fail "an object with the cause: $(sieved "$noticed" "$cause" "$(object info epoch)")"
named=$(object info "stopped by SIGINT, in good order, before epoch 1 step 2")
[ "$(sieved "$noticed" "$named")" = "$named" ] || fail "mpirun's words stand beside an object that names the cause"
for line in "$(object warning 'error: of a store')" '{' '{"program":"mine","level":"error","message":"none of ours"}'; do
    [[ $(sieved "$noticed" "$line") == "$line"*"$noticed"* ]] || fail "kept back: $line: $(sieved "$noticed" "$line")"
done
cause=$(object error "the cause")
fed '50%%|##' '50%%|##' "${cause}\\nnext\\n" '50%%|##\nnext'
[ "$(cat all)" = "$(printf '50%%|##\nnext\n%s' "$cause")" ] || fail "an object behind a progress bar: $(cat all)"

# A cause that penstock-run names counts, too; and of a good run launchers have nothing to tell.
for line in "penstock-run: error: the trainers' step ended" \
    '{"program":"penstock-run","time":"2026-01-31T12:00:00.123Z","level":"error","host":"n1","message":"the trainers"}'; do
    [ "$(sieved "$noticed" "$line")" = "$line" ] || fail "mpirun's words stand beside '$line': $(sieved "$noticed" "$line")"
done
orte='[n1:7] [[9,0],0] ORTE_ERROR_LOG: Out of resource in file x.c at line 3'
contains "$({ echo "$orte"; sieved "$noticed" last; } 2>&1)" "$orte"
[ "$(printf '%s\nlast\n\036\036\n' "$orte" | "$sieve" $$ 2>&1)" = last ] || fail "mpirun's words after a good run"

for line in "srun: error: n1: task 1: Out Of Memory" "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***"; do
    contains "$(sieved "$noticed" "$line" "penstock-reader: error: another")" "$line"
done

# What ends all processes of a job at once leaves the last words; SIGUSR1 ends the sieve with its input open.
mkfifo words
"$sieve" $$ <words 2>heard &
exec {writer}>words
echo first >&$writer
until [ -s heard ]; do sleep 0.1; done
for signal in TERM INT HUP; do kill -$signal $!; done
sleep 0.3
printf 'penstock-reader: error: the cause\nlast\n' >&$writer
until grep -q last heard; do kill -0 $! || fail "SIGTERM ends the sieve: $(cat heard)" && sleep 0.1; done
kill -USR1 $!
wait $! || fail "SIGUSR1 ends the sieve with $?"
exec {writer}>&-
[ "$(cat heard)" = "$(printf 'first\nlast\npenstock-reader: error: the cause')" ] || fail "after SIGTERM: $(cat heard)"

# A socket whose peer is gone is nobody who reads, too.
python3 - "$sieve" <<'PY' || fail "a socket whose peer is gone"
import signal, socket, subprocess, sys
ours, theirs = socket.socketpair()
watcher = subprocess.Popen(["sleep", "20"])
sieve = subprocess.Popen([sys.argv[1], str(watcher.pid)], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs)
theirs.close()
ours.close()
code = watcher.wait()
sieve.communicate()
sys.exit(code != -signal.SIGPIPE)
PY

# Standard output and standard error may be closed.
code=0
timeout 60 "$penstock" -c run.yaml -q -- sh -c 'exit 7' >&- 2>&- || code=$?
[ "$code" -eq 4 ] || fail "closed outputs make it $code"

# Nothing is left in /tmp, whoever is killed, and whether or not anybody reads what is printed.
nothing_left() {
    no_process "$mark"
    [ ! -e "$PENSTOCK_RUN_DIR" ] || fail "$1 leaves $PENSTOCK_RUN_DIR: $(ls -A "$PENSTOCK_RUN_DIR")"
}
export PENSTOCK_RUN_DIR=$PWD/run_dir
forever=(--set order.epochs=100000 -- penstock-trainer --compute-ms 5)
# shellcheck disable=SC2016
env "$mark" timeout 60 "$penstock" -c run.yaml -q -- sh -c 'kill -KILL $PPID; exec sleep 9' >log 2>&1 || true
nothing_left "a killed reader"
code=0
{ env "$mark" timeout 60 "$penstock" -c run.yaml "${forever[@]}" 2>&1 || echo "$?" >code; } | grep -m1 '^plan' >log
[ "$(cat code)" -eq 141 ] || fail "nobody reads it: code $(cat code)"
nothing_left "a closed standard error"
{ env "$mark" timeout 60 "$penstock" -c run.yaml -q --restarts 2 "${forever[@]}" --json 2>log || echo "$?" >code; } | true
[ "$(cat code)" -eq 141 ] || fail "nobody reads it: code $(cat code): $(cat log)"
nothing_left "a closed standard output"

# ^C: the state is written to a new file, and the words that say so can be pasted; the state itself will do, too.
mkdir "it's here"
cd "it's here"
ln -s ../data.zarr ../run.yaml .
echo mine | tee run_dir.json >penstock-state-run_dir.json
env --default-signal=INT "$penstock" -c run.yaml -q "${forever[@]}" --digest digest.1 2>log &
launcher=$!
for ((i = 0; i < 300; i++)); do
    [ ! -s digest.1 ] || break
    sleep 0.1
done
refuses 1 "is alive already" -c run.yaml -q -- true # another run there, which leaves what is not its own
[ -S ../run_dir/reader-0.sock ] || fail "a run that is refused takes away another's sockets: $(ls ../run_dir)"
kill -INT $launcher
wait $launcher || true
unset PENSTOCK_RUN_DIR
[[ $(tail -n 1 log) == penstock-reader:* ]] || fail "words after the reader's: $(cat log)"
hint=$(sed -n 's/^penstock-reader: to go on there: //p' log)
state=penstock-state-run_dir-2.json
[ "$hint" = "--resume '$(sed "s/'/'\\\\''/g" <<<"$PWD/$state")'" ] && [ -s $state ] || fail "no state is named: $(cat log)"
[ "$(cat run_dir.json penstock-state-run_dir.json)" = "$(printf 'mine\nmine')" ] || fail "somebody's files are overwritten"
itself=$(sed -n 's/^penstock-reader: to go on there, where that file is not: //p' log)
[ "$itself" = "--resume '$(cat $state)'" ] || fail "the state itself is not there: $(cat log)"
for resume in "$hint" "$itself"; do
    eval "timeout 60 '$penstock' -c run.yaml --set order.epochs=100000 $resume -- penstock-trainer --steps 1 >log 2>&1" || true
    contains "$(cat log)" "goes on at epoch"
done
cd ..

# The supervisor alone, with stand-ins for both sides: supervise RESTARTS READERS TRAINERS (commands of sh) [DEFINITIONS
# (of bash, instead of its own)]; what it says in `err`.
supervise() {
    code=0
    # shellcheck disable=SC2016,SC2034
    timeout 60 bash -c '
        set -euo pipefail
        say() { printf "%s\n" "$*" >&"${said:-2}"; }
        fail() { say "$@"; exit 1; }
        make_readers() { :; }
        libexec=$0/../libexec/penstock
        . "$libexec/nodes.sh"
        . "$libexec/launchers.sh"
        sed "s/^readonly SILENCE=200 /readonly SILENCE=10 /" "$libexec/supervise.sh" >supervise.sh
        . ./supervise.sh
        eval "$4"
        launcher=none mpiexec=none run_dir=none scratch= chosen_dir= also=() grace=2 restarts=$1 node_count=1 host_list=() left_out= verbose=
        readers_input= trainer_hosts=()
        readers=(sh -c "$2") trainers=(sh -c "$3")
        run_commands' "$bin" "$1" "$2" "$3" "${4-}" >out 2>err || code=$?
}

# A signal that comes while the supervisor waits for its readers' words ends the run in one go, with the signal's code.
supervise 2 'sleep 1; kill -TERM $PPID; exec sleep 100' 'exec sleep 100' \
    'clean_up() { local x; echo begun >&"$user_out"; sleep 0.3 & x=$(sleep 0.2; sleep 0.2; sleep 0.2); echo "$x" >&"$user_out"; }'
[ "$code" -eq 143 ] || fail "SIGTERM to the supervisor makes it $code: $(cat out err)"
[ "$(grep -c begun out)" -eq 1 ] || fail "the supervisor cleans up more than once: $(cat out err)"

# So does one that comes while bash looks for the end of a $( ).
supervise 2 'exec sleep 100' 'exec sleep 100' 'pause() { local x; x="$(kill -TERM $$)$(:)"; sleep 1; }'
[ "$code" -eq 143 ] || fail "SIGTERM within \$( ) makes it $code: $(cat out err)"

# What readers say comes in pieces now and then.
supervise 2 '[ -e died ] || { touch died; exit 1; }; printf serv; sleep 0.4; echo ing epoch 3; sleep 0.3; echo served' 'sleep 2'
[ "$code" -eq 0 ] || fail "restarted readers end with $code: $(cat out err)"
contains "$(cat err)" "serving again, from epoch 3"

# Open MPI 5's mpirun ends with 0 when it has lost a node: that is no good end of the readers.
supervise 2 '[ ! -e lost ] || { echo served; exit 0; }; touch lost' 'until [ -e lost ]; do sleep .1; done; sleep 2'
[ "$code" -eq 0 ] || fail "a launcher that has lost a node makes it $code: $(cat out err)"
contains "$(cat err)" "ended as if all were well, but the readers have not come to their end"
contains "$(cat err)" "restart 1 of 2"
supervise '' 'echo "PRTE has lost communication with a remote daemon." >&2' 'sleep 1'
[ "$code" -eq 1 ] || fail "a lost node makes it $code: $(cat out err)"

# A launcher that hangs when its readers are gone is killed, once they have been heard of.
supervise 2 '[ ! -e hung ] || { echo served; exit 0; }; touch hung; echo alive; exec sleep 100' 'until [ -e hung ]; do sleep .1; done; sleep 3'
[ "$code" -eq 0 ] || fail "a launcher that hangs makes it $code: $(cat out err)"
contains "$(cat err)" "nothing was heard of the readers for 1 s"

# Trainers whose launcher is killed after the readers' good end are not started again.
supervise 2 'echo served; exit 0' 'sleep 1; kill -9 $$'
[ "$code" -eq 137 ] || fail "trainers killed at the end make it $code: $(cat out err)"
contains "$(cat err)" "nothing is lost"
[[ $(cat err) != *restart* ]] || fail "trainers are started again for nothing: $(cat err)"

# Nor do those stay that were started again just before that end, and look for readers: but those that readers had.
trainers='[ -e first ] || { touch first; kill -9 $$; }; touch second'
supervise 2 'until [ -e second ]; do sleep .1; done; echo served; exit 0' "$trainers; sleep 100"
[ "$code" -eq 137 ] || fail "trainers that nobody serves any more make it $code: $(cat out err)"
contains "$(cat err)" "nothing is lost"
rm first second
supervise 2 'until [ -e second ]; do sleep .1; done; echo gathered; echo served; exit 0' "$trainers; sleep 4"
[ "$code" -eq 0 ] || fail "trainers that were served and take their time make it $code: $(cat out err)"

# Trainers that leave early end the run with 3, whatever becomes of readers that srun kills when the first one has ended.
for trainers in true 'sleep 1'; do
    supervise 2 'echo early; exit 143' "$trainers"
    [ "$code" -eq 3 ] || fail "trainers that leave early make it $code: $(cat out err)"
    [[ $(cat err) != *restart* ]] || fail "readers are started again for nobody: $(cat err)"
done

# Readers that die when the trainers have had everything are not started again.
supervise 2 'sleep 1; exit 1' true
[ "$code" -eq 0 ] || fail "readers that die at the end make it $code: $(cat out err)"
contains "$(cat err)" "nothing is lost"
[[ $(cat err) != *restart* ]] || fail "readers are started again for nobody: $(cat err)"

# Only what is a run's own goes with it: of its directory, and that of a run of --also, files of readers that it has
# started, and its cursors; no other run's directory beside, no files of readers that were started by hand, no link.
mkdir run run.val run.2 hand elsewhere
for folder in run run.val run.2 hand elsewhere; do
    touch $folder/reader-0.{sock,metrics,trace} $folder/cursor-9-1-0
    printf '7\nn1-9-3\n' >$folder/reader-0.lock
done
printf '7\n' | tee hand/reader-0.lock run/reader-1.lock >run/reader-1.sock
printf '7\nn1-8-3\n' >run.2/reader-0.lock
touch run/cursor-8-1-0 hand/none-x
ln -s elsewhere link
# clear CHOSEN DIRECTORY [CURSORS]
clear() {
    supervise 0 true true "started_by=n1-9-3 cursors=${3-$PWD/run/cursor-9-1-}
        $(printf 'end_run() { chosen_dir=%s run_dir=%s also=(val=x.yaml); clean_up; exit; }' "$1" "$2")"
}
for folder in run run.2 link; do clear "" "$PWD/$folder"; done
clear "" "$PWD/hand" ""
[ -e hand/none-x ] || fail "a run without cursors takes a file of the user's"
[ "$(cd run && echo *)" = "cursor-8-1-0 reader-1.lock reader-1.sock" ] || fail "left of a run: $(ls run)"
[ ! -e run.val ] || fail "a run of --also is left: $(ls run.val)"
for folder in hand run.2 elsewhere; do
    [ "$(find $folder -name 'reader-0.*' | wc -l)" -eq 4 ] || fail "taken out of $folder: $(ls $folder)"
done
rm -r hand/* run/*
clear "" hand
[ -d hand ] || fail "a directory that was there before is gone"
clear 1 hand
[ ! -e hand ] || fail "a directory that the run has made is left"

# What MPICH's mpiexec leaves on this node in sessions of their own, when it is ended while it starts, ends with the run.
cp "$(command -v sleep)" hydra_pmi_proxy
printf '#!/bin/sh\n[ "$1" != --version ] || exec echo HYDRA\nsetsid ./hydra_pmi_proxy 100 &\necho $! >proxy; exec sleep 100\n' >mpiexec
chmod +x mpiexec
env "$mark" PENSTOCK_MPIEXEC="$PWD/mpiexec" "$penstock" -c run.yaml -q -- true >out 2>err &
run=$!
for ((i = 0; i < 300; i++)); do
    [[ $(cat "/proc/$(cat proxy 2>/dev/null)/comm" 2>/dev/null) != hydra_pmi_proxy ]] || break
    sleep 0.1
done
((i < 300)) || fail "the mpiexec was not started: $(cat out err)"
kill -TERM $run
code=0
wait $run || code=$?
[ "$code" -eq 143 ] || fail "SIGTERM while an mpiexec starts makes it $code: $(cat out err)"
no_process "$mark"
