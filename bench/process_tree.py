"""What a command and all processes that it starts take: seconds of CPU, and the most memory at one time. Linux only."""
import os
import pathlib
import resource
import threading

PERIOD_S = 0.2


def pss_bytes(pid):
    """What a process has of this machine's memory: pages that several have are divided among them. 0: it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def marked(mark):
    """Processes whose environment has it: a launcher's, too, which leave their parent and their session."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                yield int(folder.name)
        except OSError:
            pass


def cpu_s_of(pid):
    """CPU seconds of a process and of its children that are gone. 0: it is gone itself."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0


class Watched:
    """A context: `cpu_s` and `most_bytes` of what runs in it with `environment`, once it is left, and `cpu_s_at` of each of `moments`,
    the CPU seconds until that file was there (PERIOD_S late at most). Not for two at once."""

    def __init__(self, moments=()):
        self.moments, self.cpu_s_at = list(moments), {}
        self.mark = f"PENSTOCK_BENCH_WATCHED={os.getpid()}"
        self.environment = dict([self.mark.split("=")])
        self.cpu_s = self.most_bytes = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        cpu_s = 0
        while not self.over.wait(PERIOD_S):
            processes = list(marked(self.mark.encode()))
            cpu_s = max(cpu_s, sum(map(cpu_s_of, processes)))  # less once processes are gone whose parents are
            while self.moments and self.moments[0].exists():
                self.cpu_s_at[self.moments.pop(0)] = cpu_s
            self.most_bytes = max(self.most_bytes, sum(map(pss_bytes, processes)))

    def __enter__(self):
        self.before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s = after.ru_utime + after.ru_stime - self.before.ru_utime - self.before.ru_stime
        self.cpu_s_at.update(dict.fromkeys(self.moments, self.cpu_s))
