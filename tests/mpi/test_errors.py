"""Bad input of every kind: one clear message, a nonzero exit, no hang, on one rank and on three."""

import glob
import importlib.util
import json
import os
import re
import shutil
import socket
import sys
import unittest

from job import ALONE, SANITIZED, JobTest, environment, leftovers, program, run


class Errors(JobTest):
    def settings(self, **more):
        return {"dataset.uri": self.synth("good", 48, chunk=2, videos=3), "batch.global_size": 8,
                "readers.threads": 1, **more}

    def copy(self, name):
        path = os.path.join(self.folder, name)
        shutil.copytree(self.synth("good", 48, chunk=2, videos=3), path)
        return path

    def check(self, settings, message, trainer=(), options=(), ranks=(3,), times=1, code=None):
        """The run fails with `message` (a regular expression), printed `times` times by the service, and with `code`."""
        for readers in ranks:
            with self.subTest(readers=readers):
                before = leftovers()
                outcome = self.reader(readers, settings, list(trainer), list(options))
                self.assertNotEqual(outcome.code, 0, outcome.output)
                self.assertEqual(outcome.code, outcome.code if code is None else code, outcome.output)
                self.assertRegex(outcome.output, message)
                said = [line for line in outcome.output.splitlines()
                        if re.match("penstock-reader: (?!warning: )", line)]
                self.assertEqual(len(said), times, outcome.output)
                self.assert_nothing_left(before, outcome)

    def edit(self, path, change):
        with open(path, encoding="ascii") as file:
            document = json.load(file)
        change(document)
        with open(path, "w", encoding="ascii") as file:
            json.dump(document, file)

    def without_consolidated(self, name):
        path = self.copy(name)
        if os.path.exists(os.path.join(path, ".zmetadata")):
            os.remove(os.path.join(path, ".zmetadata"))
        return path

    def test_no_dataset(self):
        self.check(self.settings(**{"dataset.uri": "/nonexistent/x.zarr"}), "/nonexistent/x.zarr")

    def test_no_uri(self):
        self.check({"batch.global_size": 8}, "dataset.uri")

    def test_no_arrays(self):
        path = os.path.join(self.folder, "empty.zarr")
        os.mkdir(path)
        with open(os.path.join(path, ".zgroup"), "w", encoding="ascii") as file:
            file.write('{"zarr_format":2}')
        self.check(self.settings(**{"dataset.uri": path}), "no arrays")

    def test_unequal_axis_0(self):
        path = self.without_consolidated("unequal.zarr")
        self.edit(os.path.join(path, "segment_to_video", ".zarray"),
                  lambda array: array.update(shape=[47]))
        self.check({**self.settings(**{"dataset.uri": path}),
                    "dataset.fields.a": "base_frames", "dataset.fields.b": "segment_to_video"},
                   "48.*47|47.*48")

    def test_unknown_field(self):
        self.check(self.settings(**{"dataset.fields.x": "no_such_array"}),
                   "no_such_array.*base_frames")

    def test_unknown_key(self):
        path = os.path.join(self.folder, "run.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write("batch:\n  global_size: 8\norder:\n  sed: 3\n")
        self.check(self.settings(), r"run.yaml:4: .*order\.sed.*order\.seed", options=["-c", path])

    def test_unknown_setting(self):
        """Of all programs the same exit code, 4: that of a wrong configuration and of wrong usage."""
        self.check(self.settings(**{"order.sed": 3}), r"order\.sed.*order\.seed", code=4)
        for command in (["plan"], ["config"], ["inspect", self.datasets], ["verify", self.datasets]):
            wrong = run([program("penstock"), *command, "--set", "order.sed=3"])
            self.assertEqual(wrong.code, 4, wrong.output)
            self.assertRegex(wrong.output, r"order\.sed.*order\.seed")
        for name in ("penstock", "penstock-trainer"):
            self.assertEqual(run([program(name), "--nonsense"]).code, 4, name)

    def test_impossible_size(self):
        self.check(self.settings(**{"batch.global_size": 0}), "batch.global_size", code=4)
        self.check(self.settings(**{"readers.memory_limit": "lots"}), "readers.memory_limit.*lots")

    def test_batch_larger_than_dataset(self):
        self.check(self.settings(**{"batch.global_size": 49}), "49.*48|48.*49")

    def test_fewer_samples_than_trainers(self):
        self.check(self.settings(**{"delivery.trainers": 9}), "8.*9|9.*8", code=4)

    def test_too_little_memory(self):
        self.check(self.settings(**{"readers.memory_limit": "1MiB"}),
                   "readers.memory_limit|memory limit")

    def corrupt(self, name, damage):
        path = self.copy(name)
        chunk = sorted(glob.glob(os.path.join(path, "base_frames", "1[0-9].*")))[0]
        damage(chunk)
        return self.settings(**{"dataset.uri": path}), os.path.basename(chunk)

    def test_truncated_chunk(self):
        settings, chunk = self.corrupt("truncated.zarr",
                                       lambda path: os.truncate(path, 1000))
        self.check(settings, f"array 'base_frames' chunk {chunk}: blosc")

    def test_empty_chunk(self):
        settings, chunk = self.corrupt("empty.zarr", lambda path: os.truncate(path, 0))
        self.check(settings, f"array 'base_frames' chunk {chunk}: blosc")

    def test_corrupt_chunk(self):
        def damage(path):
            with open(path, "r+b") as file:
                file.seek(16)
                file.write(b"\xff" * 200)
        settings, chunk = self.corrupt("corrupt.zarr", damage)
        self.check(settings, f"array 'base_frames' chunk {chunk}: blosc")

    def test_lying_chunk(self):
        def damage(path):
            with open(path, "r+b") as file:
                file.seek(4)  # blosc header: uncompressed bytes
                file.write((81920).to_bytes(4, "little"))
        settings, chunk = self.corrupt("lying.zarr", damage)
        self.check(settings, f"array 'base_frames' chunk {chunk}: blosc: .*81920")

    def test_unreadable_chunk(self):
        """A folder where the chunk should be: unreadable for root as well."""
        def damage(path):
            os.remove(path)
            os.mkdir(path)
        settings, chunk = self.corrupt("unreadable.zarr", damage)
        self.check(settings, f"array 'base_frames' chunk {chunk}: ")

    def test_index_out_of_range(self):
        path = self.copy("range.zarr")
        shutil.rmtree(os.path.join(path, "clip_emb"))
        shutil.copytree(os.path.join(self.synth("few", 48, chunk=2, videos=2), "clip_emb"),
                        os.path.join(path, "clip_emb"))
        if os.path.exists(os.path.join(path, ".zmetadata")):
            os.remove(os.path.join(path, ".zmetadata"))
        self.check(self.settings(**{"dataset.uri": path, "dataset.fields.a": "base_frames",
                                    "dataset.fields.t": "clip_emb[segment_to_video]"}),
                   "segment_to_video.*2")

    def test_error_when_rank_0_is_done(self):
        """Rank 0 serves nobody and is soon through; an error of the other reader still counts."""
        path = os.path.join(self.folder, "late.zarr")
        made = run([program("penstock"), "synth", path, "--layout", "plain", "-n", "1000",
                    "--chunk", "5", "--shape", "16", "--codec", "none"])
        self.assertEqual(made.code, 0, made.output)
        os.truncate(os.path.join(path, "data", "191.0"), 7)
        self.check({"dataset.uri": path, "order.shuffle": "false", "batch.global_size": 5,
                    "exchange.steps_per_round": 1, "order.window_rows": 4, "readers.threads": 1},
                   "array 'data' chunk 191.0", ["--compute-ms", "2"], ranks=(2,))

    def test_no_such_trainer(self):
        for readers in (ALONE, 3):
            outcome = self.reader(readers, self.settings(), ("/no/such/program",))
            self.assertNotEqual(outcome.code, 0)
            self.assertIn("/no/such/program", outcome.output)

    def test_trainer_fails(self):
        outcome = self.reader(2, self.settings(**{"delivery.trainers": 2}),
                              ("sh", "-c", "exit 7"))
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("ended with exit code 7", outcome.output)

    def test_trainer_fails_after_the_last_batch_is_published(self):
        """The error counts as long as any trainer still consumes."""
        script = (f"[ $RANK = 1 ] && exec {program('penstock-trainer')} --steps 1 --digest /dev/full;"
                  f"exec {program('penstock-trainer')} --compute-ms 3000")
        outcome = self.reader(2, self.settings(**{"delivery.trainers": 2,
                                                  "batch.global_size": 16}),
                              ("sh", "-c", script))
        self.assertEqual(outcome.code, 4, outcome.output)
        self.assertRegex(outcome.output, r"error: .*trainer 1 \(process \d+\) failed at epoch 0 step [01]: ")

    @unittest.skipIf(SANITIZED, "an interpreter without sanitizers cannot load a library with them")
    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs NumPy")
    def test_trainer_fails_by_an_exception(self):
        """The one that failed first is named, not those that somebody then ends."""
        package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
        program_text = ("import os, signal, penstock\n"
                        "with penstock.connect() as loader:\n"
                        "    for batch in loader:\n"
                        "        if os.environ['RANK'] == '2' and batch.step == 3:\n"
                        f"            os.symlink(f'/proc/{{os.getpid()}}', '{self.folder}/failed')\n"
                        "            raise ValueError('boom')\n"
                        f"        if os.path.islink('{self.folder}/failed') and not os.path.exists('{self.folder}/failed'):\n"
                        "            os.kill(os.getpid(), signal.SIGTERM)\n")
        outcome = self.reader(2, self.settings(**{"delivery.trainers": 4, "order.epochs": 50}),
                              (sys.executable, "-c", program_text), env=environment(PYTHONPATH=package))
        self.assertEqual(outcome.code, 4, outcome.output)
        self.assertRegex(outcome.output, r"penstock-reader: error: reader 1 on .*: trainer 2 \(process \d+\) failed at "
                                         r"epoch 0 step [23]: ValueError: boom\n")

    def leave_early(self, steps, *more, **settings):
        """Trainer r ends after steps[r] batches."""
        script = f"set -- {' '.join(map(str, steps))}; shift $RANK; exec {program('penstock-trainer')} --steps $1 --compute-ms 40"
        return self.reader(2, self.settings(**{"delivery.trainers": len(steps), "order.epochs": 30, **settings}),
                           ("sh", "-c", script), *more)

    def test_a_trainer_leaves_early(self):
        """Told at once, with its step, when others stay; not when all leave together."""
        early = r"trainer 2 closed its connection early, before epoch 0 step 3 "
        outcome = self.leave_early([100, 100, 3, 100])
        self.assertEqual(outcome.code, 3, outcome.output)
        self.assertRegex(outcome.output, f"warning: reader 1 on .*: {early}.*; other trainers are still there")
        outcome = self.leave_early([4, 4, 4, 4])
        self.assertEqual(outcome.code, 3, outcome.output)
        self.assertNotIn("there still", outcome.output)
        outcome = self.leave_early([1000, 1000, 3, 1000], **{"delivery.early_leave": "fail"})
        self.assertEqual(outcome.code, 4, outcome.output)
        self.assertRegex(outcome.output, f"error: reader 1 on .*: {early}.*; other trainers are still there")

    def test_run_dir_with_too_long_a_name(self):
        """An error, and no other directory."""
        self.check(self.settings(**{"delivery.run_dir": "/tmp/" + "x" * 300}),
                   r"run directory's name has 305 characters .*; it may have 255", ranks=(ALONE, 2))

    def test_the_meeting_point_may_be_chosen(self):
        """MASTER_ADDR and MASTER_PORT of the environment are the trainers'; else there is a free port."""
        script = f"echo =$MASTER_ADDR:$MASTER_PORT=; exec {program('penstock-trainer')}"
        settings = self.settings()
        outcome = self.reader(1, settings, ("sh", "-c", script),
                              env=environment(MASTER_ADDR="localhost", MASTER_PORT="23456"))
        self.assertIn("=localhost:23456=", outcome.output)
        # One may be taken by somebody else as soon as the run has ended.
        self.assertTrue(any(self.is_free(settings, script) for _ in range(5)))

    def is_free(self, settings, script):
        """Whether the port that a run has chosen is free after it."""
        outcome = self.reader(1, settings, ("sh", "-c", script))
        port = int(re.search(r"=127.0.0.1:(\d+)=", outcome.output).group(1))
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                return False
        return True

    def test_trainers_have_a_clean_start(self):
        """No signal ignored but SIGUSR2 (2048), none blocked, no variable of the launcher."""
        signals = "$((0x$(sed -n 's/^%s:.//p' /proc/self/status) & 0x7fffffff))"
        script = (f"[ {signals % 'SigIgn'},{signals % 'SigBlk'} = 2048,0 ] || exit 8;"
                  "env | grep -E '^(OMPI|PMI|PMIX|HYD)' && exit 9;"
                  f"exec {program('penstock-trainer')}")
        outcome = self.reader(2, self.settings(**{"delivery.trainers": 2}), ("sh", "-c", script))
        self.assertEqual(outcome.code, 0, outcome.output)

    def test_trainer_wrong_rank(self):
        self.check(self.settings(), "trainer 5 .* 9, .* 1", ["--rank", "5", "--world-size", "9"], ranks=(ALONE, 2))

    def test_two_trainers_with_one_rank(self):
        self.check(self.settings(**{"delivery.trainers": 2}), "rank 0",
                   ["--rank", "0", "--world-size", "2"], ranks=(ALONE, 2))

    def test_trainers_that_never_come(self):
        outcome = self.reader(2, self.settings(**{
            "delivery.connect_timeout": 1, "delivery.trainers": 2,
            "delivery.run_dir": os.path.join(self.folder, "run")}))
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("0 of 2 trainers", outcome.output)

    def test_unknown_option(self):
        for readers in (ALONE, 2):
            outcome = self.reader(readers, self.settings(), options=["--nonsense"])
            self.assertEqual(outcome.code, 4)
            self.assertEqual(outcome.output.count("--nonsense"), 1)

    def test_nowhere_to_write(self):
        """Known before the run, not after it."""
        for option in ("--report", "--save-state"):
            self.check(self.settings(), "create ./nonexistent/", options=[option, "/nonexistent/out.json"],
                       ranks=(2,))

    def test_no_service(self):
        outcome = run([program("penstock-trainer"), "--run-dir", os.path.join(self.folder, "none"),
                       "--timeout", "1"])
        self.assertNotEqual(outcome.code, 0)
        self.assertIn(self.folder, outcome.output)

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_trainer_of_another_user(self):
        """A run directory is 0700; opened by force, the user of the socket is still checked."""
        run_dir = os.path.join(self.folder, "run")
        os.chmod(self.folder, 0o755)
        command = (f"until [ -S {run_dir}/reader-0.sock ]; do sleep 0.05; done; chmod 755 {run_dir}; chmod 777 {run_dir}/*.sock; "
                   f"setpriv --reuid=65534 --regid=65534 --clear-groups {program('penstock-trainer')}")
        outcome = self.reader(ALONE, self.settings(**{"delivery.run_dir": run_dir}),
                              ("sh", "-c", command))
        self.assertNotEqual(outcome.code, 0)
        self.assertRegex(outcome.output, "user|uid")


if __name__ == "__main__":
    unittest.main()
