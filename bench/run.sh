#!/usr/bin/env bash
# Benchmarks of Penstock on this machine; what they measure and why is told in docs/measured/benchmarks.md.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: bench/run.sh WHAT [OPTION...]

  end_to_end     Penstock beside the limits of the machine, a PyTorch DataLoader over zarr-python, tensorstore, zarrs,
                 insitubatch and grain
  idle           CPU time that readers take while they wait for slow trainers
  decode         decoding on one core against the codecs' libraries called directly, and reading the same arrays
                 with zarr-python, tensorstore and zarrs
  small_chunks   100,000 chunks of 8 KiB from a directory, in random order, beside the same
  exchange       the exchange of records between ranks against MPI alone, and where a reader's time goes
  rechunk        penstock rechunk beside decoding and encoding alone
  derive         penstock derive with an encoder that only copies, beside decoding and encoding alone (options of its own)
  scaling        1 to 4 hosts, cold and from memory, order.placement local and fixed, against what links and processors
                 allow
  balance        three hosts, one of them four times as slow, against the sum of what each does alone
  big_node       one node of 16 cores or more, one, two and four readers, against memcpy and decoding (options of its own)
  cluster_peers  four hosts that share one link to an object store, beside tensorstore, zarrs, insitubatch and MosaicML
                 Streaming
  gpu            copies from shared memory to a GPU beside copies from pinned memory: what pin=True can bring (options of its own)
  python         a trainer in Python beside penstock-trainer, with large batches and with tiny ones (options of its own)
  remote         a dataset over HTTP with 50 ms of latency, against the link and decoding (options of its own)
  clouds         the same over gs, az, s3 and icechunk, with 50 ms of latency (options of its own)
  local          large chunks of a directory, through the page cache and past it (options of its own)
  shards         joining reads within a shard: local files and HTTP with 50 ms of latency (options of its own)
  windows        windows of 16 steps, cold and from memory, beside the limits of the machine, xbatcher, robomimic and LeRobot
                 (options of its own)
  events         windows of an event camera, dense, beside the limits of the machine, and loaders of Parquet (options of its own)
  csr            rows of AnnData's sparse matrix beside decoding, anndata, scDataset and annbatch (options of its own)
  groups         four trainers that share each batch, beside four with a quarter each, and beside a broadcast of PyTorch (options
                 of its own)
  transform      a transform that hands samples on, and one that flips and cuts pictures, beside workers of a PyTorch DataLoader,
                 grain, SPDL and LitData (options of its own)
  ingest         penstock ingest video beside FFmpeg's decoder alone, and beside PyAV and zarr-python in a process pool (options of
                 its own)
  layouts        stored size, decoding, samples/s and memory by chunk length, codec, level and filter, on latents (options of its
                 own)
  dlio           DLIO's unet3d, resnet50 and cosmoflow: how many emulated accelerators are kept busy, beside DLIO's own loader
                 (options of its own)
  programs       programs that people train with, fed by their own loader and by Penstock (options of its own)
  seeing         what scraped metrics, traces and penstock top cost a run (options of its own)
  plan_at_scale  what the plan costs, up to 10^9 samples and 1,024 readers
  simulate       how the exchange scales, on 64 to 1,024 simulated nodes

scaling, balance and cluster_peers make hosts of this machine (root; see docs/inside/test-cluster.md). scaling also takes those
of a Slurm allocation or of --hostfile FILE. They have options of their own: bench/run.sh scaling --help.

Options:
  --rounds N       interleaved rounds (5)
  --samples N      samples of the synthetic dataset, 160 KiB each (5000)
  --batch N        global batch (64)
  --threads N      threads that read and decode; auto: one a CPU (auto)
  --hosts N        idle: one reader and one trainer on each of so many hosts made of this machine (2 readers on one)
  --no-dataloader  leave the PyTorch DataLoader out
  --no-peers       end_to_end, decode, small_chunks: leave the other libraries out
  --environments DIR  where the other libraries of end_to_end are installed (environments in the --work directory)
  --most N         plan_at_scale: most samples (10^9); simulate: most nodes (1024); decode: KiB of the largest chunk
                   (16384); small_chunks: chunks (100000)
  --draws N        simulate: networks drawn for each band (8)
  --plots DIR      where plan_at_scale and simulate put their plots (the --work directory)
  --chunk N, --codec NAME, --level N
                   rechunk: what is written (chunks of 8 samples, blosc-zstd, level 5: as the dataset has it)
  --scratch DIR    rechunk: where it is written; a file system in memory, so that no disk is measured (/dev/shm)
  --build DIR      use the programs in DIR as they are; else build/release is built first
  --ranks "N..."   exchange: how many MPI ranks, one number after another (2 3 4)
  --mpirun "..."   exchange: more arguments for mpirun, such as --hostfile FILE
  --work DIR       where datasets, reports and the Python environment are kept (build/bench)

The last line of output is one JSON object.
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=5 samples=5000 batch=64 threads=auto hosts=1 dataloader=yes peers=yes build='' work=$root/build/bench environments=''
ranks='2 3 4' mpirun_arguments='' chunk=8 codec=blosc-zstd level=5 scratch=/dev/shm most='' draws=8 plots=''
loader=()

# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"

parse() {
    [ $# -gt 0 ] || { usage; exit 64; }
    case $1 in
    end_to_end | idle | decode | small_chunks | exchange | rechunk | plan_at_scale | simulate) what=$1 ;;
    scaling | balance | big_node | cluster_peers | remote | clouds | local | shards | windows | events | csr | groups | transform | derive | ingest | layouts | dlio | programs | seeing | gpu) on_hosts "$@" ;;
    python) shift; on_hosts python_costs "$@" ;;
    -h | --help) usage; exit 0 ;;
    *) fail "'$1' is not a benchmark: see bench/run.sh --help" ;;
    esac
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --no-dataloader) dataloader=no; shift; continue ;;
        --no-peers) peers=no; shift; continue ;;
        -h | --help) usage; exit 0 ;;
        --rounds | --samples | --batch | --threads | --hosts | --build | --work | --environments | --ranks | --mpirun | \
            --most | --draws | --plots | --chunk | --codec | --level | --scratch)
            [ $# -ge 2 ] || fail "$1 needs a value" ;;
        *) fail "unknown option '$1'" ;;
        esac
        case $1 in
        --mpirun) mpirun_arguments=$2 ;;
        *) printf -v "${1#--}" %s "$2" ;;
        esac
        shift 2
    done
    [ "$threads" != auto ] || threads=$(nproc)
    for number in rounds samples batch threads hosts draws ${most:+most}; do
        [[ ${!number} =~ ^[1-9][0-9]*$ ]] || fail "--$number ${!number}: not a positive number"
    done
    batch=$((batch - batch % hosts)) # one trainer a host, all with the same share
}

build_programs() {
    [ -z "$build" ] || return 0
    build=$root/build/release
    cd "$root"
    build_release python3
    cd - >/dev/null
}

# on_hosts WHAT OPTION...: these benchmarks are programs of their own, and know their options.
on_hosts() {
    local program=$root/bench/$1.py
    shift
    [[ " $* " != *' -h '* && " $* " != *' --help '* ]] || exec python3 "$program" --help
    mkdir -p "$work"
    [[ " $* " == *' --build '* ]] || build_programs
    exec python3 "$program" --build "$build" --work "$work" "$@"
}

# Written under another name first: a dataset that is there is complete.
make_dataset() {
    dataset=$work/latents-$samples.zarr
    [ -e "$dataset" ] && return
    say "writing $dataset"
    "$build/bin/penstock" synth "$dataset.part" --overwrite --samples "$samples" >/dev/null
    mv "$dataset.part" "$dataset"
}

# The configuration of Penstock and of the limits.
write_config() {
    config=$work/run.yaml
    cat >"$config" <<YAML
dataset:
  uri: $dataset
  fields:
    latents: {array: base_frames}
    text: {array: clip_emb, index: segment_to_video}
batch: {global_size: $batch, last: drop}
order: {seed: 17}
YAML
}

prepare_mpi() {
    mpirun=(mpirun)
    # Open MPI wants a word before it starts as root or with more ranks than cores.
    if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        mpirun+=(--oversubscribe)
    fi
    mpirun+=(--bind-to none)
    local more
    read -r -a more <<<"$mpirun_arguments"
    mpirun+=("${more[@]}")
    if [ "$hosts" -gt 1 ]; then
        mpirun=("$root/tests/cluster/hosts.sh" with "$hosts" --share "$work" --share "$build" -- "${mpirun[@]}")
    fi
}

# penstock READERS TRAINERS THREADS EPOCHS TRAINER_OPTION...: one run; reports in $work/run
penstock() {
    local readers=$1 trainers=$2 each=$3 epochs=$4
    shift 4
    rm -rf "$work/run"
    mkdir "$work/run"
    "${mpirun[@]}" -np "$readers" "$build/bin/penstock-reader" --quiet -c "$config" \
        --set "delivery.trainers=$trainers" --set "readers.threads=$each" \
        --set "order.epochs=$epochs" --report "$work/run/reader.json" \
        -- "$build/bin/penstock-trainer" "$@" "--json=$work/run/trainer-{rank}.json" \
        >"$work/run/log" 2>&1 || { cat "$work/run/log" >&2; fail "penstock-reader failed"; }
}

limit() {
    "$build/bin/penstock-bench-limit" "$1" -c "$config" --set "readers.threads=$threads"
}

report() { python3 "$root/bench/report.py" "$@"; }

# Sets `dataloader_missing` to the reason why there is no PyTorch with zarr-python, else `loader` to the command with the
# fastest of its settings.
prepare_dataloader() {
    dataloader_missing=''
    [ $dataloader = yes ] || { dataloader_missing='left out by --no-dataloader'; return; }
    local python log=$work/environments.log best
    if ! python=$(python3 "$root/bench/environments.py" "$environments" torch 2>"$log"); then
        dataloader_missing=$(tail -n 1 "$log")
        return
    fi
    loader=("$python" "$root/bench/dataloader.py" "$dataset" --batch "$batch")
    say 'DataLoader: looking for its fastest settings'
    if ! best=$("${loader[@]}" --probe 2>"$log"); then
        dataloader_missing="failed: $(tail -n 1 "$log")"
        return
    fi
    read -r -a best <<<"$best"
    loader+=("${best[@]}")
}

end_to_end_peers() {
    python3 "$root/bench/end_to_end_peers.py" "$1" "$settings" --environments "$environments" --dataset "$dataset" \
        --batch "$batch"
}

prepare_peers() {
    settings=$work/end_to_end_peers.json
    if [ $peers = yes ]; then
        say 'other libraries: looking for their fastest settings'
        end_to_end_peers prepare
    else
        echo '{"ahead": {}, "missing": {}}' >"$settings"
    fi
}

# Idle pages may have been paged out since the last time.
read_files() {
    find "$dataset" -type f -exec cat {} + >/dev/null
}

measure_round() {
    read_files
    limit cold | report add "$results" limit_cold
    read_files
    penstock 1 1 "$threads" 5 --touch
    report add-epochs "$results" cold warm "$work"/run/trainer-*.json
    read_files
    penstock 2 2 $((threads / 2 > 0 ? threads / 2 : 1)) 5 --touch
    report add-epochs "$results" cold_pair warm_pair "$work"/run/trainer-*.json
    limit warm | report add "$results" limit_warm
    if [ -z "$dataloader_missing" ]; then
        read_files
        "${loader[@]}" 2>>"$work/environments.log" | report add "$results" dataloader
    fi
    end_to_end_peers measure >>"$results"
}

end_to_end() {
    environments=${environments:-$work/environments}
    prepare_dataloader
    prepare_peers
    results=$work/results.jsonl
    : >"$results"
    for ((round = 1; round <= rounds; round++)); do
        measure_round
        say "round $round of $rounds: $(report last "$results")"
    done
    report table "$results" --samples "$samples" --batch "$batch" --threads "$threads" \
        --loader "${loader[*]:5}" --dataloader-missing "$dataloader_missing" --peers "$settings"
}

# Twice: with the samples of the other benchmarks, and with samples of 64 bytes.
idle() {
    local readers=$((hosts > 1 ? hosts : 2)) small=$work/small-$samples.zarr
    say "$readers readers and $readers trainers that compute for 50 ms a step; three epochs"
    export PENSTOCK_DELIVERY_SLOTS=4 # few: readers wait for trainers in each epoch
    penstock $readers $readers 1 3 --touch --compute-ms 50
    mv "$work/run/reader.json" "$work/idle.json"
    [ -e "$small" ] || "$build/bin/penstock" synth "$small" --layout plain --samples "$samples" --shape 16 >/dev/null
    config=$work/small.yaml
    printf '%s\n' "dataset: {uri: $small}" "batch: {global_size: $batch, last: drop}" >"$config"
    penstock $readers $readers 1 3 --touch --compute-ms 50
    report idle "$work/idle.json" "$work/run/reader.json"
}

# variants RANKS MESSAGE RECORD...: the exchange of records of these sizes
variants() {
    local count=$1 message=$2 record
    shift 2
    local -a records=()
    for record; do records+=(--record "$record"); done
    say "$count ranks, messages of $message, records of $*"
    "${mpirun[@]}" -np "$count" "$build/bin/penstock-bench-exchange" --repeats "$rounds" \
        --volume 256MiB --message "$message" "${records[@]}" >>"$results"
}

# shares NAME BATCH SYNTH_OPTION...: where readers' time goes with samples of one size. With order.placement fixed half of
# them are exchanged.
shares() {
    local name=$1 size=$2
    shift 2
    dataset=$work/plain-$name.zarr
    if [ ! -e "$dataset" ]; then
        say "writing $dataset"
        "$build/bin/penstock" synth "$dataset.part" --overwrite --layout plain --codec none "$@" \
            >/dev/null
        mv "$dataset.part" "$dataset"
    fi
    say "two readers, samples of $name"
    config=$work/exchange.yaml
    printf 'dataset: {uri: %s}\nbatch: {global_size: %s}\norder: {placement: fixed}\n' "$dataset" "$size" >"$config"
    penstock 2 2 1 $((rounds + 1)) --touch
    printf '{"sample": "%s", "report": %s}\n' "$name" "$(cat "$work/run/reader.json")" >>"$results"
}

exchange() {
    results=$work/exchange.jsonl
    : >"$results"
    local count
    for count in $ranks; do
        variants "$count" 1MiB 64 1KiB 4KiB 16KiB 32KiB 64KiB 256KiB 1MiB
    done
    shares 64B 16384 --samples 2000000 --shape 16 --chunk 4096
    shares 1KiB 4096 --samples 200000 --shape 256 --chunk 256
    shares 16KiB 512 --samples 32000 --shape 4096 --chunk 16
    shares 160KiB 64 --samples 5000 --shape 40960
    shares 1MiB 16 --samples 800 --shape 262144
    shares 8MiB 8 --samples 96 --shape 2048,1024
    python3 "$root/bench/exchange.py" "$results"
}

rechunk() {
    make_dataset
    results=$work/rechunk.jsonl
    : >"$results"
    local round written
    written=$(mktemp -d "$scratch/penstock-bench-XXXXXX")
    # shellcheck disable=SC2064 # the path of now
    trap "rm -rf '$written'" EXIT
    say "reading everything once into the page cache; writing to $written"
    "$build/bin/penstock" verify "$dataset" >/dev/null
    for ((round = 1; round <= rounds; round++)); do
        "$build/bin/penstock-bench-rechunk" "$dataset" "$written/out" "$chunk" "$codec" "$level" "$threads" >>"$results"
        say "round $round of $rounds: $(tail -n 1 "$results")"
        rm -rf "$written"/out.*
    done
    python3 "$root/bench/rechunk.py" "$results"
}

# A Python that has matplotlib and numpy, where there is one.
plot_python() {
    local python
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import matplotlib, numpy' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    echo python3
}

# peers WHAT OPTION...: Penstock beside other libraries. What pip cannot install is skipped, with the reason.
peers() {
    local library python=$work/peers/bin/python3
    if [ $peers = no ]; then
        python=python3
        set -- "$@" --no-peers
    elif [ -x "$python" ] || python3 -m venv "$work/peers" >"$work/peers.log" 2>&1; then
        for library in 'zarr>=3' tensorstore zarrs; do
            "$python" -c "import ${library%%>*}" 2>/dev/null ||
                "$work/peers/bin/pip" install --quiet "$library" >>"$work/peers.log" 2>&1 ||
                say "$library cannot be installed: $(tail -n 1 "$work/peers.log")"
        done
    else
        say "no Python environment: $(tail -n 1 "$work/peers.log")"
        python=python3
    fi
    "$python" "$root/bench/peers.py" "$@" --build "$build" --work "$work" --rounds "$rounds"
}

decode() {
    [ $peers = no ] || peers decode
    "$build/bin/penstock-bench-codecs" $((3 * rounds)) ${most:+"$most"}
}

small_chunks() {
    peers small_chunks --threads "$threads" ${most:+--count "$most"}
}

plan_at_scale() {
    "$(plot_python)" "$root/bench/plan_at_scale.py" "$build/bin/penstock-bench-plan" \
        --plots "${plots:-$work}" ${most:+--most-samples "$most"}
}

simulate() {
    local python
    python=$(plot_python)
    "$python" -c 'import numpy' 2>/dev/null || fail 'simulate needs Python with numpy: python3-numpy'
    "$python" "$root/bench/simulate/simulate.py" "$build/bin/penstock-bench-schedule" \
        --work "$work" --plots "${plots:-$work}" --draws "$draws" ${most:+--most-readers "$most"}
}

prepare_run() {
    prepare_mpi
    make_dataset
    write_config
}

parse "$@"
mkdir -p "$work"
build_programs
case $what in end_to_end | idle) prepare_run ;; exchange) prepare_mpi ;; esac
"$what"
