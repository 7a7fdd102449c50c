"""A run that stops at step k and one that resumes there deliver together what one undisturbed run delivers."""

import json
import os
import unittest

from job import JobTest

EXIT_STOPPED_EARLY = 3


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
        whole = self.digests(1, 1, settings)
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

    def test_state_of_another_run_is_refused(self):
        path, _ = self.state_after(3, 1, 1, self.settings())
        with open(path, encoding="ascii") as file:
            state = json.load(file)
        for key, value in {"seed": 12, "global_batch": 16, "dataset": "0" * 16, "epoch": 3,
                           "step": 99, "version": 2}.items():
            with self.subTest(key=key):
                changed = os.path.join(self.folder, "changed")
                with open(changed, "w", encoding="ascii") as file:
                    json.dump({**state, key: value}, file)
                outcome = self.reader(2, self.settings(), [], ["--resume", changed])
                self.assertNotEqual(outcome.code, 0)
                self.assertIn(str(value), outcome.output)


if __name__ == "__main__":
    unittest.main()
