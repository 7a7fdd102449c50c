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

[[ $("$penstock" --version) =~ ^penstock\ [0-9]+\.[0-9]+\.[0-9]+$'\n'codecs\ with\ libraries\ of\ their\ own:\ ([a-z0-9]+(,\ )?)+(; left out: .*)?$ ]] || fail "--version"

refuses 4 "did you mean 'synth'?" sinth
refuses 4 "did you mean 'inspect'?" inspekt
refuses 4 "did you mean 'plan'?" help plam
refuses 4 "penstock --help" wobble
code=0
"$penstock" >out 2>err || code=$?
[ "$code" -eq 4 ] && [ ! -s out ] && grep -q Usage err || fail "no arguments"

# An option with a value comes once, in all programs; one that may come again says so in its help. penstock's commands share a parser.
bin=$(dirname "$penstock")
for program in penstock-reader penstock-trainer penstock-run; do
    help=$("$bin/$program" --help)
    tried=0
    for option in $(grep -oP '^ +(-\w, )?\K--[a-z-]+(?=( |\[?=)[A-Z0-9]+)' <<<"$help"); do
        if [[ $option == @(--set|--launcher-options|--also) ]]; then
            tr -s ' \n' '  ' <<<"$help" | grep -oE -- " $option .{200}" | grep -qi 'may be repeated' ||
                fail "$program $option: help does not say that the option may come again"
            continue
        fi
        value=$([[ $option != --log ]] && echo 1 || echo text)
        code=0
        "$bin/$program" "$option" $value "$option=$value" >out 2>err </dev/null || code=$?
        grep -q -- "$option.* twice" err && [ "$code" -eq 4 ] || fail "$program $option: may be given twice: $(cat err)"
        tried=$((tried + 1))
    done
    ((tried >= 3)) || fail "$program --help: only $tried options with a value are found"
done
refuses 4 "--config is given twice" plan -c a.yaml --config b.yaml
refuses 4 "--chunk is given twice" rechunk x y --chunk 1 --chunk 2
refuses 4 "--hosts is given twice" doctor --hosts a --hosts b
refuses 4 "the name is given twice" doctor --also a=b --also a=c
refuses 4 "--arrays: 'a' is named twice" rechunk x y --arrays a,b,a

# A full standard output is an error, not silence.
if [ -w /dev/full ] && "$penstock" --help >/dev/full 2>err; then
    fail "--help to a full device succeeds"
fi
