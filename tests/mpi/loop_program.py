"""Runs a training loop that talks by gloo, and ends without Python's finalization.

    python3 loop_program.py PROGRAM [ARGUMENT...]
    python3 loop_program.py --serve SOCKET

PyTorch's threads for gloo outlive destroy_process_group(). One that lets go of a tensor while Python finalizes ends the process:
"terminate called without an active exception" (github.com/pytorch/pytorch/issues/190489). Busy machines show it.

What the loop prints goes to the file $PRINTED.$RANK, if that is set: mpirun may put a line of another process before the end
of a line.

Frameworks take seconds to import. With --serve they are imported once, when a loop first names them. Where LOOP_SERVER=SOCKET is set, the loop
runs in a fork of that server, with the environment, the folder and the open files of the process that asks for it, which ends as the loop does.
"""

import ast
import atexit
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

SHARED = ("accelerate", "lightning", "megatron", "torch", "torchdata")  # they start no threads when they are imported


def ask(path):
    """Has the server run the loop; returns how it ended."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [b"\0"], [0, 1, 2])
        request = {"argv": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}
        server.sendall(json.dumps(request).encode() + b"\n")
        status = server.makefile().read()
    return os.waitstatus_to_exitcode(int(status)) if status else 1


def import_for(program):
    """What a loop imports of frameworks, for all loops that come later."""
    with open(program, encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in [node.module] if isinstance(node, ast.ImportFrom) else names:
                if name.split(".")[0] in SHARED:
                    importlib.import_module(name)
                    importlib.import_module("torch._dynamo")  # an optimizer's first step would import it


def serve(path):
    """Returns in a fork for each loop. Ends with standard input, and all loops then, too."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    loops, poll = {}, select.poll()
    for file in (sys.stdin, listener):
        poll.register(file, select.POLLIN)
    while True:
        for file, _ in poll.poll():
            if file == listener.fileno():
                connection, _ = listener.accept()
                _, files, _, _ = socket.recv_fds(connection, 1, 3)
                request = json.loads(connection.makefile("rb").readline())
                import_for(os.path.join(request["folder"], request["argv"][1]))
                pid = os.fork()
                if pid == 0:
                    os.setsid()
                    for number, opened in enumerate(files):
                        os.dup2(opened, number)
                        os.close(opened)
                    listener.close()
                    for other, _, ended in loops.values():
                        other.close()
                        os.close(ended)
                    os.chdir(request["folder"])
                    os.environ.clear()
                    os.environ.update(request["environment"])
                    sys.argv = request["argv"]
                    return
                for opened in files:
                    os.close(opened)
                loops[connection.fileno()] = (connection, pid, os.pidfd_open(pid))
                for waited in (connection.fileno(), loops[connection.fileno()][2]):
                    poll.register(waited, select.POLLIN)
            elif file == sys.stdin.fileno():
                for _, pid, _ in loops.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                os._exit(0)
            elif file in loops:  # who asked for it is gone
                poll.unregister(file)
                os.kill(loops[file][1], signal.SIGKILL)
            elif number := next((number for number, (_, _, ended) in loops.items() if ended == file), None):
                connection, pid, _ = loops.pop(number)
                poll.unregister(file)
                with contextlib.suppress(KeyError):
                    poll.unregister(number)
                with contextlib.suppress(OSError):
                    connection.sendall(str(os.waitpid(pid, 0)[1]).encode())
                os.close(file)
                connection.close()


if sys.argv[1] == "--serve":
    serve(sys.argv[2])
elif "LOOP_SERVER" in os.environ:
    code = ask(os.environ["LOOP_SERVER"])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)
if "PRINTED" in os.environ:
    os.dup2(os.open(f"{os.environ['PRINTED']}.{os.environ['RANK']}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
faulthandler.dump_traceback_later(float(os.environ.get("PENSTOCK_TEST_TIMEOUT", "120")) * 0.8)  # where it hangs, if it does
sys.argv.pop(0)
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")  # an exception ends Python as usual
gc.collect()
atexit._run_exitfuncs()  # pylint: disable=protected-access
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
