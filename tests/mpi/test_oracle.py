"""Every sample of a run against zarr-python's own reading, and every position against a second implementation of
the order.

Run by a Python with NumPy, xxhash and zarr; its major version (2 or 3) is the format that is tested.
"""

import os
import sys
import unittest

from job import JobTest

try:
    import numpy as np
    import xxhash
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)
if zarr.__version__.startswith("3.0."):
    print(f"skipped: zarr-python {zarr.__version__} lacks dtypes that 3.1 has")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
import order_v1  # noqa: E402

SAMPLES, VIDEOS, BATCH, WINDOW_ROWS, SEED, EPOCHS = 150, 11, 14, 4, 23, 2

# name -> (dtype, shape, chunks): rows of 8 from "frames"; others nested, split along every axis, and ragged.
ARRAYS = {
    "frames": ("f2", (SAMPLES, 20, 4, 8, 8), (8, 20, 4, 8, 8)),
    "wind": ("f4", (SAMPLES, 13, 30), (4, 5, 7)),
    "events": ("i2", (SAMPLES, 6), (32, 6)),
    "flags": ("b1", (SAMPLES,), (8,)),
    "spectrum": ("c8", (SAMPLES, 3), (1, 2)),
    "segment": ("i8", (SAMPLES,), (50,)),
    "text": ("f2", (VIDEOS, 64), (3, 64)),
}
FIELDS = {"latents": "frames", "wind": "wind", "events": "events", "flags": "flags",
          "spectrum": "spectrum", "text": "text[segment]"}

# dtypes beyond numbers: each member of "table" is an array, and strings have their bytes as a last axis. Of v3's
# structured dtypes zarr-python drops the byte order, and writes no sub-arrays.
V2 = zarr.__version__.startswith("2.")
RECORD = [("x", ">f4"), ("tag", "S3"), ("pos", "<i2", (3,))] if V2 else [("x", "<f4"), ("tag", "S3"), ("pos", "<i2")]
ARRAYS |= {
    "when": ("M8[s]", (SAMPLES, 2), (8, 1)),
    "label": ("S5", (SAMPLES,), (16,)),
    "name": ("U4", (SAMPLES,), (8,)),
    "raw": ("V3", (SAMPLES,), (8,)),
    "table": (RECORD, (SAMPLES, 4), (20, 3)),
}
FIELDS |= {"when": "when", "label": "label", "name": "name", "raw": "raw", "x": "table.x", "tag": "table.tag",
           "pos": "table.pos"}

# v3's shards: rows are still of 8 samples.
SHARDS = {}
if not V2:
    SHARDS = {"frames": (32, 20, 4, 8, 8), "wind": (16, 15, 14), "text": (6, 64)}


def make_values(rng, dtype, shape):
    if dtype == "U4":
        return np.array([chr(rng.integers(1, 0x2000)) * rng.integers(0, 5) for _ in range(shape[0])], dtype)
    if not isinstance(dtype, str) or dtype[0] in "MSV":
        items = rng.integers(1, 100, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
        return items.view(dtype).reshape(shape)
    if dtype == "i8":
        return rng.integers(0, VIDEOS, shape)
    if dtype == "b1":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == "c8":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype("c8")
    return (100 * rng.standard_normal(shape)).astype(dtype)


def write(path):
    """Writes the arrays with zarr-python; one chunk of "wind" is left out and is fill value."""
    rng = np.random.default_rng(3)
    group = zarr.open_group(path, mode="w")
    create = getattr(group, "create_array", None) or group.create_dataset
    for name, (dtype, shape, chunks) in ARRAYS.items():
        options = {"fill_value": 7} if name == "wind" else {"order": "F"} if name == "table" and V2 else {}
        if name in SHARDS:
            options["shards"] = SHARDS[name]
        array = create(name, shape=shape, chunks=chunks, dtype=dtype, **options)
        values = make_values(rng, dtype, shape)
        if name == "wind":
            array[8:] = values[8:]
        else:
            array[:] = values
    return zarr.open_group(path, mode="r")


class Oracle(JobTest):
    POSITIONS = True

    def test_every_sample_and_every_position(self):
        path = os.path.join(self.folder, "oracle.zarr")
        group = write(path)
        arrays = {name: np.asarray(group[name][:]) for name in ARRAYS}
        arrays |= {f"table.{name}": arrays["table"][name] for name in arrays["table"].dtype.names}
        arrays["table.x"] = arrays["table.x"].astype("=f4")
        arrays["text[segment]"] = arrays["text"][arrays["segment"]]
        settings = {"dataset.uri": path, "batch.global_size": BATCH, "batch.last": "partial",
                    "order.seed": SEED, "order.window_rows": WINDOW_ROWS, "order.epochs": EPOCHS,
                    "order.placement": "fixed",
                    "dataset.hold_limit": "64KiB", "readers.threads": 1,
                    **{f"dataset.fields.{field}": array for field, array in FIELDS.items()}}
        lines = self.digests(3, 2, settings)
        order_v1.C, order_v1.W = 8, WINDOW_ROWS
        order_v1.B, order_v1.SEED = BATCH, SEED
        expected = [[str(epoch), str(p // BATCH), str(p % BATCH), str(sample)]
                    for epoch in range(EPOCHS)
                    for p, sample in enumerate(order_v1.epoch_order(epoch, [SAMPLES]))]
        self.assertEqual([line[:4] for line in lines], expected)
        for line in lines:
            sample = int(line[3])
            digest = xxhash.xxh3_64()
            for field in sorted(FIELDS):
                digest.update(np.ascontiguousarray(arrays[FIELDS[field]][sample:sample + 1]).tobytes())
            self.assertEqual(line[4], digest.hexdigest(), f"sample {sample}")
        print(f"{len(lines)} samples equal to zarr-python {zarr.__version__}")


if __name__ == "__main__":
    unittest.main()
