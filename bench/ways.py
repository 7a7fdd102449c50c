#!/usr/bin/env python3
"""Ways of samples: what the chosen ways deliver, against each way alone, and against the best mixture there is.

    bench/run.sh ways              nine cases, about eight minutes: any two values of two dimensions occur together
    bench/run.sh ways --all        all 108 cases of the matrix
    bench/run.sh ways --hosts 4 --rows 8 --stores shared,slow     a part of the matrix
    bench/run.sh ways --keep ways.jsonl --budget 600               in pieces: the same command goes on

Jobs of a case run in turns: send, auto, send, auto. The bound is of the best mixture of ways, from rates that are measured
one by one: what hosts do each by itself, from memory and from the store; what TCP takes of the processors; links and stores
as they are shaped. What a reader has loaded once stays with it in later epochs.

Hosts are made on this machine (root). docs/benchmarks.md says what is measured. The last line of output is one JSON
object. Only the standard library is used, but for --plots, which takes Matplotlib.
"""
import argparse
import concurrent.futures
import functools
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

import jobs
import scaling
from jobs import Failed, Jobs, say

sys.path.insert(0, str(jobs.BENCH.parent / "tests" / "mpi"))
import servers  # noqa: E402

RECORD_BYTES = 160 << 10
SINGLE_SAMPLES = 1024  # of the dataset that each host reads by itself
SINGLE_EPOCHS = {"decoded": 64, "off": 16}
EPOCHS = {"send": 5, "each": 30, "auto": 30}  # a choice shows when the windows that were assigned before are over
HEAD = "10.77.0.1"
STORES = {"local": None, "shared": "1gbit", "slow": "250mbit"}  # of the link that all hosts read the store through
WAYS = ("send", "each", "auto")
PAYLOAD = (1500 - 52) / (1500 + 14)  # TCP with timestamps, of what a shaped link counts
GOALS = {"least_share_of_bound": 0.85, "least_later_over_first": 1.0}
GOAL_BYTES = 0.03
EVENNESS_DRAWS = 200
MATRIX = {"stores": ["local", "shared", "slow"], "ratios": ["1.1", "4", "15"], "rows": [1, 8], "hosts": [2, 3, 4],
          "placements": ["fixed", "local"]}
# Of these cases any two values of two dimensions occur together: see covers().
COVER = (("local", "1.1", 8, 2, "local"), ("local", "4", 1, 3, "local"), ("local", "15", 1, 4, "fixed"),
         ("shared", "1.1", 1, 3, "fixed"), ("shared", "4", 8, 4, "fixed"), ("shared", "15", 1, 2, "local"),
         ("slow", "1.1", 1, 4, "local"), ("slow", "4", 1, 2, "fixed"), ("slow", "15", 8, 3, "fixed"))


def numbers(text):
    return [int(word) for word in text.split(",")]


def words(text):
    return text.split(",")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--all", action="store_true", help="the whole matrix, instead of nine cases")
    parser.add_argument("--hosts", type=numbers, help="numbers of hosts: that part of the matrix (2,3,4)")
    parser.add_argument("--rows", type=numbers, help="likewise, samples of a row (1,8)")
    parser.add_argument("--ratios", type=words, help="likewise, how far data compresses (1.1,4,15)")
    parser.add_argument("--stores", type=words, help="likewise, of local, shared, slow")
    parser.add_argument("--placements", type=words, help="likewise, of samples (fixed,local)")
    parser.add_argument("--rate", default="1gbit", help="of each host's link (1gbit)")
    parser.add_argument("--samples", type=int, default=6144, help="160 KiB each (6144)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step for each host (64)")
    parser.add_argument("--ways", type=words, default=["send", "auto"], help="send and auto, and each if you like (send,auto)")
    parser.add_argument("--rounds", type=int, default=1, help="jobs of each way, in turns (1)")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plot")
    parser.add_argument("--keep", type=pathlib.Path, help="file of cases that are measured, a line each: not measured again")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no case begins (no end)")
    arguments = parser.parse_args()
    if not {"send", "auto"} <= set(arguments.ways) <= set(WAYS):
        parser.error("--ways: send and auto, and each if you like")
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


# --- single rates -------------------------------------------------------------------------------------------------


def alone(jobs_, hosts, path, rows, cache):
    """Of so many hosts, each of which does all by itself, all at once, for a sample: seconds of all together, from which other
    work only takes; seconds of processor time of the readers, which other work hardly changes; and rows that are read. Windows
    are short, or the buffers of rows that are not kept would have room for the whole dataset. The middle half of the epochs
    counts: hosts begin and end at different times, and one that is left alone is faster."""
    count = SINGLE_EPOCHS[cache]
    settings = {"dataset.uri": path, "order.epochs": count, "order.seed": 17, "readers.threads": 1,
                "batch.global_size": 64, "readers.cache": cache, "order.window_rows": max(8, 64 // rows)}
    with concurrent.futures.ThreadPoolExecutor(hosts) as threads:
        reports = list(threads.map(lambda host: jobs_.reader(1, settings, only=f"h{host + 1}", name=f"alone{host}"),
                                   range(hosts)))
    middle = [report["epochs"][count // 4:3 * count // 4] for report in reports]
    samples = count // 2 * SINGLE_SAMPLES
    rate = sum(samples / sum(epoch["seconds"] for epoch in epochs) for epochs in middle)
    cpu_s, rows_read = (sum(epoch[key] for epochs in middle for epoch in epochs) / samples / hosts
                        for key in ("cpu_s", "rows_read"))
    return 1 / rate, cpu_s, rows_read


class Singles:
    """Measures single rates of a case, in turns with its jobs: the machine is faster at one time than at another."""

    def __init__(self, jobs_, arguments, ratio, rows, hosts):
        self.jobs, self.rows, self.hosts, self.link = jobs_, rows, hosts, jobs.bits(arguments.rate) / 8 * PAYLOAD
        self.path = make_dataset(jobs_, SINGLE_SAMPLES, ratio, rows)
        self.found = {cache: [] for cache in SINGLE_EPOCHS}

    def take(self):
        jobs.read_files(self.path)
        for cache, found in self.found.items():
            found.append(alone(self.jobs, self.hosts, self.path, self.rows, cache))

    def figures(self, tcp_s):
        """Seconds of the machine, and bytes: for a sample, for a row that is loaded, for a byte that is sent."""
        sample_s = statistics.median(wall_s for wall_s, _, _ in self.found["decoded"])
        kept_s = min(cpu_s for _, cpu_s, _ in self.found["decoded"])
        # Of a difference of two rates nothing would be left as soon as other work takes from one of them.
        row_s = min((cpu_s - kept_s) / rows_read for _, cpu_s, rows_read in self.found["off"]) / os.cpu_count()
        return {"sample_s": sample_s, "row_s": max(0.0, row_s), "byte_s": tcp_s / os.cpu_count(),
                "row_bytes": stored_bytes(self.path) / SINGLE_SAMPLES * self.rows, "link": self.link}


class Bound:
    """The most samples a second that later epochs of a case can have, all together, for whoever does not know beforehand which
    rows later epochs want.

    - A pair is a row and another reader than the row's home. An epoch wants a share of all pairs, drawn anew each time, and some
      samples of each of these. Either the reader loads the row then, and keeps it; or the samples are sent. A load takes the row's
      bytes of the store and of the links, and decoding, once; a sent sample takes bytes of the links, and what TCP takes of the
      processors.
    - An epoch takes as long as its busiest resource is busy with the epoch's loads and sends. How many rows each epoch loads is a
      linear program, solved backwards: the least seconds of the epochs to come, over the pairs that are not loaded.
    - What the first epoch has read beyond one copy of each row counts as loads that cost nothing; so do loads for the second
      epoch, as many as the store had time for in the first.
    - Links are not equally busy, whoever sends: which samples of a step are at a host that has too many of them is chance. Of the
      bytes that are sent, an epoch's busiest link has more than the mean one: see evenness().

    Hosts by themselves may be measured at a bad time: a rate that the job kept up for SEEN epochs in a row counts instead where
    it is higher. The rest is as good as single rates are: MPI and waits for the slowest reader of a step are
    not counted. Neither is work that is done in the time of the epoch before, but for that of the first."""

    SEEN = 10
    STEPS, SHARES = 300, 30  # numbers of pairs, and shares of the wanted ones that are loaded, which are looked at

    def __init__(self, found):
        single, self.samples, self.epochs = found["single"], found["samples"], EPOCHS["auto"] - 2
        rows, others = self.samples / found["rows"], found["hosts"] - 1
        chance_ = found["sent_a_sample"] / RECORD_BYTES / others
        self.single, self.pairs = single, rows * others
        self.wanted = 1 - (1 - chance_) ** found["rows"]  # share of all pairs
        self.sent = found["rows"] * chance_ / self.wanted * RECORD_BYTES if self.wanted else 0  # bytes of a wanted pair
        self.sample_s = min(single["sample_s"], self.seen_s(found["later"]))
        self.link = found["hosts"] * single["link"]
        self.even = evenness(self.samples, found["batch"], found["hosts"], found["placement"])
        rate = STORES[found["store"]]
        self.store = jobs.bits(rate) / 8 * PAYLOAD if rate else None
        self.had = max(0, found["rows_read"][0] - rows) + (self.ahead(found["first"], rows) if self.store else 0)

    def ahead(self, first, rows):
        """Loads for the second epoch that the store had time for in the first."""
        idle_s = max(0, self.samples / first - rows * self.single["row_bytes"] / self.store)
        return min(self.wanted * self.pairs, idle_s * self.store / self.single["row_bytes"])

    def seen_s(self, speeds):
        """Of a sample, in the fastest epochs in a row."""
        return min(statistics.mean(1 / speed for speed in speeds[at:at + self.SEEN])
                   for at in range(len(speeds) - self.SEEN + 1))

    def busy(self, left, share):
        """Seconds that each resource is busy in an epoch that finds so many pairs not loaded, and loads a share of what it wants
        of them."""
        loads = self.wanted * left * share
        sent, read = (self.wanted * left - loads) * self.sent, loads * self.single["row_bytes"] if self.store else 0
        return {"processors": self.samples * self.sample_s + sent * self.single["byte_s"] + loads * self.single["row_s"],
                "links": (sent / self.even + read) / self.link, "store": read / self.store if self.store else 0}

    def best(self):
        """The share that each epoch loads."""
        most = max(1, self.pairs - self.had)
        grid = [most * (i / self.STEPS) ** 3 for i in range(self.STEPS + 1)]  # finer where little is left
        shares = [i / self.SHARES for i in range(self.SHARES + 1)]
        steps = [[max(self.busy(left, share).values()) for share in shares] for left in grid]
        after = [[position(left * (1 - self.wanted * share) / most, self.STEPS) for share in shares] for left in grid]
        to_come, choices = [0.0] * len(grid), []
        for _ in range(self.epochs):
            found = [min((step + to_come[at] + (to_come[at + 1] - to_come[at]) * part, i)
                         for i, (step, (at, part)) in enumerate(zip(*row))) for row in zip(steps, after)]
            to_come, choice = (list(column) for column in zip(*found))
            choices.insert(0, choice)
        path, left = [], most
        for choice in choices:
            at, part = position(left / most, self.STEPS)
            path.append((left, shares[choice[min(self.STEPS, at + round(part))]]))
            left *= 1 - self.wanted * path[-1][1]
        return to_come[-1], path, left

    def figures(self):
        seconds, path, left = self.best()
        busy = [self.busy(*step) for step in path]
        return {"bound": self.epochs * self.samples / seconds, "bound_loads": 1 - left / self.pairs,
                "bound_busy_s": {name: sum(epoch[name] for epoch in busy) for name in busy[0]}}


@functools.lru_cache(maxsize=None)
def evenness(samples, batch, hosts, placement):
    """Bytes of the mean link over those of the busiest one, of an epoch whose samples are all sent, so many of a step for each
    host. By drawing; long rows are no different, as far as an epoch has many of them."""
    drawn, total, busiest = random.Random(17), 0, 0
    homes = [number % hosts for number in range(samples)]
    for _ in range(EVENNESS_DRAWS):
        drawn.shuffle(homes)
        out, in_ = [0] * hosts, [0] * hosts
        for first in range(0, samples, hosts * batch):
            step = homes[first:first + hosts * batch]
            if placement == "local":
                surplus = [step.count(host) - len(step) // hosts for host in range(hosts)]
                for host, count in enumerate(surplus):
                    out[host] += max(0, count)
                    in_[host] += max(0, -count)
            else:
                for number, home in enumerate(step):
                    out[home] += home != number % hosts
                    in_[number % hosts] += home != number % hosts
        total += sum(out) / hosts
        busiest += max(out + in_)
    return total / busiest if busiest else 1


def position(share, steps):
    """Where a share lies between points that are (i / steps) ** 3: the point below, and how far it is to the next."""
    at = min(steps - 1, int(share ** (1 / 3) * steps))
    low, high = (at / steps) ** 3, ((at + 1) / steps) ** 3
    return at, (share - low) / (high - low)


def bounded(found):
    """The figures of a case, with the bound that follows from them."""
    figures = Bound(found).figures()
    return {**found, **figures, "share_of_bound": found["auto"] / figures["bound"]}


# --- measuring ----------------------------------------------------------------------------------------------------


def measure(jobs_, arguments, case, path, uri, singles):
    """Jobs of each way in turns, single rates before each and behind the last, and the bytes that `penstock plan` foresees where
    all rows are sent. Files are read before each job: idle page cache may be paged out."""
    hosts = case["hosts"]
    settings = {"dataset.uri": uri, "order.seed": 17, "order.placement": case["placement"],
                "readers.threads": 1, "batch.global_size": hosts * arguments.batch, "readers.cache": "decoded",
                **dict(option.split("=", 1) for option in arguments.set)}
    reports = {way: [] for way in arguments.ways}
    for _ in range(arguments.rounds):
        for way in arguments.ways:
            singles.take()
            jobs.read_files(path)
            reports[way].append(jobs_.reader(hosts, {**settings, "order.epochs": EPOCHS[way], "exchange.way": way}))
    singles.take()
    return reports, jobs_.forecast(hosts, {**settings, "order.epochs": EPOCHS["send"], "exchange.way": "send"})


def rates(report):
    """Of each epoch. One of few steps may end in the same turn of its last reader as the one before, after no time."""
    return [epoch["samples"] / max(epoch["seconds"], 1e-6) for epoch in report["epochs"]]


def later_epochs(report):
    """All but the first and the last one: of the last epoch, the end has no next one behind it."""
    return report["epochs"][1:-1]


def later(report, key):
    """The mean of an epoch's figure, later epochs."""
    return statistics.mean(epoch[key] for epoch in later_epochs(report))


def later_rate(report):
    return later(report, "samples") / later(report, "seconds")


def median_rate(reports):
    return statistics.median(later_rate(report) for report in reports)


def chance(case, samples):
    """The standard error of so many foreseen samples, as a share of them. Which samples of a long row go elsewhere is chance,
    and both forecasts have what is to be expected; rows of one sample are foreseen exactly."""
    return 0 if case["rows"] == 1 else math.sqrt(1 / (case["hosts"] * samples))


def foreseen(case, reports, forecast):
    """Sent bytes over those foreseen: by the plan where all rows are sent; else, for each window, by rank 0. Of all the one
    that is furthest off, but for those of so few samples that chance alone may put them off by 3%."""
    expected = sum(epoch["exchanged_bytes"] for epoch in forecast[1:])
    ratios = [sum(epoch["sent_bytes"] for epoch in report["epochs"][1:len(forecast)]) / expected
              for report in reports["send"] if expected]
    for report in reports["auto"]:
        expected = statistics.mean(epoch["ways"]["foreseen_sent_bytes"] for epoch in later_epochs(report))
        enough = expected > 0.05 * later(report, "samples") * RECORD_BYTES
        if enough and chance(case, len(later_epochs(report)) * expected / RECORD_BYTES) < GOAL_BYTES / 3:
            ratios.append(later(report, "sent_bytes") / expected)
    return max(ratios, key=lambda ratio: abs(ratio - 1), default=1)


def judge(case, reports, forecast, single):
    """The figures of one case."""
    sent = later(reports["send"][0], "sent_bytes") / later(reports["send"][0], "samples")
    chosen = sorted(reports["auto"], key=later_rate)[len(reports["auto"]) // 2]
    speeds, found = rates(chosen), {way: median_rate(reports[way]) for way in reports}
    return bounded({
        **case, **found, "first": speeds[0], "later": speeds[1:-1], "sent_a_sample": sent,
        "auto_over_send": found["auto"] / found["send"],
        "later_over_first": min(speeds[1:-1]) / speeds[0],
        "sent_bytes": later(chosen, "sent_bytes"), "stored_bytes": later(chosen, "stored_bytes"),
        "moved_over_forecast": foreseen(case, reports, forecast), "single": single, "ways": chosen["ways"],
        "each_rows": [epoch["ways"]["each_rows"] for epoch in chosen["epochs"]],
        "rates": [reader["rates"] for reader in chosen["readers"]],
        **{key: [epoch[key] for epoch in chosen["epochs"]] for key in ("cpu_s", "rows_read")},
        "epochs": {way: [rates(report) for report in reports[way]] for way in reports}})


def covers(cases):
    """Whether any two values of two dimensions of the matrix occur together in one of the cases."""
    pairs = {(one, other, case[one], case[other]) for case in cases for one, other in itertools.combinations(range(len(case)), 2)}
    values = list(MATRIX.values())
    return all((one, other, *pair) in pairs for one, other in itertools.combinations(range(len(values)), 2)
               for pair in itertools.product(values[one], values[other]))


def cases_of(arguments):
    """Stores, ratios, rows, hosts and placements: those that are asked for, of the whole matrix, or of the cover."""
    asked = {name: getattr(arguments, name) for name in MATRIX}
    if not arguments.all and not any(asked.values()):
        return COVER
    return tuple(itertools.product(*(asked[name] or values for name, values in MATRIX.items())))


def same_case(case, found):
    return all(found[key] == value for key, value in case.items())


class Results:
    """Cases that are measured; those in --keep, too. A case says all that it depends on."""

    def __init__(self, keep):
        self.keep, self.all, self.missing = keep, [], 0
        self.kept = [json.loads(text) for text in keep.read_text(encoding="utf-8").splitlines()] if keep and keep.exists() else []

    def recall(self, case):
        """Whether the case has been measured, with all that the bound needs."""
        found = next((found for found in self.kept if same_case(case, found) and "rows_read" in found), None)
        if found:
            self.all.append(bounded(found))
        return bool(found)

    def add(self, found):
        self.all.append(found)
        if self.keep:
            with self.keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


def measure_all(arguments):
    jobs_, results, end = Jobs(arguments), Results(arguments.keep), time.monotonic() + arguments.budget
    tcp_s = scaling.tcp_cost(jobs_)
    for kind, ratio, rows, hosts, placement in cases_of(arguments):
        case = {"store": kind, "ratio": ratio, "rows": rows, "hosts": hosts, "placement": placement, "rate": arguments.rate,
                "samples": arguments.samples, "batch": arguments.batch, "rounds": arguments.rounds, "set": arguments.set}
        if results.recall(case):
            continue
        if time.monotonic() > end:
            results.missing += 1
            continue
        path, singles = make_dataset(jobs_, arguments.samples, ratio, rows), Singles(jobs_, arguments, ratio, rows, hosts)
        store = Store(jobs_.work, kind)
        try:
            measured = measure(jobs_, arguments, case, path, store.uri(path), singles)
            found = judge(case, *measured, singles.figures(tcp_s))
        finally:
            store.close()
        results.add(found)
        say(" ".join(line(found)))
    if results.missing:
        say(f"ways: {results.missing} cases are not measured: the end of --budget")
    return results.all


# --- what came of it ----------------------------------------------------------------------------------------------

COLUMNS = (("store", 6), ("ratio", 5), ("rows", 4), ("hosts", 5), ("placement", 9), ("first", 7), ("later", 7),
           ("least", 7), ("send", 7), ("each", 7), ("bound", 7), ("share", 5), ("/send", 5), ("sent MiB", 8), ("read MiB", 8),
           ("foreseen", 8))


def line(found):
    values = (found["store"], found["ratio"], found["rows"], found["hosts"], found["placement"],
              f"{found['first']:,.0f}", f"{found['auto']:,.0f}", f"{min(found['later']):,.0f}",
              f"{found['send']:,.0f}", f"{found.get('each', 0):,.0f}", f"{found['bound']:,.0f}",
              f"{found['share_of_bound']:.2f}", f"{found['auto_over_send']:.2f}", f"{found['sent_bytes'] / 2**20:,.0f}",
              f"{found['stored_bytes'] / 2**20:,.0f}", f"{found['moved_over_forecast']:.3f}")
    return [f"{value:>{width}}" for value, (_, width) in zip(values, COLUMNS)]


def evaluate(arguments, results):
    print(f"\nways: {arguments.samples:,} samples of {RECORD_BYTES:,} bytes, {arguments.batch} samples of a step a host, "
          f"links of {arguments.rate}; samples/s of all hosts")
    print(" ".join(f"{name:>{width}}" for name, width in COLUMNS))
    for found in results:
        print(" ".join(line(found)))
    print("\nfirst, later: epochs with the ways chosen while running; the job in the middle. least: of the later ones. send, each: "
          "later epochs, all rows one way.\nbound: of the best mixture of these two, over all later epochs, from single rates; "
          "rows that a reader has loaded stay with it. /send: as chosen over "
          "send. sent, read: of all hosts in a later epoch.\nforeseen: sent bytes over what the plan (send) or rank 0 (as "
          "chosen) foresaw, where enough is sent for chance to be below 3%.")
    final = {"least_share_of_bound": min(found["share_of_bound"] for found in results),
             "least_later_over_first": min(found["later_over_first"] for found in results),
             "moved_over_forecast": max((found["moved_over_forecast"] for found in results),
                                        key=lambda ratio: abs(ratio - 1))}
    for name, goal in GOALS.items():
        print(f"{name} {final[name]:.3f}, at least {goal:.2f}: {'reached' if final[name] >= goal else 'missed'}")
    off = abs(final["moved_over_forecast"] - 1)
    print(f"moved_over_forecast off by {off:.1%}, at most {GOAL_BYTES:.0%}: {'reached' if off <= GOAL_BYTES else 'missed'}")
    if arguments.plots:
        jobs.save_plots(arguments.plots, "ways", results)
    print(f"as chosen over send: least {min(found['auto_over_send'] for found in results):.2f}")
    print(json.dumps({name: round(value, 4) for name, value in final.items()}))


def main():
    arguments = parse()
    assert covers(COVER)
    arguments.work.mkdir(parents=True, exist_ok=True)
    if "CLUSTER_NAME" not in os.environ:
        jobs.on_new_hosts(arguments, max(hosts for *_, hosts, _ in cases_of(arguments)), ["--rate", arguments.rate])
    try:
        evaluate(arguments, measure_all(arguments))
    except Failed as failure:
        say(f"ways: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
