"""penstock derive and penstock ingest --encode: what encoders give is what is written, whatever dies; wrong encoders.

test_encode.py --penstock PROGRAM --library LIBPENSTOCK --encoder PENSTOCK-BENCH-ENCODER [--long] [unittest arguments]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = LIBRARY = ENCODER_IN_C = FOLDER = LONG = None
COUNT, SHAPE = 23, (4, 6)

# What a test's encoder is: notes each sample that it gets, and does what the mode says.
ENCODER = """
import os, pathlib, sys, time
import numpy as np
import penstock

mode, notes = sys.argv[1], pathlib.Path(sys.argv[2])
if mode == "early":
    sys.exit(3)
if mode == "deaf":
    time.sleep(600)
with penstock.Encoder() as encoder, open(notes / f"{os.getpid()}", "a") as seen:
    for number, batch in enumerate(encoder):
        frames = batch[next(iter(batch))] if not mode.startswith("two") else batch["frames"]
        result = frames.astype(np.float32).reshape(len(frames), -1, 2).sum(axis=2, dtype=np.float32) * np.float32(0.5)
        if mode == "two":
            result = result + batch["labels"][:, None].astype(np.float32)
        if mode == "rows":
            result = result[:0] if number else result[:-1]
        if mode == "shape" and number:
            result = result[:, 1:]
        if mode == "dtype" and number:
            result = result.astype(np.float64)
        if mode == "unsupported":
            result = result.astype("datetime64[s]")
        if mode == "raises" and number:
            raise RuntimeError("out of patience")
        if mode == "leaves" and number:
            break
        if mode == "killed" and number:
            os.kill(os.getpid(), 9)
        if mode == "hangs" and number:
            time.sleep(600)
        if mode == "nothing" and number:
            continue
        if mode == "slow":
            time.sleep(0.2)
        print(*batch.indices.tolist(), file=seen, flush=True)
        encoder.give(result)
        if mode == "twice" and number:
            encoder.give(result)
"""


def write_dataset(folder, frames, labels):
    """Zarr v3 without codecs, chunks of two samples."""
    for name, array in (("frames", frames), ("labels", labels)):
        path = folder / name
        path.mkdir(parents=True)
        chunk = [2, *array.shape[1:]]
        path.joinpath("zarr.json").write_text(json.dumps({
            "zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": str(array.dtype), "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {"_FillValue": 11},
            "dimension_names": ["sample", *"abcd"[1 : array.ndim]]}))
        for i in range(0, len(array), 2):
            part = np.zeros(chunk, array.dtype)
            part[:len(array[i:i + 2])] = array[i:i + 2]
            file = path.joinpath("c", *([str(i // 2)] + ["0"] * (array.ndim - 1)))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(part.tobytes())
    folder.joinpath("zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')


def model(frames):
    return frames.astype(np.float32).reshape(len(frames), -1, 2).sum(axis=2, dtype=np.float32) * np.float32(0.5)


def environment():
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI_", "SLURM_"))}
    return clean | {"TMPDIR": str(FOLDER / "tmp"), "PYTHONPATH": str(HERE.parent.parent / "python"), "PENSTOCK_LIBRARY": str(LIBRARY)}


def penstock(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=environment(), timeout=240)


def read(dataset, path, dtype):
    """An array without codecs, whose first axis alone has several chunks."""
    document = json.loads((dataset / path / "zarr.json").read_text())
    shape, chunk = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
    parts = [np.fromfile(dataset / path / "c" / "/".join([str(i)] + ["0"] * (len(shape) - 1)), dtype).reshape(chunk)
             for i in range(-(-shape[0] // chunk[0]))]
    return np.concatenate(parts)[:shape[0]]


def digest_of(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("digest ")][0]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        random = np.random.default_rng(7)
        cls.frames = random.integers(0, 255, (COUNT, *SHAPE), np.uint8)
        cls.labels = random.integers(0, 9, COUNT, np.int32)
        cls.source = FOLDER / "source.zarr"
        if not cls.source.exists():
            write_dataset(cls.source, cls.frames, cls.labels)
        FOLDER.joinpath("encode.py").write_text(ENCODER)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        self.out, self.notes = self.folder / "out.zarr", self.folder / "notes"
        self.notes.mkdir()

    def tearDown(self):
        self.assertFalse(list(FOLDER.joinpath("tmp").iterdir()), "a run directory is left")

    def command(self, mode):
        return f"exec {sys.executable} {FOLDER}/encode.py {mode} {self.notes}"

    def arguments(self, mode, out=None):
        return ["derive", self.source, out or self.out, "--field", "latents", "--run", self.command(mode), "--codec", "none", "--from", "frames"]

    def derive(self, mode, *arguments, out=None):
        return penstock(*self.arguments(mode, out), *arguments)

    def noted(self):
        return sorted(int(number) for file in self.notes.iterdir() for number in file.read_text().split())

    def busy_encoders(self):
        return sum(file.stat().st_size > 0 for file in self.notes.iterdir())

    def forget(self):
        for file in self.notes.iterdir():
            file.unlink()

    def assertFails(self, done, *words):
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("Sanitizer", done.stderr)
        self.assertFalse((self.out / "zarr.json").exists(), "looks whole")


class Short(Case):
    """What CI runs."""

    def test_values_resume_and_refusals(self):
        done = self.derive("good", out=self.source / "latents")
        self.assertFails(done, "lies in the source")
        done = self.derive("good", "--batch", 3, "--with", "lables")
        self.assertFails(done, "has no array 'lables'")
        self.assertFalse(self.out.exists(), "the corrected command would be refused")
        done = self.derive("good", "--batch", 3, "--encoders", 2, "--memory", "20KiB")
        self.assertFails(done, "2 encoders with 4 batches of 3 samples each take", "and --memory is 20.0 KiB")
        self.assertEqual(self.busy_encoders(), 0)
        self.assertFalse(self.out.exists())
        for names in ("labels,frames", "frames,labels"):  # the same command
            done = self.derive("killed", "--batch", 3, "--with", names)
            self.assertFails(done, "encoder 0", "killed by signal 9")
        done = self.derive("good", "--batch", 4)
        self.assertFails(done, "another command")
        self.forget()
        shutil.rmtree(self.out)
        done = self.derive("slow", "--batch", 3, "--chunk", 3, "--threads", 2, "--encoders", 2, "--with", "labels")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(read(self.out, "latents", np.float32), model(self.frames))
        np.testing.assert_array_equal(read(self.out, "labels", np.int32), self.labels)
        document = json.loads((self.out / "labels" / "zarr.json").read_text())
        self.assertEqual((document["attributes"], document["dimension_names"]), ({"_FillValue": 11}, ["sample"]))
        self.assertEqual(self.noted(), list(range(COUNT)))
        self.assertEqual(self.busy_encoders(), 2)
        self.assertFalse(list(self.out.glob(".penstock-derive")))
        verified = penstock("verify", self.out, "--digest")
        self.assertIn(digest_of(done.stdout), verified.stdout)

    def test_an_encoder_in_c(self):
        done = penstock("derive", self.source, self.out, "--field", "copy", "--run", ENCODER_IN_C, "--codec", "none", "--from", "frames",
                        "--batch", 3, "--chunk", 4, "--encoders", 2, "--threads", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(read(self.out, "copy", np.uint8), self.frames)


class Long(Case):
    def setUp(self):
        if not LONG:
            self.skipTest("--long is not given")
        super().setUp()

    def test_same_digest_with_any_number_of_encoders_and_parts(self):
        digests = set()
        for encoders, parts in ((1, 1), (3, 1), (1, 2), (3, 2)):
            out = self.folder / f"{encoders}-{parts}.zarr"
            self.forget()
            running = [subprocess.Popen([PROGRAM, *map(str, self.arguments("slow", out)), "--encoders", str(encoders), "--part", f"{part}/{parts}", "--batch", "2", "--chunk", "2",
                                         "--threads", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) for part in range(parts)]
            texts = [process.communicate(timeout=240) for process in running]
            self.assertEqual([process.returncode for process in running], [0] * parts, texts)
            digests |= {digest_of(text) for text, _ in texts if "digest " in text}
            self.assertEqual(self.noted(), list(range(COUNT)))
            self.assertGreaterEqual(self.busy_encoders(), min(encoders * parts, 2))
        self.assertEqual(len(digests), 1)

    def test_several_inputs(self):
        done = penstock("derive", self.source, self.out, "--field", "sums", "--run", self.command("two"), "--codec", "none", "--from", "labels,frames", "--batch", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(read(self.out, "sums", np.float32), model(self.frames) + self.labels[:, None].astype(np.float32))

    def test_killed_penstock_goes_on_and_asks_for_nothing_twice(self):
        whole = self.derive("good", out=self.folder / "whole.zarr")
        self.forget()
        running = subprocess.Popen([PROGRAM, *map(str, self.arguments("slow")), "--chunk", "2", "--threads", "1"], env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(self.noted()) < 7:
            self.assertIsNone(running.poll())
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        time.sleep(1) # the encoder hears of the end
        before = {int(line.split()[0]) for file in (self.out / ".penstock-derive").glob("done.*") for line in file.read_text().splitlines() if line}
        self.forget()
        done = penstock(*self.arguments("slow"), "--chunk", 2, "--threads", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(digest_of(done.stdout), digest_of(whole.stdout))
        written = {sample for slab in before for sample in (2 * slab, 2 * slab + 1)} | {0} # the first batch is kept, too
        self.assertTrue(before)
        self.assertEqual(self.noted(), [sample for sample in range(COUNT) if sample not in written])

    def test_wrong_encoders(self):
        cases = {
            "early": ("ended with exit code 3",),
            "rows": ("a result for",),
            "shape": ("float32 [11]", "float32 [12]"),
            "dtype": ("float64 [12]", "float32 [12]"),
            "unsupported": ("an array of dtype datetime64",),
            "raises": ("out of patience",),
            "leaves": ("stopped before it had all",),
            "killed": ("killed by signal 9",),
            "nothing": ("gave nothing",),
            "twice": ("a result already",),
        }
        for mode, words in cases.items():
            with self.subTest(mode):
                shutil.rmtree(self.out, ignore_errors=True)
                done = self.derive(mode, "--encoder-timeout", 20)
                self.assertFails(done)
                said = [line for line in done.stderr.splitlines() if line.startswith("penstock derive: ")]  # not the encoder's own traceback
                for word in words:
                    self.assertIn(word, "".join(said), done.stderr)

    def test_no_such_command_and_hangs(self):
        done = penstock("derive", self.source, self.out, "--field", "x", "--run", "no-such-program-here")
        self.assertFails(done, "no-such-program-here", "127")
        self.assertFalse(self.out.exists())
        for mode, patience, words in (("hangs", 20, "given nothing for 20 s"), ("deaf", 3, "asked for no batch within 3 s")):
            shutil.rmtree(self.out, ignore_errors=True)
            start = time.monotonic()
            self.assertFails(self.derive(mode, "--encoder-timeout", patience), words)
            self.assertLess(time.monotonic() - start, 120)

    def encoders(self):
        """Processes that have this test's folder on their command line."""
        lines = [(file.parent.name, file) for file in pathlib.Path("/proc").glob("[0-9]*/cmdline")]
        found = []
        for number, file in lines:
            with contextlib.suppress(OSError):
                if str(self.notes).encode() in file.read_bytes() and int(number) != self.penstock:
                    found.append(number)
        return found

    def test_nothing_is_left_when_penstock_is_killed(self):
        for mode, kill in (("deaf", signal.SIGINT), ("hangs", signal.SIGKILL)):
            shutil.rmtree(self.out, ignore_errors=True)
            command = f"trap '' TERM; {self.command(mode)[5:]}; true"  # a shell, whose programs ignore SIGTERM
            arguments = ["derive", self.source, self.out, "--field", "x", "--from", "frames", "--run", command]
            running = subprocess.Popen([PROGRAM, *map(str, arguments)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.penstock = running.pid
            while len(self.encoders()) < 2 or (mode == "hangs" and not self.noted()):
                self.assertIsNone(running.poll())
                time.sleep(0.02)
            running.send_signal(kill)
            self.assertEqual(running.wait(), -kill)
            end = time.monotonic() + 60
            while (self.encoders() or list(FOLDER.joinpath("tmp").iterdir())) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertFalse(self.encoders())
            self.assertFalse(list(FOLDER.joinpath("tmp").iterdir()))
            self.forget()

    def test_all_encoders_are_ended_at_once(self):
        script = (f"import pathlib, signal, sys, time\ndef note(*_):\n    pathlib.Path('{self.notes}', sys.argv[1]).write_text(str(time.monotonic()))\n"
                  "signal.signal(signal.SIGTERM, note)\nwhile True:\n    time.sleep(60)\n")
        self.folder.joinpath("stubborn.py").write_text(script)
        command = f'exec {sys.executable} {self.folder}/stubborn.py $RANK'
        done = penstock("derive", self.source, self.out, "--field", "x", "--from", "frames", "--encoders", 4, "--encoder-timeout", 3, "--run", command)
        self.assertFails(done, "asked for no batch within 3 s")
        times = [float(file.read_text()) for file in self.notes.iterdir()]
        self.assertEqual(len(times), 4)
        self.assertLess(max(times) - min(times), 1)  # what SIGTERM waits for

    def test_goes_on_once_the_cause_is_gone(self):
        flag = self.folder / "flag"
        script = f"if [ -e {flag} ]; then {self.command('good')}; else {self.command('raises')}; fi"
        arguments = ["derive", self.source, self.out, "--field", "latents", "--run", script, "--codec", "none", "--from", "frames"]
        self.assertFails(penstock(*arguments), "out of patience")
        flag.touch()
        done = penstock(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(read(self.out, "latents", np.float32), model(self.frames))


class LongIngest(Case):
    def setUp(self):
        if not LONG:
            self.skipTest("--long is not given")
        if not shutil.which("ffmpeg") or "built without FFmpeg" in penstock("ingest", "video", FOLDER, FOLDER / "no.zarr").stderr:
            self.skipTest("no ffmpeg, or a penstock without")
        super().setUp()
        self.videos = self.folder / "videos"
        self.videos.mkdir()
        for i in range(3):
            subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=size=96x64:rate=25:duration={4 + i}",
                            "-c:v", "mpeg4", str(self.videos / f"{i}.mp4")], check=True)

    def ingest(self, out, *arguments):
        done = penstock("ingest", "video", self.videos, out, "--codec", "none", "--size", 32, "--seconds", 1, "--segments", 4, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_frames_of_a_plain_ingest_encoded(self):
        self.ingest(self.folder / "plain.zarr")
        encode = ["--encode", self.command("good")]
        done = self.ingest(self.out, *encode, "--batch", 2)
        frames = read(self.folder / "plain.zarr", "base_frames", np.uint8)
        np.testing.assert_array_equal(read(self.out, "base_frames", np.float32), model(frames))
        np.testing.assert_array_equal(read(self.out, "segment_start", np.float64), read(self.folder / "plain.zarr", "segment_start", np.float64))
        self.assertIn("good", json.loads((self.out / "base_frames" / "zarr.json").read_text())["attributes"]["encoder"])
        self.assertEqual(self.noted(), list(range(len(frames))))
        again = self.ingest(self.folder / "three.zarr", *encode, "--batch", 2, "--encoders", 3)
        self.assertEqual(digest_of(again.stdout), digest_of(done.stdout))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--long", action="store_true")
    options, rest = parser.parse_known_args()
    PROGRAM, LIBRARY, LONG = str(pathlib.Path(options.penstock).resolve()), pathlib.Path(options.library).resolve(), options.long or "PENSTOCK_TEST_LONG" in os.environ
    ENCODER_IN_C = pathlib.Path(options.encoder).resolve()
    with tempfile.TemporaryDirectory(prefix="penstock-test-encode-") as folder:
        FOLDER = pathlib.Path(folder)
        FOLDER.joinpath("tmp").mkdir()
        unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
