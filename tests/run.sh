#!/usr/bin/env bash
# Builds everything and runs every test. One ctest drives all: this build's tests one by one, and the
# sanitizers' and the other MPI's suites as one test each, so that its summary at the end is the whole truth.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"

quick=
long=
mpich=
debian13=
venv=1
torch=auto
jobs=$((2 * $(nproc) + 1)) # tests with MPI sleep more than they compute
filter=()

usage() {
    cat <<'USAGE'
Usage: tests/run.sh [OPTION...] [-- CTEST-OPTION...]
Installs what tests need (Debian, Ubuntu), builds, runs all tests, and ends with ctest's summary.

  --quick         no sanitizers
  --long          also tests labelled "long": 100 runs of chaos, a soak of half an hour, Debian packages in a root of
                  their own; and those labelled "once" also with sanitizers and the other MPI
  --mpich         also a build with MPICH, and the MPI tests with it
  --debian13      also a part of the tests (with --long all) in a Debian 13 root, which stays in build/debian13
  --no-venv       no Python environment: tests that need zarr-python 3 or PyTorch are skipped
  --with-torch    PyTorch from wherever pip finds it (several GB from PyPI); without this option it is
                  taken only where pip is configured with a local build
  -j, --jobs N    tests at a time (two for each CPU, and one)
  -h, --help

  tests/run.sh --quick -- -R unit.plan      only the tests of the plan
Corpora of foreign datasets are looked for in PENSTOCK_CORPORA, else in ../shared/corpora beside the checkout.
USAGE
}

while (($#)); do
    case $1 in
        --quick) quick=1 ;;
        --long) long=1 ;;
        --mpich) mpich=1 ;;
        --debian13) debian13=1 ;;
        --no-venv) venv= ;;
        --with-torch) torch=yes ;;
        -j | --jobs)
            [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "$1 takes a number"
            jobs=$2
            shift
            ;;
        -h | --help) usage && exit ;;
        --)
            shift
            filter=("$@")
            break
            ;;
        *) fail "'$1' is no option; see --help" ;;
    esac
    shift
done
cd "$root"

skipped() {
    say "skipped: $*"
}

# --- packages ---------------------------------------------------------------------------------

# What builds need comes first, the rest while they go on. Debian's zarr is 2.x and belongs to /usr/bin/python3,
# whatever else comes first in PATH.
mapfile -t packages < <(build_packages)
packages+=(libcmocka-dev python3 python3-venv "${INGEST_PACKAGES[@]}" "${IMAGE_PACKAGES[@]}")
more_packages=(python3-numpy python3-pip python3-zarr python3-xxhash nginx-light openssl zstd ffmpeg mandoc groff-base prometheus)
[[ ! $mpich ]] || packages+=(ccache) more_packages+=(mpich libmpich-dev)
[[ ! $debian13 ]] || more_packages+=(mmdebstrap)
[[ ! $long ]] || more_packages+=(mpich libmpich-dev debhelper dh-python dpkg-dev lintian mmdebstrap)
# Hosts of tests/cluster are namespaces, which root may not make in every container.
if ((EUID == 0)) && unshare --net --uts --mount true 2>/dev/null; then
    more_packages+=(iproute2 slurmctld slurmd slurm-client munge libpmix-dev)
fi
install_packages "${packages[@]}"
install_packages "${more_packages[@]}" &
more_packages_job=$!
((EUID == 0)) || wait "$more_packages_job" # sudo may ask for a password
python=/usr/bin/python3
[[ -x $python ]] || python=$(command -v python3) || fail "no python3"
CMAKE_ARGUMENTS=(-DBUILD_TESTING=ON)

# --- a Python environment with a current zarr, and PyTorch where it is to be had cheaply ---------

in_venv() {
    build/venv/bin/pip --quiet install "$@" >>build/venv.log 2>&1
}

has_module() {
    "$1" -c "import $2" 2>/dev/null
}

# Beside the builds, which need none of it.
fill_venv() {
    [[ -x build/venv/bin/pip ]] || "$python" -m venv build/venv >build/venv.log 2>&1 || return 0
    has_module build/venv/bin/python zarr || in_venv numpy xxhash 'zarr>=3' || true
    has_module build/venv/bin/python tensorstore || in_venv tensorstore || true
    has_module build/venv/bin/python imagecodecs || in_venv imagecodecs || true
    has_module build/venv/bin/python moto.server || in_venv 'moto[server]' || true
    has_module build/venv/bin/python auditwheel || in_venv wheel auditwheel || true
    has_module build/venv/bin/python mkdocs || in_venv 'mkdocs<2' || true
    has_module build/venv/bin/python jax || in_venv jax || true
    has_module build/venv/bin/python grain || in_venv grain || true
    has_module build/venv/bin/python pyarrow || in_venv pyarrow || true
    has_module build/venv/bin/python xarray || in_venv xarray || true
    has_module build/venv/bin/python anndata || in_venv scipy anndata polars duckdb || true
    # --no-index: only a build that pip is configured to find locally, with what it depends on from anywhere.
    if ! has_module build/venv/bin/python torch && { [[ $torch == yes ]] || in_venv --no-index --no-deps torch; }; then
        in_venv torch || true
    fi
    has_module build/venv/bin/python torch || return 0
    in_venv lightning accelerate torchdata flax optax || true
    in_venv --no-deps megatron-core || true # its parallel_state needs torch alone
    [[ ! $long ]] || in_venv transformers || true
    [[ ! $long ]] || in_venv mosaicml || true
    [[ ! $long ]] || in_venv tonic || true
    [[ ! $long ]] || in_venv onnxscript onnxruntime || true
}

use_venv() {
    local in_it=build/venv/bin/python
    if ! has_module "$in_it" numpy; then
        skipped "tests that need the Python environment: it could not be made, see build/venv.log"
        return
    fi
    python=$root/$in_it
    if has_module "$in_it" zarr; then
        CMAKE_ARGUMENTS+=(-DPENSTOCK_ZARR3_PYTHON="$python")
    else
        skipped "tests that need zarr-python 3: pip cannot install it, see build/venv.log"
    fi
    has_module "$in_it" tensorstore || skipped "arrays written by tensorstore: pip cannot install it, see build/venv.log"
    if has_module "$in_it" moto.server; then
        CMAKE_ARGUMENTS+=(-DPENSTOCK_MOTO_PYTHON="$python")
    else
        skipped "tests of S3: pip cannot install moto's server, see build/venv.log"
    fi
    has_module "$in_it" auditwheel || skipped "auditwheel, which looks at the wheel: pip cannot install it, see build/venv.log"
    has_module "$in_it" mkdocs || skipped "the site of the pages: pip cannot install mkdocs, see build/venv.log"
    has_module "$in_it" xarray || skipped "CF attributes beside xarray: pip cannot install xarray, see build/venv.log"
    has_module "$in_it" anndata || skipped "what SciPy, anndata, polars and duckdb make of ragged fields: pip cannot install them, see build/venv.log"
    has_module "$in_it" jax || skipped "tests that need JAX: pip cannot install it, see build/venv.log"
    if ! has_module "$in_it" torch; then
        skipped "tests that need PyTorch: not installed; --with-torch installs it"
    elif ! has_module "$in_it" lightning; then
        skipped "training loops of frameworks: pip cannot install them, see build/venv.log"
    fi
}

# --- builds -------------------------------------------------------------------------------------

mpi_programs=(penstock-cli penstock-reader penstock-sieve penstock-trainer penstock hostile-trainer)

mkdir -p build
if [[ $venv ]]; then
    [[ -x build/venv/bin/pip ]] || say "making build/venv by pip: current zarr, tensorstore, moto, JAX"
    fill_venv &
    venv_job=$!
fi
# Most files do not ask which MPI it is: the second build takes them as the first one compiled them.
compiled_once=()
if [[ $mpich ]]; then
    export CCACHE_DIR=${CCACHE_DIR-$root/build/ccache} CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
    compiled_once=(-DPENSTOCK_WERROR=ON -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
say "building build/release"
configure_preset release build/release "${compiled_once[@]}"
build_directory build/release
builds=(release)
if [[ ! $quick ]]; then
    build_preset asan
    build_preset tsan threads "${mpi_programs[@]}"
    builds+=(asan tsan)
fi
wait "$more_packages_job" || fail "packages could not be installed, see above"
if [[ $mpich ]]; then
    say "building build/mpich"
    configure_preset release build/mpich "${compiled_once[@]}" -DMPI_C_COMPILER=mpicc.mpich \
        -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.mpich)"
    build_directory build/mpich "${mpi_programs[@]}"
    builds+=(mpich)
fi
if [[ $venv ]]; then
    wait "$venv_job"
    use_venv
fi
CMAKE_ARGUMENTS+=(-DPython3_EXECUTABLE="$python")
for build in "${builds[@]}"; do
    configure "build/$build"
done

# --- tests --------------------------------------------------------------------------------------

if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

if [[ ! ${PENSTOCK_CORPORA-} && -d ../shared/corpora ]]; then
    PENSTOCK_CORPORA=$(cd ../shared/corpora && pwd)
fi
if [[ ${PENSTOCK_CORPORA-} ]]; then
    export PENSTOCK_CORPORA
else
    skipped "conformance.*: there is no ../shared/corpora, and PENSTOCK_CORPORA names no other folder"
fi

# add_suite NAME COMMAND...: other tests as one test of the whole, which takes half of the jobs.
add_suite() {
    local name=$1 part command=
    shift
    for part in "$@"; do
        command+=" [==[$part]==]"
    done
    printf 'add_test([==[%s]==]%s)\n' "$name" "$command"
    printf 'set_tests_properties([==[%s]==] PROPERTIES PROCESSORS %d COST 1500 TIMEOUT %d SKIP_RETURN_CODE 77 LABELS suite)\n' \
        "$name" "$half" "$((long ? 5400 : 1500))"
}

# suite NAME DIRECTORY LABELS LABELS-LEFT-OUT [COMMAND...]: another build's tests.
suite() {
    local name=$1 directory=$2 labels=$3 left_out=$4
    shift 4
    add_suite "$name" "$@" ctest --test-dir "$root/$directory" -L "$labels" -LE "$left_out" \
        --output-on-failure --no-tests=error -j "$half"
}

half=$((jobs > 1 ? jobs / 2 : 1))
excluded='^long$' excluded_there='^(long|once)$' excluded_with_mpich='^(long|once|one_mpi)$'
[[ ! $long ]] || excluded='^$' excluded_there='^$' excluded_with_mpich='^$'
# Of units those that call the system or another library.
debian13_part=(-R '^(unit\.(base|store|codec|read|delivery|client|server|topology|config|encode|transform|mpi)\.|cli\.(synth|verify|rechunk|demo|doctor|launch)$|mpi\.(digests\.Shapes|recovery\.Readers)$)')
[[ ! $long ]] || debian13_part=()

# ThreadSanitizer's memory map does not go with the address randomisation of some kernels.
fixed_addresses=()
if command -v setarch >/dev/null && setarch -R true 2>/dev/null; then
    fixed_addresses=(setarch -R)
fi

mkdir -p build/all
{
    [[ $quick ]] || suite sanitize.address build/asan '^(unit|fuzz|sanitize)$' "$excluded_there"
    [[ $quick ]] || suite sanitize.thread build/tsan '^(threads|sanitize)$' "$excluded_there" "${fixed_addresses[@]}"
    [[ ! $mpich ]] || suite mpich build/mpich '^mpi$' "$excluded_with_mpich"
    [[ ! $debian13 ]] || add_suite debian13 "$root/tests/install/debian13.sh" "$root" "$root/build/debian13" "$half" "${debian13_part[@]}"
    printf 'subdirs([==[%s]==])\n' "$root/build/release"
} >build/all/CTestTestfile.cmake

exec ctest --test-dir build/all --output-on-failure --no-tests=error -j "$jobs" -LE "$excluded" "${filter[@]}"
