"""The PyTorch example trains on the demo layout, and its checkpoint resumes. Run by a Python that has torch."""

import json
import os
import sys
import unittest

from job import JobTest, environment

try:
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Example(JobTest):
    def train(self, epochs, *options):
        checkpoint = os.path.join(self.folder, "run.pt")
        outcome = self.reader(
            2, {"dataset.uri": self.synth("example", 48, videos=4), "batch.global_size": 16,
                "delivery.trainers": 2, "order.epochs": epochs,
                "dataset.fields.latents": "base_frames",
                "dataset.fields.text": "clip_emb[segment_to_video]"},
            (sys.executable, os.path.join(ROOT, "python", "examples", "train_latents.py"),
             "--checkpoint", checkpoint), ["--quiet", *options],
            env=environment(PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual(outcome.code, 0, outcome.output)
        return outcome.output, torch.load(checkpoint, weights_only=True)

    def test_trains_and_resumes(self):
        output, saved = self.train(2)
        self.assertRegex(output, r"epoch 1: loss \d+\.\d+, [\d.]+ samples/s")
        state = os.path.join(self.folder, "state.json")
        with open(state, "w", encoding="ascii") as file:
            json.dump(saved["data"], file)
        output, _ = self.train(3, "--resume", state)
        self.assertNotIn("epoch 1:", output)
        self.assertIn("epoch 2: loss", output)


if __name__ == "__main__":
    unittest.main()
