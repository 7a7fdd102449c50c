"""Runs a training loop that talks by gloo, and ends without Python's finalization.

    python3 loop_program.py PROGRAM [ARGUMENT...]

PyTorch's threads for gloo outlive destroy_process_group(). One that lets go of a tensor while Python finalizes ends the process:
"terminate called without an active exception" (github.com/pytorch/pytorch/issues/190489). Busy machines show it.

What the loop prints goes to the file $PRINTED.$RANK, if that is set: mpirun may put a line of another process before the end
of a line.
"""

import atexit
import gc
import os
import runpy
import sys

if "PRINTED" in os.environ:
    os.dup2(os.open(f"{os.environ['PRINTED']}.{os.environ['RANK']}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
sys.argv.pop(0)
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")  # an exception ends Python as usual
gc.collect()
atexit._run_exitfuncs()  # pylint: disable=protected-access
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
