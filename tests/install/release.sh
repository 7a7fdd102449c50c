#!/usr/bin/env bash
# release.sh SOURCE COMPILER: the version is the same everywhere, and packaging/release.sh writes another one everywhere, in a clone.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$1

version=$("$source/packaging/release.sh" --check)
command -v git >/dev/null || skip "no git"
mkdir "$scratch/clone"
cd "$scratch/clone"
(cd "$source" && cp -r .gitignore CMakeLists.txt CHANGELOG.md CITATION.cff packaging launch --parents python/pyproject.toml python/penstock/__init__.py \
    src/include/penstock.h "$scratch/clone")
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.org GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.org
printf '#!/bin/sh\ntouch "$1/penstock.whl"\n' >packaging/wheel.sh # install.wheel makes a wheel
git init --quiet && git add . && git commit --quiet --message start

release() {
    packaging/release.sh --no-tests "$@" >"$scratch/log" 2>&1
}

# refuses TEXT ARGUMENT...
refuses() {
    ! release "${@:2}" || fail "it makes a release: ${*:2}"
    grep -q "$1" "$scratch/log" || fail "it does not say '$1': $(<"$scratch/log")"
}

refuses "no section '## 7.8.9, not released yet'" 7.8.9
refuses "Three numbers" 7.8
sed -i "0,/^## .*/s//## 7.8.9, not released yet/" CHANGELOG.md
refuses "not committed" 7.8.9
git commit --quiet --all --message changes
release 7.8.9 || fail "no release: $(<"$scratch/log")"
[[ $(packaging/release.sh --check) == 7.8.9 ]] || fail "the version is not 7.8.9 everywhere"
! grep -rn "$version" CMakeLists.txt CITATION.cff python || fail "$version is left"
grep -q "^## 7.8.9, 20[0-9-]*$" CHANGELOG.md || fail "CHANGELOG.md has no date"
[[ $(git describe) == v7.8.9 ]] || fail "there is no tag"
tar -tf build/release-7.8.9/penstock-7.8.9.tar.gz | grep -x penstock-7.8.9/CMakeLists.txt >"$scratch/log" || fail "no archive"
(cd build/release-7.8.9 && sha256sum --quiet --check SHA256SUMS) || fail "sums"
refuses "tag v7.8.9 is there already" 7.8.9
sed -i 's/^version: .*/version: 1.0.0/' CITATION.cff
! packaging/release.sh --check >"$scratch/log" 2>&1 || fail "another version in CITATION.cff is not seen"
