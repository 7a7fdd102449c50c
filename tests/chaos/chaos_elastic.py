"""chaos.py --elastic: all trainers are killed, in twos and threes or at once, and others come, as torchrun would start them: as
many as chance says, all from one checkpoint. The readers stay. Each step that all of them got has the undisturbed run's
samples, shares differ by one at most, and rows that stay in memory are read once."""

import json
import os
import signal
import subprocess
import time

from supervised import GLOBAL_BATCH, STEPS, Command, Played, set_options, stacks
from job import MPIEXEC, environment, mpi_flags, program, run

FEWEST = 3
READERS_S = 60  # for which readers wait for trainers


class Phase:
    """Trainers of one number, from one checkpoint."""

    def __init__(self, folder, number, count, cursor):
        self.count, self.cursor = count, cursor
        self.paths = [os.path.join(folder, f"digest.{number}.{rank}") for rank in range(count)]
        self.processes = []

    def bytes(self):
        return min(os.path.getsize(path) if os.path.exists(path) else 0 for path in self.paths)

    def steps(self, rank):
        """What a rank got, by cursor; the last step may be cut off unless the trainer ended by itself."""
        steps = {}
        with open(self.paths[rank], encoding="ascii") as file:
            for line in file.read().split("\n")[:-1]:
                words = line.split()
                steps.setdefault(int(words[0]) * STEPS + int(words[1]), []).append(tuple(words[2:]))
        if self.processes[rank].returncode and steps:
            del steps[max(steps)]
        return steps


class ElasticRun(Played):
    """As chaos.Run; its command is that of the readers."""

    def __init__(self, seed, args, dataset, expected):
        super().__init__(seed, args, Command())
        self.phases, self.expected = [], {}
        for epoch, step, *rest in expected[0]:
            self.expected.setdefault(int(epoch) * STEPS + int(step), []).append(tuple(rest))
        self.order = {**dataset, "batch.global_size": GLOBAL_BATCH, "batch.last": "partial", "order.epochs": args.epochs,
                      "order.seed": 5, "readers.threads": 1, "order.placement": args.placement}

    def start_readers(self):
        settings = {**self.order, "delivery.trainers": self.args.trainers + 3, "delivery.trainers_least": FEWEST,
                    "delivery.trainers_per_reader": self.args.trainers + 3, "delivery.reconnect_timeout": READERS_S,
                    "delivery.run_dir": self.job.run_dir}
        self.job.start([MPIEXEC, *mpi_flags(), "-np", str(self.args.readers), program("penstock-reader"), *self.args.samples,
                        *set_options(settings)])

    def make_state(self):
        """A checkpoint's: of any step, once it is known what one looks like."""
        path = os.path.join(self.job.folder, "state")
        made = run([program("penstock-reader"), "--quiet", *self.args.samples, *set_options(self.order), "--",
                    program("penstock-trainer"), "--steps", "1", "--state", path])
        if made.code != 3:
            raise RuntimeError(made.output)
        with open(path, encoding="ascii") as file:
            self.state = json.load(file)

    def start_trainers(self, cursor):
        count = self.random.randint(FEWEST, self.args.trainers + 3)
        phase = Phase(self.job.folder, len(self.phases), count, cursor)
        state = json.dumps({**self.state, "epoch": cursor // STEPS, "step": cursor % STEPS}, separators=(",", ":"))
        for rank in range(count):
            env = environment(RANK=rank, WORLD_SIZE=count, PENSTOCK_RUN_DIR=self.job.run_dir, PENSTOCK_STATE=state,
                              PENSTOCK_READER=self.random.randrange(self.args.readers))
            phase.processes.append(subprocess.Popen(
                [program("penstock-trainer"), "--compute-ms", str(self.args.compute_ms), "--digest", phase.paths[rank]],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=env))
        self.phases.append(phase)

    def kill(self, phase):
        """Some first, so that the others look for their readers again for a while; then all."""
        order = self.random.sample(phase.processes, phase.count)
        some = self.random.randint(1, phase.count)
        for number, process in enumerate(order):
            if number == some:
                time.sleep(self.random.uniform(0, 1))
            process.send_signal(signal.SIGKILL)
        for process in order:
            process.wait()
        self.kills.append([f"{phase.count} trainers", round(self.job.seconds(), 2), None])

    def checkpoint(self):
        """One of the last steps that all trainers got."""
        phase = self.phases[-1]
        done = set.intersection(*(set(phase.steps(rank)) for rank in range(phase.count)))
        return self.random.randint(max(0, max(done) - 7), max(done) + 1) if done else phase.cursor

    def wait(self, ready):
        while not ready():
            if self.job.seconds() > self.args.limit:
                self.faults.append(f"hangs\n{stacks()}")
                return False
            if self.job.code() is not None:
                return False
            time.sleep(0.02)
        return True

    def play(self):
        self.make_state()
        self.start_readers()
        self.start_trainers(0)
        while len(self.kills) < self.args.kills:
            phase = self.phases[-1]
            if not self.wait(lambda: phase.bytes() > 0):
                break
            time.sleep(self.random.uniform(0, self.args.first_s))
            if self.job.code() is not None or all(process.poll() is not None for process in phase.processes):
                break
            self.kill(phase)
            begun = time.monotonic()
            self.start_trainers(self.checkpoint())
            if self.wait(lambda: self.phases[-1].bytes() > 0):
                self.kills[-1][2] = time.monotonic() - begun
        self.wait(lambda: all(process.poll() is not None for process in self.phases[-1].processes))
        self.wait(lambda: self.job.code() is not None)
        for process in self.phases[-1].processes:
            process.poll()

    def check(self):
        codes = [self.job.code(), *(process.returncode for process in self.phases[-1].processes)]
        if any(codes):
            self.faults.append(f"exit codes {codes}")
            return
        for number, phase in enumerate(self.phases):
            got = [phase.steps(rank) for rank in range(phase.count)]
            whole = set.intersection(*map(set, got))
            end = max(self.expected) + 1 if phase is self.phases[-1] else max(whole, default=phase.cursor - 1) + 1
            if whole != {cursor for cursor in self.expected if phase.cursor <= cursor < end}:
                self.faults.append(f"phase {number} of {phase.count} trainers from step {phase.cursor} on has the steps {sorted(whole)}")
            for cursor in whole:
                self.check_step(number, phase.count, cursor, [of[cursor] for of in got])

    def check_step(self, number, count, cursor, shares):
        first = 0 if self.args.placement == "fixed" else 1  # positions depend on the locality
        size = len(self.expected[cursor])
        if sorted(line[first:] for share in shares for line in share) != sorted(line[first:] for line in self.expected[cursor]):
            self.faults.append(f"phase {number}: step {cursor} has other samples")
        if [len(share) for share in shares] != [(t + 1) * size // count - t * size // count for t in range(count)]:
            self.faults.append(f"phase {number}: step {cursor} of {size} samples is shared as {[len(share) for share in shares]}")

    def story(self):
        return ", ".join(f"{phase.count} from step {phase.cursor}" for phase in self.phases)
