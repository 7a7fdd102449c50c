#!/usr/bin/env bash
# aarch64.sh SOURCE BUILD_DIRECTORY PYTHON COMPILER: wheels for aarch64 are built, their programs deliver the same bytes in the same order as
# this build's, and unit tests pass there, all by qemu-user.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/install/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"
source=$1 build=$2 python=$3

needs_root
skip_sanitizers "$build" "a wheel"
[[ -x $build/bin/penstock-reader ]] || skip "no penstock-reader, which needs MPI"
"$python" -c 'import setuptools, wheel, pip' 2>/dev/null || skip "no setuptools and wheel for $python"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$build/bin/penstock" demo --samples 100 --demo "$scratch/demo" >"$scratch/here" 2>"$scratch/log" || fail "the build's demo"
PYTHON=$python "$source/packaging/service.sh" "$scratch/wheels" >"$scratch/made" 2>"$scratch/log" || fail "no wheel for this machine"
code=0
"$source/packaging/aarch64.sh" --test "$scratch"/wheels/*.whl "$scratch/aarch64" >"$scratch/made" 2>"$scratch/log" || code=$?
((code != 77)) || skip "$(tail -n 1 "$scratch/log")"
((code == 0)) || fail "aarch64"
grep 'tests passed' "$scratch/log"
[[ $(ls "$scratch/aarch64"/penstock_{loader,service}-*_aarch64.whl | wc -l) == 2 ]] || fail "not two wheels: $(ls "$scratch/aarch64")"
order=$(sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' "$scratch/here")
grep -qx "order: $order" "$scratch/log" || fail "not the order and bytes of this machine, $order"
