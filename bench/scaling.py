#!/usr/bin/env python3
"""What Penstock delivers on one host and on several, cold and from memory, with either order.placement, and what allows
no more.

    bench/run.sh scaling                     on hosts and links that are made on this machine (root)
    bench/run.sh scaling --hostfile FILE     on a cluster, by mpirun
    bench/run.sh scaling                     within a Slurm allocation

docs/measured/benchmarks.md says what is measured. The last line of output is one JSON object. Only the standard library is
used, but for --plots, which takes Matplotlib.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import sys

import jobs
from jobs import Failed, Jobs, say

RECORD_BYTES = 20 * 4 * 32 * 32 * 2
EPOCHS = {"cold": 4, "cached": 12}  # of one host
GOAL, GOAL_BYTES, GOAL_FORMULA = 0.90, 0.05, 1.15
MODES = ["cold", "cached"]
PLACEMENTS = ["local", "fixed"]  # the default first
TCP_RECORDS = 400
CONSUMER = ("--digest=/dev/null",)  # reads every byte


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--hosts", default="1,2,3,4", help="numbers of hosts to measure (1,2,3,4)")
    parser.add_argument("--rate", help="of each host's link: hosts are made with it (1gbit); of a cluster's hosts, "
                                       "what its network claims, where /sys does not say")
    parser.add_argument("--cores", type=float, default=0.2, help="processor time of each host that is made, so that "
                                                                 "hosts do not take it from each other (0.2)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds, at most (3)")
    parser.add_argument("--budget", type=float, default=330, help="seconds after which no round begins (330)")
    parser.add_argument("--samples", type=int, default=6144, help="of the dataset that memory keeps, 160 KiB each (6144)")
    parser.add_argument("--cold-samples", type=int, help="of the one that is read in each epoch (three times --samples)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step for each host (64)")
    parser.add_argument("--rows", default="1,8", help="samples of a row: one dataset each (1,8)")
    parser.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1),
                        help="that read and decode on each host (all but one)")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plots and the figures they are made of")
    arguments = parser.parse_args()
    for option in arguments.set:
        if option.split("=")[0] in ("order.epochs", "order.placement", "readers.cache"):
            parser.error(f"--set {option}: scaling sets this itself")
    if jobs.has_hosts(arguments) and "CLUSTER_NAME" not in os.environ:
        arguments.cores = None  # hosts that exist have the processors they have
    arguments.hosts = [int(count) for count in arguments.hosts.split(",")]
    arguments.rows = [int(rows) for rows in arguments.rows.split(",")]
    arguments.samples = {"cold": arguments.cold_samples or 3 * arguments.samples, "cached": arguments.samples}
    return arguments


# --- measuring ----------------------------------------------------------------------------------------------------


def bare_exchange(jobs_, hosts, batch):
    """Payload bytes a second that a host receives when MPI_Ialltoallv, with messages like those of a step, is all
    there is; None where that cannot be measured."""
    program = jobs_.program("penstock-bench-exchange")
    if hosts == 1 or not program.exists():
        return None
    output = jobs_.launch(hosts, [program, "--repeats", 1, "--volume", "96MiB",
                                  "--record", RECORD_BYTES, "--message", batch // hosts * RECORD_BYTES])
    measured = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return next((one["bytes_per_s"] for one in measured if one["variant"] == "exchange"), None)


def tcp_cost(jobs_):
    """Seconds of processor time for a byte that crosses the network over plain TCP, of both hosts together."""
    meeting = jobs_.work / "tcp-cost"
    meeting.unlink(missing_ok=True)
    output = jobs_.launch(2, [sys.executable, jobs.BENCH / "tcp_cost.py", meeting, RECORD_BYTES, TCP_RECORDS])
    return sum(json.loads(line)["seconds_per_byte"] for line in output.splitlines() if line.startswith("{"))


def settings_of(arguments, hosts, placement, dataset, mode):
    """Of a job on so many hosts. Cold: nothing is kept, so that each epoch reads and decodes all rows, as a first epoch does. A
    first epoch's own time has work for later ones, too: the rings are filled for them. With order.placement local there
    are `hosts` times as many epochs, so that a job takes as long as one on a host by itself."""
    epochs = EPOCHS[mode] * (hosts if placement == "local" else 1)
    return {"dataset.uri": dataset, "order.epochs": epochs, "order.seed": 17, "order.placement": placement,
            "batch.global_size": hosts * arguments.batch, "readers.threads": arguments.threads,
            "readers.cache": "off" if mode == "cold" else "auto",
            **dict(option.split("=", 1) for option in arguments.set)}


def rate_alone(jobs_, arguments, hosts, dataset, mode):
    """Samples/s of a job on each of so many hosts by itself, all at once: those that were made beyond the first. On hosts
    that exist, so many times what one of them does."""
    settings, scale = settings_of(arguments, 1, PLACEMENTS[0], dataset, mode), 1
    if arguments.cores:
        first = max(arguments.hosts) + 1
        with concurrent.futures.ThreadPoolExecutor(hosts) as threads:
            reports = list(threads.map(lambda host: jobs_.reader(1, settings, only=f"h{host}", trainer=CONSUMER,
                                                                 name=f"alone{host}", read=dataset), range(first, first + hosts)))
    else:
        reports, scale = [jobs_.reader(1, settings, trainer=CONSUMER, read=dataset)], hosts
    return scale * sum(rate({"reports": {mode: report}}, mode) for report in reports)


def measure_case(jobs_, arguments, hosts, placement, datasets):
    """Of each mode a job, and the rate of as many hosts alone: at the same time where hosts are made, so that both have the same
    minutes of the machine, else before it. {mode: rate}, {mode: report}, {mode: [bytes forecast]}."""
    alone, reports, forecasts = {}, {}, {}
    for mode, dataset in datasets.items():
        settings = settings_of(arguments, hosts, placement, dataset, mode)
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            if hosts > 1:
                rate_of_hosts = thread.submit(rate_alone, jobs_, arguments, hosts, dataset, mode)
                if not arguments.cores:
                    concurrent.futures.wait([rate_of_hosts])
            reports[mode] = jobs_.reader(hosts, settings, trainer=CONSUMER, read=dataset)
            if hosts > 1:
                alone[mode] = rate_of_hosts.result()
        forecasts[mode] = [epoch["exchanged_bytes"] for epoch in jobs_.forecast(hosts, settings)]
    return alone, reports, forecasts


def measure_round(jobs_, arguments, datasets):
    """All jobs, and beside them what they are compared with: hosts alone, the bare exchange, and TCP."""
    cost = tcp_cost(jobs_) if arguments.cores and max(arguments.hosts) > 1 else None
    runs = []
    for hosts in arguments.hosts:
        bare = bare_exchange(jobs_, hosts, arguments.batch)
        for rows, of_rows in datasets.items():
            for placement in PLACEMENTS if hosts > 1 else PLACEMENTS[:1]:  # on one host they are the same
                alone, reports, forecasts = measure_case(jobs_, arguments, hosts, placement, of_rows)
                run = {"hosts": hosts, "rows": rows, "placement": placement, "bare_bytes_per_s": bare,
                       "alone_per_s": alone, "tcp_s_per_byte": cost, "reports": reports,
                       "forecast_bytes": forecasts}
                runs.append(run)
                rates = ", ".join(f"{mode} {rate(run, mode):,.0f} of {alone[mode]:,.0f}" if alone
                                  else f"{mode} {rate(run, mode):,.0f}" for mode in MODES)
                say(f"  {hosts} hosts, rows of {rows}, {placement}: {rates} samples/s")
    return runs


def measure_all(arguments):
    jobs_ = Jobs(arguments)
    datasets = {rows: {mode: jobs_.synth(f"scaling-{rows}-{samples}.zarr", samples, chunk=rows, codec="lz4")
                       for mode, samples in arguments.samples.items()} for rows in arguments.rows}
    clock = jobs.Clock(arguments.budget)
    results = []
    for number in range(arguments.rounds):
        since = clock.elapsed()
        for modes in datasets.values():  # hosts read them again, with little processor time, while their command's time runs
            for dataset in modes.values():
                jobs.read_files(dataset)
        results += measure_round(jobs_, arguments, datasets)
        say(f"{clock.elapsed():4.0f} s  round {number + 1} of {arguments.rounds} is done")
        if number + 1 < arguments.rounds and not clock.fits_another(since):
            say(f"another round would not fit into --budget {arguments.budget:.0f}")
            break
    return results


# --- what came of it ----------------------------------------------------------------------------------------------


def epochs_of(run, mode):
    """All but the first, and the last, whose end has no next epoch behind it."""
    return range(1, len(run["reports"][mode]["epochs"]) - 1)


def rate(run, mode):
    epochs = [run["reports"][mode]["epochs"][e] for e in epochs_of(run, mode)]
    return sum(epoch["samples"] for epoch in epochs) / sum(epoch["seconds"] for epoch in epochs)


def samples_of(run, mode):
    """Of an epoch."""
    return run["reports"][mode]["epochs"][0]["samples"]


def sent(run, mode):
    """Payload bytes of an epoch that all hosts send."""
    return statistics.mean(run["reports"][mode]["epochs"][e]["sent_bytes"] for e in epochs_of(run, mode))


def forecast(run, mode):
    """The same as `penstock plan` has it: of the first epochs, where later ones are much like the last of these."""
    known = run["forecast_bytes"][mode]
    return statistics.mean(known[min(e, len(known) - 1)] for e in epochs_of(run, mode))


def forecast_error(run, mode):
    """Of the epochs that are forecast; None where nothing is to be sent."""
    known = run["forecast_bytes"][mode]
    epochs = [e for e in epochs_of(run, mode) if e < len(known)]
    expected = sum(known[e] for e in epochs)
    return sum(run["reports"][mode]["epochs"][e]["sent_bytes"] for e in epochs) / expected - 1 if expected else None


def stored_of_hosts(run, mode):
    """Bytes of an epoch that each host reads from storage."""
    return [statistics.mean(reader["epochs"][e]["stored_bytes"] for e in epochs_of(run, mode))
            for reader in run["reports"][mode]["readers"]]


def sent_of_hosts(run, mode):
    return [statistics.mean(reader["epochs"][e]["sent_bytes"] for e in epochs_of(run, mode))
            for reader in run["reports"][mode]["readers"]]


def wire_factor(run):
    """Bytes of frames for one byte of payload; None where nothing much was sent."""
    report = run["reports"]["cached"]
    payload = sum(epoch["sent_bytes"] for epoch in report["epochs"])
    return sum(host["sent_bytes"] for host in report["hosts"]) / payload if payload else None


class Link:
    """What one host's link carries in each direction."""

    def __init__(self, arguments, run):
        counted = run["reports"]["cached"]["hosts"]
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


def processors(arguments, run, mode):
    """Samples a second of all hosts if each were as fast as by itself, but for what TCP takes for the bytes that cross."""
    seconds = 1 / run["alone_per_s"][mode]
    if run["tcp_s_per_byte"]:
        seconds += sent(run, mode) / samples_of(run, mode) * run["tcp_s_per_byte"] / arguments.cores / run["hosts"]
    return 1 / seconds


def limits(arguments, link, run, mode):
    """What links and processors allow, in samples a second."""
    if run["hosts"] == 1:
        return {}
    found = {"processors": processors(arguments, run, mode)}
    if sent(run, mode) > 0 and link.payload_bytes_per_s(run):
        found["links"] = samples_of(run, mode) / (sent(run, mode) / run["hosts"] / link.payload_bytes_per_s(run))
    return found


def formula_share(run, batch):
    """Of the samples, those that travel with order.placement local when chance alone decides who has them."""
    return math.sqrt((1 - 1 / run["hosts"]) / (2 * math.pi * batch))


def spread(values):
    values = list(values)
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def summary(arguments, link, runs, mode):
    """The figures of all rounds of one job."""
    first = runs[0]
    each = [limits(arguments, link, run, mode) for run in runs]
    allowed = {name: statistics.median(found[name] for found in each) for name in each[0]}
    applies = min(allowed, key=allowed.get) if allowed else None
    bare = [run["bare_bytes_per_s"] for run in runs if run["bare_bytes_per_s"]]
    used = statistics.median(rate(run, mode) * sent(run, mode) / samples_of(run, mode) / run["hosts"] for run in runs)
    factors = [wire_factor(run) for run in runs if wire_factor(run)]
    middle_sent = statistics.median(sent(run, mode) for run in runs)
    formula = formula_share(first, arguments.batch) * samples_of(first, mode) * RECORD_BYTES
    return {"hosts": first["hosts"], "rows": first["rows"], "placement": first["placement"], "mode": mode,
            "samples_per_s": spread(rate(run, mode) for run in runs), "limits": allowed, "limit": applies,
            # within a round, so that a slow minute counts on both sides
            "ratio": statistics.median(rate(run, mode) / min(found.values()) for run, found in zip(runs, each))
                     if applies else None,
            "payload_bytes_per_s": used,
            "of_raw_link": used * 8 / link.bits if link.bits else None,
            "of_bare_exchange": used / statistics.median(bare) if bare and used else None,
            "stored_bytes": spread(byte for run in runs for byte in stored_of_hosts(run, mode)),
            "sent_bytes": spread(byte for run in runs for byte in sent_of_hosts(run, mode)),
            "sent_share": middle_sent / samples_of(first, mode) / RECORD_BYTES,
            "of_formula": middle_sent / formula if first["placement"] == "local" and formula else None,
            "forecast_bytes": forecast(first, mode) / first["hosts"],
            "forecast_error": None if forecast_error(first, mode) is None
                              else statistics.median(forecast_error(run, mode) for run in runs),
            "frame_bytes": statistics.median(factors) * middle_sent / first["hosts"] if factors else 0}


def mib(count):
    return f"{count / 2**20:.1f}"


def share(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def print_table(lines):
    head = ("hosts", "samples/s", "min", "max", "limit", "which", "ratio", "of link", "of bare", "travels", "formula",
            "storage", "sent", "forecast", "off by", "frames")
    print(" ".join(f"{word:>10}" for word in head))
    for line in lines:
        rates, off = line["samples_per_s"], line["forecast_error"]
        print(" ".join(f"{word:>10}" for word in (
            line["hosts"], f"{rates['median']:,.0f}", f"{rates['least']:,.0f}", f"{rates['most']:,.0f}",
            f"{line['limits'][line['limit']]:,.0f}" if line["limit"] else "-", line["limit"] or "-",
            share(line["ratio"]), share(line["of_raw_link"]), share(line["of_bare_exchange"]),
            f"{line['sent_share']:.1%}", share(line["of_formula"]),
            mib(line["stored_bytes"]["median"]), mib(line["sent_bytes"]["median"]), mib(line["forecast_bytes"]),
            "-" if off is None else f"{off:+.1%}", mib(line["frame_bytes"]))))


def print_tables(arguments, link, lines):
    for rows in arguments.rows:
        for placement in PLACEMENTS:
            for mode in MODES:
                print(f"\nrows of {rows}, {placement}, {mode}")
                print_table([line for line in lines if (line["rows"], line["mode"]) == (rows, mode)
                             and (line["placement"] == placement or line["hosts"] == 1)])
    print("\nratio: samples/s to the limit, within a round. of link: payload to what the link is called. of bare: payload "
          "to that of\nMPI_Ialltoallv alone. travels: of all samples. formula: to sqrt((1 - 1/H) / (2 pi b)) of them. "
          "storage, sent, forecast and\nframes: MiB of one host in one epoch.")
    if link.bits:
        print(f"A link of {link.bits / 1e9:g} Gbit/s carries {link.share:.1%} of that as payload of TCP.")


def judge(text, value, reached):
    print(f"{text}: {'reached' if reached else 'missed'}")
    return round(value, 4)


def verdict(lines):
    """The goals, which are those of order.placement local."""
    found = {}
    local = [line for line in lines if line["placement"] == "local" and line["forecast_error"] is not None]
    if not local:
        return found
    least = min(line["ratio"] for line in local)
    found["local_least_share_of_limit"] = judge(f"local: least share of what links and processors allow {least:.3f}, at "
                                                f"least {GOAL:.2f}", least, least >= GOAL)
    off = max(abs(line["forecast_error"]) for line in local)
    single = [line["of_formula"] for line in local if line["rows"] == 1]
    if single:
        found["local_over_formula"] = judge(f"local, rows of one sample: at most {max(single):.3f} of the formula travels, "
                                            f"at most {GOAL_FORMULA:.2f}", max(single), max(single) <= GOAL_FORMULA)
    found["most_off_forecast"] = judge(f"local: exchanged bytes off the forecast by at most {off:.1%}, below "
                                       f"{GOAL_BYTES:.0%}", off, off < GOAL_BYTES)
    return found


def rates_of(lines, placement, mode):
    return {f"{line['hosts']}x{line['rows']}": round(line["samples_per_s"]["median"], 1) for line in lines
            if line["mode"] == mode and (line["placement"] == placement or line["hosts"] == 1)}


def evaluate(arguments, results):
    link = Link(arguments, max(results, key=lambda run: run["hosts"]))
    keys = sorted({(run["rows"], run["placement"], run["hosts"]) for run in results})
    groups = [[run for run in results if (run["rows"], run["placement"], run["hosts"]) == key] for key in keys]
    lines = [summary(arguments, link, runs, mode) for mode in MODES for runs in groups]
    print(f"\nscaling: {arguments.samples['cold']:,} samples (cold) and {arguments.samples['cached']:,} of "
          f"{RECORD_BYTES:,} bytes, lz4; {arguments.batch} samples of a "
          f"step a host, {arguments.threads} threads; {len(groups[0])} interleaved rounds"
          + (f"; links shaped to {arguments.rate}, {arguments.cores:g} cores a host" if link.made else ""))
    print_tables(arguments, link, lines)
    print()
    goals = verdict(lines)
    figures = {"samples": arguments.samples["cached"], "record_bytes": RECORD_BYTES, "batch": arguments.batch,
               "threads": arguments.threads, "rounds": len(groups[0]), "link_bits": link.bits,
               "link_payload_share": round(link.share, 4), "shaped": link.made,
               "cores": arguments.cores if link.made else None, "lines": lines}
    if arguments.plots:
        jobs.save_plots(arguments.plots, "scaling", figures)
    print(json.dumps({**goals, "cold_samples_per_s": rates_of(lines, "local", "cold"),
                      "cached_samples_per_s": rates_of(lines, "local", "cached"),
                      "fixed_cold_samples_per_s": rates_of(lines, "fixed", "cold"),
                      "fixed_cached_samples_per_s": rates_of(lines, "fixed", "cached")}))


def main():
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    made = 2 * max(arguments.hosts)  # those that work together, and as many by themselves
    if not jobs.has_hosts(arguments):
        rate_of_links = arguments.rate or "1gbit"
        if not arguments.rate:
            sys.argv += ["--rate", rate_of_links]
        shares = ",".join(f"h{host + 1}={arguments.cores}" for host in range(made))
        jobs.on_new_hosts(arguments, made, ["--rate", rate_of_links, "--cpus", shares])
    try:
        if "CLUSTER_NAME" in os.environ:
            for host in range(made):
                jobs.give_processors(f"h{host + 1}", arguments.cores)
        evaluate(arguments, measure_all(arguments))
    except Failed as failure:
        say(f"scaling: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
