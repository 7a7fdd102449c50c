"""What one reader delivers, several deliver that exchange it: packed, zero-copy, and both at once."""

import json
import os
import shutil
import unittest

from job import SANITIZED, JobTest


class Exchange(JobTest):
    """Fields on both sides of the size from which they are zero-copy (32 KiB), alone and
    together."""

    SAMPLES = 90
    FIELDS = {"zero_copy": "64,128", "packed": "3", "nearly": "8191", "just": "8192"}

    def mixed(self):
        """One group of several arrays of float32, chunked alike, so that all are row fields."""
        path = os.path.join(self.datasets, "mixed")
        if os.path.exists(path):
            return path
        os.mkdir(path)
        for name, shape in self.FIELDS.items():
            one = self.synth(f"mixed-{name}", self.SAMPLES, layout="plain", chunk=4, codec="none",
                             shape=shape, seed=len(name))
            shutil.copytree(os.path.join(one, "data"), os.path.join(path, name))
            shutil.copy(os.path.join(one, ".zgroup"), path)
        return path

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "pad",
                "order.epochs": 2, "readers.threads": 1, **more}

    def check(self, settings):
        expected = self.digests(1, 1, settings)
        for readers, trainers in ((3, 4),) if SANITIZED else ((2, 2), (3, 4), (4, 1)):
            with self.subTest(readers=readers, trainers=trainers):
                self.assertEqual(self.digests(readers, trainers, settings), expected)

    def test_all_fields(self):
        self.check(self.settings(self.mixed()))

    def test_each_field(self):
        for name in ("just",) if SANITIZED else self.FIELDS:
            with self.subTest(field=name):
                settings = self.settings(self.mixed(), **{f"dataset.fields.{name}": name})
                self.assertEqual(self.digests(3, 3, settings), self.digests(1, 1, settings))

    def test_little_memory(self):
        """Rows wait in their buffers until their samples have left."""
        uri = self.synth("single", 100, layout="plain", chunk=1, shape="20000", codec="none")
        self.check(self.settings(uri, **{"readers.memory_limit": "16MiB", "delivery.slots": 2}))

    def test_tiny_samples(self):
        uri = self.synth("tiny", 20011, layout="plain", chunk=1000, shape="5", dtype="uint8",
                         codec="none")
        self.check(self.settings(uri, **{"batch.global_size": 2400}))

    def test_a_piece_in_several_messages(self):
        uri = self.synth("huge", 8, layout="plain", chunk=1, shape="4300,1000", codec="none")
        settings = self.settings(uri, **{"batch.global_size": 4, "delivery.slots": 2})
        self.assertEqual(self.digests(2, 2, settings), self.digests(1, 1, settings))

    def test_crops_alone_are_sent(self):
        """Of random crops, the report counts what they are, and not their frames."""
        uri = self.synth("cropped", self.SAMPLES, layout="plain", chunk=4, codec="none", shape="24,20")
        crop, frame, where = 10 * 12 * 4, 24 * 20 * 4, 2 * 4
        field = {"array": "data", "crop.1": 10, "crop.2": 12, "crop.at": "random"}
        settings = self.settings(uri, **{f"dataset.fields.x.{key}": value for key, value in field.items()},
                                 **{"batch.last": "partial", "order.placement": "fixed", "delivery.trainers": 2})
        path = os.path.join(self.folder, "report.json")
        outcome = self.reader(2, settings, [], ["--quiet", "--report", path])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(path, encoding="ascii") as file:
            report = json.load(file)
        for e, epoch in enumerate(report["epochs"]):
            moved = epoch["moved_samples"]
            self.assertTrue(0 < moved < self.SAMPLES, moved)
            self.assertEqual(epoch["local_samples"], self.SAMPLES - moved)
            self.assertEqual(epoch["sample_bytes"], crop + where)
            self.assertEqual(epoch["sent_bytes"], moved * crop)
            self.assertEqual(epoch["foreseen_sent_bytes"], self.SAMPLES // 2 * crop)
            self.assertEqual(epoch["decoded_bytes"], (e == 0) * self.SAMPLES * frame)
            mine = [reader["epochs"][e] for reader in report["readers"]]
            self.assertEqual([reader["sent_bytes"] for reader in mine], [reader["moved_samples"] * crop for reader in mine])
            self.assertEqual(sum(reader["moved_samples"] for reader in mine), moved)

    def test_stops_in_the_middle(self):
        """A row that cannot be read ends all readers, whatever of its round has been sent."""
        path = os.path.join(self.folder, "broken")
        shutil.copytree(self.mixed(), path)
        for row in (11,) if SANITIZED else (3, 11, 19):
            with self.subTest(row=row):
                chunk = os.path.join(path, "zero_copy", f"{row}.0.0")
                size = os.path.getsize(chunk)
                os.truncate(chunk, 100)
                outcome = self.reader(3, self.settings(path, **{"delivery.trainers": 3,
                                                                "order.seed": row}), [])
                self.assertNotEqual(outcome.code, 0)
                self.assertIn(f"array 'zero_copy' chunk {row}.0.0", outcome.output)
                os.truncate(chunk, size)


if __name__ == "__main__":
    unittest.main()
