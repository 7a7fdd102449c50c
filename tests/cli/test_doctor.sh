# penstock doctor: a thing that is made wrong is found, with what to do. A script stands in for penstock-run where there are to be nodes.
. "$(dirname "$0")/lib.sh"
bin=$(dirname "$penstock")
unset PENSTOCK_RUN_DIR PENSTOCK_LIBRARY OMPI_MCA_btl_tcp_if_include "${!SLURM_@}" "${!FLUX_@}" "${!PBS_@}" "${!LSB_@}" "${!KUBERNETES_@}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

"$penstock" synth data.zarr --samples 32 --videos 4 >/dev/null
cat >run.yaml <<'YAML'
dataset: {uri: data.zarr}
batch: {global_size: 8}
YAML

# finds CODE LEVEL CHECK TEXT ADVICE COMMAND...: exits with CODE, and has a line "LEVEL CHECK TEXT", with ADVICE in the line behind.
finds() {
    local code=0
    "${@:6}" >out 2>err || code=$?
    [ "$code" -eq "$1" ] || fail "${*:6}: exit code $code, not $1: $(cat out err)"
    awk -v level="$2" -v check="$3" -v text="$4" -v advice="$5" '
        asked { found = index($0, advice) > 0; exit }
        index($0, level) == 1 && index($0, " " check " ") && index($0, text) { if (advice == "") { found = 1; exit } asked = 1 }
        END { exit !found }' out || fail "${*:6}: no '$2 $3 $4 $5' in $(cat out)"
}

# With stand-ins for what is beside penstock: quick, and nothing of this machine.
mkdir here
cp "$bin/penstock" here/penstock
doctor=$PWD/here/penstock
version=$("$penstock" --version | sed -n '1s/penstock //p')
stand_in() {
    printf '#!/bin/sh\n%s\n' "$2" >"here/$1"
    chmod +x "here/$1"
}
stand_in penstock-reader "echo penstock-reader $version"
stand_in penstock-trainer "echo penstock-trainer with libpenstock $version"
mpi='printf "[n:1] selected ob1 best priority 20\nmpi library: Some MPI 1\nmpi exchange: readers: 2\n"'
stand_in penstock-run "[ \$1 = --version ] && echo penstock-run $version && exit; $mpi"

finds 0 ok versions "penstock $version, penstock-reader $version, penstock-run $version, libpenstock $version" "" "$doctor" doctor
finds 0 ok mpi "Some MPI 1: readers: 2" "" "$doctor" doctor
finds 0 ok transport "ob1 (shared memory" "" "$doctor" doctor
finds 0 ok storage "data.zarr: 32 samples of 160.0 KiB" "" "$doctor" doctor -c run.yaml
finds 0 ok plan "the run can start" "" "$doctor" doctor -c run.yaml
finds 0 ok plan "the 2 runs can start together; their readers take " "" "$doctor" doctor -c run.yaml --also val=run.yaml
finds 0 ok storage "run 'val': ./data.zarr: 32 samples" "" "$doctor" doctor -c run.yaml --also val=run.yaml
finds 1 FAILURE configuration "run 'val': " "docs/use/configuration.md" "$doctor" doctor -c run.yaml --also val=nowhere.yaml
sed 's/$/ /; s/data.zarr/nowhere.zarr/' run.yaml >broken.yaml
finds 1 FAILURE storage "run 'val': " "is mounted" "$doctor" doctor -c run.yaml --also val=broken.yaml

refuses 4 "not a whole number" doctor --of-node 0

# Limits.
finds 1 FAILURE limits.nofile "only 64 files" "raise nofile" bash -c 'ulimit -n 64 && exec "$@"' bash "$doctor" doctor
finds 1 FAILURE limits.nofile "only 64 files" "run 'ulimit -n " bash -c 'ulimit -Sn 64 && exec "$@"' bash "$doctor" doctor
# What lets no program start: penstock-run says the same before MPI says more.
limited() {
    local code=0
    finds 1 FAILURE "limits.$1" "'ulimit ${2% *}' allows" "'ulimit ${2% *} unlimited'" bash -c "ulimit $2"' && exec "$@"' bash "$doctor" doctor
    bash -c "ulimit $2"' && exec "$@"' bash "$bin/penstock-run" -c run.yaml -- true >out 2>&1 || code=$?
    [ $code -eq 1 ] && [ "$(wc -l <out)" -eq 1 ] || fail "ulimit $2: code $code, $(cat out)"
    contains "$(cat out)" "penstock-run: error: on $(uname -n) 'ulimit ${2% *}' allows"
}
limited stack "-s 64"
limited fsize "-f 1000"
limited cpu "-t 20"
TMPDIR=/proc/1 finds 1 FAILURE tmpdir "'/proc/1'" "set TMPDIR" "$doctor" doctor
code=0
TMPDIR=$PWD/no "$bin/penstock-run" -c run.yaml -- true >out 2>&1 || code=$?
[ $code -eq 1 ] && [ "$(wc -l <out)" -eq 1 ] || fail "no TMPDIR: code $code, $(cat out)"
contains "$(cat out)" "TMPDIR, which is '$PWD/no', cannot be written to: No such file or directory; mpirun keeps its files there"
finds 0 ok memory "that 'ulimit -v' allows a process" "" bash -c 'ulimit -v 4000000 && exec "$@"' bash "$doctor" doctor
code=0
(ulimit -v 200000 && exec "$bin/penstock-run" -c run.yaml -- true >out 2>&1) || code=$?
[ $code -eq 1 ] || fail "with 200 MB the code is $code"
contains "$(cat out)" "penstock-run: error: on $(uname -n) 'ulimit -v' allows 195 MiB"
# A kernel that makes no huge pages for those who ask, as before Linux 6.1, with these settings.
cat >old.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int madvise(void *memory, size_t bytes, int advice)
{
    if (advice != 25)
        return (int)syscall(SYS_madvise, memory, bytes, advice);
    errno = EINVAL;
    return -1;
}
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*open)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return open(strstr(path, "shmem_enabled") ? "shared" : strstr(path, "hugepage/enabled") ? "enabled" : path, mode);
}
C
if ! ldd "$bin/penstock" | grep -q 'lib[at]san' && "${CC:-cc}" -shared -fPIC -o old.so old.c -ldl; then
    echo "always [madvise] never" >enabled
    echo "always within_size advise [never] deny force" >shared
    LD_PRELOAD=$PWD/old.so finds 0 warning hugepages "madvise, and none for rings" "echo advise >" "$doctor" doctor
    echo "always within_size [advise] never deny force" >shared
    LD_PRELOAD=$PWD/old.so finds 0 ok hugepages "transparent huge pages: madvise" "" "$doctor" doctor
    echo "always madvise [never]" >enabled
    LD_PRELOAD=$PWD/old.so finds 0 warning hugepages "never" "echo madvise >" "$doctor" doctor
fi
OMPI_MCA_btl_tcp_if_include=lo,eth77 finds 1 FAILURE network "'eth77', and this node has no such interface" "ip -brief" "$doctor" doctor
! grep -q "'lo'" out || fail "there is no lo: $(cat out)"
for group in /sys/fs/cgroup/memory:memory.limit_in_bytes /sys/fs/cgroup:memory.max; do
    folder=${group%:*}/penstock-doctor-$$
    [ -w "${group%:*}/cgroup.procs" ] && mkdir "$folder" 2>/dev/null || continue
    if echo 104857600 >"$folder/${group#*:}" 2>/dev/null; then
        finds 1 FAILURE memory "of the 100.0 MiB that control group" "docker run --memory" \
            bash -c 'echo $$ >"$0" && exec "$@"' "$folder/cgroup.procs" "$doctor" doctor
        in_group=1
    fi
    rmdir "$folder"
done
[ "${in_group-}" ] || echo "skipped: a memory limit, which takes a control group"

# The run.
finds 1 FAILURE configuration "did you mean 'order.seed'" docs/use/configuration.md "$doctor" doctor -c run.yaml --set order.sed=3
finds 1 FAILURE storage "no such directory" "is mounted on this node" "$doctor" doctor -c run.yaml --set dataset.uri="$PWD/nowhere.zarr"
finds 1 FAILURE plan "readers.memory_limit 1.00 MiB is too low" "penstock plan" "$doctor" doctor -c run.yaml --set readers.memory_limit=1MiB
finds 1 FAILURE cache_dir "run.yaml' cannot be written to" "on every node" "$doctor" doctor -c run.yaml --set readers.cache_dir="$PWD/run.yaml/cache"
finds 1 FAILURE storage "127.0.0.1:1" "store.proxy" "$doctor" doctor --set dataset.uri=http://127.0.0.1:1/x.zarr --set store.retries=0

mkdir broken.icechunk && echo nothing >broken.icechunk/repo
finds 1 FAILURE storage "broken.icechunk" "may read the dataset" "$doctor" doctor --set dataset.uri="icechunk://$PWD/broken.icechunk"

# Programs.
stand_in penstock-reader "echo 'penstock-reader: error while loading shared libraries: libmpi.so.40: cannot open' >&2; exit 127"
finds 1 FAILURE programs "does not start: penstock-reader: error while loading shared libraries: libmpi.so.40" "module load" "$doctor" doctor
stand_in penstock-reader "exit 127" # without a word
finds 1 FAILURE programs "does not start: " "module load" "$doctor" doctor
stand_in penstock-reader "echo penstock-reader 9.8.7"
finds 1 FAILURE versions "penstock $version, penstock-reader 9.8.7" "from one release" "$doctor" doctor
stand_in penstock-reader "echo penstock-reader $version"
stand_in penstock-run "[ \$1 = --version ] && echo penstock-run $version && exit; echo 'No route to host'; echo -----; exit 1"
finds 1 FAILURE mpi "readers do not start: No route to host" docs/run/launching.md "$doctor" doctor
dashes=$(printf '%074d' 0 | tr 0 -)
stand_in penstock-run "[ \$1 = --version ] && echo penstock-run $version && exit; printf '%s\n' noise $dashes 'The cause is  this' ' and that.' $dashes more \
    $dashes another $dashes '[n1:7] Set MCA parameter \"orte_base_help_aggregate\" to 0'; exit 1"
finds 1 FAILURE mpi "readers do not start: The cause is this and that." docs/run/launching.md "$doctor" doctor

# Nodes. The second one has another version, and a clock that is half an hour behind.
# node NAME VERSION SECONDS
node() {
    printf 'printf "%%s\\n" '
    printf "'%s' " "{\"node\":\"$1\",\"check\":\"versions\",\"level\":\"ok\",\"text\":\"penstock $2\",\"advice\":\"\"}"
    printf '"{\\"node\\":\\"%s\\",\\"time\\":$(($(date +%%s) %s)).5}"\n' "$1" "$3"
}
stand_in penstock-run "[ \$2 = mpi ] && { $mpi; exit; }; echo \"\$@\" >asked
$(node n1 1.2.3 '+ 0')
$(node n2 1.2.4 '- 1800')"
finds 1 FAILURE versions "versions differ: node n1 has penstock 1.2.3" "on all nodes" "$doctor" doctor -c run.yaml --hosts n1,n2
finds 1 warning clock "s behind this node's" chrony "$doctor" doctor -c run.yaml --hosts n1,n2
grep -q "^FAILURE  n2 .*versions differ" out && grep -q "^warning  n2 .*at least 1[78][0-9][0-9] s behind" out || fail "it is not n2: $(cat out)"
[ "$(grep -c 'clock' out)" -eq 1 ] || fail "the other clock is not right, either: $(cat out)"
[ "$(cat asked)" = "--probe node --hosts n1,n2 -- $doctor doctor --of-node 2 --config run.yaml" ] || fail "nodes are asked by $(cat asked)"
finds 1 FAILURE versions "versions differ" "on all nodes" "$doctor" doctor -c run.yaml --also val=run.yaml --hosts n1,n2
contains "$(cat asked)" "--config run.yaml --also val=run.yaml"
# In a job they are the job's; started once on each node, it starts nothing.
counting="[ \"\$2\" = count ] && exec $bin/penstock-run \"\$@\""
mkdir path
printf '#!/bin/sh\nprintf "n%%s\\n" 1 2 3 4\n' >path/flux
chmod +x path/flux
printf 'n%s\n' 1 1 2 2 3 3 >nodefile
printf '%s\n' batch3 n1 n1 n2 >slots
stand_in penstock-run "$counting
$(sed 1d here/penstock-run)"
for row in "2 SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2" "3 PBS_NODEFILE=nodefile" "2 LSB_DJOB_HOSTFILE=slots" "4 FLUX_URI=local" \
    "3 KUBERNETES_SERVICE_HOST=10.0.0.1 OMPI_MCA_orte_default_hostfile=nodefile"; do
    # shellcheck disable=SC2086
    finds 1 FAILURE versions "versions differ: node n1 has penstock 1.2.3" "on all nodes" env PATH="$PWD/path:$PATH" ${row#* } "$doctor" doctor
    [ "$(cat asked)" = "--probe node -- $doctor doctor --of-node ${row%% *}" ] || fail "${row#* }: nodes are asked by $(cat asked)"
done
for task in "SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2" "PBS_NODEFILE=nodefile PALS_RANKID=0 PALS_LOCAL_RANKID=0"; do
    # shellcheck disable=SC2086
    env $task "$doctor" doctor >out || true
    ! grep -qE ' (mpi|nodes) ' out || fail "one of several tasks by $task starts readers: $(cat out)"
done
finds 1 FAILURE nodes "only 2 of 3 hosts answer" "ssh HOST true" "$doctor" doctor --hosts n1,n2,n3
for uri in s3://bucket/x gs://bucket/x az://container/x abfss://container@account.dfs.core.windows.net/x icechunk+gs://bucket/x@main data.zarr,s3://bucket/x; do
    finds 1 FAILURE clock "clouds refuse" "" "$doctor" doctor --hosts n1,n2 --set dataset.uri=$uri --set store.anonymous=true \
        --set store.retries=0 --set store.endpoint=http://127.0.0.1:1
done
# All that many nodes say is kept, 2 MiB here.
stand_in penstock-run "[ \$1 = --version ] && echo penstock-run $version && exit; [ \$2 = mpi ] && { $mpi; exit; }
awk -v now=\$(date +%s) 'BEGIN { for (i = 1; i <= 2000; i++) printf \"%1000s\n{\\\"node\\\":\\\"n%d\\\",\\\"time\\\":%d.5}\n\", \"\", i, now }'"
finds 0 ok mpi "Some MPI 1" "" "$doctor" doctor --hosts "$(seq -s , -f n%g 2000)"
stand_in penstock-run "echo 'ssh: Could not resolve hostname'; exit 1"
finds 1 FAILURE nodes "no host answers: ssh: Could not resolve" "ssh HOST true" "$doctor" doctor --hosts n1,n2

# JSON, for programs.
code=0
"$doctor" doctor --json --set order.sed=1 >out || code=$?
[ "$code" -eq 1 ] && [ "$(wc -l <out)" -eq 1 ] || fail "--json: $code, $(cat out)"
contains "$(cat out)" '{"level":"failure","findings":[{"node":"'
contains "$(cat out)" '"check":"configuration","level":"failure","text":"'

# ^C ends what it has started, too, although that has a process group of its own.
stand_in penstock-run '[ $1 = --version ] && echo x && exit; echo $$ >"$0.pid"; exec sleep 60'
for signal in INT TERM; do
    rm -f here/penstock-run.pid
    env --default-signal=INT "$doctor" doctor --hosts n1,n2 >out 2>&1 &
    asking=$!
    until [ -s here/penstock-run.pid ]; do kill -0 $asking || fail "it does not start penstock-run: $(cat out)"; sleep 0.05; done
    kill -$signal $asking
    code=0
    wait $asking || code=$?
    [ $code -gt 128 ] || fail "SIG$signal: exit code $code"
    for _ in {1..100}; do kill -0 "$(cat here/penstock-run.pid)" 2>/dev/null || break; sleep 0.05; done
    ! kill -0 "$(cat here/penstock-run.pid)" 2>/dev/null || fail "SIG$signal leaves penstock-run behind"
done

# All of it as it is: readers that MPI starts here, and by penstock-run on a host.
finds 0 ok mpi "readers: 2, nodes: 1" "" "$penstock" doctor -c run.yaml
host=localhost
"$bin/penstock-run" --probe node --hosts localhost -- true >err 2>&1 || host=127.0.0.1
finds 0 ok mpi "readers: 2, nodes: 1" "" "$penstock" doctor -c run.yaml --hosts $host
finds 0 ok storage "data.zarr: 32 samples" "" "$penstock" doctor -c run.yaml --hosts $host
