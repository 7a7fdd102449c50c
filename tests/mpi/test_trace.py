"""Traces: of a whole run, of a running job, and on the clock of torch.profiler."""

import collections
import glob
import importlib.util
import json
import os
import subprocess
import sys
import time
import unittest

from job import TIMEOUT_S, environment, program
from test_metrics import ROOT, MetricsTest

PROFILED = os.path.join(ROOT, "tests", "mpi", "profiled_trainer.py")
THREADS = {"row", "read", "decode", "plan window", "plan round", "copy", "scatter", "exchange", "wait"}
ROUNDS = {"round planned", "round filled", "round exchanged", "round scattered"}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def spans_of(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


class Trace(MetricsTest):
    def penstock_trace(self, *arguments):
        return subprocess.run([program("penstock"), "trace", *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False, env=environment())

    def assert_nested(self, trace):
        """Spans of one track follow one another, or lie in one another: Perfetto drops others."""
        tracks = collections.defaultdict(list)
        for span in spans_of(trace):
            start = round(span["ts"] * 1000)
            tracks[span["pid"], span["tid"]].append((start, -round(span["dur"] * 1000), span["name"]))
        for track, spans in tracks.items():
            open_ends = []
            for start, minus, name in sorted(spans):
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(start - minus, open_ends[-1], (track, name))
                open_ends.append(start - minus)

    def assert_within(self, trace, begin, end):
        """`begin` and `end`: time.time()."""
        base = trace["baseTimeNanoseconds"] / 1e9
        for span in spans_of(trace):
            self.assertGreaterEqual(base + span["ts"] / 1e6, begin - 0.01, span)
            self.assertLessEqual(base + (span["ts"] + span["dur"]) / 1e6, end + 0.01, span)

    def starts(self, trace):
        """When the spans began, in nanoseconds of the time of day, ascending."""
        return sorted(trace["baseTimeNanoseconds"] + round(span["ts"] * 1000) for span in spans_of(trace))

    def tracks(self, trace):
        return {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}

    def test_a_whole_run(self):
        uri = self.synth("tiny.zarr", 400, layout="plain", chunk=10, shape="5")  # small samples travel packed
        begin = time.time()
        outcome = self.reader(2, {"dataset.uri": uri, "batch.global_size": 16, "delivery.trainers": 2, "order.epochs": 2,
                                  "delivery.run_dir": self.run_dir, "readers.threads": 2}, [],
                              ["--trace", os.path.join(self.folder, "reader-{rank}.json")],
                              env=environment(PENSTOCK_TRACE=os.path.join(self.folder, "next")))
        end = time.time()
        self.assertEqual(outcome.code, 0, outcome.output)
        kinds, pids = set(), set()
        paths = sorted(glob.glob(os.path.join(self.folder, "reader-?.json")))
        self.assertEqual(len(paths), 2)
        for path in paths:
            trace = load(path)
            self.assert_nested(trace)
            self.assert_within(trace, begin, end)
            self.assertLessEqual({"main", "worker-0", "worker-1", "round-0"}, self.tracks(trace))
            kinds |= {span["name"] for span in spans_of(trace)}
            pids |= {event["pid"] for event in trace["traceEvents"]}
        self.assertLessEqual(THREADS | ROUNDS, kinds)
        self.assertEqual(len(pids), 2)
        waits = [os.path.join(self.folder, f"next.{rank}") for rank in range(2)]
        for path in waits:
            trace = load(path)
            self.assert_within(trace, begin, end)
            self.assert_nested(trace)
            self.assertEqual([span["name"] for span in spans_of(trace)], ["next"] * 51)  # the last one says the end
        merged = os.path.join(self.folder, "all.json")
        made = self.penstock_trace("merge", *paths, *waits, "-o", merged)
        self.assertEqual(made.returncode, 0, made.stderr)
        together = load(merged)
        self.assert_within(together, begin, end)
        self.assert_nested(together)
        before = sorted(start for path in paths + waits for start in self.starts(load(path)))
        after = self.starts(together)
        self.assertEqual(len(after), len(before))
        self.assertLess(max(abs(a - b) for a, b in zip(after, before)), 2000)
        self.assertEqual(len({event["pid"] for event in together["traceEvents"]}), 4)

    def test_a_running_job(self):
        uri = self.synth("small.zarr", 160)
        path = os.path.join(self.folder, "trace.json")
        thread, found = self.begin(2, 2, {"dataset.uri": uri, "batch.global_size": 16, "order.epochs": 1000}, work=0.01)
        try:
            while not glob.glob(os.path.join(self.run_dir, "reader-1.metrics")):
                self.assertTrue(thread.is_alive(), found)
                time.sleep(0.02)
            made = [self.penstock_trace(self.run_dir, "--seconds", "1", "-o", path) for _ in range(2)]
            end = time.time()
            left = glob.glob(os.path.join(self.run_dir, "*.trace*"))
        finally:
            self.end(thread)
        self.assertEqual(found[0].code, 0, found[0].output)
        for each in made:
            self.assertEqual(each.returncode, 0, each.stderr)
        self.assertEqual(left, [])
        trace = load(path)
        self.assert_nested(trace)
        self.assert_within(trace, end - 60, end)
        for pid in (1000000000, 1000000001):
            spans = [span for span in spans_of(trace) if span["pid"] == pid]
            self.assertLessEqual({"plan round", "copy", "round filled"}, {span["name"] for span in spans})
            first = min(span["ts"] for span in spans)
            self.assertLess(max(span["ts"] + span["dur"] for span in spans) - first, 30e6)

    def test_says_what_is_wrong(self):
        made = self.penstock_trace(self.run_dir)
        self.assertEqual(made.returncode, 1)
        self.assertIn("there is no run directory", made.stderr)
        wrong = os.path.join(self.folder, "wrong.json")
        with open(wrong, "w", encoding="ascii") as file:
            file.write("[]")
        made = self.penstock_trace("merge", wrong, "-o", os.path.join(self.folder, "out.json"))
        self.assertEqual(made.returncode, 4)
        self.assertIn(f"'{wrong}' is no trace", made.stderr)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
    def test_on_the_clock_of_torch(self):
        uri = self.synth("some.zarr", 400)
        names = {name: os.path.join(self.folder, name) for name in ("torch.json", "next", "all.json")}
        outcome = self.reader(1, {"dataset.uri": uri, "batch.global_size": 16, "delivery.trainers": 1,
                                  "delivery.run_dir": self.run_dir}, (sys.executable, PROFILED, names["torch.json"]),
                              env=environment(PENSTOCK_TRACE=names["next"], PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual(outcome.code, 0, outcome.output)
        made = self.penstock_trace("merge", names["torch.json"], names["next"] + ".0", "-o", names["all.json"])
        self.assertEqual(made.returncode, 0, made.stderr)
        merged = load(names["all.json"])
        spans = spans_of(merged)
        self.assertLess(max(span["ts"] for span in spans), 3600e6)  # digits for nanoseconds: torch's base is months ago
        outer = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans if span["name"] == "outer")
        calls = [span for span in spans if span["name"] == "next"]  # a long wait is several
        inner = sorted((span["ts"], span["ts"] + span["dur"]) for span in calls)
        self.assertEqual({span["args"]["batch"] for span in calls} - {0}, set(range(1, 26)))
        self.assertGreaterEqual(len(inner), 26)  # the last one says the end
        for start, end in inner:
            self.assertTrue(any(a - 1000 <= start and end <= b + 1000 for a, b in outer), (start, end))


if __name__ == "__main__":
    unittest.main()
