#!/usr/bin/env bash
# Runs the libFuzzer programs of a build one after another, and prints a row of a Markdown table for each.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'USAGE'
Usage: tests/fuzz/run.sh [--merge] BUILD SECONDS [TARGET...]
Runs each fuzz target (all of them, if none is named) for SECONDS, from the kept corpus and from what earlier
runs found (BUILD/fuzzing/TARGET). A finding is kept in BUILD/fuzzing as TARGET-crash-..., -timeout-... or -oom-...;
replay it with BUILD/bin/replay_TARGET FILE. Exits 1 if there was one.

  --merge   afterwards add to tests/fuzz/corpus/TARGET what covers more than it does, small inputs first

BUILD is configured with -DCMAKE_C_COMPILER=clang -DPENSTOCK_FUZZ=ON and built: ninja -C BUILD fuzz
USAGE
}

merge=
[[ ${1-} != --merge ]] || {
    merge=1
    shift
}
if (($# < 2)) || ! [[ $2 =~ ^[1-9][0-9]*$ ]]; then
    usage >&2
    exit 2
fi
build=$(cd "$1" && pwd)
seconds=$2
shift 2
targets=("$@")
if ((${#targets[@]} == 0)); then
    for corpus in "$here"/corpus/*/; do
        targets+=("$(basename "$corpus")")
    done
fi
work=$build/fuzzing
mkdir -p "$work"

# Where targets make files: in memory, if there is such a folder.
TMPDIR=$(mktemp -d -p "$([[ -w /dev/shm ]] && echo /dev/shm || echo /tmp)" penstock-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# Longest inputs: a ring's header, a script, a line, a packet, a document.
length_of() {
    case $1 in
        layout) echo 2048 ;;
        server | client | disk_cache) echo 1024 ;;
        text) echo 256 ;;
        *) echo 4096 ;;
    esac
}

last() {
    sed -n "s/$1/\\1/p" "$2" | tail -n 1
}

findings() {
    find "$work" -maxdepth 1 -name "$1-*" ! -name '*.log' | wc -l
}

files_and_bytes() {
    find "$1" -type f -printf '%s\n' | awk '{ bytes += $1 } END { printf "%d, %d KiB", NR, (bytes + 1023) / 1024 }'
}

fuzz() {
    local target=$1 log=$work/$1.log corpus=$here/corpus/$1 found=$work/$1 before
    mkdir -p "$found"
    before=$(findings "$target")
    # A finding ends the program; what is left of the time is not used.
    "$build/bin/fuzz_$target" -max_total_time="$seconds" -max_len="$(length_of "$target")" -timeout=20 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$work/$target-" \
        "$found" "$corpus" >"$log" 2>&1 || true
    # The last line of statistics: "#98 DONE cov: 7 ft: 9 corp: 3/5b ..."
    local pattern='^#[0-9]*[[:space:]].* cov: \([0-9]*\) ft: .*'
    printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$target" \
        "$(last '^stat::number_of_executed_units: *\([0-9]*\)$' "$log")" \
        "$(last '^Done [0-9]* runs in \([0-9]*\) second.*' "$log")" \
        "$(last "$pattern" "$log")" "$(last '^#[0-9]*[[:space:]].* ft: \([0-9]*\) .*' "$log")" \
        "$(files_and_bytes "$corpus")" "$(($(findings "$target") - before))"
}

echo '| target | executions | seconds | edges | features | kept corpus | findings |'
echo '|---|---|---|---|---|---|---|'
all_before=$(findings '*')
for target in "${targets[@]}"; do
    if [[ $merge ]]; then
        fuzz "$target" >"$work/$target.row"
        "$build/bin/fuzz_$target" -merge=1 -max_len="$(length_of "$target")" \
            "$here/corpus/$target" "$work/$target" >"$work/$target-merge.log" 2>&1
        cat "$work/$target.row"
    else
        fuzz "$target"
    fi
done
(($(findings '*') == all_before))
