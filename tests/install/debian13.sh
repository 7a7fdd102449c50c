#!/usr/bin/env bash
# debian13.sh SOURCE ROOT JOBS [CTEST-OPTION...]: tests/run.sh in a Debian 13 root, as a new user would start it there. ROOT is made if it is not
# there, and stays, with the packages and the build in it: what is there already is not made again. What that says is in ROOT.log. Fetches
# Debian's packages from where apt has them; once all is built, there is no network any more.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/install/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"
source=$1 root=$2 jobs=$3
shift 3

needs_root
# shellcheck disable=SC1091
[[ $(. /etc/os-release && echo "${ID-} ${VERSION_CODENAME-}") != "debian trixie" ]] || skip "all of this machine's tests are on Debian 13"
mkdir -p "$(dirname "$root")"
: >"$root.log"
ln -s "$root.log" "$scratch/log" # stays there if time is over
if [[ ! -d $root ]]; then
    rm -rf --one-file-system "$root.part"
    make_root trixie "$root.part"
    mv "$root.part" "$root"
fi

# What git tracks or would; the build of the last time stays beside it.
mkdir -p "$root/penstock"
find "$root/penstock" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
cd "$source"
git ls-files -z --cached --others --exclude-standard >"$scratch/files" 2>/dev/null || find . -name build -prune -o ! -type d -print0 >"$scratch/files"
tar --create --null --ignore-failed-read --files-from="$scratch/files" 2>>"$scratch/log" | tar --extract --directory "$root/penstock"
if [[ ${PENSTOCK_CORPORA-} ]]; then
    mkdir -p "$root/shared/corpora"
    cp -r --update "$PENSTOCK_CORPORA/." "$root/shared/corpora"
fi

run=(/penstock/tests/run.sh --quick --no-venv --jobs "$jobs" --)
code=0
in_root "$root" "${run[@]}" --show-only >"$scratch/log" 2>&1 || code=$?
((code != 125)) || skip "the root cannot be entered: $(<"$scratch/log")"
! grep -q 'this failed: apt-get' "$scratch/log" || skip "no packages: $(tail -n 3 "$scratch/log")"
((code == 0)) || fail "tests/run.sh cannot build there"
rm "$scratch/log"
in_root --alone "$root" "${run[@]}" "$@" || fail "tests failed on Debian 13, see above"
