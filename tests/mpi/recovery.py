"""For tests in which readers or trainers die: jobs whose processes are started one by one, and what each trainer gets."""

import contextlib
import glob
import os
import re
import signal
import subprocess
import time

from job import MPIEXEC, TIMEOUT_S, JobTest, environment, leftovers, program

EXIT_FINAL = 4
SLOTS = 4
UNUSED_S = 5  # another job's segment is used by then
WINDOWS = {"dataset.fields.latents.array": "base_frames", "dataset.fields.latents.steps": "-1:2",
           "samples.pad_before": 1, "samples.pad_after": 1}


def lines_of(path):
    """The whole lines of a digest file, in the order written."""
    try:
        with open(path, encoding="ascii") as file:
            return [line.split() for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


class Process:
    """A command under way, with what it prints in a file."""

    def __init__(self, command, log, env=None):
        self.log = log
        with open(log, "w", encoding="utf-8") as file:
            self.popen = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT,
                                          stdin=subprocess.DEVNULL, env=env or environment(),
                                          start_new_session=True)

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, timeout=TIMEOUT_S):
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
            raise AssertionError(f"hangs:\n{self.output()}") from None

    def kill(self, number=signal.SIGKILL):
        self.popen.send_signal(number)

    def stop(self):
        """The end of a test: nothing stays."""
        if self.popen.poll() is None:
            try:
                os.killpg(self.popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.popen.wait()


def segments():
    """Of Open MPI 4 and 5."""
    return set(glob.glob("/dev/shm/vader_segment.*") + glob.glob("/dev/shm/sm_segment.*"))


def unused_segments():
    """What Open MPI leaves in /dev/shm when mpirun itself is killed."""
    found = segments()
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found -= {line.split()[-1] for line in file if "/dev/shm/" in line}
        except OSError:
            continue
    return found


class RecoveryTest(JobTest):
    trainers = 2
    batch = 4  # samples of a trainer's batch

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.segments = segments()
        cls.undisturbed = {}  # what was worked out for tests before

    @classmethod
    def tearDownClass(cls):
        for path in unused_segments() - cls.segments:
            with contextlib.suppress(FileNotFoundError):  # another job's, which removes it itself
                if time.time() - os.path.getmtime(path) > UNUSED_S:
                    os.remove(path)
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.run_dir = os.path.join(self.folder, "run")
        self.processes = []
        self.before = leftovers()

    def tearDown(self):
        for process in self.processes:
            process.stop()
        super().tearDown()

    def settings(self, **more):
        return {"dataset.uri": self.synth("recovery", 203, chunk=4, videos=5),
                "batch.global_size": 8, "batch.last": "partial", "order.epochs": 8,
                "order.seed": 5, "readers.threads": 1, "delivery.trainers": self.trainers,
                "delivery.slots": SLOTS, **more}

    def expected(self, readers=1, **more):
        """What each trainer gets in an undisturbed run of so many readers: lines by rank."""
        settings = self.settings(**more)
        key = (readers, *map(str, settings.items()))
        if key not in self.undisturbed:
            self.deliver(readers, self.trainers, settings)
            self.undisturbed[key] = [lines_of(os.path.join(self.folder, f"digest.{rank}"))
                                     for rank in range(self.trainers)]
            for path in glob.glob(os.path.join(self.folder, "digest.*")):
                os.remove(path)
        return self.undisturbed[key]

    def keep(self, process):
        self.processes.append(process)
        return process

    def start_readers(self, readers, settings, options=(), command=(), name="readers"):
        line = [MPIEXEC, *self.flags, "-np", str(readers), program("penstock-reader")]
        for key, value in settings.items():
            line += ["--set", f"{key}={value}"]
        line += options
        if command:
            line += ["--", *command]
        log = os.path.join(self.folder, f"{name}.{len(self.processes)}.log")
        return self.keep(Process(line, log))

    def left_file(self, cursors, said=""):
        """A file for --left. `cursors`: by rank. `said`: what readers said, with the lines of their locality and trainers."""
        path = os.path.join(self.folder, "left")
        found = dict(re.findall(r"^(locality|trainers) (\d+)$", said, re.MULTILINE))
        lines = [f"{key} {number}" for key, number in found.items()]
        lines += [f"left {rank} {cursor}" for rank, cursor in cursors.items()]
        with open(path, "w", encoding="ascii") as out:
            out.write("\n".join([*lines, ".\n"]))
        return path

    def start_trainer(self, rank, digest, *arguments, readers=1, **env):
        line = [program("penstock-trainer"), "--run-dir", self.run_dir, "--rank", str(rank),
                "--world-size", str(self.trainers), "--digest",
                os.path.join(self.folder, digest), *arguments]
        env = environment(**{"PENSTOCK_READER": rank * readers // self.trainers, **env})
        log = os.path.join(self.folder, f"trainer.{len(self.processes)}.log")
        return self.keep(Process(line, log, env))

    def start_trainers(self, *arguments, **more):
        return [self.start_trainer(rank, f"digest.{rank}", *arguments, **more)
                for rank in range(self.trainers)]

    def digest(self, name):
        return lines_of(os.path.join(self.folder, f"digest.{name}"))

    def until(self, condition, what):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            logs = "\n".join(process.output() for process in self.processes)
            self.assertLess(time.monotonic(), deadline, f"never came: {what}\n{logs}")
            time.sleep(0.01)

    def until_lines(self, name, count):
        self.until(lambda: len(self.digest(name)) >= count, f"{count} lines of {name}")

    def reader_pid(self, reader):
        with open(os.path.join(self.run_dir, f"reader-{reader}.lock"), encoding="ascii") as file:
            return int(file.read())

    def assert_ends_well(self, *processes):
        for process in processes:
            self.assertEqual(process.wait(), 0, "\n".join(p.output() for p in self.processes))

    def lines_past_a_reader(self, settings):
        """The digest lines of a job of three readers of which one is killed in its first epoch, and that goes on with two."""
        job = self.start_readers(3, settings, ["--supervised"])
        trainers = self.start_trainers("--compute-ms", "5", readers=3)
        self.until_lines("0", 60)
        os.kill(self.reader_pid(1), signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0)
        job = self.start_readers(2, settings, ["--supervised"])
        self.assert_ends_well(*trainers, job)
        return self.digest_lines()

    def assert_nothing_left_behind(self):
        self.assertFalse(os.path.exists(self.run_dir), "the run directory is gone")
        self.until(lambda: not self.left_behind(), f"the end of {sorted(self.left_behind())}")

    def left_behind(self):
        return {name for name in leftovers() - self.before if name.startswith("/proc/")}

    def state_after(self, steps):
        """The state of a run after that many steps, as text."""
        settings = self.settings()
        key = ("state", steps, *map(str, settings.items()))
        if key not in self.undisturbed:
            path = os.path.join(self.folder, "state.{rank}")
            self.deliver(1, self.trainers, settings, ["--steps", str(steps), "--state", path], expect=3)
            with open(os.path.join(self.folder, "state.0"), encoding="ascii") as file:
                self.undisturbed[key] = file.read().strip()
        return self.undisturbed[key]

    def assert_pieces(self, name_of_first, name_of_second, expected, start=None):
        """The second process of a rank went on where the first left off, but for what that one had
        not released; or at line `start`, and up to the end."""
        first, second = self.digest(name_of_first), self.digest(name_of_second)
        self.assertEqual(first, expected[:len(first)])
        begin = len(expected) - len(second)
        self.assertEqual(second, expected[begin:])
        if start is None:
            self.assertLessEqual(begin, len(first))
            self.assertGreaterEqual(begin, len(first) - self.batch, "one batch at most comes again")
        else:
            self.assertEqual(begin, start)
