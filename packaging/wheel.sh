#!/usr/bin/env bash
# wheel.sh: makes the wheels: penstock-loader, the Python package penstock with libpenstock inside, for trainers, without MPI; and, by service.sh,
# penstock-service.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"
# shellcheck source=packaging/wheels.sh
source "$root/packaging/wheels.sh"
readonly GLIBC=2.28 # the oldest that the wheel is for: Debian 10, RHEL 8

usage() {
    cat <<'USAGE'
Usage: packaging/wheel.sh [OPTION...] [DIRECTORY]
Makes penstock_loader-VERSION-py3-none-manylinux_2_28_MACHINE.whl, for trainers, and the wheel of packaging/service.sh in DIRECTORY
(default: build/wheels), and prints their paths.
Needs pip, setuptools and wheel for Python (Debian: python3-pip); auditwheel looks at wheels where it is installed.

  --trainers      the first one alone
  --cross SYSROOT WHEEL  as of service.sh
  --library FILE  put this libpenstock.so inside, instead of building one
  -h, --help
USAGE
}

library='' wheels='' trainers_alone='' cross='' cross_options=() machine=$(uname -m)
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --cross) (($# > 2)) || fail "--cross takes a folder and a wheel"
            export PENSTOCK_SYSROOT=$2
            cross_options=(--cross "$2" "$3") machine=aarch64 cross=aarch64-linux-gnu- && shift 2 ;;
        --trainers) trainers_alone=1 ;;
        --library) [[ ${2-} ]] || fail "--library takes a file" && library=$(realpath "$2") && shift ;;
        -*) fail "'$1' is no option; see --help" ;;
        *) [[ ! $wheels ]] || fail "unexpected '$1'; see --help" && wheels=$1 ;;
    esac
    shift
done
find_folder

# The library has to load with any glibc from $GLIBC on, and with nothing else.
check_library() {
    local needed
    needed=$("${cross}objdump" -p "$1" | awk '$1 == "NEEDED" && $2 !~ /^(libc\.so\.6|ld-linux.*)$/ { print $2 }')
    [[ ! $needed ]] || fail "$1 needs more than libc, and would not load everywhere: ${needed//$'\n'/, }"
    check_glibc "$1" "$GLIBC"
}

find_python
if [[ ! $library ]]; then
    CMAKE_ARGUMENTS=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DPENSTOCK_MPI=OFF
        -DCMAKE_C_FLAGS="-ffile-prefix-map=$root=.")
    [[ ! $cross ]] || CMAKE_ARGUMENTS+=(-DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" -DPENSTOCK_INGEST=OFF -DPENSTOCK_IMAGES=OFF)
    configure build/wheel -S . -B build/wheel
    build_directory build/wheel penstock
    library=$root/build/wheel/lib/libpenstock.so
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r python "$scratch/python"
find "$scratch/python" -name __pycache__ -prune -exec rm -rf {} +
cp LICENSE "$scratch/python"
"${cross}strip" --strip-unneeded -o "$scratch/python/penstock/libpenstock.so" "$library"
check_library "$scratch/python/penstock/libpenstock.so"

build_wheel "$scratch/python" "manylinux_${GLIBC/./_}_$machine" "$wheels"
[[ $trainers_alone ]] || packaging/service.sh "${cross_options[@]}" "$wheels"
