"""The table of bench/run.sh rechunk, of one JSON object a line and round: MB/s of decode, encode, rechunk, verified."""

import json
import statistics
import sys

GOAL = 0.8
TEXTS = {
    "decode": "decode alone: the source into memory",
    "encode": "encode alone: from there to nowhere",
    "rechunk": "penstock rechunk --no-verify",
    "verified": "penstock rechunk: read back, too",
}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rounds = [json.loads(line) for line in file]
    print(f"\nrechunk: {len(rounds)} interleaved rounds\n{'MB/s':42} {'median':>9} {'min':>9} {'max':>9}")
    for name, text in TEXTS.items():
        values = [each[name] for each in rounds]
        print(f"{text:42} {statistics.median(values):9,.0f} {min(values):9,.0f} {max(values):9,.0f}")
    # Ratios within a round: the machine's speed changes from round to round.
    slower = statistics.median(each["rechunk"] / min(each["decode"], each["encode"]) for each in rounds)
    both = statistics.median(each["rechunk"] * (1 / each["decode"] + 1 / each["encode"]) for each in rounds)
    verdict = "reached" if slower >= GOAL else "missed"
    print(f"\nrechunk / slower of both  {slower:6.2f}   at least {GOAL:.2f}: {verdict}")
    print(f"rechunk / both in turn    {both:6.2f}   1 is what cores that are never idle come to")
    print(json.dumps({"rechunk": round(statistics.median(each["rechunk"] for each in rounds), 1),
                      "ratio_slower": round(slower, 3), "ratio_in_turn": round(both, 3)}))


main()
