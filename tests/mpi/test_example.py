"""The PyTorch example trains on the demo layout, and its checkpoint resumes. Run by a Python that has torch."""

import json
import os
import re
import sys
import unittest

from job import environment, program, run
from loops import PROGRAM, ROOT, LoopsTest

try:
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)

os.environ["OMP_NUM_THREADS"] = "1"  # as torchrun has it: trainers share the processors


class Example(LoopsTest):
    def train(self, epochs, *options, arguments=(), expect=0):
        checkpoint = os.path.join(self.folder, "run")
        outcome = self.reader(
            2, {"dataset.uri": self.synth("example", 48, videos=4), "batch.global_size": 16,
                "delivery.trainers": 2, "order.epochs": epochs,
                "dataset.fields.latents": "base_frames",
                "dataset.fields.text": "clip_emb[segment_to_video]"},
            self.loop(os.path.join(ROOT, "python", "examples", "train_latents.py"), "--checkpoint", checkpoint, *arguments),
            ["--quiet", *options], env=environment(**self.loop_environment))
        self.assertEqual(outcome.code, expect, outcome.output)
        with open(os.path.join(checkpoint, "state.json"), encoding="ascii") as file:
            state = json.load(file)
        saved = torch.load(f"{checkpoint}/epoch{state['epoch']}-step{state['step']}.pt",
                           weights_only=True)
        return outcome.output, saved["model"], os.path.join(checkpoint, "state.json")

    def test_trains_and_resumes(self):
        """Two epochs and a third give the model that three in one go give."""
        output, _, state = self.train(2, arguments=["--save-every", "2"])
        self.assertRegex(output, r"epoch 1: loss \d+\.\d+, [\d.]+ samples/s")
        output, resumed, _ = self.train(3, "--resume", state)
        self.assertNotIn("epoch 1:", output)
        self.assertIn("epoch 2: loss", output)
        _, whole, _ = self.train(3)
        for name, weights in whole.items():
            self.assertTrue(torch.allclose(weights, resumed[name], rtol=0, atol=1e-5), name)

    def test_the_loop_of_the_readme(self):
        """As it stands there."""
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            loop = re.search(r"```python\n# train.py\n(.*?)```", file.read(), re.DOTALL).group(1)
        path = os.path.join(self.folder, "train.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(loop)
        fields = {"latents": "base_frames", "text": "clip_emb[segment_to_video]"}
        outcome = self.reader(1, {"dataset.uri": self.synth("example", 48, videos=4), "batch.global_size": 16, "order.epochs": 2,
                                  **{f"dataset.fields.{name}": array for name, array in fields.items()}},
                              (sys.executable, path), ["--quiet"], env=environment(PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(re.findall(r"^(\d) [-\d.e]+$", outcome.output, re.MULTILINE), ["0", "1"], outcome.output)

    def test_stops_when_asked(self):
        """All trainers leave after the same step, here the first, and have saved."""
        os.mkdir(os.path.join(self.folder, "run"))
        with open(os.path.join(self.folder, "run", "stop"), "w", encoding="ascii"):
            pass
        output, _, state = self.train(2, expect=3)
        self.assertIn("stopped at", output)
        with open(state, encoding="ascii") as file:
            self.assertEqual(json.load(file)["step"], 1)


class Torchrun(LoopsTest):
    def logged(self, rank, life):
        with open(os.path.join(self.folder, f"log.{rank}.{life}"), encoding="ascii") as file:
            return file.read().splitlines()

    def test_torchrun_starts_all_again(self):
        """One of two that work in step dies: both come again with the checkpoint's state, and are served from there."""
        torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
        if not os.path.exists(torchrun):
            self.skipTest(f"no {torchrun}")
        outcome = run(
            [program("penstock-run"), "-q", "--torchrun", "2", "--restarts", "2",
             "--set", f"dataset.uri={self.synth('example', 48, videos=4)}", "--set", "batch.global_size=8",
             "--set", "order.epochs=4", "--set", "delivery.trainers=2", "--",
             PROGRAM, os.path.join(ROOT, "tests", "mpi", "lockstep_trainer.py"), self.folder],
            env=environment(PYTHONPATH=os.path.join(ROOT, "python"),
                            PATH=os.path.dirname(torchrun) + os.pathsep + os.environ["PATH"]))
        self.assertEqual(outcome.code, 0, outcome.output)
        for rank in range(2):
            first, second = self.logged(rank, 0), self.logged(rank, 1)
            self.assertEqual(len(second), 24 - 8, "from the second checkpoint on")
            self.assertEqual(first[8:], second[:len(first) - 8], "the same again")
            steps = [tuple(map(int, line.split()[:2])) for line in first[:8] + second]
            self.assertEqual(steps, [(epoch, step) for epoch in range(4) for step in range(6)])


if __name__ == "__main__":
    unittest.main()
