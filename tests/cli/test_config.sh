# The configuration in force: all sources, in order; what is printed reads back to the same.
. "$(dirname "$0")/lib.sh"
unset "${!PENSTOCK_@}"

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
refuses 4 "is not a multiple of delivery.trainers" config -c run.yaml --set delivery.trainers=3
refuses 4 "name a configuration with -c" config run.yaml
