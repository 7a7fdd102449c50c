"""A transform in threads of one process of free-threaded Python, where there is one: PENSTOCK_FREE_THREADED_PYTHON, or python3.14t or
python3.13t in the PATH."""

import os
import shutil
import subprocess
import sys
import unittest

import test_transform

PYTHON = os.environ.get("PENSTOCK_FREE_THREADED_PYTHON") or shutil.which("python3.14t") or shutil.which("python3.13t")
if not PYTHON:
    print("skipped: no free-threaded Python: neither PENSTOCK_FREE_THREADED_PYTHON nor python3.14t or python3.13t")
    sys.exit(77)
if subprocess.run([PYTHON, "-c", "import numpy, sys; sys.exit(sys._is_gil_enabled())"], check=False).returncode:
    print(f"skipped: {PYTHON} has no numpy, or has a lock")
    sys.exit(77)
test_transform.PYTHON, test_transform.HAS_GIL = [PYTHON], False


class Threads(test_transform.Transforms):
    """Of its tests those of threads, and of what is made."""


for name in dir(Threads):
    if name.startswith("test_") and name not in ("test_threads", "test_any_shape", "test_bad_samples_are_masked"):
        setattr(Threads, name, None)

if __name__ == "__main__":
    del test_transform
    unittest.main()
