# penstock-run with each launcher: its commands for one node, for four nodes with eight trainers each, and for a list of
# unequal nodes; scripts stand in for the launchers. Those for PALS and Flux know these launchers' options, refuse others,
# and then start the real thing.
. "$(dirname "$0")/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
bin=$(dirname "$penstock")
"$penstock" synth data.zarr --samples 32 --videos 4 >/dev/null
penstock=$bin/penstock-run
unset PENSTOCK_RUN_DIR PENSTOCK_LIBRARY "${!SLURM_@}" "${!FLUX_@}" "${!PALS_@}" "${!PBS_@}" "${!LSB_@}" "${!KUBERNETES_@}"
unset "${!OMPI_MCA_orte@}" "${!PRTE_MCA_prte@}" "${!HYDRA_@}"
mpirun=$("$penstock" --set dataset.uri=data.zarr --dry-run -- true | grep -o '^[^ ]*mpi[^ ]* ' | head -n 1)
export PENSTOCK_DATASET_URI=data.zarr PENSTOCK_BATCH_GLOBAL_SIZE=96 PENSTOCK_DELIVERY_RUN_DIR=/tmp/here

mkdir path fake
printf '#!/bin/sh\nexit 9\n' | tee path/torchrun path/srun path/jsrun >path/scontrol
printf '#!/bin/sh\nprintf "n%%s\\n" 1 2 3 4\n' >path/scontrol
cat >path/flux <<'SH'
#!/bin/bash
[[ $1 != hostlist ]] || { [[ "$*" == "hostlist --expand --delimiter="?" "@(instance|available) ]] && printf '%s\n' ${HOSTS:-n1 n2 n3 n4}; exit; }
shift
while [[ $1 == -* ]]; do
    case $1 in
        --nodes=* | --cores=* | --requires=hosts:* | --unbuffered | --input=0) ;;
        --tasks-per-node=*) n=${1#*=} ;;
        -o) [[ $2 == @(cpu-affinity=off|gpu-affinity=off|exit-timeout=none|pmi=*) ]] || exit 98; shift ;;
        *) echo "flux-run: $1" >&2; exit 99 ;;
    esac
    shift
done
[[ $1 != */penstock-reader ]] || exec $REAL_MPIRUN "$@"
for ((i = 0; i < n; i++)); do FLUX_TASK_RANK=$i FLUX_JOB_SIZE=$n FLUX_TASK_LOCAL_ID=$i FLUX_JOB_NNODES=1 "$@" & done
for ((i = 0; i < n; i++)); do wait -n || exit; done
SH
# HPE's own copies programs to the nodes, unless it is told not to, and refuses what it does not know.
cat >fake/pals <<'SH'
#!/bin/bash
[[ $1 != --version ]] || { echo "mpiexec 1.2.3"; exit; }
[[ $1 != --help ]] || { echo "  --no-transfer   do not"; exit; }
transfer=1
while [[ $1 == -* ]]; do
    case $1 in
        -n) n=$2 && shift ;;
        --ppn | --cpu-bind | --hosts) shift ;;
        --env) export "$2"; shift ;;
        --pmi) [[ $2 == @(cray|pmix|none) ]] || exit 98; shift ;;
        --no-transfer) transfer='' ;;
        *) echo "mpiexec: unrecognized option '$1'" >&2; exit 99 ;;
    esac
    shift
done
[[ ! $transfer ]] || set -- "${1##*/}" "${@:2}"
[[ $1 != */penstock-reader ]] || exec $REAL_MPIRUN "$@"
for ((i = 0; i < n; i++)); do PALS_RANKID=$i PALS_LOCAL_RANKID=$i PALS_LOCAL_SIZE=$n "$@" & done
for ((i = 0; i < n; i++)); do wait -n || exit; done
SH
printf '#!/bin/sh\necho "mpiexec (OpenRTE) 4.1.4"\n' >fake/orte
printf '#!/bin/sh\necho "mpirun (Open MPI) 5.0.11"\n' >fake/prrte
printf '#!/bin/sh\necho HYDRA\n' >fake/hydra
chmod +x path/* fake/*
export PATH=$PWD/path:$PATH

# made MPIEXEC READERS TRAINERS ARGUMENT...: the readers' words up to penstock-reader, and those of the trainers' launcher,
# without names of variables.
made() {
    local lines
    PENSTOCK_MPIEXEC=$PWD/fake/$1 "$penstock" --dry-run "${@:4}" >out 2>err || fail "$1 ${*:4}: $(cat err)"
    mapfile -t lines < <(grep -v '^export' out | sed -E "s,$PWD/fake/[a-z]*,mpiexec,g; s/ -x [A-Za-z_0-9]+//g; s/ --mca (plm isolated|regx naive)//g")
    [ "${lines[0]%% "$bin"/penstock-reader *}" = "$2" ] || fail "$1 ${*:4}: readers by ${lines[0]}"
    [ ! "$3" ] || [ "${lines[1]%% "$PWD"/path/torchrun *}" = "$3" ] || fail "$1 ${*:4}: trainers by ${lines[1]}"
}
printf 'n1 slots=8\nn2 slots=4\nn3:2\nn1\n' >unequal
printf 'n%s\n' 1 1 2 2 3 3 4 4 >nodefile
printf '%s\n' batch3 n1 n1 n2 n2 n3 n4 >slots
four=(--torchrun 8 -- train.py) list=(--hostfile unequal --torchrun 2 -- train.py)

# Which nodes: none; four with eight trainers on each; unequal ones, which have one reader each whatever slots they have.
spread='--bind-to none --oversubscribe --map-by ppr:1:node --host'
cut="env -u LD_LIBRARY_PATH PATH=$(printf %q "$PATH")${LD_LIBRARY_PATH+ LD_LIBRARY_PATH=$(printf %q "$LD_LIBRARY_PATH")}"
for open in orte prrte; do
    made $open "mpiexec -np 1 --bind-to none --oversubscribe" "" -- true
    made $open "mpiexec -np 4 $spread n1:1,n2:1,n3:1,n4:1" "mpiexec -np 4 $spread n1:1,n2:1,n3:1,n4:1 $cut" --hosts n1,n2,n3,n4 "${four[@]}"
    made $open "mpiexec -np 3 $spread n1:1,n2:1,n3:1" "mpiexec -np 3 $spread n1:1,n2:1,n3:1 $cut" "${list[@]}"
done
made hydra "mpiexec -n 1 -bind-to none" "" -- true
made hydra "mpiexec -n 4 -bind-to none -ppn 1 -hosts n1,n2,n3,n4" "mpiexec -n 4 -bind-to none -ppn 1 -hosts n1,n2,n3,n4" --hosts n1,n2,n3,n4 "${four[@]}"
made hydra "mpiexec -n 3 -bind-to none -ppn 1 -hosts n1,n2,n3" "" "${list[@]}"
pals() {
    echo "mpiexec -n $1 --ppn ${2-1} --cpu-bind none --no-transfer --env WORLD_SIZE=$1${3-}"
}
made pals "$(pals 1)" "" -- true
PBS_NODEFILE=nodefile made pals "$(pals 4) --hosts n1,n2,n3,n4" "mpiexec -n 4 --ppn 1 --cpu-bind none --no-transfer --env WORLD_SIZE=4 --pmi none --hosts n1,n2,n3,n4" "${four[@]}"
PBS_NODEFILE=nodefile made pals "$(pals 3) --hosts n1,n2,n3" "" "${list[@]}"
PBS_NODEFILE=nodefile made pals "$(pals 4 2) --hosts n1,n2" "" --nodes 2 --readers-per-node 2 -- true
flux() {
    echo "flux run --nodes=$1 --cores=$1 --tasks-per-node=1 --unbuffered -o cpu-affinity=off -o gpu-affinity=off -o exit-timeout=none -o pmi=$2"
}
HOSTS=n1 FLUX_URI=local made orte "$(flux 1 simple)" "" -- true
FLUX_URI=local made orte "$(flux 4 simple)" "$(flux 4 off)" "${four[@]}"
FLUX_URI=local made prrte "$(flux 4 pmix)" "" "${four[@]}"
FLUX_URI=local made hydra "$(flux 2 simple) --requires=hosts:n1,n2" "" --nodes 2 -- true
srun() {
    echo "srun --overlap --export=ALL --cpu-bind=none --kill-on-bad-exit=1 --mem=0 --nodes=$1 --ntasks=$1 --ntasks-per-node=1 --mpi=$2"
}
export SLURM_JOB_NODELIST='n[1-4]'
SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 made orte "$(srun 1 pmix)" "" -- true
SLURM_JOB_ID=7 made orte "$(srun 4 pmix)" "$(srun 4 none)" "${four[@]}"
SLURM_JOB_ID=7 made hydra "$(srun 2 pmi2) --nodelist=n1,n2" "" --launcher srun --nodes 2 -- true
SLURM_JOB_ID=7 made hydra "mpiexec -n 4 -bind-to none -ppn 1 -hosts n1,n2,n3,n4" "" "${four[@]}"
jsrun() {
    echo "jsrun --nrs=$1 --rs_per_host=1 --tasks_per_rs=1 --cpu_per_rs=ALL_CPUS --gpu_per_rs=ALL_GPUS --bind=none"
}
LSB_DJOB_HOSTFILE=slots made orte "$(jsrun 4)" "" -- true
LSB_DJOB_HOSTFILE=slots made orte "mpiexec -np 4 $spread n1:1,n2:1,n3:1,n4:1" "" --launcher mpirun "${four[@]}"
# An MPIJob's hosts go onto the command line: Open MPI 5 would look for them elsewhere, and put all on the launcher.
printf 'train-worker-%d.train.default.svc slots=8\n' 0 1 >pods
pods=train-worker-0.train.default.svc:1,train-worker-1.train.default.svc:1
export JOB_COMPLETION_INDEX=0
KUBERNETES_SERVICE_HOST=10.0.0.1 OMPI_MCA_orte_default_hostfile=$PWD/pods made prrte "mpiexec -np 2 $spread $pods" "mpiexec -np 2 $spread $pods $cut" "${four[@]}"
! grep -q 'JOB_COMPLETION_INDEX' out || fail "what is this pod's goes to others: $(cat out)"
KUBERNETES_SERVICE_HOST=10.0.0.1 made hydra "mpiexec -n 1 -bind-to none" "" -- true
unset JOB_COMPLETION_INDEX SLURM_JOB_NODELIST

# What cannot be, and what to do.
FLUX_URI=local refuses 4 "the nodes of a Flux job are settled by the job: leave --hosts and --hostfile away, or unset FLUX_URI" --hosts n1 -- true
FLUX_URI=local refuses 4 "--launcher srun is for a job of its own, and this is none: use salloc or sbatch" --launcher srun -- true
refuses 4 "use flux alloc or flux batch" --launcher flux -- true
LSB_DJOB_HOSTFILE=slots refuses 4 "with jsrun a run is one step" --torchrun 8 -- train.py
PBS_NODEFILE=/dev/null refuses 4 "names no host" -- true
PBS_NODEFILE=none made orte "mpiexec -np 2 $spread n1:1,n2:1" "" --hosts n1,n2 -- true
PBS_NODEFILE=none refuses 4 "PBS_NODEFILE='none', the list of this job's nodes, cannot be read" -- true
PALS_RANKID=0 refuses 4 "start penstock-run alone" -- true
FLUX_JOB_SIZE=2 refuses 4 "start penstock-run alone" -- true

# Runs: readers by the stand-in, trainers by the readers and by keepers, which know their ranks.
unset PENSTOCK_DELIVERY_RUN_DIR
export PENSTOCK_DELIVERY_TRAINERS=2 PENSTOCK_BATCH_GLOBAL_SIZE=8
export REAL_MPIRUN="${mpirun}-n 1"
digests() {
    cut -d ' ' -f 1,2,4,5 digest.* | sort -n
    rm digest.*
}
PENSTOCK_MPIEXEC=$PWD/fake/pals timeout 60 "$penstock" -q -- penstock-trainer --digest 'digest.{rank}' 2>err || fail "by PALS: $(cat err)"
digests >one
[ "$(wc -l <one)" -eq 32 ] || fail "a run by PALS delivers $(wc -l <one) samples"
PENSTOCK_MPIEXEC=$PWD/fake/pals timeout 60 "$penstock" -q --restarts 1 -- penstock-trainer --digest 'digest.{rank}' 2>err || fail "keepers by PALS: $(cat err)"
digests | cmp - one || fail "keepers by PALS get something else"
HOSTS=$(uname -n) FLUX_URI=local timeout 60 "$penstock" -q --restarts 1 -- penstock-trainer --digest 'digest.{rank}' 2>err || fail "keepers by Flux: $(cat err)"
digests | cmp - one || fail "keepers by Flux get something else"

# Commands that make datasets divide their work, whoever starts them; one that is not told of how many says so.
makes() {
    "$@" "$bin/penstock" rechunk data.zarr made.zarr --chunk 2 >out 2>err || fail "rechunk by $*: $(cat out err)"
    [ "$(grep -c '^part [01] of 2: ' out)" -ge 2 ] && grep -q 'made.zarr is complete, and' out || fail "rechunk by $*: $(cat out)"
    rm -r made.zarr
}
makes fake/pals -n 2 --no-transfer --env WORLD_SIZE=2
makes env FLUX_URI=local flux run --tasks-per-node=2
makes sh -c 'for rank in 0 1; do JSM_NAMESPACE_RANK=$rank JSM_NAMESPACE_SIZE=2 "$@" & done; wait' jsrun
code=0
fake/pals -n 2 --no-transfer "$bin/penstock" rechunk data.zarr made.zarr >out 2>err || code=$?
[ $code -eq 4 ] && [ ! -e made.zarr ] || fail "rechunk by PALS without WORLD_SIZE: $code, $(cat out err)"
contains "$(cat err)" "PALS has started this process, and does not say of how many: set WORLD_SIZE"
fake/pals -n 1 --no-transfer "$bin/penstock" rechunk data.zarr made.zarr --part 0/1 >out 2>err || fail "--part by PALS: $(cat err)"

# A reader that no MPI has joined to the others says so, also if the launcher tells no count.
for alone in "PALS_RANKID=1" "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2" "PMIX_RANK=3" "JOB_COMPLETION_INDEX=1" "PALS_RANKID=0 WORLD_SIZE=2" \
    "PALS_RANKID=1 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"; do
    # shellcheck disable=SC2086
    if env $alone timeout 60 "$bin/penstock-reader" -- true 2>err; then fail "a reader of its own by $alone"; fi
    contains "$(cat err)" "but MPI knows of this one alone"
done

# Every name that penstock-run gives to Open MPI is one that the Open MPI of this build has. ORTE lists them. PRRTE lists none:
# its libraries have the names in them, or what stands behind a framework's and a component's name.
# shellcheck disable=SC2086,SC1091,SC2046
launcher=$($mpirun --version 2>&1 | (. "$bin/../libexec/penstock/mca.sh" && mca_launcher "$(cat)"))
known() {
    if [ "$launcher" = orte ]; then
        grep -q ":param:$1:value:" names
    else
        grep -qaE "(^|[^[:alnum:]_])(${1#*_}|${1#*_*_}|$1)([^[:alnum:]_]|$)" libraries
    fi
}
if [ "$launcher" = orte ]; then
    "$(dirname "$(readlink -f "$(command -v $mpirun)")")"/ompi_info --all --parsable >names || fail "ompi_info"
elif [ "$launcher" ]; then
    cat $(ldd "$bin/penstock-reader" "$(command -v prterun prte | head -n 1)" 2>/dev/null | grep -oE '/[^ ]*lib(mpi|open-pal|prrte)\.so[^ ]*' | sort -u) >libraries
fi
for setting in ${launcher:+$(. "$bin/../libexec/penstock/mca.sh" && awk 'NF { print $1 }' <<<"$MCA_NAMES")}; do
    for name in $(. "$bin/../libexec/penstock/mca.sh" && mca_names "$launcher" "$setting"); do
        known "$name" || fail "$launcher has no setting $name"
    done
done
[ ! "$launcher" ] || ! known plm_no_such_agent || fail "every name is known"

unset PENSTOCK_DELIVERY_TRAINERS
# The manifests' commands, with the hosts that an operator or pods.py writes.
python3 - "$(dirname "$0")/../../launch/kubernetes" <<'PY' >manifests || fail "a manifest cannot be read"
import glob, re, sys
for path in sorted(glob.glob(sys.argv[1] + "/*.yaml")):
    [words] = re.findall(r"penstock-run, (-c[^]]*)\]", open(path).read())
    print(path.split("/")[-1], *[word.strip().strip('"') for word in words.split(",")])
PY
[ "$(wc -l <manifests)" -eq 3 ] || fail "manifests: $(cat manifests)"
printf 'penstock-%d.penstock slots=1\n' 0 1 2 3 >written
while read -r name _ _ words; do
    # shellcheck disable=SC2086
    made prrte "mpiexec -np 4 $spread penstock-0.penstock:1,penstock-1.penstock:1,penstock-2.penstock:1,penstock-3.penstock:1" "" \
        --set batch.global_size=96 $(sed -E "s,/etc/mpi/hostfile|/tmp/pods/hosts,$PWD/written," <<<"$words")
    grep -q -- '--nproc-per-node=8 ' out || fail "$name: $(cat out)"
done <manifests
