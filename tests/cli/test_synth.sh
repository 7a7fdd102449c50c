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
