"""DLIO, the benchmark of storage, with penstock.dlio: accelerators wait for slow storage alone, and a batch of another size is
refused. Run by a Python that has dlio_benchmark."""

import importlib.util
import os
import pathlib
import sys
import types
import unittest

from job import BIN, MPIEXEC, JobTest, launcher_is_open_mpi, mpi_flags

for name in ("dlio_benchmark", "mpi4py", "torch", "tensorstore"):
    if importlib.util.find_spec(name) is None:
        print(f"skipped: {sys.executable} has no {name}")
        sys.exit(77)
BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import dlio  # noqa: E402 pylint: disable=wrong-import-position


class Dlio(JobTest):
    def workload(self, epochs=2, **environment):
        build = pathlib.Path(BIN).parent
        flags = [*mpi_flags(), *(["--mca", "mpi_yield_when_idle", "1"] if launcher_is_open_mpi() else [])]
        arguments = types.SimpleNamespace(build=build, work=pathlib.Path(self.datasets), scale=16, most=1, epochs=epochs, timeout=120,
                                          python=sys.executable, mpiexec=MPIEXEC, mpi_flags=flags)
        workload = dlio.Workload(arguments, "resnet50")
        workload.shape, workload.samples, workload.chunk = (64, 64, 3), 320, 8
        workload.batch, workload.seconds, workload.steps = 8, 0.04, 40
        workload.zarr = pathlib.Path(self.datasets) / "small.zarr"
        workload.files = pathlib.Path(self.datasets) / "files"
        workload.workers = 1
        workload.make()
        os.environ.update(environment)
        self.addCleanup(lambda: [os.environ.pop(key) for key in environment])
        return workload

    def test_fast_storage(self):
        self.assertGreater(self.workload().au("penstock", 2), 60)

    def test_slow_storage(self):
        self.assertLess(self.workload(1, PENSTOCK_FAULTS="seed=1,delay=1,delay_ms=200").au("penstock", 2), 50)

    def test_the_loader_of_dlio(self):
        self.assertGreater(self.workload().au("peer", 1), 0)

    def test_a_batch_of_another_size(self):
        workload = self.workload()
        command = workload.dlio
        workload.dlio = lambda n, folder, more: command(n, folder, [*more, "++workload.reader.batch_size=4"])
        with self.assertRaisesRegex(dlio.Failed, "reader.batch_size is 4, and the service gives 1 trainers 8 samples together"):
            workload.au("penstock", 1)


if __name__ == "__main__":
    unittest.main()
