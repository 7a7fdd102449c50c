"""order.placement local: each step has the same set of samples on any shape, once each."""

import itertools
import json
import os
import unittest

from job import JobTest


def by_index(lines):
    """Digests by epoch, step and index: without the position, which is the trainer's."""
    return sorted([line[0], line[1], line[3], line[4], *line[5:]] for line in lines)


class Local(JobTest):
    SAMPLES = 203

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "partial", "order.epochs": 2,
                "order.seed": 5, "order.window_rows": 9, "readers.threads": 1, "order.placement": "local",
                **more}

    def check(self, shapes, chunk=8, **more):
        """The sets of `fixed` on one reader, and positions that are one permutation of each step's."""
        settings = self.settings(self.synth(f"chunk{chunk}", self.SAMPLES, chunk=chunk, videos=7), **more)
        order = {key: value for key, value in settings.items() if key.startswith(("dataset", "order", "batch"))}
        fixed = self.digests(1, 1, {**order, "order.placement": "fixed"})
        for readers, trainers in shapes:
            with self.subTest(readers=readers, trainers=trainers):
                lines = self.digests(readers, trainers, settings)
                self.assertEqual(by_index(lines), by_index(fixed))
                if settings["batch.last"] != "pad": # digests leave out padding, wherever it is
                    self.assertEqual(sorted(line[:3] for line in lines), sorted(line[:3] for line in fixed))

    def test_rows_of_one(self):
        self.check(itertools.product((1, 2, 3), (1, 2, 4)), chunk=1)

    def test_rows_of_eight(self):
        self.check(itertools.product((1, 2, 3, 5), (2, 4)))

    def test_more_trainers_than_a_batch_has_samples_for_each(self):
        self.check(((3, 12), (2, 6)), chunk=1)

    def test_padding(self):
        self.check(((3, 4), (2, 2)), **{"batch.last": "pad"})

    def test_dropped(self):
        self.check(((3, 4),), **{"batch.last": "drop"})

    def test_stripes(self):
        self.check(((2, 4), (3, 2)), **{"exchange.buffer_limit": "20KiB", "batch.global_size": 24})

    def test_several_steps_a_round(self):
        self.check(((3, 4),), **{"exchange.steps_per_round": 2, "delivery.slots": 4})

    def test_nothing_kept(self):
        self.check(((3, 4),), **{"readers.cache": "off"})

    def test_not_shuffled(self):
        self.check(((3, 4),), chunk=1, **{"order.shuffle": "false"})

    def test_a_window_smaller_than_a_step(self):
        self.check(((3, 4), (2, 2)), **{"order.window_rows": 1, "batch.global_size": 24})


if __name__ == "__main__":
    unittest.main()
