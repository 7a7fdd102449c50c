"""penstock-trainer against a demo server: digests, reports, exit status."""

import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

from demo import Demo, event_lengths, events_of, points_of


def trainer(*arguments):
    return subprocess.Popen(
        [os.environ["PENSTOCK_TRAINER"], *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def run(demo, *arguments, world_size=1):
    """Runs all trainers of a service; returns their (status, output, errors) by rank."""
    running = [
        trainer("--run-dir", demo.run_dir, "--rank", str(r), "--world-size", str(world_size), *arguments)
        for r in range(world_size)
    ]
    return [finish(process) for process in running]


class Trainer(unittest.TestCase):
    def setUp(self):
        parent = tempfile.TemporaryDirectory(prefix="penstock-test-")
        self.addCleanup(parent.cleanup)
        self.dir = pathlib.Path(parent.name)

    def digests(self, name="digest"):
        lines = []
        for path in sorted(self.dir.glob(f"{name}.*.txt")):
            lines += [line.split() for line in path.read_text().splitlines()]
        return sorted((int(e), int(s), int(p), int(i), d) for e, s, p, i, d in lines)

    def digests_of_run(self, name, trainers, batch, *arguments, **settings):
        with Demo(trainers=trainers, batch=batch, **settings) as demo:
            path = str(self.dir / f"{name}.{{rank}}.txt")
            results = run(demo, "--digest", path, *arguments, world_size=trainers)
        for status, _, err in results:
            self.assertEqual((status, err), (0, ""))
        return self.digests(name)

    def test_digests_do_not_depend_on_the_number_of_trainers(self):
        for last in "pad", "partial":
            one = self.digests_of_run(f"{last}1", 1, 6, samples=17, last=last)
            three = self.digests_of_run(f"{last}3", 3, 2, samples=17, last=last)
            self.assertEqual(len(one), 2 * 17)
            self.assertEqual(one, three)
            self.assertEqual([p for _, s, p, _, _ in one if s == 2], [0, 1, 2, 3, 4] * 2)

    def test_digest_padding(self):
        lines = self.digests_of_run("all", 1, 6, "--digest-padding", samples=17, epochs=1)
        self.assertEqual(len(lines), 18)

    def test_digest_is_xxh3(self):
        xxhash = None
        try:
            import xxhash
        except ImportError:
            self.skipTest("the xxhash package is not installed")
        from demo import pattern

        for _, _, _, index, digest in self.digests_of_run("x", 1, 4, epochs=1):
            data = pattern(index, 8) + pattern(index, 24) + index.to_bytes(8, "little")
            self.assertEqual(digest, xxhash.xxh3_64_hexdigest(data))

    def test_digests_of_ragged_fields_are_a_samples_own(self):
        for fields in "ragged", "sequences":
            one = self.digests_of_run(f"{fields}1", 1, 6, samples=17, fields=fields)
            three = self.digests_of_run(f"{fields}3", 3, 2, samples=17, fields=fields)
            self.assertEqual(len(one), 2 * 17)
            self.assertEqual(one, three)
            self.assertEqual(len({digest for *_, digest in one}), 17)

    def test_digest_of_ragged_fields(self):
        try:
            import xxhash
        except ImportError:
            self.skipTest("the xxhash package is not installed")
        for _, _, _, index, digest in self.digests_of_run("x", 1, 4, epochs=1, fields="sequences"):
            lengths = event_lengths(index, 3)
            steps = [events_of(index, step, length) for step, length in enumerate(lengths)]
            points = points_of(index)
            data = b"".join(struct.pack(f"<{len(values)}f", *values) for values, _ in steps)
            data += struct.pack("<3q", *lengths)
            data += b"".join(struct.pack(f"<{len(x)}i", *x) for _, x in steps)
            data += struct.pack("<q", index)
            data += b"".join(struct.pack("<3H", *point) for point in points) + struct.pack("<q", len(points))
            self.assertEqual(digest, xxhash.xxh3_64_hexdigest(data))

    def test_report_of_ragged_fields(self):
        with Demo(samples=40, batch=4, epochs=1, fields="ragged") as demo:
            [(status, out, _)] = run(demo, "--json", "--touch")
        self.assertEqual(status, 0)
        items = sum(sum(event_lengths(index, 1)) for index in range(40))
        points = sum(len(points_of(index)) for index in range(40))
        self.assertEqual(json.loads(out)["bytes"], items * 8 + points * 6 + 3 * 40 * 8)

    def test_report(self):
        with Demo(samples=40, batch=4, epochs=2) as demo:
            [(status, out, _)] = run(demo, "--json", "--touch", "--compute-ms", "1")
        self.assertEqual(status, 0)
        report = json.loads(out)
        self.assertEqual((report["batches"], report["samples"]), (20, 80))
        self.assertEqual(report["bytes"], 80 * (8 + 24 + 8))
        self.assertEqual(report["status"], "no more batches")
        self.assertEqual([(e["epoch"], e["samples"]) for e in report["epochs"]], [(0, 40), (1, 40)])
        self.assertGreater(report["seconds"], 0.02)
        self.assertTrue(0 <= report["wait_share"] <= 1)
        self.assertTrue(0.02 < sum(e["seconds"] for e in report["epochs"]) < report["seconds"] + 0.01)

    def test_steps_and_state(self):
        with Demo(samples=40, batch=4) as demo:
            state, report = self.dir / "state", self.dir / "report.0"
            options = ["--steps", "3", "--state", str(state), f"--json={self.dir}/report.{{rank}}"]
            [(status, _, _)] = run(demo, *options)
            self.assertEqual(status, 0)
            self.assertEqual(json.loads(state.read_text())["step"], 3)
            self.assertEqual(json.loads(report.read_text())["batches"], 3)
            self.assertEqual(demo.process.wait(60), 0)

    def test_failures(self):
        with Demo(fail=2) as demo:
            [(status, _, err)] = run(demo)
        self.assertEqual(status, 1)
        self.assertIn("array 'image' chunk 3.0", err)
        with Demo(die=2) as demo:
            [(status, _, err)] = run(demo)
        self.assertEqual(status, 1)
        self.assertIn("went away", err)

    def test_full_disk(self):
        with Demo() as demo:
            [(status, _, err)] = run(demo, "--digest", "/dev/full")
            self.assertEqual(status, 1)
            self.assertIn("No space left", err)

    def test_usage(self):
        for arguments in (["--steps", "0"], ["--rank", "1"], ["what"], ["--compute-ms", "-1"]):
            status, _, _ = finish(trainer(*arguments))
            self.assertEqual(status, 4)
        status, out, _ = finish(trainer("--help"))
        self.assertEqual(status, 0)
        self.assertIn("--digest", out)

    def test_nobody_there(self):
        status, _, err = finish(trainer("--run-dir", "/nonexistent/run", "--timeout", "0.05"))
        self.assertEqual(status, 1)
        self.assertIn("/nonexistent/run", err)


if __name__ == "__main__":
    unittest.main()
