# shellcheck shell=bash
# What the scripts share: Debian packages and building. Sourced, not run.
#
# Nothing here changes the caller's directory. Functions that cannot go on end the script with fail().

readonly BUILD_PACKAGES=(
    gcc libc6-dev cmake ninja-build pkg-config
    libblosc-dev libzstd-dev libdeflate-dev liblz4-dev libbz2-dev liblzma-dev libisal-dev
    libcurl4-openssl-dev libssl-dev libjson-c-dev libyaml-dev libhwloc-dev libhwloc-plugins libxxhash-dev
    librandom123-dev libmicrohttpd-dev
)

# For `penstock ingest`, which is left out where they are not.
# shellcheck disable=SC2034
readonly INGEST_PACKAGES=(libavformat-dev libavcodec-dev libswscale-dev libavutil-dev)

# For codecs of images and zfpy, each of which is left out where its library is not.
# shellcheck disable=SC2034
readonly IMAGE_PACKAGES=(libturbojpeg0-dev libjxl-dev libopenjp2-7-dev libpng-dev libwebp-dev libzfp-dev)

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# The given Debian packages that are not installed, one a line.
missing_packages() {
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            printf '%s\n' "$package"
    done
}

# What Penstock needs to be built: any MPI will do; where there is none, Open MPI is taken.
build_packages() {
    printf '%s\n' "${BUILD_PACKAGES[@]}"
    if ! command -v mpicc >/dev/null || ! command -v mpiexec >/dev/null; then
        printf '%s\n' openmpi-bin libopenmpi-dev
    fi
}

# Installs what is missing of the given packages, as root or through sudo; else says what to type.
install_packages() {
    local -a missing as_root=()
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: make sure that the equivalents of these are installed: $*"
        return
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    local command="apt-get install -y --no-install-recommends ${missing[*]}"
    if ((EUID != 0)); then
        # Without a terminal sudo cannot ask for a password: then only if it need not.
        if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
            as_root=(sudo)
        else
            fail "packages are missing and this is not root. Have them installed with
    $command"
        fi
    fi
    say "installing ${#missing[@]} packages: ${missing[*]}"
    [[ ! -t 2 ]] || say "this takes about half a minute"
    local log
    log=$(mktemp)
    # Lists of a fresh container are empty, those of an old one out of date: update only if need be.
    if ! apt_install "$log" "${missing[@]}" && {
        ! "${as_root[@]}" apt-get update >>"$log" 2>&1 </dev/null || ! apt_install "$log" "${missing[@]}"
    }; then
        cat "$log" >&2
        rm -f "$log"
        fail "this failed: $command"
    fi
    rm -f "$log"
}

# Uses as_root of install_packages().
apt_install() {
    local log=$1
    shift
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
        --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null
}

# build_preset PRESET [TARGET...]: configures and builds build/PRESET below the repository's root, which
# must be the current directory. Extra arguments of cmake in CMAKE_ARGUMENTS.
build_preset() {
    local preset=$1
    shift
    say "building build/$preset"
    configure_preset "$preset"
    build_directory "build/$preset" "$@"
}

# configure_preset PRESET [DIRECTORY [ARGUMENT-OF-CMAKE...]]
configure_preset() {
    local preset=$1 directory=${2:-build/$1}
    configure "$directory" --preset "$preset" -B "$directory" "${@:3}"
}

# configure DIRECTORY [ARGUMENT-OF-CMAKE...]: without arguments one that has been configured, once more.
configure() {
    local directory=$1
    local log="$directory.log"
    shift
    (($#)) || set -- "$directory"
    mkdir -p build || fail "cannot write to $PWD/build"
    if ! cmake "$@" "${CMAKE_ARGUMENTS[@]}" >"$log" 2>&1; then
        cat "$log" >&2
        fail "cannot configure $directory"
    fi
}

# build_directory DIRECTORY [TARGET...]: on a terminal ninja's own line is shown, else only what went wrong.
build_directory() {
    local directory=$1
    shift
    local -a targets=()
    (($#)) && targets=(--target "$@")
    if [[ -t 1 && -t 2 ]]; then
        cmake --build "$directory" "${targets[@]}" >&2 || fail "cannot build $directory"
    elif ! cmake --build "$directory" "${targets[@]}" >>"$directory.log" 2>&1; then
        tail -n 60 "$directory.log" >&2
        fail "cannot build $directory: see $directory.log"
    fi
}

# build_release [PACKAGE...]: installs these and what the build needs, and builds build/release below the repository's root, which must be the
# current directory: without tests, but that a directory which tests/run.sh has configured keeps them.
build_release() {
    local -a packages
    mapfile -t packages < <(build_packages)
    install_packages "${packages[@]}" "$@"
    CMAKE_ARGUMENTS=(-DBUILD_TESTING=OFF)
    [[ ! -f build/release/CMakeCache.txt ]] || CMAKE_ARGUMENTS=()
    build_preset release
}
