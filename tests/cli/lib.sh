# What the tests of the penstock command share. Source it; $1 is the program.
#
# Leaves $penstock, and the current directory in a fresh temporary one that goes away at the end.
set -euo pipefail

penstock=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# contains TEXT PATTERN: PATTERN (fixed) occurs in TEXT.
contains() {
    grep -qF -- "$2" <<<"$1" || fail "'$2' is missing from: $1"
}

# refuses CODE PATTERN ARGUMENT...: exits with CODE, prints nothing on standard output, and one
# line with PATTERN on standard error (before argp's pointer to --help).
refuses() {
    local code=$1 pattern=$2 actual=0 lines
    shift 2
    "$penstock" "$@" >out 2>err || actual=$?
    [ "$actual" -eq "$code" ] || fail "penstock $*: exit code $actual, not $code: $(cat err)"
    [ ! -s out ] || fail "penstock $*: prints on standard output: $(cat out)"
    lines=$(sed '/^Try /,$d' err | wc -l)
    [ "$lines" -eq 1 ] || fail "penstock $*: $lines lines, not one: $(cat err)"
    contains "$(cat err)" "$pattern"
}
