#!/usr/bin/env bash
# From a fresh clone to batches in trainers, on one machine, in one command.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
started_in=$PWD
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"

samples=2000
readers=2
trainers=2
epochs=2
demo=$root/demo
options_given=$#

usage() {
    cat <<USAGE
Usage: launch/quickstart.sh [OPTION...]
Installs what is missing (Debian, Ubuntu), builds Penstock, writes a demo dataset, and runs readers and
trainers over it under one mpirun. Ends with what came out of it.

  --samples N    samples of the demo dataset, 160 KiB each ($samples)
  --epochs N     epochs ($epochs)
  --readers N    reader ranks ($readers)
  --trainers N   trainer processes; divides the global batch of 64 ($trainers)
  --demo DIR     where dataset and results go ($demo)
  -h, --help
USAGE
}

number() {
    [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 takes a whole number from 1, not '$2'"
    printf '%s' "$2"
}

while (($#)); do
    [[ $1 == -h || $1 == --help || $# -ge 2 ]] || fail "'$1' is no option, or needs a value; see --help"
    case $1 in
        --samples) samples=$(number "$1" "$2") ;;
        --epochs) epochs=$(number "$1" "$2") ;;
        --readers) readers=$(number "$1" "$2") ;;
        --trainers) trainers=$(number "$1" "$2") ;;
        --demo) demo=$2 ;;
        -h | --help) usage && exit ;;
        *) fail "'$1' is no option; see --help" ;;
    esac
    shift 2
done

mkdir -p "$root/build" 2>/dev/null || true
[[ -w $root/build ]] || fail "cannot write to '$root/build': use a clone that belongs to you"
mkdir -p "$demo" 2>/dev/null || true
[[ -w $demo ]] || fail "cannot write to '$demo': choose another directory with --demo"
demo=$(cd "$demo" && pwd)
cd "$root"

build_release
bin=$root/build/release/bin

# Written under another name first, so that an interrupted run leaves no half dataset behind.
dataset=$demo/latents-$samples.zarr
if [[ ! -d $dataset ]]; then
    say "writing the demo dataset"
    "$bin/penstock" synth "$dataset.part" --overwrite --layout latents --samples "$samples" >/dev/null
    mv "$dataset.part" "$dataset"
fi

rm -f "$demo"/digests.*.txt
say "running $readers readers and $trainers trainers for $epochs epochs"
say
"$bin/penstock-run" -c configs/quickstart.yaml --readers-per-node "$readers" \
    --set dataset.uri="$dataset" --set order.epochs="$epochs" --set delivery.trainers="$trainers" \
    --report "$demo/report.json" \
    -- "$bin/penstock-trainer" --digest "$demo/digests.{rank}.txt" ||
    fail "the run failed; the reason is above. If a chunk is damaged, remove the dataset to have it written again:
    rm -r $(printf %q "$dataset")"

# Each line of the digest files is a sample as a trainer found it: epoch step position index digest.
# Exactly once means: of each epoch, every index from 0 up, and none twice; and the same bytes each time.
verdict=$(awk -v samples="$samples" -v epochs="$epochs" '
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
    }' "$demo"/digests.*.txt)
# Which samples a step has is the order; which trainer gets which of them depends on where rows are kept, and is left out.
order=$(awk '{ print $1, $2, $4, $5 }' "$demo"/digests.*.txt | LC_ALL=C sort | sha256sum | cut -c 1-16)
shown=$(printf %q "${dataset#"$root"/}")
again=launch/quickstart.sh
((!options_given)) || again+=" --demo $(printf %q "$demo") --samples $samples --epochs $epochs"
change_directory=
[[ $started_in -ef $root ]] || change_directory="  cd $(printf %q "$root")"$'\n'
cat <<RESULT

every sample delivered exactly once: $verdict ($samples samples x $epochs epochs, from the trainers' digests)
order: $order (stays the same with --readers 3 --trainers 4)

What to try next:
$change_directory\
  build/release/bin/penstock inspect $shown
  build/release/bin/penstock plan -c configs/quickstart.yaml --set dataset.uri=$shown
  $again --readers 3 --trainers 4     the same samples in the same order
  less docs/use/tutorial.md                             your own dataset, PyTorch, several nodes
  tests/run.sh                                      every test
RESULT
[[ $verdict == yes* ]]
