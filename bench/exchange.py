#!/usr/bin/env python3
"""Makes tables of what bench/run.sh exchange measured: see docs/inside/exchange.md.

Input: one JSON object a line, as penstock-bench-exchange prints them, and reports of runs as
{"sample": NAME, "report": REPORT}. Ratios are taken within each repeat, then their median.
"""
import json
import statistics
import sys

VARIANTS = ["bare", "exchange", "packed", "zero_copy"]
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


def show(number, digits=2):
    return f"{number:.{digits}f}" if number is not None else "-"


def print_sizes(sizes, title, value):
    print(f"\n{title}\n")
    print(f"{'ranks':>5} {'message':>8} {'record':>8} "
          + " ".join(f"{name:>9}" for name in VARIANTS))
    for (ranks, message, record), variants in sizes.items():
        cells = [show(value(variants[name])) if name in variants else "-" for name in VARIANTS]
        print(f"{ranks:5} {size(message):>8} {size(record):>8} "
              + " ".join(f"{cell:>9}" for cell in cells))


def goal(sizes):
    """The exchange without copies, two ranks, messages of 1 MiB: median over sizes of records."""
    shares = [statistics.median(above / below for above, below in zip(rates(variants["exchange"]), rates(variants["bare"])))
              for (ranks, message, _), variants in sizes.items() if ranks == 2 and message == 1 << 20]
    share = round(statistics.median(shares), 3) if shares else None
    if share is not None:
        print(f"\n2 ranks, messages of 1 MiB: exchange / bare MPI_Alltoallv: {share:.2f}, at least {GOAL:.2f}: "
              f"{'reached' if share >= GOAL else 'missed'}")
    print(json.dumps({"exchange_share": share}))


def print_shares(reports):
    """Later epochs, from memory. Times are of both readers together, in seconds a second."""
    columns = ["plan_s", "fill_s", "scatter_s", "exchange_s", "cpu_s"]
    print("\nTwo readers of one thread, two trainers, epochs from memory; seconds a second, both readers "
          "together\n")
    print(f"{'sample':>8} {'samples/s':>11} {'GB/s':>6} "
          + " ".join(f"{name[:-2]:>8}" for name in columns) + f" {'CPU us/sample':>14}")
    for entry in reports:
        epochs = entry["report"]["epochs"][1:]
        middle = [statistics.median(epoch[name] / max(epoch["seconds"], 1e-6) for epoch in epochs)
                  for name in columns]
        rate = statistics.median(epoch["samples"] / max(epoch["seconds"], 1e-6) for epoch in epochs)
        cpu = statistics.median(epoch["cpu_s"] / epoch["samples"] for epoch in epochs)
        print(f"{entry['sample']:>8} {rate:11,.0f} {rate * epochs[0]['sample_bytes'] / 1e9:6.2f} "
              + " ".join(f"{value:8.2f}" for value in middle) + f" {cpu * 1e6:14.2f}")


def main():
    sizes, reports = load(sys.argv[1])
    print_sizes(sizes, "GB/s that a rank receives, median",
                lambda entries: statistics.median(rates(entries)))
    print_sizes(sizes, "CPU seconds a gigabyte, of the rank that takes most, median",
                lambda entries: statistics.median(entry["cpu_s_per_gb"] for entry in entries))
    print_shares(reports)
    goal(sizes)


if __name__ == "__main__":
    main()
