#!/usr/bin/env bash
# `penstock demo`: a dataset, readers and trainers on this machine, and what came out of it. launch/quickstart.sh runs it once it has built.
# Lies in libexec/penstock, beside the folder bin of the programs that it runs.
set -euo pipefail

libexec=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bin=$(cd "$libexec/../../bin" && pwd)
command=${PENSTOCK_DEMO_COMMAND:-penstock demo} # what it is called in messages, and to be run again
samples=2000 readers=2 trainers=2 epochs=2 demo=penstock-demo given=''

usage() {
    cat <<USAGE
Usage: penstock demo [OPTION...]
Writes a dataset of made-up video latents, delivers it by readers to trainers on this machine, and says whether every sample
came once. Takes less than a minute, and needs an MPI, as penstock-run does.

  --samples N    samples of the dataset, 160 KiB each ($samples)
  --epochs N     epochs ($epochs)
  --readers N    reader ranks ($readers)
  --trainers N   trainer processes, at most 64 ($trainers)
  --demo DIR     where dataset, configuration and results go ($demo)
  -h, --help

Examples:
  From nothing to batches in trainers:
    penstock demo
  The same samples in the same order:
    penstock demo --readers 3 --trainers 4
USAGE
}

say() {
    printf '%s\n' "$*" >&2
}

# fail CODE TEXT: 4 for what will be the same next time.
fail() {
    say "$command: ${*:2}"
    exit "$1"
}

parse() {
    local name
    while (($#)); do
        [[ $1 != --*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
        [[ $1 != -h && $1 != --help ]] || { usage && exit; }
        [[ $1 == --@(samples|epochs|readers|trainers|demo) && $# -ge 2 ]] || fail 4 "'$1' is no option, or needs a value; see --help"
        name=${1#--}
        [[ " $given" != *" $1 "* ]] || fail 4 "$1 is given twice: give it once"
        [[ $name == demo || $2 =~ ^[1-9][0-9]{0,8}$ ]] || fail 4 "$1 takes a whole number from 1, not '$2'"
        printf -v "$name" '%s' "$2"
        given+="$1 "
        shift 2
    done
}

# Under another name first, so that an interrupted run leaves no half dataset behind.
write_dataset() {
    [[ ! -d $dataset ]] || return 0
    say "writing the demo dataset: $((samples * 160 / 1024)) MiB in $dataset"
    "$bin/penstock" synth "$dataset.part" --overwrite --layout latents --samples "$samples" >/dev/null || fail $? "no dataset: see above"
    mv "$dataset.part" "$dataset"
}

# A configuration as a user would write it, which works by itself.
write_configuration() {
    sed -e '1s/.*/# What "penstock demo" runs: a small dataset of video latents, on one machine./' \
        -e "s|^\( *uri:\) .*|\1 latents-$samples.zarr|" -e "s|^\( *epochs:\) [0-9]*|\1 $epochs|" \
        -e "s|^\( *trainers:\) [0-9]*|\1 $trainers|" -e 's|  # 32 for each trainer||' "$libexec/demo.yaml" >"$demo/run.yaml"
}

run() {
    local trainer=$bin/penstock-trainer
    [[ -x $trainer ]] || trainer=penstock-trainer # where packages have it elsewhere
    rm -f "$demo"/digests.*.txt
    say "running $readers readers and $trainers trainers for $epochs epochs"
    say
    # The user's PENSTOCK_DATASET_URI and others would win over the file.
    "$bin/penstock-run" -c "$demo/run.yaml" --readers-per-node "$readers" --set dataset.uri="$dataset" \
        --set order.epochs="$epochs" --set delivery.trainers="$trainers" --report "$demo/report.json" \
        -- "$trainer" --digest "$demo/digests.{rank}.txt" ||
        fail $? "the run failed; the reason is above. If a chunk is damaged, remove the dataset to have it written again:
    rm -r $(printf %q "$dataset")"
}

# Each line of the digest files is a sample as a trainer found it: epoch step position index digest.
# Exactly once means: of each epoch, every index from 0 up, and none twice; and the same bytes each time.
judge() {
    awk -v samples="$samples" -v epochs="$epochs" '
        { lines++ }
        $1 >= epochs || $4 >= samples { strange++; next }
        seen[$1, $4]++ { twice++ }
        $4 in digest && digest[$4] != $5 { changed++ }
        { digest[$4] = $5 }
        END {
            missing = samples * epochs - (lines - twice - strange)
            if (missing || twice || strange)
                printf "no: %d missing, %d twice, %d unknown", missing, twice, strange
            else if (changed)
                printf "no: %d came with other bytes than in the epoch before", changed
            else
                printf "yes"
        }' "$demo"/digests.*.txt
}

# Which samples a step has is the order; which trainer gets which of them depends on where rows are kept, and is left out.
order() {
    awk '{ print $1, $2, $4, $5 }' "$demo"/digests.*.txt | LC_ALL=C sort | sha256sum | cut -c 1-16
}

print_result() {
    local verdict program=penstock again=$command shown option
    verdict=$(judge)
    [[ $bin/penstock -ef $(command -v penstock) ]] || program=$(printf %q "$bin/penstock")
    [[ $program == penstock || $again != "penstock demo" ]] || again="$program demo"
    shown=$(printf %q "$demo")
    for option in demo samples epochs; do
        [[ " $given" != *" --$option "* ]] || again+=" --$option $(printf %q "${!option}")"
    done
    cat <<RESULT

every sample delivered exactly once: $verdict ($samples samples x $epochs epochs, from the trainers' digests)
order: $(order) (stays the same with --readers 3 --trainers 4)

What to try next:
  $program inspect $shown/latents-$samples.zarr
  $program plan -c $shown/run.yaml
  $again --readers 3 --trainers 4     the same samples in the same order
RESULT
    [[ $verdict == yes* ]]
}

parse "$@"
mkdir -p "$demo" 2>/dev/null || true
[[ -w $demo ]] || fail 1 "cannot write to '$demo': choose another directory with --demo"
dataset=$demo/latents-$samples.zarr
# What is missing, as MPI, is told before anything is written.
"$bin/penstock-run" --dry-run --set "dataset.uri=$dataset" -- true >/dev/null || exit
write_dataset
write_configuration
run
print_result
