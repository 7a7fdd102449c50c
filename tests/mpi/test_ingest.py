"""penstock ingest video started by mpirun: parts by rank, without a call of MPI; a rank that is killed, other numbers of ranks. docs/use/videos.md
as it stands, and the demo."""

import importlib.util
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import unittest
import zlib

from job import MPIEXEC, JobTest, leftovers, program, run, slabs_done
from page import ROOT, example_environment, follow, read_page

if not shutil.which("ffmpeg"):
    print("skipped: there is no ffmpeg, which makes the videos")
    sys.exit(77)
if "built without FFmpeg" in run([program("penstock"), "ingest", "video", "/nowhere", "/nowhere"]).output:
    print("skipped: penstock was built without FFmpeg's libraries")
    sys.exit(77)

if "Example" in sys.argv:
    for name in ("torch", "zarr", "onnxscript", "onnxruntime"):
        if not importlib.util.find_spec(name):
            print(f"skipped: {sys.executable} has no {name}")
            sys.exit(77)

VIDEOS, SEGMENTS = 3, 4


class Ranks(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.videos = os.path.join(cls.datasets, "videos")
        os.mkdir(cls.videos)
        for number in range(VIDEOS):
            subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=size=320x240:rate=24:duration={8 + number}",
                            "-c:v", "mpeg4", "-g", "24", os.path.join(cls.videos, f"{number}.mp4")], check=True)

    def setUp(self):
        super().setUp()
        self.reference = os.path.join(self.folder, "reference.zarr")
        outcome = run(self.command(self.reference))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.digest = re.search(r"^digest (\w{32})$", outcome.output, re.MULTILINE)[1]

    def command(self, destination):
        return [program("penstock"), "ingest", "video", self.videos, destination, "--segments", str(SEGMENTS), "--seconds", "2", "--threads", "1",
                "--codec", "zstd", "--level", "15"]

    def ingest(self, ranks, destination, send=None):
        return run([MPIEXEC, *self.flags, "-np", str(ranks), *self.command(destination)], send=send)

    def check(self, destination):
        same = subprocess.run(["diff", "-r", self.reference, destination], capture_output=True, text=True, check=False)
        self.assertEqual(same.stdout + same.stderr, "")

    def test_parts(self):
        """Each rank does its part, one of them ends the work."""
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                destination = os.path.join(self.folder, f"{ranks}.zarr")
                outcome = self.ingest(ranks, destination)
                self.assertEqual(outcome.code, 0, outcome.output)
                self.assertIn(f"digest {self.digest}", outcome.output)
                for rank in range(ranks):
                    self.assertIn(f"part {rank} of {ranks}: ", outcome.output)
                self.check(destination)

    def test_killed_rank(self):
        """mpirun ends the others; then fewer ranks go on."""
        destination = os.path.join(self.folder, "killed.zarr")

        def kill_one():
            if slabs_done(destination, "ingest") < 3:
                return False
            ranks = [int(line.split()[0].split("/")[-1]) for line in sorted(leftovers()) if line.endswith(" penstock")]
            if not ranks:
                return False
            os.kill(ranks[-1], signal.SIGKILL)
            return True

        outcome = self.ingest(3, destination, send=(kill_one, signal.SIGCONT))
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertFalse(os.path.exists(os.path.join(destination, "zarr.json")))
        outcome = self.ingest(2, destination)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, r"slabs? were there already")
        self.assertIn(f"digest {self.digest}", outcome.output)
        self.check(destination)


class Page(JobTest):
    def test_videos(self):
        """The page's commands, its configuration and its program, which trains; and the configuration that ingest prints."""
        text = read_page("videos.md")
        output = follow(self, text[text.index("## 1. "):text.index("## 4. ")], self.folder) # 4: a model of others, on a GPU
        steps = re.findall(r"^(\d+) (\d+) \(4, 20, 256, 256, 3\) \(4, 512\)$", output, re.MULTILINE)
        self.assertEqual(steps, [(str(epoch), str(step)) for epoch in range(5) for step in range(2)], output)
        config = re.search(r"^dataset:\n.*?^order: .*?\n", output, re.MULTILINE | re.DOTALL)[0]
        with open(os.path.join(self.folder, "printed.yaml"), "w", encoding="utf-8") as file:
            file.write(config)
        for words in (["plan", "-c", "printed.yaml"], ["samples", "-c", "printed.yaml"]):
            outcome = run([program("penstock"), *words], cwd=self.folder)
            self.assertEqual(outcome.code, 0, f"{config}\n{outcome.output}")
        self.assertIn("text_emb", outcome.output)

    def test_demo(self):
        """It trains on frames and on latents, and its pictures are of four segments, with frames that differ, and of what comes out of latents."""
        outcome = run(["bash", os.path.join(ROOT, "python", "examples", "videos", "demo.sh"), self.folder], env=example_environment(self.folder))
        self.assertEqual(outcome.code, 0, outcome.output)
        quality = [float(number) for number in re.findall(r"^epoch 1, step \d: .*, ([\d.]+) dB$", outcome.output, re.MULTILINE)]
        self.assertEqual(len(quality), 2, outcome.output)
        self.assertGreater(min(quality), 15)
        losses = [float(loss) for loss in re.findall(r"^epoch \d, step \d: a loss of [\d.]+, (\d\.\d{3}) of that of frames", outcome.output, re.MULTILINE)]
        self.assertEqual((len(losses), losses[0]), (4, 1), outcome.output)
        self.assertLess(max(losses[2:]), 0.9)
        for name, rows in (("segments.png", 4), ("decoded.png", 8), ("latents.png", 8)):
            frames = self.frames(os.path.join(self.folder, name), rows)
            self.assertEqual(len({frame for row in frames for frame in row}), 5 * rows)

        self.check_encoded()

    def check_encoded(self):
        """The same latents without frames in between, and the configuration that ingest prints for them."""
        environment = example_environment(self.folder)
        encoder = shlex.quote(os.path.join(ROOT, "python", "examples", "videos", "encode.py"))
        outcome = run([program("penstock"), "ingest", "video", "videos", "encoded.zarr", "--segments", "2", "--encode", f"python3 {encoder}"],
                      cwd=self.folder, env=environment)
        self.assertEqual(outcome.code, 0, outcome.output)
        config = re.search(r"^dataset:\n.*?^order: .*?\n", outcome.output, re.MULTILINE | re.DOTALL)[0]
        self.assertIn("latents: {array: base_frames}", config)
        with open(os.path.join(self.folder, "printed.yaml"), "w", encoding="utf-8") as file:
            file.write(config)
        outcome = run([program("penstock"), "plan", "-c", "printed.yaml"], cwd=self.folder, env=environment)
        self.assertEqual(outcome.code, 0, outcome.output)
        digests = []
        for options in (["-c", "printed.yaml"],
                        ["--set", "dataset.uri=latents.zarr", "--set", "dataset.fields.latents=latents", "--set", "samples.where=segment_valid",
                         "--set", "order.seed=17", "--set", "batch.global_size=8"]):
            outcome = run([program("penstock-run"), *options, "--", program("penstock-trainer"), "--digest", "digest"], cwd=self.folder, env=environment)
            self.assertEqual(outcome.code, 0, f"{config}\n{outcome.output}")
            with open(os.path.join(self.folder, "digest"), encoding="ascii") as file:
                digests.append(sorted(line.split()[3:] for line in file))  # the order goes by rows, which differ
        self.assertEqual(len(digests[0]), 8)
        self.assertEqual(*digests)

    def frames(self, path, rows):
        """The frames of a picture that the demo wrote: rows of five, 128 x 128 pixels each."""
        with open(path, "rb") as file:
            header, body = file.read()[16:24], b""
            file.seek(8)
            while True:
                length, name = struct.unpack(">I4s", file.read(8))
                body += file.read(length) if name == b"IDAT" else file.read(length)[:0]
                file.read(4)
                if name == b"IEND":
                    break
        self.assertEqual(struct.unpack(">II", header), (5 * 128, rows * 128))
        lines = zlib.decompress(body)
        stride = 1 + 5 * 128 * 3
        self.assertEqual(len(lines), rows * 128 * stride)
        return [[b"".join(lines[(row * 128 + y) * stride + 1 + at * 384:][:384] for y in range(128)) for at in range(5)] for row in range(rows)]


class Example(JobTest):
    """python/examples/encode as its page has it: an autoencoder that trains in seconds, and encodes by PyTorch and by ONNX Runtime."""

    def test_both_ways(self):
        example = os.path.join(ROOT, "python", "examples", "encode")
        for name in os.listdir(example):
            if name.endswith(".py"):
                shutil.copy(os.path.join(example, name), self.folder)
        os.mkdir(os.path.join(self.folder, "videos"))
        for number, source in enumerate(("testsrc2=size=160x128:rate=24", "mandelbrot=size=160x128:rate=24")):
            subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", source, "-t", "11", "-c:v", "mpeg4",
                            os.path.join(self.folder, "videos", f"{number}.mp4")], check=True)
        with open(os.path.join(example, "README.md"), encoding="utf-8") as file:
            commands = file.read().split("```sh\n")[1].split("```")[0]
        both = commands + commands[commands.index("penstock-run"):].replace("model.pt", "model.onnx").replace(" latents.zarr", " onnx.zarr")
        outcome = run(["bash", "-euo", "pipefail", "-c", both], cwd=self.folder, env=example_environment(self.folder))
        self.assertEqual(outcome.code, 0, outcome.output)
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", outcome.output, re.MULTILINE)]
        self.assertEqual(len(losses), 12, outcome.output)
        for first, *_, last in (losses[:6], losses[6:]):
            self.assertLess(last, first / 2)
        import zarr  # pylint: disable=import-outside-toplevel

        by_torch, by_onnx = (zarr.open(os.path.join(self.folder, name))["latents"][:].astype("f4") for name in ("latents.zarr", "onnx.zarr"))
        self.assertEqual(by_torch.shape, (4, 20, 4, 8, 8))
        self.assertGreater(by_torch.std(), 0.1)
        self.assertLess(abs(by_torch - by_onnx).max(), 0.01 * abs(by_torch).max())


if __name__ == "__main__":
    unittest.main()
