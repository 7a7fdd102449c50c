"""The number of trainers changes: all of them start again, and readers, with the rows in their memory, go on."""

import collections
import glob
import importlib.util
import json
import os
import signal
import socket
import sys
import unittest

from job import chunk_bytes, environment, program, python_words
from recovery import EXIT_FINAL, Process, RecoveryTest, lines_of

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")

SHIFT = """
import penstock

@penstock.transform
def change(batch, rng):
    shift = rng.integers(1, 9, 1).astype("int16")
    return {"data": batch["data"] + shift, "shift": shift[:, 0]}
"""
ALONE = {"delivery.run_dir": "auto", "delivery.reconnect_timeout": 0, "delivery.trainers": 1, "delivery.mesh": "", "delivery.data": ""}


class ElasticTest(RecoveryTest):
    most, fewest, readers, size = 8, 6, 2, 20
    steps = 26  # of an epoch

    def setUp(self):
        super().setUp()
        self.phases = []  # (the names of digests by rank, world size)
        self.reader_of = None

    def settings(self, **more):
        """All rows fit into memory: each is read once in the run."""
        uri = self.synth("elastic", 510, layout="plain", chunk=4, shape=512, dtype="int16", codec="zstd")
        return super().settings(**{
            "dataset.uri": uri, "batch.global_size": self.size, "delivery.run_dir": self.run_dir, "delivery.trainers": self.most,
            "delivery.reconnect_timeout": 100, "readers.memory_limit": "256MiB", "order.epochs": 4, **more})

    def elastic(self, **more):
        return self.settings(**{"delivery.trainers_least": self.fewest, **more})

    def serve(self, options=(), **more):
        return self.start_readers(self.readers, self.elastic(**more), options)

    def state(self, steps):
        """Of a run of another shape: it is no part of the order."""
        path = os.path.join(self.folder, "state")
        self.deliver(1, 1, {**self.settings(**self.order), **ALONE}, ["--steps", str(steps), "--state", path], expect=3)
        with open(path, encoding="ascii") as file:
            return file.read().strip()

    def phase(self, world_size, state=None, *arguments):
        """Starts so many trainers."""
        self.trainers = world_size
        number = len(self.phases)
        self.phases.append(([f"{rank}.phase{number}" for rank in range(world_size)], world_size))
        env = {"PENSTOCK_STATE": state} if state else {}
        if self.reader_of:
            env = [{**env, "PENSTOCK_READER": self.reader_of[rank]} for rank in range(world_size)]
        else:
            env = [env] * world_size
        return [self.start_trainer(rank, f"digest.{rank}.phase{number}", "--compute-ms", "5", *arguments, readers=self.readers,
                                   **env[rank]) for rank in range(world_size)]

    def kill_at(self, trainers, epoch, step):
        """When the last rank has come so far: all of them."""
        name = self.phases[-1][0][-1]
        self.until(lambda: any((int(line[0]), int(line[1])) >= (epoch, step) for line in self.digest(name)[-1:]), "that step")
        for trainer in trainers:
            trainer.kill()
        for trainer in trainers:
            trainer.popen.wait()

    def steps_of(self, lines):
        steps = collections.defaultdict(list)
        for epoch, step, *rest in lines:
            steps[int(epoch), int(step)].append(tuple(rest))
        return steps

    def check_phase(self, number, expected, first, fixed=False, members=1):
        """Each step that all trainers got is the step of an undisturbed run, and their shares, which may be empty, differ by one
        at most. Returns the steps."""
        names, world_size = self.phases[number]
        groups = world_size // members
        got = [self.steps_of(self.digest(name)) for name in names]
        for rank in range(world_size):
            if rank % members:
                same = min(len(got[rank]), len(got[rank - 1])) - 1
                self.assertEqual([got[rank][at] for at in list(got[rank])[:same]], [got[rank - 1][at] for at in list(got[rank])[:same]])
        leads = got[::members]
        begin = divmod(first, self.steps)
        last = min(list(of)[-2] for of in leads) if number + 1 < len(self.phases) else max(expected)
        whole = [at for at in sorted(expected) if begin <= at <= last]
        self.assertEqual(min(at for of in leads for at in of), begin)
        for at in whole:
            together = [line for of in leads for line in of[at]]
            self.assertEqual(sorted(line if fixed else line[1:] for line in together),
                             sorted(line if fixed else line[1:] for line in expected[at]))
            size = len(together)
            self.assertEqual([len(of[at]) for of in leads], [(t + 1) * size // groups - t * size // groups for t in range(groups)])
        return whole

    def expect(self, **order):
        """An undisturbed run's steps."""
        self.order = order
        self.deliver(1, 1, {**self.settings(**order), **ALONE})
        expected = self.steps_of(self.digest("0"))
        self.assertEqual(len(expected), 4 * self.steps)
        return expected

    def check(self, members=1, **order):
        """Eight trainers, then six, then eight."""
        expected = self.expect(**order)
        states = [self.state(at) for at in (9, 40)]
        report = os.path.join(self.folder, "report.json")
        job = self.serve(["--report", report], **order)
        fixed = order.get("order.placement") == "fixed"
        self.kill_at(self.phase(self.most), 0, 20)
        self.kill_at(self.phase(self.fewest, states[0]), 2, 3)
        last = self.phase(self.most, states[1])
        self.assert_ends_well(job, *last)
        self.check_phase(0, expected, 0, fixed, members)
        self.assertGreater(self.check_phase(1, expected, 9, fixed, members)[-1], (1, 0))
        self.assertEqual(self.check_phase(2, expected, 40, fixed, members)[-1], max(expected))
        self.assertIn(f"{self.fewest} trainers instead of {self.most}", job.output())
        with open(report, encoding="ascii") as file:
            told = json.load(file)
        self.assertEqual(told["sessions"], 3)
        return told


class Elastic(ElasticTest):
    def check(self, members=1, **order):
        told = super().check(members, **order)
        self.assertEqual(sum(epoch["stored_bytes"] for epoch in told["epochs"]), chunk_bytes(self.settings()["dataset.uri"]))

    def test_local(self):
        self.check()

    def test_fixed(self):
        self.check(**{"order.placement": "fixed"})

    def test_groups(self):
        mesh = {"delivery.mesh": "dp:4,tp:2", "delivery.data": "dp"}
        self.check(members=2, **mesh)

    def test_readers_without_trainers(self):
        """As many readers as nodes, two of which have lost their trainers."""
        self.readers = 4
        self.reader_of = [0, 0, 2, 2, 2, 0, 0, 2]
        self.check(**{"delivery.trainers_per_reader": 4})

    def begin(self, **more):
        """A run of eight trainers, which are killed."""
        self.order = {}
        job = self.serve(**more)
        self.kill_at(self.phase(self.most), 0, 15)
        return job

    def test_readers_die_after_the_change(self):
        """Six trainers find the next readers, which take them as they are."""
        self.order = {}
        self.readers, states = 1, [self.state(9)]
        job = self.serve(["--supervised"])
        self.kill_at(self.phase(self.most), 0, 15)
        trainers = self.phase(self.fewest, states[0])
        self.until_lines("0.phase1", 40)
        job.kill()
        job.wait()
        job = self.serve(["--supervised"])
        self.assert_ends_well(job, *trainers)
        lines = [line for name in self.phases[1][0] for line in self.digest(name)]
        self.assertEqual(len({(line[0], line[1], line[3]) for line in lines}), 4 * 510 - 9 * self.size)
        self.assertEqual(len(lines), 4 * 510 - 9 * self.size)

    def test_fewer_that_all_had_everything_are_not_waited_for(self):
        """Six trainers had all, as their readers said before they died; one comes again."""
        self.readers = 1
        once = {"order.epochs": 1, "delivery.slots": 32}
        job = self.serve(["--supervised"], **once)
        trainers = self.phase(self.fewest)
        self.until_lines(self.phases[-1][0][1], 8)
        trainers[1].popen.send_signal(signal.SIGSTOP)
        self.until_lines(self.phases[-1][0][0], 25 * (self.size // self.fewest) + 10 // self.fewest)
        os.kill(self.reader_pid(0), signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0)
        for trainer in trainers[1:]:
            trainer.kill()
        left = self.left_file(dict.fromkeys(range(self.fewest), self.steps), job.output())
        job = self.serve(["--supervised", "--left", left], **{**once, "delivery.connect_timeout": 3600})
        self.assert_ends_well(trainers[0], job)

    def test_a_number_that_cannot_be_is_refused(self):
        self.readers = 1
        job = self.serve(["--left", self.left_file({}, "trainers 5")])
        self.assertEqual(job.wait(), EXIT_FINAL)
        self.assertIn("--left: 'trainers 5': this run has 6 to 8: give delivery.trainers, delivery.trainers_least and delivery.mesh "
                      "as before", job.output())

    def test_fewer_from_the_start(self):
        """And all of them anew without a state: the run begins anew, too."""
        self.order = {}
        job = self.serve()
        self.kill_at(self.phase(self.fewest), 0, 15)
        trainers = self.phase(self.most - 1)
        self.assert_ends_well(job, *trainers)
        lines = [line for name in self.phases[1][0] for line in self.digest(name)]
        self.assertEqual(len({(line[0], line[1], line[3]) for line in lines}), 4 * 510)

    def test_some_have_a_state(self):
        job = self.begin()
        state = self.state(9)
        self.trainers = self.fewest
        for rank in range(self.fewest):
            self.start_trainer(rank, f"digest.{rank}", readers=self.readers, **({"PENSTOCK_STATE": state} if rank else {}))
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertRegex(job.output(), "the number of trainers has changed to 6, and trainer [1-5] goes on from a state, "
                                       "trainer 0 from none: give all of them the state of one checkpoint")

    def test_two_numbers_at_once(self):
        job = self.begin(**{"delivery.reconnect_timeout": 4})
        self.trainers = self.fewest
        self.start_trainer(0, "digest.0", readers=self.readers)
        self.trainers = self.most
        self.start_trainer(7, "digest.7", readers=self.readers)
        self.assertEqual(job.wait(), EXIT_FINAL, job.output())
        self.assertIn("trainers of world sizes 6 and 8 have come, and of neither all: start them with one WORLD_SIZE", job.output())

    def test_who_comes_last_counts(self):
        """A process of the larger number is still there when all of the smaller come: it is told."""
        job = self.begin()
        state = self.state(9)
        self.trainers = self.most
        stale = self.start_trainer(5, "digest.5", readers=self.readers, PENSTOCK_STATE=state)
        self.until(lambda: "waiting for trainers: 1 of 8" in job.output(), "a stale trainer")
        trainers = self.phase(self.fewest, state)
        self.assert_ends_well(job, *trainers)
        self.assertNotEqual(stale.wait(), 0)
        self.assertIn("trainer 5 has a world size of 8, and trainers of 6 have come to take its place", stale.output())

    def test_a_number_out_of_range(self):
        self.begin()
        for self.trainers in self.fewest - 1, self.most + 1:
            late = self.start_trainer(0, "digest.0", readers=self.readers)
            self.assertNotEqual(late.wait(), 0)
            self.assertIn(f"trainer 0 says that its world size is {self.trainers}, the service was started for 6 to 8", late.output())

    def test_the_plan_has_room_for_the_fewest(self):
        settings = {**self.settings(), "delivery.trainers_per_reader": 4}
        few = self.plan(2, {**settings, "delivery.trainers": self.fewest})
        both = self.plan(2, {**settings, "delivery.trainers_least": self.fewest})
        self.assertEqual(both["memory"]["rings"], few["memory"]["rings"])
        self.assertEqual(both["order_id"], few["order_id"])


class Kinds(ElasticTest):
    """Batches by budget, a transform, a run beside it."""

    def check_kind(self, **order):
        with self.subTest(order=order):
            self.steps = self.plan(1, {**self.settings(**order), **ALONE})["steps_per_epoch"]
            self.check(**order)

    def test_budget(self):
        uri = self.synth("documents", 510, layout="documents", items=40, chunk=300)
        tokens = {"dataset.uri": uri, "dataset.fields.tokens.ragged.offsets": "tokens/offsets", "batch.budget_field": "tokens",
                  "dataset.fields.tokens.ragged.columns": "[tokens/values]", "batch.budget_items": 1200, "batch.global_size": 24, "samples.row_chunks": 1}
        self.check_kind(**tokens, **{"dataset.fields.tokens.deliver.pad": "bound"})

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no NumPy")
    def test_transform(self):
        program = os.path.join(self.folder, "shift.py")
        with open(program, "w", encoding="ascii") as file:
            file.write(SHIFT)
        run = f"env PYTHONPATH={os.path.join(ROOT, 'python')} {' '.join(python_words())} {program}"
        transform = {"delivery.transform_run": run, "delivery.transform_processes": 2, "delivery.transform_fields": "data"}
        self.check_kind(**transform)
        plain = self.single({**self.settings(), **ALONE})
        shifted = self.single({**self.settings(**transform), **ALONE})
        self.assertFalse({tuple(line) for line in plain} & {tuple(line) for line in shifted})

    def start_lives(self, world_size):
        """Of elastic_trainer.py: the processes, whose pids are in the names of what they get."""
        trainer = [*python_words(), os.path.join(HERE, "elastic_trainer.py"), self.folder, "val"]
        return [self.keep(Process(trainer, os.path.join(self.folder, f"life.{len(self.processes)}.log"),
                                  environment(RANK=rank, WORLD_SIZE=world_size, PENSTOCK_RUN_DIR=self.run_dir,
                                              PYTHONPATH=os.path.join(ROOT, "python"), PENSTOCK_READER=rank * self.readers // world_size)))
                for rank in range(world_size)]

    def lives(self, name, trainers):
        """What each of these trainers got: indices by (epoch, step)."""
        return [self.steps_of(lines_of(os.path.join(self.folder, f"{name}.{len(trainers)}.{rank}.{trainer.popen.pid}")))
                for rank, trainer in enumerate(trainers)]

    def test_also(self):
        expected = {at: sorted(line[1] for line in step) for at, step in self.expect().items()}
        path = os.path.join(self.folder, "val.yaml")
        with open(path, "w", encoding="ascii") as file:
            json.dump({"dataset": {"uri": self.synth("val", 38)}, "batch": {"global_size": 8, "last": "partial"},
                       "order": {"seed": 9}, "readers": {"threads": 1}}, file)
        job = self.start_readers(2 * self.readers, self.elastic(), ["--also", "val=" + path])
        for world_size, is_last in (self.most, False), (self.fewest, False), (self.most, True):
            trainers = self.start_lives(world_size)
            if is_last:
                self.assert_ends_well(job, *trainers)
            else:
                self.until(lambda: all(len(got) > 12 for got in self.lives("digest", trainers)), "twelve steps")
                for trainer in trainers:
                    trainer.kill()
            got = self.lives("digest", trainers)
            end = max(expected) if is_last else min(list(of)[-2] for of in got)
            steps = [at for at in expected if min(map(min, got)) <= at <= end]
            self.assertGreater(len(steps), 10)
            for at in steps:
                self.assertEqual(sorted(line[0] for of in got for line in of[at]), expected[at])
            passes = self.lives("val", trainers)
            for epoch in range(min(max(of)[0] for of in passes)):
                samples = [int(index) for of in passes for at, lines in of.items() if at[0] == epoch for index, in lines]
                self.assertEqual(sorted(samples), list(range(38)))
            self.assertGreater(epoch, 1)


class Torchrun(RecoveryTest):
    """Two agents of torchrun on this machine: the second joins, and later dies with its workers."""

    def agent(self, port, local_addr, processes=2):
        torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
        if not os.path.exists(torchrun):
            self.skipTest(f"no {torchrun}")
        command = [torchrun, "--nnodes=1:2", f"--nproc-per-node={processes}", "--max-restarts=5", "--monitor-interval=0.1",
                   "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=elastic", f"--local-addr={local_addr}",
                   "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=10",
                   os.path.join(HERE, "elastic_trainer.py"), self.folder]
        library = os.path.join(os.path.dirname(program("penstock")), "..", "lib", "libpenstock.so.0")
        env = environment(PENSTOCK_RUN_DIR=self.run_dir, PYTHONPATH=os.path.join(ROOT, "python"), PENSTOCK_LIBRARY=library,
                          OMP_NUM_THREADS=1,
                          TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)  # torch 2.13: else an agent that joins waits in vain
        return self.keep(Process(command, os.path.join(self.folder, f"agent.{len(self.processes)}.log"), env))

    def lives(self, world_size, rank):
        """The names of what processes of a rank got."""
        return [os.path.basename(path)[len("digest."):]
                for path in sorted(glob.glob(os.path.join(self.folder, f"digest.{world_size}.{rank}.*")), key=os.path.getmtime)]

    def until_trained(self, world_size, lives=1):
        self.until(lambda: len(names := self.lives(world_size, world_size - 1)) >= lives and len(self.digest(names[-1])) > 20,
                   f"batches of {world_size} trainers")

    def test_an_agent_comes_and_goes(self):
        settings = self.settings(**{"delivery.run_dir": self.run_dir, "delivery.trainers": 4, "delivery.trainers_least": 2,
                                    "delivery.reconnect_timeout": 100, "order.epochs": 20})
        job = self.start_readers(1, {**settings, "delivery.trainers_per_reader": 4})
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        slow = os.path.join(self.folder, "slow")
        with open(slow, "w", encoding="ascii"):  # agents take their time to come and to go
            pass
        first = self.agent(port, "127.0.0.1")
        self.until_trained(2)
        second = self.agent(port, "127.0.0.1")
        self.until_trained(4)
        for name in [n for rank in range(4) for n in self.lives(4, rank)[-1:]]:
            pid = int(name.split(".")[-1])
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == second.popen.pid:
                    os.kill(pid, signal.SIGKILL)
        second.kill()
        name = self.lives(4, 0)[-1], self.lives(4, 1)[-1]
        for pid in (int(one.split(".")[-1]) for one in name):  # an all-reduce would fail
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGKILL)
                break
        self.until_trained(2, lives=2)
        os.remove(slow)
        self.assert_ends_well(first, job)
        last = [line for rank in range(2) for line in self.digest(self.lives(2, rank)[-1])]
        start = min((int(line[0]), int(line[1])) for line in last)
        self.assertGreater(start, (0, 0))
        self.assertEqual(len({tuple(line) for line in last}), len(last))
        self.assertEqual(len(last), 203 * (20 - start[0]) - 8 * start[1])
        self.assertIn("4 trainers instead of 2", job.output())
        self.assertIn("2 trainers instead of 4", job.output())


if __name__ == "__main__":
    unittest.main()
