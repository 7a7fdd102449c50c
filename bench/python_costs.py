#!/usr/bin/env python3
"""What a trainer in Python costs, beside penstock-trainer: batches of 64 samples of 160 KiB from memory, and tiny
batches, four samples of 64 bytes each.

    bench/run.sh python

One reader, one trainer. All rates are samples/s behind the first epoch; the trainer's and Python's runs come in turns.
The last line of output is one JSON object of medians.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import jobs
from jobs import say

LOOP = pathlib.Path(__file__).resolve().parent / "python_loop.py"
CASES = {"": {"samples": 512, "epochs": 40, "batch": 64, "synth": {"chunk": 8, "codec": "none"}},
         "tiny_": {"samples": 100000, "epochs": 4, "batch": 4,
                   "synth": {"layout": "plain", "chunk": 10000, "shape": 16, "codec": "none"}}}


def run(arguments, case, dataset, program):
    """What the trainer printed."""
    settings = {"dataset.uri": dataset, "order.epochs": case["epochs"], "batch.global_size": case["batch"],
                "delivery.slots": 8, **dict(option.split("=", 1) for option in arguments.set)}
    command = [arguments.build.resolve() / "bin" / "penstock-reader", "--quiet"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run([str(word) for word in (*command, "--", *program)], capture_output=True, text=True,
                          timeout=arguments.timeout, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def trainer_rate(report):
    later = report["epochs"][1:]
    return sum(epoch["samples"] for epoch in later) / sum(epoch["seconds"] for epoch in later)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument("--few", action="store_true", help="a hundredth of the batches, to see that it runs")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    arguments = parser.parse_args()
    jobs_ = jobs.Jobs(arguments)
    library = next(arguments.build.resolve().glob("**/libpenstock.so"))
    os.environ["PENSTOCK_LIBRARY"] = str(library)
    found = {name: [] for name in ("trainer", "python", "tiny_trainer", "tiny_python", "tiny_bound")}
    for number in range(arguments.rounds):
        for prefix, case in CASES.items():
            if arguments.few:
                case = {**case, "samples": max(64, case["samples"] // 100), "epochs": 3}
            dataset = jobs_.synth(f"python-{prefix}{case['samples']}.zarr", case["samples"], **case["synth"])
            trainer = [jobs_.program("penstock-trainer"), "--json"]
            found[f"{prefix}trainer"].append(trainer_rate(run(arguments, case, dataset, trainer)))
            found[f"{prefix}python"].append(run(arguments, case, dataset, [sys.executable, LOOP]))
        batches = 1000 if arguments.few else 100000
        bound = subprocess.run([sys.executable, LOOP, "--bound", str(batches)], capture_output=True, text=True, check=True)
        found["tiny_bound"].append(json.loads(bound.stdout))
        say(f"round {number + 1} of {arguments.rounds}: " +
            ", ".join(f"{name} {values[-1]:,.0f}" for name, values in found.items()))
    medians = {name: round(statistics.median(values)) for name, values in found.items()}
    for prefix, goal in (("", 0.95), ("tiny_", 0.9)):
        ratio = medians[f"{prefix}python"] / medians[f"{prefix}trainer"]
        say(f"{prefix}python / {prefix}trainer: {ratio:.2f} (goal {goal})")
    say(f"tiny_python / tiny_bound: {medians['tiny_python'] / medians['tiny_bound']:.2f}")
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
