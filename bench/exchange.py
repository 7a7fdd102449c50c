#!/usr/bin/env python3
"""Makes tables of what bench/run.sh exchange measured: see docs/exchange.md.

Input: one JSON object a line, as penstock-bench-exchange prints them, and reports of runs as
{"sample": NAME, "report": REPORT}. Ratios are taken within each repeat, then their median.
"""
import json
import statistics
import sys

VARIANTS = {
    "memcpy": "memcpy",
    "bare": "bare",
    "bare_two": "bare 2",
    "bare_cold": "cold",
    "alltoallv": "a2av",
    "ialltoallv1": "ia2av 1",
    "ialltoallv2": "ia2av 2",
    "ialltoallv4": "ia2av 4",
    "stream": "stream",
    "in_place1": "place 1",
    "in_place2": "place 2",
    "exchange_alone": "E alone",
    "exchange_packed": "E packd",
    "exchange_in_place": "E place",
}
GOAL = 0.85


def load(path):
    sizes, reports = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("{"):
                continue
            entry = json.loads(line)
            if "report" in entry:
                reports.append(entry)
                continue
            key = entry["ranks"], entry["message_bytes"], entry["record_bytes"]
            sizes.setdefault(key, {}).setdefault(entry["variant"], []).append(entry)
    return sizes, reports


def size(number):
    for unit, factor in [("MiB", 1 << 20), ("KiB", 1 << 10)]:
        if number >= factor:
            return f"{number // factor} {unit}"
    return f"{number} B"


def rates(entries):
    return [entry["bytes_per_s"] / 1e9 for entry in entries]


def ratio(variants, name, limit):
    """Median over repeats of one variant's rate as a share of another's; None: not measured."""
    if name not in variants or limit not in variants:
        return None
    pairs = zip(rates(variants[name]), rates(variants[limit]))
    return statistics.median(above / below for above, below in pairs)


def show(number, digits=2):
    return f"{number:.{digits}f}" if number is not None else "-"


def print_sizes(sizes, title, value):
    print(f"\n{title}\n")
    print(f"{'ranks':>5} {'message':>8} {'record':>8} "
          + " ".join(f"{short:>7}" for short in VARIANTS.values()))
    for (ranks, message, record), variants in sizes.items():
        cells = [show(value(variants[name])) if name in variants else "-" for name in VARIANTS]
        print(f"{ranks:5} {size(message):>8} {size(record):>8} "
              + " ".join(f"{cell:>7}" for cell in cells))


def print_ratios(sizes):
    print("\nShare of a bare MPI_Alltoallv of the same sizes in the same round (hot: from and to the "
          "same\nbuffers; cold: through memory larger than the cache, as rows and slots are)\n")
    print(f"{'ranks':>5} {'message':>8} {'record':>8} {'alone/hot':>10} {'packed/hot':>10} "
          f"{'packed/cold':>11} {'place/hot':>10} {'place/cold':>10}")
    for (ranks, message, record), variants in sizes.items():
        print(f"{ranks:5} {size(message):>8} {size(record):>8} "
              f"{show(ratio(variants, 'exchange_alone', 'bare')):>10} "
              f"{show(ratio(variants, 'exchange_packed', 'bare')):>10} "
              f"{show(ratio(variants, 'exchange_packed', 'bare_cold')):>11} "
              f"{show(ratio(variants, 'exchange_in_place', 'bare')):>10} "
              f"{show(ratio(variants, 'exchange_in_place', 'bare_cold')):>10}")


def print_shares(reports):
    """Later epochs, from memory. Times are of both readers together, in seconds a second."""
    columns = ["plan_s", "fill_s", "scatter_s", "exchange_s", "cpu_s"]
    print("\nTwo readers of one thread, two trainers, epochs from memory; seconds a second, both readers "
          "together\n")
    print(f"{'sample':>8} {'samples/s':>11} {'GB/s':>6} "
          + " ".join(f"{name[:-2]:>8}" for name in columns) + f" {'CPU us/sample':>14}")
    for entry in reports:
        epochs = entry["report"]["epochs"][1:]
        middle = [statistics.median(epoch[name] / epoch["seconds"] for epoch in epochs)
                  for name in columns]
        rate = statistics.median(epoch["samples"] / epoch["seconds"] for epoch in epochs)
        cpu = statistics.median(epoch["cpu_s"] / epoch["samples"] for epoch in epochs)
        print(f"{entry['sample']:>8} {rate:11,.0f} {rate * epochs[0]['sample_bytes'] / 1e9:6.2f} "
              + " ".join(f"{value:8.2f}" for value in middle) + f" {cpu * 1e6:14.2f}")


def main():
    sizes, reports = load(sys.argv[1])
    print_sizes(sizes, "GB/s that a rank receives, median",
                lambda entries: statistics.median(rates(entries)))
    print_sizes(sizes, "CPU seconds a gigabyte, of the rank that takes most, median",
                lambda entries: statistics.median(entry["cpu_s_per_gb"] for entry in entries))
    print_ratios(sizes)
    print_shares(reports)
    alone = [ratio(variants, "exchange_alone", "bare")
             for (ranks, message, _), variants in sizes.items()
             if ranks == 2 and message == 1 << 20]
    share = statistics.median(value for value in alone if value is not None) if alone else None
    if share is not None:
        verdict = "reached" if share >= GOAL else "missed"
        print(f"\nexchange / bare, 2 ranks, messages of 1 MiB: {share:.2f}, "
              f"at least {GOAL:.2f}: {verdict}")
    print(json.dumps({"exchange_share": round(share, 3) if share is not None else None}))


if __name__ == "__main__":
    main()
