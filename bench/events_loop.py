"""A trainer that notes the time from batch to batch in its last epoch: events_loop.py OUTPUT"""

import json
import statistics
import sys
import time

import penstock


def main():
    gaps = []
    with penstock.connect() as loader:
        for epoch in loader.epochs():
            gaps, before = [], time.perf_counter()
            for batch in epoch:
                batch.indices[0]
                now = time.perf_counter()
                gaps.append((now - before) * 1e3)
                before = now
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"median_ms": statistics.median(gaps[len(gaps) // 4 :])}, file)


if __name__ == "__main__":
    main()
