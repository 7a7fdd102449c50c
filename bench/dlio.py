#!/usr/bin/env python3
"""DLIO, the benchmark of storage for training: how many emulated accelerators Penstock and DLIO's own PyTorch loader keep busy.

    bench/run.sh dlio [OPTION...]

Three workloads of DLIO for H100, with datasets in Zarr (blosc-lz4, random bytes), written by `penstock synth`:

  unet3d     batches of 7 samples of 146.6 MB / --scale, 0.323 s of computing a batch
  resnet50   batches of 400 samples of 114,660 bytes, 0.224 s
  cosmoflow  batches of 1 sample of 2.83 MB / (--scale / 4), 3.5 ms

An epoch has 12 steps (cosmoflow: 512), or as many as the dataset has: 5, 6 and 128 with --most accelerators. DLIO says the
AU: the part of the time in which accelerators compute, over all epochs. An accelerator computes by sleeping. The most
accelerators are wanted whose AU is at least 90%, or 70% with cosmoflow: found by bisection between 0 and --most, of both
loaders in turns; the peer is first tried with 1, 2, 4, ...

  penstock   penstock.dlio.DataLoader: one reader beside DLIO's ranks, which starts with DLIO
  peer       DLIO's PyTorch DataLoader and tensorstore (bench/dlio_reader.py) on the same files; the better of two: DLIO's 4
             (resnet50: 8) worker processes a rank, and one worker for each CPU in all

All files are read once before. Each workload gets an even share of the --budget that is left: what is not known by then stays
open. A run of DLIO's own loader that fails counts as missed. The last line is one JSON object, also after SIGTERM and SIGINT:
with what is known, and "complete": false. Of each workload and loader it has the accelerators that reached the AU, that AU
(with 0 accelerators the AU of one), and "least_missed", the fewest that missed the AU; null: none did.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import environments
from jobs import is_open_mpi
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
GOALS = {"unet3d": 90, "resnet50": 90, "cosmoflow": 70}


class Interrupted(Exception):
    """SIGTERM, SIGINT, or the end of --budget."""


def workloads(scale):
    """Of each workload: shape of a sample, samples of a chunk, batch, seconds a batch, DLIO's read_threads, steps of an epoch
    with --most accelerators and at most."""
    edge = max(1, round((2828486 * 4 / scale / 16) ** (1 / 2) / 16))
    return {"unet3d": ((128, 128, max(1, round(146600628 / scale / 128 / 128))), 1, 7, 0.323, 4, (5, 12)),
            "resnet50": ((196, 195, 3), 40, 400, 0.224, 8, (6, 12)),
            "cosmoflow": ((16, 16 * edge, 16 * edge), 1, 1, 0.0035, 4, (128, 512))}


class Workload:
    def __init__(self, arguments, name):
        self.name, self.arguments = name, arguments
        self.shape, self.chunk, self.batch, self.seconds, self.workers, (least, self.steps) = workloads(arguments.scale)[name]
        self.samples = arguments.most * self.batch * least
        size = "x".join(map(str, self.shape))
        self.aus = {}  # loader -> accelerators -> AU in percent
        self.zarr = arguments.work / f"dlio-{name}-{size}-{self.samples}.zarr"
        self.files = arguments.work / f"dlio-{name}-{size}-{self.samples}-files"

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

    def epoch_samples(self, accelerators):
        """The first samples of the dataset: a few accelerators have no need of all, many do."""
        return min(self.samples, self.batch * accelerators * self.steps)

    def sample_bytes(self):
        return self.shape[0] * self.shape[1] * self.shape[2]

    def dlio(self, accelerators, folder, overrides):
        return [self.arguments.mpiexec, *self.arguments.mpi_flags, "-np", accelerators, self.arguments.python, BENCH / "dlio_rank.py",
                f"workload={self.name}_h100", f"hydra.run.dir={folder}", "++workload.framework=pytorch",
                "++workload.workflow.generate_data=False", "++workload.workflow.checkpoint=False",
                f"++workload.dataset.data_folder={self.files}", "++workload.dataset.format=npz",
                f"++workload.dataset.num_files_train={self.epoch_samples(accelerators) // self.chunk}",
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
                    "samples.split_range": f"0:{self.epoch_samples(accelerators)}",
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

    def best_au(self, loader, accelerators):
        """The median of --rounds. Of the peer's two variants the second counts where the first misses."""
        for variant in ("peer", "peer_with_fewer") if loader == "peer" else (loader,):
            what = f"{self.name} {variant} {accelerators} accelerator{'s' * (accelerators > 1)}"
            try:
                au = statistics.median(self.au(variant, accelerators) for _ in range(self.arguments.rounds))
            except Failed as failed:
                if loader != "peer":
                    raise Failed(f"{what}: {failed}") from None
                say(f"{what}: {failed}; counted as an AU of 0")
                au = 0.0
            say(f"{what}: AU {au:.1f}%")
            if loader not in self.aus or accelerators not in self.aus[loader] or au > self.aus[loader][accelerators]:
                self.aus.setdefault(loader, {})[accelerators] = au
            if au >= GOALS[self.name]:
                break

    def bounds(self, loader):
        """The most accelerators that reached the AU, and the fewest that missed it."""
        aus = self.aus.get(loader, {})
        reached = [count for count, au in aus.items() if au >= GOALS[self.name]]
        missed = [count for count in aus if count not in reached]
        return max(reached, default=0), min(missed, default=self.arguments.most + 1)

    def bisect(self, deadline):
        """Until the bounds of both loaders meet. Raises Interrupted behind the deadline."""
        while todo := [loader for loader in ("penstock", "peer") if self.bounds(loader)[0] + 1 < self.bounds(loader)[1]]:
            for loader in todo:
                if time.monotonic() > deadline:
                    raise Interrupted(f"no time is left of --budget for {self.name}")
                reached, missed = self.bounds(loader)
                gallops = loader == "peer" and 2 * reached < missed > self.arguments.most
                self.best_au(loader, max(1, 2 * reached) if gallops else (reached + missed) // 2)

    def figures(self):
        out = {}
        for loader, prefix in (("penstock", ""), ("peer", "peer_")):
            reached, missed = self.bounds(loader)
            au = self.aus.get(loader, {}).get(max(reached, 1))
            out.update({f"{prefix}accelerators": reached, f"{prefix}au": au and round(au, 1),
                        f"{prefix}least_missed": missed if missed <= self.arguments.most else None})
        return out


def interrupt(number, _):
    raise Interrupted(f"stopped by {signal.Signals(number).name}")


def measure(arguments):
    """Prints the last line, whatever happens. Returns the exit code."""
    names, figures, code = arguments.workloads.split(","), {}, 0
    end = time.monotonic() + arguments.budget
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, interrupt)
    complete = True
    for place, name in enumerate(names):
        workload = Workload(arguments, name)
        try:
            workload.make()
            workload.bisect(time.monotonic() + (end - time.monotonic()) / (len(names) - place))
        except Interrupted as interrupted:
            say(f"bench/run.sh dlio: {interrupted}")
            complete = False
            code = 143 if "stopped by" in str(interrupted) else code
        except Failed as failed:
            say(f"bench/run.sh dlio: {name}: {failed}")
            complete, code = False, 1
        figures[name] = workload.figures()
        if code == 143:
            break
    print(json.dumps({**figures, "complete": complete}), flush=True)
    return code


def main():
    parser = argparse.ArgumentParser(prog="bench/run.sh dlio", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets")
    parser.add_argument("--environments", type=pathlib.Path, help="where DLIO is installed (environments in --work)")
    parser.add_argument("--workloads", default="unet3d,resnet50,cosmoflow", help="which (%(default)s)")
    parser.add_argument("--scale", type=float, default=16, help="samples of unet3d are so many times smaller (%(default)s)")
    parser.add_argument("--most", type=int, default=16, help="accelerators (%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="each AU is the median of so many runs (%(default)s)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one run (%(default)s)")
    parser.add_argument("--budget", type=float, default=900, help="seconds after which no run is begun (%(default)s)")
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
    sys.exit(measure(arguments))


if __name__ == "__main__":
    main()
