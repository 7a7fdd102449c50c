#!/usr/bin/env bash
# static.sh SOURCE_DIRECTORY COMPILER: libpenstock.a, found by CMake and by pkg-config, shows its public names alone, and
# has its assertions.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$1 compiler=$2
cd "$scratch"

configure() {
    cmake -S "$source" -B build -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_TESTING=OFF -DPENSTOCK_MPI=OFF "$@" >log 2>&1
}

! configure -DBUILD_SHARED_LIBS=OFF -DPENSTOCK_INSTALL_PYTHON=ON || fail "Python is installed without what it loads"
grep -q "needs BUILD_SHARED_LIBS=ON" log || fail "it does not say what Python needs"
configure -DBUILD_SHARED_LIBS=OFF -DPENSTOCK_INSTALL_PYTHON=OFF || fail "BUILD_SHARED_LIBS=OFF"
cmake --build build --target penstock >log 2>&1 || fail "libpenstock.a is not built"
cmake --install build --prefix "$scratch/prefix" --component client >log 2>&1 || fail "libpenstock.a is not installed"
library=$(find prefix -name 'libpenstock.a')
[[ $library && ! $(find prefix -name 'libpenstock.so*') ]] || fail "not libpenstock.a alone: $(find prefix)"
foreign=$(nm --extern-only --defined-only --quiet "$library" | awk 'NF == 3 && $3 !~ /^penstock_/')
[[ -z $foreign ]] || fail "shown beyond penstock_*: $foreign"
nm --undefined-only --quiet "$library" | grep -q __assert_fail || fail "a Release build has no assertions"

# A program with functions of the same names as ours inside.
{
    cat "$source/tests/install/consumer/main.c"
    printf 'void error_set(void);\nvoid error_set(void) {}\nvoid text_append(void);\nvoid text_append(void) {}\n'
} >main.c
# shellcheck disable=SC2046
"$compiler" -std=c99 main.c -o by-pkgconfig \
    $(PKG_CONFIG_PATH=$(dirname "$(find "$PWD/prefix" -name penstock.pc)") pkg-config --cflags --libs penstock) >log 2>&1 ||
    fail "not linked by what pkg-config says"
./by-pkgconfig >log || fail "linked by pkg-config, it does not run"
for prefix in "$PWD/prefix" "$PWD/build"; do
    rm -rf by-cmake
    cmake -S "$source/tests/install/consumer" -B by-cmake -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DPARTS=client \
        -DCMAKE_C_COMPILER="$compiler" >log 2>&1 || fail "not found in $prefix"
    cmake --build by-cmake >log 2>&1 || fail "not linked by CMake, from $prefix"
    by-cmake/consumer >log || fail "linked by CMake from $prefix, it does not run"
done
