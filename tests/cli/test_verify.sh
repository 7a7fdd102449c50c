# penstock verify: digests that chunks and codecs do not change, every damaged chunk listed, exit codes.
. "$(dirname "$0")/lib.sh"

synth() { "$penstock" synth "$@" --samples 40 --videos 4 >/dev/null; }

# digest URI: of the whole
digest() { "$penstock" verify "$1" --digest | sed -n 's/^digest //p'; }

# damaged URI LINES PATTERN...: exit code 2, so many chunks listed, each PATTERN among the lines.
damaged() {
    local uri=$1 lines=$2 code=0 pattern
    shift 2
    "$penstock" verify "$uri" --digest "${options[@]}" --json report.json >out 2>err || code=$?
    [ "$code" -eq 2 ] || fail "verify $uri: exit code $code, not 2: $(cat out err)"
    [ "$(grep -c '^bad: ' out)" -eq "$lines" ] || fail "verify $uri: not $lines bad chunks: $(cat out)"
    for pattern; do contains "$(cat out)" "$pattern"; done
    contains "$(cat out)" "$uri: damaged"
    [ -z "$(sed -n 's/^digest //p' out)" ] || fail "damaged data has a digest"
}
options=()

# The same content in any form; other content otherwise.
synth v2.zarr --format 2
synth v3.zarr --format 3 --codec zstd+crc32c
synth other.zarr --format 3 --seed 99
whole=$(digest v2.zarr)
[[ $whole =~ ^[0-9a-f]{32}$ ]] || fail "no digest: '$whole'"
[ "$whole" = "$(digest v3.zarr)" ] || fail "the digest depends on the format"
[ "$whole" != "$(digest other.zarr)" ] || fail "other data have the same digest"
[ "$whole" = "$("$penstock" verify v2.zarr --digest --threads 1 --memory 2MiB | sed -n 's/^digest //p')" ] ||
    fail "the digest depends on memory and threads"
"$penstock" verify v2.zarr >out
contains "$(cat out)" "v2.zarr: good"
contains "$(cat out)" "0 of "

# One array; a report for programs.
"$penstock" verify v3.zarr /base_frames --digest --json report.json >out
python3 - <<'PYTHON'
import json
report = json.load(open("report.json"))
assert report["verdict"] == "good" and report["bad"] == 0 and report["bad_chunks"] == []
assert [array["path"] for array in report["arrays"]] == ["base_frames"]
assert report["arrays"][0]["chunks"] == report["chunks"] == 40
assert len(report["arrays"][0]["digest"]) == 32 and report["stored_bytes"] > 0
PYTHON

# Damage of every kind, all of it told in one go.
cp -r v3.zarr hurt.zarr
chunks=hurt.zarr/base_frames/c
truncate -s 100 $chunks/3/0/0/0/0
: >$chunks/5/0/0/0/0
printf '\xff' | dd of=$chunks/7/0/0/0/0 bs=1 seek=2000 conv=notrunc status=none
head -c 400000 /dev/urandom >$chunks/39/0/0/0/0
rm $chunks/11/0/0/0/0
rm $chunks/12/0/0/0/0 && mkdir $chunks/12/0/0/0/0
damaged hurt.zarr 5 "'base_frames/c/3/0/0/0/0': array 'base_frames' chunk 3.0.0.0.0: " \
    "chunk 5.0.0.0.0" "chunk 7.0.0.0.0: crc32c" "chunk 39.0.0.0.0" "chunk 12.0.0.0.0" "1 missing"
python3 - <<'PYTHON'
import json
report = json.load(open("report.json"))
assert report["verdict"] == "damaged" and report["bad"] == 5 and report["missing"] == 1
assert [bad["chunk"][:2] for bad in report["bad_chunks"]] == ["3.", "5.", "7.", "12", "39"]
assert all(bad["array"] == "base_frames" and bad["cause"] for bad in report["bad_chunks"])
assert report["bad_chunks"][0]["key"] == "base_frames/c/3/0/0/0/0" and report["digest"] is None
digests = {array["path"]: array["digest"] for array in report["arrays"]}
assert digests["base_frames"] is None and digests["clip_emb"]
PYTHON
options=(--missing fail)
damaged hurt.zarr 6 "chunk 11.0.0.0.0" "1 missing" \
    "array 'base_frames' chunk 11.0.0.0.0: the store has no 'base_frames/c/11/0/0/0/0': restore it, or take"
options=()

# A missing chunk is the fill value, which has a digest, too.
cp -r v2.zarr gap.zarr && rm gap.zarr/base_frames/9.0.0.0.0
"$penstock" verify gap.zarr >out || fail "a missing chunk is damage"
contains "$(cat out)" "1 missing"
[ "$whole" != "$(digest gap.zarr)" ] || fail "a missing chunk changes nothing"
options=(--missing fail)
damaged gap.zarr 1 "chunk 9.0.0.0.0"
options=()

# A chunk that memory has no room for is read in parts, and told of once.
"$penstock" rechunk v2.zarr long.zarr --chunk 40 --codec none >/dev/null
truncate -s 3000000 long.zarr/base_frames/c/0/0/0/0/0
damaged long.zarr 1
options=(--threads 1 --memory 8MiB)
damaged long.zarr 1 "chunk 0.0.0.0.0"
options=()
refuses 1 "raise it" verify long.zarr --memory 1MiB --json report.json

# Chunks whose names are there, and nothing behind them: damage, and not missing.
cp -r v2.zarr annex.zarr
rm annex.zarr/base_frames/[34].0.0.0.0
ln -s ../../.git/annex/objects/x annex.zarr/base_frames/3.0.0.0.0
mkdir annex.zarr/base_frames/4.0.0.0.0
damaged annex.zarr 2 "base_frames/3.0.0.0.0' is a link to '../../.git/annex/objects/x', which is not there" \
    "base_frames/4.0.0.0.0' at byte 0: Is a directory" "0 missing"

# Shards: inner chunks and the index.
"$penstock" rechunk v2.zarr shards.zarr --chunk 2 --shard 10 --codec zstd+crc32c >/dev/null
[ "$whole" = "$(digest shards.zarr)" ] || fail "the digest depends on shards"
shard=shards.zarr/base_frames/c/1/0/0/0/0
printf '\xff\xff' | dd of=$shard bs=1 seek=5000 conv=notrunc status=none
damaged shards.zarr 1 "'base_frames/c/1/0/0/0/0'" "chunk 5.0.0.0.0 in shard"
truncate -s -1 $shard
damaged shards.zarr 5 "chunk 9.0.0.0.0 in shard"

# Arrays that cannot be read.
cp -r v2.zarr odd.zarr && rm odd.zarr/.zmetadata && mkdir odd.zarr/labels
echo '{"zarr_format": 2, "shape": [12], "chunks": [12], "dtype": "|O", "compressor": null,
 "fill_value": null, "order": "C", "filters": null}' >odd.zarr/labels/.zarray
code=0
"$penstock" verify odd.zarr --digest >out || code=$?
[ $code -eq 4 ] || fail "an array that cannot be read: exit code $code"
contains "$(cat out)" "labels                   not supported: dtype '|O' (Python objects)"
contains "$(cat out)" "not all could be read"
"$penstock" verify odd.zarr base_frames >/dev/null || fail "it matters to those who do not ask for it"
echo '{' >odd.zarr/labels/.zarray
code=0
"$penstock" verify odd.zarr >out || code=$?
[ $code -eq 2 ] || fail "metadata that is not JSON: exit code $code"
contains "$(cat out)" "labels                   invalid: "
contains "$(cat out)" "odd.zarr: metadata is invalid"

# Nothing but arrays that cannot be read: no chunk was looked at, so none is said to be bad or good.
mkdir -p refused.zarr/x && echo '{"zarr_format": 2}' >refused.zarr/.zgroup
for why in '"shape": [12]|"|O"|not supported|4' '"shape": [-1]|"<f4"|invalid|2'; do
    IFS='|' read -r shape dtype word expected <<<"${why/|O/+O}"
    echo "{\"zarr_format\": 2, $shape, \"chunks\": [1], \"dtype\": ${dtype/+/|}, \"compressor\": null," \
        '"fill_value": null, "order": "C", "filters": null}' >refused.zarr/x/.zarray
    code=0
    "$penstock" verify refused.zarr --json report.json >out || code=$?
    [ $code -eq "$expected" ] || fail "$shape, $dtype: exit code $code: $(cat out)"
    contains "$(cat out)" "x                        $word: "
    if grep -E 'damaged|chunks bad' out; then fail "chunks that nobody read are bad"; fi
    python3 - "$word" <<'PYTHON'
import json, sys
report = json.load(open("report.json"))
assert report["not_read"][0]["why"] == sys.argv[1] and report["not_read"][0]["reason"], report
assert report["verdict"] != "damaged", report
PYTHON
done

# An array without items is good as it is, and one without axes is its one value: a string, too.
echo '{"zarr_format": 2, "shape": [0, 4], "chunks": [0, 4], "dtype": "<f4", "compressor": null, "fill_value": null, "order": "C",
 "filters": null}' >refused.zarr/x/.zarray
mkdir refused.zarr/word && echo '{"zarr_format": 2, "shape": [], "chunks": [], "dtype": "|O", "compressor": null,
 "fill_value": "", "order": "C", "filters": [{"id": "vlen-utf8"}]}' >refused.zarr/word/.zarray
printf '\1\0\0\0\2\0\0\0hi' >refused.zarr/word/0
"$penstock" verify refused.zarr >out || fail "no items, and no axes: $(cat out)"
contains "$(cat out)" "x                                   0 chunks"
contains "$(cat out)" "0 of 1 chunk bad, 0 missing"
contains "$(cat out)" "refused.zarr: good"
truncate -s -1 refused.zarr/word/0
damaged refused.zarr 1 "bad: 'word/0': array 'word' chunk 0: "

# A missing chunk has empty strings, unless the fill value is another.
rm refused.zarr/word/0
"$penstock" verify refused.zarr >out || fail "empty strings are missing: $(cat out)"
sed -i 's/"fill_value": ""/"fill_value": "0"/' refused.zarr/word/.zarray
damaged refused.zarr 1 "array 'word' chunk 0: the chunk is missing" "1 missing"

# By name: without metadata of groups above, and without a look at anything else.
mkdir -p bare.zarr/deep/1 && cp -r v2.zarr/clip_emb bare.zarr/deep/1
cp -r v2.zarr/segment_to_video bare.zarr/deep && echo '{' >bare.zarr/deep/segment_to_video/.zarray
refuses 1 "no Zarr array or group there" verify bare.zarr
"$penstock" verify bare.zarr deep/1/clip_emb >out || fail "an array without groups above: $(cat out)"
contains "$(cat out)" "bare.zarr: good"
"$penstock" rechunk bare.zarr dressed.zarr --arrays deep/1/clip_emb >/dev/null
"$penstock" verify dressed.zarr >out
contains "$(cat out)" "deep/1/clip_emb"

refuses 4 "which dataset" verify
refuses 4 "neither fill nor fail" verify v2.zarr --missing maybe
refuses 1 "'nowhere'" verify nowhere
refuses 1 "no array 'nothing'" verify v2.zarr nothing
refuses 1 "missing/.report.json" verify v2.zarr --json missing/report.json
