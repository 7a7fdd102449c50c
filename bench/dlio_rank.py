#!/usr/bin/env python3
"""One rank of DLIO, with the arguments of dlio_benchmark. DLIO imports TensorFlow whatever the framework; where it is not
installed, an empty module stands for it."""
import sys
import types

try:
    import tensorflow  # pylint: disable=unused-import
except ImportError:
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")

from dlio_benchmark.main import main  # pylint: disable=wrong-import-position

main()
