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
    "zero_copy1": "zero 1",
    "zero_copy2": "zero 2",
    "exchange_alone": "E alone",
    "exchange_packed": "E packd",
    "exchange_zero_copy": "E zero",
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


RATIOS = [("exchange_alone", "bare"), ("exchange_alone", "bare_two"),
          ("exchange_alone", "bare_cold"), ("exchange_packed", "bare_two"),
          ("exchange_packed", "bare_cold"), ("exchange_zero_copy", "bare_two"),
          ("exchange_zero_copy", "bare_cold")]


def print_ratios(sizes):
    print("\nShare of a bare MPI_Alltoallv of the same sizes in the same repeat, median\n")
    names = [f"{VARIANTS[above]}/{VARIANTS[below]}" for above, below in RATIOS]
    print(f"{'ranks':>5} {'message':>8} {'record':>8} " + " ".join(f"{n:>14}" for n in names))
    for (ranks, message, record), variants in sizes.items():
        cells = [show(ratio(variants, above, below)) for above, below in RATIOS]
        print(f"{ranks:5} {size(message):>8} {size(record):>8} "
              + " ".join(f"{cell:>14}" for cell in cells))


def goal(sizes):
    """The exchange without copies, two ranks, messages of 1 MiB: median over sizes of records."""
    shares = {}
    for limit in ("bare", "bare_two", "bare_cold"):
        values = [ratio(variants, "exchange_alone", limit)
                  for (ranks, message, _), variants in sizes.items()
                  if ranks == 2 and message == 1 << 20]
        values = [value for value in values if value is not None]
        shares[limit] = round(statistics.median(values), 3) if values else None
    share = shares["bare_two"]
    if share is not None:
        verdict = "reached" if share >= GOAL else "missed"
        print(f"\n2 ranks, messages of 1 MiB: exchange / bare MPI_Alltoallv over as much memory: "
              f"{share:.2f}, at least {GOAL:.2f}: {verdict}; over a single pair of buffers: "
              f"{show(shares['bare'])}, out of memory: {show(shares['bare_cold'])}")
    print(json.dumps({"exchange_share": shares}))


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
    print_ratios(sizes)
    print_shares(reports)
    goal(sizes)


if __name__ == "__main__":
    main()
