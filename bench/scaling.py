#!/usr/bin/env python3
"""What Penstock delivers on one host and on several, cold and from memory, and what allows no more.

    bench/run.sh scaling                     on hosts and links that are made on this machine (root)
    bench/run.sh scaling --hostfile FILE     on a cluster, by mpirun
    bench/run.sh scaling                     within a Slurm allocation

docs/benchmarks.md says what is measured. The last line of output is one JSON object. Only the standard library is
used, but for --plots, which takes Matplotlib.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys

import jobs
from jobs import Failed, Jobs, say

RECORD_BYTES = 20 * 4 * 32 * 32 * 2
EPOCHS = 8
COLD, CACHED = range(1), range(1, EPOCHS - 1)  # of the last epoch, the end has no next one behind it
GOAL, GOAL_BYTES = 0.90, 0.02
MODES = {"cold": COLD, "cached": CACHED}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--hosts", default="1,2,3,4", help="numbers of hosts to measure (1,2,3,4)")
    parser.add_argument("--rate", help="of each host's link: hosts are made with it (1gbit); of a cluster's hosts, "
                                       "what its network claims, where /sys does not say")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds, at most (3)")
    parser.add_argument("--budget", type=float, default=330, help="seconds after which no round begins (330)")
    parser.add_argument("--samples", type=int, default=6144, help="of each dataset, 160 KiB each (6144)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step for each host (64)")
    parser.add_argument("--rows", default="1,8", help="samples of a row: one dataset each (1,8)")
    parser.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1),
                        help="that read and decode on each host (all but one)")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plots and the figures they are made of")
    arguments = parser.parse_args()
    arguments.hosts = [int(count) for count in arguments.hosts.split(",")]
    arguments.rows = [int(rows) for rows in arguments.rows.split(",")]
    return arguments


# --- measuring ----------------------------------------------------------------------------------------------------


def one_limit(jobs_, hosts, kind, settings):
    """Samples a second of penstock-bench-limit, on so many hosts at once, all together."""
    options = [word for key in ("dataset.uri", "batch.global_size", "readers.threads")
               for word in ("--set", f"{key}={settings[key]}")]
    output = jobs_.launch(hosts, [jobs_.program("penstock-bench-limit"), kind, *options])
    return sum(json.loads(line)["samples_per_s"] for line in output.splitlines() if line.startswith("{"))


def bare_exchange(jobs_, hosts, batch):
    """Payload bytes a second that a host receives when MPI_Ialltoallv, with messages like those of a step, is all
    there is; None where that cannot be measured."""
    program = jobs_.program("penstock-bench-exchange")
    if hosts == 1 or not program.exists():
        return None
    output = jobs_.launch(hosts, [program, "--only", "exchange_alone", "--repeats", 1, "--volume", "96MiB",
                                  "--record", RECORD_BYTES, "--message", batch // hosts * RECORD_BYTES])
    rates = [json.loads(line)["bytes_per_s"] for line in output.splitlines() if line.startswith("{")]
    return rates[0] if rates else None


def measure(jobs_, arguments, hosts, rows, dataset):
    """One job on so many hosts, and the limits beside it."""
    settings = {"dataset.uri": dataset, "order.epochs": EPOCHS, "order.seed": 17,
                "batch.global_size": hosts * arguments.batch, "readers.threads": arguments.threads,
                **dict(option.split("=", 1) for option in arguments.set)}
    report = jobs_.reader(hosts, settings)
    return {"hosts": hosts, "rows": rows,
            "bare_bytes_per_s": bare_exchange(jobs_, hosts, arguments.batch),
            "report": report,
            "local_report": jobs_.reader(hosts, {**settings, "order.placement": "local"}),
            "decode_per_s": one_limit(jobs_, hosts, "cold", settings),
            "memory_per_s": one_limit(jobs_, hosts, "warm", settings),
            "exchanged_bytes": [epoch["ways"]["foreseen_sent_bytes"] for epoch in report["epochs"]]}


def measure_all(arguments):
    jobs_ = Jobs(arguments)
    datasets = {rows: jobs_.synth(f"scaling-{rows}-{arguments.samples}.zarr", arguments.samples, chunk=rows,
                                  codec="lz4") for rows in arguments.rows}
    clock = jobs.Clock(arguments.budget)
    results = []
    for number in range(arguments.rounds):
        since = clock.elapsed()
        for hosts in arguments.hosts:
            for rows, dataset in datasets.items():
                run = measure(jobs_, arguments, hosts, rows, dataset)
                results.append(run)
                rates = ", ".join(f"{mode} {rate(run, mode):,.0f}" for mode in MODES)
                say(f"{clock.elapsed():4.0f} s  round {number + 1} of {arguments.rounds}: {hosts} hosts, rows of "
                    f"{rows}: {rates} samples/s")
        if number + 1 < arguments.rounds and not clock.fits_another(since):
            say(f"another round would not fit into --budget {arguments.budget:.0f}")
            break
    return results


# --- what came of it ----------------------------------------------------------------------------------------------


def rate(run, mode, report="report"):
    epochs = [run[report]["epochs"][e] for e in MODES[mode]]
    return sum(epoch["samples"] for epoch in epochs) / sum(epoch["seconds"] for epoch in epochs)


def sent(run, mode):
    """Payload bytes of an epoch that all hosts send."""
    return statistics.mean(run["report"]["epochs"][e]["sent_bytes"] for e in MODES[mode])


def forecast(run, mode):
    return statistics.mean(run["exchanged_bytes"][e] for e in MODES[mode])


def stored_of_hosts(run, mode):
    """Bytes of an epoch that each host reads from storage."""
    return [statistics.mean(reader["epochs"][e]["stored_bytes"] for e in MODES[mode])
            for reader in run["report"]["readers"]]


def sent_of_hosts(run, mode):
    return [statistics.mean(reader["epochs"][e]["sent_bytes"] for e in MODES[mode])
            for reader in run["report"]["readers"]]


def wire_factor(run):
    """Bytes of frames for one byte of payload; None where nothing much was sent."""
    payload = sum(epoch["sent_bytes"] for epoch in run["report"]["epochs"])
    return sum(host["sent_bytes"] for host in run["report"]["hosts"]) / payload if payload else None


class Link:
    """What one host's link carries in each direction."""

    def __init__(self, arguments, run):
        counted = run["report"]["hosts"]
        self.made = "CLUSTER_NAME" in os.environ
        mtu = min((host["mtu"] or 1500) for host in counted)
        speeds = [host["speed_mbit"] for host in counted]
        self.bits = None
        if arguments.rate:
            self.bits = jobs.bits(arguments.rate)
        elif all(speeds):
            self.bits = min(speeds) * 1e6
        # TCP with timestamps over IPv4. A shaped link counts Ethernet's header; a wire also carries preamble, checksum
        # and gap.
        self.share = (mtu - 52) / (mtu + (14 if self.made else 38))

    def payload_bytes_per_s(self, run):
        return self.bits / 8 * self.share if self.bits else run["bare_bytes_per_s"]


def limits(link, run, mode):
    """What each part allows, in samples a second: {"links": ..., "decode": ...}."""
    found = {}
    samples = run["report"]["epochs"][0]["samples"]
    if forecast(run, mode) > 0 and link.payload_bytes_per_s(run):
        found["links"] = samples / (forecast(run, mode) / run["hosts"] / link.payload_bytes_per_s(run))
    if mode == "cold":  # the same threads decode and copy
        found["decode"] = 1 / (1 / run["decode_per_s"] + 1 / run["memory_per_s"])
    else:
        found["memory"] = run["memory_per_s"]
    return found


def spread(values):
    values = list(values)
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def summary(link, runs, mode):
    """The figures of all rounds on so many hosts."""
    first = runs[0]
    allowed = {name: statistics.median(limits(link, run, mode)[name] for run in runs)
               for name in limits(link, first, mode)}
    applies = min(allowed, key=allowed.get) if allowed else None
    rates = spread(rate(run, mode) for run in runs)
    bare = [run["bare_bytes_per_s"] for run in runs if run["bare_bytes_per_s"]]
    used = statistics.median(rate(run, mode) * sent(run, mode) / first["report"]["epochs"][0]["samples"] /
                             run["hosts"] for run in runs)
    factors = [wire_factor(run) for run in runs if wire_factor(run)]
    return {"hosts": first["hosts"], "rows": first["rows"], "mode": mode, "samples_per_s": rates,
            "limits": allowed, "limit": applies, "ratio": rates["median"] / allowed[applies] if applies else None,
            "payload_bytes_per_s": used,
            "of_raw_link": used * 8 / link.bits if link.bits else None,
            "of_bare_exchange": used / statistics.median(bare) if bare and used else None,
            "stored_bytes": spread(byte for run in runs for byte in stored_of_hosts(run, mode)),
            "sent_bytes": spread(byte for run in runs for byte in sent_of_hosts(run, mode)),
            "forecast_bytes": forecast(first, mode) / first["hosts"],
            "forecast_error": (statistics.median(sent(run, mode) for run in runs) / forecast(first, mode) - 1
                               if forecast(first, mode) > 0 else None),
            "frame_bytes": statistics.median(factors) * statistics.median(
                sent(run, mode) / run["hosts"] for run in runs) if factors else 0}


def mib(count):
    return f"{count / 2**20:.1f}"


def share(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def print_tables(arguments, link, rows_):
    head = ("hosts", "samples/s", "min", "max", "limit", "which", "ratio", "of link", "of bare", "storage", "sent",
            "forecast", "off by", "frames")
    for rows in arguments.rows:
        for mode in MODES:
            print(f"\nrows of {rows}, {mode}")
            print(" ".join(f"{word:>9}" for word in head))
            for line in rows_:
                if (line["rows"], line["mode"]) != (rows, mode):
                    continue
                rates, off = line["samples_per_s"], line["forecast_error"]
                print(" ".join(f"{word:>9}" for word in (
                    line["hosts"], f"{rates['median']:,.0f}", f"{rates['least']:,.0f}", f"{rates['most']:,.0f}",
                    f"{line['limits'][line['limit']]:,.0f}" if line["limit"] else "-", line["limit"] or "-",
                    share(line["ratio"]), share(line["of_raw_link"]), share(line["of_bare_exchange"]),
                    mib(line["stored_bytes"]["median"]), mib(line["sent_bytes"]["median"]),
                    mib(line["forecast_bytes"]), "-" if off is None else f"{off:+.1%}", mib(line["frame_bytes"]))))
    print("\nstorage, sent, forecast and frames: MiB of one host in one epoch. ratio: samples/s to the limit. of link: "
          "payload\nto what the link is called. of bare: payload to that of MPI_Ialltoallv alone, in the same rounds.")
    if link.bits:
        print(f"A link of {link.bits / 1e9:g} Gbit/s carries {link.share:.1%} of that as payload of TCP.")


def verdict(lines):
    """The goals, over what crosses links from memory; None where nothing did."""
    crossing = [line for line in lines if line["mode"] == "cached" and line["limit"] == "links"]
    if not crossing:
        return {}
    least = min(line["ratio"] for line in crossing)
    off = max(abs(line["forecast_error"]) for line in crossing)
    for text, reached in ((f"cached, least share of what links allow {least:.3f}, at least {GOAL:.2f}", least >= GOAL),
                          (f"exchanged bytes off the forecast by at most {off:.1%}, below {GOAL_BYTES:.0%}",
                           off < GOAL_BYTES)):
        print(f"{text}: {'reached' if reached else 'missed'}")
    return {"least_share_of_links": round(least, 4), "most_off_forecast": round(off, 4)}


def evaluate(arguments, results):
    link = Link(arguments, max(results, key=lambda run: run["hosts"]))
    groups = [[run for run in results if (run["hosts"], run["rows"]) == (hosts, rows)]
              for rows in arguments.rows for hosts in arguments.hosts]
    lines = [summary(link, runs, mode) for mode in MODES for runs in groups]
    print(f"\nscaling: {arguments.samples:,} samples of {RECORD_BYTES:,} bytes, lz4; {arguments.batch} samples of a "
          f"step a host, {arguments.threads} threads; {len(groups[0])} interleaved rounds"
          + (f"; links shaped to {arguments.rate}" if link.made else ""))
    print_tables(arguments, link, lines)
    print()
    goals = verdict(lines)
    figures = {"samples": arguments.samples, "record_bytes": RECORD_BYTES, "batch": arguments.batch,
               "threads": arguments.threads, "rounds": len(groups[0]), "link_bits": link.bits,
               "link_payload_share": round(link.share, 4), "shaped": link.made, "lines": lines}
    if arguments.plots:
        jobs.save_plots(arguments.plots, "scaling", figures)
    print(json.dumps({**goals,
                      "cold_samples_per_s": medians(results, "cold"),
                      "cached_samples_per_s": medians(results, "cached"),
                      "local_samples_per_s": medians(results, "cached", "local_report")}))


def medians(results, mode, report="report"):
    """Samples a second by hosts and rows, over all rounds."""
    found = {}
    for run in results:
        found.setdefault(f"{run['hosts']}x{run['rows']}", []).append(rate(run, mode, report))
    return {shape: round(statistics.median(rates), 1) for shape, rates in found.items()}


def main():
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not jobs.has_hosts(arguments):
        rate_of_links = arguments.rate or "1gbit"
        if not arguments.rate:
            sys.argv += ["--rate", rate_of_links]
        jobs.on_new_hosts(arguments, max(arguments.hosts), ["--rate", rate_of_links])
    try:
        evaluate(arguments, measure_all(arguments))
    except Failed as failure:
        say(f"scaling: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
