"""docs/use/tutorial.md as it stands: its commands, its run.yaml and its train.py, on two hosts, interrupted and resumed."""

import os
import re
import shlex
import signal
import sys
import unittest

from cluster import HOSTS
from job import JobTest, environment, program, run

try:
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks():
    """The page's code blocks: (language, text)."""
    with open(os.path.join(ROOT, "docs", "use", "tutorial.md"), encoding="utf-8") as file:
        return re.findall(r"^```(\w+)\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


class Tutorial(JobTest):
    SAMPLES = 320  # instead of the page's 2,000: ten steps an epoch, which four slots do not hold
    PAUSE = "time.sleep(0.1)"  # instead of a model that takes its time

    def setUp(self):
        super().setUp()
        self.env = environment(PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", PENSTOCK_DELIVERY_SLOTS="4",
                               PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
        for language, text in blocks():
            if language in ("yaml", "python"):
                name = re.match(r"# (\S+)\n", text).group(1)
                with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                    file.write(text.replace("optimizer.step()\n", f"optimizer.step(); import time; {self.PAUSE}\n"))

    def commands(self, start):
        """The page's commands that begin so, with our hosts and the smaller dataset."""
        text = "".join(text for language, text in blocks() if language == "sh")
        text = text.replace("n1,n2", ",".join(HOSTS[:2])).replace("--samples 2000", f"--samples {self.SAMPLES}")
        found = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith(start)]
        self.assertTrue(found, start)
        return [[program(words[0]), *words[1:]] for words in found]

    def command(self, words, **more):
        env = {key: value for key, value in self.env.items()  # which name all hosts, where the page means one
               if "--hosts" in words or not key.startswith(("OMPI_MCA", "PRTE_MCA", "HYDRA"))}
        outcome = run(words, env=env, cwd=self.folder, **more)
        if "send" not in more:
            self.assertEqual(outcome.code, 0, outcome.output)
        return outcome.output

    def model(self):
        saved = torch.load(os.path.join(self.folder, "last.pt"))
        os.remove(os.path.join(self.folder, "last.pt"))
        return saved["model"]

    def steps(self, output):
        return re.findall(r"^epoch (\d+) step (\d+):", output, re.MULTILINE)

    def some_steps(self):
        return os.path.exists(os.path.join(self.folder, "last.pt"))

    def test_all_of_it(self):
        synth, inspect, plan = (self.commands(f"penstock {verb}") for verb in ("synth", "inspect", "plan"))
        self.command(*synth)
        self.assertIn("segment_to_video", self.command(*inspect))
        self.assertIn("order id", self.command(*plan))
        on_one, on_two, again = self.commands("penstock-run")
        self.assertEqual(on_two, again)
        whole = self.steps(self.command(on_one))
        self.assertEqual(whole, [(str(epoch), str(step)) for epoch in range(2) for step in range(10)])
        expected = self.model()
        self.assertEqual(self.steps(self.command(on_two)), whole)
        self.assert_close(self.model(), expected)
        first = self.steps(self.command(on_two, send=(self.some_steps, signal.SIGINT)))
        self.assertLess(len(first), len(whole))
        self.assertEqual(first + self.steps(self.command(again)), whole)
        self.assert_close(self.model(), expected)

    def assert_close(self, model, expected):
        for name, weights in expected.items():
            self.assertTrue(torch.allclose(weights, model[name], rtol=0, atol=1e-5), name)


if __name__ == "__main__":
    unittest.main()
