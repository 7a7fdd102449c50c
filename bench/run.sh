#!/usr/bin/env bash
# Benchmarks of Penstock on this machine; what they measure and why is told in docs/benchmarks.md.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: bench/run.sh WHAT [OPTION...]

  end_to_end     Penstock beside the limits of the machine and a PyTorch DataLoader
  idle           CPU time that readers take while they wait for slow trainers
  plan_at_scale  what the plan costs, up to 10^9 samples and 1,024 readers
  simulate       how the exchange scales, on 64 to 1,024 simulated nodes

Options:
  --rounds N       interleaved rounds (5)
  --samples N      samples of the synthetic dataset, 160 KiB each (5000)
  --batch N        global batch (64)
  --threads N      threads that read and decode; auto: one a CPU (auto)
  --no-dataloader  leave the PyTorch DataLoader out
  --most N         plan_at_scale: most samples (10^9); simulate: most nodes (1024)
  --draws N        simulate: networks drawn for each band (8)
  --plots DIR      where plan_at_scale and simulate put their plots (the --work directory)
  --build DIR      use the programs in DIR as they are; else build/release is built first
  --work DIR       where datasets, reports and the Python environment are kept (build/bench)

The last line of output is one JSON object.
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=5 samples=5000 batch=64 threads=auto dataloader=yes build='' work=$root/build/bench
most='' draws=8 plots=''
loader=()

say() { printf '%s\n' "$*" >&2; }
fail() { say "bench/run.sh: $*"; exit 1; }

parse() {
    [ $# -gt 0 ] || { usage; exit 64; }
    case $1 in
    end_to_end | idle | plan_at_scale | simulate) what=$1 ;;
    -h | --help) usage; exit 0 ;;
    *) fail "'$1' is not a benchmark: see bench/run.sh --help" ;;
    esac
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --no-dataloader) dataloader=no; shift; continue ;;
        -h | --help) usage; exit 0 ;;
        --rounds | --samples | --batch | --threads | --build | --work | --most | --draws | --plots)
            [ $# -ge 2 ] || fail "$1 needs a value" ;;
        *) fail "unknown option '$1'" ;;
        esac
        printf -v "${1#--}" %s "$2"
        shift 2
    done
    [ "$threads" != auto ] || threads=$(nproc)
    for number in rounds samples batch threads draws ${most:+most}; do
        [[ ${!number} =~ ^[1-9][0-9]*$ ]] || fail "--$number ${!number}: not a positive number"
    done
}

build_programs() {
    [ -z "$build" ] || return 0
    build=$root/build/release
    say "building $build"
    (cd "$root" && cmake --preset release && cmake --build --preset release) \
        >"$work/build.log" 2>&1 ||
        fail "the build failed: see $work/build.log"
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

# Makes a Python with torch and zarr in $work/venv where that can be done. Sets `dataloader_missing`
# to the reason where not, else `loader` to the command with the fastest of its settings.
prepare_dataloader() {
    dataloader_missing=''
    [ $dataloader = yes ] || { dataloader_missing='left out by --no-dataloader'; return; }
    local python=$work/venv/bin/python3 log=$work/venv.log best
    if ! "$python" -c 'import torch, zarr' 2>/dev/null; then
        say "installing PyTorch and zarr-python in $work/venv"
        if ! { python3 -m venv "$work/venv" &&
            "$work/venv/bin/pip" install --quiet numpy 'zarr>=3' torch==2.13.0; } >"$log" 2>&1; then
            dataloader_missing="cannot be installed: $(tail -n 1 "$log")"
            return
        fi
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

measure_round() {
    limit cold | report add "$results" limit_cold
    penstock 1 1 "$threads" 2 --touch
    report add-epochs "$results" cold warm "$work"/run/trainer-*.json
    penstock 2 2 $((threads / 2 > 0 ? threads / 2 : 1)) 2 --touch
    report add-epochs "$results" cold_pair warm_pair "$work"/run/trainer-*.json
    limit warm | report add "$results" limit_warm
    if [ -z "$dataloader_missing" ]; then
        "${loader[@]}" 2>>"$work/venv.log" | report add "$results" dataloader
    fi
}

end_to_end() {
    prepare_dataloader
    say 'reading everything once into the page cache'
    limit cold >/dev/null
    results=$work/results.jsonl
    : >"$results"
    for ((round = 1; round <= rounds; round++)); do
        measure_round
        say "round $round of $rounds: $(report last "$results")"
    done
    report table "$results" --samples "$samples" --batch "$batch" --threads "$threads" \
        --loader "${loader[*]:5}" --dataloader-missing "$dataloader_missing"
}

idle() {
    say 'two readers and two trainers that compute for 50 ms a step; three epochs'
    penstock 2 2 1 3 --touch --compute-ms 50
    report idle "$work/run/reader.json"
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
case $what in end_to_end | idle) prepare_run ;; esac
"$what"
