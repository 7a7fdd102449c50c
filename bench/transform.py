#!/usr/bin/env python3
"""A transform beside the readers: what handing a batch through it costs, and what it does beside workers of other loaders.

    bench/run.sh transform [OPTION...]

  none, identity  samples of 160 KiB from memory, taken by penstock-trainer: without a transform, and through one that hands
                  them on
  flip            pictures, flipped, cut and made float16 by NumPy in `--processes` processes: of Penstock, of a PyTorch DataLoader, of
                  grain, of SPDL (threads), and of LitData. All keep decoded data; the first epoch does not count
  tokens          texts through PyPI's tokenizers, where that is installed

Samples a second, and samples for each second of CPU time of all processes of the loader and the trainer; of flip also the
trainer's own CPU time beside that without a transform. Rounds make each measurement once, one after another; figures are
medians. The last line is one JSON object: identity_share, and of flip penstock, best_peer (samples for a CPU second) and
trainer_cpu_share.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

import environments
import jobs
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
PEERS = ("dataloader", "grain", "spdl", "litdata")


def settle(arguments):
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.environments = arguments.environments or arguments.work / "environments"


def make(arguments, name, *options):
    path = arguments.work / f"{name}-{arguments.samples}.zarr"
    if not path.exists():
        say(f"writing {path}")
        part = path.with_suffix(".part")
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "--samples", arguments.samples, *options], 900)
        part.rename(path)
    return path


def python_of(arguments):
    """One with PyTorch and tensorstore; or None, and why."""
    if not arguments.peers:
        return None, "left out by --no-peers"
    has = subprocess.run([sys.executable, "-c", "import torch, numpy, tensorstore"], capture_output=True, check=False).returncode == 0
    try:
        return sys.executable if has else environments.prepare(arguments.environments, "torch"), None
    except environments.Missing as reason:
        return None, str(reason)


def settings_of(arguments, dataset, what, epochs, **more):
    settings = {"dataset.uri": dataset, "batch.global_size": arguments.batch, "order.epochs": epochs, **more}
    if what:
        settings["delivery.transform_run"] = f"{arguments.python} {BENCH / 'transform_step.py'} {what}"
        settings["delivery.transform_processes"] = arguments.processes
    return settings


def job(arguments, settings, trainer):
    words, environment = jobs.one_reader(arguments.build, settings)
    environment["PYTHONPATH"] = str(BENCH.parent / "python")
    environment["PENSTOCK_LIBRARY"] = str(next(arguments.build.glob("**/libpenstock.so")))
    run([*words, "--", *trainer], arguments.timeout, env=environment)


def from_memory(arguments, dataset, what):
    """Samples a second of all epochs but the first, as penstock-trainer takes them."""
    result = arguments.work / "transform.json"
    settings = settings_of(arguments, dataset, what, arguments.epochs, **{"dataset.fields.latents": "base_frames"})
    job(arguments, settings, [arguments.build / "bin/penstock-trainer", f"--json={result}"])
    epochs = json.loads(result.read_text(encoding="utf-8"))["epochs"][1:]
    return arguments.samples // arguments.batch * arguments.batch * len(epochs) / sum(epoch["seconds"] for epoch in epochs)


def through_penstock(arguments, dataset, what):
    """A job's CPU time is that of its processes, less what a job of one epoch takes."""
    result, taken = arguments.work / "transform.json", {}
    for epochs in (2, arguments.epochs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        job(arguments, settings_of(arguments, dataset, what, epochs),
            [arguments.python, BENCH / "transform_loop.py", "penstock", "--epochs", epochs, "--result", result])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken[epochs] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = json.loads(result.read_text(encoding="utf-8"))
    told["cpu_seconds"] = (taken[arguments.epochs] - taken[2]) * (arguments.epochs - 1) / (arguments.epochs - 2)
    return told


def through_peer(arguments, dataset, what, name, python):
    result = arguments.work / "transform.json"
    run([python, BENCH / "transform_loop.py", name, "--what", what, "--dataset", dataset, "--samples", arguments.samples, "--batch",
         arguments.batch, "--workers", arguments.processes, "--epochs", arguments.epochs, "--result", result], arguments.timeout,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(result.read_text(encoding="utf-8"))


def measure(arguments, datasets, peers, figures):
    for what in (None, "identity"):
        figures.setdefault(what or "none", []).append(from_memory(arguments, datasets["latents"], what))
    for what in arguments.steps:
        found = {"penstock": through_penstock(arguments, datasets[what], what)}
        for name in PEERS if peers else ():
            try:
                found[name] = through_peer(arguments, datasets[what], what, name, peers)
            except Failed as reason:
                figures.setdefault("missing", {})[f"{what} {name}"] = str(reason)
        if what == "flip":
            found["without"] = through_penstock(arguments, datasets[what], None)
        for name, told in found.items():
            figures.setdefault((what, name), []).append(told)


def print_table(figures):
    median = statistics.median
    print(f"\n{'':22} {'samples/s':>10} {'a CPU second':>13} {'trainer, us':>12}")
    for name in ("none", "identity"):
        print(f"{name:22} {median(figures[name]):10,.0f}")
    for key in [key for key in figures if isinstance(key, tuple)]:
        told = figures[key]
        rate, share = (median(one["samples"] / one[kind] for one in told) for kind in ("seconds", "cpu_seconds"))
        own = median(one["own_cpu_seconds"] / one["samples"] for one in told)
        print(f"{' '.join(key):22} {rate:10,.0f} {share:13,.0f} {own * 1e6:12.1f}")
    for name, reason in figures.get("missing", {}).items():
        print(f"{name:22} {'-':>10}  {reason}")


def summary(figures):
    median = statistics.median

    def of(name, value):
        told = figures.get(("flip", name))
        return median(value(one) for one in told) if told else None

    a_second = {name: of(name, lambda one: one["samples"] / one["cpu_seconds"]) for name in ("penstock", *PEERS)}
    own = [of(name, lambda one: one["own_cpu_seconds"] / one["samples"]) for name in ("penstock", "without")]
    peers = [value for name, value in a_second.items() if name != "penstock" and value]
    return {"identity_share": round(median(figures["identity"]) / median(figures["none"]), 3), "penstock": round(a_second["penstock"]),
            "best_peer": round(max(peers)) if peers else None, "trainer_cpu_share": round(own[0] / own[1], 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--environments", type=pathlib.Path, help="where the peers are installed (environments in --work)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2048, help="of each dataset (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step (%(default)s)")
    parser.add_argument("--epochs", type=int, default=12, help="of each measurement, the first included (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="of the transform, and of the peers (%(default)s)")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--timeout", type=float, default=180, help="seconds that one job may take (%(default)s)")
    arguments = parser.parse_args()
    settle(arguments)
    peers, reason = python_of(arguments)
    arguments.python = peers or sys.executable
    has_tokenizers = subprocess.run([arguments.python, "-c", "import tokenizers"], capture_output=True, check=False).returncode == 0
    arguments.steps = ["flip", "tokens"] if has_tokenizers and peers else ["flip"]
    datasets = {"latents": make(arguments, "latents"),
                "flip": make(arguments, "pictures", "--layout", "plain", "--dtype", "uint8", "--shape", "96,96,3", "--chunk", "16"),
                "tokens": make(arguments, "texts", "--layout", "plain", "--dtype", "int64", "--shape", "50", "--chunk", "64")}
    figures = {}
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        measure(arguments, datasets, peers, figures)
    if reason:
        figures.setdefault("missing", {})["peers"] = reason
    if not has_tokenizers:
        figures.setdefault("missing", {})["tokens"] = "no tokenizers"
    print_table(figures)
    print(json.dumps(summary(figures)))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"transform: {failure}")
