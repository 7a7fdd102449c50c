#!/usr/bin/env python3
"""Four trainers of a node that share each batch, beside four that have a quarter of it each, and beside one that broadcasts.

    bench/run.sh groups [OPTION...]

  independent  four penstock-trainers without a mesh: each has a quarter of the global batch
  group        the same four as one group (delivery.mesh): each has all of the batch, in one ring
  broadcast    four processes of PyTorch, of which the first has the batch from Penstock, and sends it to the others with
               torch.distributed.broadcast over gloo (bench/groups_peer.py)

All deliver the same samples, from memory: the rate is that of all epochs but the first, in global batches a second.
ring_bytes_per_node is what the group's ring takes; store_bytes_over_dataset what two readers read, beside the stored size,
whose groups cut a grid as its chunks do. Rounds make each measurement once, one after another; figures are medians. The
last line is one JSON object; broadcast_peer is null where PyTorch is missing.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import environments
import jobs
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
TRAINERS = 4
GRID = (64, 256, 64)  # samples of float32 [256, 64], in two chunks each


def settle(arguments):
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.epochs = 1 + max(1, arguments.steps * arguments.batch // arguments.samples)


def make_dataset(arguments):
    path = arguments.work / f"latents-{arguments.samples}.zarr"
    if not path.exists():
        say(f"writing {path}")
        part = path.with_suffix(".part")
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "--samples", arguments.samples], 900)
        part.rename(path)
    return path


def make_grid(arguments):
    """Raw chunks of half a sample."""
    path, (samples, rows, columns) = arguments.work / "grid.zarr", GRID
    if path.exists():
        return path
    array = path.with_suffix(".part") / "x"
    array.mkdir(parents=True, exist_ok=True)
    (array.parent / ".zgroup").write_text('{"zarr_format": 2}', encoding="ascii")
    about = {"zarr_format": 2, "shape": GRID, "chunks": [1, rows // 2, columns], "dtype": "<f4", "compressor": None, "filters": None,
             "fill_value": 0, "order": "C"}
    (array / ".zarray").write_text(json.dumps(about), encoding="ascii")
    for sample in range(samples):
        for half in range(2):
            (array / f"{sample}.{half}.0").write_bytes(os.urandom(rows // 2 * columns * 4))
    array.parent.rename(path)
    return path


def deliver(arguments, settings, trainer, readers=1):
    """A job; returns the reader's report, and what the trainer of rank 0 wrote."""
    report, figures = arguments.work / "groups-report.json", arguments.work / "groups-trainer-{rank}.json"
    words, environment = jobs.one_reader(arguments.build, settings)
    words[words.index("-np") + 1] = str(readers)
    environment["PENSTOCK_LIBRARY"] = str(next(arguments.build.glob("**/libpenstock.so")))
    words += ["--report", str(report), "--", *(str(word).format(figures=figures) for word in trainer)]
    run(words, arguments.timeout, env=environment)
    return json.loads(report.read_text(encoding="utf-8")), json.loads(
        pathlib.Path(str(figures).format(rank=0)).read_text(encoding="utf-8"))


def settings_of(arguments, dataset, trainers, **more):
    return {"dataset.uri": dataset, "dataset.fields.latents": "base_frames", "batch.global_size": arguments.batch,
            "order.epochs": arguments.epochs, "delivery.trainers": trainers, "readers.threads": arguments.threads, **more}


def rate(arguments, figures):
    """Batches a second of all epochs but the first."""
    epochs = figures["epochs"][1:]
    steps = arguments.samples // arguments.batch
    return steps * len(epochs) / sum(epoch["seconds"] for epoch in epochs)


def trainer_of(arguments):
    touch = ["--touch"] if arguments.touch else []
    return [arguments.build / "bin/penstock-trainer", *touch, "--json={figures}"]


def measure(arguments, dataset, python, figures):
    trainer = trainer_of(arguments)
    _, told = deliver(arguments, settings_of(arguments, dataset, TRAINERS), trainer)
    figures["independent"].append(rate(arguments, told))
    mesh = {"delivery.mesh": f"dp:1,tp:{TRAINERS}", "delivery.data": "dp"}
    report, told = deliver(arguments, settings_of(arguments, dataset, TRAINERS, **mesh), trainer)
    figures["group"].append(rate(arguments, told))
    figures["ring_bytes"].append(report["ring_bytes"])
    if python:
        peer = [python, BENCH / "groups_peer.py", TRAINERS, "{figures}", *(["--touch"] if arguments.touch else [])]
        _, told = deliver(arguments, settings_of(arguments, dataset, 1), peer)
        figures["broadcast"].append(rate(arguments, told))
    say(", ".join(f"{name} {figures[name][-1]:,.1f}" for name in ("independent", "group", "broadcast") if figures[name]))


def store_share(arguments):
    """What two readers read of a grid in two epochs, beside what it takes in the store."""
    grid = make_grid(arguments)
    settings = {"dataset.uri": grid, "dataset.fields.x": "x", "batch.global_size": 8, "order.epochs": 2,
                "delivery.trainers": 2, "delivery.mesh": "dp:1,sp:2", "delivery.data": "dp", "dataset.cuts.rows.over": "sp",
                "dataset.fields.x.cut.0": "rows", "readers.threads": 1}
    report, _ = deliver(arguments, settings, trainer_of(arguments), readers=2)
    stored = sum(file.stat().st_size for file in (grid / "x").iterdir() if not file.name.startswith("."))
    return sum(epoch["stored_bytes"] for epoch in report["epochs"]) / stored


def python_of(arguments):
    """One with PyTorch; or None, and why."""
    if not arguments.peers:
        return None, "left out by --no-peers"
    has_torch = subprocess.run([sys.executable, "-c", "import torch, numpy"], capture_output=True, check=False).returncode == 0
    try:
        return sys.executable if has_torch else environments.prepare(arguments.environments, "torch"), None
    except environments.Missing as reason:
        return None, str(reason)


def print_table(figures, reason):
    print(f"\n{'batches/s':12} {'median':>9} {'min':>9} {'max':>9} {'to group':>9}")
    group = statistics.median(figures["group"])
    for name in ("independent", "group", "broadcast"):
        values = figures[name]
        if values:
            median = statistics.median(values)
            print(f"{name:12} {median:9.1f} {min(values):9.1f} {max(values):9.1f} {median / group:9.2f}")
    if reason:
        print(f"{'broadcast':12} {'-':>9}  {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--environments", type=pathlib.Path, help="where PyTorch is installed (environments in --work)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=512, help="of 160 KiB (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step (%(default)s)")
    parser.add_argument("--steps", type=int, default=800, help="that are timed (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the reader (%(default)s)")
    parser.add_argument("--touch", action="store_true", help="trainers read a byte of each page")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that one job may take (%(default)s)")
    arguments = parser.parse_args()
    settle(arguments)
    arguments.environments = arguments.environments or arguments.work / "environments"
    dataset = make_dataset(arguments)
    python, reason = python_of(arguments)
    figures = {name: [] for name in ("independent", "group", "broadcast", "ring_bytes")}
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        measure(arguments, dataset, python, figures)
    print_table(figures, reason)
    medians = {name: statistics.median(values) if values else None for name, values in figures.items()}
    print(json.dumps({"independent": round(medians["independent"], 1), "group": round(medians["group"], 1),
                      "broadcast_peer": medians["broadcast"] and round(medians["broadcast"], 1),
                      "ring_bytes_per_node": int(medians["ring_bytes"]), "store_bytes_over_dataset": store_share(arguments)}))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"groups: {failure}")
