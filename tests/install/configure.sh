#!/usr/bin/env bash
# configure.sh SOURCE_DIRECTORY COMPILER: only tests need cmocka, who asks for tests is told so, and the old name does as before.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$1 compiler=$2
cd "$scratch"

# configure DIRECTORY [ARGUMENT...]
configure() {
    local directory=$1
    shift
    cmake -S "$source" -B "$directory" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DPENSTOCK_MPI=OFF "$@" >log 2>&1
}

# Whether the configured directory has tests.
tests_in() {
    grep -q test_base_error "$1/build.ninja"
}

# A machine without cmocka, as far as pkg-config says.
cat >pkg-config-without <<'SH'
#!/bin/sh
case " $* " in *" cmocka "*) echo "$*" >>"$(dirname "$0")/sought"; exit 1 ;; esac
exec pkg-config "$@"
SH
chmod +x pkg-config-without
without=-DPKG_CONFIG_EXECUTABLE=$PWD/pkg-config-without
with=-DPKG_CONFIG_EXECUTABLE=$(command -v pkg-config)

configure none "$without" || fail "without cmocka nothing is configured"
grep -q "no tests: .*libcmocka-dev" log || fail "it does not say that there are no tests, and why"
[[ ! -e none/tests ]] || fail "tests without cmocka"
! configure asked "$without" -DBUILD_TESTING=ON || fail "tests were asked for and are left out"
grep -q "libcmocka-dev" log || fail "it does not say what is missing"

# The same directory, once cmocka is there; then without tests, and nothing that only they need is looked for.
configure none "$with" || fail "with cmocka"
tests_in none || fail "no tests although cmocka has come"
grep -q '^PENSTOCK_FAULTS:BOOL=ON' none/CMakeCache.txt || fail "no stores that fail on purpose, which tests need"
configure none -DBUILD_TESTING=OFF || fail "BUILD_TESTING=OFF"
! tests_in none || fail "tests in spite of BUILD_TESTING=OFF"
rm -f sought
configure bare "$without" -DBUILD_TESTING=OFF --trace-format=human --trace || fail "BUILD_TESTING=OFF alone"
[[ ! -e sought ]] || fail "without tests it looks for cmocka"
! grep -E 'find_package\(Python' log || fail "without tests it looks for Python"

# The name that BUILD_TESTING had, and a build directory of that time.
configure old -DPENSTOCK_TESTS=OFF || fail "PENSTOCK_TESTS=OFF"
grep -q "write -DBUILD_TESTING=OFF" log || fail "it does not say what PENSTOCK_TESTS is now"
! tests_in old || fail "tests in spite of PENSTOCK_TESTS=OFF"
configure old -DBUILD_TESTING=ON || fail "BUILD_TESTING=ON after PENSTOCK_TESTS=OFF"
tests_in old || fail "PENSTOCK_TESTS=OFF is not forgotten"
configure auto "$without" -DBUILD_TESTING=ON -DPENSTOCK_TESTS=AUTO || fail "PENSTOCK_TESTS=AUTO"
grep -q "no tests: .*libcmocka-dev" log || fail "AUTO is not what it was"
