"""The training loops in python/examples/loops: two processes train the same model to the same weights in each framework,
and each process has its half of each epoch."""

import glob
import importlib.util
import json
import os
import re
import sys
import unittest

from job import environment
from loops import ROOT, LoopsTest

LOOPS = os.path.join(ROOT, "python", "examples", "loops")
SAMPLES, EPOCHS, TRAINERS = 48, 2, 2


def is_there(name):
    return importlib.util.find_spec(name) is not None


if not is_there("torch"):
    print(f"skipped: {sys.executable} has no torch")
    sys.exit(77)


class LoopTest(LoopsTest):
    plain = None  # the weights of the plain loop

    def start(self, program, *arguments, expect=0, readers=1, options=()):
        latents = {"dataset.uri": self.synth("loops", SAMPLES, videos=4), "batch.global_size": 16,
                   "delivery.trainers": TRAINERS, "dataset.fields.latents": "base_frames",
                   "dataset.fields.text": "clip_emb[segment_to_video]"}
        outcome = self.reader(
            readers, {"order.epochs": EPOCHS, **latents},
            self.loop(os.path.join(LOOPS, program), *arguments), ["--quiet", *options],
            env=environment(**self.loop_environment, CHECKPOINTS=self.folder,
                            PRINTED=os.path.join(self.folder, "printed")))
        self.assertEqual(outcome.code, expect, outcome.output)
        printed = ""
        for path in glob.glob(os.path.join(self.folder, "printed.*")):
            with open(path, encoding="utf-8") as file:
                printed += file.read()
        return printed + outcome.output

    def trains(self, program, *packages):
        for package in packages:
            if not is_there(package):
                self.skipTest(f"no {package}")
        output = self.start(program)
        shares = sorted(re.findall(r"epoch (\d+) rank (\d+): (\d+) samples", output))
        self.assertEqual(shares, sorted((str(epoch), str(rank), str(SAMPLES // TRAINERS))
                                        for epoch in range(EPOCHS) for rank in range(TRAINERS)), output)
        return float(re.search(r"weights (\S+)", output).group(1))

    def agrees(self, program, *packages):
        if LoopTest.plain is None:
            LoopTest.plain = self.trains("plain_torch.py")
        self.assertAlmostEqual(self.trains(program, *packages) / LoopTest.plain, 1, places=3)


class Loops(LoopTest):
    def test_lightning(self):
        self.agrees("with_lightning.py", "lightning")

    def test_accelerate(self):
        self.agrees("with_accelerate.py", "accelerate")

    def test_jax(self):
        self.agrees("with_jax.py", "jax", "flax", "optax")

    def test_accelerate_does_not_share_out(self):
        if not is_there("accelerate"):
            self.skipTest("no accelerate")
        path = os.path.join(self.folder, "prepared.py")
        with open(path, "w", encoding="ascii") as file:
            file.write("import penstock.torch\n"
                       "from accelerate import Accelerator\n"
                       "from torch.utils.data import DataLoader\n"
                       "batches = Accelerator(cpu=True).prepare(DataLoader(penstock.torch.Dataset(), batch_size=None))\n"
                       "for batch in batches: pass\n")
        output = self.start(path, expect=4)
        self.assertIn("Do not prepare it: iterate penstock.torch.Loader()", output)

    def test_torchdata(self):
        """The second start goes on where the first one saved."""
        if not is_there("torchdata"):
            self.skipTest("no torchdata")
        output = self.start("with_torchdata.py", os.path.join(self.folder, "data"), expect=3)
        self.assertEqual(sorted(re.findall(r"epoch (\d+) rank (\d+): (\d+)", output)), [("0", "0", "16"), ("0", "1", "16")])
        output = self.start("with_torchdata.py", os.path.join(self.folder, "data"))
        self.assertEqual(sorted(re.findall(r"epoch (\d+) rank (\d+): (\d+)", output)),
                         [("0", "0", "8"), ("0", "1", "8"), ("1", "0", "24"), ("1", "1", "24")])


class MoreLoops(LoopTest):
    def test_the_plain_loop_goes_on_where_torchdata_saved(self):
        if not is_there("torchdata"):
            self.skipTest("no torchdata")
        self.start("with_torchdata.py", os.path.join(self.folder, "data"), expect=3)
        self.go_on_from(os.path.join(self.folder, "data.0"))

    def go_on_from(self, saved):
        """The plain loop goes on there, too, and trains on no epoch that is over, nor on one too many."""
        import torch

        def find(tree):
            if "order_id" in tree:
                return tree
            return next(filter(None, (find(value) for value in tree.values() if isinstance(value, dict))), None)

        path = os.path.join(self.folder, "state.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(find(torch.load(saved)), file)
        output = self.start("plain_torch.py", options=["--resume", path])
        self.assertEqual(sorted(re.findall(r"epoch (\d+) rank (\d+): (\d+)", output)),
                         [("0", "0", "8"), ("0", "1", "8"), ("1", "0", "24"), ("1", "1", "24")])

    def test_validation(self):
        """The sanity check of Lightning abandons an epoch after two batches of 6 samples; each validation has all."""
        if not is_there("lightning"):
            self.skipTest("no lightning")
        config = os.path.join(self.folder, "val.yaml")
        with open(config, "w", encoding="ascii") as file:
            json.dump({"dataset": {"uri": self.synth("loops-val", 30, videos=3), "fields":
                                   {"latents": {"array": "base_frames"},
                                    "text": {"array": "clip_emb", "index": "segment_to_video"}}},
                       "batch": {"global_size": 12, "last": "partial"}, "order": {"shuffle": False}}, file)
        output = self.start("with_validation.py", readers=2, options=["--also", f"val={config}"])
        expected = [("sanity check", str(rank), "12") for rank in range(TRAINERS)]
        expected += [("validation", str(rank), "15") for rank in range(TRAINERS)] * EPOCHS
        self.assertEqual(sorted(re.findall(r"(sanity check|validation) rank (\d+): (\d+) samples", output)),
                         sorted(expected), output)

    def test_transformers(self):
        self.agrees("with_transformers.py", "transformers", "accelerate")

    def test_composer(self):
        self.agrees("with_composer.py", "composer")


if __name__ == "__main__":
    unittest.main()
