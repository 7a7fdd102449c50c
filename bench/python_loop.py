"""A trainer in Python that does nothing with its batches; prints samples/s behind the first epoch, as JSON.

    python_loop.py              of the service, as penstock-trainer
    python_loop.py --bound N    of N batches that are there already: what Python itself takes for a batch's objects.
                                Four samples of one float32 array [16], as bench/run.sh python has them
"""
import ctypes
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

# pylint: disable=wrong-import-position
import numpy as np  # noqa: E402

import penstock  # noqa: E402
from penstock import _batch  # noqa: E402


def consume():
    samples, start = 0, None
    with penstock.connect() as loader:
        for batch in loader:
            if batch.epoch > 0:
                start = start or time.perf_counter()
                samples += batch.sample_count
        return samples / (time.perf_counter() - start)


class NoConnection:
    """Gives nothing back."""

    def retain(self):
        return True

    def give_back(self, raw):
        """Nothing."""


def bound(batches):
    field = penstock.Field("x", np.dtype(np.float32), "float32", (16,))
    numbers = dict.fromkeys(penstock.Info.__dataclass_fields__, 0)
    info = penstock.Info(**{**numbers, "fields": (field,), "constants": ()})
    memory = (ctypes.c_char * 4096)()
    address = ctypes.addressof(memory)
    connection = NoConnection()
    start = time.perf_counter()
    for step in range(batches):
        slot = _batch.Memory(connection)
        raw = slot.raw
        raw.step, raw.sample_count = step, 4
        raw.indices = raw.keys = raw.valid = address
        raw.data[0] = address + 1024
        batch = _batch.Batch(info, slot)
        del batch
    return 4 * batches / (time.perf_counter() - start)


print(json.dumps(bound(int(sys.argv[2])) if "--bound" in sys.argv else consume()))
