"""The loops in python/examples/groups, as their own heads say how: four ranks with a mesh come to what one process comes to alone, and
what each loop asserts of its batches holds."""

import glob
import importlib.util
import os
import re
import shlex
import sys
import unittest

from job import BIN, environment, run
from loops import ROOT, LoopsTest

LOOPS = os.path.join(ROOT, "python", "examples", "groups")

if importlib.util.find_spec("torch") is None:
    print(f"skipped: {sys.executable} has no torch")
    sys.exit(77)


class GroupLoops(LoopsTest):
    def prepare(self, program):
        """Follows the head of a loop: makes its dataset, and its run.yaml, which is returned."""
        with open(os.path.join(LOOPS, program), encoding="utf-8") as file:
            head = file.read().split('"""')[1]
        commands, config = head.split("    # run.yaml\n")
        synth = re.search(r"^    penstock (synth .*)$", commands, re.MULTILINE)[1]
        self.assertIn(f"penstock-run -c run.yaml -- python3 {program}", commands)
        made = run([os.path.join(BIN, "penstock"), *shlex.split(synth)], cwd=self.folder)
        self.assertEqual(made.code, 0, made.output)
        config = "".join(line[4:] + "\n" for line in config.splitlines())
        with open(os.path.join(self.folder, "run.yaml"), "w", encoding="utf-8") as file:
            file.write(config)
        return config

    def trains(self, program, settings, readers=1):
        """What each rank prints of each epoch."""
        for path in glob.glob(os.path.join(self.folder, "printed.*")):
            os.remove(path)
        outcome = self.reader(
            readers, settings, self.loop(os.path.join(LOOPS, program)), ["--quiet", "-c", "run.yaml"],
            env=environment(**self.loop_environment, PRINTED=os.path.join(self.folder, "printed")))
        self.assertEqual(outcome.code, 0, outcome.output)
        printed = []
        for path in sorted(glob.glob(os.path.join(self.folder, "printed.*"))):
            with open(path, encoding="utf-8") as file:
                printed.append(re.findall(r"^epoch .*$", file.read(), re.MULTILINE))
        return printed

    def agrees(self, program, readers=1, silent=()):
        """`silent`: ranks that print nothing."""
        axes = re.search(r"mesh: \[(.*?)\]", self.prepare(program))[1].split(", ")
        alone = ",".join(axis.split(":")[0] + ":1" for axis in axes)
        [expected] = self.trains(program, {"delivery.trainers": 1, "delivery.mesh": alone})
        self.assertGreater(len(expected), 0)
        ranks = self.trains(program, {}, readers)
        self.assertEqual([len(lines) for lines in ranks], [0 if rank in silent else len(expected) for rank in range(4)])
        for lines in filter(None, ranks):
            for line, right in zip(lines, expected):
                self.assertEqual(re.sub("loss [^ ]*", "", line), re.sub("loss [^ ]*", "", right))
                losses = [re.search("loss ([^ ]*)", text) for text in (line, right)]
                if losses[0]:
                    self.assertAlmostEqual(float(losses[0][1]) / float(losses[1][1]), 1, places=3)

    def test_fsdp_and_tensor(self):
        self.agrees("fsdp_tensor.py")

    def test_context(self):
        self.agrees("context.py")

    def test_packed(self):
        self.agrees("packed.py", readers=2)

    def test_pipeline(self):
        """Each stage has a reader of its own."""
        self.agrees("pipeline.py", readers=2, silent=(0, 1))

    def test_spatial(self):
        self.agrees("spatial.py", readers=2)

    def test_megatron(self):
        if importlib.util.find_spec("megatron") is None or importlib.util.find_spec("megatron.core") is None:
            self.skipTest("no megatron-core")
        self.agrees("with_megatron.py")


if __name__ == "__main__":
    unittest.main()
