"""penstock ingest video started by srun on three nodes: parts by SLURM_PROCID; a step that is ended, and fewer nodes that go on."""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from cluster import HOSTS
from job import JobTest, program, run, slabs_done

if not shutil.which("ffmpeg"):
    print("skipped: there is no ffmpeg, which makes the videos")
    sys.exit(77)
if "built without FFmpeg" in run([program("penstock"), "ingest", "video", "/nowhere", "/nowhere"]).output:
    print("skipped: penstock was built without FFmpeg's libraries")
    sys.exit(77)


class Steps(JobTest):
    def setUp(self):
        super().setUp()
        self.videos = os.path.join(self.folder, "videos")
        os.mkdir(self.videos)
        for number in range(3):
            subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=size=320x240:rate=24:duration={8 + number}",
                            "-c:v", "mpeg4", "-g", "24", os.path.join(self.videos, f"{number}.mp4")], check=True)
        self.reference = os.path.join(self.folder, "reference.zarr")
        outcome = run(self.command(self.reference))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.digest = re.search(r"^digest (\w{32})$", outcome.output, re.MULTILINE)[1]

    def command(self, destination):
        return [program("penstock"), "ingest", "video", self.videos, destination, "--segments", "4", "--seconds", "2", "--threads", "1",
                "--codec", "zstd", "--level", "15"]

    def ingest(self, nodes, destination, send=None):
        return run(["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", *self.command(destination)], send=send)

    def check(self, outcome, nodes, destination):
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertIn(f"digest {self.digest}", outcome.output)
        for rank in range(nodes):
            self.assertIn(f"part {rank} of {nodes}: ", outcome.output)
        same = subprocess.run(["diff", "-r", self.reference, destination], capture_output=True, text=True, check=False)
        self.assertEqual(same.stdout + same.stderr, "")

    def test_nodes(self):
        destination = os.path.join(self.folder, "nodes.zarr")
        self.check(self.ingest(len(HOSTS), destination), len(HOSTS), destination)

    def test_ended_step(self):
        destination = os.path.join(self.folder, "ended.zarr")
        outcome = self.ingest(len(HOSTS), destination, send=(lambda: slabs_done(destination, "ingest") > 2, signal.SIGTERM))
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertFalse(os.path.exists(os.path.join(destination, "zarr.json")))
        outcome = self.ingest(len(HOSTS) - 1, destination)
        self.assertRegex(outcome.output, r"slabs? were there already")
        self.check(outcome, len(HOSTS) - 1, destination)


if __name__ == "__main__":
    unittest.main()
