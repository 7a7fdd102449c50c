"""Runs penstock-reader under mpirun for the tests: datasets, jobs, digests, and what must not be left behind.

Only the standard library. The environment says where things are:
  PENSTOCK_BIN      directory with penstock, penstock-reader and penstock-trainer
  PENSTOCK_MPIEXEC  mpirun or mpiexec of the MPI library that penstock-reader was built with
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.path.abspath(os.environ.get("PENSTOCK_BIN", "build/release/bin"))
MPIEXEC = os.environ.get("PENSTOCK_MPIEXEC", "mpirun")
MARK = f"{os.getpid()}-{time.monotonic_ns()}"
# Instrumented programs are slow: fewer of what is much alike is enough to see what sanitizers see.
SANITIZED = bool(os.environ.get("PENSTOCK_SANITIZED"))
TIMEOUT_S = int(os.environ.get("PENSTOCK_TEST_TIMEOUT", "120"))
ALONE = 0  # readers that mpirun starts: Open MPI's takes two seconds longer to end where one of its ranks fails


def program(name):
    return os.path.join(BIN, name)


def launcher_version():
    return subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout


def launcher_is_open_mpi():
    return bool(re.search("Open MPI|OpenRTE|PRRTE", launcher_version()))


def launcher_passes_last_words():
    """Open MPI 5's does not read any more what processes print that it ends itself because of a signal."""
    return not re.search(r"\(Open MPI\) ([5-9]|\d\d)|PRRTE", launcher_version())


def mpi_flags():
    """Flags that start more ranks than cores, unbound."""
    if launcher_is_open_mpi():
        return ["--oversubscribe", "--bind-to", "none"]
    return ["-bind-to", "none"]


def python_words():
    """What starts a Python that may load libpenstock: a sanitizer in the library wants to be there first."""
    if not SANITIZED:
        return [sys.executable]
    linked = subprocess.run(["ldd", os.environ["PENSTOCK_LIBRARY"]], capture_output=True, text=True, check=True).stdout
    return ["env", "LD_PRELOAD=" + ":".join(re.findall(r"=> (\S*/lib[at]san\.\S*)", linked)), sys.executable]


def environment(**more):
    env = dict(os.environ)
    env.pop("PENSTOCK_RUN_DIR", None)
    env.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "PENSTOCK_TEST_MARK": MARK})
    env.update({key: str(value) for key, value in more.items()})
    return env


class Outcome:
    """What a run came to: exit code, everything it printed, seconds."""

    def __init__(self, code, output, seconds):
        self.code, self.output, self.seconds = code, output, seconds


def wait_until(ready, process):
    """Until `ready()`, or as many seconds; not longer than the process lives."""
    deadline = time.monotonic() + (TIMEOUT_S if callable(ready) else ready)
    while process.poll() is None and time.monotonic() < deadline and not (callable(ready) and ready()):
        time.sleep(0.02)


def run(command, timeout=TIMEOUT_S, env=None, send=None, cwd=None):
    """Runs a command in a session of its own. `send` = (when, signal) goes to the command alone, after as many seconds or
    when `when()` is true. A hang is an error with the output so far, never a hang of the test. Its output is what went to
    stdout, then what went to stderr: a reader's message does not get into a line of a trainer."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, env=env or environment(), cwd=cwd,
                               start_new_session=True)
    try:
        if send:
            wait_until(send[0], process)
            process.send_signal(send[1])
            start = time.monotonic()
        output = "".join(process.communicate(timeout=timeout))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = "".join(process.communicate())
        raise AssertionError(f"hangs: {' '.join(command)}\n{output}") from None
    return Outcome(process.returncode, output, time.monotonic() - start)


class JobTest(unittest.TestCase):
    """A test with a folder of its own, and datasets made once per class."""

    @classmethod
    def setUpClass(cls):
        cls.datasets = tempfile.mkdtemp(prefix="penstock-test-")
        cls.flags = mpi_flags()
        cls.singles = {}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.datasets, ignore_errors=True)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="penstock-test-")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    @classmethod
    def synth(cls, name, samples, **options):
        """Path of a dataset in the demo layout, made by `penstock synth`."""
        path = os.path.join(cls.datasets, name)
        if not os.path.exists(path):
            command = [program("penstock"), "synth", path, "--samples", str(samples)]
            for key, value in options.items():
                command += [f"--{key}", str(value)]
            made = run(command)
            if made.code != 0:
                raise AssertionError(made.output)
        return path

    def reader(self, readers, settings, trainer=None, options=(), timeout=TIMEOUT_S, env=None,
               send=None):
        """One mpirun of penstock-reader; ALONE: a single reader without mpirun. `settings`: configuration by key;
        `trainer`: arguments of penstock-trainer, or a whole command as a tuple."""
        launcher = [MPIEXEC, *self.flags, "-np", str(readers)] if readers != ALONE else []
        command = [*launcher, program("penstock-reader")]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        command += options
        if isinstance(trainer, tuple):
            command += ["--", *trainer]
        elif trainer is not None:
            command += ["--", program("penstock-trainer"), *trainer]
        return run(command, timeout, env, send, self.folder)

    def plan(self, readers, settings):
        """What `penstock plan --json` says of a run."""
        command = [program("penstock"), "plan", "--json", "--readers", str(readers)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        made = run(command)
        self.assertEqual(made.code, 0, made.output)
        return json.loads(made.output)

    def deliver(self, readers, trainers, settings, trainer=(), options=(), expect=0):
        """Runs a job whose trainers write digest.{rank} in this test's folder. `trainer`: a whole command, or more
        arguments of penstock-trainer."""
        for old in glob.glob(os.path.join(self.folder, "digest.*")):
            os.remove(old)
        if not isinstance(trainer, tuple) or not trainer:
            trainer = ["--digest", os.path.join(self.folder, "digest.{rank}"), *trainer]
        outcome = self.reader(readers, {"delivery.trainers": trainers, **settings}, trainer, ["--quiet", *options])
        self.assertEqual(outcome.code, expect, outcome.output)

    def digests(self, readers, trainers, settings, trainer=(), options=(), expect=0):
        """Runs a job and returns the digest lines of all trainers, sorted by (epoch, step, position)."""
        self.deliver(readers, trainers, settings, trainer, options, expect)
        return self.digest_lines()

    def single(self, settings):
        """Digest lines of one reader and one trainer, which come from one run for all tests of a class."""
        key = tuple(map(str, settings.items()))
        if key not in self.singles:
            self.singles[key] = self.digests(1, 1, settings)
        return self.singles[key]

    POSITIONS = False  # whether lines of digests have the positions of samples, which depend on where trainers are

    def digest_lines(self):
        """What all trainers wrote to digest.{rank} in this test's folder."""
        lines = []
        for path in glob.glob(os.path.join(self.folder, "digest.*")):
            with open(path, encoding="ascii") as file:
                lines += [line.split() for line in file]
        lines.sort(key=lambda line: [int(word) for word in line[:3]])
        return self.known(lines)

    def known(self, lines):
        """Lines of a model, as digest_lines() has them."""
        return list(lines) if self.POSITIONS else without_positions(lines)

    def assert_nothing_left(self, before, outcome):
        """No process of ours and no shared memory beyond what there was `before`, no run directory. MPICH's launcher
        may end before its ranks do."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            left = {path for path in leftovers() - before if not is_in_use(path)}
            left |= {path for path in run_dirs(outcome) if os.path.exists(path)}
            if not left:
                return
            if time.monotonic() > deadline:
                self.fail(f"left behind: {sorted(left)}")
            time.sleep(0.05)


def without_positions(lines):
    """Each step's samples in order of index, numbered: the same whoever got which. A position has one sample, and what
    came twice is there twice."""
    lines, numbered, last = [tuple(line) for line in lines], [], None
    assert len({line[:3] for line in lines}) == len(set(lines)), "a position has two samples"
    for line in sorted(lines, key=lambda line: (int(line[0]), int(line[1]), int(line[3]), line[4:], int(line[2]))):
        if not last or line[:2] != last[:2]:
            number = 0
        elif line != last:
            number += 1
        last = line
        numbered.append([*line[:2], str(number), *line[3:]])
    return numbered


def random_options(runs, seed):
    """How many random runs, and from which seed: as given, or what --long [N] and --seed S, which are taken from the
    command line, say."""
    if "--long" in sys.argv:
        at = sys.argv.index("--long")
        runs = int(sys.argv.pop(at + 1)) if at + 1 < len(sys.argv) and sys.argv[at + 1].isdigit() else 500
        del sys.argv[at]
    if "--seed" in sys.argv:
        at = sys.argv.index("--seed")
        seed = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    return runs, seed


def chunk_bytes(uri):
    """What all chunks of a dataset take in storage."""
    return sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(uri) for name in names if not name.startswith(".z"))


def slabs_done(destination, work):
    """How many slabs of a rechunk or an ingest that goes on are done, by its journal."""
    count = 0
    for path in glob.glob(os.path.join(destination, f".penstock-{work}", "done.*")):
        try:
            with open(path, encoding="ascii") as file:
                count += len(file.read().split()) // 3
        except FileNotFoundError:  # it has just ended
            pass
    return count


def run_dirs(outcome):
    """The run directories that a job named in its output."""
    return re.findall(r"^readers .*; run_dir (\S+)$", outcome.output, re.MULTILINE)


def is_in_use(path):
    """Whether it is of a penstock-run that lives, another test's: see `scratch` there."""
    found = re.search(r"/penstock-mpi-\w+-\d+-(\d+)$", path)
    return found is not None and os.path.exists(f"/proc/{found[1]}")


def leftovers():
    """What a run of ours may leave: processes that carry this test's mark in their environment, and
    shared-memory files."""
    found = set(glob.glob("/dev/shm/*penstock*"))
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/environ", "rb") as file:
                marked = f"PENSTOCK_TEST_MARK={MARK}".encode() in file.read().split(b"\0")
            with open(path + "/cmdline", "rb") as file:
                name = os.path.basename(file.read().split(b"\0")[0].decode())
        except (OSError, UnicodeDecodeError):
            continue
        if marked:
            found.add(f"{path} {name}")
    return found
