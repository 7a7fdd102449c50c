"""A run that stops at step k and one that resumes there deliver together what one undisturbed run delivers."""

import json
import os
import unittest

from job import ALONE, JobTest, environment

EXIT_STOPPED_EARLY = 3
EXIT_FINAL = 4


class Resume(JobTest):
    def settings(self, **more):
        return {"dataset.uri": self.synth("resume", 97, chunk=4, videos=5),
                "batch.global_size": 8, "batch.last": "partial", "order.epochs": 3,
                "order.seed": 11, "order.window_rows": 6, "readers.threads": 1, **more}

    def state_after(self, steps, readers, trainers, settings):
        path = os.path.join(self.folder, f"state-{steps}")
        lines = self.digests(readers, trainers, settings,
                             ["--steps", str(steps), "--state", path + ".{rank}"],
                             expect=EXIT_STOPPED_EARLY)
        states = []
        for rank in range(trainers):
            with open(f"{path}.{rank}", encoding="ascii") as file:
                states.append(file.read())
        self.assertEqual(len(set(states)), 1, "all trainers save the same state")
        return f"{path}.0", lines

    def check(self, steps, before=(2, 2), after=(2, 2), **more):
        settings = self.settings(**more)
        whole = self.single(settings)
        path, head = self.state_after(steps, *before, settings)
        tail = self.digests(*after, settings, options=["--resume", path])
        self.assertEqual(head + tail, whole)

    def test_first_step(self):
        self.check(1)

    def test_middle(self):
        self.check(7)

    def test_end_of_epoch(self):
        self.check(13)  # 97 samples in steps of 8: 13 steps an epoch

    def test_start_of_epoch(self):
        self.check(14)

    def test_last_step(self):
        self.check(38)

    def test_other_shape(self):
        """Resume state holds no shape: other readers and trainers go on."""
        self.check(9, before=(1, 4), after=(3, 2))

    def test_rounds_of_two_steps(self):
        self.check(5, **{"exchange.steps_per_round": 2})

    def changed(self, path, drop=(), **more):
        """A file with that state, without some keys and with others."""
        with open(path, encoding="ascii") as file:
            state = {key: value for key, value in json.load(file).items() if key not in drop}
        with open(path + ".changed", "w", encoding="ascii") as file:
            json.dump({**state, **more}, file)
        return file.name

    def test_state_of_another_run_is_refused(self):
        path, _ = self.state_after(3, 1, 1, self.settings())
        for key, value in {"dataset": "0" * 16, "order_id": "0" * 16, "epoch": 3, "step": 99,
                           "version": 3}.items():
            with self.subTest(key=key):
                outcome = self.reader(ALONE, self.settings(), [],
                                      ["--resume", self.changed(path, **{key: value})])
                self.assertEqual(outcome.code, EXIT_FINAL)
                self.assertIn(str(value), outcome.output)

    def test_another_order_is_refused_with_both_values(self):
        settings = self.settings()
        path, _ = self.state_after(3, 1, 1, settings)
        for key, value in {"order.seed": 12, "order.window_rows": 7, "order.shuffle": "false",
                           "batch.global_size": 16, "batch.last": "drop"}.items():
            with self.subTest(key=key):
                outcome = self.reader(ALONE, {**settings, key: value}, [], ["--resume", path])
                self.assertEqual(outcome.code, EXIT_FINAL)
                was = settings.get(key, "true")
                self.assertIn(f"resume state: {key} was {was}, this run has {value}: the order",
                              outcome.output)

    def test_what_is_no_part_of_the_order_may_change(self):
        settings = self.settings(**{"order.window_rows": "auto"})
        whole = self.single(settings)
        path, head = self.state_after(7, 1, 1, settings)
        tail = self.digests(1, 1, {**settings, "errors.bad_sample": "mask", "errors.report": "",
                                   "dataset.hold_limit": "2GiB"}, options=["--resume", path])
        self.assertEqual(head + tail, whole)

    def test_a_state_of_version_1_is_read_with_a_warning(self):
        settings = self.settings()
        whole = self.single(settings)
        path, head = self.state_after(7, 1, 1, settings)
        old = self.changed(path, ["order_id", "row_length", "window_rows", "shuffle", "last"],
                           version=1)
        trainer = ["--digest", os.path.join(self.folder, "digest.{rank}")]
        for options, env in (["--resume", old], None), ([], environment(PENSTOCK_STATE=old)):
            outcome = self.reader(2, settings, trainer, options, env=env)
            self.assertEqual(outcome.code, 0, outcome.output)
            self.assertEqual(head + self.digest_lines(), whole)
            self.assertEqual(outcome.output.count(
                "warning: the state is of version 1, and does not say order.window_rows, "
                "order.shuffle and batch.last, which are 6, true and partial in this run"), 1)


if __name__ == "__main__":
    unittest.main()
