#!/usr/bin/env python3
"""Programs that people train with, fed by their own loader at its documented best settings, and by Penstock.

    bench/run.sh programs [PROGRAM...] [OPTION...]

Each program is a folder of python/examples/programs: data.py writes a dataset with the package's own writer, train.py trains on
it with two processes, or takes the batches alone (mode idle): there the loader is what bounds it. Of each loader: samples/s
from the first batch to the last one, CPU seconds a thousand samples meanwhile, seconds and CPU seconds from the start to the
first batch, and peak memory of all processes, readers among them. Rounds run both, one after another; figures are medians. What
cannot be installed is skipped, with the reason. The last line is one JSON object: for each program and mode what Penstock is
beside the own loader, {"samples": times as many a second, "cpu": times fewer CPU seconds, "first": times sooner, "memory":
share}.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import environments
from commands import Failed, run, say
from process_tree import Watched

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "python" / "examples" / "programs"
SCALE, SCALES = 4, {"lerobot": 2, "scvi": 8, "torchtitan": 2}  # a run takes seconds, and not minutes
LOADERS = ("own", "penstock")
MODES = {"training": [], "idle": ["--idle"]}


def names():
    return sorted(path.parent.name for path in PROGRAMS.glob("*/train.py"))


def environment_of(arguments):
    library = next(arguments.build.glob("**/libpenstock.so"))
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PENSTOCK_LIBRARY": str(library), "OMP_NUM_THREADS": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def make(arguments, name, python):
    """The folder with the program's data; written under another name first: one that is there is complete."""
    scale = arguments.scale or SCALES.get(name, SCALE)
    folder = arguments.work / f"program-{name}-{scale}"
    if not folder.exists():
        say(f"{name}: writing {folder}")
        part = folder.with_suffix(".part")
        run(["rm", "-rf", part], 60)
        run([python, PROGRAMS / name / "data.py", part, "--scale", scale], arguments.timeout, env=environment_of(arguments))
        part.rename(folder)
    return folder


def train(arguments, python, program, loader, mode):
    """What one run says of itself, {first_s, samples, seconds}, and what it took. `program`: train.py and its folder of data."""
    script, folder = program
    words = [script, folder, "--loader", loader, *MODES[mode]]
    command = ([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words] if loader == "own" else
               [arguments.build / "bin/penstock-run", "-c", folder / "run.yaml", "--", python, *words])
    result = arguments.work / "program.json"
    first = result.with_suffix(".json.first")
    for path in (result, first):
        path.unlink(missing_ok=True)
    with Watched(moments=(first, result)) as watched:
        run(command, arguments.timeout, cwd=folder,
            env={**environment_of(arguments), **watched.environment, "RESULT": str(result), "STARTED": str(time.time())})
    return {**json.loads(result.read_text(encoding="utf-8")), "cpu_first_s": watched.cpu_s_at[first],
            "cpu_s": watched.cpu_s_at[result] - watched.cpu_s_at[first], "bytes": watched.most_bytes}


def figures_of(told):
    def median(figure):
        return statistics.median(map(figure, told))

    return {"rate": median(lambda one: one["samples"] / one["seconds"]), "first": median(lambda one: one["first_s"]),
            "cpu_first": median(lambda one: one["cpu_first_s"]),
            "cpu": median(lambda one: 1000 * one["cpu_s"] / one["samples"]),
            "memory": max(one["bytes"] for one in told)}


def measure(arguments, name):
    """{mode: {loader: figures}}. Raises Missing, Failed."""
    python = environments.prepare(arguments.environments, name)
    program = PROGRAMS / name / "train.py", make(arguments, name, python)
    told = {(mode, loader): [] for mode in arguments.modes for loader in LOADERS}
    for turn in range(arguments.rounds):
        for (mode, loader), runs in told.items():
            runs.append(train(arguments, python, program, loader, mode))
            say(f"{name}, {mode}, round {turn + 1} of {arguments.rounds}, {loader}: {runs[-1]}")
    return {mode: {loader: figures_of(told[mode, loader]) for loader in LOADERS} for mode in arguments.modes}


def compared(own, penstock):
    def ratio(more, less):
        return round(more / less, 2) if less else None  # less than a tick of the clock

    return {"samples": ratio(penstock["rate"], own["rate"]), "cpu": ratio(own["cpu"], penstock["cpu"]),
            "first": ratio(own["first"], penstock["first"]), "memory": ratio(penstock["memory"], own["memory"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help=f"any of {', '.join(names())} (all)")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where datasets and environments are kept")
    parser.add_argument("--environments", type=pathlib.Path, help="where the packages are installed (environments in --work)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="what the programs do (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (%(default)s)")
    parser.add_argument("--scale", type=int, help="size of the datasets, that of the tests is 1 "
                                                  f"({SCALE}; {', '.join(f'{name} {scale}' for name, scale in SCALES.items())})")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one run may take (%(default)s)")
    arguments = parser.parse_args()
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.environments = arguments.environments or arguments.work / "environments"
    unknown = set(arguments.program) - set(names())
    if unknown:
        parser.error(f"there is no program {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    print(f"{'':28} {'samples/s':>10} {'CPU s/1,000':>12} {'first, s':>9} {'CPU s':>6} {'memory, MiB':>12}")
    summary = {}
    for name in arguments.program or names():
        try:
            found = measure(arguments, name)
        except (environments.Missing, Failed) as reason:
            print(f"{name:28} skipped: {reason}", flush=True)
            continue
        for mode, loaders in found.items():
            for loader, of in loaders.items():
                print(f"{f'{name} {mode} {loader}':28} {of['rate']:10,.0f} {of['cpu']:12.3f} {of['first']:9.1f} {of['cpu_first']:6.1f} "
                      f"{of['memory'] / 2**20:12,.0f}", flush=True)
        summary[name] = {mode: compared(**loaders) for mode, loaders in found.items()}
    print(json.dumps(summary))


if __name__ == "__main__":
    sys.exit(main())
