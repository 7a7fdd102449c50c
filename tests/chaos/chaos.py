#!/usr/bin/env python3
"""Kills readers, trainers and launchers of a supervised job at random, with SIGKILL, and checks that nobody can tell.

    chaos.py --runs 50 --seed 17 [--json FILE]
    chaos.py --again 17.3                           one run once more: same victims, same moments

Trainers hold several batches, and give them back out of order. After each run: exit code 0, every trainer's sequence without a gap, all samples those of an undisturbed run, and no
process, socket, shared memory or temporary file left. With --placement local, the default, each step has the
undisturbed run's set of samples, once each. With --mesh trainers are groups of two: both have the same samples in every
step, and each its part of them. With --elastic the number of trainers changes (chaos_elastic.py). With --transform processes of a transform are killed, too. A run that takes longer than --limit hangs: all stacks are shown.

Recovery time, of a kill: until every trainer has a batch again that was not in its ring already.
"""

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time

from chaos_elastic import ElasticRun
from supervised import GLOBAL_BATCH, HOSTS, Job, Played, check_lives, make_dataset, make_mix, make_ragged, merged, processes, run, set_options, stacks
from job import program

VICTIMS = {"reader": 4, "trainer": 4, "readers' mpirun": 2, "trainers' mpirun": 1, "keeper": 1}  # how often
TRANSFORM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos_transform.py")
BATCHES_OF_A_RING = 16  # 4 slots, and what comes before a dead launcher's trainers are dead
LINE_BYTES = 30  # at least
RESTARTS = 20
POLL_S = 0.02


# Samples of five frames, of which at most two are missing at each end: as many samples as frames.
WINDOWS = [word for setting in ("dataset.fields.latents.array=base_frames", "dataset.fields.latents.steps=-2:3",
                                "samples.pad_before=2", "samples.pad_after=2") for word in ("--set", setting)]


def transform_options():
    """Before jobs are started: their environment is this one."""
    python = os.path.join(os.path.dirname(TRANSFORM), "..", "..", "python")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [python, os.environ.get("PYTHONPATH")]))
    VICTIMS["transform"] = 6
    return ["--set", f"delivery.transform_run={sys.executable} {TRANSFORM}", "--set", "delivery.transform_processes=2",
            "--set", "delivery.transform_fields=base_frames"]


def mesh_settings(trainers, parts):
    """Groups of `parts` trainers, which follow one another: of latents each has a part."""
    return {"delivery.trainers": trainers, "delivery.mesh": f"dp:{trainers // parts},tp:{parts}", "delivery.data": "dp",
            "dataset.cuts.rows.over": "tp", "dataset.cuts.rows.order": "zigzag", "dataset.fields.latents.array": "base_frames",
            "dataset.fields.latents.cut.2": "rows"} if parts > 1 else {}


def undisturbed(dataset, epochs, folder, options, parts):
    """What one reader without mpirun gives to one group: of each trainer, lines sorted by epoch, step, position."""
    path = os.path.join(folder, "undisturbed.{rank}")
    settings = {**dataset, "batch.global_size": GLOBAL_BATCH, "batch.last": "partial", "order.epochs": epochs,
                "order.seed": 5, "readers.threads": 1, **mesh_settings(parts, parts)}
    done = run([program("penstock-reader"), "--quiet", *options, *set_options(settings), "--",
                program("penstock-trainer"), "--digest", path])
    if done.code:
        raise RuntimeError(done.output)
    found = []
    for part in range(parts):
        with open(path.format(rank=part), encoding="ascii") as file:
            lines = [tuple(line.split()) for line in file]
        found.append(sorted(lines, key=lambda line: [int(word) for word in line[:3]]))
    return found


def by_index(lines):
    """Each step's samples as a set: without their positions, which depend on the locality."""
    return sorted((*line[:2], *line[3:]) for line in lines)


class Stall:
    """Watches the logs from a kill on until every trainer goes on."""

    def __init__(self, job, now):
        self.job, self.start = job, now
        self.first = self.last = job.bytes_of_ranks()
        self.grown = [now] * job.trainers  # when each log last grew
        self.longest = [(0, now)] * job.trainers  # the longest time that it did not, and when that ended

    def look(self, now):
        """The recovery time in seconds once it is known, else None."""
        sizes = self.job.bytes_of_ranks()
        for rank, size in enumerate(sizes):
            if size > self.last[rank]:
                self.longest[rank] = max(self.longest[rank], (now - self.grown[rank], now))
                self.grown[rank] = now
        self.last = sizes
        enough = BATCHES_OF_A_RING * self.job.batch * LINE_BYTES
        if min(size - first for size, first in zip(sizes, self.first)) < enough:
            return None
        return max(end for _, end in self.longest) - self.start


class Run(Played):
    """One run with its kills: what was killed when, how long each recovery took, what is wrong."""

    def __init__(self, seed, args, dataset, expected):
        super().__init__(seed, args, Job({**dataset, **mesh_settings(args.trainers, args.parts)}, args.epochs, args.compute_ms,
                                         args.readers, args.trainers, RESTARTS, hold=args.hold,
                                         options=("--set", f"order.placement={args.placement}", *args.samples)))
        self.expected = expected
        self.job.batch = GLOBAL_BATCH * args.parts // args.trainers

    def kill_one(self):
        victim = self.random.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        pick = self.random.random()
        found = sorted((process for process in processes() if process.kind() == victim), key=lambda p: p.pid)
        if not found:
            return False  # not started yet, or just dead
        if victim.endswith("mpirun"):
            found = found[:1]  # not what it has forked and is about to be ssh: that is no launcher's death
        try:
            os.kill(found[int(pick * len(found))].pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.kills.append([victim, round(self.job.seconds(), 2), None])
        return True

    def play(self):
        """Until the job has ended, or hangs."""
        stall, due = None, self.random.uniform(0, self.args.first_s)
        while self.job.code() is None:
            time.sleep(POLL_S)
            now = self.job.seconds()
            if now > self.args.limit:
                self.faults.append(f"hangs: {self.job.output()}\n{stacks()}")
                return
            if stall and not (self.args.hasty and now >= due):
                self.kills[-1][2] = stall.look(now)
                if self.kills[-1][2] is not None:
                    stall, due = None, now + self.random.uniform(0, self.args.gap_s)
            elif now >= due and len(self.kills) < self.args.kills and self.kill_one():
                stall, due = Stall(self.job, now), now + self.random.uniform(0, self.args.gap_s)

    def check(self):
        job = self.job
        late = "when they had said goodbye: nothing is lost" in job.output()
        if job.code() != (128 + signal.SIGKILL if late else 0):
            self.faults.append(f"exit code {job.code()}")
        for rank in range(job.trainers):
            wrong = check_lives(rank, job.lives(rank), self.args.hold)
            if wrong:
                self.faults.append(wrong)
        parts = self.args.parts
        for part, expected in enumerate(self.expected):
            self.check_lines(merged(job, range(part, job.trainers, parts)), expected)
        for rank in range(job.trainers):
            first = rank - rank % parts
            if {line[:4] for line in merged(job, [rank])} != {line[:4] for line in merged(job, [first])}:
                self.faults.append(f"ranks {first} and {rank} are of one group and have different samples")
        self.faults += [f"left behind: {path}" for path in job.leftovers()]

    def check_lines(self, lines, expected):
        """Those of all trainers that have the same part of samples."""
        if self.args.placement == "local":
            if [line[:3] for line in lines] != [line[:3] for line in expected]:
                self.faults.append("positions are missing, or were delivered twice")
            lines, expected = by_index(lines), by_index(expected)
        if lines != expected:
            missing, strange = set(expected) - set(lines), set(lines) - set(expected)
            self.faults.append(f"{len(missing)} samples are missing, {len(strange)} are others: "
                               f"{sorted(missing)[:1]} {sorted(strange)[:1]}")

    def story(self):
        return ", ".join(f"{victim} at {at:.2f} s" + (f" ({recovery:.2f} s)" if recovery is not None else "")
                         for victim, at, recovery in self.kills) or "no kill"


def table(runs):
    """Recovery times by victim."""
    times = {}
    for victim, _, recovery in (kill for done in runs for kill in done.kills):
        times.setdefault(victim, []).append(recovery)
        times.setdefault("all", []).append(recovery)
    lines = [f"{'killed':<18} {'times':>5}  recovery: {'median':>7} {'9 of 10':>8} {'longest':>8}"]
    for victim in sorted(times, key=lambda victim: (victim == "all", victim)):
        known = sorted(time for time in times[victim] if time is not None)
        shown = (f"{statistics.median(known):16.2f} s {known[-(-9 * len(known) // 10) - 1]:6.2f} s {known[-1]:6.2f} s"
                 if known else "")
        lines.append(f"{victim:<18} {len(times[victim]):>5} {shown}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="of all runs (random)")
    parser.add_argument("--again", metavar="SEED.RUN", help="this run alone")
    parser.add_argument("--readers", type=int, default=3, help="on this machine; a host has one (%(default)s)")
    parser.add_argument("--trainers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--compute-ms", type=float, default=15)
    parser.add_argument("--hold", type=int, default=3, help="batches that a trainer holds, at most (%(default)s)")
    parser.add_argument("--placement", choices=("fixed", "local"), default="local")
    parser.add_argument("--windows", dest="samples", action="store_const", const=WINDOWS, default=[],
                        help="samples have several frames")
    parser.add_argument("--ragged", action="store_true", help="samples are of unequal lengths")
    parser.add_argument("--mix", action="store_true", help="samples of three datasets")
    parser.add_argument("--transform", action="store_true", help="samples go through a transform, whose processes are killed")
    parser.add_argument("--mesh", dest="parts", action="store_const", const=2, default=1,
                        help="two trainers share a batch, and cut its samples")
    parser.add_argument("--elastic", action="store_true", help="all trainers are killed, and others come, more or fewer")
    parser.add_argument("--kills", type=int, default=2, help="in a run, at most (%(default)s)")
    parser.add_argument("--first-s", type=float, default=4, help="the first comes within (%(default)s)")
    parser.add_argument("--gap-s", type=float, default=1, help="the next so long after the recovery, at most (%(default)s)")
    parser.add_argument("--hasty", action="store_true", help="the next kill does not wait for the recovery")
    parser.add_argument("--limit", type=float, default=120, help="seconds until a run counts as hanging (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="kills and recovery times of all runs")
    args = parser.parse_args()
    if args.elastic and (args.parts > 1 or HOSTS):
        parser.error("--elastic goes without --mesh and hosts")
    if args.transform and importlib.util.find_spec("numpy") is None:
        print(f"skipped: {sys.executable} has no numpy")
        return 77
    if args.transform:
        args.samples = [*args.samples, *transform_options()]
    folder = tempfile.mkdtemp(prefix="penstock-chaos-")
    runs = []
    try:
        make = make_mix if args.mix else make_ragged if args.ragged else make_dataset
        dataset = make(folder)
        expected = undisturbed(dataset, args.epochs, folder, args.samples, args.parts)
        seeds = [args.again] if args.again else [f"{args.seed}.{i}" for i in range(args.runs)]
        print(f"{len(seeds)} runs, {len(HOSTS) or args.readers} readers{' on hosts' if HOSTS else ''}, {args.trainers} "
              f"trainers, {len(expected[0])} samples in {args.epochs} epochs, seed {args.seed}", flush=True)
        for seed in seeds:
            runs.append((ElasticRun if args.elastic else Run)(seed, args, dataset, expected).do())
            print(runs[-1], flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failed = [done for done in runs if done.faults]
    print(f"{len(runs) - len(failed)} of {len(runs)} runs identical\n{table(runs)}")
    if args.json:
        with open(args.json, "w", encoding="ascii") as file:
            json.dump({"hosts": len(HOSTS), "seed": args.seed, "runs": [
                {"seed": done.seed, "kills": done.kills, "identical": not done.faults} for done in runs]}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
