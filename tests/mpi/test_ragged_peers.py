"""Ragged fields against other people's code on the same stores: anndata and SciPy for sparse rows, SciPy's coordinates and
tonic for events scattered into frames.

Each test writes a store with empty samples, a giant one and samples of one item, runs a job whose trainers save their
batches, and compares each sample. Run by a Python with NumPy, SciPy and zarr 3; tests of a package that is missing are skipped.
"""

import glob
import importlib.util
import os
import sys
import unittest

from job import JobTest, environment

try:
    import numpy as np
    import scipy.sparse
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)
if zarr.__version__.startswith("2."):
    print(f"skipped: zarr {zarr.__version__}: zarr 3 writes the stores")
    sys.exit(77)

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "samples_trainer.py")
PYTHON = os.path.join(os.path.dirname(SCRIPT), "..", "..", "python")


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


def lengths(rng, samples, most):
    """Mostly short, some empty, one giant, one of a single item."""
    found = rng.integers(0, 12, samples)
    found[rng.random(samples) < 0.2] = 0
    found[samples // 3], found[samples // 2], found[-1] = most, 1, 0
    return found


class Peers(JobTest):
    def batches(self, uri, fields, readers, trainers, **settings):
        """Samples of one epoch as trainers get them: anchor -> (batch, place in the batch)."""
        path = os.path.join(self.folder, "run.yaml")
        lines = "".join(f"    {name}: {text}\n" for name, text in fields.items())
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"dataset:\n  uri: {uri}\n  fields:\n{lines}")
        for old in glob.glob(os.path.join(self.folder, "*.npz")):
            os.remove(old)
        env = environment(PYTHONPATH=PYTHON)
        settings = {"delivery.trainers": trainers, "batch.global_size": 6, "batch.last": "partial", "order.epochs": 1,
                    **settings}
        outcome = self.reader(readers, settings, (sys.executable, SCRIPT, self.folder), ["--config", path, "--quiet"], env=env)
        self.assertEqual(outcome.code, 0, outcome.output)
        found = {}
        for name in glob.glob(os.path.join(self.folder, "?.*.npz")):
            with np.load(name) as saved:
                batch = dict(saved)
            for i, index in enumerate(batch["indices"].tolist()):
                self.assertNotIn(index, found)
                found[index] = batch, i
        return found

    def write(self, arrays, chunk=50):
        path = os.path.join(self.folder, "store.zarr")
        group = zarr.open_group(path, mode="w")
        for name, values in arrays.items():
            array = group.create_array(name, shape=values.shape, chunks=(chunk, *values.shape[1:]), dtype=values.dtype)
            array[:] = values
        return path

    def cells(self, samples=90, genes=300):
        """A random matrix of cells, as SciPy has it."""
        rng = np.random.default_rng(7)
        counts = lengths(rng, samples, genes)
        rows = [np.sort(rng.choice(genes, count, replace=False)) for count in counts]
        indices = np.concatenate(rows).astype(np.int32)
        data = rng.integers(1, 1000, len(indices)).astype(np.float32)
        indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return scipy.sparse.csr_matrix((data, indices, indptr), (samples, genes))

    def check_cells(self, uri, matrix, **more):
        fields = {"X": "{array: X, deliver: csr}", "filled": "{array: X, deliver: dense, cast: float32}", **more}
        for readers, trainers in ((1, 1), (3, 2)):
            found = self.batches(uri, fields, readers, trainers)
            self.assertEqual(sorted(found), list(range(matrix.shape[0])))
            for batch in {id(batch): batch for batch, _ in found.values()}.values():
                wanted = matrix[batch["indices"].astype(np.int64)]
                got = scipy.sparse.csr_matrix((batch["X"], batch["X.indices"], batch["X.offsets"]), wanted.shape)
                self.assertEqual((got != wanted).nnz, 0)
                self.assertEqual((got.nnz, got.dtype), (wanted.nnz, wanted.dtype))
                np.testing.assert_array_equal(batch["filled"], wanted.toarray())
                if "none" in more:
                    self.check_nothing(batch, wanted.shape)

    def check_nothing(self, batch, shape):
        self.assertEqual((batch["none"].shape, batch["none"].dtype), ((0,), np.float32))
        np.testing.assert_array_equal(batch["none.offsets"], np.zeros(shape[0] + 1))
        np.testing.assert_array_equal(batch["zeros"], np.zeros(shape))
        np.testing.assert_array_equal(batch["pads"], np.zeros((shape[0], 2)))
        np.testing.assert_array_equal(batch["pads.length"], np.zeros(shape[0]))

    @needs("anndata")
    def test_anndata(self):
        """A store that anndata has written, and what anndata reads of it; with a matrix without any value."""
        import anndata

        uri = os.path.join(self.folder, "cells.zarr")
        cells = self.cells()
        nothing = scipy.sparse.csr_matrix(cells.shape, dtype=np.float32)
        anndata.AnnData(cells, layers={"nothing": nothing}).write_zarr(uri)
        forms = {"none": "csr", "zeros": "dense", "pads": "{pad: 2}"}
        self.check_cells(uri, anndata.read_zarr(uri).X,
                         **{name: f"{{array: layers/nothing, deliver: {form}}}" for name, form in forms.items()})

    @needs("anndata")
    def test_panel(self):
        """Genes by name, from a list and from a file, in an order of their own: anndata's adata[:, panel].X."""
        import anndata
        import pandas

        uri = os.path.join(self.folder, "panel.zarr")
        cells = self.cells()
        genes = pandas.DataFrame(index=[f"gene {i}" for i in range(cells.shape[1])])
        anndata.AnnData(cells, var=genes, layers={"twice": 2 * cells}).write_zarr(uri)
        panel = [f"gene {i}" for i in np.random.default_rng(5).permutation(cells.shape[1])[:40]]
        with open(os.path.join(self.folder, "panel.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(panel) + "\n")
        wanted = anndata.read_zarr(uri)[:, panel]
        listed, filed = f'slice: {{1: [{", ".join(panel)}]}}', 'slice: {var: "@panel.txt"}'
        fields = {"X": f"{{array: X, {listed}}}", "twice": f"{{array: layers/twice, deliver: dense, {filed}}}",
                  "padded": f"{{array: X, deliver: {{pad: 40}}, {filed}}}"}
        for readers, trainers in ((1, 1), (3, 2)):
            found = self.batches(uri, fields, readers, trainers)
            self.assertEqual(sorted(found), list(range(cells.shape[0])))
            for batch in {id(batch): batch for batch, _ in found.values()}.values():
                rows = wanted[batch["indices"].astype(np.int64)]
                got = scipy.sparse.csr_matrix((batch["X"], batch["X.indices"], batch["X.offsets"]), rows.shape)
                self.assertEqual((got != rows.X).nnz, 0)
                self.assertEqual(got.nnz, rows.X.nnz)
                np.testing.assert_array_equal(batch["twice"], rows.layers["twice"].toarray())
                np.testing.assert_array_equal(batch["padded.length"], np.diff(batch["X.offsets"]))
                np.testing.assert_array_equal(batch["padded"][batch["padded"] != 0], batch["X"])

    def test_scipy(self):
        """The same, written by hand in AnnData's layout."""
        matrix = self.cells()
        arrays = {f"X/{name}": getattr(matrix, name) for name in ("indptr", "indices", "data")}
        uri = self.write(arrays)
        group = zarr.open_group(uri)["X"]
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(matrix.shape)})
        self.check_cells(uri, matrix)

    def events(self, shape, samples=60):
        """Random events of windows, many of them at one place: offsets, indices and counts."""
        rng = np.random.default_rng(11)
        counts = lengths(rng, samples, 2000)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        places = [rng.integers(0, side, offsets[-1]).astype(np.uint16) for side in shape]
        return offsets, places, rng.integers(1, 4, offsets[-1]).astype(np.uint8)

    def test_coordinates(self):
        """Sums of SciPy's coordinates; and whole sequences of windows."""
        shape = (3, 8, 10)
        offsets, places, counts = self.events(shape)
        uri = self.write({"offsets": offsets, "bin": places[0], "y": places[1], "x": places[2], "count": counts})
        flat = np.ravel_multi_index([place.astype(np.int64) for place in places], shape)
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        sums = scipy.sparse.coo_matrix((counts.astype(np.int64), (rows, flat)), (len(offsets) - 1, np.prod(shape)))
        sums = np.minimum(sums.toarray(), 255).astype(np.uint8).reshape(-1, *shape)
        ragged = "ragged: {offsets: offsets, index: [bin, y, x], values: count}, deliver: {dense: [3, 8, 10]}, cast: uint8"
        for readers, trainers in ((1, 1), (3, 2)):
            found = self.batches(uri, {"events": f"{{{ragged}}}", "pair": f'{{{ragged}, steps: "0:2"}}'}, readers, trainers)
            self.assertEqual(sorted(found), list(range(len(offsets) - 2)))
            for index, (batch, place) in found.items():
                np.testing.assert_array_equal(batch["events"][place], sums[index])
                np.testing.assert_array_equal(batch["pair"][place], sums[index:index + 2])

    @needs("tonic")
    def test_tonic(self):
        """Events of both polarities in bins of time, counted as tonic's ToFrame does."""
        import tonic

        width, height, bins, window = 12, 9, 4, 1000
        rng = np.random.default_rng(3)
        recordings = []
        for count in lengths(rng, 40, 1500):
            events = np.zeros(count + 2, tonic.io.events_struct)
            events["t"] = np.concatenate(([0], np.sort(rng.integers(0, bins * window, count)), [bins * window - 1]))
            events["x"], events["y"] = rng.integers(0, width, count + 2), rng.integers(0, height, count + 2)
            events["p"] = rng.integers(0, 2, count + 2)
            recordings.append(events)
        offsets = np.concatenate(([0], np.cumsum([len(events) for events in recordings]))).astype(np.int64)
        events = np.concatenate(recordings)
        uri = self.write({"offsets": offsets, "x": events["x"], "y": events["y"],
                          "channel": (events["t"] // window * 2 + events["p"]).astype(np.uint16)})
        found = self.batches(uri, {"frames": "{ragged: {offsets: offsets, index: [channel, y, x]}, deliver: "
                                             f"{{dense: [{2 * bins}, {height}, {width}]}}, cast: int16}}"}, 2, 2)
        transform = tonic.transforms.ToFrame((width, height, 2), time_window=window, include_incomplete=True)
        self.assertEqual(len(found), len(recordings))
        for index, (batch, place) in found.items():
            frames = transform(recordings[index])
            self.assertEqual(frames.shape, (bins, 2, height, width))
            np.testing.assert_array_equal(batch["frames"][place].reshape(frames.shape), frames)


if __name__ == "__main__":
    unittest.main()
