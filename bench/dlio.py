#!/usr/bin/env python3
"""DLIO, the benchmark of storage for training: how many emulated accelerators Penstock and DLIO's own PyTorch loader keep busy.

    bench/run.sh dlio [OPTION...]

Three workloads of DLIO for H100, with datasets in Zarr (blosc-lz4, random bytes), written by `penstock synth`:

  unet3d     batches of 7 samples of 146.6 MB / --scale, 0.323 s of computing a batch
  resnet50   batches of 400 samples of 114,660 bytes, 0.224 s
  cosmoflow  batches of 1 sample of 2.83 MB / (--scale / 4), 3.5 ms

DLIO says the AU: the part of the time in which accelerators compute, over all epochs. An accelerator computes by sleeping.
The most accelerators are wanted whose AU is at least 90%, or 70% with cosmoflow. Both loaders get one accelerator, then
two, and so on, in turns, until they miss the AU.

  penstock   penstock.dlio.DataLoader: one reader beside DLIO's ranks, which starts with DLIO
  peer       DLIO's PyTorch DataLoader and tensorstore (bench/dlio_reader.py) on the same files; the better of two: DLIO's 4
             (resnet50: 8) worker processes a rank, and one worker for each CPU in all

All files are read once before. The last line is one JSON object.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import environments
from jobs import is_open_mpi

BENCH = pathlib.Path(__file__).resolve().parent
GOALS = {"unet3d": 90, "resnet50": 90, "cosmoflow": 70}


class Failed(Exception):
    """A program failed; the text says why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def workloads(scale):
    """Of each workload: shape of a sample, samples, samples of a chunk, batch, seconds a batch, DLIO's read_threads."""
    edge = max(1, round((2828486 * 4 / scale / 16) ** (1 / 2) / 16))
    return {"unet3d": ((128, 128, max(1, round(146600628 / scale / 128 / 128))), 168, 1, 7, 0.323, 4),
            "resnet50": ((196, 195, 3), 4800, 40, 400, 0.224, 8),
            "cosmoflow": ((16, 16 * edge, 16 * edge), 1024, 1, 1, 0.0035, 4)}


def run(command, timeout, **options):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, check=False,
                              **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {timeout} s") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if re.match(r"[\w.]+(Error|Exception|Invalid): ", line)]
        raise Failed(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


class Workload:
    def __init__(self, arguments, name):
        self.name, self.arguments = name, arguments
        self.shape, self.samples, self.chunk, self.batch, self.seconds, self.workers = workloads(arguments.scale)[name]
        size = "x".join(map(str, self.shape))
        self.zarr = arguments.work / f"dlio-{name}-{size}.zarr"
        self.files = arguments.work / f"dlio-{name}-{size}-files"

    def make(self):
        """The array, and the empty files that DLIO counts instead of its chunks."""
        if not self.zarr.exists():
            say(f"writing {self.zarr}")
            part = self.zarr.with_suffix(".part")
            run([self.arguments.build / "bin/penstock", "synth", part, "--overwrite", "--layout", "plain", "--format", "3",
                 "--dtype", "uint8", "--codec", "blosc-lz4", "--samples", self.samples, "--chunk", self.chunk, "--shape",
                 ",".join(map(str, self.shape))], 900)
            part.rename(self.zarr)
        for part in ("train", "valid"):
            (self.files / part).mkdir(parents=True, exist_ok=True)
        for index in range(self.samples // self.chunk):
            (self.files / "train" / f"img_{index:06}.npz").touch()
        for path in self.zarr.rglob("*"):  # read once, so that files are in memory for both
            if path.is_file():
                path.read_bytes()

    def sample_bytes(self):
        return self.shape[0] * self.shape[1] * self.shape[2]

    def dlio(self, accelerators, folder, overrides):
        return [self.arguments.mpiexec, *self.arguments.mpi_flags, "-np", accelerators, self.arguments.python, BENCH / "dlio_rank.py",
                f"workload={self.name}_h100", f"hydra.run.dir={folder}", "++workload.framework=pytorch",
                "++workload.workflow.generate_data=False", "++workload.workflow.checkpoint=False",
                f"++workload.dataset.data_folder={self.files}", "++workload.dataset.format=npz",
                f"++workload.dataset.num_files_train={self.samples // self.chunk}",
                f"++workload.dataset.num_samples_per_file={self.chunk}",
                f"++workload.dataset.record_length={self.sample_bytes()}", "++workload.dataset.record_length_stdev=0",
                "++workload.dataset.record_length_resize=1", "++workload.reader.data_loader=pytorch",
                f"++workload.reader.batch_size={self.batch}", f"++workload.train.epochs={self.arguments.epochs}",
                f"++workload.train.computation_time={self.seconds}", *overrides]

    def environment(self, **more):
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCH.parent / "python"), str(BENCH)]),
                "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "DLIO_ZARR": str(self.zarr / "data"), "DFTRACER_ENABLE": "0", "PENSTOCK_LIBRARY": str(self.arguments.build / "lib/libpenstock.so"), **more}

    def au(self, loader, accelerators):
        """AU in percent, as DLIO sums it up."""
        with tempfile.TemporaryDirectory(prefix="penstock-dlio-") as folder:
            getattr(self, loader)(accelerators, pathlib.Path(folder))
            summary = json.loads((pathlib.Path(folder) / "summary.json").read_text(encoding="ascii"))
            return summary["metric"]["train_au_mean_percentage"]

    def peer(self, accelerators, folder, workers=None):
        run(self.dlio(accelerators, folder, ["++workload.reader.reader_classname=dlio_reader.ZarrReader",
                                             f"++workload.reader.read_threads={workers or self.workers}"]),
            self.arguments.timeout, env=self.environment())

    def peer_with_fewer(self, accelerators, folder):
        self.peer(accelerators, folder, max(1, os.cpu_count() // accelerators))

    def penstock(self, accelerators, folder):
        run_dir = folder / "run"
        settings = {"dataset.uri": self.zarr, "batch.global_size": self.batch * accelerators, "batch.last": "drop",
                    "order.epochs": self.arguments.epochs, "delivery.trainers": accelerators, "delivery.run_dir": run_dir}
        readers = [self.arguments.mpiexec, *self.arguments.mpi_flags, "-np", "1",
                   self.arguments.build / "bin/penstock-reader", "--quiet"]
        for key, value in settings.items():
            readers += ["--set", f"{key}={value}"]
        with subprocess.Popen([str(word) for word in readers], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=self.environment()) as service:
            try:
                run(self.dlio(accelerators, folder, ["++workload.reader.data_loader_classname=penstock.dlio.DataLoader",
                                                     "++workload.reader.data_loader_sampler=iterative",
                                                     "++workload.reader.read_threads=0"]),
                    self.arguments.timeout, env=self.environment(PENSTOCK_RUN_DIR=str(run_dir)))
                output, _ = service.communicate(timeout=60)
            except BaseException:
                service.terminate()
                raise
        if service.returncode != 0:
            raise Failed(output.strip().splitlines()[-1] if output.strip() else "the readers failed")

    def climb(self):
        """The most accelerators of each loader, and their AU; 0 and that of one accelerator where even one is too many."""
        best = {}
        going = {"penstock": True, "peer": True}
        for accelerators in range(1, self.arguments.most + 1):
            for loader in [name for name, on in going.items() if on]:
                variants = ("peer", "peer_with_fewer") if loader == "peer" else (loader,)
                au = max(statistics.median(self.au(variant, accelerators) for _ in range(self.arguments.rounds))
                         for variant in variants)
                say(f"{self.name} {loader} {accelerators} accelerator{'s' * (accelerators > 1)}: AU {au:.1f}%")
                going[loader] = au >= GOALS[self.name]
                if going[loader] or loader not in best:
                    best[loader] = (accelerators if going[loader] else 0, round(au, 1))
        return {"accelerators": best["penstock"][0], "au": best["penstock"][1],
                "peer_accelerators": best["peer"][0], "peer_au": best["peer"][1]}


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh dlio", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets")
    parser.add_argument("--environments", type=pathlib.Path, help="where DLIO is installed (environments in --work)")
    parser.add_argument("--workloads", default="unet3d,resnet50,cosmoflow", help="which (%(default)s)")
    parser.add_argument("--scale", type=float, default=16, help="samples of unet3d are so many times smaller (%(default)s)")
    parser.add_argument("--most", type=int, default=8, help="accelerators (%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="each AU is the median of so many runs (%(default)s)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of one run (%(default)s)")
    arguments = parser.parse_args()
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not shutil.which("mpirun") or not is_open_mpi():
        sys.exit("bench/run.sh dlio: needs Open MPI's mpirun")
    arguments.mpiexec = "mpirun"
    arguments.mpi_flags = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    try:
        arguments.python = environments.prepare(arguments.environments or arguments.work / "environments", "dlio")
    except environments.Missing as missing:
        sys.exit(f"bench/run.sh dlio: DLIO {missing}")
    figures = {}
    for name in arguments.workloads.split(","):
        workload = Workload(arguments, name)
        try:
            workload.make()
            figures[name] = workload.climb()
        except Failed as failed:
            sys.exit(f"bench/run.sh dlio: {name}: {failed}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
