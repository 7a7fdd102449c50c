"""docs/ragged.md as it stands: its programs, configurations and commands, in order. Run by a Python with torch, pyarrow, zarr 3 and anndata:
without anndata the first half alone."""

import importlib.util
import os
import re
import shlex
import sys
import unittest

from job import JobTest, environment, program, run

missing = [name for name in ("torch", "pyarrow", "zarr") if not importlib.util.find_spec(name)]
if missing:
    print(f"skipped: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks(chapter):
    """The code blocks of a chapter of the page: (language, text)."""
    with open(os.path.join(ROOT, "docs", "ragged.md"), encoding="utf-8") as file:
        text = re.search(rf"^## {chapter}\n(.*?)^## ", file.read(), re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Page(JobTest):
    def follow(self, chapter):
        """Does what the chapter says. Returns what its last command printed."""
        env = environment(PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", PENSTOCK_PYTHON=sys.executable,
                          PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
        for language, text in blocks(chapter):
            if language != "sh":
                name = re.match(r"# (\S+)\n", text).group(1)
                with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
                continue
            for line in text.splitlines():
                words = [sys.executable if word == "python3" else word for word in shlex.split(line, comments=True)]
                if words[0].startswith("penstock"):
                    words[0] = program(words[0])
                outcome = run(words, env=env, cwd=self.folder)
                self.assertEqual(outcome.code, 0, f"{line}\n{outcome.output}")
        return outcome.output

    def check_losses(self, output):
        """Four epochs of two trainers, which learn something."""
        losses = [(int(epoch), float(loss)) for epoch, loss in re.findall(r"epoch (\d): loss ([\d.]+)", output)]
        self.assertEqual(sorted(epoch for epoch, _ in losses), [0, 0, 1, 1, 2, 2, 3, 3], output)
        first, last = (sum(loss for epoch, loss in losses if epoch == number) for number in (0, 3))
        self.assertLess(last, 0.8 * first, output)

    def test_events(self):
        self.check_losses(self.follow("Events"))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "sample.svg")))

    @unittest.skipUnless(importlib.util.find_spec("anndata"), "anndata is not installed")
    def test_cells(self):
        self.check_losses(self.follow("Cells"))


if __name__ == "__main__":
    unittest.main()
