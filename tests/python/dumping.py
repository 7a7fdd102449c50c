"""Arrays as Penstock decodes them: one process of the test tool dump_array for all of a test."""

import subprocess


class Dump:
    """Close it, or use it in a `with`."""

    def __init__(self, tool):
        self.process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def read(self, folder):
        """The items of the array at the root of the store, and None; or None, and the message that it is refused with."""
        self.process.stdin.write(f"{folder}\n".encode())
        self.process.stdin.flush()
        verdict, _, size = self.process.stdout.readline().decode().partition(" ")
        if verdict not in ("ok", "error"):
            raise RuntimeError(f"dump_array ended at {folder} with {self.process.wait()}")
        answer = self.process.stdout.read(int(size))
        return (answer, None) if verdict == "ok" else (None, answer.decode())
