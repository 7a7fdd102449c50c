#!/usr/bin/env bash
# aarch64.sh: makes the wheels for aarch64 on x86_64. See --help.
#
# Debian's cross compiler lives in a root of its own, and arm64's packages, unpacked and not configured, in folder sysroot of that root:
# nothing is installed here. qemu-user runs what comes of it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"
# shellcheck source=packaging/wheels.sh
source "$root/packaging/wheels.sh"
# shellcheck source=tests/install/root.sh
source "$root/tests/install/root.sh"
readonly SUITE=bookworm
readonly TOOLS=gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,cmake,ninja-build,pkg-config,patchelf,python3-pip,qemu-user-static
# qemu-user has no limits of processes, no huge pages, no populating, and starts no other aarch64 program.
readonly NOT_BY_QEMU='^unit\.(base\.size|read\.pool_populate|delivery\.(protocol|ring)|server\.ring_memory|encode\.(processes|hostile))$'

usage() {
    cat <<'USAGE'
Usage: packaging/aarch64.sh [OPTION...] WHEEL [DIRECTORY]
Makes both wheels for aarch64 in DIRECTORY (default: build/wheels), and prints their paths. WHEEL is penstock-service's for x86_64,
made before: manual pages and licences are taken from there. Needs root and mmdebstrap; the root with compilers stays in
build/aarch64.

  --test      also run unit tests by qemu-user, and a small run, whose order is printed
  -h, --help
USAGE
}

wheel='' wheels='' test=''
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --test) test=1 ;;
        -*) fail "'$1' is no option; see --help" ;;
        *) [[ ! $wheels ]] || fail "unexpected '$1'; see --help"
            [[ $wheel ]] && wheels=$1 || wheel=$1 ;;
    esac
    shift
done
[[ -f $wheel ]] || fail "which wheel for x86_64? packaging/wheel.sh makes one"
mkdir -p "${wheels:=$root/build/wheels}" "$root/build/aarch64"
wheel=$(realpath "$wheel") wheels=$(realpath "$wheels")
there=$root/build/aarch64/root
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What roots are made by says that it cannot.
skip() {
    say "$*"
    exit 77
}

make_roots() {
    local libraries library
    [[ ! -d $there ]] || return 0
    rm -rf --one-file-system "$there.part"
    make_root "$SUITE" "$there.part" "$TOOLS"
    libraries=$(printf '%s\n' "${BUILD_PACKAGES[@]}" | grep '^lib.*-dev$' | paste -sd ,)
    make_root "$SUITE" "$there.part/sysroot" "$libraries,libudev-dev,libopenmpi-dev,libmpich-dev,libcmocka-dev" --variant=extract --architectures=arm64
    # Static hwloc, which looks for no plugins: see make_hwloc() of service.sh.
    library=$there.part/sysroot/usr/lib/aarch64-linux-gnu
    rm "$library/libhwloc.so"
    sed -i 's|/usr/lib/aarch64-linux-gnu/hwloc|////////////////////////////////|' "$library/libhwloc.a" # as long
    sed -i 's|^Libs:.*|& -ludev|' "$library/pkgconfig/hwloc.pc"
    mv "$there.part" "$there"
}

copy_source() {
    mkdir -p "$there/source/penstock" "$there/wheels"
    find "$there/source/penstock" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    (cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --create --null --ignore-failed-read --files-from=- 2>/dev/null) |
        tar --extract --directory "$there/source/penstock"
    rm -rf "${there:?}/wheels"/*
    cp "$wheel" "$there/wheels"
}

# For the reader of MPI 5's standard ABI: in the root pip has no settings of this machine.
fetch_mpich_there() {
    local machine=aarch64
    find_python
    mkdir "$there/wheels/made"
    fetch_mpich "$there/wheels/made" >&2 || true
}

# Prints the order of 100 samples, as `penstock demo` does: written, read and delivered by the wheel's programs, one reader without mpirun.
run_demo() {
    rm -rf "$there/try"
    mkdir "$there/try"
    python3 -m zipfile -e "$there"/wheels/made/penstock_service-*.whl "$there/try"
    # shellcheck disable=SC2016
    in_root "$there" bash -euc '
        cd /try && mv ./*.data/data service && chmod +x service/bin/*
        run=(qemu-aarch64-static -L /sysroot -E LD_LIBRARY_PATH=/try/service/libexec/penstock/mpich:/sysroot/usr/lib/aarch64-linux-gnu)
        "${run[@]}" service/bin/penstock synth latents.zarr --layout latents --samples 100
        timeout 100 "${run[@]}" service/bin/penstock-reader.mpich -c service/libexec/penstock/demo.yaml --set dataset.uri=latents.zarr \
            --set delivery.trainers=1 --set delivery.run_dir=/tmp/run &
        for ((i = 0; i < 100; i++)); do [[ ! -S /tmp/run/reader-0 ]] || break; sleep 0.1; done
        PENSTOCK_RUN_DIR=/tmp/run timeout 100 "${run[@]}" service/bin/penstock-trainer --digest "digests.{rank}.txt"
        wait $!' >"$there.log" 2>&1 || { cat "$there.log" >&2 && fail "the demo fails by qemu-user"; }
    printf 'order: %s\n' "$(awk '{ print $1, $2, $4, $5 }' "$there"/try/digests.*.txt | LC_ALL=C sort | sha256sum | cut -c 1-16)" >&2
}

run_unit_tests() {
    in_root "$there" sh -c "cd /source/penstock && PENSTOCK_SYSROOT=/sysroot && export PENSTOCK_SYSROOT &&
        cmake -G Ninja -S . -B build/tests -DCMAKE_TOOLCHAIN_FILE=/source/penstock/cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release \
            -DBUILD_TESTING=ON -DPENSTOCK_INGEST=OFF -DPENSTOCK_IMAGES=OFF -DPENSTOCK_MPI=OFF && cmake --build build/tests &&
        ctest --test-dir build/tests -L '^unit\$' -E '$NOT_BY_QEMU' -j $(nproc)" >"$there.log" 2>&1 ||
        { tail -n 40 "$there.log" >&2 && fail "unit tests fail by qemu-user, see $there.log"; }
    grep 'tests passed' "$there.log" >&2
}

make_roots
copy_source
fetch_mpich_there
in_root "$there" /source/penstock/packaging/wheel.sh --cross /sysroot "/wheels/${wheel##*/}" /wheels/made >"$scratch/made" || fail "no wheels for aarch64"
[[ ! $test ]] || run_demo
[[ ! $test ]] || run_unit_tests
while read -r made; do
    cp "$there$made" "$wheels"
    printf '%s\n' "$wheels/${made##*/}"
done <"$scratch/made"
