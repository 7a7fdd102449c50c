"""Archives of foreign datasets, in the folder that PENSTOCK_CORPORA names; and tests that cannot run."""

import os
import subprocess
import sys

SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def unpack(name, folder):
    """Unpacks an archive into a folder, or ends the test as skipped."""
    corpora = os.environ.get("PENSTOCK_CORPORA")
    if not corpora:
        skip("PENSTOCK_CORPORA is not set")
    archive = os.path.join(corpora, name)
    if not os.path.exists(archive):
        skip(f"PENSTOCK_CORPORA has no {name}")
    done = subprocess.run(["tar", "--zstd", "-xf", archive, "-C", folder], capture_output=True, check=False)
    if done.returncode != 0:
        skip(f"tar cannot unpack {name}: {done.stderr.decode().strip()}")
