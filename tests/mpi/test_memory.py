"""Memory that does not suffice is refused at the start, with sizes: nobody is killed."""

import os
import re
import shutil
import time
import unittest

from job import MPIEXEC, JobTest, leftovers, program, run

MIB = 1 << 20


def memory_mount():
    """Where groups of the memory controller can be made, and the file that limits one; or None."""
    for folder, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                          ("/sys/fs/cgroup", "memory.max")):
        if os.path.exists(os.path.join(folder, "cgroup.procs")) and os.access(folder, os.W_OK):
            return folder, limit
    return None


class Memory(JobTest):
    def setUp(self):
        super().setUp()
        self.group = None

    def tearDown(self):
        self.remove_group()
        super().tearDown()

    def remove_group(self):
        """Processes that have ended leave their group a moment later."""
        deadline = time.monotonic() + 5
        while self.group:
            try:
                os.rmdir(self.group)
                self.group = None
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def make_group(self, limit_bytes):
        """A control group with that limit."""
        mount = memory_mount()
        if not mount or os.getuid() != 0:
            self.skipTest("needs root and a memory controller to make groups in")
        group = os.path.join(mount[0], f"penstock-test-{os.getpid()}-{id(self)}")
        try:
            os.mkdir(group)
            self.group = group
            with open(os.path.join(group, mount[1]), "w", encoding="ascii") as file:
                file.write(str(limit_bytes))
        except OSError as failure:
            self.skipTest(f"control groups cannot be limited here: {failure}")
        return group

    def run_in(self, group, readers, settings, trainer=()):
        command = [MPIEXEC, *self.flags, "-np", str(readers), program("penstock-reader")]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        command += ["--", *(trainer if isinstance(trainer, tuple) else (program("penstock-trainer"), *trainer))]
        return run(["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command])

    def settings(self, **more):
        """64 MiB of rows when decoded."""
        uri = self.synth("large", 2048, layout="plain", chunk=4, shape=16384, dtype="int16",
                         codec="zstd")
        return {"dataset.uri": uri, "batch.global_size": 16, "readers.threads": 1,
                "order.epochs": 2, **{key.replace("__", "."): value for key, value in more.items()}}

    def killed(self, group):
        """How often the kernel has killed in that group; None if it does not say."""
        for name in ("memory.oom_control", "memory.events"):
            path = os.path.join(group, name)
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    words = dict(line.split() for line in file)
                return int(words["oom_kill"]) if "oom_kill" in words else None
        return None

    def test_more_than_a_group_allows_is_refused(self):
        for readers in (1, 3):
            with self.subTest(readers=readers):
                group = self.make_group(100 * MIB)
                before = leftovers()
                outcome = self.run_in(group, readers, self.settings(readers__memory_limit="4GiB"))
                self.assertIn(outcome.code, (1, 4), outcome.output)
                self.assertRegex(outcome.output, r"error: the readers of a node take .*, and "
                                 rf"memory and control groups leave .* on node \S+, which has least: {readers} x \(row buffers ")
                self.assertIn(self.killed(group), (0, None))
                self.assert_nothing_left(before, outcome)
                self.remove_group()

    def test_more_than_there_is_is_told(self):
        """A limit beyond the machine that this dataset does not need: the run goes on, and says what to set."""
        outcome = self.reader(2, self.settings(readers__memory_limit="1PiB", order__epochs=1), [])
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, r"(?m)^warning: readers.memory_limit is 1.00 PiB for each of the 2 readers of "
                         r"a node, and memory and control groups leave .* on node \S+, which has least: this run takes "
                         r".* there, .*; set it to .*, or to auto$")

    def test_auto_stays_within_a_group(self):
        """Half of what the group leaves, shared by two readers, is less than all rows decoded. As stored all stay."""
        for more in ({}, {"readers.cache": "stored"}):
            with self.subTest(**more):
                group = self.make_group(260 * MIB)
                outcome = self.run_in(group, 2, {**self.settings(), **more}, ["--steps", "200"])
                self.assertIn(outcome.code, (0, 3), outcome.output)
                self.assertIn(self.killed(group), (0, None))
                self.assertNotIn("of at most 4", outcome.output)
                self.remove_group()

    def test_auto_that_is_too_little_is_refused(self):
        group = self.make_group(100 * MIB)
        outcome = self.run_in(group, 2, self.settings(order__window_rows=512))
        self.assertIn(outcome.code, (1, 4), outcome.output)
        self.assertRegex(outcome.output, "readers.memory_limit .* is too low for one reader: it "
                                         "takes at least .*: row buffers ")
        self.assertIn(self.killed(group), (0, None))

    def highest(self, group):
        """The most that the group has had, in bytes."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            path = os.path.join(group, name)
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    return int(file.read())
        return self.skipTest("this kernel does not tell the most that a group has had")

    def wide(self, **more):
        """Two rings of 64 MiB, and the lowest limit that the plan accepts."""
        uri = self.synth("wide", 96, layout="plain", chunk=4, shape=131072, dtype="int16", codec="zstd")
        settings = self.settings(dataset__uri=uri, batch__global_size=64, delivery__slots=8, delivery__trainers=2,
                                 readers__cache="off", **more)
        refused = self.reader(1, {**settings, "readers.memory_limit": "1MiB"}, [])
        least = int(re.search(r"it takes at least (\d+)MiB", refused.output)[1])
        return {**settings, "readers.memory_limit": f"{least}MiB"}, least

    def test_a_trainer_comes_again(self):
        """There is no moment with the ring that it had and the one that it gets."""
        settings, _ = self.wide(delivery__restarts=1, order__epochs=40)
        once = os.path.join(self.folder, "once")
        dies = (f'[ $RANK = 0 ] || [ -e {once} ] || {{ touch {once}; "$@" --digest {once}.digest & '
                f'until [ -s {once}.digest ]; do sleep 0.05; done; kill -9 $! $$; }}; exec "$@"')
        command = ("sh", "-c", dies, "sh", program("penstock-trainer"), "--compute-ms", "50")
        group = self.make_group(1 << 30)
        outcome = self.run_in(group, 1, settings, command)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertIn("starts trainer 1 again", outcome.output)
        self.assertLess(self.highest(group), (3 * 64 + 16) * MIB)

    def test_readers_come_again(self):
        """What trainers have of the ring before is given back before memory is found too little for another."""
        run_dir = os.path.join(self.folder, "run")
        settings, least = self.wide(delivery__reconnect_timeout=30, delivery__run_dir=run_dir, order__epochs=150)
        group = self.make_group((least + 64 + 80) * MIB)
        reader = " ".join([MPIEXEC, *self.flags, "-np", "1", program("penstock-reader"), "--supervised",
                           *(f"--set {key}={value}" for key, value in settings.items())])
        trainer = f"{program('penstock-trainer')} --compute-ms 30 --run-dir {run_dir} --world-size 2"
        outcome = run(["sh", "-c", f"""
            echo $$ > {group}/cgroup.procs
            {reader} & job=$!
            {trainer} --rank 0 --digest {run_dir}.0 & first=$!
            {trainer} --rank 1 --digest {run_dir}.1 & second=$!
            until [ -s {run_dir}.0 ] && [ -s {run_dir}.1 ]; do sleep 0.05; done
            kill -9 $(cat {run_dir}/reader-0.lock)
            wait $job
            {reader} && wait $first && wait $second"""])
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertIn("trainers go on from epoch", outcome.output)
        self.assertIn(self.killed(group), (0, None))

    def test_tiny_dev_shm(self):
        """Rings and held arrays need no room there. MPI may, and says so, or the reader did."""
        if os.getuid() != 0 or not shutil.which("unshare"):
            self.skipTest("needs root and unshare")
        command = [MPIEXEC, *self.flags, "-np", "2", program("penstock-reader")]
        for key, value in self.settings(order__epochs=1).items():
            command += ["--set", f"{key}={value}"]
        command += ["--", program("penstock-trainer")]
        outcome = run(["unshare", "-m", "sh", "-c",
                       'mount -t tmpfs -o size=64k penstock-test /dev/shm && exec "$@"', "sh",
                       *command])
        self.assertNotIn(outcome.code, (128 + 7, 128 + 11), outcome.output)
        self.assertRegex(outcome.output, "warning: /dev/shm has .* free")


if __name__ == "__main__":
    unittest.main()
