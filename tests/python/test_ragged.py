"""Ragged fields of the Python package against a demo server: views, matrices and nested tensors without a copy."""

import gc
import importlib.util
import sys
import unittest

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
from demo import Demo, connect, event_lengths, events_of, points_of

SAMPLES = 17
SCIPY = importlib.util.find_spec("scipy")
TORCH = importlib.util.find_spec("torch")


def model(indices, steps):
    """Values, x and offsets of a batch's events, and its points and their offsets: what demo_server.c says."""
    values, x, offsets, points, point_offsets = [], [], [0], [], [0]
    for index in indices.tolist():
        for step, length in enumerate(event_lengths(index, steps)):
            step_values, step_x = events_of(index, step, length)
            values, x = values + step_values, x + step_x
            offsets.append(len(values))
        points += points_of(index)
        point_offsets.append(len(points))
    return values, x, offsets, points, point_offsets


def address(array):
    return array.__array_interface__["data"][0]


class Views(unittest.TestCase):
    def test_info(self):
        with Demo(fields="sequences", batch=4) as demo, connect(demo) as loader:
            fields = loader.fields
            self.assertEqual((fields["events"].most_items, fields["events"].steps, fields["events"].offsets),
                             (4 * 3 * 400, 3, "events.offsets"))
            self.assertEqual((fields["events.x"].offsets, fields["points"].offsets, fields["points"].shape),
                             ("events.offsets", "points.offsets", (3,)))
            self.assertEqual((fields["events.offsets"].most_items, fields["events.offsets"].steps), (0, 3))
            self.assertEqual((fields["label"].most_items, fields["label"].steps, fields["label"].offsets), (0, 0, ""))

    def test_arrays_have_the_items_of_the_batch(self):
        for name, steps in (("ragged", 1), ("sequences", 3)):
            for last in ("pad", "partial"):
                with Demo(fields=name, samples=SAMPLES, epochs=2, last=last) as demo, connect(demo) as loader:
                    for batch in loader:
                        values, x, offsets, points, point_offsets = model(batch.indices, steps)
                        self.assertEqual(batch["events"].tolist(), values)
                        self.assertEqual(batch["events.x"].tolist(), x)
                        self.assertEqual(batch["events.offsets"].tolist(), offsets)
                        self.assertEqual(batch["points"].view(np.uint16).tolist(), points)
                        self.assertEqual(batch["points"].shape, (len(points), 3))
                        self.assertEqual(batch["points.offsets"].tolist(), point_offsets)
                        self.assertEqual(batch["label"].tolist(), batch.indices.tolist())

    def test_csr_is_the_fields_own_memory(self):
        with Demo(fields="sequences", samples=SAMPLES) as demo, connect(demo) as loader:
            batch = next(loader)
            csr = batch.csr("events")
            self.assertIs(csr.values, batch["events"])
            self.assertEqual(list(csr.columns), ["x"])
            self.assertIs(csr.columns["x"], batch["events.x"])
            self.assertIs(csr.offsets, batch["events.offsets"])
            self.assertEqual((csr.steps, batch.csr("points").steps), (3, 1))
            self.assertEqual(batch.csr("points").columns, {})
            for name in ("label", "events.x", "nothing"):
                with self.assertRaisesRegex(penstock.Invalid, f"'{name}' is no ragged field"):
                    batch.csr(name)

    def test_an_array_keeps_the_slot(self):
        with Demo(fields="ragged", slots=3, samples=400) as demo, connect(demo) as loader:
            offsets = next(loader).csr("points").offsets
            copy = offsets.copy()
            with self.assertRaisesRegex(penstock.Invalid, "epoch 0 step 0"):
                for _ in range(10):
                    next(loader)
            self.assertEqual(offsets.tolist(), copy.tolist())
            del offsets
            gc.collect()
            self.assertEqual(next(loader).step, 3)

    def test_statistics_count_items(self):
        with Demo(fields="ragged", samples=400) as demo, connect(demo) as loader:
            batch = next(loader)
            self.assertEqual(loader.stats().bytes, sum(array.nbytes for array in batch.values()) - 2 * 8)


@unittest.skipUnless(SCIPY, "SciPy is not installed")
class SciPy(unittest.TestCase):
    def test_matrices_without_a_copy(self):
        for name, steps in (("ragged", 1), ("sequences", 3)):
            with Demo(fields=name, samples=SAMPLES, epochs=1) as demo, connect(demo) as loader:
                for batch in loader:
                    matrix = batch.csr("events").to_scipy(512)
                    self.assertEqual(matrix.shape, (4 * steps, 512))
                    self.assertEqual(address(matrix.data), address(batch["events"]))
                    self.assertEqual(address(matrix.indices), address(batch["events.x"]))
                    self.assertEqual(matrix.indptr.dtype, matrix.indices.dtype)  # offsets alone are copied
                    values, x, offsets, *_ = model(batch.indices, steps)
                    expected = np.zeros((4 * steps, 512), np.float32)
                    for row, (begin, end) in enumerate(zip(offsets, offsets[1:])):
                        expected[row, x[begin:end]] = values[begin:end]
                    self.assertTrue(np.array_equal(matrix.toarray(), expected))
                    matrix.check_format()
                    self.assertEqual(address(matrix.data), address(batch["events"]))
                    self.assertTrue(np.array_equal((matrix @ np.ones(512)).astype(np.float32), expected.sum(1)))

    def test_a_matrix_has_values_and_one_column(self):
        with Demo(fields="ragged") as demo, connect(demo) as loader:
            with self.assertRaisesRegex(penstock.Invalid, r"has values and the columns \[\]"):
                next(loader).csr("points").to_scipy(512)


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def open(self, demo, **options):
        import penstock.torch

        return penstock.torch.Loader(run_dir=demo.run_dir, rank=0, world_size=1, timeout=10, **options)

    def check(self, batch, steps):
        import torch

        values, x, offsets, points, point_offsets = model(batch.indices, steps)
        self.assertEqual(batch["events"].tolist(), values)
        nested = batch.csr("events").nested()
        self.assertEqual((nested.layout, nested.shape[0]), (torch.jagged, len(offsets) - 1))
        self.assertEqual([part.tolist() for part in nested.unbind()],
                         [values[begin:end] for begin, end in zip(offsets, offsets[1:])])
        self.assertEqual(nested.values().data_ptr(), batch["events"].data_ptr())
        self.assertEqual(nested.offsets().data_ptr(), batch["events.offsets"].data_ptr())
        self.assertEqual(batch.csr("events").nested("x").values().tolist(), x)
        nested = batch.csr("points").nested()
        self.assertEqual((nested.dtype, nested.shape[2]), (torch.bfloat16, 3))
        self.assertEqual([part.view(torch.int16).tolist() for part in nested.unbind()],
                         [points[begin:end] for begin, end in zip(point_offsets, point_offsets[1:])])
        matrix = batch.csr("events").sparse(512)
        self.assertEqual(matrix.values().data_ptr(), batch["events"].data_ptr())
        self.assertEqual(matrix.to_dense().sum().item(), sum(values))
        self.assertEqual(batch["events"].untyped_storage().nbytes(), 4 * len(values))

    def test_nested_tensors_share_the_slot(self):
        for name, steps in (("ragged", 1), ("sequences", 3)):
            with Demo(fields=name, samples=SAMPLES, epochs=1) as demo, self.open(demo) as loader:
                for batch in loader:
                    self.check(batch, steps)

    def test_only_the_items_that_are_there_are_copied_to_a_device(self):
        from fake_device import FakeDevice

        for name, steps in (("ragged", 1), ("sequences", 3)):
            device = FakeDevice(pause=0.001)
            with Demo(fields=name, samples=SAMPLES, epochs=2, slots=4) as demo:
                with self.open(demo, device=device, depth=2) as loader:
                    for _ in range(2):
                        for batch in loader:
                            self.check(batch, steps)

    def test_strings(self):
        from fake_device import FakeDevice

        for options in ({}, {"device": FakeDevice(pause=0.001)}):
            with Demo(fields="strings", samples=SAMPLES, slots=4) as demo, self.open(demo, **options) as loader:
                batch = next(iter(loader))
                ends, data = batch["name.offsets"].tolist(), bytes(batch["name"].tolist())
                self.assertEqual([text.encode() for text in batch.strings("name")],
                                 [data[begin:end] for begin, end in zip(ends, ends[1:])])
                with self.assertRaisesRegex(penstock.Invalid, "'label' is no ragged field"):
                    batch.strings("label")

    def test_a_batch_has_what_the_plain_one_has(self):
        import penstock.torch

        public = lambda batch: {name for name in dir(batch) if not name.startswith("_")}
        self.assertEqual(public(penstock.Batch) - public(penstock.torch.Batch), {"arrow", "slot"})


if __name__ == "__main__":
    unittest.main()
