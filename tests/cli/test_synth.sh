# Writing datasets: the same bytes whatever the threads, whole metadata, and refusals that say why.
. "$(dirname "$0")/lib.sh"

same() {
    diff -r "$1" "$2" >/dev/null || fail "$1 and $2 differ"
}

# Threads do not change a byte; the seed does.
for format in 2 3; do
    common=(--samples 15 --chunk 4 --format "$format")
    "$penstock" synth one "${common[@]}" --threads 1 >/dev/null
    "$penstock" synth two "${common[@]}" --threads 2 >/dev/null
    "$penstock" synth other "${common[@]}" --seed 1 >/dev/null
    same one two
    diff -r one other >/dev/null && fail "seeds 0 and 1 give the same bytes"
    rm -r one two other
done

# The layout is what the help says.
summary=$("$penstock" synth v2 --samples 10)
contains "$summary" "10 samples in 12 chunks, Zarr v2"
contains "$summary" "next: penstock inspect v2"
"$penstock" synth v3 --samples 10 --format 3 --codec zstd+crc32c >/dev/null
for file in .zgroup .zattrs .zmetadata base_frames/.zarray base_frames/9.0.0.0.0 \
    clip_emb/.zarray clip_emb/0.0 segment_to_video/0; do
    [ -f "v2/$file" ] || fail "v2/$file is missing"
done
for file in zarr.json base_frames/zarr.json base_frames/c/9/0/0/0/0 clip_emb/c/0/0 \
    segment_to_video/c/0; do
    [ -f "v3/$file" ] || fail "v3/$file is missing"
done
[ "$(find v2/base_frames -name '*.0.0.0.0' | wc -l)" -eq 10 ] || fail "not 10 chunks"

# Data compress as latents do: neither zeros nor noise alone.
ratio=$(sed -n 's/.*ratio \([0-9.]*\)).*/\1/p' <<<"$summary")
awk -v r="$ratio" 'BEGIN { exit !(r > 1.05 && r < 1.4) }' || fail "ratio $ratio"

# Raw chunks have the size that their shape says, the last one too.
"$penstock" synth plain --layout plain --shape 2,3 --dtype float64 -n 5 -k 4 --codec none >/dev/null
[ "$(stat -c %s plain/data/0.0.0)" -eq 192 ] || fail "size of the first chunk"
[ "$(stat -c %s plain/data/1.0.0)" -eq 192 ] || fail "size of the last chunk"
tail -c 144 plain/data/1.0.0 | cmp -s - <(head -c 144 /dev/zero) || fail "padding is not zero"

# What is there stays, unless we say so.
refuses 4 "replace it with --overwrite" synth v2 --samples 3
[ -f v2/base_frames/9.0.0.0.0 ] || fail "refused, yet something is gone"
"$penstock" synth v2 --samples 3 --overwrite >/dev/null
[ ! -e v2/base_frames/9.0.0.0.0 ] || fail "--overwrite leaves old chunks"
mkdir precious && echo text >precious/file
refuses 4 "precious" synth precious --overwrite
[ -f precious/file ] || fail "--overwrite deleted what is no dataset"

refuses 4 "which directory" synth
refuses 4 "'second'" synth first second
refuses 4 "--samples '0'" synth new --samples 0
refuses 4 "--samples '1e6'" synth new --samples 1e6
refuses 4 "--chunk '-1'" synth new --chunk -1
refuses 4 "--threads 'many'" synth new --threads many
refuses 4 "--format '4'" synth new --format 4
refuses 4 "--layout 'images'" synth new --layout images
refuses 4 "--dtype 'float8'" synth new --dtype float8
refuses 4 "--shape ''" synth new --layout plain --shape 1,,2
refuses 4 "zip" synth new --codec zip
refuses 4 "'brotli'" synth new --codec blosc-brotli
refuses 4 "clevel is 77" synth new --level 77
refuses 4 "--format 3" synth new --codec zstd+crc32c
refuses 1 "missing/new" synth missing/new
[ ! -e new ] || fail "a refused command leaves a directory behind"

# A disk that is full: a limit on file sizes stands for it.
if (ulimit -f 8 && trap '' XFSZ && "$penstock" synth full -n 4 >out 2>err); then
    fail "writing beyond the limit succeeds"
fi
contains "$(cat err)" "base_frames"

# Frames that follow one another: whole episodes, whose ends, ids and actions fit together.
numbers() { od -An -v -w"$2" -t"$3" "$1" | tr -d ' '; }
"$penstock" synth robot --layout robot -n 300 --episodes 4 --codec none >/dev/null
[ "$(numbers robot/meta/episode_ends/0 8 d8 | tail -1)" -eq 300 ] || fail "the last episode's end"
counted=$(numbers robot/data/episode/0 8 d8 | uniq -c | awk '{ sum += $1; print sum }')
[ "$counted" = "$(numbers robot/meta/episode_ends/0 8 d8)" ] || fail "ids and ends of episodes differ"
[ "$(numbers robot/data/action/0.0 8 f4 | head -7)" = "$(od -An -v -w20 -tf4 robot/data/state/0.0 |
    awk 'NR > 1 { print $1 $2 }')" ] || fail "an action is not the next position"
for file in data/.zgroup meta/.zgroup data/img/0.0.0.0; do
    [ -f "robot/$file" ] || fail "robot/$file is missing"
done

# Dates, of which some are missing; text and names of axes as xarray reads them.
"$penstock" synth weather --layout weather -n 400 --shape 70,2,3 --codec none >/dev/null
contains "$(cat weather/data/.zattrs)" '"_ARRAY_DIMENSIONS": ["time", "variable", "latitude", "longitude"]'
contains "$(cat weather/variable/.zarray)" '"shape": [70], "chunks": [70], "dtype": "<U8"'
contains "$(cat weather/time/.zarray)" '"fill_value": null' # xarray takes other values for missing ones
[ "$(stat -c %s weather/variable/0)" -eq $((70 * 32)) ] || fail "size of the names"
names=$(tr -d '\0' <weather/variable/0)
contains "$names" "t2mu10v10mslz50z100"
contains "$names" "v1000x000069"
missing=$(numbers weather/missing/0 1 u1 | grep -n 1 | cut -d: -f1)
[ -n "$missing" ] || fail "no date is missing"
for date in $missing; do
    [ "$(od -An -v -w4 -tf4 "weather/data/$((date - 1)).0.0.0" | sort -u | tr -d ' ')" = nan ] ||
        fail "date $((date - 1)) is missing and has data"
done
"$penstock" synth weather3 --layout weather -n 9 --shape 3,2,3 --format 3 >/dev/null
contains "$(cat weather3/data/zarr.json)" '"dimension_names": ["time", "variable", "latitude", "longitude"]'
contains "$(cat weather3/variable/zarr.json)" '"fixed_length_utf32", "configuration": {"length_bytes": 32}'
[ -f weather3/variable/c/0 ] || fail "the chunk of the names"

"$penstock" synth tokens --layout tokens -n 100000 --documents 7 --codec none >/dev/null
[ "$(numbers tokens/document_ends/0 8 d8 | sort -nu | wc -l)" -eq 7 ] || fail "ends of documents"
refuses 4 "layout 'weather' takes 3" synth new --layout weather --shape 3,4

# Samples of unequal lengths: offsets from 0 to the number of items, some samples empty, one very long; the same bytes by any threads.
"$penstock" synth events --layout events -n 300 --items 500 --chunk 1000 --codec none --threads 1 >/dev/null
"$penstock" synth events-2 --layout events -n 300 --items 500 --chunk 1000 --codec none --threads 3 >/dev/null
diff -r events events-2 >/dev/null || fail "the number of threads changes events"
numbers events/events/offsets/0 8 d8 >offsets
[ "$(head -1 offsets)" -eq 0 ] && [ "$(tail -1 offsets)" -eq 150000 ] && [ "$(wc -l <offsets)" -eq 301 ] || fail "offsets of events"
awk 'NR > 1 { print $1 - before } { before = $1 }' offsets | sort -n >lengths
[ "$(head -1 lengths)" -eq 0 ] || fail "no sample is empty, or one has less than nothing"
[ "$(tail -1 lengths)" -gt 4000 ] || fail "no sample is long"
[ "$(od -An -v -w2 -tu2 events/events/bin/0 | awk '$1 > 19' | wc -l)" -eq 0 ] || fail "an event's bin"
"$penstock" synth cells --layout csr -n 100 --items 40 --shape 200 --codec none --format 3 >/dev/null
contains "$(cat cells/X/zarr.json)" '"encoding-type": "csr_matrix"'
contains "$(cat cells/zarr.json)" '"shape": [100, 200]'
[ "$(od -An -v -w4 -td4 cells/X/indices/c/0 | awk '$1 < 0 || $1 > 199' | wc -l)" -eq 0 ] || fail "a gene beyond the last"
"$penstock" synth cells-2 --layout csr -n 9 --format 2 >/dev/null
contains "$(cat cells-2/X/.zattrs)" '"shape": [9, 20000]'
"$penstock" synth documents --layout documents -n 50 >/dev/null
[ -f documents/tokens/values/0 ] || fail "the documents' tokens"
refuses 4 "at most 50 on average" synth new --layout csr --shape 200 --items 51
refuses 4 "layout 'events' takes 3" synth new --layout events --shape 3
