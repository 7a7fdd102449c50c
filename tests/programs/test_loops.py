#!/usr/bin/env python3
"""The loops of python/examples/loops, with the frameworks' releases that bench/environments.py names."""

import os

from program import HERE, environments

try:
    python = environments.prepare(os.environ["PENSTOCK_ENVIRONMENTS"], "loops")
except environments.Missing as reason:
    print(f"skipped: {reason}", flush=True)
    os._exit(77)
os.execv(python, [str(python), str(HERE.parent / "mpi" / "test_loops.py"), "-v"])
