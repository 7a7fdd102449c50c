# Mixes: what is printed of them, and each way to get one wrong.
. "$(dirname "$0")/lib.sh"

mkdir data sources
for i in 1 2 3; do
    "$penstock" synth "data/s$i.zarr" --layout plain --shape 4,3 --samples $((100 * i)) --chunk $((i + 3)) \
        --seed "$i" >/dev/null
    printf 'dataset: {uri: ../data/s%s.zarr}\nbatch: {global_size: 77}\norder: {window_rows: %s}\n' "$i" $((i + 1)) \
        >"sources/s$i.yaml"
done
cat >mix.yaml <<'YAML'
mix:
  samples: 500
  sources:
    - {config: sources/s1.yaml, weight: 0.5}
    - {config: sources/s2.yaml, weight: 0.3}
    - {config: {dataset: {uri: data/s3.zarr}, samples: {stride: 2}}, weight: 0.2}
batch: {global_size: 8}
order: {seed: 17, epochs: 2}
YAML

text=$("$penstock" plan -c mix.yaml)
contains "$text" "of 3 sources: 500 samples an epoch"
contains "$text" "sources/s1.yaml: 50% of the samples: 2.48 passes an epoch over its 100 samples"
contains "$text" "windows of 2 rows of source 0, 3 of source 1"
contains "$text" "source int32"
"$penstock" plan -c mix.yaml --json | python3 -m json.tool >/dev/null

# The same mix, written in full, and as an assignment: weights in other words are the same ratio.
id() { "$penstock" plan "$@" | sed -n 's/.*order id //p'; }
"$penstock" config -c mix.yaml >full.yaml
[ "$(id -c full.yaml)" = "$(id -c mix.yaml)" ] || fail "config prints another mix"
two=(--set batch.global_size=8 --set mix.sources=sources/s1.yaml:0.25,sources/s2.yaml:0.75)
[ "$(id "${two[@]}")" = "$(id "${two[@]}" --set mix.sources=sources/s1.yaml:3,sources/s2.yaml:9)" ] ||
    fail "1/4 and 3/4 are not 3 and 9"
[ "$(id "${two[@]}")" != "$(id "${two[@]}" --set mix.sources=sources/s2.yaml:3,sources/s1.yaml:1)" ] ||
    fail "the order of sources does not count"
# A mix by environment alone is a configuration, too; doctor opens it.
by_environment=(env PENSTOCK_MIX_SOURCES=sources/s1.yaml:1,sources/s2.yaml:3 PENSTOCK_BATCH_GLOBAL_SIZE=8)
"${by_environment[@]}" "$(dirname "$penstock")/penstock-run" --dry-run -- true >out 2>&1 || fail "penstock-run: $(cat out)"
contains "$("${by_environment[@]}" "$penstock" doctor --of-node 1)" '"check":"storage","level":"ok","text":"the mix: 300 samples'

contains "$("$penstock" samples -c mix.yaml --source 2 --index 8)" "array data, frame 8, chunk 1 of 6 frames each"
contains "$("$penstock" samples -c mix.yaml --source 2)" "the number of the sample's source: 2"
refuses 4 "--source 3: there are 3 sources" samples -c mix.yaml --source 3
refuses 4 "inspect a source with the source's own configuration (-c sources/s1.yaml)" inspect data/s1.zarr -c mix.yaml

# bad PATTERN FROM TO [CODE]: mix.yaml with one thing changed is refused.
bad() {
    sed "s#$2#$3#" mix.yaml >bad.yaml
    ! cmp -s mix.yaml bad.yaml || fail "nothing is bad: $2"
    refuses "${4:-4}" "$1" plan -c bad.yaml
}
bad "the weight '-0.5' of 'sources/s1.yaml' is negative" "weight: 0.5" "weight: -0.5"
bad "the weight '0' of 'sources/s1.yaml' is no positive" "weight: 0.5" "weight: 0"
bad "bad.yaml:4: mix.sources: the weights sum to 0.9, not to 1" "weight: 0.5" "weight: 0.4"
bad "bad.yaml:4: open configuration './sources/s9.yaml': No such file or directory" s1.yaml s9.yaml 1
bad "source './data/s9.zarr': " s3.zarr s9.zarr 1
bad "bad.yaml:4: ./mix.yaml:1: a mix within a mix" sources/s1.yaml mix.yaml
bad "samples.stride is set beside mix.sources" "^batch:" "samples: {stride: 2}\nbatch:"
bad "mix.sources: './data/s3.zarr': samples.split_part is the name of one of samples.split_parts" "stride: 2" "split_part: a"
bad "field 'data' is float32 (4, 3) in source 'sources/s1.yaml', and float16 (4, 3) in './data/s3.zarr'" \
    "uri: data/s3.zarr" "uri: data/s3.zarr, fields: {data: {cast: float16}}"
bad "field 'x' is in source './data/s3.zarr', and not in 'sources/s1.yaml'" \
    "uri: data/s3.zarr" "uri: data/s3.zarr, fields: {x: data}"
bad "source './data/s3.zarr': './data/s3.zarr': a field is named 'source'" \
    "uri: data/s3.zarr" "uri: data/s3.zarr, fields: {source: data}"
bad "source './data/s3.zarr': " "stride: 2" "split_range: '300:'"
many=$(for _ in $(seq 65); do printf 'sources/s1.yaml:1,'; done)
refuses 4 "mix.sources: more than 64" plan --set "mix.sources=${many%,}"
refuses 4 "mix.samples is set without mix.sources" plan -c sources/s1.yaml --set mix.samples=3
refuses 4 "dataset.uri is set beside mix.sources" plan -c mix.yaml --set dataset.uri=data/s1.zarr

# Weights by step.
schedule='mix.schedule=[{step: 60, weights: {sources/s1.yaml: 1}}, {step: 100, weights: {"sources/s2.yaml": 1}, ramp: linear}]'
text=$("$penstock" plan -c mix.yaml --set "$schedule")
contains "$text" "schedule   steps 0 to 59"
contains "$text" "source 1 sources/s2.yaml: 30%, 144 samples, 0.72 passes"
contains "$text" "steps 60 to 99, a ramp"
contains "$text" "source 0 sources/s1.yaml: 100% to 0%, 160 samples, 1.6 passes"
contains "$text" "steps 100 to 123"
contains "$text" "source 2 ./data/s3.zarr: 0%, 0 samples, 0 passes"
contains "$("$penstock" plan -c mix.yaml --set "$schedule" --set order.epochs=1)" "step 100 is not reached: the run has 62 steps"
"$penstock" plan -c mix.yaml --set "$schedule" --json | python3 -m json.tool >/dev/null
"$penstock" config -c mix.yaml --set "$schedule" >scheduled.yaml
[ "$(id -c scheduled.yaml)" = "$(id -c mix.yaml --set "$schedule")" ] || fail "config prints another schedule"
refuses 4 "samples of source 'sources/s1.yaml' end at step 25 of 124: end the run before" plan -c mix.yaml --set mix.repeat=false
"$penstock" plan -c mix.yaml --set mix.repeat=false --set mix.samples=100 >/dev/null
refuses 4 "no source is named 'c': there is 'sources/s1.yaml'" plan -c mix.yaml --set 'mix.schedule=[{step: 1, weights: {c: 1}}]'
refuses 4 "between the weights before step 9 and those from it on there is no ramp" plan -c mix.yaml \
    --set 'mix.schedule=[{step: 5, weights: {sources/s1.yaml: 999999937, sources/s2.yaml: 1}},
                         {step: 9, weights: {sources/s1.yaml: 999999929, sources/s2.yaml: 4}, ramp: linear}]'

# What is read while opening has the mix's word on missing chunks, too.
for i in 1 2; do
    "$penstock" synth "data/empty$i.zarr" --layout plain --shape 4,3 --samples 100 --chunk 4 >/dev/null
    rm "data/empty$i.zarr/.zmetadata"
    mkdir "data/empty$i.zarr/none"
    echo '{"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<f4", "compressor": null, "fill_value": 0,' \
        '"order": "C", "filters": null}' >"data/empty$i.zarr/none/.zarray"
done
cat >empty.yaml <<'YAML'
mix:
  sources:
    - {config: {dataset: {uri: data/empty1.zarr, constants: none}}, weight: 1}
    - {config: {dataset: {uri: data/empty2.zarr, constants: none}}, weight: 1}
batch: {global_size: 8}
YAML
refuses 4 "array 'none': the metadata is there, and no chunk at all" plan -c empty.yaml
contains "$("$penstock" plan -c empty.yaml --set errors.missing_chunk=fill)" "of 2 sources"
