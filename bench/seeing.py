#!/usr/bin/env python3
"""What it costs a run to be looked at: metrics that are scraped, traces, and `penstock top`.

    bench/run.sh seeing [OPTION...]

One reader delivers from memory to one penstock-trainer --touch, as fast as it can: samples of 160 KiB, or with --small of 64
bytes, where each step and each round costs most. Each round runs all variants, one after another, in an order that turns:

  off      as a run is by itself: its metrics page is written four times a second, and nobody reads it
  metrics  metrics.listen, scraped each second
  trace    penstock-reader --trace and PENSTOCK_TRACE: every span is noted from beginning to end
  top      penstock top looks each second

A ratio is that of a variant's samples/s to off's of the same round, of all epochs but the first; cpu is the ratio of the
reader's processor time. Figures are medians. The goal is a ratio of at least 0.99. The last line is one JSON object.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import urllib.request

from jobs import is_open_mpi
from programs import Failed, run, say

VARIANTS = ("off", "metrics", "trace", "top")
GOAL = 0.99


def make_dataset(arguments):
    """Written under another name first: a dataset that is there is complete."""
    path = arguments.work / f"seeing-{'small' if arguments.small else 'latents'}-{arguments.samples}.zarr"
    if not path.exists():
        part = path.with_suffix(".part")
        layout = ["--layout", "plain", "--shape", "16", "--chunk", "64"] if arguments.small else []
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "--samples", arguments.samples, *layout], 600)
        part.rename(path)
    return path


class Looks:
    """What looks at the run of a variant, each second, while there is one."""

    def __init__(self, arguments, variant, run_dir):
        self.run_dir, self.ended = run_dir, threading.Event()
        command = [arguments.build / "bin/penstock", "top", run_dir, "--json"]
        self.work = {"metrics": self.scrape, "top": lambda: self.top(command)}.get(variant)
        self.count = 0

    def scrape(self):
        try:
            address = json.loads((self.run_dir / "reader-0.json").read_text(encoding="ascii"))[0]["targets"][0]
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                self.count += answer.read().startswith(b"#")
        except OSError:
            pass  # it has not begun, or has ended

    def top(self, command):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as top:
            self.count += sum(1 for _ in top.stdout)  # until the run ends

    def _go_on(self):
        while not self.ended.wait(1 if self.count else 0.05):
            self.work()

    def __enter__(self):
        if self.work:
            self._thread = threading.Thread(target=self._go_on)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        if self.work:
            self._thread.join()


def measure(arguments, dataset, variant):
    """Samples a second of all epochs but the first, and the reader's processor time."""
    folder = arguments.work / "seeing-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment, mpirun = dict(os.environ), ["mpirun", "-np", 1]
    if is_open_mpi():  # wants a word before it starts as root or with more ranks than cores
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        mpirun += ["--oversubscribe", "--bind-to", "none"]
    options = {"dataset.uri": dataset, "batch.global_size": arguments.batch, "batch.last": "drop", "delivery.trainers": 1,
               "delivery.run_dir": folder / "run", "order.epochs": arguments.epochs, "readers.threads": arguments.threads}
    command = [*mpirun, arguments.build / "bin/penstock-reader", "--quiet", "--report", folder / "report.json"]
    if variant == "metrics":
        options["metrics.listen"] = "127.0.0.1:0"
    if variant == "trace":
        command += ["--trace", folder / "reader.trace"]
        environment["PENSTOCK_TRACE"] = str(folder / "trainer.trace")
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    with Looks(arguments, variant, folder / "run") as looks:
        run([*command, "--", arguments.build / "bin/penstock-trainer", "--touch", f"--json={folder}/trainer.json"], 600,
            env=environment)
    if looks.work and looks.count == 0:
        raise Failed(f"{variant}: the run was over before anything was seen: take more --epochs")
    epochs = json.loads((folder / "trainer.json").read_text(encoding="utf-8"))["epochs"][1:]
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return (sum(epoch["samples"] for epoch in epochs) / sum(epoch["seconds"] for epoch in epochs),
            report["readers"][0]["metrics"]["cpu_seconds_total"])


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh seeing", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets and reports")
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--small", action="store_true", help="samples of 64 bytes")
    parser.add_argument("--samples", type=int, help="of the dataset (3000; small: 400000)")
    parser.add_argument("--epochs", type=int, help="of a run (60; small: 12)")
    parser.add_argument("--batch", type=int, default=64, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the reader (%(default)s)")
    arguments = parser.parse_args()
    arguments.samples = arguments.samples or (400000 if arguments.small else 3000)
    arguments.epochs = arguments.epochs or (12 if arguments.small else 60)
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    dataset = make_dataset(arguments)
    rates, cpu = {name: [] for name in VARIANTS}, {name: [] for name in VARIANTS}
    measure(arguments, dataset, "off")  # and forgotten: files and programs are in memory from here on
    for number in range(arguments.rounds):
        for place in range(len(VARIANTS)):
            variant = VARIANTS[(place + number) % len(VARIANTS)]
            rate, seconds = measure(arguments, dataset, variant)
            rates[variant].append(rate)
            cpu[variant].append(seconds)
        say(f"round {number + 1} of {arguments.rounds}: " + ", ".join(f"{name} {rates[name][-1]:,.0f}" for name in VARIANTS))
    result = {"off": {"samples_per_s": round(statistics.median(rates["off"]), 1)}}
    for variant in VARIANTS[1:]:
        ratios = [a / b for a, b in zip(rates[variant], rates["off"])]
        costs = [a / b for a, b in zip(cpu[variant], cpu["off"])]
        result[variant] = {"ratio": round(statistics.median(ratios), 4), "cpu": round(statistics.median(costs), 4)}
        print(f"{variant:8} {result[variant]['ratio']:.3f} of the samples/s ({min(ratios):.3f} to {max(ratios):.3f}), "
              f"{result[variant]['cpu']:.3f} of the reader's processor time; goal {GOAL}: "
              f"{'reached' if result[variant]['ratio'] >= GOAL else 'missed'}")
    print(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"seeing: {failed}")
