"""Rounds of several passes: readers have room for little more than their mean, and deliver what one reader does."""

import json
import os
import unittest

from job import SANITIZED, JobTest

READERS = 8


@unittest.skipUnless(os.environ.get("PENSTOCK_HAS_FAULTS") == "1", "built without faults")
class Passes(JobTest):
    SAMPLES = 1003

    def setUp(self):
        super().setUp()
        os.environ["PENSTOCK_ROUND_CAPACITY"] = "1.05"
        self.addCleanup(os.environ.pop, "PENSTOCK_ROUND_CAPACITY")

    def check(self, chunk=1, trainers=READERS, **more):
        settings = {"dataset.uri": self.synth(f"chunk{chunk}", self.SAMPLES, layout="plain", shape=64, chunk=chunk),
                    "batch.global_size": 96, "batch.last": "pad", "order.epochs": 2, "order.seed": 5,
                    "readers.threads": 1, **more}
        path = os.path.join(self.folder, "report.json")
        expected = self.single({key: value for key, value in settings.items() if not key.startswith("exchange")})
        found = self.digests(READERS, trainers, settings, options=["--report", path])
        self.assertEqual(found, expected)
        with open(path, encoding="ascii") as file:
            epochs = json.load(file)["epochs"]
        self.assertGreater(sum(epoch["further_passes"] for epoch in epochs), 0)

    def test_local(self):
        self.check()

    def test_fixed(self):
        self.check(**{"order.placement": "fixed"})

    @unittest.skipIf(SANITIZED, "as the others")
    def test_long_rows(self):
        self.check(chunk=40, **{"order.placement": "fixed"})

    @unittest.skipIf(SANITIZED, "as the others")
    def test_stripes(self):
        self.check(chunk=8, trainers=4, **{"exchange.buffer_limit": "4KiB"})

    @unittest.skipIf(SANITIZED, "as the others")
    def test_long_rows_in_stripes(self):
        self.check(chunk=40, trainers=4, **{"order.placement": "fixed", "exchange.buffer_limit": "4KiB"})


if __name__ == "__main__":
    unittest.main()
