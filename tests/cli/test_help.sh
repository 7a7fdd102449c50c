# Help, version, and commands that do not exist.
. "$(dirname "$0")/lib.sh"

help=$("$penstock" --help)
[ "$help" = "$("$penstock" -h)" ] || fail "-h is not --help"
for command in synth inspect verify import derive rechunk stats plan samples config doctor; do
    contains "$help" "  $command "
    text=$("$penstock" "$command" --help)
    contains "$text" "Usage: penstock $command"
    contains "$text" "penstock $command "
    [ "$text" = "$("$penstock" help "$command")" ] || fail "help $command is not $command --help"
done
contains "$("$penstock" synth --help)" "Examples:"
contains "$("$penstock" inspect --help)" "Examples:"

[[ $("$penstock" --version) =~ ^penstock\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version"

refuses 4 "did you mean 'synth'?" sinth
refuses 4 "did you mean 'inspect'?" inspekt
refuses 4 "did you mean 'plan'?" help plam
refuses 4 "penstock --help" wobble
code=0
"$penstock" >out 2>err || code=$?
[ "$code" -eq 4 ] && [ ! -s out ] && grep -q Usage err || fail "no arguments"

# A full standard output is an error, not silence.
if [ -w /dev/full ] && "$penstock" --help >/dev/full 2>err; then
    fail "--help to a full device succeeds"
fi
