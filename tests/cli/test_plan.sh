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

contains "$(plan singles --readers 2 --nodes 2 --set readers.threads=3)" "2, with 3 threads"

order=$("$penstock" plan --set dataset.uri=rows --set batch.global_size=8 --order --limit 3 --epoch 1)
[ "$(wc -l <<<"$order")" -eq 3 ] || fail "--limit 3: $order"
contains "$order" "1 0 2 "

refuses 1 "nowhere" plan --set dataset.uri=nowhere --set batch.global_size=8
refuses 1 "readers.memory_limit" plan --set dataset.uri=rows --set batch.global_size=8 \
    --set readers.memory_limit=4KiB
refuses 64 "more nodes (4) than readers (2)" plan --set dataset.uri=rows --readers 2 --nodes 4

command -v python3 >/dev/null || { echo "no python3: JSON is not checked"; exit 77; }
plan rows --readers 4 --json >rows.json
plan singles --readers 4 --json >singles.json
python3 - <<'PYTHON'
import json
rows, singles = (json.load(open(f"{name}.json")) for name in ("rows", "singles"))
assert rows["readers"] == 4 and rows["row_count"] == 400 and rows["steps_per_epoch"] == 500
assert [epoch["rows_read"] for epoch in rows["epochs"]] == [400, 0, 0]
assert [epoch["rows_kept"] for epoch in rows["epochs"]] == [0, 400, 400]
# Three of four samples of a row are for another reader's trainer; a single sample is read where it is needed.
assert abs(rows["epochs"][0]["exchanged_bytes"] / (0.75 * 4000 * 256) - 1) < 0.001
assert singles["epochs"][0]["exchanged_bytes"] == 0
assert 0.6 < singles["epochs"][1]["exchanged_bytes"] / (400 * 256) < 0.9
PYTHON
