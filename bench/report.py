#!/usr/bin/env python3
"""Collects what the programs of a benchmark measured, and makes tables of it.

Results are kept one a line, {"variant": NAME, "samples_per_s": RATE}, in the order they were
measured. Only the standard library is used.
"""
import argparse
import json
import statistics
import sys

VARIANTS = {
    "limit_cold": ("a", "limit: read and decode, nothing else"),
    "cold": ("b", "Penstock, first epoch"),
    "cold_pair": ("", "  the same, 2 readers and 2 trainers"),
    "limit_warm": ("c", "limit: memcpy into a ring, nothing else"),
    "warm": ("d", "Penstock, later epochs, from memory"),
    "warm_pair": ("", "  the same, 2 readers and 2 trainers"),
    "dataloader": ("e", "PyTorch DataLoader over zarr-python"),
}
PEERS = {
    "tensorstore": "DataLoader over tensorstore",
    "zarrs": "DataLoader over zarr-python, zarrs",
    "insitubatch": "insitubatch",
    "grain": "grain over tensorstore",
}
GOALS = [
    ("b/a", "cold", "limit_cold", 0.80),
    ("d/c", "warm", "limit_warm", 0.90),
    ("d of 2 readers/d", "warm_pair", "warm", 0.90),
    ("b/e", "cold", "dataloader", 1.5),
    ("d/e", "warm", "dataloader", 6.0),
]
KEYS = ["limit_cold", "cold", "limit_warm", "warm", "dataloader", "cold_pair", "warm_pair", "best_peer_cold",
        "best_peer_warm"]
SAMPLE_BYTES = 20 * 4 * 32 * 32 * 2 + 512 * 2
IDLE_GOAL = 0.15


def load(path):
    results = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            result = json.loads(line)
            results.setdefault(result["variant"], []).append(result["samples_per_s"])
    return results


def append(path, variant, rate):
    with open(path, "a", encoding="utf-8") as file:
        print(json.dumps({"variant": variant, "samples_per_s": rate}), file=file)


def add(arguments):
    """One rate, from the JSON object on standard input."""
    append(arguments.results, arguments.variant, json.load(sys.stdin)["samples_per_s"])


def add_epochs(arguments):
    """The first epoch and all later ones together, as the trainers saw them: all samples, from the last trainer's end of one
    epoch to the last one's end of another. A trainer that is ahead of others at the end of an epoch waits in the next one."""
    reports = []
    for path in arguments.reports:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file)["epochs"])
    start = 0
    for variant, epochs in ((arguments.first, slice(0, 1)), (arguments.later, slice(1, None))):
        samples = sum(epoch["samples"] for report in reports for epoch in report[epochs])
        end = max(sum(epoch["seconds"] for epoch in report[: epochs.stop]) for report in reports)
        append(arguments.results, variant, samples / (end - start))
        start = end


def last(arguments):
    """What each variant came to last, on one line."""
    rates = load(arguments.results)
    print(", ".join(f"{name} {rate[-1]:,.0f}" for name, rate in rates.items()), "samples/s")


def print_rate(letter, text, values):
    median = statistics.median(values)
    print(f"{letter:2} {text:54} {median:9,.0f} {min(values):9,.0f} {max(values):9,.0f}"
          f" {median * SAMPLE_BYTES / 1e9:7.2f}")


def print_rates(rates, missing, peers):
    print(f"{'':2} {'samples/s':54} {'median':>9} {'min':>9} {'max':>9} {'GB/s':>7}")
    for variant, (letter, text) in VARIANTS.items():
        if variant in rates:
            print_rate(letter, text, rates[variant])
        else:
            print(f"{letter:2} {text:54} {'-':>9}  {missing}")
    for peer, text in PEERS.items():
        if f"{peer}_cold" in rates:
            text += f", {peers['ahead'][peer]} ahead"
            print_rate("", f"{text}, first epoch", rates[f"{peer}_cold"])
            print_rate("", "  second epoch", rates[f"{peer}_warm"])
        elif peer in peers["missing"]:
            print(f"{'':2} {text:54} {'-':>9}  skipped: {peers['missing'][peer]}")


def add_best(medians):
    """The best of all other libraries. The DataLoader's one rate is of a first epoch, and of any other."""
    for kind in ("cold", "warm"):
        found = [medians[name] for name in ("dataloader", *(f"{peer}_{kind}" for peer in PEERS)) if name in medians]
        if found:
            medians[f"best_peer_{kind}"] = max(found)


def print_goals(medians):
    for name, above, below, goal in GOALS:
        if above in medians and below in medians:
            ratio = medians[above] / medians[below]
            verdict = "reached" if ratio >= goal else "missed"
            print(f"{name}  {ratio:6.2f}   at least {goal:.2f}: {verdict}")
        else:
            print(f"{name}       -   at least {goal:.2f}: not measured")


def table(arguments):
    rates = load(arguments.results)
    medians = {variant: statistics.median(values) for variant, values in rates.items()}
    add_best(medians)
    with open(arguments.peers, encoding="utf-8") as file:
        peers = json.load(file)
    print(f"\nend to end: {arguments.samples:,} samples of {SAMPLE_BYTES:,} bytes, "
          f"global batch {arguments.batch}, {arguments.threads} threads, "
          f"{len(rates['cold'])} interleaved rounds, files in the page cache")
    if arguments.loader:
        print(f"DataLoader's fastest settings: {arguments.loader}")
    print()
    print_rates(rates, arguments.dataloader_missing, peers)
    print()
    print_goals(medians)
    for kind in ("cold", "warm"):
        if f"best_peer_{kind}" in medians:
            print(f"{kind} / the best of the others' {kind}: {medians[kind] / medians[f'best_peer_{kind}']:.2f}")
    print(json.dumps({key: round(medians[key], 1) if key in medians else None for key in KEYS}))


def idle(arguments):
    """CPU time of all readers together, per second of the second epoch: with samples to move, and with next to none."""
    shares = []
    for path in (arguments.moving, arguments.waiting):
        with open(path, encoding="utf-8") as file:
            epoch = json.load(file)["epochs"][1]
        shares.append(epoch["cpu_s"] / epoch["seconds"])
        rate = epoch["samples"] * epoch["sample_bytes"] / epoch["seconds"] / 1e6
        print(f"idle: {epoch['steps']:,} steps in {epoch['seconds']:.2f} s, {rate:.1f} MB/s to trainers, of it "
              f"{epoch['sent_bytes'] / epoch['seconds'] / 1e6:.1f} MB/s between readers: {shares[-1]:.1%} of one core, "
              "all readers together")
    verdict = "reached" if shares[1] < IDLE_GOAL else "missed"
    print(f"while they wait, with next to nothing to move, below {IDLE_GOAL:.0%}: {verdict}")
    print(json.dumps({"readers_cpu_share": round(shares[0], 4), "waiting_cpu_share": round(shares[1], 4)}))


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("add", help=add.__doc__)
    command.add_argument("results")
    command.add_argument("variant", choices=VARIANTS)
    command.set_defaults(run=add)

    command = commands.add_parser("add-epochs", help=add_epochs.__doc__)
    command.add_argument("results")
    command.add_argument("first", choices=VARIANTS)
    command.add_argument("later", choices=VARIANTS)
    command.add_argument("reports", nargs="+")
    command.set_defaults(run=add_epochs)

    command = commands.add_parser("last", help=last.__doc__)
    command.add_argument("results")
    command.set_defaults(run=last)

    command = commands.add_parser("table", help="the medians, and whether the goals are reached")
    command.add_argument("results")
    command.add_argument("--samples", type=int, required=True)
    command.add_argument("--batch", type=int, required=True)
    command.add_argument("--threads", type=int, required=True)
    command.add_argument("--loader", default="")
    command.add_argument("--dataloader-missing", default="")
    command.add_argument("--peers", required=True, help="the settings file of end_to_end_peers.py")
    command.set_defaults(run=table)

    command = commands.add_parser("idle", help=idle.__doc__)
    command.add_argument("moving")
    command.add_argument("waiting")
    command.set_defaults(run=idle)
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = parse()
    ARGUMENTS.run(ARGUMENTS)
