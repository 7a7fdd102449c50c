"""The same samples in the same positions for any number of readers and trainers, cached or not, on every format."""

import itertools
import json
import os
import re
import sys
import unittest

from job import SANITIZED, JobTest, environment, program


class Digests(JobTest):
    SAMPLES = 203  # 25 rows of 8 and a short one
    BATCH = 12

    def dataset(self, zarr_format, chunk):
        return self.synth(f"v{zarr_format}-chunk{chunk}", self.SAMPLES, format=zarr_format,
                          chunk=chunk, videos=7)

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": self.BATCH, "batch.last": "partial",
                "order.epochs": 2, "order.seed": 5, "order.window_rows": 9, "readers.threads": 1,
                **more}

    def check_shape_independence(self, zarr_format, chunk, shapes):
        settings = self.settings(self.dataset(zarr_format, chunk))
        expected = self.digests(1, 1, settings)
        for epoch in ("0", "1"):
            indices = [int(line[3]) for line in expected if line[0] == epoch]
            self.assertEqual(sorted(indices), list(range(self.SAMPLES)))
        for readers, trainers in shapes:
            for cache in ("decoded", "off"):
                with self.subTest(readers=readers, trainers=trainers, cache=cache):
                    lines = self.digests(readers, trainers, {**settings, "readers.cache": cache})
                    self.assertEqual(lines, expected)

    ALL = tuple(itertools.product((1, 2, 3, 5), (1, 2, 4)))

    def test_v2_chunk_1(self):
        self.check_shape_independence(2, 1, ((2, 4), (5, 2)))

    def test_v2_chunk_8(self):
        self.check_shape_independence(2, 8, ((1, 4), (3, 2), (5, 4)))

    def test_v3_chunk_1(self):
        self.check_shape_independence(3, 1, self.ALL)

    def test_v3_chunk_8(self):
        self.check_shape_independence(3, 8, ((3, 1), (5, 4)))

    def test_formats_hold_the_same_samples(self):
        """The digest of a sample depends on its index alone, not on how it is stored."""
        by_index = []
        for zarr_format, chunk in itertools.product((2, 3), (1, 8)):
            lines = self.digests(2, 2, self.settings(self.dataset(zarr_format, chunk)))
            by_index.append({line[3]: line[4] for line in lines})
        for other in by_index[1:]:
            self.assertEqual(by_index[0], other)


class Caches(JobTest):
    """The same samples wherever rows are for the next epoch: decoded in memory, as stored, or in the store alone."""

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "partial", "order.epochs": 3,
                "order.seed": 5, "readers.threads": 1, **more}

    SHAPES = ((3, 2),)

    def check(self, chunk, last, shapes=SHAPES, caches=("decoded", "stored", "off")):
        settings = self.settings(self.synth(f"chunk-{chunk}", 203, chunk=chunk, videos=7),
                                 **{"batch.last": last, "order.window_rows": 9 * 8 // chunk})
        expected = self.single(settings)
        for (readers, trainers), cache in itertools.product(shapes, caches):
            with self.subTest(readers=readers, cache=cache):
                self.assertEqual(self.digests(readers, trainers, {**settings, "readers.cache": cache}), expected)

    def test_single_samples(self):
        self.check(1, "partial")

    def test_single_samples_padded(self):
        self.check(1, "pad", shapes=((2, 2),), caches=("decoded", "stored"))

    def test_long_rows(self):
        self.check(8, "partial")

    def test_long_rows_padded(self):
        self.check(8, "pad", shapes=((3, 4),), caches=("decoded", "off"))

    def test_long_rows_dropped(self):
        self.check(8, "drop", shapes=((3, 3),), caches=("decoded", "stored"))

    def test_stripes(self):
        """A step in several rounds, several steps a round, windows smaller than a step."""
        settings = self.settings(self.synth("stripes", 101, chunk=4, videos=5), **{"order.window_rows": 3})
        expected = self.digests(1, 1, settings)
        for more in ({"exchange.buffer_limit": "700KiB"}, {"exchange.steps_per_round": 2, "delivery.slots": 4}):
            for cache in ("decoded", "stored"):
                self.assertEqual(self.digests(3, 4, {**settings, **more, "readers.cache": cache}), expected)

    def test_least_memory(self):
        settings = self.settings(self.synth("least", 101, chunk=4, videos=5), **{"order.window_rows": 3})
        expected = self.digests(1, 1, settings)
        outcome = self.reader(3, {**settings, "delivery.trainers": 3, "readers.memory_limit": "1MiB"},
                              (program("penstock-trainer"),))
        least = re.search(r"it takes at least (\d+)MiB", outcome.output)
        self.assertTrue(least, outcome.output)
        self.assertEqual(self.digests(3, 3, {**settings, "readers.memory_limit": f"{least[1]}MiB"}), expected)


class Shapes(JobTest):
    """Rounds of every shape, windows smaller than a step, all ways to end an epoch."""

    SAMPLES = 101

    def setUp(self):
        super().setUp()
        self.settings = {"dataset.uri": self.synth("shapes", self.SAMPLES, chunk=4, videos=5),
                         "batch.global_size": 12, "batch.last": "partial", "order.epochs": 2,
                         "order.window_rows": 3, "readers.threads": 1}

    def check(self, **changes):
        """Any shape delivers what one reader and one trainer deliver."""
        settings = {**self.settings, **{key.replace("__", "."): value
                                        for key, value in changes.items()}}
        order = {key: value for key, value in settings.items()
                 if key.startswith(("dataset", "order", "batch"))}
        self.assertEqual(self.digests(3, 4, settings), self.single(order))

    def test_two_steps_a_round(self):
        self.check(exchange__steps_per_round=2, delivery__slots=4)

    def test_report(self):
        """Every epoch is in the report, also when one takes a single step, and nothing else."""
        path = os.path.join(self.folder, "report.json")
        for batch, steps in ((12, 9), (101, 1)):
            self.digests(2, 1, {**self.settings, "order.epochs": 20, "batch.global_size": batch},
                         options=["--report", path])
            with open(path, encoding="ascii") as file:
                epochs = json.load(file)["epochs"]
            self.assertEqual([line["epoch"] for line in epochs], list(range(20)))
            self.assertEqual({line["samples"] for line in epochs}, {self.SAMPLES})
            self.assertEqual({line["steps"] for line in epochs}, {steps})

    def test_what_was_delivered_is_counted(self):
        """Not what was planned: the log and the report agree when all leave, or one does."""
        path = os.path.join(self.folder, "report.json")
        for readers, steps, code in ((1, (5, 5), 3), (2, (5, 5), 3), (2, (5, 1000), 3)):
            with self.subTest(readers=readers, steps=steps):
                command = ("sh", "-c", f"set -- {steps[0]} {steps[1]}; shift $RANK; "
                                       f"exec {program('penstock-trainer')} --steps $1 --compute-ms 10")
                outcome = self.reader(readers, {**self.settings, "order.epochs": 3, "batch.global_size": 4,
                                                "delivery.trainers": 2}, command, ["--report", path])
                self.assertEqual(outcome.code, code, outcome.output)
                with open(path, encoding="ascii") as file:
                    epochs = json.load(file)["epochs"]
                told = [int(number) for number in re.findall(r"delivered: (\d+) samples", outcome.output)]
                if steps[1] == 5:
                    self.assertEqual([(epoch["steps"], epoch["samples"]) for epoch in epochs[:1]], [(5, 20)])
                    self.assertEqual(sum(epoch["samples"] for epoch in epochs), 20)
                    self.assertIn(told, ([20], []), "it ends when all have left, or a little later")
                else:
                    half = self.SAMPLES - self.SAMPLES // 2
                    samples = [10 + half, half, half]
                    self.assertEqual([epoch["samples"] for epoch in epochs], samples)
                    self.assertEqual(told, samples)

    def test_pad_with_the_least_memory(self):
        """Rows that padding repeats stay in memory until they are repeated."""
        uri = self.synth("pad", 100, layout="plain", chunk=1, shape=65536, dtype="int16",
                         codec="none")
        settings = {"dataset.uri": uri, "batch.global_size": 64, "batch.last": "pad",
                    "readers.threads": 1, "delivery.slots": 2}
        refused = self.reader(1, {**settings, "readers.memory_limit": "1MiB"}, [])
        least = re.search(r"at least (\d+MiB)", refused.output).group(1)
        self.assertEqual(self.digests(1, 1, {**settings, "readers.memory_limit": least}),
                         self.digests(1, 1, settings))

    def test_batches_may_be_leased(self):
        """All slots but one may be leased, whatever a round carries."""
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("needs NumPy")
        if SANITIZED:
            self.skipTest("an interpreter without sanitizers cannot load a library with them")
        folder = os.path.dirname(os.path.abspath(__file__))
        package = os.path.join(folder, "..", "..", "python")
        steps = 2 * -(-self.SAMPLES // 12)
        outcome = self.reader(2, {**self.settings, "delivery.trainers": 2, "delivery.slots": 4,
                                  "exchange.steps_per_round": 2},
                              (sys.executable, os.path.join(folder, "hold.py"), "4", str(steps)),
                              env=environment(PYTHONPATH=package))
        self.assertEqual(outcome.code, 0, outcome.output)

    def check_stripes(self, **changes):
        """A record is 16,000 bytes: as many as are packed into one message."""
        uri = self.synth("packed", self.SAMPLES, layout="plain", chunk=4, shape=8000, dtype="int16",
                         codec="none")
        self.check(dataset__uri=uri, **changes)

    def test_step_in_stripes(self):
        # 12 records do not fit 100 kB, so that a step takes stripes.
        self.check_stripes(exchange__buffer_limit=100000)

    def test_one_record_a_trainer_a_stripe(self):
        self.check_stripes(exchange__buffer_limit=64000, order__window_rows=1)

    def test_large_records_need_no_buffers(self):
        """A record of 160 KiB is zero-copy, whatever the limit on buffers."""
        self.check(exchange__buffer_limit=4096)

    def test_stripes_need_rows_of_many_windows(self):
        """A stripe of a step takes samples from all over the step: rows are read in that order, or few
        buffers fill with rows that are not due."""
        uri = self.synth("stripes", 359, layout="plain", chunk=1, shape=2000, dtype="int16",
                         codec="none")
        self.check(dataset__uri=uri, batch__global_size=120, order__window_rows=1,
                   exchange__buffer_limit=24000, readers__cache="off", delivery__slots=2)

    def test_windows_smaller_than_a_step(self):
        self.check(order__window_rows=1)

    def test_one_window(self):
        self.check(order__window_rows=1000)

    def test_two_slots(self):
        self.check(delivery__slots=2)

    def test_no_shuffle(self):
        settings = {**self.settings, "order.shuffle": "false"}
        lines = self.digests(2, 2, settings)
        self.assertEqual([int(line[3]) for line in lines], list(range(self.SAMPLES)) * 2)

    def test_drop(self):
        lines = self.digests(3, 2, {**self.settings, "batch.last": "drop"})
        self.assertEqual(len(lines), 2 * (self.SAMPLES // 12) * 12)
        self.check(batch__last="drop")

    def test_drop_whole_windows(self):
        """The tail that is dropped may hold whole windows, and which ones differs by epoch."""
        uri = self.synth("tail", 95, layout="plain", chunk=10, shape=16, codec="none")
        for seed in (3,) if SANITIZED else (3, 8, 11):
            with self.subTest(seed=seed):
                self.check(dataset__uri=uri, batch__last="drop", batch__global_size=88,
                           order__window_rows=3, order__epochs=4, order__seed=seed)

    def test_pad(self):
        """Padding fills the last step; without it every sample comes once."""
        self.check(batch__last="pad")
        settings = {**self.settings, "batch.last": "pad"}
        lines = self.digests(3, 4, settings)
        self.assertEqual(sorted(int(line[3]) for line in lines if line[0] == "1"),
                         list(range(self.SAMPLES)))
        padded = self.digests(3, 4, settings, ["--digest-padding"])
        self.assertEqual(len(padded), 2 * 108)

    def test_little_memory(self):
        """With room for few rows, rows are read again, and the order stays."""
        self.check(readers__memory_limit="48MiB", exchange__buffer_limit="1MiB")


if __name__ == "__main__":
    unittest.main()
