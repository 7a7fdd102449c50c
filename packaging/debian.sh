#!/usr/bin/env bash
# debian.sh: builds Debian packages of Penstock. See --help.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/lib.sh
source "$root/launch/lib.sh"
readonly TOOLS=(debhelper dh-python dpkg-dev python3 openmpi-bin libopenmpi-dev mpich libmpich-dev)

usage() {
    cat <<'USAGE'
Usage: packaging/debian.sh [OPTION...] [DIRECTORY]
Builds Debian packages in DIRECTORY (default: build/debian), of what git tracks: libpenstock0, libpenstock-dev, python3-penstock,
penstock, penstock-reader-openmpi and penstock-reader-mpich. Installs what the build needs. Takes some minutes.

  --maintainer TEXT  "NAME <ADDRESS>" that packages name (default: DEBFULLNAME and DEBEMAIL of the environment)
  -h, --help         print this text
USAGE
}

maintainer='' packages=''
while (($#)); do
    case $1 in
        -h | --help) usage && exit ;;
        --maintainer) [[ ${2-} == *"<"*@*">" ]] || fail "--maintainer takes 'NAME <ADDRESS>'" && maintainer=$2 && shift ;;
        -*) fail "'$1' is no option; see --help" ;;
        *) [[ ! $packages ]] || fail "unexpected '$1'; see --help" && packages=$1 ;;
    esac
    shift
done
[[ $maintainer || ! ${DEBEMAIL-} ]] || maintainer="${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>"
[[ $maintainer ]] || fail "who makes these packages? Say --maintainer 'NAME <ADDRESS>', or set DEBFULLNAME and DEBEMAIL"
mkdir -p "${packages:=$root/build/debian}"
packages=$(realpath "$packages")
version=$(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")

# The sources as git tracks them, with folder debian/.
make_tree() {
    local source=$packages/penstock-$version list
    rm -rf "$source"
    mkdir -p "$source"
    (cd "$root" && git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -P -t "$source")
    cp -r "$root/packaging/debian" "$source/debian"
    rm "$source/debian/control.in"
    list=$(printf '%s, ' "${BUILD_PACKAGES[@]}" "${INGEST_PACKAGES[@]}" "${IMAGE_PACKAGES[@]}")
    sed -e "s|@MAINTAINER@|$maintainer|" -e "s|@BUILD_PACKAGES@|$(printf '%s' "${list%, }" | sed 's/\(gcc\|libc6-dev\), //g')|" \
        "$root/packaging/debian/control.in" >"$source/debian/control"
    printf 'penstock (%s) unstable; urgency=medium\n\n  * CHANGELOG.md, which is changelog.gz here, says what is new.\n\n -- %s  %s\n' \
        "$version" "$maintainer" "$(date -R -d "@${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}")" >"$source/debian/changelog"
    printf '%s\n' "$source"
}

mapfile -t needed < <(build_packages)
install_packages "${needed[@]}" "${INGEST_PACKAGES[@]}" "${IMAGE_PACKAGES[@]}" "${TOOLS[@]}"
source=$(make_tree)
names=(libpenstock0 libpenstock-dev python3-penstock penstock penstock-reader-openmpi penstock-reader-mpich)
for name in "${names[@]}"; do
    rm -f "$packages/$name"_*.deb
done
(cd "$source" && dpkg-buildpackage --build=binary --unsigned-changes) >"$packages/log" 2>&1 || {
    tail -n 40 "$packages/log" >&2
    fail "the packages cannot be built: see $packages/log"
}
for name in "${names[@]}"; do
    printf '%s\n' "$packages/$name"_*.deb
done
