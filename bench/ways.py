#!/usr/bin/env python3
"""Ways of samples: what the chosen ways deliver, against each way alone, and against the best mixture there is.

    bench/run.sh ways              all of the matrix: hours
    bench/run.sh ways --quick      a few minutes

Hosts are made on this machine (root). docs/benchmarks.md says what is measured. The last line of output is one JSON
object. Only the standard library is used, but for --plots, which takes Matplotlib.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import jobs
from jobs import Failed, Jobs, say

sys.path.insert(0, str(jobs.BENCH.parent / "tests" / "mpi"))
import servers  # noqa: E402

RECORD_BYTES = 160 << 10
EPOCHS = 6
LATER = range(1, EPOCHS - 1)  # of the last epoch, the end has no next one behind it
HEAD = "10.77.0.1"
STORES = {"local": None, "shared": "1gbit", "slow": "250mbit"}  # of the link that all hosts read the store through
WAYS = ("send", "each", "auto")
PAYLOAD = (1500 - 52) / (1500 + 14)  # TCP with timestamps, of what a shaped link counts
GOALS = {"least_share_of_bound": 0.85, "least_later_over_first": 1.0}
GOAL_BYTES = 0.03


def numbers(text):
    return [int(word) for word in text.split(",")]


def words(text):
    return text.split(",")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="a part of the matrix: 4 hosts, placement fixed")
    parser.add_argument("--hosts", type=numbers, default=[2, 3, 4], help="numbers of hosts (2,3,4)")
    parser.add_argument("--rows", type=numbers, default=[1, 8], help="samples of a row (1,8)")
    parser.add_argument("--ratios", type=words, default=["1.1", "4", "15"], help="how far data compresses (1.1,4,15)")
    parser.add_argument("--stores", type=words, default=list(STORES), help="of local, shared, slow (all)")
    parser.add_argument("--placements", type=words, default=["fixed", "local"], help="of samples (fixed,local)")
    parser.add_argument("--rate", default="1gbit", help="of each host's link (1gbit)")
    parser.add_argument("--samples", type=int, default=6144, help="160 KiB each (6144)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step for each host (64)")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plot")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.hosts, arguments.placements = [4], ["fixed"]
        arguments.ratios = ["4"]
        arguments.stores = ["local", "shared"]
    if arguments.hostfile or arguments.launch:
        parser.error("ways makes its own hosts")
    return arguments


# --- data ---------------------------------------------------------------------------------------------------------


def sample(ratio, seed):
    """160 KiB, of which the codec can leave out all but about 1/ratio."""
    drawn = random.Random(seed)
    kept = int(4096 / ratio)
    return b"".join(drawn.randbytes(kept) + bytes(4096 - kept) for _ in range(RECORD_BYTES // 4096))


def make_dataset(jobs_, samples, ratio, rows):
    """Sixteen different samples again and again, in chunks of so many; lz4 in Blosc."""
    path = jobs_.work / f"ways-{samples}-{ratio}-{rows}.zarr"
    if path.exists():
        return path
    say(f"writing {path}")
    plain = jobs_.work / "ways-plain.zarr"
    shutil.rmtree(plain, ignore_errors=True)
    (plain / "data").mkdir(parents=True)
    (plain / ".zgroup").write_text('{"zarr_format":2}', encoding="ascii")
    (plain / "data" / ".zarray").write_text(json.dumps(
        {"zarr_format": 2, "shape": [samples, RECORD_BYTES // 4], "chunks": [1, RECORD_BYTES // 4], "dtype": "<u4",
         "compressor": None, "filters": None, "fill_value": 0, "order": "C"}), encoding="ascii")
    drawn = [sample(float(ratio), seed) for seed in range(16)]
    for index in range(samples):
        (plain / "data" / f"{index}.0").write_bytes(drawn[index % len(drawn)])
    part = f"{path}.part"
    shutil.rmtree(part, ignore_errors=True)
    jobs_.run_here([jobs_.program("penstock"), "rechunk", "--no-verify", f"--chunk={rows}", "--codec=blosc-lz4",
                    plain, part])
    shutil.rmtree(plain)
    os.rename(part, path)
    return path


def stored_bytes(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def warm_up(path):
    """Files are read before they are measured: idle page cache may have been paged out."""
    for file in path.rglob("*"):
        if file.is_file():
            file.read_bytes()


class Store:
    """The dataset's folder on each host; or a server on the head, behind a link that all hosts share."""

    def __init__(self, work, kind):
        self.server, self.rate = None, STORES[kind]
        if self.rate:
            subprocess.run(["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst",
                            "256kb", "latency", "50ms"], check=True)
            self.server = servers.Nginx(work, latency_s=0, address=HEAD)

    def uri(self, path):
        return f"{self.server.url}/{path.name}" if self.server else str(path)

    def close(self):
        if self.server:
            self.server.close()
            subprocess.run(["tc", "qdisc", "del", "dev", "eth0", "root"], check=True)

    def bytes_per_s(self):
        return jobs.bits(self.rate) / 8 * PAYLOAD if self.rate else None


# --- measuring ----------------------------------------------------------------------------------------------------


def measure(jobs_, arguments, case, uri):
    """A job for each way."""
    hosts, placement = case["hosts"], case["placement"]
    settings = {"dataset.uri": uri, "order.epochs": EPOCHS, "order.seed": 17, "readers.threads": 1,
                "batch.global_size": hosts * arguments.batch, "readers.cache": "decoded",
                **dict(option.split("=", 1) for option in arguments.set)}
    if placement != "fixed":
        settings["order.placement"] = placement
    return {way: jobs_.reader(hosts, {**settings, "exchange.way": way}) for way in WAYS}


def rates(report):
    return [epoch["samples"] / epoch["seconds"] for epoch in report["epochs"]]


def later(report, key):
    """The mean of an epoch's figure, later epochs."""
    return statistics.mean(report["epochs"][epoch][key] for epoch in LATER)


def later_rate(report):
    return sum(report["epochs"][epoch]["samples"] for epoch in LATER) / later(report, "seconds") / len(LATER)


def needs(report):
    """What a sample takes of each resource that all hosts share or have alike, in the ways of this job."""
    samples = later(report, "samples")
    return {"links": later(report, "sent_bytes") / samples, "processors": later(report, "cpu_s") / samples,
            "store": later(report, "stored_bytes") / samples}


def best_mixture(capacities, ways):
    """Samples a second of the best mixture of two ways: max rate, so that rate * (s * a + (1 - s) * b) <= capacity of
    each resource. The rate of a share is the least of some hyperbolas: the best share is looked for among many."""
    best = 0.0
    for step in range(1001):
        share = step / 1000
        taken = {name: share * ways[0][name] + (1 - share) * ways[1][name] for name in capacities}
        best = max(best, min(capacities[name] / taken[name] for name in capacities if taken[name] > 0))
    return best


def judge(case, reports, stored):
    """The figures of one case; stored: bytes a second of the store that all share, or None."""
    chosen = reports["auto"]
    capacities = {"links": case["hosts"] * jobs.bits(case["rate"]) / 8 * PAYLOAD,
                  "processors": max(later(report, "cpu_s") / later(report, "seconds") for report in reports.values())}
    if stored:
        capacities["store"] = stored
    bound = best_mixture(capacities, [needs(reports["send"]), needs(reports["each"])])
    speeds = rates(chosen)
    foreseen = statistics.mean(chosen["epochs"][epoch]["ways"]["foreseen_sent_bytes"] for epoch in LATER)
    sent = later(chosen, "sent_bytes")
    return {**case, "first": speeds[0], "later": [speeds[epoch] for epoch in LATER], "rate_later": later_rate(chosen),
            "send": later_rate(reports["send"]), "each": later_rate(reports["each"]), "bound": bound,
            "share_of_bound": later_rate(chosen) / bound,
            "later_over_first": min(speeds[epoch] for epoch in LATER) / speeds[0],
            "sent_bytes": sent, "stored_bytes": later(chosen, "stored_bytes"),
            "moved_over_forecast": sent / foreseen if foreseen > 0.01 * later(chosen, "samples") * RECORD_BYTES else 1,
            "rates": [reader["rates"] for reader in chosen["readers"]]}


def measure_all(arguments):
    jobs_ = Jobs(arguments)
    results = []
    for kind, ratio, rows in itertools.product(arguments.stores, arguments.ratios, arguments.rows):
        path = make_dataset(jobs_, arguments.samples, ratio, rows)
        warm_up(path)
        store = Store(jobs_.work, kind)
        try:
            for hosts, placement in itertools.product(arguments.hosts, arguments.placements):
                case = {"store": kind, "ratio": ratio, "rows": rows, "hosts": hosts, "placement": placement,
                        "rate": arguments.rate}
                found = judge(case, measure(jobs_, arguments, case, store.uri(path)), store.bytes_per_s())
                results.append(found)
                say(" ".join(line(found)))
        finally:
            store.close()
    return results


# --- what came of it ----------------------------------------------------------------------------------------------

COLUMNS = (("store", 6), ("ratio", 5), ("rows", 4), ("hosts", 5), ("placement", 9), ("first", 7), ("later", 7),
           ("least", 7), ("send", 7), ("each", 7), ("bound", 7), ("share", 5), ("sent MiB", 8), ("read MiB", 8),
           ("foreseen", 8))


def line(found):
    values = (found["store"], found["ratio"], found["rows"], found["hosts"], found["placement"],
              f"{found['first']:,.0f}", f"{found['rate_later']:,.0f}", f"{min(found['later']):,.0f}",
              f"{found['send']:,.0f}", f"{found['each']:,.0f}", f"{found['bound']:,.0f}",
              f"{found['share_of_bound']:.2f}", f"{found['sent_bytes'] / 2**20:,.0f}",
              f"{found['stored_bytes'] / 2**20:,.0f}", f"{found['moved_over_forecast']:.3f}")
    return [f"{value:>{width}}" for value, (_, width) in zip(values, COLUMNS)]


def save_plot(folder, results):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ways.json"
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for python in (sys.executable, "/usr/bin/python3"):  # Debian's Matplotlib is for Debian's Python
        drawn = subprocess.run([python, jobs.BENCH / "ways_plot.py", path], capture_output=True, text=True, check=False)
        if drawn.returncode == 0:
            say(f"wrote {path} {drawn.stdout.strip()}")
            return
    say(f"no plot: {drawn.stderr.splitlines()[-1]} (apt-get install python3-matplotlib)")


def evaluate(arguments, results):
    print(f"\nways: {arguments.samples:,} samples of {RECORD_BYTES:,} bytes, {arguments.batch} samples of a step a host, "
          f"links of {arguments.rate}; samples/s of all hosts")
    print(" ".join(f"{name:>{width}}" for name, width in COLUMNS))
    for found in results:
        print(" ".join(line(found)))
    print("\nfirst, later: epochs with the ways chosen while running. least: of the later ones. send, each: later epochs, "
          "all rows one way.\nbound: of the best mixture of these two. sent, read: of all hosts in a later epoch. "
          "foreseen: sent bytes over what rank 0 foresaw.")
    final = {"least_share_of_bound": min(found["share_of_bound"] for found in results),
             "least_later_over_first": min(found["later_over_first"] for found in results),
             "moved_over_forecast": max((found["moved_over_forecast"] for found in results),
                                        key=lambda ratio: abs(ratio - 1))}
    for name, goal in GOALS.items():
        print(f"{name} {final[name]:.3f}, at least {goal:.2f}: {'reached' if final[name] >= goal else 'missed'}")
    off = abs(final["moved_over_forecast"] - 1)
    print(f"moved_over_forecast off by {off:.1%}, at most {GOAL_BYTES:.0%}: {'reached' if off <= GOAL_BYTES else 'missed'}")
    if arguments.plots:
        save_plot(arguments.plots, results)
    print(json.dumps({name: round(value, 4) for name, value in final.items()}))


def main():
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if "CLUSTER_NAME" not in os.environ:
        jobs.on_new_hosts(arguments, max(arguments.hosts), ["--rate", arguments.rate])
    try:
        evaluate(arguments, measure_all(arguments))
    except Failed as failure:
        say(f"ways: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
