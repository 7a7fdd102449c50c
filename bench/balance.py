#!/usr/bin/env python3
"""Hosts of unequal speed: what they deliver together, against the sum of what each delivers alone.

    bench/run.sh balance

Hosts are made on this machine (root), and their processor time is limited. Every sample is decoded in every epoch, and
decoding is what takes the time. docs/measured/benchmarks.md says more. The last line of output is one JSON object. Only the
standard library is used.
"""
import argparse
import json
import os
import statistics
import sys

import jobs
from jobs import Failed, Jobs, say

HOSTS = 3
EPOCHS = 5
MEASURED = EPOCHS - 2  # the last one has no next one behind it
GOAL = 0.85


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--cores", type=float, default=0.6, help="processor time of the others (0.6)")
    parser.add_argument("--slow", type=float, default=4, help="how many times less the last host has (4)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds, at most (3)")
    parser.add_argument("--budget", type=float, default=240, help="seconds after which no round begins (240)")
    parser.add_argument("--samples", type=int, default=6000, help="of each dataset, 160 KiB each (6000)")
    parser.add_argument("--alone", type=int, default=1500, help="of those, what a host reads alone (1500)")
    parser.add_argument("--rows", default="1,8", help="samples of a row: one dataset each (1,8)")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    arguments = parser.parse_args()
    arguments.rows = [int(rows) for rows in arguments.rows.split(",")]
    if arguments.hostfile or arguments.launch:
        parser.error("hosts that exist have the processors they have: balance makes its own")
    return arguments


def rate(report, epoch):
    return report["epochs"][epoch]["samples"] / report["epochs"][epoch]["seconds"]


def measure(jobs_, settings, alone, together):
    """Each host by itself, and all of them."""
    single = [rate(jobs_.reader(1, {**settings, "dataset.uri": alone, "batch.global_size": 16}, only=f"h{host}"), 0)
              for host in range(1, HOSTS + 1)]
    report = jobs_.reader(HOSTS, {**settings, "dataset.uri": together, "order.epochs": EPOCHS,
                                  "batch.global_size": 16 * HOSTS})
    chunks = [reader["epochs"][MEASURED]["chunks"] for reader in report["readers"]]
    return {"alone": single, "first": rate(report, 0), "together": rate(report, MEASURED),
            "shares": [count / sum(chunks) for count in chunks],
            "sent_share": report["epochs"][MEASURED]["sent_bytes"] / report["epochs"][MEASURED]["decoded_bytes"]}


def measure_all(arguments):
    jobs_ = Jobs(arguments)
    settings = {"order.seed": 17, "readers.cache": "off", "readers.threads": 1,
                **dict(option.split("=", 1) for option in arguments.set)}
    results = {rows: [] for rows in arguments.rows}
    datasets = {rows: [jobs_.synth(f"balance-{rows}-{count}.zarr", count, chunk=rows, codec="gzip")
                       for count in (arguments.alone, arguments.samples)] for rows in arguments.rows}
    clock = jobs.Clock(arguments.budget)
    for number in range(arguments.rounds):
        since = clock.elapsed()
        for rows in arguments.rows:
            found = measure(jobs_, settings, *datasets[rows])
            results[rows].append(found)
            say(f"{clock.elapsed():4.0f} s  round {number + 1} of {arguments.rounds}, rows of {rows}: alone "
                + ", ".join(f"{value:,.0f}" for value in found["alone"])
                + f"; together {found['first']:,.0f}, then {found['together']:,.0f} samples/s, shares "
                + ", ".join(f"{value:.2f}" for value in found["shares"]))
        if number + 1 < arguments.rounds and not clock.fits_another(since):
            say(f"another round would not fit into --budget {arguments.budget:.0f}")
            break
    return results


def median(found, key):
    return statistics.median(one[key] for one in found)


def evaluate(arguments, results):
    print(f"\nbalance: {HOSTS - 1} hosts with {arguments.cores:g} cores, one with {arguments.cores / arguments.slow:g}; "
          f"{arguments.samples:,} samples, gzip, nothing kept")
    print(f"{'rows':>5} {'alone':>20} {'their sum':>10} {'together':>9} {'ratio':>6} {'1st epoch':>9}  "
          f"{'shares of rows':18} {'exchanged':>9}")
    ratios = {}
    for rows, found in results.items():
        ratios[rows] = statistics.median(one["together"] / sum(one["alone"]) for one in found)
        alone = [statistics.median(one["alone"][host] for one in found) for host in range(HOSTS)]
        shares = [statistics.median(one["shares"][host] for one in found) for host in range(HOSTS)]
        print(f"{rows:5} {' '.join(f'{value:6,.0f}' for value in alone):>20} {sum(alone):10,.0f} "
              f"{median(found, 'together'):9,.0f} {ratios[rows]:6.2f} {median(found, 'first'):9,.0f}  "
              f"{' '.join(f'{value:5.2f}' for value in shares):18} {median(found, 'sent_share'):9.0%}")
    least = min(ratios.values())
    print(f"together at least {GOAL:.2f} of the sum: {'reached' if least >= GOAL else 'missed'}")
    print(json.dumps({"share_of_sum": {str(rows): round(ratio, 4) for rows, ratio in ratios.items()}}))


def main():
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    cores = [arguments.cores] * (HOSTS - 1) + [arguments.cores / arguments.slow]
    if "CLUSTER_NAME" not in os.environ:
        limits = ",".join(f"h{host + 1}={count:.4f}" for host, count in enumerate(cores))
        jobs.on_new_hosts(arguments, HOSTS, ["--cpus", limits])
    try:
        for host, count in enumerate(cores):
            jobs.give_processors(f"h{host + 1}", count)
        evaluate(arguments, measure_all(arguments))
    except Failed as failure:
        say(f"balance: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
