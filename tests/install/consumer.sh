#!/usr/bin/env bash
# consumer.sh BUILD_DIRECTORY COMPILER: what `install` leaves can be moved, found, linked and run.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 compiler=$2

skip_sanitizers "$build" "a plain program"

cmake --install "$build" --prefix "$scratch/first" >"$scratch/log" || { cat "$scratch/log" && exit 1; }
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix

"$prefix/bin/penstock" --version
"$prefix/bin/penstock-trainer" --version
[[ ! -e $prefix/bin/penstock-reader ]] || "$prefix/bin/penstock-reader" --version

pkgconfig=$(dirname "$(find "$prefix" -name penstock.pc)")
library=$(PKG_CONFIG_PATH=$pkgconfig pkg-config --variable=libdir penstock)
[[ $(objdump -p "$library/libpenstock.so") == *"SONAME"*"libpenstock.so.0"* ]]
# Only the public names leave the library.
foreign=$(nm -D --defined-only "$library/libpenstock.so" | awk '$3 !~ /^penstock_/')
[[ -z $foreign ]] || { echo "exported beyond penstock_*: $foreign" && exit 1; }
# It lives in the user's process, and starts no threads there.
[[ $(nm -D --undefined-only "$library/libpenstock.so") != *" pthread_create"* ]] || { echo "it starts threads" && exit 1; }

# shellcheck disable=SC2046
"$compiler" -std=c99 -Wall -Wextra -pedantic -Werror "$here/consumer/main.c" -o "$scratch/by-pkgconfig" \
    $(PKG_CONFIG_PATH=$pkgconfig pkg-config --cflags --libs penstock)
LD_LIBRARY_PATH=$library "$scratch/by-pkgconfig"

cmake -S "$here/consumer" -B "$scratch/by-cmake" -G Ninja \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" >/dev/null
cmake --build "$scratch/by-cmake" >/dev/null
"$scratch/by-cmake/consumer"
