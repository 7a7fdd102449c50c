# What a run would do, in words and as JSON, and what it cannot do.
. "$(dirname "$0")/lib.sh"

"$penstock" synth rows --layout plain --samples 4000 --chunk 10 --shape 64 --codec none >/dev/null
"$penstock" synth singles --layout plain --samples 400 --chunk 1 --shape 64 --codec zstd >/dev/null

plan() {
    local dataset=$1
    shift
    "$penstock" plan --set "dataset.uri=$dataset" --set batch.global_size=8 --set order.epochs=4 \
        --set delivery.trainers=4 --set readers.threads=1 "$@"
}

text=$(plan rows --readers 4)
contains "$text" "400 of 10 samples"
contains "$text" "all of 400 rows stay for later epochs, decoded"
contains "$text" "second nothing, later ones nothing"
contains "$(plan rows --readers 4 --set readers.cache=off)" "no rows stay for later epochs"
contains "$(plan singles --readers 4 --set readers.cache=stored)" "as stored"
contains "$(plan rows)" "nothing: there is one reader"
contains "$(plan rows)" "1 worker on NUMA node"

contains "$(plan singles --readers 2 --nodes 2 --set readers.threads=3)" "2, with 3 threads"

order=$("$penstock" plan --set dataset.uri=rows --set batch.global_size=8 --order --limit 3 --epoch 1)
[ "$(wc -l <<<"$order")" -eq 3 ] || fail "--limit 3: $order"
contains "$order" "1 0 2 "

refuses 1 "nowhere" plan --set dataset.uri=nowhere --set batch.global_size=8
refuses 1 "readers.memory_limit" plan --set dataset.uri=rows --set batch.global_size=8 \
    --set readers.memory_limit=4KiB
refuses 4 "--nodes 4: there are only 2 readers" plan --set dataset.uri=rows --readers 2 --nodes 4

# Samples of steps: which frames are none, and why; rows of several chunks; halos.
"$penstock" synth robot --layout robot --samples 4000 --episodes 4 --chunk 8 --shape 8,8,3 >/dev/null
cat >robot.yaml <<'YAML'
dataset:
  uri: robot
  hold_limit: 1
  fields:
    action: {array: data/action, steps: "-1:15"}
    img: {array: data/img, steps: "-1:1"}
    later: {array: data/img, steps: "0:2"}
samples:
  episodes: {ends: meta/episode_ends}
  pad: {before: 1, after: 7}
batch: {global_size: 8}
YAML
text=$("$penstock" plan -c robot.yaml)
contains "$text" "at 3,972 of 4,000 frames, in 4 episodes; the others are: 28 too near an end of their episode"
contains "$text" "13 of 320 frames, which are 40 chunks (samples.row_chunks)"
contains "$text" "img uint8 (2, 8, 8, 3), 2 steps from -1 to 0, 384 B a sample, read row by row, with halos of 1 and 1 frames: each chunk is decoded 1.05 times"
contains "$text" "later uint8 (2, 8, 8, 3), 2 steps from 0 to 1, 384 B a sample, read row by row with img"
contains "$text" "action.valid bool (16), 16 B a sample, made for each sample"
contains "$("$penstock" plan --set dataset.uri=robot --set dataset.fields.img=data/img --set samples.split_part=val \
    --set batch.global_size=8 --set samples.split_by=sample --set samples.split_parts=train:.5,val:.5)" \
    "single frames: 494 of 500 chunk rows have samples of this part"

# How many episodes, and which dates, each part of a split has; those of val are the frames that its run has.
text=$("$penstock" plan --set dataset.uri=robot --set dataset.fields.img=data/img --set samples.episodes_ends=meta/episode_ends \
    --set samples.split_part=val --set samples.split_parts=train:.5,val:.5 --set batch.global_size=8)
[[ $text =~ "split      train: "([0-9]+)" episode"s?", "([0-9,]+)" of 4,000 frames" ]] || fail "no parts: $text"
episodes=${BASH_REMATCH[1]} frames=${BASH_REMATCH[2]//,/}
[[ $text =~ "           val (this run): "([0-9]+)" episode"s?", "([0-9,]+)" of 4,000 frames" ]] || fail "no parts: $text"
((episodes + BASH_REMATCH[1] == 4 && frames + ${BASH_REMATCH[2]//,/} == 4000)) || fail "parts do not add up: $text"
contains "$text" "at ${BASH_REMATCH[2]} of 4,000 frames"
command -v python3 >/dev/null || { echo "no python3: dates are not checked"; exit 77; }
python3 - <<'PYTHON'
import json, os, struct
def array(name, shape, dtype, values, attributes=None, dimensions=None):
    chunk = f"dated/{name}/c/{'/'.join('0' * len(shape))}"
    os.makedirs(os.path.dirname(chunk))
    open(chunk, "wb").write(values)
    json.dump({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype, "fill_value": 0, "attributes": attributes or {},
               "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}}, "dimension_names": dimensions,
               "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
               "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}, open(f"dated/{name}/zarr.json", "w"))
array("t2m", [1460, 4], "float32", bytes(1460 * 16), None, ["time", "x"])
array("time", [1460], "int64", struct.pack("<1460q", *range(0, 1460 * 6, 6)), {"units": "hours since 2019-01-01 06:00:00", "calendar": "standard"}, ["time"])
json.dump({"zarr_format": 3, "node_type": "group", "attributes": {}}, open("dated/zarr.json", "w"))
PYTHON
dated() { "$penstock" plan --set dataset.uri=dated --set dataset.fields.t2m=t2m --set batch.global_size=8 "$@"; }
contains "$(dated --set samples.split_range=0:100)" "split      range: 1 episode, 100 of 1,460 frames, 0 to 99, 2019-01-01 06:00 to 2019-01-26"
contains "$(dated --set samples.split_range=1000:1460 --set samples.split_gap=4)" "1 episode, 456 of 1,460 frames, 1,004 to 1,459, 2019-09-09 06:00 to 2020-01-01"
contains "$(dated --set samples.split_part=val --set samples.split_parts=train::2019-08,val:2019-09-01T18:00:)" \
    "split      train: 1 episode, 971 of 1,460 frames, 0 to 970, 2019-01-01 06:00 to 2019-08-31 18:00
           val (this run): 1 episode, 486 of 1,460 frames, 974 to 1,459, 2019-09-01 18:00 to 2020-01-01"
# Times with holes: samples of several steps do not cross them without a word, and what the warning says to write ends them there.
python3 - <<'PYTHON'
import struct
times = [t for t in range(0, 1466 * 6, 6) if not 600 <= t < 612 and not 6000 <= t < 6024]
open("dated/time/c/0", "wb").write(struct.pack("<1460q", *times))
PYTHON
pairs=(--set 'dataset.fields.t2m.steps=[0, 1]')
jump="array 'time': the time jumps at 2 frames, first from frame 99 (2019-01-26) to frame 100 (2019-01-26 18:00)"
text=$(dated "${pairs[@]}" 2>&1)
contains "$text" "warning: $jump, and samples go across: write samples: {episodes: {jumps: time}}"
contains "$(dated 2>&1)" "note: $jump; this matters to samples of several steps alone"
contains "$("$penstock" inspect dated)" "note: $jump"
contains "$("$penstock" doctor --set dataset.uri=dated --set dataset.fields.t2m.array=t2m "${pairs[@]}")" "$jump"
text=$(dated "${pairs[@]}" --set samples.episodes_jumps=time 2>&1)
contains "$text" "at 1,457 of 1,460 frames, in 3 episodes"
[[ $text != *jumps* && $(dated "${pairs[@]}" --set samples.split_range=110:990 2>&1) != *jumps* ]] || fail "nothing is crossed: $text"
[[ $(dated "${pairs[@]}" --set dataset.uri=dated,dated 2>&1) == *"jumps at 4 frames"* ]] || fail "each store has its times"
sed -i 's/"standard"/"360_day"/' dated/time/zarr.json
contains "$(dated --set samples.split_range=0:100)" "1 episode, 100 of 1,460 frames, 0 to 99, 2019-01-01 06:00 to 2019-01-26"
contains "$(dated --set samples.split_range=2019-02-30:2019-03-01)" "8 of 1,460 frames, 233 to 240, 2019-02-30 to 2019-03-01 18:00"
contains "$(dated --set samples.split_range=:1400 --set samples.split_gap=2)" "0 to 1,399, 2019-01-01 06:00 to"
[[ $(dated --set samples.split_range=:1400) != *"note: these are numbers"* ]] || fail "1400 is no year"
sed -i 's/"360_day"/"none"/' dated/time/zarr.json
[[ $(dated --set samples.split_range=0:100) == *"100 of 1,460 frames, 0 to 99"$'\n'* ]] || fail "dates in a calendar without any"
[[ $(dated) != *"split "* ]] || fail "a split where there is none"

# Runs side by side: both are planned, and their memory and threads are added up.
cat >train.yaml <<'YAML'
dataset: {uri: rows}
batch: {global_size: 8}
readers: {threads: 2, memory_limit: 1GiB}
delivery: {trainers: 2}
YAML
cat >val.yaml <<'YAML'
dataset: {uri: singles}
batch: {global_size: 4}
order: {epochs: 3}
readers: {threads: 1}
YAML
text=$("$penstock" plan -c train.yaml --also val=val.yaml --readers 4 --nodes 2)
contains "$text" "run 'val', beside it: penstock.connect(\"val\")"
contains "$text" "endless epochs"
contains "$text" "100 an epoch of 4 samples, 2 for each of the 2 trainers"
contains "$text" "4 of the training, 2 of val: 6 on the same cores"
refuses 1 "run 'val': open configuration 'nowhere.yaml'" plan -c train.yaml --also val=nowhere.yaml
refuses 4 "--also 'val': give a name and a file" plan -c train.yaml --also val
refuses 4 "the name is given twice" plan -c train.yaml --also val=val.yaml --also val=val.yaml
refuses 4 "are of one run" plan -c train.yaml --also val=val.yaml --order

command -v python3 >/dev/null || { echo "no python3: JSON is not checked"; exit 77; }

# The order id: 6,000 samples of 8 MiB, whose windows end where memory would; nothing is there but metadata.
mkdir -p large/x large/label
array() {
    echo '{"zarr_format": 2, "shape": '"$1"', "chunks": '"$2"', "dtype": "<f4", "compressor": null,
           "fill_value": 0, "order": "C", "filters": null}'
}
echo '{"zarr_format": 2}' >large/.zgroup
array '[6000, 2, 1024, 1024]' '[1, 2, 1024, 1024]' >large/x/.zarray
array '[6000]' '[1000]' >large/label/.zarray

order_id() {
    "$penstock" plan --json --set dataset.uri=large --set batch.global_size=512 --set readers.threads=1 \
        --set readers.memory_limit=1TiB "$@" | sed -n 's/.*"order_id":"\([0-9a-f]\{16\}\)".*/\1/p'
}

id=$(order_id)
[ -n "$id" ] || fail "plan --json has no order_id"
contains "$("$penstock" plan --set dataset.uri=large --set batch.global_size=512 \
    --set readers.memory_limit=1TiB)" "windows of 2,048 rows: 3 an epoch; 1 epoch; order id $id"
for same in errors.bad_sample=mask errors.bad_sample=fail dataset.hold_limit=0 dataset.hold_limit=1KiB \
    dataset.hold_limit=10GiB order.window_rows=2048 order.epochs=7 delivery.trainers=8; do
    [ "$(order_id --set "$same")" = "$id" ] || fail "$same changes the order id"
done
for other in order.window_rows=2047 order.seed=1 order.placement=fixed order.shuffle=false batch.global_size=256 batch.last=pad; do
    [ "$(order_id --set "$other")" != "$id" ] || fail "$other keeps the order id"
done

for name in rows singles; do plan $name --readers 4 --json --set order.placement=fixed >$name.json; done
plan rows --readers 4 --json >local.json
python3 - <<'PYTHON'
import json
rows, singles, local = (json.load(open(f"{name}.json")) for name in ("rows", "singles", "local"))
assert rows["readers"] == 4 and rows["row_count"] == 400 and rows["steps_per_epoch"] == 500
assert [epoch["rows_read"] for epoch in rows["epochs"]] == [400, 0, 0]
assert [epoch["rows_kept"] for epoch in rows["epochs"]] == [0, 400, 400]
# Three of four samples of a row are for another reader's trainer; a single sample is read where it is needed.
assert abs(rows["epochs"][0]["exchanged_bytes"] / (0.75 * 4000 * 256) - 1) < 0.001
assert singles["epochs"][0]["exchanged_bytes"] == 0
assert 0.6 < singles["epochs"][1]["exchanged_bytes"] / (400 * 256) < 0.9
# Each forecast has the other placement's figures, too.
assert rows["local"]["epochs"] == local["epochs"] and local["fixed"]["epochs"] == rows["epochs"]
assert 0 < local["epochs"][1]["exchanged_bytes"] < 0.4 * rows["epochs"][1]["exchanged_bytes"]
PYTHON

# How well samples are mixed: the measures, computed again from the order that is printed.
plan rows --order >order.txt
plan rows --quality --json --plot quality.svg >quality.json
python3 - <<'PYTHON'
import collections, json, math
order = [int(line.split()[3]) for line in open("order.txt")]
quality = json.load(open("quality.json"))
assert quality["samples"] == len(order) == 4000, quality["samples"]
own, = (window for window in quality["windows"] if window["configured"])

def entropy(values):
    counts = collections.Counter(abs(a - b) for a, b in zip(values, values[1:]))
    return -sum(n / (len(values) - 1) * math.log2(n / (len(values) - 1)) for n in counts.values())

rows = [index // 10 for index in order]
assert abs(own["entropy_bits"] - entropy(order) - entropy(rows)) < 1e-3, own
steps = [collections.Counter(rows[i:i + 8]).most_common(1)[0][1] / 8 for i in range(0, len(rows), 8)]
assert abs(own["largest_share"] - sum(steps) / len(steps)) < 1e-5, own
distances = sorted(abs(a - b) for a, b in zip(order, order[1:]))
assert abs(own["distance"] - distances[len(distances) // 2] / 4000) < 1e-5, own
# Larger windows mix better, and all rows in one window as well as a uniform shuffle.
entropies = [window["entropy_bits"] for window in quality["windows"]]
assert entropies == sorted(entropies) and abs(entropies[-1] / quality["uniform"]["entropy_bits"] - 1) < 0.01, quality
assert abs(quality["uniform"]["distance"] - (1 - math.sqrt(0.5))) < 0.02, quality["uniform"]
assert open("quality.svg").read().endswith("</svg>\n")
PYTHON
"$penstock" plan -c train.yaml --readers 4 --nodes 2 --json >alone.json
"$penstock" plan -c train.yaml --also val=val.yaml --also test=val.yaml --readers 4 --nodes 2 --json >also.json
python3 - <<'PYTHON'
import json
alone, also = json.load(open("alone.json")), json.load(open("also.json"))
assert [run["name"] for run in also["also"]] == ["val", "test"], also
assert also["also"][0]["steps_per_epoch"] == 100, also
assert alone["memory"] == also["memory"] and "also" not in alone
more = also["node_memory_bytes"] - alone["node_memory_bytes"]
own = sum(2 * run["memory_bytes_of_a_reader"] for run in also["also"])
assert own <= more < own + (1 << 30), (own, more)  # and what each process takes itself
PYTHON
contains "$(plan rows --quality)" "this run"
contains "$(plan rows --quality --set order.shuffle=false --set order.window_rows=400)" "0.0%"
refuses 4 "give both" plan --set dataset.uri=rows --plot quality.svg
refuses 1 "cannot write the picture" plan --set dataset.uri=rows --set batch.global_size=8 --quality \
    --plot nowhere/quality.svg

# A mix: the order of its sources, whose figures and windows are their own.
for source in rows singles; do
    printf 'dataset: {uri: %s}\norder: {window_rows: 7}\n' $source >$source.yaml
done
mix=(--set mix.sources=rows.yaml:0.25,singles.yaml:0.75 --set batch.global_size=8 --set order.epochs=4)
"$penstock" plan "${mix[@]}" --order >order.txt
"$penstock" plan "${mix[@]}" --readers 2 --json >mix.json
python3 - <<'PYTHON'
import collections, json
order = [tuple(map(int, line.split())) for line in open("order.txt")]
mix = json.load(open("mix.json"))
assert [source["weight"] for source in mix["sources"]] == [1, 3] and mix["sources"][0]["window_rows"] == 7, mix
assert len(order) == 8 * mix["steps_per_epoch"] == 4400, len(order)
steps = [collections.Counter(row[4] for row in order[i:i + 8]) for i in range(0, len(order), 8)]
assert all(step[0] == 2 and step[1] == 6 for step in steps)
assert len({row[3] for row in order if row[4] == 1}) == 400  # in several passes
assert len({row[3] for row in order if row[4] == 0}) == 1100  # in a part of one
first, second, _ = mix["epochs"]
assert 500 < first["rows_read"] < 530 and 100 < second["rows_read"] < 120, mix["epochs"]
PYTHON
contains "$("$penstock" plan "${mix[@]}" --readers 2)" "windows of 7 rows of source 0, 7 of source 1"
refuses 4 "is a mix" plan "${mix[@]}" --quality
