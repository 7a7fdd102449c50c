# penstock rechunk: the same content in another form, whatever happens on the way; refusals.
. "$(dirname "$0")/lib.sh"
unset "${!OMPI_@}" "${!PMI_@}" "${!SLURM_@}"

digest() { "$penstock" verify "$1" --digest | sed -n 's/^digest //p'; }

# same URI...: each has the source's content, and nothing of the making is left in it.
same() {
    local uri
    for uri; do
        [ "$(digest "$uri")" = "$whole" ] || fail "$uri has other content"
        [ -z "$(find "$uri" -name '.penstock*')" ] || fail "$uri: $(find "$uri" -name '.penstock*')"
        [ -f "$uri/zarr.json" ] || fail "$uri has no metadata"
    done
}

# fails CODE PATTERN ARGUMENT...: exits with CODE, PATTERN on the last line of standard error, behind what progress there was.
fails() {
    local expected=$1 pattern=$2 code=0
    shift 2
    "$penstock" "$@" >out 2>err || code=$?
    [ $code -eq "$expected" ] || fail "penstock $*: exit code $code, not $expected"
    contains "$(tail -n 1 err)" "$pattern"
}

"$penstock" synth a.zarr --samples 60 --videos 4 >/dev/null
whole=$(digest a.zarr)

# Chunks, shards, codecs; the digest that it prints is the source's.
"$penstock" rechunk a.zarr chunks.zarr --chunk 8 >out
contains "$(cat out)" "digest $whole"
contains "$(cat out)" "chunks.zarr is complete, and reads as the source does"
[[ $(cat out) != *"there already"* ]] || fail "nothing was there: $(cat out)"
"$penstock" rechunk a.zarr shards.zarr --chunk 3 --shard 12 --codec zstd+crc32c --level 1 >/dev/null
"$penstock" rechunk shards.zarr inner.zarr --chunk 5,20,3,32,7 --codec gzip --no-verify >/dev/null
"$penstock" rechunk inner.zarr raw.zarr --chunk 60 --codec none --threads 3 --memory 64MiB >/dev/null
"$penstock" rechunk raw.zarr inside.zarr --chunk 7,3 --shard 14,20,4 --codec blosc-lz4 --shuffle bitshuffle \
    >/dev/null
"$penstock" rechunk inside.zarr plain.zarr >/dev/null
same chunks.zarr shards.zarr inner.zarr raw.zarr inside.zarr plain.zarr
"$penstock" inspect chunks.zarr --json >report.json
python3 - <<'PYTHON'
import json
report = json.load(open("report.json"))
arrays = {array["path"]: array for array in report["arrays"]}
assert report["zarr_format"] == 3 and report["consolidated"] is True
assert arrays["base_frames"]["chunks"] == [8, 20, 4, 32, 32], arrays
assert arrays["segment_to_video"]["chunks"] == [60]  # small samples: a multiple, not 8 files
PYTHON

# What is recommended: bitshuffle for noisy floats, nothing where that is used or the floats are smooth, no compression where
# nothing is gained, and nothing for integers.
"$penstock" rechunk a.zarr advised.zarr --chunk 8 >out
grep -q "hint: 'base_frames' is stored in \(89\|9[0-9]\)% of its bytes; noisy 16-bit floats decode" out || fail "no hint: $(cat out)"
contains "$(cat out)" ": penstock rechunk advised.zarr DST --codec blosc-zstd --shuffle bitshuffle"
contains "$("$penstock" inspect advised.zarr)" "$(grep '^hint' out)"
"$penstock" rechunk a.zarr long.zarr --chunk 32 --codec none >out
contains "$(cat out)" "hint: 'base_frames': a chunk of 32 samples takes 5.00 MiB; chunks of about 1 MiB are read as fast, and take less memory: penstock rechunk long.zarr DST --chunk 6"
contains "$("$penstock" inspect long.zarr)" "$(grep '^hint' out)"
! "$penstock" rechunk a.zarr short.zarr --chunk 16 --codec none | grep "a chunk of" || fail "chunks of 2.5 MiB have a hint"
"$penstock" rechunk a.zarr gained.zarr --chunk 8 --codec blosc-lz4 >out
contains "$(cat out)" "compression saves next to nothing, and reading without decoding is faster: penstock rechunk gained.zarr DST --codec none"
contains "$("$penstock" inspect gained.zarr)" "$(grep '^hint' out)"
"$penstock" synth smooth.zarr --samples 60 --grain 1 --codec none >/dev/null
"$penstock" synth integers.zarr --layout plain --samples 100 --shape 16384 --dtype int16 >/dev/null
advised_nothing() {
    rm -rf nothing.zarr
    "$penstock" rechunk "$1" nothing.zarr "${@:2}" >out
    "$penstock" inspect nothing.zarr >>out
    ! grep -E '^hint: .* is stored in' out || fail "rechunk $* has a hint"
}
advised_nothing a.zarr --shuffle bitshuffle
advised_nothing a.zarr --codec none+crc32c
advised_nothing smooth.zarr
advised_nothing integers.zarr --codec zstd
fails 4 "--delta 1: no array of integers along the samples has an axis 1" rechunk a.zarr delta.zarr --delta 1

# Some arrays only.
"$penstock" rechunk a.zarr some.zarr --arrays clip_emb,/segment_to_video >/dev/null
[ "$(find some.zarr -name zarr.json | wc -l)" -eq 3 ] || fail "not two arrays"

# Without all groups, what to copy has to be said.
mkdir odd && cp -r a.zarr/clip_emb odd
sed 's|"metadata": *{|&"x//y/.zgroup": {}, |' a.zarr/.zmetadata >odd/.zmetadata
fails 4 "say what to copy with --arrays" rechunk odd odd.zarr
"$penstock" rechunk odd odd.zarr --arrays clip_emb >/dev/null

# Attributes, groups and names of dimensions are kept.
mkdir -p v2/deep/er v2/empty/too
echo '{"zarr_format": 2}' | tee v2/.zgroup v2/deep/.zgroup v2/empty/.zgroup v2/empty/too/.zgroup >/dev/null
echo '{"of": "nothing"}' >v2/empty/too/.zattrs
echo '{"title": "a \"title\"", "n": 1.5}' >v2/.zattrs
echo '{"of": "deep"}' >v2/deep/.zattrs
echo '{"zarr_format": 2, "shape": [5, 3], "chunks": [2, 2], "dtype": ">f4", "compressor": null,
 "fill_value": NaN, "order": "C", "filters": null}' >v2/deep/er/.zarray
echo '{"units": "K", "_ARRAY_DIMENSIONS": ["time", "x"]}' >v2/deep/er/.zattrs
"$penstock" rechunk v2 v3 >/dev/null
[ "$(digest v2)" = "$(digest v3)" ] || fail "an array of fill values changes"
"$penstock" rechunk v3 again >/dev/null # groups from consolidated metadata
diff -r v3 again || fail "groups or attributes differ"
python3 - <<'PYTHON'
import json
root = json.load(open("v3/zarr.json"))
assert root["attributes"] == {"title": 'a "title"', "n": 1.5}, root
inside = root["consolidated_metadata"]["metadata"]
assert inside["deep"]["attributes"] == {"of": "deep"}
assert inside["empty"]["attributes"] == {} and inside["empty/too"]["attributes"] == {"of": "nothing"}
assert inside["empty/too"] == json.load(open("v3/empty/too/zarr.json"))
array = json.load(open("v3/deep/er/zarr.json"))
assert inside["deep/er"] == array
# What xarray takes for missing in v2, as xarray writes it into v3: base64 of a float64, NaN.
assert array["attributes"] == {"units": "K", "_FillValue": "AAAAAAAA+H8="}, array
assert array["dimension_names"] == ["time", "x"]
assert array["fill_value"] == "NaN" and array["data_type"] == "float32"
PYTHON

# Killed, again and again: it goes on, and ends with the same files.
"$penstock" rechunk a.zarr once.zarr --chunk 2 --codec zstd --level 12 >/dev/null
kills=0
for _ in $(seq 40); do
    "$penstock" rechunk a.zarr killed.zarr --chunk 2 --codec zstd --level 12 >out 2>err &
    until [ -e killed.zarr/.penstock-rechunk/done.0 ] || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
    [ $kills -eq 0 ] || sleep 0."$((RANDOM % 3))$((RANDOM % 10))"
    kill -9 $! 2>/dev/null || true
    if wait $! 2>/dev/null; then break; fi
    kills=$((kills + 1))
    [[ $(cat err) != *"is complete: a rechunk was killed"* ]] || break
    [ ! -e killed.zarr/zarr.json ] || [ -e killed.zarr/.penstock-rechunk ] || break # killed after its end
done
((kills < 40)) || "$penstock" rechunk a.zarr killed.zarr --chunk 2 --codec zstd --level 12 >/dev/null
[ $kills -gt 0 ] || fail "it was never killed"
same once.zarr killed.zarr
diff -r once.zarr killed.zarr || fail "what was killed $kills times differs"

# Killed while it removed its journal.
mkdir killed.zarr/.penstock-rechunk && touch killed.zarr/.penstock-rechunk/done.0
refuses 4 "is complete: a rechunk was killed" rechunk a.zarr killed.zarr --chunk 2 --codec zstd --level 12
same once.zarr killed.zarr
diff -r once.zarr killed.zarr || fail "the rest of a journal stays"

# What is found there is checked: values that were lost or damaged since are written again.
half() { "$penstock" rechunk a.zarr half.zarr --chunk 4 --part "$1" >out; }
half 0/2
contains "$(cat out)" "slabs are left to other parts"
[ ! -e half.zarr/zarr.json ] || fail "half a dataset has metadata"
chunks=(half.zarr/base_frames/c/*)
rm -r "${chunks[0]}"
: >"${chunks[1]}/0/0/0/0"
touch "${chunks[2]}/0/0/0/.penstock-partial-0123456789abcdef"
"$penstock" rechunk a.zarr half.zarr --chunk 4 >out
contains "$(cat out)" "half.zarr is complete"
same half.zarr
refuses 4 "not empty" rechunk a.zarr half.zarr --chunk 4
half 1/2 # a process of an array job that came late
contains "$(cat out)" "complete already"

# Two at once; the launcher's environment.
for rank in 0 1 2; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 "$penstock" rechunk a.zarr three.zarr --chunk 4 >out.$rank &
done
wait
[ "$(grep -l 'three.zarr is complete, and' out.*)" ] || fail "nobody finished: $(cat out.*)"
same three.zarr

# Another source or other options do not go on.
"$penstock" rechunk a.zarr begun.zarr --chunk 4 --part 0/2 >/dev/null
refuses 4 "another rechunk" rechunk a.zarr begun.zarr --chunk 5
exec 9>>begun.zarr/.penstock-rechunk/done.0
flock -n 9
refuses 1 "wait for its end" rechunk a.zarr begun.zarr --chunk 4 --part 0/2
exec 9>&-
refuses 4 "another rechunk" rechunk chunks.zarr begun.zarr --chunk 4
touch a.zarr/base_frames/.zarray
refuses 4 "has changed since" rechunk a.zarr begun.zarr --chunk 4

# A damaged source, and what cannot be written.
cp -r a.zarr hurt.zarr && truncate -s 100 hurt.zarr/base_frames/7.0.0.0.0
fails 4 "chunk 7.0.0.0.0" rechunk hurt.zarr hurt-too.zarr
[ ! -e hurt-too.zarr/zarr.json ] || fail "a damaged source becomes a dataset"
mkdir -p objects/o && echo '{"zarr_format": 2}' >objects/.zgroup
echo '{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "compressor": null,
 "fill_value": null, "order": "C", "filters": null}' >objects/o/.zarray
refuses 4 "name the others with --arrays" rechunk objects objects3
refuses 1 "'nowhere'" rechunk nowhere there
refuses 1 "no array 'nothing'" rechunk a.zarr there --arrays nothing
mkdir full && touch full/file
refuses 4 "not empty" rechunk a.zarr full
refuses 1 "No such file" rechunk a.zarr no/such/folder
refuses 4 "only directories are written" rechunk a.zarr s3://bucket/key

# A target inside the source, by whatever name: refused before anything is written.
mkdir -p linked.zarr/there a.zarr/empty && ln -s ../a.zarr/base_frames linked.zarr/base_frames
cp a.zarr/.z* linked.zarr && cp -r a.zarr/clip_emb a.zarr/segment_to_video linked.zarr
ln -s a.zarr link && ln -s a.zarr/empty door
find a.zarr linked.zarr | sort >before
refuses 4 "choose another destination" rechunk a.zarr a.zarr
for inside in a.zarr/inside ./a.zarr/base_frames/../inside/ link/inside a.zarr/empty door door/inside \
    "file://$PWD/link/inside"; do
    refuses 4 "lies in the source" rechunk a.zarr "$inside"
    refuses 4 "lies in the source" rechunk link "$inside"
done
refuses 4 "lies in the source" rechunk linked.zarr linked.zarr/there
refuses 4 "lies in the source" rechunk linked.zarr a.zarr/base_frames/inside
find a.zarr linked.zarr | sort | diff before - || fail "refused, and yet written to"
rm -r a.zarr/empty

refuses 4 "blosc-none" rechunk a.zarr there --codec blosc-none
refuses 1 "raise it" rechunk a.zarr there --memory 100KiB
[ ! -e there ] || fail "refused, and yet begun"
refuses 4 "which dataset" rechunk a.zarr
refuses 4 "written as Zarr v3" rechunk a.zarr b --format 2
refuses 4 "--chunk '0'" rechunk a.zarr b --chunk 0
refuses 4 "--part" rechunk a.zarr b --part 2/2

# A full disk: one line, and room later makes it go on.
if mkdir small && mount -t tmpfs -o size=3m tmpfs small 2>/dev/null; then
    trap 'umount "$scratch/small"; rm -rf "$scratch"' EXIT
    fails 1 "No space left" rechunk a.zarr small/b.zarr --chunk 4
    mount -o remount,size=64m small
    "$penstock" rechunk a.zarr small/b.zarr --chunk 4 >/dev/null
    same small/b.zarr
fi
