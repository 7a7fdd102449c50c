#!/usr/bin/env bash
# wheel.sh BUILD_DIRECTORY PYTHON COMPILER: the wheel of the trainer's side, installed where nothing else of Penstock is, consumes a run
# of penstock-reader. A library that would not load with the wheel's oldest glibc is refused.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1 python=$2 compiler=$3

skip_sanitizers "$build" Python
[[ -x $build/bin/penstock-reader ]] || skip "no penstock-reader, which needs MPI"
/usr/bin/python3 -c 'import setuptools, wheel, pip' 2>/dev/null || skip "python3-pip is not installed"
/usr/bin/python3 -c 'import numpy, venv' 2>/dev/null || skip "python3-numpy or python3-venv is not installed"

# Made by Debian's tools, and by newer ones with auditwheel, if these are there.
library=$build/lib/libpenstock.so
wheel=$(PYTHON=/usr/bin/python3 "$root/packaging/wheel.sh" --trainers --library "$library" "$scratch/wheels" 2>"$scratch/log") || fail "no wheel"
[[ $wheel == */penstock_loader-*-py3-none-manylinux_2_28_"$(uname -m)".whl ]] || fail "the wheel is called $wheel"
if "$python" -c 'import setuptools, wheel, pip, auditwheel' 2>"$scratch/log"; then
    PYTHON=$python "$root/packaging/wheel.sh" --trainers --library "$library" "$scratch/audited" 2>"$scratch/log" || fail "auditwheel"
else
    echo "skipped: auditwheel, which is not installed for $python"
fi

# What makes wheels refuses what would not load.
refuses() {
    "$compiler" -shared -fPIC -x c - -o "$scratch/other.so" "${@:2}"
    ! "$root/packaging/wheel.sh" --trainers --library "$scratch/other.so" "$scratch/refused" 2>"$scratch/log" || fail "a wheel of: $*"
    grep -q "$1" "$scratch/log" || fail "it does not say '$1'"
}
if [[ $(printf '2.33\n%s\n' "$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" | sort -V | head -n 1) == 2.33 ]]; then
    refuses 'needs GLIBC_2.33, and is to load with glibc 2.28: do without stat$' \
        <<<'#include <sys/stat.h>
            int f(struct stat *s); int f(struct stat *s) { return stat("/", s); }'
fi
refuses 'needs more than libc.*: libz.*so' -Wl,--no-as-needed -lzstd <<<'int f(void); int f(void) { return 0; }'

# An environment without the tree: NumPy is Debian's, since tests fetch nothing.
/usr/bin/python3 -m venv --system-site-packages "$scratch/venv"
"$scratch/venv/bin/pip" --quiet install --disable-pip-version-check --no-index --no-deps "$wheel" >"$scratch/log" 2>&1 || fail "pip install"
"$build/bin/penstock" synth "$scratch/data.zarr" --samples 60 >"$scratch/log" 2>&1 || fail "synth"
cat >"$scratch/train.py" <<'TRAIN'
import os, sys
import penstock

with penstock.connect() as loader:
    here = os.path.dirname(penstock.__file__)
    assert here.startswith(sys.prefix) and penstock.library_path() == os.path.join(here, "libpenstock.so"), penstock.library_path()
    assert penstock.library_version() == penstock.__version__
    seen = [[], []]
    for epoch in loader.epochs():
        for batch in epoch:
            seen[batch.epoch] += batch.indices.tolist()
            assert all(array.shape[0] == len(batch.indices) for array in batch.values())
assert [sorted(indices) for indices in seen] == [list(range(60))] * 2, seen
print("two epochs of 60 samples")
TRAIN
mpiexec=$(sed -n 's/^MPIEXEC_EXECUTABLE:[^=]*=//p' "$build/CMakeCache.txt")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
cd "$scratch"
unset PYTHONPATH PENSTOCK_LIBRARY PENSTOCK_RUN_DIR
timeout 100 "$mpiexec" -n 1 "$build/bin/penstock-reader" --set "dataset.uri=$scratch/data.zarr" --set batch.global_size=10 \
    --set order.epochs=2 --set delivery.trainers=1 --set "delivery.run_dir=$scratch/run" >"$scratch/log" 2>&1 &
reader=$!
# Started on its own: trainers that readers start are told of the readers' own libpenstock.
PENSTOCK_RUN_DIR=$scratch/run timeout 100 "$scratch/venv/bin/python" train.py >"$scratch/seen" 2>&1 || {
    kill "$reader"
    fail "the trainer: $(<"$scratch/seen")"
}
wait "$reader" || fail "the reader"
grep -q "two epochs of 60 samples" "$scratch/seen" || fail "the trainer does not say what it saw: $(<"$scratch/seen")"
