#!/usr/bin/env bash
# From a fresh clone to batches in trainers, on one machine, in one command: builds, and runs `penstock demo`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
started_in=$PWD
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"

usage() {
    cat <<USAGE
Usage: launch/quickstart.sh [OPTION...]
Installs what is missing (Debian, Ubuntu), builds Penstock, writes a demo dataset, and runs readers and
trainers over it under one mpirun. Ends with what came out of it.

  --samples N    samples of the demo dataset, 160 KiB each (2000)
  --epochs N     epochs (2)
  --readers N    reader ranks (2)
  --trainers N   trainer processes, at most 64 (2)
  --demo DIR     where dataset and results go ($root/demo)
  -h, --help
USAGE
}

options=() demo=''
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --demo) demo=${2-} ;;
        --samples | --epochs | --readers | --trainers)
            [[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 takes a whole number from 1, not '${2-}'"
            ;;
        *) fail "'$1' is no option; see --help" ;;
    esac
    (($# >= 2)) || fail "'$1' needs a value; see --help"
    options+=("$1" "$2")
    shift 2
done
mkdir -p "$root/build" 2>/dev/null || true
[[ -w $root/build ]] || fail "cannot write to '$root/build': use a clone that belongs to you"
[[ $demo ]] || options+=(--demo "$root/demo")

cd "$root"
build_release
cd "$started_in"
PENSTOCK_DEMO_COMMAND=$(printf %q "$root/launch/quickstart.sh") "$root/build/release/bin/penstock" demo "${options[@]}"
cat <<NEXT
  less $(printf %q "$root")/docs/use/tutorial.md                             your own dataset, PyTorch, several nodes
  $(printf %q "$root")/tests/run.sh                                      every test
NEXT
