# Looking into datasets: text for people, JSON for programs, both formats, and what cannot be read.
. "$(dirname "$0")/lib.sh"

"$penstock" synth v2 --samples 12 --videos 4 --chunk 5 >/dev/null
"$penstock" synth v3 --samples 12 --videos 4 --chunk 5 --format 3 >/dev/null

for dataset in v2 v3; do
    text=$("$penstock" inspect "$dataset")
    contains "$text" "$dataset: Zarr $dataset, 3 arrays, metadata consolidated"
    contains "$text" "12 x 20 x 4 x 32 x 32"
    contains "$text" "blosc(zstd level 5, shuffle)"
    contains "$text" "12 samples of 160.0 KiB"
    contains "$text" "3 chunk rows of 5 samples"
    # The hint can be used as it stands.
    contains "$text" "dataset.fields.clip_emb=clip_emb[segment_to_video]"
    mapfile -t settings < <(sed -n 's/^  --set //p' <<<"$text")
    plan=$("$penstock" plan --set "dataset.uri=$dataset" --set batch.global_size=4 \
        "${settings[@]/#/--set=}")
    contains "$plan" "clip_emb float16 (512)"
    contains "$plan" "base_frames float16"
done

command -v python3 >/dev/null || { echo "no python3: JSON is not checked"; exit 77; }
for dataset in v2 v3; do
    "$penstock" inspect "$dataset" --json >report.json
    python3 - "$dataset" <<'PYTHON'
import json, sys
report = json.load(open("report.json"))
assert report["uri"] == sys.argv[1] and report["consolidated"] is True
assert report["zarr_format"] == int(sys.argv[1][1])
arrays = {array["path"]: array for array in report["arrays"]}
assert sorted(arrays) == ["base_frames", "clip_emb", "segment_to_video"]
frames = arrays["base_frames"]
assert frames["readable"] and frames["dtype"] == "float16"
assert frames["shape"] == [12, 20, 4, 32, 32] and frames["chunks"] == [5, 20, 4, 32, 32]
assert frames["decoded_bytes"] == 12 * 163840
assert 0.5 < frames["stored_bytes"] / frames["decoded_bytes"] < 1.3
assert arrays["clip_emb"]["shape"] == [4, 512]
dataset = report["dataset"]
assert (dataset["samples"], dataset["row_length"], dataset["rows"]) == (12, 5, 3)
fields = {field["name"]: field for field in dataset["fields"]}
assert fields["base_frames"]["shape"] == [20, 4, 32, 32] and not fields["base_frames"]["held"]
assert dataset["sample_bytes"] == sum(field["sample_bytes"] for field in dataset["fields"])
assert len(dataset["fingerprint"]) == 16
PYTHON
done

# What the layout costs, and what would be better: rows of 5 samples, of which memory holds one or none.
text=$("$penstock" inspect v2 --set readers.memory_limit=1GiB)
contains "$text" ": 1.0x; 0.25 chunks decoded"
[[ $text != *"penstock rechunk"* ]] || fail "what is right is not to be rechunked: $text"
text=$("$penstock" inspect v2 --set readers.memory_limit=100KiB)
contains "$text" "hint: to read 1.0x instead of"
contains "$text" ", and decode 1 chunk for a sample instead of 1.2: penstock rechunk v2 DST --chunk 1"
"$penstock" rechunk v2 across --chunk 6,5,4 --shard 12,20,4 >/dev/null
"$penstock" inspect across --json >report.json
python3 - <<'PYTHON'
import json
report = json.load(open("report.json"))
arrays = {array["path"]: array for array in report["arrays"]}
assert arrays["base_frames"]["chunks"] == [6, 5, 4, 32, 32]
assert arrays["base_frames"]["shards"] == [12, 20, 4, 32, 32]
assert "shards" not in arrays["clip_emb"]
cost = report["dataset"]["cost"]
assert cost["findings"] == ["across"] and abs(cost["chunks"] - 8 / 12) < 1e-9, cost
assert cost["amplification"] == 1 and cost["suggestion"]["chunk"] == 6, cost
assert cost["suggestion"]["amplification"] == 1 and abs(cost["suggestion"]["chunks"] - 1 / 6) < 1e-9, cost
assert abs(cost["stored_bytes"] - arrays["base_frames"]["stored_bytes"] / 12) < 1
PYTHON
contains "$("$penstock" inspect across)" "6 x 5 x 4 x 32 x 32 in 12 x 20 x 4 x 32 x 32"
"$penstock" inspect v2 --set order.window_rows=2 --set readers.memory_limit=820KiB --json >report.json
python3 - <<'PYTHON'
import json
cost = json.load(open("report.json"))["dataset"]["cost"]
assert cost["window_rows"] == 2 and cost["window_bytes"] == 10 * 163840, cost
# One row of two fits: half of all samples have to be read with a row of five for themselves.
assert 2.4 < cost["amplification"] < 2.6 and cost["findings"] == ["memory"], cost
assert cost["suggestion"]["chunk"] == 1
PYTHON
refuses 4 "order.window_row" inspect v2 --set order.window_row=2

# A server that neither lists nor gives chunks: their sizes are unknown, and the rest is there.
python3 - <<'PYTHON' &
import functools, http.server, os
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_HEAD(self):
        if "/.z" in self.path or self.path.endswith("zarr.json"):
            super().do_HEAD()
        else:
            self.send_error(403)
    def do_GET(self):
        if "/.z" in self.path or self.path.endswith("zarr.json"):
            super().do_GET()
        else:
            self.send_error(403)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open("port.new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename("port.new", "port")
server.serve_forever()
PYTHON
server=$!
trap 'kill $server; rm -rf "$scratch"' EXIT
for ((i = 0; i < 600; i++)); do
    [ -f port ] && break
    sleep 0.1
done
"$penstock" inspect "http://127.0.0.1:$(cat port)/v2" >out || fail "sizes that are refused make inspect fail"
contains "$(cat out)" "12 samples of 160.0 KiB"
contains "$(cat out)" "(sizes are not known: "
contains "$(cat out)" "403"
"$penstock" inspect "http://127.0.0.1:$(cat port)/v2" --json >report.json
python3 - <<'PYTHON'
import json
cost = json.load(open("report.json"))["dataset"]["cost"]
assert cost["stored_bytes"] is None and cost["read_bytes"] is None and cost["amplification"] == 1, cost
PYTHON
# There is nothing to list and no consolidated metadata: arrays that are named are found.
mkdir plain && cp -r v2/base_frames v2/clip_emb v2/segment_to_video plain
"$penstock" plan --set "dataset.uri=http://127.0.0.1:$(cat port)/plain" --set batch.global_size=4 \
    --set dataset.fields.base_frames=base_frames >out || fail "named arrays of a server without listings"
contains "$(cat out)" "base_frames float16"
kill $server
trap 'rm -rf "$scratch"' EXIT

# An array that cannot be read is listed with the reason, and so is why there are no default fields.
mkdir v2/labels
cat >v2/labels/.zarray <<'JSON'
{"zarr_format": 2, "shape": [12], "chunks": [12], "dtype": "|O", "compressor": null,
 "fill_value": null, "order": "C", "filters": null}
JSON
rm v2/.zmetadata
text=$("$penstock" inspect v2)
contains "$text" "4 arrays, metadata not consolidated"
contains "$text" "Cannot be read:"
contains "$text" "labels: "
contains "$text" "12 x 20 x 4 x 32 x 32"
contains "$text" "No run with default fields: "
"$penstock" inspect v2 --json >report.json
python3 - <<'PYTHON'
import json
report = json.load(open("report.json"))
arrays = {array["path"]: array for array in report["arrays"]}
assert arrays["labels"]["readable"] is False and arrays["labels"]["reason"]
assert report["dataset"] is None and "labels" in report["dataset_error"]
PYTHON

# As xarray writes a dataset: coordinates are no indices, whatever integers they are; what it would
# convert is shown, and warned of. The values of an index count, too.
python3 - <<'PYTHON'
import json, os, struct
def write(path, shape, dtype, values, dims, attributes, fill=None):
    os.makedirs(path)
    json.dump({"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": dtype, "compressor": None,
               "fill_value": fill, "order": "C", "filters": None}, open(path + "/.zarray", "w"))
    json.dump({"_ARRAY_DIMENSIONS": dims, **attributes}, open(path + "/.zattrs", "w"))
    if values is not None:
        kind = {"8": "q", "4": "f", "2": "h"}[dtype[-1]]
        with open(path + "/" + ".".join("0" * len(shape)), "wb") as file:
            file.write(struct.pack("<%d%s" % (len(values), kind), *values))
def store(name, units="K", scale=0.01):
    os.makedirs(name)
    json.dump({"zarr_format": 2}, open(name + "/.zgroup", "w"))
    write(name + "/t2m", [37, 36], "<i2", [0] * 37 * 36, ["time", "lat"],
          {"scale_factor": scale, "add_offset": 273.15, "units": units}, -32767)
    write(name + "/time", [37], "<i8", range(37), ["time"], {"units": "days since 2020-01-01", "calendar": "standard"})
    write(name + "/lat", [36], "<f4", range(36), ["lat"], {"units": "degrees_north"})
    write(name + "/step", [37], "<i8", range(37), ["step"], {})
    write(name + "/height", [36], "<f4", range(36), ["lat"], {"_FillValue": -9999.0})
store("xarray")
store("celsius", "degC")
store("finer", scale=0.005)
store("same")
for name, fill in (("zeros", 0), ("nothing", None)):
    os.makedirs(name)
    json.dump({"zarr_format": 2}, open(name + "/.zgroup", "w"))
    write(name + "/x", [8, 4], "<i2", range(32), ["time", "lat"], {}, fill)
PYTHON
text=$("$penstock" inspect xarray 2>&1)
if grep -F "hint: with what" <<<"$text"; then fail "a coordinate is no index"; fi
contains "$text" "t2m: scale_factor 0.01, add_offset 273.15, _FillValue -32767, units K"
contains "$text" "warning: field 't2m': array 't2m' has scale_factor 0.01, add_offset 273.15, _FillValue -32767 (as"
contains "$text" "set cf: true of the field to convert it"
plan=$("$penstock" plan --set batch.global_size=4 --set dataset.uri=xarray 2>&1)
contains "$plan" "warning: field 't2m': array 't2m' has scale_factor 0.01"
plan=$("$penstock" plan --set batch.global_size=4 --set dataset.uri=xarray --set dataset.fields.t2m.scale=0.01 \
    --set dataset.fields.t2m.offset=273.15 2>&1)
[[ $plan != *warning* ]] || fail "the field says what to do: $plan"
plan=$("$penstock" plan --set batch.global_size=4 --set dataset.uri=xarray --set dataset.fields.t2m.cf=true 2>&1)
[[ $plan != *warning* ]] || fail "the field says what to do: $plan"
zeros=(--set batch.global_size=4 --set dataset.fields.x.cf=true)
plan=$("$penstock" plan "${zeros[@]}" --set dataset.uri=zeros 2>&1)
contains "$plan" "warning: field 'x': cf takes 0 for missing, as xarray does, since the fill_value of array 'x' is 0"
plan=$("$penstock" plan "${zeros[@]}" --set dataset.uri=nothing 2>&1)
[[ $plan != *warning* ]] || fail "null is no fill value: $plan"
refuses 4 "cf: other values are missing in its array in the store 'nothing' than in 'zeros'" plan "${zeros[@]}" --set dataset.uri=zeros,nothing
"$penstock" inspect xarray --json 2>/dev/null | python3 -c '
import json, sys
arrays = {array["path"]: array for array in json.load(sys.stdin)["arrays"]}
assert arrays["t2m"]["attributes"] == {"scale_factor": "0.01", "add_offset": "273.15", "_FillValue": "-32767", "units": "K"}, arrays
assert arrays["height"]["attributes"]["_FillValue"] == "-9999.0", arrays
'
refuses 4 "attribute units of its array is K in the store 'xarray', degC in 'celsius'" \
    plan --set batch.global_size=4 --set dataset.uri=xarray,celsius
refuses 4 "attribute scale_factor of its array is 0.01 in the store 'xarray', 0.005 in 'finer'" \
    plan --set batch.global_size=4 --set dataset.uri=xarray,finer --set dataset.fields.t2m.scale=0.01
"$penstock" plan --set batch.global_size=4 --set dataset.uri=xarray,same >/dev/null 2>&1 || fail "stores that agree"
for last in 35 36; do # an index into lat and height, and one beyond
    python3 -c '
import json, os, struct, sys
os.makedirs("xarray/station", exist_ok=True)
json.dump({"zarr_format": 2, "shape": [37], "chunks": [37], "dtype": "<i8", "compressor": None,
           "fill_value": 0, "order": "C", "filters": None}, open("xarray/station/.zarray", "w"))
open("xarray/station/0", "wb").write(struct.pack("<37q", *[0] * 36, int(sys.argv[1])))' $last
    text=$("$penstock" inspect xarray 2>/dev/null)
    if [ $last -eq 35 ]; then
        contains "$text" "dataset.fields.lat=lat[station]"
    elif grep -F "[station]" <<<"$text"; then
        fail "a run would refuse the index: $text"
    fi
done

# Chunks under other names than the metadata says: told, and not without reason.
mkdir -p nested/x/0 && echo '{"zarr_format": 2}' >nested/.zgroup
echo '{"zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "|u1", "compressor": null,
 "fill_value": 0, "order": "C", "filters": null}' >nested/x/.zarray
text=$("$penstock" inspect nested 2>&1)
contains "$text" "warning: array 'x': no chunk at all is there: every item is the fill value"
contains "$("$penstock" verify nested)" "warning: array 'x': no chunk at all is there"
printf 'abcd' >nested/x/0/1
text=$("$penstock" inspect nested 2>&1)
contains "$text" "warning: array 'x': no chunk is found under names such as 'x/0.0'"
contains "$text" "but 'x/0/1' is there"
"$penstock" verify nested >out
contains "$(cat out)" "warning: array 'x': no chunk is found under names such as 'x/0.0'"
printf 'abcd' >nested/x/1.0
text=$("$penstock" inspect nested 2>&1)
[[ $text != *warning* ]] || fail "one chunk has the right name: $text"

# What a dataset says does nothing on a terminal, in a log or in JSON.
escape=$'\e' bad=$'x\e[31m\xff\n'
mkdir -p hostile/"$bad" && echo '{"zarr_format": 2}' >hostile/.zgroup
cp xarray/t2m/.zarray hostile/"$bad"
printf '{"units": "\\u001b[31m\\n", "_FillValue": "\\u009b\\u202e", "_ARRAY_DIMENSIONS": ["a\\u001bb", "c"]}' \
    >hostile/"$bad"/.zattrs
mkdir hostile/y && sed 's|"<i2"|"<M8[\\u001b[31m]"|' xarray/t2m/.zarray >hostile/y/.zarray
mkdir hostile/z && sed 's|"compressor": null|"compressor": {"id": "\\u001b]0;\\n"}|' xarray/t2m/.zarray >hostile/z/.zarray
"$penstock" inspect hostile >out 2>&1 || fail "odd names make inspect fail: $(cat out)"
"$penstock" inspect hostile --json >report.json
"$penstock" verify hostile --json verify.json >>out 2>&1 || true
"$penstock" plan --set dataset.uri=hostile >>out 2>&1 && fail "odd names are field names"
"$penstock" plan --set dataset.uri=hostile --set "dataset.fields.a=no${escape}c" >>out 2>&1 && fail "there is no such array"
if grep -qE "$escape"$'|\x9b|\xff' out; then fail "a dataset's text reaches the terminal: $(cat -v out)"; fi
contains "$(cat out)" 'x\x1b[31m\xff\x0a'
contains "$(cat out)" '_FillValue \x9b\u202e, units \x1b[31m\x0a'
contains "$(cat out)" "there is no array 'no\\x1bc'; there are 'x\\x1b[31m\\xff\\x0a'"
python3 - <<'PYTHON'
import json
report, verified = json.load(open("report.json")), json.load(open("verify.json"))
assert r"x\x1b[31m\xff\x0a" in [array["path"] for array in report["arrays"]], report
assert r"x\x1b[31m\xff\x0a" in [array["path"] for array in verified["arrays"]], verified
for text in json.dumps([report, verified], ensure_ascii=False):
    assert text >= " ", report
PYTHON

# A group alone.
mkdir -p grouped/data/inner grouped/meta && echo '{"zarr_format": 2}' | tee grouped/.zgroup grouped/data/.zgroup \
    grouped/meta/.zgroup >/dev/null
cp -r v2/clip_emb grouped/data/inner/img && cp -r v2/base_frames grouped/meta
echo '{"zarr_format": 2}' >grouped/data/inner/.zgroup
text=$("$penstock" inspect grouped --set dataset.group=data)
contains "$text" "1 array, metadata not consolidated"
contains "$text" "field inner/img"

# Arrays that do not agree on the number of samples: shown, with the reason why there is no default.
mkdir mixed && echo '{"zarr_format": 2}' >mixed/.zgroup
for n in 3 4; do
    mkdir "mixed/a$n"
    echo "{\"zarr_format\": 2, \"shape\": [$n, 8], \"chunks\": [1, 8], \"dtype\": \"<f4\"," \
        '"compressor": null, "fill_value": 0, "order": "C", "filters": null}' >"mixed/a$n/.zarray"
done
"$penstock" inspect mixed >out || fail "arrays that disagree make inspect fail"
"$penstock" inspect mixed --json | python3 -m json.tool >/dev/null

refuses 4 "which dataset" inspect
refuses 4 "'b'" inspect a b
refuses 1 "'nowhere'" inspect nowhere
mkdir empty
refuses 1 "empty" inspect empty
refuses 4 "not supported" inspect gcs://bucket/key
refuses 4 "has a user, a password or a signature in it: credentials" inspect me:hidden@host/x
[[ $(cat err) != *hidden* ]] || fail "a password is shown: $(cat err)"
refuses 1 "'./me:hidden@host/x'" inspect ./me:hidden@host/x
mkdir broken && echo '{"zarr_format": 2}' >broken/.zgroup && echo '{"metadata"' >broken/.zmetadata
refuses 4 "broken" inspect broken

# A configuration with samples of several frames: which frames are none.
"$penstock" synth robot --layout robot --samples 200 --episodes 4 --chunk 8 --shape 8,8,3 >/dev/null
cat >robot.yaml <<'YAML'
dataset:
  uri: robot
  fields: {action: {array: data/action, steps: "-1:15"}}
samples: {episodes: {ends: meta/episode_ends}, stride: 2, pad: {before: 1, after: 7}}
YAML
text=$("$penstock" inspect robot -c robot.yaml)
contains "$text" "at 86 of 200 frames, in 4 episodes; the others are: 98 not at the stride, 16 too near an end"
contains "$text" "field action.valid         bool [16], 16 B, made for each sample"
# What comes next has the configuration; ends of episodes are no target of a join; statistics are no dataset of samples.
contains "$text" "next: penstock plan -c robot.yaml --set batch.last=partial"
cp -r robot moved
contains "$("$penstock" inspect moved -c robot.yaml --set batch.global_size=8)" \
    "next: penstock plan -c robot.yaml --set dataset.uri=moved --set batch.global_size=8"
contains "$("$penstock" inspect robot --set dataset.uri=robot)" "next: penstock plan --set dataset.uri=robot"
"$penstock" inspect robot --write start.yaml >out
contains "$(cat out)" "start.yaml is written. next: penstock plan -c start.yaml"
contains "$("$penstock" plan -c start.yaml)" "action float32 (16, 2), 16 steps from -1 to 14"
refuses 4 "'start.yaml' is there already" inspect robot --write start.yaml
refuses 4 "'robot.yaml' is one" inspect robot --write other.yaml -c robot.yaml
[ ! -e other.yaml ] || fail "what is refused is written"
mkdir -p lerobot/meta lerobot/data && echo '{}' >lerobot/meta/info.json
refuses 1 "it looks like a LeRobot dataset: 'penstock import lerobot'" inspect lerobot
text=$("$penstock" inspect robot)
contains "$text" "hint: 'meta/episode_ends' looks like the ends of episodes, which samples of several steps do not cross: --set samples.episodes_ends=meta/episode_ends"
[[ $text != *"[data/episode]"* ]] || fail "episodes are joined: $text"
"$penstock" stats --set dataset.uri=robot --fields data/state,data/episode --quantiles none -o robot-stats >/dev/null
text=$("$penstock" inspect robot-stats)
contains "$text" "Statistics that penstock stats wrote: a field reads those of its own name by stats: robot-stats"
refuses 4 "statistics of penstock stats are no samples" inspect robot-stats --write other.yaml
[[ $text != *"annot be read"* && $text != *"next:"* && $text != *"A run delivers"* ]] || fail "statistics are no samples: $text"

# Sparse rows: a hint by default; with the group as a field, lengths, pages, and what the cut costs.
"$penstock" synth cells --layout csr --samples 300 >/dev/null
contains "$("$penstock" inspect cells)" "hint: group 'X' looks like a sparse matrix"
text=$("$penstock" inspect cells --set dataset.fields.X=X)
contains "$text" "field X.offsets            int64 [], 8 B, made for each sample"
contains "$text" "ragged X"
contains "$text" "a row at most; rows cut chunks: each is decoded"
"$penstock" inspect cells --set dataset.fields.X=X --json | python3 -c '
import json, sys
(ragged,) = json.load(sys.stdin)["dataset"]["ragged"]
assert ragged["items"] == ragged["sample_items"] > 0 and ragged["decode_amplification"] >= 1, ragged'

# Rows without any item: offsets need no chunk. Without rows there is nothing to deliver, and the message does not blame the names.
array() { # array PATH LENGTH DTYPE [FILTER]
    mkdir -p "$1" && echo "{\"zarr_format\": 2, \"shape\": [$2], \"chunks\": [100], \"dtype\": \"$3\", \"compressor\": null," \
        "\"fill_value\": 0, \"order\": \"C\", \"filters\": [${4-}]}" >"$1/.zarray"
}
array itemless/X/indptr 41 '<i4' && array itemless/X/indices 0 '<i4' && array itemless/X/data 0 '<f4'
echo '{"zarr_format": 2}' | tee itemless/.zgroup itemless/X/.zgroup >/dev/null
text=$("$penstock" inspect itemless --set dataset.fields.X=X)
contains "$text" "ragged X"
[[ $text != *"no chunk at all"* ]] || fail "offsets of nothing are doubted: $text"
array itemless/names 12 '|O' '{"id": "vlen-utf8"}' && array itemless/X/indptr 1 '<i4'
contains "$("$penstock" inspect itemless)" "there are no samples: array 'X/data' is empty (and so is 1 more), and 'names'"

# No uri names a store in an archive; a group does.
python3 -m zipfile -c two.zip cells itemless
refuses 1 "it holds stores: unpack them, or set dataset.group to one of 'cells', 'itemless'" inspect two.zip
contains "$("$penstock" inspect two.zip --set dataset.group=itemless)" "itemless/X/indptr"

# What hints and notes tell to do changes what they tell: each command is run as it stands, on the dataset that it was printed for.
PATH=$(dirname "$penstock"):$PATH
followed=0
followed_of() { # followed_of DATASET [OPTION...]: prints how many commands inspect had
    local dataset=$1 line text again
    shift
    text=$("$penstock" inspect "$dataset" "$@")
    bash -c "$(sed -n 's/^next: //p' <<<"$text")" >out 2>err || fail "'next' of $dataset: $(cat err)"
    while read -r line; do
        rm -rf DST
        bash -c "${line##*: } --memory 64MiB" >out 2>err || fail "$line: $(cat err)"
        again=$("$penstock" inspect DST "$@")
        ! grep -F "${line%%: penstock*}" <<<"$again" || fail "$dataset $*: followed, and printed again: $line"
        if [[ $line == "hint: to "* ]]; then
            ! grep '^hint: to ' <<<"$again" || fail "$dataset $*: another hint of the same kind after $line: $again"
            [[ $line =~ "decode "([0-9.e+-]+)" chunk" ]] && told=${BASH_REMATCH[1]} # held fields are not foreseen
            [[ $again =~ "; "([0-9.e+-]+)" chunk" ]] && awk "BEGIN { exit !(${BASH_REMATCH[1]} < 2 * $told) }" ||
                fail "$dataset $*: not as told: $line, but: $again"
            [[ $line != *" read 1.0x instead"* ]] || contains "$again" ": 1.0x;"
        fi
        followed=$((followed + 1))
    done < <(grep -E '^hint: .*: penstock ' <<<"$text")
}
"$penstock" synth 'with blanks' --samples 64 --videos 4 --chunk 32 --codec none --format 3 >/dev/null
"$penstock" synth noisy --samples 24 --chunk 4 --codec zstd --format 3 >/dev/null
"$penstock" synth small --layout plain --samples 4000 --shape 64 --chunk 10 --format 3 >/dev/null
"$penstock" synth tokens --layout tokens --samples 100000 --chunk 1000 >/dev/null
"$penstock" synth weather --layout weather --samples 40 >/dev/null
for dataset in v2 v3 across robot cells 'with blanks' noisy small tokens weather; do
    followed_of "$dataset"
done
for dataset in v2 v3 'with blanks'; do
    followed_of "$dataset" --set readers.memory_limit=820KiB
done
[ $followed -ge 8 ] || fail "only $followed hints had a command: the test shows little"
text=$("$penstock" inspect robot -c robot.yaml)
[[ $text != *"penstock rechunk"* ]] || fail "frames around rows are read again whatever the chunks are: $text"
text=$("$penstock" inspect "with blanks")
contains "$text" ": penstock rechunk 'with blanks' DST --chunk 6"
contains "$text" "next: penstock plan --set 'dataset.uri=with blanks'"

# Chunks that straddle rows: a note where each is decoded again, with what holds the array; none for what is decoded 1.0 times.
"$penstock" rechunk noisy straddle --arrays base_frames --chunk 4 >/dev/null
python3 - <<'PYTHON'
import json, os
os.makedirs("straddle/label/c")
open("straddle/label/c/0", "wb").write(bytes(24 * 4096))
meta = {"zarr_format": 3, "node_type": "array", "shape": [24, 4096], "data_type": "uint8", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6, 4096]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
json.dump(meta, open("straddle/label/zarr.json", "w"))
PYTHON
plan() { "$penstock" plan --set batch.global_size=8 --set dataset.uri=straddle --set dataset.fields.base_frames=base_frames --set dataset.fields.label=label "$@"; }
! plan | grep '^note: chunks' || fail "the array is held"
note=$(plan --set dataset.hold_limit=0 | grep "^note: chunks of field 'label' straddle rows: each is decoded 2.0 times")
[[ $note =~ (--set dataset.hold_limit=[0-9]+KiB) ]] || fail "no limit in: $note"
! plan ${BASH_REMATCH[1]} | grep '^note: chunks' || fail "followed, and printed again: $note"
policy() { "$penstock" plan -c robot.yaml --set batch.global_size=8 --set dataset.fields.img.array=data/img --set dataset.fields.img.steps=-1:1 "$@"; }
! policy --set dataset.hold_limit=0 | grep "^note: chunks of field 'img'" || fail "the largest field straddles no rows"
