#!/usr/bin/env bash
# release.sh: makes a release: the version everywhere, tests, a commit, a tag, a source archive and wheels. See --help.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"
cd "$root"

usage() {
    cat <<'USAGE'
Usage: packaging/release.sh [OPTION...] VERSION
Writes VERSION wherever the version stands, dates its section of CHANGELOG.md, runs .ci/run, commits, tags vVERSION, and leaves a source
archive and wheels in build/release-VERSION. Publishes nothing: prints the command that does, by .github/workflows/release.yml.

  --check      compare the places where the version stands, and end
  --no-tests   do not run .ci/run, which has passed on this commit
  -h, --help   print this text
USAGE
}

# File, and a pattern whose group is the version there.
readonly PLACES=(
    'CMakeLists.txt|^project(penstock VERSION \([0-9.]*\) .*'
    'python/pyproject.toml|^version = "\([0-9.]*\)"$'
    'python/pyproject.toml|^service = \["penstock-service==\([0-9.]*\)"\]$'
    'python/pyproject.toml|^openmpi = \["penstock-service\[openmpi\]==\([0-9.]*\)"\]$'
    'python/pyproject.toml|^mpich = \["penstock-service\[mpich\]==\([0-9.]*\)"\]$'
    'packaging/service/pyproject.toml|^version = "\([0-9.]*\)"$'
    'python/penstock/__init__.py|^__version__ = "\([0-9.]*\)"$'
    'CITATION.cff|^version: \([0-9.]*\)$'
    'packaging/Containerfile|^ARG VERSION=\([0-9.]*\)$'
    'packaging/apptainer/penstock.def|.*penstock-loader\[openmpi\]==\([0-9.]*\).*'
    'packaging/conda/recipe.yaml|^  version: "\([0-9.]*\)"$'
)

# The header has three numbers.
header_version() {
    local part
    for part in MAJOR MINOR PATCH; do
        sed -n "s/^#define PENSTOCK_VERSION_$part \([0-9]*\)\$/\1/p" src/include/penstock.h
    done | paste -sd .
}

# versions: "FILE VERSION", a line for each place.
versions() {
    local place
    printf 'src/include/penstock.h %s\n' "$(header_version)"
    for place in "${PLACES[@]}"; do
        printf '%s %s\n' "${place%%|*}" "$(sed -n "s/${place#*|}/\1/p" "${place%%|*}")"
    done
    printf 'CHANGELOG.md %s\n' "$(sed -n 's/^## \([0-9.]*\), .*/\1/p' CHANGELOG.md | head -n 1)"
}

check() {
    local found
    found=$(versions)
    (($(awk '{ print $2 }' <<<"$found" | sort -u | wc -l) == 1)) ||
        fail "the version is not the same everywhere:"$'\n'"$found"
    awk 'NR == 1 { print $2 }' <<<"$found"
}

write() {
    local version=$1 place file pattern part i=0
    for place in "${PLACES[@]}"; do
        file=${place%%|*} pattern=${place#*|}
        sed -i "/$pattern/s/[0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*/$version/" "$file"
    done
    IFS=. read -ra numbers <<<"$version"
    for part in MAJOR MINOR PATCH; do
        sed -i "s/^#define PENSTOCK_VERSION_$part .*/#define PENSTOCK_VERSION_$part ${numbers[i++]}/" src/include/penstock.h
    done
    sed -i "s/^## $version, not released yet\$/## $version, $(date -u +%Y-%m-%d)/" CHANGELOG.md
}

version='' tests=1
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --check) check && exit ;;
        --no-tests) tests='' ;;
        -*) fail "'$1' is no option; see --help" ;;
        *) version=$1 ;;
    esac
    shift
done
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "which version? Three numbers, as in 0.2.0"
[[ ! $(git status --porcelain) ]] || fail "there are changes that are not committed"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "the tag v$version is there already"
grep -q "^## $version, not released yet\$" CHANGELOG.md || fail "CHANGELOG.md has no section '## $version, not released yet'"
write "$version"
[[ $(check) == "$version" ]] || fail "the version is not $version everywhere"
[[ ! $tests ]] || .ci/run
if [[ $(git status --porcelain) ]]; then
    git commit --quiet --all --message "Release $version"
fi
git tag --annotate --message "Penstock $version" "v$version"
folder=build/release-$version
mkdir -p "$folder"
git archive --prefix "penstock-$version/" --output "$folder/penstock-$version.tar.gz" "v$version"
packaging/wheel.sh "$folder"
(cd "$folder" && sha256sum -- penstock* >SHA256SUMS)
cat <<NEXT
$folder has the archive, and wheels for this machine's processor. To publish:
  git push origin HEAD v$version    # release.yml tests, makes wheels for both processors, and gives them to PyPI
  attach $folder/penstock-$version.tar.gz and SHA256SUMS to the release, for recipes of conda-forge and Spack
and add a section '## <next version>, not released yet' to CHANGELOG.md.
NEXT
