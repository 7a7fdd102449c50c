"""Readers that serve unequal numbers of trainers, or none. Readers of one machine stand for nodes: PENSTOCK_READER says where a
trainer is."""

import os
import unittest

from recovery import EXIT_FINAL, RecoveryTest


class Uneven(RecoveryTest):
    def settings(self, **more):
        return super().settings(**{"delivery.run_dir": self.run_dir, "order.epochs": 2, "order.window_rows": 7, **more})

    def sets(self, **more):
        """Each step's samples, of one reader and one trainer."""
        order = {key: value for key, value in self.settings(**more).items() if key.startswith(("dataset", "order", "batch"))}
        return self.single(order)

    def start(self, readers, reader_of, options=(), **more):
        """A job, and its trainers: of each rank the reader."""
        self.trainers = len(reader_of)
        settings = self.settings(**{"delivery.trainers_per_reader": max(map(reader_of.count, reader_of)), **more})
        job = self.start_readers(readers, settings, ["--quiet", *options])
        return job, [self.start_trainer(rank, f"digest.{rank}", PENSTOCK_READER=reader) for rank, reader in enumerate(reader_of)]

    def check(self, readers, reader_of, **more):
        expected = self.sets(**more)
        with self.subTest(readers=readers, reader_of=reader_of, **more):
            job, trainers = self.start(readers, reader_of, **more)
            self.assert_ends_well(job, *trainers)
            self.assertEqual(self.digest_lines(), expected)
            for rank in range(len(reader_of)):
                os.remove(os.path.join(self.folder, f"digest.{rank}"))

    def test_more_trainers_at_one_reader(self):
        for placement in ("local", "fixed"):
            self.check(2, [0, 0, 0, 0, 1, 1], **{"order.placement": placement})
            self.check(3, [2, 0, 0, 1, 0, 2, 0], **{"order.placement": placement})

    def test_readers_without_trainers(self):
        for placement in ("local", "fixed"):
            self.check(3, [1, 1, 1], **{"order.placement": placement})

    def test_groups(self):
        mesh = {"delivery.mesh": "dp:3,tp:2", "delivery.data": "dp"}
        expected = self.sets()
        job, trainers = self.start(3, [0, 0, 0, 0, 2, 2], **mesh)
        self.assert_ends_well(job, *trainers)
        for rank in (0, 2, 4):
            self.assertEqual(self.digest(rank), self.digest(rank + 1))
            os.remove(os.path.join(self.folder, f"digest.{rank + 1}"))
        self.assertEqual(self.digest_lines(), expected)

    def test_more_than_there_is_memory_for(self):
        """Both sides name the trainer; the readers' side names reader and node, too."""
        job, trainers = self.start(2, [0, 0, 0, 1], **{"delivery.trainers_per_reader": "auto"})
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertRegex(job.output(), r"reader 0 on \S+: trainer \d is one too many: reader 0 serves 2 trainers; set "
                                       "delivery.trainers_per_reader")
        refused = [trainer.output() for trainer in trainers if trainer.wait() and "is one too many" in trainer.output()]
        self.assertTrue(refused, [trainer.output() for trainer in trainers])

    def test_a_node_without_a_reader(self):
        """Its trainer says so, with its rank and node, and the readers name the rank that is missing."""
        self.trainers = 2
        job = self.start_readers(1, self.settings(**{"delivery.connect_timeout": 4}), ["--quiet"])
        self.start_trainer(0, "digest.0")
        self.run_dir = os.path.join(self.folder, "elsewhere")
        alone = self.start_trainer(1, "digest.1", "--timeout", "1")
        self.assertNotEqual(alone.wait(), 0)
        self.assertRegex(alone.output(), r"no Penstock service answers in run directory '\S+' of node \S+ within 1 s, where "
                                         "trainer 1 looks for one")
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertIn("without rank 1: are all of them started, on nodes that have a reader, with PENSTOCK_RUN_DIR", job.output())

    def test_the_plan_counts_their_memory(self):
        settings = {**self.settings(), "delivery.trainers": 6}
        even = self.plan(2, settings)["memory"]["rings"]
        more = self.plan(2, {**settings, "delivery.trainers_per_reader": 5})["memory"]["rings"]
        self.assertEqual(more * 3, even * 5)


if __name__ == "__main__":
    unittest.main()
