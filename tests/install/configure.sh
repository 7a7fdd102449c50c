#!/usr/bin/env bash
# configure.sh SOURCE_DIRECTORY COMPILER: only tests need cmocka, and who asks for tests is told so.
set -euo pipefail
source=$1 compiler=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
    echo "FAILED: $*" >&2
    cat log >&2
    exit 1
}

# configure DIRECTORY [ARGUMENT...]
configure() {
    local directory=$1
    shift
    cmake -S "$source" -B "$directory" -G Ninja -DCMAKE_C_COMPILER="$compiler" "$@" >log 2>&1
}

# A machine without cmocka, as far as pkg-config says.
cat >pkg-config-without <<'SH'
#!/bin/sh
case " $* " in *" cmocka "*) exit 1 ;; esac
exec pkg-config "$@"
SH
chmod +x pkg-config-without
without=-DPKG_CONFIG_EXECUTABLE=$PWD/pkg-config-without

configure none "$without" || fail "without cmocka nothing is configured"
grep -q "no tests: .*libcmocka-dev" log || fail "it does not say that there are no tests, and why"
[[ ! -e none/tests ]] || fail "tests without cmocka"
! configure asked "$without" -DPENSTOCK_TESTS=ON || fail "tests were asked for and are left out"
grep -q "libcmocka-dev" log || fail "it does not say what is missing"

# The same directory, once cmocka is there; and with CMake's own word for no tests.
configure none -DPKG_CONFIG_EXECUTABLE="$(command -v pkg-config)" || fail "with cmocka"
grep -q test_base_error none/build.ninja || fail "no tests although cmocka has come"
grep -q '^PENSTOCK_FAULTS:BOOL=ON' none/CMakeCache.txt || fail "no stores that fail on purpose, which tests need"
configure none -DBUILD_TESTING=OFF || fail "BUILD_TESTING=OFF"
! grep -q test_base_error none/build.ninja || fail "tests in spite of BUILD_TESTING=OFF"
