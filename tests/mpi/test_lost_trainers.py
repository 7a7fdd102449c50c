"""Trainers die and come again; trainers get what an undisturbed run gives them."""

import contextlib
import glob
import json
import os
import re
import signal
import sys
import time
import unittest

import servers
from job import chunk_bytes, environment, program
from recovery import EXIT_FINAL, WINDOWS, Process, RecoveryTest, lines_of

HAS_FAULTS = os.environ.get("PENSTOCK_HAS_FAULTS") == "1"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Trainers(RecoveryTest):
    """Trainers die and come again; the readers' job lives on."""

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
        expected = self.expected(readers, **dict(order))
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

    def check_rows_stay(self, readers, cache, lines):
        """All rows fit into memory: each is read once in the run, whoever dies, and when."""
        uri = self.synth("fits", 400, layout="plain", chunk=4, shape=4096, dtype="int16", codec="zstd")
        settings = {"dataset.uri": uri, "readers.cache": cache, "readers.memory_limit": "256MiB",
                    "order.window_rows": 20, "order.epochs": 8}
        expected = self.expected(readers, **settings)
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
        os.environ["PENSTOCK_FAULTS"] = "hang=base_frames/49.0.0.0.0,hang_ms=4000"
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
        expected = self.expected(2)
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
        expected = self.expected(2)
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
        self.assert_pieces(*self.processes_of(1), expected[1], start=5 * self.batch)
        self.assertEqual(self.digest(self.processes_of(0)[0]), expected[0])
        with open(report, encoding="ascii") as file:
            summary = json.load(file)
        self.assertEqual(summary["sessions"], 2)
        self.assertEqual(summary["order_id"], json.loads(state)["order_id"])

    def serve(self, readers=1, **more):
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100, **more}))

    def check_external(self, arguments=("--compute-ms", "5"), start=None, **env):
        expected = self.expected(2)
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
        self.check_external(start=7 * self.batch, PENSTOCK_STATE=self.state_after(7))

    def test_all_start_again_from_a_checkpoint(self):
        expected = self.expected(2)
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
            self.assertEqual(self.digest(f"{rank}.new"), expected[rank][7 * self.batch:])

    def test_trainers_and_then_readers_die(self):
        """Readers tell their supervisor where trainers stopped, and the next ones are told."""
        expected = self.expected(2)
        settings = self.settings(**{"delivery.run_dir": self.run_dir,
                                    "delivery.reconnect_timeout": 100})
        job = self.start_readers(2, settings, ["--supervised"])
        trainers = self.start_trainers("--compute-ms", "5", readers=2)
        self.until_lines("1", 60)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # one that lives on would tell its cursor, and go on
            for trainer in trainers:
                trainer.kill(number)
        self.until(lambda: len(set(re.findall(r"left (\d)", job.output()))) == 2, "both cursors")
        os.kill(int(self.reader_pid(1)), signal.SIGKILL)
        job.wait()
        left = dict(re.findall(r"left (\d) (\d+)", job.output()))
        job = self.start_readers(2, settings, [
            "--supervised", "--left", self.left_file(left, job.output())])
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
        expected = self.expected(2)
        settings = self.settings(**{"delivery.run_dir": self.run_dir,
                                    "delivery.reconnect_timeout": 100})
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

    def test_comes_when_the_readers_have_left(self):
        """Killed after its goodbye: a process that comes fresh hears of the end at once, one with a state hears no."""
        state = self.state_after(7)
        os.mkdir(self.run_dir, 0o700)
        cursors = os.path.join(self.run_dir, "cursor-1-")
        os.environ["PENSTOCK_CURSORS"] = cursors
        self.addCleanup(os.environ.pop, "PENSTOCK_CURSORS")
        job = self.start_readers(2, self.settings(**{"delivery.run_dir": self.run_dir}), ["--supervised"])
        self.assert_ends_well(*self.start_trainers(readers=2, PENSTOCK_CURSORS=cursors), job)
        self.assertEqual(os.listdir(self.run_dir), ["cursor-1-end"])
        late = self.start_trainer(1, "digest.late", PENSTOCK_CURSORS=cursors)
        self.assertEqual(late.wait(10), 0, late.output())
        self.assertIn("all epochs are consumed, and the readers have left", late.output())
        greedy = self.start_trainer(1, "digest.greedy", PENSTOCK_CURSORS=cursors, PENSTOCK_STATE=state)
        self.assertEqual(greedy.wait(10), 1, greedy.output())
        self.assertIn("start a new run", greedy.output())
        os.remove(f"{cursors}end")

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
