# What the tests of installations share: source it first. Sets scratch, a folder that goes away at the end.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT

skip() {
    echo "skipped: $*"
    exit 77
}

# With what the last command said, if that went to the log.
fail() {
    echo "FAILED: $*" >&2
    [[ ! -s $scratch/log ]] || cat "$scratch/log" >&2
    exit 1
}

# skip_sanitizers BUILD_DIRECTORY WHAT
skip_sanitizers() {
    ! grep -q '^PENSTOCK_SANITIZE:STRING=.' "$1/CMakeCache.txt" || skip "a sanitizer's library does not load into $2"
}
