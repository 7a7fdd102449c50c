"""Runs with a disk cache: what a run has read from the dataset, no later one reads again."""

import glob
import json
import os
import threading
import unittest

from job import JobTest


class DiskCache(JobTest):
    SAMPLES = 150

    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.folder, "cache")
        self.report = os.path.join(self.folder, "report.json")
        uri = self.synth("cached", self.SAMPLES, chunk=4, videos=5)
        self.chunk_bytes = sum(map(os.path.getsize, glob.glob(f"{uri}/base_frames/[0-9]*")))
        self.settings = {"dataset.uri": uri,
                         "batch.global_size": 10, "batch.last": "partial", "order.epochs": 2,
                         "order.window_rows": 9, "readers.threads": 2, "readers.cache": "off"}
        self.cached = {**self.settings, "readers.cache_dir": self.cache}

    def totals(self):
        """Bytes from the dataset and from the cache, over all epochs: one's first rows are read while the one
        before ends, and rows that both need at that time are read once."""
        with open(self.report, encoding="utf-8") as file:
            epochs = json.load(file)["epochs"]
        return [sum(epoch[key] for epoch in epochs) for key in ("stored_bytes", "disk_bytes")]

    def run_cached(self, readers=2, **more):
        lines = self.digests(readers, 2, {**self.cached, **more}, options=["--report", self.report])
        return lines, *self.totals()

    def test_later_runs_read_nothing(self):
        expected = self.digests(1, 1, self.settings, options=["--report", self.report])
        self.assertEqual(self.totals()[1], 0)
        lines, stored, cached = self.run_cached()
        self.assertEqual(lines, expected)
        self.assertGreaterEqual(stored, self.chunk_bytes)
        self.assertLess(stored, 1.3 * self.chunk_bytes)
        self.assertGreater(cached, 0)
        for readers in (1, 3):
            lines, stored, cached = self.run_cached(readers)
            self.assertEqual(lines, expected)
            self.assertEqual(stored, 0)
            self.assertGreater(cached, 1.3 * self.chunk_bytes)

    def test_limit(self):
        """What does not fit is read from the dataset each time."""
        limit = self.chunk_bytes // 2
        for _ in range(2):
            _, stored, cached = self.run_cached(**{"readers.cache_dir_bytes": limit})
            self.assertGreaterEqual(stored, self.chunk_bytes - limit)
            self.assertGreater(cached, 0)
        self.assertGreater(cached, 0.5 * limit)

    def test_two_runs_at_once(self):
        expected = self.digests(1, 1, self.settings)
        outcomes = []

        def run_one(name):
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            outcomes.append(self.reader(
                2, {**self.cached, "delivery.trainers": 2},
                ["--digest", os.path.join(folder, "digest.{rank}")], ["--quiet"]))

        threads = [threading.Thread(target=run_one, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for outcome in outcomes:
            self.assertEqual(outcome.code, 0, outcome.output)
            self.assertNotIn("warning", outcome.output)
        for name in ("a", "b"):
            lines = []
            for path in glob.glob(os.path.join(self.folder, name, "digest.*")):
                with open(path, encoding="ascii") as file:
                    lines += [line.split() for line in file]
            self.assertEqual(self.known(lines), expected)
        _, stored, _ = self.run_cached()
        self.assertEqual(stored, 0)

    def test_damage(self):
        """Damaged values are read again from the dataset, with one warning a reader."""
        expected, _, _ = self.run_cached()
        for path in glob.glob(os.path.join(self.cache, "*", "??", "*")):
            with open(path, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                byte = file.read(1)[0] ^ 1
                file.seek(-1, os.SEEK_END)
                file.write(bytes([byte]))
        outcome = self.reader(1, {**self.cached, "delivery.trainers": 1}, [],
                              ["--quiet", "--report", self.report])
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(outcome.output.count("a damaged value was found"), 1, outcome.output)
        self.assertGreaterEqual(self.totals()[0], self.chunk_bytes)
        lines, stored, _ = self.run_cached()
        self.assertEqual(lines, expected)
        self.assertEqual(stored, 0)

    def test_a_directory_that_cannot_be_used(self):
        outcome = self.reader(2, {**self.cached, "readers.cache_dir": "/proc/self/penstock"}, [])
        self.assertEqual(outcome.code, 1)
        self.assertIn("disk cache '/proc/self/penstock': create it: No such file", outcome.output)


class Mix(JobTest):
    """Sources of a mix share the cache: one limit, and a dataset that is there twice is kept once."""

    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.folder, "cache")
        self.report = os.path.join(self.folder, "report.json")
        uris = [self.synth(f"cached-{d}", samples, chunk=4, videos=5, seed=d) for d, samples in enumerate((60, 40))]
        sources = []
        for d, (uri, stride) in enumerate(zip((*uris, uris[0]), (1, 1, 3))):
            path = os.path.join(self.folder, f"source{d}.yaml")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"dataset": {"uri": uri}, "samples": {"stride": stride}}, file)
            sources.append(f"{path}:{d + 1}")
        self.chunk_bytes = sum(os.path.getsize(path) for uri in uris for path in glob.glob(f"{uri}/base_frames/[0-9]*"))
        self.settings = {"mix.sources": ",".join(sources), "batch.global_size": 10, "batch.last": "partial",
                         "mix.samples": 200, "order.epochs": 2, "readers.threads": 2, "readers.cache": "off"}

    def run_cached(self, readers, **more):
        """Its lines, and the bytes that were read from the datasets."""
        lines = self.digests(readers, 2, {**self.settings, "readers.cache_dir": self.cache, **more},
                             options=["--report", self.report])
        with open(self.report, encoding="utf-8") as file:
            return lines, sum(epoch["stored_bytes"] for epoch in json.load(file)["epochs"])

    def kept(self):
        return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(self.cache)
                   for name in names if len(name) == 30)

    def test_later_runs_read_nothing(self):
        expected = self.digests(1, 1, self.settings)
        self.assertEqual(self.run_cached(2)[0], expected)
        self.assertLess(self.kept(), 1.1 * self.chunk_bytes)
        self.assertGreater(self.kept(), 0.9 * self.chunk_bytes)
        self.assertEqual(self.run_cached(1), (expected, 0))

    def test_limit_is_of_all_sources(self):
        limit = self.chunk_bytes // 3
        lines, stored = self.run_cached(2, **{"readers.cache_dir_bytes": limit})
        self.assertEqual(lines, self.digests(1, 1, self.settings))
        self.assertGreaterEqual(stored, self.chunk_bytes - limit)
        self.assertLessEqual(self.kept(), limit)
        self.assertGreater(self.kept(), limit // 3)


if __name__ == "__main__":
    unittest.main()
