"""Arrays and fields as Penstock decodes them: one process of the test tools dump_array or dump_field for all of a test."""

import os
import subprocess


class Dump:
    """Close it, or use it in a `with`."""

    def __init__(self, tool, **environment):
        self.process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, **environment})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def read(self, folder, array=""):
        """The items of an array, or the one at the root of the store, and None; or None, and the message that it is refused with."""
        self.process.stdin.write(f"{folder}\t{array}\n".encode())
        self.process.stdin.flush()
        verdict, _, size = self.process.stdout.readline().decode().partition(" ")
        if verdict not in ("ok", "error"):
            raise RuntimeError(f"dump_array ended at {folder} with {self.process.wait()}")
        answer = self.process.stdout.read(int(size))
        return (answer, None) if verdict == "ok" else (None, answer.decode())


class DumpField:
    """Calls dump_field."""

    def __init__(self, tool):
        self.process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **settings):
        """The field's items, None and how many chunks were read; or None, the message that it is refused with, and 0."""
        line = "\t".join(f"{key}={value}" for key, value in settings.items())
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        verdict, size, chunks = self.process.stdout.readline().split()
        answer = self.process.stdout.read(int(size))
        return (answer, None, int(chunks)) if verdict == b"ok" else (None, answer.decode(), 0)

    def __call__(self, **settings):
        """The field's items, and how many chunks were read. Fails where they are refused."""
        items, refusal, chunks = self.ask(**settings)
        if refusal is not None:
            raise AssertionError(f"{settings}: {refusal}")
        return items, chunks
