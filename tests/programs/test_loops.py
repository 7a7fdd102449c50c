#!/usr/bin/env python3
"""The loops of python/examples/loops, with the frameworks' releases that bench/environments.py names."""

import os
import subprocess
import sys

from program import HERE, environments

codes = []
for name, classes in (("loops", ["Loops", "MoreLoops"]), ("composer", ["MoreLoops.test_composer"])):
    try:
        python = environments.prepare(os.environ["PENSTOCK_ENVIRONMENTS"], name)
    except environments.Missing as reason:
        print(f"skipped, {name}: {reason}", flush=True)
        continue
    codes.append(subprocess.run([python, HERE.parent / "mpi" / "test_loops.py", "-v", *classes], check=False).returncode)
sys.exit(int(any(codes)) if codes else 77)
