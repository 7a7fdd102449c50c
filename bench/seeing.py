#!/usr/bin/env python3
"""What it costs a run to be looked at: metrics that are scraped, traces, and `penstock top`.

    bench/run.sh seeing [OPTION...]

One reader delivers from memory to one trainer, as fast as it can: samples of 160 KiB, or with --small of 64 bytes, where each
step and each round costs most. One run for each way of looking. It is looked at for two seconds, then left alone for two, and
so on, since two runs of the same program differ by more than looking costs:

  metrics  metrics.listen, scraped each second
  trace    penstock trace
  top      penstock top, each second
  nothing  nobody looks: how far two neighbouring intervals differ by themselves

A ratio is that of the samples/s of an interval to the mean of its two neighbours, and the figures are medians, with their
standard error. The goal is a ratio of at least 0.99. The last line is one JSON object.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

import jobs
from commands import Failed, run, say

sys.path.insert(0, str(jobs.BENCH.parent / "python"))
INTERVAL_S, SETTLE_S = 2.0, 0.4  # the beginning of an interval is not counted
GOAL = 0.99
SCRAPE = """
import pathlib, sys, time, urllib.request
while True:
    assert urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().startswith(b"#")
    time.sleep(1)
"""


def make_dataset(arguments):
    """Written under another name first: a dataset that is there is complete."""
    path = arguments.work / f"seeing-{'small' if arguments.small else 'latents'}-{arguments.samples}.zarr"
    if not path.exists():
        part = path.with_suffix(".part")
        layout = ["--layout", "plain", "--shape", "16", "--chunk", "64"] if arguments.small else []
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "--samples", arguments.samples, *layout], 600)
        part.rename(path)
    return path


class Looks(threading.Thread):
    """Looks at a run in each second interval. A program that looks all the time is stopped in the others."""

    def __init__(self, arguments, variant, run_dir, start):
        super().__init__()
        self.penstock, self.run_dir, self.start_s, self.ended = arguments.build / "bin/penstock", run_dir, start, threading.Event()
        self.variant, self.intervals, self.failed = variant, arguments.intervals, None

    def command(self):
        if self.variant == "metrics":
            targets = json.loads((self.run_dir / "reader-0.json").read_text(encoding="ascii"))[0]["targets"]
            return [sys.executable, "-c", SCRAPE, targets[0]]
        if self.variant == "trace":
            return [self.penstock, "trace", self.run_dir, "--seconds", "2", "--output", self.run_dir.parent / "trace.json"]
        return [self.penstock, "top", "--json", self.run_dir]

    def run(self):
        program = None
        for number in range(self.intervals):
            if self.ended.wait(max(0, self.start_s + number * INTERVAL_S - time.monotonic())):
                break
            if self.variant == "nothing":
                continue
            if number % 2 == 0:
                if program and self.variant != "trace":
                    program.send_signal(signal.SIGSTOP)
                continue
            if program and program.poll() not in (None, 0):
                self.failed = f"{self.variant}: {program.args[0]} ended with {program.returncode}"
                return
            if program is None or self.variant == "trace":
                program = subprocess.Popen([str(word) for word in self.command()],  # pylint: disable=consider-using-with
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            else:
                program.send_signal(signal.SIGCONT)
        if program and program.poll() is None:
            program.kill()
            program.wait()
        if program is None and self.variant != "nothing":
            self.failed = f"{self.variant}: nobody has looked"


def consume(loader, start, intervals):
    """Samples of each interval, behind its beginning."""
    counts = [0] * (intervals + 1)
    for batch in loader:
        number, phase = divmod(time.monotonic() - start, INTERVAL_S)
        if number >= intervals:
            break
        if phase >= SETTLE_S and number >= 0:
            counts[int(number)] += batch.sample_count
    return counts[:-1]


def measure(arguments, dataset, variant):
    """Samples a second of all intervals; those of odd numbers are looked at."""
    import penstock  # pylint: disable=import-outside-toplevel
    folder = arguments.work / "seeing-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    options = {"dataset.uri": dataset, "batch.global_size": arguments.batch, "batch.last": "drop", "delivery.trainers": 1,
               "delivery.run_dir": folder / "run", "order.epochs": 0, "readers.threads": arguments.threads}
    if variant == "metrics":
        options["metrics.listen"] = "127.0.0.1:0"
    command, environment = jobs.one_reader(arguments.build, options)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as readers:
        try:
            with penstock.connect(run_dir=folder / "run") as loader:
                start = time.monotonic() + 2 * INTERVAL_S  # all is in memory by then
                looks = Looks(arguments, variant, folder / "run", start)
                looks.start()
                try:
                    counts = consume(loader, start, arguments.intervals)
                finally:
                    looks.ended.set()
                    looks.join()
        finally:
            readers.terminate()
    if looks.failed:
        raise Failed(looks.failed)
    return [count / (INTERVAL_S - SETTLE_S) for count in counts]


def ratios(rates):
    return [2 * rates[number] / (rates[number - 1] + rates[number + 1]) for number in range(1, len(rates) - 1, 2)]


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh seeing", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets and reports")
    parser.add_argument("--intervals", type=int, default=41, help="of two seconds, of each run (%(default)s)")
    parser.add_argument("--small", action="store_true", help="samples of 64 bytes")
    parser.add_argument("--samples", type=int, help="of the dataset (3000; small: 400000)")
    parser.add_argument("--batch", type=int, default=64, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the reader (%(default)s)")
    arguments = parser.parse_args()
    arguments.samples = arguments.samples or (400000 if arguments.small else 3000)
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    os.environ["PENSTOCK_LIBRARY"] = str(next(arguments.build.glob("**/libpenstock.so")))
    dataset, result = make_dataset(arguments), {}
    for variant in ("metrics", "trace", "top", "nothing"):
        rates = measure(arguments, dataset, variant)
        found = ratios(rates)
        middle, off = statistics.median(found), 1.25 * statistics.pstdev(found) / math.sqrt(len(found))
        result[variant] = {"ratio": round(middle, 4), "error": round(off, 4), "samples_per_s": round(statistics.median(rates))}
        say(f"{variant:8} {middle:.3f} +- {off:.3f} of the samples/s, {statistics.median(rates):,.0f}"
            + (f"; goal {GOAL}: {'reached' if middle >= GOAL else 'missed'}" if variant != "nothing" else ""))
    print(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"seeing: {failed}")
