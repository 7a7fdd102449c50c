"""Pages of the documentation as tests: what a text says is done as it stands, in a folder of the test's own."""

import os
import re
import sys

from job import BIN, environment, run

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read_page(name):
    with open(os.path.join(ROOT, "docs", "use", name), encoding="utf-8") as file:
        return file.read()


def example_environment(folder):
    """What examples are run in: `penstock` and `python3` are those of this test."""
    programs = os.path.join(folder, ".bin")
    os.makedirs(programs, exist_ok=True)
    with open(os.path.join(programs, "python3"), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    return environment(PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", PENSTOCK_PYTHON=sys.executable,
                       PATH=os.pathsep.join([programs, BIN, os.environ["PATH"]]))


def follow(test, text, folder):
    """Runs the commands of a text, and writes its other blocks of code to the files that their first lines name. Returns what the commands
    printed."""
    env, output = example_environment(folder), ""
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "sh":
            outcome = run(["bash", "-euxc", block], env=env, cwd=folder)
            test.assertEqual(outcome.code, 0, outcome.output)
            output += outcome.output
        else:
            name = re.match(r"# (\S+)\n", block).group(1)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(block)
    return output
