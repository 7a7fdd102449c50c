"""What the benchmarks of ragged samples share: one job with trainers that touch their batches, and its report."""

import json
import os
import pathlib
import shutil
import statistics

from jobs import is_open_mpi
from commands import run


def add_arguments(parser, samples):
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets and reports")
    parser.add_argument("--environments", type=pathlib.Path, help="where peers are installed (environments in --work)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--samples", type=int, default=samples, help="of the dataset (%(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the reader (one a cpu)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that one peer may take (%(default)s)")
    parser.add_argument("--no-peers", dest="peers", action="store_false")


def settle(arguments):
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.environments = (arguments.environments or arguments.work / "environments").resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)


def deliver(arguments, config, readers=1, epochs=2, trainer=None, threads=None, before=(), settings=()):
    """Runs a job with a trainer for each reader: the report, and what the first trainer wrote (JSON)."""
    folder = arguments.work / "ragged-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment, mpirun = dict(os.environ), ["mpirun"]
    environment["PYTHONPATH"] = str(pathlib.Path(__file__).resolve().parents[1] / "python")
    environment["PENSTOCK_LIBRARY"] = str(arguments.build / "lib/libpenstock.so.0")
    if is_open_mpi():  # wants a word before it starts as root or with more ranks than cores
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        mpirun += ["--oversubscribe", "--bind-to", "none"]
    trainer = trainer or [arguments.build / "bin/penstock-trainer", "--touch", f"--json={folder}/trainer.json"]
    settings = [
        f"delivery.trainers={readers}",
        f"readers.threads={threads or max(1, arguments.threads // readers)}",
        f"order.epochs={epochs}",
        *settings,
    ]
    run(
        [
            *before,
            *mpirun,
            "-np",
            readers,
            arguments.build / "bin/penstock-reader",
            "--quiet",
            "-c",
            config,
            "--report",
            folder / "report.json",
            *(word for setting in settings for word in ("--set", setting)),
            "--",
            *trainer,
        ],
        900,
        env=environment,
    )
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    path = folder / "trainer.json"
    return report, json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def rates(trainer):
    """Samples a second of each epoch."""
    return [epoch["samples"] / epoch["seconds"] for epoch in trainer["epochs"]]


def limit(arguments, config, mode):
    """Samples a second of bench/limit.h."""
    out = run([arguments.build / "bin/penstock-bench-limit", mode, "-c", config, "--set", f"readers.threads={arguments.threads}"], 900)
    return json.loads(out)["samples_per_s"]


def median(values):
    return statistics.median(values) if values else None
