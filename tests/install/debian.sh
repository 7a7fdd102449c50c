#!/usr/bin/env bash
# debian.sh SOURCE COMPILER: Debian packages are built, lintian finds no error and no warning, and in a root of their own they are installed,
# run with both MPIs, and removed without a trace. Fetches Debian's packages from where apt has them.
# PENSTOCK_DEBS names a folder of packages that are built already.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/install/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"
source=$1

needs_root
command -v dpkg-buildpackage >/dev/null && command -v dh_python3 >/dev/null || skip "debhelper or dh-python is not installed"
[[ -e $source/.git ]] || skip "packages are built of what git tracks"

debs=${PENSTOCK_DEBS-}
if [[ ! $debs ]]; then
    debs=$scratch/debs
    "$source/packaging/debian.sh" --maintainer "Penstock tests <tests@example.org>" "$debs"
    if command -v lintian >/dev/null; then
        lintian --allow-root --fail-on error,warning "$debs"/*.changes || fail "lintian"
    else
        echo "skipped: lintian, which is not installed"
    fi
fi

# shellcheck disable=SC1091
make_root "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$scratch/system" man-db,python3
mkdir "$scratch/system/debs"
find "$debs" -name '*.deb' ! -name '*-dbgsym_*' -exec cp -t "$scratch/system/debs" {} +
cat >"$scratch/system/train.py" <<'TRAIN'
import penstock

with penstock.connect() as loader:
    samples = sum(len(batch.indices) for epoch in loader.epochs() for batch in epoch)
    with open(f"/tmp/trainer-{loader.info.rank}", "w") as file:
        print(penstock.library_path(), samples, file=file)
TRAIN
cat >"$scratch/system/inside.sh" <<'INSIDE'
set -eu
export DEBIAN_FRONTEND=noninteractive OMPI_MCA_rmaps_base_oversubscribe=1 LC_ALL=C.UTF-8
cd /
apt-get -qq update >/tmp/log 2>&1 || { tail /tmp/log && exit 77; }
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp \) -prune -o -print | sort >/tmp/before
apt-get -qq install -y --no-install-recommends /debs/*.deb >/tmp/log 2>&1 || { tail /tmp/log && exit 1; }
penstock --version
penstock synth /tmp/data.zarr --samples 60 >/dev/null 2>&1
for mpi in openmpi mpich; do
    update-alternatives --set penstock-run "/usr/bin/penstock-run.$mpi" >/dev/null
    [ "$(readlink -f /usr/bin/penstock-reader)" = "$(readlink -f "/usr/bin/penstock-reader.$mpi")" ]
    penstock-run --version
    penstock-run --set dataset.uri=/tmp/data.zarr --set batch.global_size=20 --set delivery.trainers=2 -- \
        python3 /train.py >/tmp/out 2>/tmp/err || { cat /tmp/out /tmp/err && exit 1; }
    for rank in 0 1; do
        echo "$mpi, trainer $rank: $(cat /tmp/trainer-$rank)"
        case $(cat /tmp/trainer-$rank) in
            /usr/lib/*/libpenstock.so.0\ 30) rm /tmp/trainer-$rank ;;
            *) exit 1 ;;
        esac
    done
done
for page in penstock penstock-plan penstock-run penstock-reader penstock-trainer libpenstock penstock_next; do
    man -w $page >/dev/null
done
apt-get -qq purge -y penstock penstock-reader-openmpi penstock-reader-mpich libpenstock0 libpenstock-dev python3-penstock >/tmp/log 2>&1 || { tail /tmp/log && exit 1; }
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp \) -prune -o -print | sort >/tmp/after
left=$(comm -13 /tmp/before /tmp/after | grep -i penstock || true; find /dev/shm /tmp -name '*penstock*')
[ -z "$left" ] || { echo "left behind: $left" && exit 1; }
echo "installed, run and removed"
INSIDE
in_root "$scratch/system" bash /inside.sh >"$scratch/log" 2>&1 || {
    case $? in
        77) skip "apt has no lists: $(<"$scratch/log")" ;;
        125) skip "the root cannot be entered: $(<"$scratch/log")" ;;
    esac
    fail "in a root of their own"
}
cat "$scratch/log"
grep -q "installed, run and removed" "$scratch/log" || fail "it did not come to its end"
