"""Runs with the configurations that `penstock inspect --write` makes, and with levels of OME-Zarr: each sample of AnnData, anemoi, a replay buffer and
OME-Zarr (images, labels, a plate's images) against zarr-python's values. Two readers, so that one gets the dataset from the other.

Run by a Python with NumPy and zarr 3.
"""

import glob
import os
import pathlib
import subprocess
import sys

from job import JobTest, environment, program, python_words

try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)
if zarr.__version__.startswith("2."):
    print(f"skipped: zarr {zarr.__version__}: zarr 3 writes the stores")
    sys.exit(77)

import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))

import kind_stores  # noqa: E402

SCRIPT = os.path.join(HERE, "samples_trainer.py")
PYTHONPATH = os.path.join(HERE, "..", "..", "python")


class Kinds(JobTest):
    def path(self, name):
        return pathlib.Path(self.folder) / name

    def write(self, store):
        made = subprocess.run([program("penstock"), "inspect", store, "--write", "run.yaml"], capture_output=True, text=True, cwd=self.folder,
                              env=environment(), check=False)
        self.assertEqual(made.returncode, 0, made.stderr)

    def samples(self, settings, *options, readers=2):
        """The fields of each sample by its index, CSR fields as they are in the batch."""
        for old in glob.glob(f"{self.folder}/*.npz"):
            os.remove(old)
        settings = {"batch.last": "partial", "readers.threads": 1} | settings
        outcome = self.reader(readers, settings, (*python_words(), SCRIPT, self.folder), ["--quiet", *options], env=environment(PYTHONPATH=PYTHONPATH))
        self.assertEqual(outcome.code, 0, outcome.output)
        found = {}
        for name in glob.glob(f"{self.folder}/0.*.npz"):
            batch = dict(np.load(name))
            for i, index in enumerate(batch["indices"]):
                self.assertNotIn(int(index), found)
                found[int(index)] = {"batch": batch, "place": i} | {key: values[i] for key, values in batch.items() if len(values) == len(batch["indices"])}
        return found

    def written(self, store, **settings):
        self.write(store)
        return self.samples(settings, "-c", os.path.join(self.folder, "run.yaml"))

    def test_anndata(self):
        for zarr_format in 2, 3:
            matrix = kind_stores.anndata(self.path("a.zarr"), zarr_format, "csr_matrix")
            found = self.written("a.zarr")
            self.assertEqual(sorted(found), list(range(30)))
            for index, sample in found.items():
                row, batch, place = np.zeros(12, "f4"), sample["batch"], sample["place"]
                items = slice(*batch["X.offsets"][place : place + 2])
                row[batch["X.indices"][items]] = batch["X"][items]
                np.testing.assert_array_equal(row, matrix[index])
                self.assertEqual(sample["n_genes"], (matrix[index] > 0).sum())
            os.remove(self.path("run.yaml"))

    def test_anemoi(self):
        for zarr_format in 2, 3:
            data = kind_stores.anemoi(self.path("e.zarr"), zarr_format)
            group = zarr.open_group(str(self.path("e.zarr")), mode="r")
            mean, std = (group[name][:].astype("f4")[:, None, None] for name in ("mean", "stdev"))
            found = self.written("e.zarr")
            self.assertEqual(sorted(found), [t for t in range(1, 19) if t not in (3, 4, 5)])
            for index, sample in found.items():
                np.testing.assert_array_equal(sample["data"], (data[index - 1 : index + 2] - mean) / std)
            constants = np.load(self.path("constants.0.npz"))
            np.testing.assert_array_equal(constants["latitudes"], group["latitudes"][:])
            os.remove(self.path("run.yaml"))

    def test_replay(self):
        kind_stores.replay(self.path("r.zarr"), 3)
        group = zarr.open_group(str(self.path("r.zarr")), mode="r")
        found = self.written("r.zarr")
        for index, sample in found.items():
            begin, end = (0, 40) if index < 40 else (40, 90)
            np.testing.assert_array_equal(sample["action"], group["data/action"][:][np.clip(np.arange(index - 1, index + 15), begin, end - 1)])
            np.testing.assert_array_equal(sample["camera0_rgb"], group["data/camera0_rgb"][:][[max(begin, index - 1), index]])
        self.assertEqual(sorted(found), [*range(0, 33), *range(40, 83)])

    def test_ome(self):
        """By the configuration that is written; and other levels, with names of axes, and labels as fields."""
        for zarr_format in 2, 3:
            pyramid, (cells,) = kind_stores.ome(self.path("o.zarr"), zarr_format)
            found = self.written("o.zarr")
            self.assertEqual(sorted(found), [0, 1, 2])
            for index, sample in found.items():
                np.testing.assert_array_equal(sample["image"], pyramid[0][index])
                np.testing.assert_array_equal(sample["cells"], cells[0][index])
            os.remove(self.path("run.yaml"))
            common = {"dataset.uri": str(self.path("o.zarr")), "dataset.sample_axis": "z", "batch.global_size": 2}
            for wish, level in (("2", 2), ("y=0.9", 1)):
                found = self.samples(common | {"dataset.multiscale": wish, "dataset.fields.i": "/", "dataset.fields.i.slice.c": "1",
                                               "dataset.fields.i.slice.x": "2:9", "dataset.fields.n": "labels/cells", "dataset.fields.n.slice.t": "[2,0]"})
                self.assertEqual(sorted(found), [0, 1, 2, 3, 4])
                for z, sample in found.items():
                    np.testing.assert_array_equal(sample["i"], pyramid[level][:, 1, z, :, 2:9])
                    np.testing.assert_array_equal(sample["n"], cells[level][[2, 0], z])

    def test_plate(self):
        kind_stores.plate(self.path("p.zarr"), 2)
        found = self.written("p.zarr")
        images = [f"{well}/1/{field}" for well in "AB" for field in "01"]
        self.assertEqual(sorted(found), [0, 1, 2, 3])
        for index, sample in found.items():
            np.testing.assert_array_equal(sample["image"], zarr.open_group(str(self.path("p.zarr")), mode="r")[f"{images[index]}/0"][0])


if __name__ == "__main__":
    unittest.main()
