"""The readers' memory as one cache: what is kept is not read again, exactly as `penstock plan` says, and what is
exchanged is what it says, too."""

import json
import os
import unittest
from unittest import mock

from job import JobTest, chunk_bytes

THREADS = 1
STEADY = {"PENSTOCK_FAULTS": "seed=1,delay=1,delay_ms=10"}  # no reader looks slow by chance, and gives rows away


class Cache(JobTest):
    SAMPLES = 1200
    TRAINERS = 6  # as many of each reader: one with more of them would give rows away

    def settings(self, chunk, **more):
        uri = self.synth(f"cache-{chunk}", self.SAMPLES, layout="plain", chunk=chunk, shape=4096,
                         dtype="int16", codec="zstd")
        return {"dataset.uri": uri, "batch.global_size": 24, "batch.last": "partial",
                "order.epochs": 4, "order.window_rows": 96 // chunk, "readers.threads": THREADS,
                "delivery.trainers": self.TRAINERS, "delivery.slots": 2, "readers.memory_limit": "1GiB",
                **{key.replace("__", "."): value for key, value in more.items()}}

    @staticmethod
    def uncached(plan, readers):
        """Rows that no reader keeps."""
        return max(0, plan["row_count"] - plan["kept_rows_of_a_reader"] * readers)

    def limit_for(self, readers, settings, share):
        """A memory limit with which the readers keep about `share` of the rows."""
        most = self.plan(readers, settings)["memory_bytes_of_a_reader"]
        low, high = most // 20, most
        while high - low > 4096:
            middle = (low + high) // 2
            command = {**settings, "readers.memory_limit": middle}
            try:
                plan = self.plan(readers, command)
                kept = plan["kept_rows_of_a_reader"] * readers / plan["row_count"]
            except AssertionError:
                kept = -1
            low, high = (middle, high) if kept < share else (low, middle)
        return high

    def epochs(self, readers, settings):
        """Digest lines, and the report's epochs."""
        path = os.path.join(self.folder, "report.json")
        trainers = settings["delivery.trainers"]
        lines = self.digests(readers, trainers, settings, options=["--report", path])
        with open(path, encoding="ascii") as file:
            return lines, json.load(file)["epochs"]

    expected_of = {}

    def expected(self, order):
        key = str(sorted(order.items()))
        if key not in self.expected_of:
            self.expected_of[key] = self.digests(1, 1, {**order, "readers.cache": "off"})
        return self.expected_of[key]

    def check(self, readers, settings, chunk, paced=False):
        """The run delivers what one reader without a cache does, and reads and exchanges what was planned;
        `paced`: who reads a row of one sample depends on the readers' pace, too."""
        order = {key: value for key, value in settings.items()
                 if key.startswith(("dataset", "order", "batch"))}
        expected = self.expected(order)
        plan = self.plan(readers, settings)
        lines, epochs = self.epochs(readers, settings)
        self.assertEqual(lines, expected)
        # Rows that are read ahead count in the epoch in which that happens: so the run as a whole.
        stored = sum(epoch["stored_bytes"] for epoch in epochs)
        every_row = stored + sum(epoch["memory_bytes"] for epoch in epochs)
        planned = sum(epoch["rows_read"] for epoch in plan["epochs"])
        if settings.get("readers.cache") == "stored":
            rows = plan["row_count"] * len(epochs)
            # The last rows of an epoch may still lie decoded when the next one begins with them.
            decoded = rows - sum(epoch["chunks"] for epoch in epochs)
            self.assertTrue(0 <= decoded <= 0.1 * rows, decoded)
            read = sum(epoch["rows_read"] for epoch in epochs)
            self.assertTrue(planned - decoded <= read <= planned, (read, planned, decoded))
            self.assertAlmostEqual(stored / every_row, read / (rows - decoded), delta=0.01)
        else:
            planned += (len(epochs) - len(plan["epochs"])) * plan["epochs"][-1]["rows_read"]
            self.assertAlmostEqual(sum(epoch["chunks"] for epoch in epochs), planned,
                                   delta=0.02 * plan["row_count"] * len(epochs))
        if not paced:
            for planned, epoch in zip(plan["epochs"], epochs):
                self.assertAlmostEqual(epoch["sent_bytes"], planned["exchanged_bytes"],
                                       delta=0.05 * self.SAMPLES * 8192)
        return plan, epochs

    def test_fits(self):
        """With room for everything, everything is read once."""
        for chunk in (1, 8):
            for readers in (1, 3):
                with self.subTest(chunk=chunk, readers=readers):
                    _, epochs = self.check(readers, self.settings(chunk), chunk)
                    self.assertEqual([epoch["chunks"] for epoch in epochs],
                                     [self.SAMPLES // chunk, 0, 0, 0])
                    self.assertEqual([epoch["rows_read"] for epoch in epochs],
                                     [self.SAMPLES // chunk, 0, 0, 0])
                    self.assertEqual([epoch["stored_bytes"] for epoch in epochs[1:]], [0, 0, 0])

    def test_60_percent(self):
        """Later epochs read what there was no room for, but for rows that the one before has just used."""
        for chunk in (1, 8):
            for readers in (1, 3):
                order_epochs = 2 if readers == chunk == 1 else 4
                with self.subTest(chunk=chunk, readers=readers, epochs=order_epochs):
                    settings = self.settings(chunk, order__epochs=order_epochs)
                    if chunk > 1:  # as many rows, so that those at an epoch's boundary are few
                        settings["dataset.uri"] = self.synth(
                            "cache-many", self.SAMPLES * chunk, layout="plain", chunk=chunk,
                            shape=4096 // chunk, dtype="int16", codec="zstd")
                    settings["readers.memory_limit"] = self.limit_for(readers, settings, 0.6)
                    plan, epochs = self.check(readers, settings, chunk, paced=chunk == 1)
                    rows = plan["row_count"]
                    uncached = self.uncached(plan, readers)
                    self.assertTrue(0.36 * rows < uncached < 0.41 * rows, uncached)
                    self.assertEqual(epochs[0]["rows_read"], rows)
                    for epoch in epochs[1:]:
                        self.assertAlmostEqual(epoch["rows_read"], uncached, delta=0.01 * rows)

    def test_stored(self):
        """Rows kept as they are stored are decoded again, but not read again."""
        for chunk in (1, 8):
            for readers in (1, 3):
                for share in (1, 0.6):
                    with self.subTest(chunk=chunk, readers=readers, share=share):
                        settings = self.settings(chunk, readers__cache="stored", order__epochs=2)
                        if share < 1:
                            settings["readers.memory_limit"] = self.limit_for(readers, settings, share)
                        with mock.patch.dict(os.environ, STEADY if chunk == 8 and share < 1 else {}):
                            plan, epochs = self.check(readers, settings, chunk, paced=chunk == 1)
                        stored = sum(epoch["stored_bytes"] for epoch in epochs)
                        memory = sum(epoch["memory_bytes"] for epoch in epochs)
                        if share == 1:
                            self.assertEqual(stored, chunk_bytes(settings["dataset.uri"]))
                            self.assertGreater(memory, 0.8 * stored)
                        self.assertEqual(sum(epoch["rows_read"] for epoch in plan["epochs"]),
                                         plan["row_count"] + self.uncached(plan, readers))

    def test_auto(self):
        """Rows are kept decoded if all of them can be, else as stored, if that makes clearly more of them."""
        settings = self.settings(8, order__epochs=2, order__window_rows=6)
        settings["dataset.uri"] = self.synth("zeros", self.SAMPLES, layout="latents", chunk=8,
                                             codec="blosc-zstd")
        fits = self.plan(2, settings)
        little = {**settings, "readers.memory_limit": fits["memory_bytes_of_a_reader"] * 95 // 100}
        decoded = self.plan(2, {**little, "readers.cache": "decoded"})
        auto = self.plan(2, little)
        self.assertLess(decoded["kept_rows_of_a_reader"] * 2, decoded["row_count"])
        self.assertGreaterEqual(auto["kept_rows_of_a_reader"], decoded["kept_rows_of_a_reader"])

    def test_single_samples_stay_local(self):
        """With order.placement fixed, rows of one sample are read by the reader whose trainer gets the sample, unless it
        falls behind."""
        settings = self.settings(1, order__epochs=1, order__window_rows=600, order__placement="fixed")
        plan = self.plan(2, settings)
        self.assertEqual(plan["epochs"][0]["exchanged_bytes"], 0)
        _, epochs = self.epochs(2, settings)
        self.assertLess(epochs[0]["sent_bytes"], 0.25 * self.SAMPLES * 8192)


if __name__ == "__main__":
    unittest.main()
