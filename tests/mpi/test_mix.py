"""A mix of datasets: the same samples in the same positions on any number of readers and trainers, after deaths, too."""

import collections
import glob
import json
import os
import shutil
import signal
import unittest

import servers
from job import JobTest, launcher_is_open_mpi, program, run
from recovery import RecoveryTest

BATCH = 12
EXIT_STOPPED_EARLY = 3
FIXED = {"order.placement": "fixed"}


class MixTest(JobTest):
    """Sources of 203, 90 and 20 samples, in rows of 8, 5 and 1 and in small windows. The last one comes several times
    in an epoch, so that a step needs several of its windows, and of its passes."""

    LENGTHS = (203, 90, 20)
    CHUNKS = (8, 5, 1)
    WINDOWS = (6, 4, 3)
    WEIGHTS = (5, 3, 4)
    LAYOUT = {"layout": "plain", "shape": "31,5"}

    def sources(self, more=({}, {}, {})):
        """The text of mix.sources. `more`: sections of the sources' files."""
        parts = []
        for d, (samples, chunk) in enumerate(zip(self.LENGTHS, self.CHUNKS)):
            uri = self.synth(f"mix-{self.LAYOUT['layout']}-{d}", samples, chunk=chunk, seed=d,
                             **self.LAYOUT)
            sections = {"dataset": {"uri": uri}, "order": {"window_rows": self.WINDOWS[d]}}
            for name, section in more[d].items():
                sections.setdefault(name, {}).update(section)
            path = os.path.join(self.folder, f"source{d}.yaml")
            with open(path, "w", encoding="ascii") as file:
                json.dump(sections, file)
            parts.append(f"{path}:{self.WEIGHTS[d]}")
        return ",".join(parts)

    def settings(self, **more):
        if "mix.sources" not in more:  # sources() writes the sources' files
            more["mix.sources"] = self.sources()
        return {"batch.global_size": BATCH, "batch.last": "partial", "order.epochs": 3, "order.seed": 5, "readers.threads": 1,
                **more}

    def check(self, shapes, **more):
        """All shapes deliver what one reader and one trainer do."""
        settings = self.settings(**more)
        expected = self.digests(1, 1, settings)
        self.assertGreater(len(expected), 0)
        for readers, trainers in shapes:
            with self.subTest(readers=readers, trainers=trainers):
                self.assertEqual(self.digests(readers, trainers, settings), expected)
        return expected


class Shapes(MixTest):
    def test_readers_and_trainers(self):
        lines = self.check(((2, 1), (1, 3), (2, 2), (3, 4), (4, 3)))
        for epoch in "012":
            self.assertEqual(sum(line[0] == epoch for line in lines), sum(self.LENGTHS))

    def test_windows_are_printed(self):
        outcome = self.reader(1, self.settings(), (program("penstock-trainer"),))
        self.assertIn("samples, windows of 6 rows of source 0, 4 of source 1, 3 of source 2, order id", outcome.output)

    def test_fixed(self):
        self.POSITIONS = True
        self.check(((1, 2), (2, 4), (3, 3)), **FIXED)

    def test_nothing_is_kept(self):
        self.check(((2, 2), (3, 4)), **{"readers.cache": "off"})

    def test_kept_as_stored(self):
        self.check(((2, 3),), **{"readers.cache": "stored"})

    def test_rounds_of_several_steps(self):
        self.check(((2, 2), (3, 3)), **{"exchange.steps_per_round": 3, "delivery.slots": 6})

    def test_a_step_is_cut(self):
        for more in ({}, FIXED, {"readers.cache": "off"}):
            self.check(((2, 4), (3, 2)), **{"exchange.buffer_limit": 4096, **more})

    def test_last_steps(self):
        for last in ("drop", "pad"):
            lines = self.check(((2, 2),), **{"batch.last": last})
            self.assertEqual(len(lines) % BATCH, 0)

    def test_epochs_shorter_than_a_window(self):
        self.check(((2, 3), (1, 2)), **{"mix.samples": 30, "order.epochs": 9})

    def test_one_source(self):
        path = self.settings()["mix.sources"].split(",")[0]
        self.check(((2, 2), (3, 1)), **{"mix.sources": path})


class Masked(MixTest):
    LENGTHS = (200, 40)
    CHUNKS = (8, 8)
    WINDOWS = (25, 5)
    WEIGHTS = (1, 1)

    def test_a_masked_row_in_several_passes_of_a_step(self):
        """Of a chunk that cannot be read: a folder is in its place."""
        settings = self.settings(**{"batch.global_size": 64, "dataset.hold_limit": 0, "store.retries": 0,
                                    "errors.bad_sample": "mask", "errors.max_bad": 1000000})
        path = os.path.join(self.datasets, "mix-plain-1", "data", "2.0.0")
        os.remove(path)
        os.mkdir(path)
        self.check(((2, 2),), **settings)


class Memory(MixTest):
    """Large rows, as few buffers as a run takes: a row that waits for a buffer never waits for one that is due later."""

    LENGTHS = (160, 93, 7)
    CHUNKS = (8, 5, 3)
    LAYOUT = {"layout": "plain", "shape": "4096"}

    def least(self, readers, settings):
        """The least readers.memory_limit, to a KiB."""
        low, high = 0, 1 << 16
        while high - low > 1:
            middle = (low + high) // 2
            command = [program("penstock"), "plan", "--json", "--readers", str(readers)]
            for key, value in {**settings, "readers.memory_limit": f"{middle}KiB"}.items():
                command += ["--set", f"{key}={value}"]
            low, high = (low, middle) if run(command).code == 0 else (middle, high)
        return f"{high}KiB"

    def test_least_memory(self):
        for readers, trainers, more in ((1, 2, {}), (2, 2, {"readers.cache": "off"}), (3, 4, {"exchange.buffer_limit": 65536}),
                                        (2, 4, {"exchange.steps_per_round": 3, "delivery.slots": 6})):
            settings = self.settings(**{"order.epochs": 2, **more})
            least = self.least(readers, {"delivery.trainers": trainers, **settings})
            expected = self.digests(1, trainers, settings)
            with self.subTest(readers=readers, trainers=trainers, least=least):
                self.assertEqual(self.digests(readers, trainers, {**settings, "readers.memory_limit": least}), expected)


class Fields(MixTest):
    """Zero-copy fields of 160 KiB and held arrays."""

    LENGTHS = (51, 30, 12)
    LAYOUT = {"layout": "latents"}

    def test_zero_copy_and_held(self):
        self.check(((2, 4), (3, 2)), **{"order.epochs": 2})

    def test_steps(self):
        """Sources may have other steps, if these are as many: then other fragments, too."""
        steps = [{"dataset": {"fields": {"latents": {"array": "base_frames", "steps": steps}}},
                  "samples": {"pad_before": before, "pad_after": 1, "stride": stride}}
                 for steps, before, stride in (("[-1, 0, 1]", 1, 1), ("[0, 1, 2]", 0, 2), ("[-4, -3, 0]", 1, 1))]
        self.check(((2, 2), (3, 4)), **{"order.epochs": 2, "mix.sources": self.sources(steps)})

    def test_zero_copy_in_stripes_and_nothing_kept(self):
        self.check(((2, 2),), **{"order.epochs": 2, "exchange.buffer_limit": 4096, "readers.cache": "off"})


class Pieces(MixTest):
    """Two fields of 3 steps of 64 KiB. One source has both in one array, so that fewer steps travel; others have each in
    an array of its own."""

    LENGTHS = (31, 30, 12)
    LAYOUT = {"layout": "plain", "shape": "64,256"}

    def test_shared_and_own(self):
        for d, samples in enumerate(self.LENGTHS):
            path = self.synth(f"mix-plain-{d}", samples, chunk=self.CHUNKS[d], seed=d, **self.LAYOUT)
            if not os.path.exists(os.path.join(path, "other")):
                shutil.copytree(os.path.join(path, "data"), os.path.join(path, "other"))
            for consolidated in glob.glob(os.path.join(path, ".zmetadata")):
                os.remove(consolidated)
        fields = [{"dataset": {"fields": {"x": {"array": "data", "steps": "-1:2"}, "y": {"array": other, "steps": "0:3"}}},
                   "samples": {"pad_before": 1, "pad_after": 2}} for other in ("data", "other", "other")]
        self.check(((2, 2), (3, 4)), **{"order.epochs": 2, "mix.sources": self.sources(fields)})


@unittest.skipUnless(servers.nginx_program(), "no nginx")
class Remote(MixTest):
    def test_two_of_three_sources_over_http(self):
        expected = self.digests(1, 1, self.settings())
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        over_http = [{"dataset": {"uri": f"{server.url}/mix-plain-{d}"}} for d in (0, 1)]
        settings = self.settings(**{"mix.sources": self.sources([*over_http, {}])})
        for more in ({}, {"readers.cache": "off"}, {"readers.cache": "stored"}):
            with self.subTest(**more):
                self.assertEqual(self.digests(2, 3, {**settings, **more}), expected)


class Resume(MixTest):
    def check_resume(self, steps, before, after, **more):
        settings = self.settings(**more)
        whole = self.digests(1, 1, settings)
        path = os.path.join(self.folder, "state")
        head = self.digests(*before, settings, ["--steps", str(steps), "--state", path + ".{rank}"],
                            expect=EXIT_STOPPED_EARLY)
        tail = self.digests(*after, settings, options=["--resume", path + ".0"])
        self.assertEqual(head + tail, whole)

    def test_other_shapes(self):
        for steps in (1, 40):
            with self.subTest(steps=steps):
                self.check_resume(steps, (1, 4), (3, 2))

    def test_local(self):
        self.check_resume(33, (2, 2), (3, 4), **FIXED)

    def test_rounds_of_several_steps(self):
        self.check_resume(5, (2, 3), (3, 2), **{"exchange.steps_per_round": 3, "delivery.slots": 6})


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class Deaths(RecoveryTest, MixTest):
    changes = {}

    def settings(self, **more):
        return MixTest.settings(self, **{"batch.global_size": 8, "order.epochs": 8, "delivery.trainers": self.trainers,
                                         "delivery.slots": 4, **self.changes, **more})

    def serve(self, readers, supervised=True):
        options = ["--supervised"] if supervised else []
        return self.start_readers(readers, self.settings(**{"delivery.run_dir": self.run_dir,
                                                            "delivery.reconnect_timeout": 100}), options)

    def check_every_step(self, expected, names):
        """Each step's samples once, over all trainers and their lives: what came again came as before."""
        lines = {tuple(line) for name in names for line in self.digest(name)}
        counts = collections.Counter((line[0], line[1], *line[3:]) for line in lines)
        self.assertEqual(counts, collections.Counter((line[0], line[1], *line[3:]) for part in expected
                                                     for line in part))

    def check_reader_killed(self, readers):
        expected = self.expected()
        job = self.serve(readers[0])
        trainers = self.start_trainers("--compute-ms", "5", readers=readers[0])
        self.until_lines("0", 60)
        os.kill(self.reader_pid(1), signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0)
        job = self.serve(readers[1])
        self.assert_ends_well(*trainers, job)
        self.check_every_step(expected, range(self.trainers))
        self.assert_nothing_left_behind()

    def check_trainer_killed(self):
        expected = self.expected()
        job = self.serve(2, supervised=False)
        trainers = self.start_trainers("--compute-ms", "5", readers=2)
        self.until_lines("1", 60)
        trainers[1].kill()
        again = self.start_trainer(1, "digest.1.new", readers=2)
        self.assert_ends_well(trainers[0], again, job)
        self.check_every_step(expected, ("0", "1", "1.new"))

    def test_a_reader_is_killed(self):
        self.check_reader_killed((2, 3))

    def test_a_reader_is_killed_where_steps_are_cut(self):
        self.changes = {"exchange.buffer_limit": 4096}
        self.check_reader_killed((2, 2))

    def test_a_trainer_is_killed(self):
        self.check_trainer_killed()

    def test_a_trainer_is_killed_where_nothing_is_kept(self):
        self.changes = {"readers.cache": "off", "exchange.steps_per_round": 2}
        self.check_trainer_killed()


class ZeroCopyDeaths(Deaths):
    LENGTHS = Fields.LENGTHS
    LAYOUT = Fields.LAYOUT

    test_a_reader_is_killed_where_steps_are_cut = None  # these have no buffers


if __name__ == "__main__":
    unittest.main()
