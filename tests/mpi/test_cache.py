"""The readers' memory as one cache: what is kept is not read again, exactly as `penstock plan` says, and what is
exchanged is what it says, too."""

import json
import os
import unittest

from job import JobTest, program, run

THREADS = 1


class Cache(JobTest):
    SAMPLES = 1200

    def settings(self, chunk, **more):
        uri = self.synth(f"cache-{chunk}", self.SAMPLES, layout="plain", chunk=chunk, shape=4096,
                         dtype="int16", codec="zstd")
        return {"dataset.uri": uri, "batch.global_size": 24, "batch.last": "partial",
                "order.epochs": 4, "order.window_rows": 96 // chunk, "readers.threads": THREADS,
                "delivery.trainers": 4, "delivery.slots": 2, "readers.memory_limit": "1GiB",
                **{key.replace("__", "."): value for key, value in more.items()}}

    def plan(self, readers, settings):
        command = [program("penstock"), "plan", "--json", "--readers", str(readers)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        made = run(command)
        self.assertEqual(made.code, 0, made.output)
        return json.loads(made.output)

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

    def check(self, readers, settings, chunk, paced=False):
        """The run delivers what one reader without a cache does, and reads and exchanges what was planned;
        `paced`: who reads a row of one sample depends on the readers' pace, too."""
        order = {key: value for key, value in settings.items()
                 if key.startswith(("dataset", "order", "batch"))}
        expected = self.digests(1, 1, {**order, "readers.cache": "off"})
        plan = self.plan(readers, settings)
        lines, epochs = self.epochs(readers, settings)
        self.assertEqual(lines, expected)
        for planned, epoch in zip(plan["epochs"], epochs):
            self.assertAlmostEqual(epoch["chunks"], planned["rows_read"], delta=0.01 * self.SAMPLES / chunk)
            if not paced:
                self.assertAlmostEqual(epoch["sent_bytes"], planned["exchanged_bytes"],
                                       delta=0.05 * self.SAMPLES * 8192)
        return plan, epochs

    def test_fits(self):
        """With room for everything, everything is read once."""
        for chunk in (1, 8):
            for readers in (1, 2, 3):
                with self.subTest(chunk=chunk, readers=readers):
                    _, epochs = self.check(readers, self.settings(chunk), chunk)
                    self.assertEqual([epoch["chunks"] for epoch in epochs],
                                     [self.SAMPLES // chunk, 0, 0, 0])
                    self.assertEqual([epoch["stored_bytes"] for epoch in epochs[1:]], [0, 0, 0])

    def test_60_percent(self):
        """The second of two epochs reads what there was no room for; with more epochs less than that is read,
        as what is kept is always what is needed next."""
        for chunk in (1, 8):
            for readers in (1, 3):
                for order_epochs in (2, 4):
                    with self.subTest(chunk=chunk, readers=readers, epochs=order_epochs):
                        settings = self.settings(chunk, order__epochs=order_epochs)
                        settings["readers.memory_limit"] = self.limit_for(readers, settings, 0.6)
                        plan, epochs = self.check(readers, settings, chunk, paced=chunk == 1)
                        rows = plan["row_count"]
                        uncached = rows - plan["kept_rows_of_a_reader"] * readers
                        self.assertTrue(0.36 * rows < uncached < 0.41 * rows, uncached)
                        self.assertEqual(epochs[0]["chunks"], rows)
                        if order_epochs == 2:
                            self.assertAlmostEqual(epochs[1]["chunks"], uncached, delta=0.01 * rows)
                        for epoch in epochs[1:]:
                            self.assertLessEqual(epoch["chunks"], uncached + 0.01 * rows)

    def test_single_samples_stay_local(self):
        """Rows of one sample are read by the reader whose trainer gets the sample, unless it falls behind."""
        settings = self.settings(1, order__epochs=1, order__window_rows=600)
        plan = self.plan(2, settings)
        self.assertEqual(plan["epochs"][0]["exchanged_bytes"], 0)
        _, epochs = self.epochs(2, settings)
        self.assertLess(epochs[0]["sent_bytes"], 0.25 * self.SAMPLES * 8192)


if __name__ == "__main__":
    unittest.main()
