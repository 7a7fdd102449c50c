#!/usr/bin/env bash
# packages.sh BUILD_DIRECTORY COMPILER: what packaging/debian says of this build is true: functions of the library, files of the packages,
# programs and their pages. install.debian builds the packages, which takes minutes.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
debian=$root/packaging/debian

# Functions are added to the library, and never go.
diff <(nm -D --defined-only "$build/lib/libpenstock.so" | awk '{ print $3 }' | sort) \
    <(sed -n 's/^ \(penstock_[a-z_]*\)@Base .*/\1/p' "$debian/libpenstock0.symbols" | sort) >"$scratch/diff" ||
    fail "libpenstock0.symbols is not what libpenstock.so exports: $(<"$scratch/diff")"

# Each file of component client is in one of two packages, and no line of a list is for nothing.
DESTDIR=$scratch/tmp cmake --install "$build" --prefix /usr --component client >/dev/null
cd "$scratch/tmp"
[[ -d usr/lib/x86_64-linux-gnu || ! -d usr/lib ]] || { mkdir usr/here && mv usr/lib/* usr/here && mv usr/here usr/lib; } # as Debian's lib/<multiarch>
while read -r pattern; do
    compgen -G "$pattern" >"$scratch/found" || [[ $pattern == usr/share/man/* && ! -e $build/man/made ]] || fail "no file is $pattern"
    while read -r found; do
        find "$found" ! -type d
    done <"$scratch/found"
done < <(cat "$debian"/libpenstock*.install) | sort >"$scratch/claimed"
find . ! -type d | sed 's|^\./||' | sort >"$scratch/there"
diff "$scratch/there" "$scratch/claimed" >"$scratch/diff" || fail "files and packages differ: $(<"$scratch/diff")"

# The other components go into packages as they are: these hold what packages are for, and the files that rules moves.
for component in cli trainer reader; do
    [[ $component != reader || -x $build/bin/penstock-reader ]] || continue
    DESTDIR=$scratch/$component cmake --install "$build" --prefix /usr --component "$component" >/dev/null
    (cd "$scratch/$component" && find usr ! -type d ! -path '*/cmake/*' ! -path '*/man/*' | sort)
done >"$scratch/programs"
printf 'usr/%s\n' bin/penstock bin/penstock-trainer bin/penstock-reader bin/penstock-run libexec/penstock/demo.sh \
    libexec/penstock/demo.yaml libexec/penstock/launchers.sh libexec/penstock/mca.sh \
    libexec/penstock/nodes.sh libexec/penstock/penstock-sieve libexec/penstock/readers.sh libexec/penstock/supervise.sh >"$scratch/expected"
[[ -x $build/bin/penstock-reader ]] || sed -i '/reader\|run\|libexec/d' "$scratch/expected"
diff "$scratch/expected" "$scratch/programs" || fail "the programs are others: does packaging/debian/rules know them?"
