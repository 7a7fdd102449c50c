"""What tests with many readers share: a small dataset, what a run costs, and what `penstock plan` says of it."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("tests/mpi", "tests/cluster", "bench"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", folder))

MIB = 1 << 20
BATCH = 512


def settings_of(test, readers):
    """Of a run with as many readers and trainers, for a JobTest: each has a part of each step."""
    return {"dataset.uri": test.synth("scale", 4096, layout="plain", shape=64, chunk=8), "batch.global_size": BATCH,
            "order.epochs": 2, "order.seed": 5, "readers.threads": 1, "delivery.trainers": readers,
            "delivery.connect_timeout": 600}


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) >> 10


class Clock:
    """Seconds since it was made."""

    def __init__(self):
        self.start = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.start


def tell(what):
    print(what, file=sys.stderr, flush=True)
