"""Readers die and come again; trainers get what an undisturbed run gives them."""

import os
import re
import signal
import unittest

from job import launcher_is_open_mpi
from recovery import EXIT_FINAL, SLOTS, WINDOWS, RecoveryTest


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class Readers(RecoveryTest):
    """The readers' job dies, and is started again, while the trainers live."""

    def serve(self, readers, left=None, **more):
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100, **more}),
            ["--supervised", *(["--left", self.left_file(left)] if left else [])])

    def kill_reader(self, _=None, reader=0):
        os.kill(self.reader_pid(reader), signal.SIGKILL)

    def check(self, kill, readers=(2, 2), times=1, **more):
        expected = self.expected(readers[0], **more)
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

    def test_a_list_of_cursors_is_cut_short(self):
        """As by a launcher that is killed while it passes the list on: trainers wait for the next readers."""
        expected = self.expected(**self.AT_ONCE)
        trainers = self.until_one_has_all(expected)
        trainers[1].popen.send_signal(signal.SIGCONT)
        path = self.left_file({0: 20, 1: 20})
        with open(path, "r+", encoding="ascii") as file:
            file.truncate(os.path.getsize(path) - 2)
        settings = self.settings(**{**self.AT_ONCE, "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100})
        job = self.start_readers(1, settings, ["--supervised", "--left", path])
        self.assertEqual(job.wait(), 1, job.output())
        self.assertIn("the list ends without a line '.'", job.output())
        job = self.serve(1, **self.AT_ONCE)
        self.assert_ends_well(*trainers, job)
        for rank in range(self.trainers):
            self.assertEqual(self.digest(rank), expected[rank])

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
        job = self.serve(1, **{"delivery.reconnect_timeout": 10})  # for the one that finds nobody
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
    """All that is left of the readers may be trainers at different steps. Other readers, on
    another shape, give out the samples of those steps as the dead ones did."""

    changes = {}  # of the settings

    def settings(self, **more):
        return super().settings(**{**self.changes, **more})

    def serve(self, readers, options=(), **more):
        return self.start_readers(readers, self.settings(**{
            "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100, **more}), ["--supervised", *options])

    def until_one_is_ahead(self, **env):
        """The readers' job, and its trainers: the first has had all that its reader could send, the second few."""
        job = self.serve(2)
        trainers = self.start_trainers("--compute-ms", "5", readers=2, **env)
        self.until_lines(1, 40)
        trainers[1].popen.send_signal(signal.SIGSTOP)
        ahead = len(self.digest(1)) + self.batch * (SLOTS - 1)
        self.until_lines(0, ahead)
        return job, trainers

    def assert_every_step_is_whole(self, *names):
        """Each step's samples once, over all trainers and their lives: what came again came as before."""
        lines = {tuple(line) for name in names for line in self.digest(name)}
        found = sorted((line[0], line[1], line[3]) for line in lines)
        self.assertEqual(found, sorted((line[0], line[1], line[3]) for part in self.sets for line in part))

    def setUp(self):
        super().setUp()
        self.sets = self.expected()

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
        job = self.serve(1, ["--left", self.left_file(left, job.output())])
        again = [self.start_trainer(rank, f"digest.{rank}.new") for rank in range(2)]
        self.assert_ends_well(*again, job)
        self.assert_every_step_is_whole("0", "1", "0.new", "1.new")

    def cut_steps(self):
        """From here on, a step is cut into two stripes between readers."""
        self.changes = {"dataset.uri": self.synth("packed", 203, layout="plain", shape=256, chunk=4),
                        "exchange.buffer_limit": "4KiB"}
        self.sets = self.expected()

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
                job = self.serve(1, ["--left", self.left_file({0: 30, 1: 28}, f"locality {number}")])
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


if __name__ == "__main__":
    unittest.main()
