"""Readers and trainers die and come again; trainers get what an undisturbed run gives them."""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import servers
from job import (MPIEXEC, JobTest, chunk_bytes, environment, launcher_is_open_mpi, leftovers, program)

WAIT_S = 60
EXIT_FINAL = 4
SLOTS = 4
HAS_FAULTS = os.environ.get("PENSTOCK_HAS_FAULTS") == "1"
UNUSED_S = 5  # another job's segment is used by then
WINDOWS = {"dataset.fields.latents.array": "base_frames", "dataset.fields.latents.steps": "-1:2",
           "samples.pad_before": 1, "samples.pad_after": 1}
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


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

    def wait(self, timeout=WAIT_S):
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


def unused_segments():
    """What Open MPI leaves in /dev/shm when mpirun itself is killed."""
    found = set(glob.glob("/dev/shm/vader_segment.*"))
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found -= {line.split()[-1] for line in file if "vader_segment" in line}
        except OSError:
            continue
    return found


class RecoveryTest(JobTest):
    trainers = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.segments = set(glob.glob("/dev/shm/vader_segment.*"))

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

    def expected(self, **more):
        """What each trainer gets in an undisturbed run: lines by rank."""
        self.digests(1, self.trainers, self.settings(**more))
        result = [lines_of(os.path.join(self.folder, f"digest.{rank}"))
                  for rank in range(self.trainers)]
        for path in glob.glob(os.path.join(self.folder, "digest.*")):
            os.remove(path)
        return result

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

    def left_file(self, cursors):
        """A file for --left. `cursors`: by rank."""
        path = os.path.join(self.folder, "left")
        with open(path, "w", encoding="ascii") as out:
            out.write("".join(f"left {rank} {cursor}\n" for rank, cursor in cursors.items()) + ".\n")
        return path

    def start_trainer(self, rank, digest, *arguments, readers=1, **env):
        line = [program("penstock-trainer"), "--run-dir", self.run_dir, "--rank", str(rank),
                "--world-size", str(self.trainers), "--digest",
                os.path.join(self.folder, digest), *arguments]
        env = environment(PENSTOCK_READER=rank * readers // self.trainers, **env)
        log = os.path.join(self.folder, f"trainer.{len(self.processes)}.log")
        return self.keep(Process(line, log, env))

    def start_trainers(self, *arguments, **more):
        return [self.start_trainer(rank, f"digest.{rank}", *arguments, **more)
                for rank in range(self.trainers)]

    def digest(self, name):
        return lines_of(os.path.join(self.folder, f"digest.{name}"))

    def until(self, condition, what):
        deadline = time.monotonic() + WAIT_S
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

    def assert_nothing_left_behind(self):
        self.assertFalse(os.path.exists(self.run_dir), "the run directory is gone")
        self.until(lambda: not self.left_behind(), f"the end of {sorted(self.left_behind())}")

    def left_behind(self):
        return {name for name in leftovers() - self.before if name.startswith("/proc/")}

    def state_after(self, steps):
        """The state of a run after that many steps, as text."""
        path = os.path.join(self.folder, "state.{rank}")
        self.digests(1, self.trainers, self.settings(),
                     ["--steps", str(steps), "--state", path], expect=3)
        with open(os.path.join(self.folder, "state.0"), encoding="ascii") as file:
            return file.read().strip()

    def assert_pieces(self, name_of_first, name_of_second, expected, start=None):
        """The second process of a rank went on where the first left off, but for what that one had
        not released; or at line `start`, and up to the end."""
        first, second = self.digest(name_of_first), self.digest(name_of_second)
        self.assertEqual(first, expected[:len(first)])
        begin = len(expected) - len(second)
        self.assertEqual(second, expected[begin:])
        if start is None:
            self.assertLessEqual(begin, len(first))
            self.assertGreaterEqual(begin, len(first) - 4, "one batch at most comes again")
        else:
            self.assertEqual(begin, start)


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class Readers(RecoveryTest):
    """The readers' job dies, and is started again, while the trainers live."""

    def serve(self, readers, left=None, **more):
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 30, **more}),
            ["--supervised", *(["--left", self.left_file(left)] if left else [])])

    def kill_reader(self, _=None, reader=0):
        os.kill(self.reader_pid(reader), signal.SIGKILL)

    def check(self, kill, readers=(2, 2), times=1, **more):
        expected = self.expected(**more)
        job = self.serve(readers[0], **more)
        trainers = self.start_trainers("--compute-ms", "10", readers=readers[0])
        for i in range(times):
            self.until_lines("0", 60 * (i + 1))
            kill(job)
            self.assertNotEqual(job.wait(), 0)
            job = self.serve(readers[1], **more)
        self.assert_ends_well(*trainers, job)
        for rank in range(self.trainers):
            self.assertEqual(self.digest(rank), expected[rank])
        self.assert_nothing_left_behind()

    def test_a_reader_is_killed(self):
        self.check(lambda _: self.kill_reader(reader=1))

    def test_a_reader_is_killed_that_sends_rows_as_stored(self):
        self.check(lambda _: self.kill_reader(reader=1), readers=(2, 3), times=2,
                   **{"readers.cache": "stored", "exchange.way": "tapes"})

    def test_a_reader_of_windows_is_killed(self):
        self.check(lambda _: self.kill_reader(reader=1), readers=(2, 3), **WINDOWS)

    def test_rank_0_is_killed_again_and_again(self):
        self.check(self.kill_reader, times=3)

    def test_mpirun_is_killed(self):
        self.check(lambda job: job.kill())

    def test_mpirun_is_terminated(self):
        self.check(lambda job: job.kill(signal.SIGTERM))

    def test_the_reader_of_all_is_killed(self):
        self.check(self.kill_reader, readers=(1, 1))

    # One epoch, and a ring that holds all of it: a trainer that stands still does not hold the other.
    AT_ONCE = {"order.epochs": 1, "delivery.slots": 32}

    def until_one_has_all(self, expected, **more):
        """The job, and its trainers: the first has all batches, the second few, and stands still."""
        job = self.serve(1, **{**self.AT_ONCE, **more})
        trainers = self.start_trainers("--compute-ms", "30")
        self.until_lines(1, 4)
        trainers[1].popen.send_signal(signal.SIGSTOP)
        self.until_lines(0, len(expected[0]))
        self.assertLess(len(self.digest(1)), len(expected[1]), "it was stopped early enough")
        self.assertIsNone(trainers[0].popen.poll(), "it waits for the others")
        self.kill_reader()
        job.wait()
        return trainers

    def test_killed_while_trainers_have_their_last_batch(self):
        """Who has all batches comes back to let the others have theirs."""
        expected = self.expected(**self.AT_ONCE)
        trainers = self.until_one_has_all(expected)
        trainers[1].popen.send_signal(signal.SIGCONT)
        job = self.serve(1, **self.AT_ONCE)
        self.assert_ends_well(*trainers, job)
        for rank in range(self.trainers):
            self.assertEqual(self.digest(rank), expected[rank])

    def test_killed_while_only_some_have_heard_of_the_end(self):
        """Who has all batches comes back to hear of the end, and finds itself alone."""
        trainers = self.until_one_has_all(self.expected(**self.AT_ONCE))
        trainers[1].kill()  # as if it had ended
        job = self.serve(1, **{**self.AT_ONCE, "delivery.connect_timeout": 1})
        self.assert_ends_well(trainers[0], job)

    def test_those_that_know_of_the_end_are_not_waited_for(self):
        """The readers said, before they died, that all had everything."""
        expected = self.expected(**self.AT_ONCE)
        trainers = self.until_one_has_all(expected)
        trainers[1].kill()
        end = (203 + 7) // 8
        job = self.serve(1, left={0: end, 1: end}, **{**self.AT_ONCE, "delivery.connect_timeout": 3600})
        self.assert_ends_well(trainers[0], job)

    def test_all_had_everything_and_nobody_comes_back(self):
        expected = self.expected(**self.AT_ONCE)
        trainers = self.until_one_has_all(expected, **{"delivery.reconnect_timeout": 1})
        self.assert_ends_well(trainers[0])

    def test_nobody_comes_back(self):
        job = self.serve(1, **{"delivery.reconnect_timeout": 1})
        trainers = self.start_trainers("--compute-ms", "10")
        self.until_lines("0", 20)
        self.kill_reader()
        for trainer in trainers:
            self.assertEqual(trainer.wait(), 1)
            self.assertIn("the reader on this node went away: no Penstock service answers",
                          trainer.output())

    def test_another_service_comes_back(self):
        job = self.serve(1)
        trainers = self.start_trainers("--compute-ms", "10")
        self.until_lines("0", 20)
        self.kill_reader()
        job.wait()
        job = self.serve(1, **{"order.window_rows": 7})
        for trainer in trainers:
            self.assertEqual(trainer.wait(), 1)
        # The first one that comes ends the service; a later one may find nobody.
        self.assertRegex("\n".join(trainer.output() for trainer in trainers),
                         "order.window_rows was 51, this run has 7")
        self.assertEqual(job.wait(), EXIT_FINAL)

    def test_without_the_option_they_are_lost_at_once(self):
        job = self.serve(1, **{"delivery.reconnect_timeout": 0})
        trainers = self.start_trainers("--compute-ms", "10")
        self.until_lines("0", 20)
        self.kill_reader()
        for trainer in trainers:
            self.assertEqual(trainer.wait(), 1)
            self.assertIn("it crashed or was killed", trainer.output())


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class Localities(RecoveryTest):
    """With order.placement local all that is left of the readers may be trainers at different steps. Other readers, on
    another shape, give out the samples of those steps as the dead ones did."""

    changes = {}  # of the settings

    def settings(self, **more):
        return super().settings(**{"order.placement": "local", **self.changes, **more})

    def serve(self, readers, options=(), **more):
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 30, **more}), ["--supervised", *options])

    def until_one_is_ahead(self, **env):
        """The readers' job, and its trainers: the first has had all that its reader could send, the second few."""
        job = self.serve(2)
        trainers = self.start_trainers("--compute-ms", "5", readers=2, **env)
        self.until_lines(1, 40)
        trainers[1].popen.send_signal(signal.SIGSTOP)
        ahead = len(self.digest(1)) + 4 * (SLOTS - 1)
        self.until_lines(0, ahead)
        return job, trainers

    def assert_every_step_is_whole(self, *names):
        """Each step's samples once, over all trainers and their lives: what came again came as before."""
        lines = {tuple(line) for name in names for line in self.digest(name)}
        found = sorted((line[0], line[1], line[3]) for line in lines)
        self.assertEqual(found, sorted((line[0], line[1], line[3]) for part in self.sets for line in part))

    def setUp(self):
        super().setUp()
        self.sets = self.expected(**{"order.placement": "fixed"})

    def go_on_with_one_reader(self, **more):
        """The job of one reader after the job of two, and the trainers: one lives on, one comes again."""
        cursors = os.path.join(self.run_dir, "cursor-1-")
        job, trainers = self.until_one_is_ahead(PENSTOCK_CURSORS=cursors)
        os.kill(self.reader_pid(1), signal.SIGKILL)
        trainers[1].kill()
        job.wait()
        job = self.serve(1, **more)
        return job, (trainers[0], self.start_trainer(1, "digest.1.new", PENSTOCK_CURSORS=cursors))

    def test_the_shape_is_another(self):
        job, trainers = self.go_on_with_one_reader()
        self.assert_ends_well(*trainers, job)
        self.assert_every_step_is_whole("0", "1", "1.new")

    def test_the_supervisor_knows_the_locality(self):
        job, trainers = self.until_one_is_ahead()
        for trainer in trainers:
            trainer.kill()
        self.until(lambda: len(set(re.findall(r"left (\d)", job.output()))) == 2, "both cursors")
        os.kill(self.reader_pid(1), signal.SIGKILL)
        job.wait()
        left = dict(re.findall(r"left (\d) (\d+)", job.output()))
        self.assertGreater(int(left["0"]), int(left["1"]) + 1, "one is ahead")
        path = self.left_file(left)
        with open(path, encoding="ascii") as file:
            text = file.read()
        with open(path, "w", encoding="ascii") as file:
            file.write(re.search(r"locality \d+\n", job.output())[0] + text)
        job = self.serve(1, ["--left", path])
        again = [self.start_trainer(rank, f"digest.{rank}.new") for rank in range(2)]
        self.assert_ends_well(*again, job)
        self.assert_every_step_is_whole("0", "1", "0.new", "1.new")

    def cut_steps(self):
        """From here on, a step is cut into two stripes between readers."""
        self.changes = {"dataset.uri": self.synth("packed", 203, layout="plain", shape=256, chunk=4),
                        "exchange.buffer_limit": "4KiB"}
        self.sets = self.expected(**{"order.placement": "fixed"})

    def test_the_shape_is_another_and_steps_are_cut(self):
        """One reader exchanges nothing, and cuts no step."""
        self.cut_steps()
        job, trainers = self.go_on_with_one_reader()
        self.assert_ends_well(*trainers, job)
        self.assert_every_step_is_whole("0", "1", "1.new")

    def test_cursors_apart_without_a_locality_are_refused(self):
        """Nobody knows who got what of the steps between."""
        job = self.serve(1, ["--left", self.left_file({0: 30, 1: 28})])
        for rank in range(2):
            self.start_trainer(rank, f"digest.{rank}")
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertIn("a line 'locality NUMBER' is missing", job.output())

    def test_a_locality_that_cannot_be_is_refused(self):
        """More nodes than trainers; and none."""
        for number, message in ((9 << 16 | 2, "2 trainers cannot have locality 589826"), (0, "no 'locality NUMBER'")):
            with self.subTest(number=number):
                path = self.left_file({0: 30, 1: 28})
                with open(path, encoding="ascii") as file:
                    text = file.read()
                with open(path, "w", encoding="ascii") as file:
                    file.write(f"locality {number}\n{text}")
                job = self.serve(1, ["--left", path])
                for rank in range(2):
                    self.start_trainer(rank, f"digest.{rank}")
                self.assertEqual(job.wait(), EXIT_FINAL, job.output())
                self.assertIn(message, job.output())

    def cursors_of_another_run(self, lines):
        """Of the same order, on one host: the readers' job is gone, and its trainers."""
        cursors = os.path.join(self.folder, "other-")
        job = self.serve(1)
        others = self.start_trainers("--compute-ms", "5", PENSTOCK_CURSORS=cursors)
        self.until_lines(1, lines)
        for process in (*others, job):
            process.kill()
        for rank in range(2):
            os.remove(os.path.join(self.folder, f"digest.{rank}"))
        return cursors

    def test_two_localities_are_refused(self):
        cursors = self.cursors_of_another_run(20)
        job, trainers = self.until_one_is_ahead()
        os.kill(self.reader_pid(1), signal.SIGKILL)
        trainers[1].kill()
        job.wait()
        job = self.serve(1)
        self.start_trainer(1, "digest.1.new", PENSTOCK_CURSORS=cursors)
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertIn("trainers go on with different localities", job.output())
        self.assertEqual(trainers[0].wait(), 1)

    def test_a_trainer_of_another_run_is_gone_again(self):
        """It comes first, is further on, and dies: neither its locality nor its cursor counts."""
        self.check_gone_again(1)

    def test_a_trainer_of_another_run_is_gone_from_another_reader(self):
        """The same where the right one comes to another reader of the node."""
        self.check_gone_again(2)

    def check_gone_again(self, readers):
        other, own = self.cursors_of_another_run(120), os.path.join(self.folder, "own-")
        job, trainers = self.until_one_is_ahead(PENSTOCK_CURSORS=own)
        trainers[0].kill(signal.SIGSTOP)  # it finds the next readers at once
        os.kill(self.reader_pid(1), signal.SIGKILL)
        trainers[1].kill()
        job.wait()
        job = self.serve(readers)
        stranger = self.start_trainer(1, "digest.1.other", PENSTOCK_CURSORS=other)
        self.until(lambda: "left 1 " in job.output(), "the stranger's cursor")
        stranger.kill()
        stranger.wait()
        again = self.start_trainer(1, "digest.1.new", readers=readers, PENSTOCK_CURSORS=own)
        self.until(lambda: job.output().count("left 1 ") > 1, "the cursor of rank 1")
        trainers[0].kill(signal.SIGCONT)
        self.assert_ends_well(trainers[0], again, job)
        self.assert_every_step_is_whole("0", "1", "1.new")


class Trainers(RecoveryTest):
    """Trainers die and come again; the readers' job lives on."""

    FIVE_TAPES = 250_000  # bytes: buffers of twice a tape of 8 KiB, five to send, five to receive, and one more

    def spawn(self, readers, script, restarts=2, options=(), **more):
        """Readers that start trainers: each writes a digest file of its own, digest.RANK.PID."""
        digest = os.path.join(self.folder, "digest.$RANK.$$")
        command = ("sh", "-c", f"{script} exec {program('penstock-trainer')} --compute-ms 5 "
                               f"--digest {digest}")
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.restarts": restarts, **more}),
            options, command)

    def processes_of(self, rank):
        """The names of a rank's digest files, the first process first."""
        paths = glob.glob(os.path.join(self.folder, f"digest.{rank}.*"))
        return [path.split("digest.")[1] for path in sorted(paths, key=os.path.getctime)
                if lines_of(path)]

    def kill_rank(self, rank, lines, times=0):
        """Kills the rank's process once it has so many lines; returns its name."""
        self.until(lambda: len(self.processes_of(rank)) > times, f"process {times} of rank {rank}")
        name = [n for n in self.processes_of(rank)
                if os.path.exists(f"/proc/{n.split('.')[1]}")][-1]
        self.until_lines(name, lines)
        os.kill(int(name.split(".")[1]), signal.SIGKILL)
        return name

    def check_spawned(self, readers, lines=60, order=(), **more):
        """`order`: settings that decide what is delivered."""
        expected = self.expected(**dict(order))
        job = self.spawn(readers, "", **{**dict(order), **more})
        first = self.kill_rank(1, lines)
        self.assert_ends_well(job)
        self.assertEqual(self.processes_of(1)[0], first)
        self.assert_pieces(*self.processes_of(1), expected[1])
        self.assertEqual(len(self.processes_of(0)), 1, "the others see nothing")
        self.assertEqual(self.digest(self.processes_of(0)[0]), expected[0])
        self.assertRegex(job.output(), r"trainer 1 \(pid \d+\) was killed by signal 9")
        self.assertIn("starts trainer 1 again", job.output())
        self.assert_nothing_left_behind()

    def test_spawned(self):
        self.check_spawned(2)

    @unittest.skipUnless(servers.nginx_program(), "needs nginx")
    def test_spawned_with_chunks_on_their_way(self):
        """Over HTTP: what was fetched ahead is forgotten, and the run goes on."""
        settings = self.settings()
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        uri = server.url + "/" + os.path.basename(settings["dataset.uri"])
        self.check_spawned(2, **{"dataset.uri": uri, "readers.cache": "off"})

    def test_spawned_with_windows(self):
        self.check_spawned(2, order=WINDOWS)

    def test_spawned_by_one_reader(self):
        self.check_spawned(1)

    def test_spawned_with_rows_kept_as_stored(self):
        self.check_spawned(2, **{"readers.cache": "stored"})

    def test_spawned_with_rows_that_each_reads(self):
        self.check_spawned(2, **{"exchange.way": "each"})

    def test_spawned_with_rows_sent_as_stored(self):
        for lines in (20, 110, 150):  # while few rows have a tape; while tapes are on their way
            with self.subTest(lines=lines):
                self.check_spawned(3, lines, {"order.window_rows": 4}, **{"readers.cache": "stored", "exchange.way": "tapes"})
                for path in glob.glob(os.path.join(self.folder, "digest.*")):
                    os.remove(path)

    def test_spawned_with_more_rows_to_send_than_buffers(self):
        """Each of three readers has sent others what these do not expect yet, and expects what others have no buffer for."""
        self.trainers = 3
        uri = self.synth("singles", 408, layout="plain", chunk=1, shape=4096, dtype="int16")
        for lines in (145, 165):  # in the second epoch
            with self.subTest(lines=lines):
                self.check_spawned(3, lines, {"dataset.uri": uri, "batch.global_size": 12, "order.epochs": 3}, **{
                    "readers.cache": "stored", "exchange.way": "tapes", "exchange.buffer_limit": self.FIVE_TAPES})
                for path in glob.glob(os.path.join(self.folder, "digest.*")):
                    os.remove(path)

    def check_rows_stay(self, readers, cache, lines):
        """All rows fit into memory: each is read once in the run, whoever dies, and when."""
        uri = self.synth("fits", 400, layout="plain", chunk=4, shape=4096, dtype="int16", codec="zstd")
        settings = {"dataset.uri": uri, "readers.cache": cache, "readers.memory_limit": "256MiB",
                    "order.window_rows": 20, "order.epochs": 8}
        expected = self.expected(**settings)
        report = os.path.join(self.folder, "report.json")
        job = self.spawn(readers, "", options=["--report", report], **settings)
        self.kill_rank(1, lines)
        self.assert_ends_well(job)
        self.assert_pieces(*self.processes_of(1), expected[1])
        self.assertEqual(self.digest(self.processes_of(0)[0]), expected[0])
        with open(report, encoding="ascii") as file:
            report = json.load(file)
        self.assertEqual(report["sessions"], 2)
        self.assertEqual(sum(epoch["stored_bytes"] for epoch in report["epochs"]), chunk_bytes(uri))
        self.assertEqual([epoch["samples"] for epoch in report["epochs"]], [400] * 8)

    def test_rows_stay_in_memory(self):
        self.check_rows_stay(2, "decoded", 250)

    def test_rows_stay_as_stored(self):
        self.check_rows_stay(2, "stored", 250)

    def test_rows_on_their_way_go_on(self):
        """In the first epoch some rows are read and others are not yet: each is read once still."""
        self.check_rows_stay(3, "decoded", 20)

    @unittest.skipUnless(HAS_FAULTS, "built without the fault-injecting store")
    def test_a_row_is_loading_for_long(self):
        """The next session does not wait for it: it takes the row that the last one has asked for."""
        expected = self.expected()
        os.environ["PENSTOCK_FAULTS"] = "hang=base_frames/49.0.0.0.0,hang_ms=8000"
        self.addCleanup(os.environ.pop, "PENSTOCK_FAULTS")
        job = self.spawn(1, "", **{"readers.threads": 2, "order.window_rows": 51})
        self.kill_rank(1, 1)
        self.until(lambda: "all trainers are there again" in job.output(), "another session")
        self.assert_ends_well(job)
        self.assert_pieces(*self.processes_of(1), expected[1])

    def test_restarts_are_counted(self):
        job = self.spawn(2, "", restarts=1)
        self.kill_rank(1, 20)
        self.kill_rank(1, 20, times=1)
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertRegex(job.output(), r"error: .*trainer 1 \(pid \d+\) was killed by signal 9")
        self.assertEqual(job.output().count("starts trainer 1 again"), 1)

    def test_one_that_says_it_failed_and_ends_with_0(self):
        mark = os.path.join(self.folder, "failed")
        job = self.spawn(2, f"if [ $RANK = 1 ] && [ ! -e {mark} ]; then touch {mark}; "
                            f"{program('penstock-trainer')} --steps 5 --json={self.folder}/none/json; exit 0; fi;",
                         **{"delivery.reconnect_timeout": 1, "delivery.grace": 0})
        self.assert_ends_well(job)
        self.assertIn("starts trainer 1 again", job.output())

    def test_what_a_shell_leaves_is_ended(self):
        """A trainer whose shell is killed does not come back beside the next one, nor keep its GPU."""
        expected = self.expected()
        digest = os.path.join(self.folder, "digest.$RANK.$$")
        job = self.start_readers(2, self.settings(**{"delivery.run_dir": self.run_dir, "delivery.restarts": 2}), (),
                                 ("sh", "-c", f"{program('penstock-trainer')} --compute-ms 5 --digest {digest} & wait"))
        shell = self.kill_rank(1, 60)
        self.assert_ends_well(job)
        self.assertEqual(self.processes_of(1)[0], shell)
        self.assert_pieces(*self.processes_of(1), expected[1])
        self.assert_nothing_left_behind()

    def zombies(self, parent):
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, encoding="utf-8") as file:
                state, of = file.read().rpartition(")")[2].split()[:2]
                if state == "Z" and int(of) == parent:
                    found.append(path)
        return found

    def test_what_leaves_its_group_is_reaped(self):
        mark = os.path.join(self.folder, "left")
        job = self.spawn(1, f"(setsid sh -c 'sleep 0.1; touch {mark}.$RANK' &);", **{"order.epochs": 30})
        self.until(lambda: len(glob.glob(mark + ".*")) == 2, "their ends")
        self.until(lambda: self.processes_of(0), "batches")
        reader = self.reader_pid(0)
        self.until(lambda: not self.zombies(reader), "nothing that is not reaped")
        self.assertIsNone(job.popen.poll(), "the reader still runs")
        self.assert_ends_well(job)

    def test_what_ignores_its_end_is_killed(self):
        """Before the next one starts."""
        mark = os.path.join(self.folder, "lives")
        stubborn = f"(trap '' TERM; while [ ! -e {mark}.2 ]; do touch {mark}; sleep 0.1; done) &"
        job = self.spawn(2, f"if [ $RANK = 1 ] && [ ! -e {mark} ]; then {stubborn} "
                            f"elif [ $RANK = 1 ]; then touch {mark}.1; fi;",
                         **{"delivery.grace": 2, "delivery.reconnect_timeout": 1})
        self.kill_rank(1, 60)
        self.until(lambda: os.path.exists(mark + ".1"), "another trainer 1")
        before = os.stat(mark).st_mtime_ns
        time.sleep(0.5)
        self.assertEqual(os.stat(mark).st_mtime_ns, before, "it lives beside the next one")
        self.assert_ends_well(job)

    def test_trainers_may_save_when_a_run_fails(self):
        """delivery.grace is how long they may take; a signal does not wait."""
        saved = os.path.join(self.folder, "saved")
        digest = os.path.join(self.folder, "digest.$RANK.$$")
        for grace, takes, expected in ((20, 1, [["1"]]), (0, 50, [])):
            with self.subTest(grace=grace):
                script = f"{program('penstock-trainer')} --compute-ms 5; sleep {takes}; echo $RANK >> {saved}; exit 1"
                job = self.start_readers(2, self.settings(**{
                    "delivery.run_dir": self.run_dir, "delivery.restarts": 0, "delivery.grace": grace}), (),
                    ("sh", "-c", f"if [ $RANK = 0 ]; then exec {program('penstock-trainer')} --compute-ms 5 "
                                 f"--digest {digest}; fi; {script}"))
                self.kill_rank(0, 60, times=0 if grace else 1)
                self.assertEqual(job.wait(), EXIT_FINAL, job.output())
                self.assertEqual(lines_of(saved) if os.path.exists(saved) else [], expected)
                if grace:
                    os.remove(saved)

    def test_spawned_with_a_state(self):
        """The new process starts from an older checkpoint; the others do not notice."""
        expected = self.expected()
        state = self.state_after(5)
        path = os.path.join(self.folder, "saved")
        report = os.path.join(self.folder, "report.json")
        job = self.spawn(2, f"[ -e {path} ] && export PENSTOCK_STATE={path};",
                         options=["--report", report])
        self.until(lambda: self.processes_of(0), "trainer 0")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(state)
        os.rename(path + ".new", path)
        self.kill_rank(1, 60)
        self.assert_ends_well(job)
        self.assert_pieces(*self.processes_of(1), expected[1], start=5 * 4)
        self.assertEqual(self.digest(self.processes_of(0)[0]), expected[0])
        with open(report, encoding="ascii") as file:
            summary = json.load(file)
        self.assertEqual(summary["sessions"], 2)
        self.assertEqual(summary["order_id"], json.loads(state)["order_id"])

    def serve(self, readers=1, **more):
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 30, **more}))

    def check_external(self, arguments=("--compute-ms", "5"), start=None, **env):
        expected = self.expected()
        job = self.serve(2)
        trainers = self.start_trainers(*arguments, readers=2)
        self.until_lines("1", 60)
        trainers[1].kill()
        trainers[1] = self.start_trainer(1, "digest.1.new", *arguments, readers=2, **env)
        self.assert_ends_well(*trainers, job)
        self.assertEqual(self.digest(0), expected[0])
        self.assert_pieces("1", "1.new", expected[1], start)
        self.assert_nothing_left_behind()

    def test_replaced_from_elsewhere(self):
        self.check_external()

    def test_replaced_from_elsewhere_with_a_state(self):
        self.check_external(start=4 * 7, PENSTOCK_STATE=self.state_after(7))

    def test_all_start_again_from_a_checkpoint(self):
        expected = self.expected()
        state = self.state_after(7)
        job = self.serve(2)
        trainers = self.start_trainers("--compute-ms", "5", readers=2)
        self.until_lines("1", 60)
        for trainer in trainers:
            trainer.kill()
        trainers = [self.start_trainer(rank, f"digest.{rank}.new", readers=2, PENSTOCK_STATE=state)
                    for rank in range(self.trainers)]
        self.assert_ends_well(*trainers, job)
        for rank in range(self.trainers):
            self.assertEqual(self.digest(f"{rank}.new"), expected[rank][7 * 4:])

    def test_trainers_and_then_readers_die(self):
        """Readers tell their supervisor where trainers stopped, and the next ones are told."""
        expected = self.expected()
        settings = self.settings(**{"delivery.run_dir": self.run_dir,
                                    "delivery.reconnect_timeout": 30})
        job = self.start_readers(2, settings, ["--supervised"])
        trainers = self.start_trainers("--compute-ms", "5", readers=2)
        self.until_lines("1", 60)
        for trainer in trainers:
            trainer.kill()
        self.until(lambda: len(set(re.findall(r"left (\d)", job.output()))) == 2, "both cursors")
        os.kill(int(self.reader_pid(1)), signal.SIGKILL)
        job.wait()
        left = dict(re.findall(r"left (\d) (\d+)", job.output()))
        job = self.start_readers(2, settings, [
            "--supervised", "--left", self.left_file(left)])
        trainers = [self.start_trainer(rank, f"digest.{rank}.new", readers=2) for rank in range(2)]
        self.assert_ends_well(*trainers, job)
        for rank in range(2):
            self.assert_pieces(str(rank), f"{rank}.new", expected[rank])

    def test_cursors_of_a_session_before_count_no_more(self):
        """Trainers that go back to a checkpoint: readers that die before its first batch leave its cursor behind."""
        state = self.state_after(5)
        job = self.start_readers(1, self.settings(**{"delivery.run_dir": self.run_dir}), [
            "--supervised", "--left", self.left_file({0: 100, 1: 100})])
        trainers = [self.start_trainer(rank, f"digest.{rank}", PENSTOCK_STATE=state) for rank in range(2)]
        self.assert_ends_well(*trainers, job)
        before, serving, _ = job.output().partition("serving epoch 0 step 5")
        self.assertTrue(serving, job.output())
        self.assertEqual(dict(re.findall(r"left (\d) (\d+)", before)), {"0": "5", "1": "5"})

    def test_readers_and_then_trainers_die(self):
        """Nobody is left who was told: those that come fresh find their cursors in files."""
        expected = self.expected()
        settings = self.settings(**{"delivery.run_dir": self.run_dir,
                                    "delivery.reconnect_timeout": 30})
        cursors = os.path.join(self.run_dir, "cursor-1-")
        job = self.start_readers(2, settings, ["--supervised"])
        trainers = self.start_trainers("--compute-ms", "5", readers=2, PENSTOCK_CURSORS=cursors)
        self.until_lines("1", 60)
        os.kill(self.reader_pid(1), signal.SIGKILL)
        job.wait()
        for trainer in trainers:
            trainer.kill()
        job = self.start_readers(2, settings, ["--supervised"])
        trainers = [self.start_trainer(rank, f"digest.{rank}.new", readers=2, PENSTOCK_CURSORS=cursors)
                    for rank in range(2)]
        self.assert_ends_well(*trainers, job)
        for rank in range(2):
            self.assert_pieces(str(rank), f"{rank}.new", expected[rank])
        self.assert_nothing_left_behind()

    def test_dies_between_the_last_batch_and_its_goodbye(self):
        """The one that comes instead hears that there is nothing more; one that wants batches again hears no."""
        script = ("import os, penstock\n"
                  "loader = penstock.connect()\n"
                  "try:\n"
                  "    while True: loader.next()\n"
                  "except penstock.Ended: os.kill(os.getpid(), 9)\n")
        state = self.state_after(7)
        job = self.serve()
        first = self.start_trainer(0, "digest.0")
        env = environment(RANK=1, WORLD_SIZE=2, PENSTOCK_RUN_DIR=self.run_dir,
                          PYTHONPATH=os.path.join(ROOT, "python"),
                          PENSTOCK_LIBRARY=os.path.join(os.path.dirname(program("penstock")),
                                                        "..", "lib", "libpenstock.so.0"))
        dying = self.keep(Process([sys.executable, "-c", script],
                                  os.path.join(self.folder, "dying.log"), env))
        code = dying.wait()
        if "ASan runtime" in dying.output() or "libtsan" in dying.output():
            self.skipTest("this Python cannot load a library with a sanitizer")
        self.assertEqual(code, -signal.SIGKILL, dying.output())
        greedy = self.start_trainer(1, "digest.greedy", PENSTOCK_STATE=state)
        self.assertEqual(greedy.wait(), 1)
        self.assertIn("start the service again", greedy.output())
        second = self.start_trainer(1, "digest.1")
        self.assert_ends_well(first, second, job)
        self.assertIn("all epochs are consumed", second.output())
        self.assertEqual(self.digest("0"), self.expected()[0])

    def test_states_of_different_steps(self):
        states = [self.state_after(7), self.state_after(9)]
        job = self.serve(2)
        trainers = [self.start_trainer(rank, f"digest.{rank}", readers=2,
                                       PENSTOCK_STATE=states[rank]) for rank in range(2)]
        message = ("trainers have states of different steps: trainer 0 epoch 0 step 7, "
                   "trainer 1 epoch 0 step 9")
        for process in [job, *trainers]:
            self.assertNotEqual(process.wait(), 0)
            self.assertIn(message, process.output())
        self.assertEqual(job.wait(), EXIT_FINAL)

    def test_a_state_of_another_run(self):
        state = json.loads(self.state_after(7))
        for key, value in {"seed": 6, "window_rows": 7, "dataset": "0" * 16}.items():
            with self.subTest(key=key):
                job = self.serve(1)
                trainer = self.start_trainer(1, "digest.1",
                                             PENSTOCK_STATE=json.dumps({**state, key: value}))
                self.assertEqual(trainer.wait(), 1)
                self.assertIn(str(value), trainer.output())
                self.assertEqual(job.wait(), EXIT_FINAL)

    def test_the_replacement_never_comes(self):
        job = self.serve(2, **{"delivery.reconnect_timeout": 2})
        trainers = self.start_trainers("--compute-ms", "5", readers=2)
        self.until_lines("1", 20)
        trainers[1].kill()
        self.assertEqual(trainers[0].wait(), 1)
        message = (r"1 of 2 trainers connected within 2 s \(delivery.reconnect_timeout\), "
                   "without rank 1")
        self.assertRegex(trainers[0].output(), message)
        self.assertEqual(job.wait(), EXIT_FINAL)
        self.assertRegex(job.output(), message)

    @unittest.skipUnless(HAS_FAULTS, "built without the fault-injecting store")
    def test_the_replacement_never_comes_while_a_read_hangs(self):
        """The run ends between sessions, and does not wait for the read."""
        os.environ["PENSTOCK_FAULTS"] = "hang=base_frames/49.0.0.0.0,hang_ms=1000000"
        self.addCleanup(os.environ.pop, "PENSTOCK_FAULTS")
        job = self.serve(1, **{"delivery.reconnect_timeout": 1, "readers.threads": 2,
                               "order.window_rows": 51})
        trainers = self.start_trainers("--compute-ms", "5")
        self.until_lines("1", 1)
        trainers[1].kill()
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertRegex(job.output(), "1 of 2 trainers connected within 1 s")
        self.assertEqual(trainers[0].wait(), 1)
        self.assert_nothing_left_behind()

    def test_a_trainer_that_stops_consuming(self):
        report = os.path.join(self.folder, "report.json")
        job = self.start_readers(2, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.stall_warning": 1}), ["--report", report])
        trainers = self.start_trainers("--compute-ms", "5", readers=2)
        self.until_lines("1", 20)
        trainers[1].kill(signal.SIGSTOP)
        name = f"reader 1 on [^:]+: all wait for trainer 1 \\(process {trainers[1].popen.pid}\\)"
        self.until(lambda: len(re.findall(f"warning: {name}", job.output())) == 2, "two warnings")
        trainers[1].kill(signal.SIGCONT)
        self.assert_ends_well(*trainers, job)
        seconds = [int(s) for s in re.findall(f"{name}: no batch was released for (\\d+) s",
                                              job.output())]
        self.assertGreaterEqual(seconds[0], 1)
        self.assertGreaterEqual(seconds[1], 2 * seconds[0])
        self.assertNotIn("trainer 0", job.output())
        with open(report, encoding="ascii") as file:
            self.assertEqual(sum(epoch["stalls"] for epoch in json.load(file)["epochs"]), 1)


if __name__ == "__main__":
    unittest.main()
