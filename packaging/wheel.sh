#!/usr/bin/env bash
# wheel.sh: makes a wheel of the Python package with libpenstock inside, for trainers. It has no MPI.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"
readonly GLIBC=2.28 # the oldest that the wheel is for: Debian 10, RHEL 8

usage() {
    cat <<'USAGE'
Usage: packaging/wheel.sh [OPTION...] [DIRECTORY]
Makes penstock-VERSION-py3-none-manylinux_2_28_MACHINE.whl in DIRECTORY (default: build/wheels), and prints its path.
Needs pip, setuptools and wheel for Python (Debian: python3-pip); auditwheel looks at the wheel where it is installed.

  --library FILE  put this libpenstock.so inside, instead of building one
  -h, --help
USAGE
}

library='' wheels=''
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --library) [[ ${2-} ]] || fail "--library takes a file" && library=$(realpath "$2") && shift ;;
        -*) fail "'$1' is no option; see --help" ;;
        *) [[ ! $wheels ]] || fail "unexpected '$1'; see --help" && wheels=$1 ;;
    esac
    shift
done
mkdir -p "${wheels:=$root/build/wheels}"
wheels=$(realpath "$wheels")
cd "$root"

# Sets python: one that can build wheels without fetching anything.
find_python() {
    for python in ${PYTHON-} python3 /usr/bin/python3; do
        "$python" -c 'import setuptools, wheel, pip' 2>/dev/null && return
    done
    fail "no Python with pip, setuptools and wheel: apt-get install python3-pip, or set PYTHON"
}

# symbols FILE VERSION: what a library takes of that version.
symbols() {
    objdump -T "$1" | awk -v version="$2" 'NF > 2 && $(NF - 1) ~ version { print $NF }' | paste -sd ' '
}

# The library has to load with any glibc from $GLIBC on, and with nothing else.
check_library() {
    local needed newest
    needed=$(objdump -p "$1" | awk '$1 == "NEEDED" && $2 !~ /^(libc\.so\.6|ld-linux.*)$/ { print $2 }')
    [[ ! $needed ]] || fail "$1 needs more than libc, and would not load everywhere: ${needed//$'\n'/, }"
    newest=$(objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+[0-9]' | sort -Vu | tail -n 1)
    [[ $(printf 'GLIBC_%s\n' "$GLIBC" "${newest#GLIBC_}" | sort -V | tail -n 1) == "GLIBC_$GLIBC" ]] ||
        fail "$1 needs $newest, and is to load with glibc $GLIBC: do without $(symbols "$1" "$newest")"
}

# The same question to auditwheel, which has manylinux's own tables.
audit() {
    local found
    if ! "$python" -m auditwheel --version >/dev/null 2>&1; then
        say "skipped: auditwheel, which is not installed for $python"
        return
    fi
    found=$("$python" -m auditwheel show "$1")
    tr '\n' ' ' <<<"$found" | grep -q "is consistent with the following platform tag: \"$platform\"" ||
        fail "auditwheel does not find $platform: $found"
}

find_python
if [[ ! $library ]]; then
    CMAKE_ARGUMENTS=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DPENSTOCK_MPI=OFF)
    configure build/wheel -S . -B build/wheel
    build_directory build/wheel penstock
    library=$root/build/wheel/lib/libpenstock.so
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r python "$scratch/python"
find "$scratch/python" -name __pycache__ -prune -exec rm -rf {} +
cp LICENSE "$scratch/python"
strip --strip-unneeded -o "$scratch/python/penstock/libpenstock.so" "$library"
check_library "$scratch/python/penstock/libpenstock.so"

platform=manylinux_${GLIBC/./_}_$(uname -m)
PENSTOCK_WHEEL_PLATFORM=$platform "$python" -m pip wheel --quiet --no-deps --no-index \
    --no-build-isolation --disable-pip-version-check --wheel-dir "$scratch" "$scratch/python" >&2
wheel=$(cd "$scratch" && echo ./*.whl)
audit "$scratch/$wheel"
mv "$scratch/$wheel" "$wheels"
printf '%s\n' "$wheels/${wheel#./}"
