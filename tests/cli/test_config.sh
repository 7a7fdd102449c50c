# The configuration in force: all sources, in order; what is printed reads back to the same.
. "$(dirname "$0")/lib.sh"

# A configuration of standard input or of a pipe is read by what reads it once, with paths of the current folder, and refused by
# what has others read it, too.
"$penstock" synth here --samples 8 >/dev/null
printf 'dataset: {uri: here}\nbatch: {global_size: 4}\n' >here.yaml
for command in config plan samples "inspect here"; do
    read -ra words <<<"$command"
    told=$("$penstock" "${words[@]}" -c here.yaml 2>&1 | grep -v 'fingerprint\|uri\|^next: ' | sed 's/[0-9.]* [KMG]iB//g')
    for way in stdin pipe substituted; do
        case $way in
            stdin) actual=$("$penstock" "${words[@]}" -c /dev/stdin <here.yaml 2>&1) ;;
            pipe) actual=$(cat here.yaml | "$penstock" "${words[@]}" -c /dev/stdin 2>&1) ;;
            substituted) actual=$("$penstock" "${words[@]}" -c <(cat here.yaml) 2>&1) ;;
        esac || fail "$command, $way: $actual"
        [ "$told" = "$(grep -v 'fingerprint\|uri\|^next: ' <<<"$actual" | sed 's/[0-9.]* [KMG]iB//g')" ] || fail "$command, $way: $actual"
    done
done
OMPI_COMM_WORLD_SIZE=2 refuses 4 "the configuration '/dev/stdin' can be read once" rechunk here there --config /dev/stdin <here.yaml
run=$(dirname "$penstock")/penstock-run
for file in /dev/stdin <(cat here.yaml); do
    refuses 4 "the configuration '$file' can be read once" doctor -c "$file" <here.yaml
    refuses 4 "the configuration '$file' can be read once" doctor -c here.yaml --also "val=$file" <here.yaml
    for words in "-c $file" "-c here.yaml --also val=$file"; do
        code=0
        "$run" $words -- true >out 2>err <here.yaml || code=$?
        [ "$code" -eq 4 ] && grep -q "the configuration '$file' can be read once" err || fail "penstock-run $words: $code: $(cat err)"
    done
done
unset "${!PENSTOCK_@}"

# Under /dev/ are files, too: they have a folder, and any process can read them.
shared=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$scratch" "$shared"' EXIT
cp here.yaml "$shared"
contains "$(OMPI_COMM_WORLD_SIZE=2 "$penstock" config -c "$shared/here.yaml")" "uri: \"$shared/here\""

cat >run.yaml <<'YAML'
dataset: {uri: data.zarr}
batch: {global_size: 8}
delivery: {trainers: 2}
YAML

text=$("$penstock" config -c run.yaml)
contains "$text" 'uri: "./data.zarr"'
contains "$text" "  trainers: 2"
contains "$text" "  epochs: 1"
printf '%s\n' "$text" >as-run.yaml
[ "$("$penstock" config -c as-run.yaml --set dataset.uri=./data.zarr)" = "$text" ] || fail "does not read back to the same: $text"

PENSTOCK_ORDER_EPOCHS=5 PENSTOCK_DELIVERY_TRAINERS=4 "$penstock" config -c run.yaml --set delivery.trainers=8 >out
contains "$(cat out)" "  epochs: 5"
contains "$(cat out)" "  trainers: 8"

refuses 4 "did you mean 'order.seed'" config -c run.yaml --set order.sed=3
refuses 4 "is less than delivery.trainers" config -c run.yaml --set delivery.trainers=300
refuses 4 "name a configuration with -c" config run.yaml
