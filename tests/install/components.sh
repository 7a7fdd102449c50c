#!/usr/bin/env bash
# components.sh BUILD_DIRECTORY COMPILER: find_package takes parts of an installation, and the build tree as it is; what is not there
# is refused by name.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 compiler=$2

skip_sanitizers "$build" "a plain program"
cd "$scratch"

# What CMake says is broken into lines anywhere.
says() {
    tr -s ' \n' ' ' <log | grep -q "$1"
}

# consumer DIRECTORY PREFIX COMPONENTS [ARGUMENT...]: configures one; says into log.
consumer() {
    cmake -S "$here/consumer" -B "$1" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$2" \
        -DPARTS="$3" "${@:4}" >log 2>&1
}

# A distribution's package of the library alone.
cmake --install "$build" --prefix "$scratch/library" --component client >log || fail "no component client"
[[ ! -e library/bin ]] || fail "component client has programs"
consumer some "$scratch/library" client || fail "component client is not found"
consumer all "$scratch/library" "" || fail "without components it asks for more than there is"
! consumer more "$scratch/library" "client;trainer" || fail "component trainer is found, and is not there"
says "no component 'trainer' of penstock" || fail "it does not say which component is missing"
! consumer odd "$scratch/library" wheels || fail "there is a component 'wheels'"
says "no component 'wheels' of penstock" || fail "it does not say that there is no component wheels"
says "of client, cli, trainer, reader, python" || fail "it does not say which components there are"

! consumer newer "$scratch/library" client -DWANTED=0.2 || fail "version 0.2 is found"
says 'compatible with requested version "0.2"' || fail "it does not say that another version is there"

# The programs beside it.
programs=(cli trainer)
[[ ! -x $build/bin/penstock-reader ]] || programs+=(reader)
for component in "${programs[@]}"; do
    cmake --install "$build" --prefix "$scratch/library" --component "$component" >log || fail "no component $component"
done
consumer programs "$scratch/library" "client$(printf ';%s' "${programs[@]}")" || fail "programs are not found"
cmake --build programs >log 2>&1 || fail "a program among the components does not run"
for program in penstock penstock-trainer ${programs[2]+penstock-reader penstock-run}; do
    grep -q "^Usage: .*$program " log || fail "$program did not run"
done

# The build tree, not installed.
consumer tree "$build" "client;cli;trainer;python" || fail "the build tree is not found"
cmake --build tree >log 2>&1 || fail "with the build tree nothing is built"
tree/consumer >log || fail "with the build tree nothing runs"
grep -q "in $(cd "$here/../.." && pwd)/python" tree/python || fail "the Python package is not that of the sources"
# shellcheck disable=SC2046
"$compiler" -std=c99 "$here/consumer/main.c" -o by-pkgconfig $(PKG_CONFIG_PATH=$build pkg-config --cflags --libs penstock)
LD_LIBRARY_PATH=$build/lib ./by-pkgconfig >log || fail "pkg-config with the build tree"
