"""Starts tests/tools/demo_server.c for a test, and knows what it delivers."""

import concurrent.futures
import os
import pathlib
import subprocess
import tempfile


class Demo:
    """A running demo server in a run directory of its own; a context manager."""

    def __init__(self, run_dir=None, **settings):
        """`run_dir`: of a server before this one; None: a new one."""
        self._parent = tempfile.TemporaryDirectory(prefix="penstock-test-")
        self.run_dir = run_dir or str(pathlib.Path(self._parent.name) / "run")
        several = ((key, value if isinstance(value, list) else [value]) for key, value in settings.items())
        arguments = [f"{key}={value}" for key, values in several for value in values]
        self.process = subprocess.Popen(
            [os.environ["DEMO_SERVER"], self.run_dir, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            try:
                self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self._parent.cleanup()

    def farewell(self):
        """What the server says of its trainers, once it has ended."""
        return self.process.stdout.read()


def connect(demo, **options):
    """A penstock.Loader of the only trainer of a demo server."""
    import penstock  # pylint: disable=import-outside-toplevel  # test_trainer.py does without

    return penstock.connect(demo.run_dir, rank=0, world_size=1, timeout=10, **options)


def connect_all(demo, trainers, options=lambda rank: {}):
    """The penstock.Loaders of all trainers of a demo server, which wait for each other. `options`: of each rank."""
    import penstock  # pylint: disable=import-outside-toplevel

    def of(rank):
        return penstock.connect(demo.run_dir, rank=rank, world_size=trainers, timeout=10, **options(rank))

    with concurrent.futures.ThreadPoolExecutor(trainers) as pool:
        return list(pool.map(of, range(trainers)))


def pattern(index, count):
    """The first `count` bytes of a field of sample `index`."""
    return bytes((index + i) % 61 for i in range(count))


def event_lengths(index, steps):
    """How many events each step of sample `index` has, with fields=ragged (one step) or sequences (three)."""
    return [400 if index == 3 else 0 if index % 5 == 0 else (index * 7 + step * 3) % 11 for step in range(steps)]


def events_of(index, step, length):
    """Values and x of a step's events."""
    return [1000 * step + index + j / 2 for j in range(length)], [index % 7 + j for j in range(length)]


def points_of(index):
    """The bits of a sample's points, of three coordinates each."""
    return [[index + 3 * k + axis for axis in range(3)] for k in range(index % 4)]
