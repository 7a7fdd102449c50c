#!/usr/bin/env python3
"""Runs a supervised job for minutes and watches what its processes take: memory, descriptors and threads stay flat.

    soak.py --minutes 30 [--json FILE]      soak_plot.py draws FILE

The dataset is kept in memory after the first epoch, so that epochs follow one another quickly: what leaks a little with
every batch, round, window or epoch shows. Every process is sampled each --every seconds. Over the second half of the
run the line that fits its samples best (Theil and Sen: the median of all slopes) must not rise by more than the
tolerance of its kind; what rises and falls again is no leak.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

from supervised import HOSTS, Job, make_dataset, processes

# Rise over the second half that is no leak: allocators and page tables move a little.
TOLERANCE = {"memory_bytes": 2 << 20, "descriptors": 0.5, "threads": 0.5}
WATCHED = ("reader", "trainer", "readers' mpirun", "trainers' mpirun", "keeper")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def sample(pid):
    """None if it has just ended. Memory is the process's own and what it maps: resident."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        return {"memory_bytes": pages * PAGE_BYTES, "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": len(os.listdir(f"/proc/{pid}/task"))}
    except OSError:
        return None


def slope(times, values):
    """The median of the slopes between all pairs, for at most some 200 points."""
    step = max(1, len(times) // 200)
    points = list(zip(times, values))[::step]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0


def rises(history, seconds):
    """What rises by more than its tolerance over the second half, as lines."""
    found = []
    for pid, process in history.items():
        late = [i for i, at in enumerate(process["seconds"]) if at > seconds / 2]
        for what, tolerance in TOLERANCE.items():
            times = [process["seconds"][i] for i in late]
            rise = slope(times, [process[what][i] for i in late]) * seconds / 2
            process[f"rise_{what}"] = rise
            if rise > tolerance:
                found.append(f"{process['kind']} {pid}: {what} rises by {rise:.6g} over the second half")
    return found


def watch(job, seconds, every):
    """Samples all processes of the job until the time is over, or the job is."""
    history = {}
    due = 0
    while job.seconds() < seconds and job.code() is None:
        time.sleep(max(0, due - job.seconds()))
        due += every
        for process in processes():
            kind, now = process.kind(), sample(process.pid)
            if kind not in WATCHED or not now:
                continue
            entry = history.setdefault(process.pid, {"kind": kind, "seconds": [], **{what: [] for what in TOLERANCE}})
            entry["seconds"].append(round(job.seconds(), 1))
            for what in TOLERANCE:
                entry[what].append(now[what])
    return history


def epochs_delivered(job):
    """The last whole line of each log says where its trainer was."""
    last = 0
    for entry in os.scandir(job.digests()):
        with open(entry.path, "rb") as file:
            file.seek(max(0, entry.stat().st_size - 200))
            lines = file.read().split(b"\n")[:-1]
        last = max([last, *(int(line.split()[0]) for line in lines[-1:])])
    return last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, help="seconds between samples (a 200th of the time)")
    parser.add_argument("--readers", type=int, default=2, help="on this machine; a host has one (%(default)s)")
    parser.add_argument("--trainers", type=int, default=4)
    parser.add_argument("--compute-ms", type=float, default=20, help="of a trainer's step (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="all samples")
    args = parser.parse_args()
    seconds = args.minutes * 60
    folder = tempfile.mkdtemp(prefix="penstock-soak-")
    faults = []
    try:
        job = Job(make_dataset(folder), 10**6, args.compute_ms, args.readers, args.trainers, 1)
        try:
            history = watch(job, seconds, args.every or seconds / 200)
            if job.code() is not None:
                faults.append(f"the job ended with exit code {job.code()}\n{job.output()}")
            lasted = job.seconds()
            epochs = epochs_delivered(job)
            job.process.terminate()
            job.process.wait(90)
            faults += [f"left behind: {path}" for path in job.leftovers()]
        finally:
            job.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    faults += rises(history, lasted)
    print(f"{lasted / 60:.1f} minutes, {epochs} epochs, {len(HOSTS) or args.readers} readers, {args.trainers} trainers")
    print(f"{'process':<24} {'memory MiB':>18} {'rise KiB':>9} {'descriptors':>12} {'threads':>8}   (half time, end)")
    for pid, process in sorted(history.items(), key=lambda item: (item[1]["kind"], item[0])):
        half = len(process["seconds"]) // 2
        memory = [process["memory_bytes"][i] / (1 << 20) for i in (half, -1)]
        print(f"{process['kind'] + ' ' + str(pid):<24} {memory[0]:8.1f} {memory[1]:9.1f} "
              f"{process['rise_memory_bytes'] / 1024:9.0f} {process['descriptors'][half]:6} {process['descriptors'][-1]:5} "
              f"{process['threads'][half]:4} {process['threads'][-1]:3}")
    if args.json:
        with open(args.json, "w", encoding="ascii") as file:
            json.dump({"seconds": lasted, "epochs": epochs, "processes": list(history.values())}, file)
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
