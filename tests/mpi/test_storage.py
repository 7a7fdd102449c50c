"""Storage that fails: bad samples, missing chunks, passing faults, reads that hang."""

import glob
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

from job import ALONE, SANITIZED, JobTest, chunk_bytes, environment, leftovers, program, run

HAS_FAULTS = os.environ.get("PENSTOCK_HAS_FAULTS") == "1"
FAILED = (1, 4)  # 4: trainers were told, so that a restart is of no use


class Storage(JobTest):
    """What the tests share: datasets with damage, runs with it, and what is to be seen then."""

    SAMPLES, CHUNK, BATCH = 96, 4, 12

    def plain(self, name, shape):
        """One array, of records that are packed (small) or zero-copy (from 32 KiB)."""
        return self.synth(name, self.SAMPLES, layout="plain", chunk=self.CHUNK, shape=shape,
                          dtype="int16", codec="zstd")

    def copy(self, uri):
        path = os.path.join(self.folder, "damaged.zarr")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(uri, path)
        return path

    def chunks(self, uri, array="data"):
        """Files of the array's chunks by number along axis 0; there is one for each."""
        files = {}
        for path in glob.glob(os.path.join(uri, array, "[0-9]*")):
            files[int(os.path.basename(path).split(".")[0])] = path
        return files

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": self.BATCH, "batch.last": "partial",
                "order.epochs": 2, "order.window_rows": 5, "order.seed": 3, "readers.threads": 2,
                "errors.report": self.report(), **{key.replace("__", "."): value
                                                   for key, value in more.items()}}

    def report(self):
        return os.path.join(self.folder, "bad.jsonl")

    def listed(self):
        """The report's lines, and the samples they name."""
        with open(self.report(), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return lines, {index for line in lines for index in range(*line["samples"])}

    def undisturbed(self, uri):
        return self.digests(1, 1, self.settings(uri))

    def masked_run(self, readers, trainers, settings, options=()):
        """All lines of a run, and without those of invalid samples."""
        valid = self.digests(readers, trainers, settings, options=options)
        return valid, self.digests(readers, trainers, settings, ["--digest-padding"], options)

    def check_masked(self, good, readers, trainers, settings, bad, zero=None):
        """Good samples come as ever, bad ones as zeros and invalid, at their positions."""
        valid, both = self.masked_run(readers, trainers, settings)
        self.assertEqual(valid, self.known(line for line in good if int(line[3]) not in bad))
        self.assertEqual([line[:4] for line in both], [line[:4] for line in good])
        digests = {line[4] for line in both if int(line[3]) in bad}
        self.assertEqual(len(digests), 1 if bad else 0)
        if zero:
            self.assertEqual(digests, {zero})


class Masks(Storage):
    BAD = {4 * chunk + i for chunk in (1, 9, 17) for i in range(4)}

    def damage(self, uri):
        """Chunk 1 is cut, 9 overwritten, 17 a folder; 20 is not there, which is the fill value."""
        path = self.copy(uri)
        files = self.chunks(path)
        os.truncate(files[1], os.path.getsize(files[1]) // 2)
        with open(files[9], "r+b") as file:
            file.write(os.urandom(64))
        os.remove(files[17])
        os.mkdir(files[17])
        os.remove(files[20])
        return path

    def check_shapes(self, shape):
        uri = self.plain(f"plain-{shape}", shape)
        filled = self.copy(uri)
        os.remove(self.chunks(filled)[20])
        good = self.undisturbed(filled)
        zero = {line[4] for line in good if int(line[3]) // 4 == 20}.pop()
        path = self.damage(uri)
        for readers, trainers, cache in ((1, 1, "decoded"), (3, 2, "decoded"), (3, 4, "off"), (2, 2, "stored")):
            with self.subTest(readers=readers, trainers=trainers, cache=cache):
                settings = self.settings(path, errors__bad_sample="mask", readers__cache=cache)
                self.check_masked(good, readers, trainers, settings, self.BAD, zero)
                lines, samples = self.listed()
                self.assertEqual(samples, self.BAD)
                self.assertEqual(sorted(line["chunk"] for line in lines), ["1.0", "17.0", "9.0"])
                self.assertEqual({line["array"] for line in lines}, {"data"})
                for line in lines:
                    self.assertIn(f"array 'data' chunk {line['chunk']}: ", line["error"])

    def test_packed(self):
        self.check_shapes(100)

    def test_the_log_says_how_many(self):
        settings = {**self.settings(self.damage(self.plain("plain-100", 100)), errors__bad_sample="mask"),
                    "delivery.trainers": 2}
        outcome = self.reader(2, settings, [])
        self.assertIn(f"{len(self.BAD)} samples could not be read and were masked: see {self.report()}\n",
                      outcome.output)

    def test_zero_copy(self):
        self.check_shapes(20000)

    def test_all_fields_of_a_bad_sample_are_zero(self):
        """Those of other arrays, in rows and held ones, too."""
        uri = self.synth("demo", 48, chunk=2, videos=3)
        good = self.undisturbed(uri)
        path = self.copy(uri)
        files = self.chunks(path, "base_frames")
        for chunk in (3, 11):
            os.truncate(files[chunk], 100)
        for readers in (1, 3):
            settings = self.settings(path, errors__bad_sample="mask")
            self.check_masked(good, readers, 2, settings, {6, 7, 22, 23})

    def test_padding_stays_invalid(self):
        uri = self.plain("pad", 50)
        path = self.copy(uri)
        os.truncate(self.chunks(path)[2], 3)
        settings = {**self.settings(path, errors__bad_sample="mask"), "batch.last": "pad",
                    "batch.global_size": 36}
        good = self.digests(1, 1, {**settings, "dataset.uri": uri})
        valid = self.digests(2, 2, settings)
        self.assertEqual(valid, self.known(line for line in good if int(line[3]) not in range(8, 12)))

    def test_too_many(self):
        path = self.damage(self.plain("plain-100", 100))
        for readers in (ALONE, 3):
            for most in (0, len(self.BAD) - 1):
                before = leftovers()
                outcome = self.reader(readers, {**self.settings(path, errors__bad_sample="mask"),
                                                "errors.max_bad": most, "delivery.trainers": 2}, [])
                self.assertIn(outcome.code, FAILED, outcome.output)
                self.assertRegex(outcome.output,
                                 f"more than errors.max_bad {most} bad samples; the last, of "
                                 r"reader [0-2] on \S+: array 'data' chunk [0-9]+.0: ")
                self.assert_nothing_left(before, outcome)
        outcome = self.reader(3, {**self.settings(path, errors__bad_sample="mask"),
                                  "errors.max_bad": len(self.BAD)}, [])
        self.assertEqual(outcome.code, 0, outcome.output)

    def test_missing_chunk(self):
        uri = self.plain("plain-100", 100)
        path = self.copy(uri)
        os.remove(self.chunks(path)[20])
        good = self.undisturbed(uri)
        report = os.path.join(self.folder, "report.json")
        filled = self.digests(3, 2, self.settings(path), options=["--report", report])
        self.assertEqual([line[:4] for line in filled], [line[:4] for line in good])
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["filled_chunks"], {"data": 1})
        for readers in (1, 3):
            outcome = self.reader(readers, self.settings(path, errors__missing_chunk="fail"), [])
            self.assertIn(outcome.code, FAILED, outcome.output)
            self.assertRegex(outcome.output, r"array 'data' chunk 20.0: .*errors.missing_chunk")
            self.check_masked(good, readers, 1, self.settings(
                path, errors__missing_chunk="fail", errors__bad_sample="mask"), set(range(80, 84)))

    def test_no_chunk_at_all(self):
        """An array without any chunk is an error, unless the configuration says that it is to be filled."""
        path = self.copy(self.synth("demo", 48, chunk=2, videos=3))
        def remove(name):
            for chunk in glob.glob(os.path.join(path, name, "[0-9]*")):
                os.remove(chunk)
        fields = {"dataset.fields.a": "base_frames", "dataset.fields.t": "clip_emb[segment_to_video]"}
        remove("clip_emb")
        outcome = self.reader(2, {**self.settings(path), **fields}, [])
        self.assertEqual(outcome.code, 1, outcome.output)
        self.assertRegex(outcome.output, r"reader 0 on \S+: field 't': array 'clip_emb' of the store '.*damaged.zarr': .*"
                                         "no chunk at all: .*errors.missing_chunk: fill")
        remove("base_frames")
        filled = self.reader(2, {**self.settings(path, errors__missing_chunk="fill"), **fields}, [])
        self.assertEqual(filled.code, 0, filled.output)
        for field in ("a", "t"):
            self.assertRegex(filled.output, rf"(?m)^[0-9]+ chunks? of field '{field}' w(as|ere) not there, and read as the fill value$")

    def test_held_arrays_are_never_masked(self):
        uri = self.synth("demo", 48, chunk=2, videos=3)
        path = self.copy(uri)
        chunk = sorted(glob.glob(os.path.join(path, "clip_emb", "0*")))[0]
        os.truncate(chunk, 5)
        fields = {"dataset.fields.a": "base_frames",
                  "dataset.fields.t": "clip_emb[segment_to_video]"}
        for readers in (ALONE, 2):
            outcome = self.reader(readers, {**self.settings(path, errors__bad_sample="mask"),
                                            **fields}, [])
            self.assertIn(outcome.code, FAILED, outcome.output)
            self.assertRegex(outcome.output, "held whole.*array 'clip_emb' chunk")

    def test_report_is_kept_and_checked(self):
        path = self.damage(self.plain("plain-100", 100))
        settings = self.settings(path, errors__bad_sample="mask")
        for _ in range(2):
            self.assertEqual(self.reader(2, settings, []).code, 0)
            lines, samples = self.listed()
            self.assertEqual(samples, self.BAD)
            self.assertEqual(len(lines), 3)
        outcome = self.reader(2, {**settings, "errors.report": "/nonexistent/x"}, [])
        self.assertIn(outcome.code, FAILED, outcome.output)
        self.assertIn("errors.report: ", outcome.output)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_report_on_a_full_disk(self):
        """What could not be written is not pointed at as if it were there."""
        path = self.damage(self.plain("plain-100", 100))
        full = os.path.join(self.folder, "full")
        os.makedirs(full)
        settings = {**self.settings(path, errors__bad_sample="mask"), "errors.report": full + "/bad.jsonl"}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        outcome = run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=4k penstock-test "$0" && '
                       'head -c 4096 /dev/zero >"$0/fill" 2>/dev/null; exec "$@"', full,
                       program("penstock-reader"), *words, "--", program("penstock-trainer")], cwd=self.folder)
        if "unshare failed" in outcome.output or "mount:" in outcome.output:
            self.skipTest(outcome.output)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, "warning: errors.report: .*No space left")
        self.assertRegex(outcome.output, "were masked; not all of them are listed in .*/full/bad.jsonl")
        self.assertNotIn("see /", outcome.output)

    def test_every_trainer_gets_the_error(self):
        path = self.copy(self.plain("plain-100", 100))
        os.truncate(self.chunks(path)[7], 3)
        outcome = self.reader(3, {**self.settings(path), "delivery.trainers": 4,
                                  "order.epochs": 9}, [])
        self.assertIn(outcome.code, FAILED, outcome.output)
        told = [line for line in outcome.output.splitlines() if line.startswith("penstock-trainer")]
        self.assertEqual(len(told), 4, outcome.output)
        for line in told:
            self.assertRegex(line, r"reader [0-2] on \S+: array 'data' chunk 7.0: ")


@unittest.skipUnless(HAS_FAULTS, "built without the fault-injecting store")
class Faults(Storage):
    def faulty(self, **faults):
        return environment(PENSTOCK_FAULTS=",".join(f"{key}={value}"
                                                    for key, value in faults.items()))

    def run_faulty(self, readers, trainers, settings, faults, options=()):
        before = os.environ.get("PENSTOCK_FAULTS")
        os.environ["PENSTOCK_FAULTS"] = ",".join(f"{key}={value}" for key, value in faults.items())
        try:
            return self.digests(readers, trainers, settings, options=options)
        finally:
            os.environ.pop("PENSTOCK_FAULTS")
            if before:
                os.environ["PENSTOCK_FAULTS"] = before

    def test_passing_faults_change_nothing(self):
        for shape in (100, 20000):
            uri = self.plain(f"plain-{shape}", shape)
            good = self.undisturbed(uri)
            for readers, seed in ((1, 1), (3, 2), (3, 3)):
                with self.subTest(shape=shape, readers=readers, seed=seed):
                    faults = {"seed": seed, "error": 0.03, "short": 0.03, "delay": 0.2,
                              "delay_ms": 20}
                    lines = self.run_faulty(readers, 2, self.settings(uri, store__retries=6,
                                                                      readers__cache="off"), faults)
                    self.assertEqual(lines, good)

    def test_corrupt_chunks(self):
        uri = self.plain("plain-100", 100)
        good = self.undisturbed(uri)
        faults = {"seed": 4, "corrupt": 0.1, "broken": 0.05, "delay": 0.1, "delay_ms": 5}
        outcome = self.reader(3, self.settings(uri), [], env=self.faulty(**faults))
        self.assertIn(outcome.code, FAILED, outcome.output)
        self.assertRegex(outcome.output, r"reader [0-2] on \S+: array 'data' chunk [0-9]+.0: ")
        listed = None
        for readers in (1, 3):
            settings = self.settings(uri, errors__bad_sample="mask", store__retries=1)
            valid = self.run_faulty(readers, 2, settings, faults)
            _, bad = self.listed()
            self.assertTrue(0 < len(bad) < self.SAMPLES / 2)
            self.assertEqual(valid, self.known(line for line in good if int(line[3]) not in bad))
            self.assertEqual(bad, listed or bad)
            listed = bad

    def test_chunks_that_cannot_be_read_for_a_while(self):
        """What the store did not give is masked, and asked for again in the next epoch, however rows are kept."""
        uri = self.plain("plain-100", 100)
        good = self.undisturbed(uri)
        faults = {"seed": 4, "broken": 0.15, "broken_reads": 2}
        for readers, cache in ((1, "decoded"), (3, "decoded"), (2, "stored"), (2, "off")):
            with self.subTest(readers=readers, cache=cache):
                settings = self.settings(uri, errors__bad_sample="mask", store__retries=1, readers__cache=cache)
                valid = self.run_faulty(readers, 2, settings, faults)
                lines, bad = self.listed()
                self.assertTrue(0 < len(bad) < self.SAMPLES / 2)
                self.assertEqual(valid, self.known(line for line in good if line[0] == "1" or int(line[3]) not in bad))
                os.remove(self.report())

    def test_damage_is_not_read_again(self):
        uri = self.plain("plain-100", 100)
        report = os.path.join(self.folder, "report.json")
        for readers, cache in ((1, "decoded"), (3, "stored")):
            with self.subTest(readers=readers, cache=cache):
                settings = self.settings(uri, errors__bad_sample="mask", store__retries=0, readers__cache=cache)
                self.run_faulty(readers, 2, settings, {"seed": 4, "corrupt": 0.15}, ["--report", report])
                with open(report, encoding="ascii") as file:
                    told = json.load(file)
                self.assertEqual(sum(epoch["stored_bytes"] for epoch in told["epochs"]), chunk_bytes(uri))
                self.assertEqual(told["masked_samples"], len(self.listed()[1]))
                self.assertGreater(told["masked_samples"], 0)

    def test_a_read_that_never_returns(self):
        uri = self.plain("plain-100", 100)
        for readers in (ALONE, 3):
            with self.subTest(readers=readers):
                before = leftovers()
                outcome = self.reader(readers, {**self.settings(uri), "store.timeout": 2,
                                                "delivery.trainers": 2, "readers.threads": 3}, [],
                                      env=self.faulty(hang="data/5.0"))
                self.assertIn(outcome.code, FAILED, outcome.output)
                where = r"reader [0-2] on \S+: reading '\S+/data/5.0' has not come back for "
                self.assertRegex(outcome.output, "warning: " + where + r"\d")
                self.assertRegex(outcome.output, "error: " + where + r"\d")
                told = [line for line in outcome.output.splitlines()
                        if line.startswith("penstock-trainer") and "data/5.0" in line]
                self.assertEqual(len(told), 2, outcome.output)
                self.assert_nothing_left(before, outcome)

    def test_copies_do_not_wait_for_a_read(self):
        """The only worker of a reader is in a read that never returns: all steps that need nothing of it are delivered."""
        uri, hangs = self.plain("plain-100", 100), 9
        for readers in (ALONE, 2):
            with self.subTest(readers=readers):
                outcome = self.reader(readers, {**self.settings(uri), "store.timeout": 2, "delivery.trainers": 2,
                                                "readers.threads": 1, "order.shuffle": "false",
                                                "exchange.steps_per_round": 1},
                                      ["--digest", os.path.join(self.folder, "digest.{rank}")],
                                      env=self.faulty(hang=f"data/{hangs}.0"))
                self.assertIn(outcome.code, FAILED, outcome.output)
                self.assertEqual(len(self.digest_lines()), hangs * self.CHUNK, outcome.output)

    def test_metadata_that_never_comes(self):
        """The main thread of reader 0 hangs, before there are trainers."""
        uri = self.plain("plain-100", 100)
        name = ".zmetadata" if os.path.exists(os.path.join(uri, ".zmetadata")) else ".zgroup"
        before = leftovers()
        outcome = self.reader(2, {**self.settings(uri), "store.timeout": 2}, [],
                              env=self.faulty(hang=name))
        self.assertNotEqual(outcome.code, 0)
        self.assertRegex(outcome.output, rf"error: reader 0 on \S+: reading '\S+/{name}' has not")
        self.assert_nothing_left(before, outcome)

    def test_others_go_on_meanwhile(self):
        """One worker waits a second now and then, and the others do the work."""
        uri = self.plain("plain-100", 100)
        settings = {**self.settings(uri), "readers.threads": 8, "readers.cache": "off",
                    "order.window_rows": 24, "delivery.slots": 8}
        start = time.monotonic()
        self.run_faulty(1, 1, settings, {"seed": 1, "delay": 1, "delay_ms": 1000})
        # 48 reads one after another would take 48 s; eight at a time take 6.
        self.assertLess(time.monotonic() - start, 45)


class PastThePageCache(Storage):
    def test_store_direct_changes_nothing(self):
        """Chunks of 1.2 MiB: raw ones that are read to where they belong or copied, and compressed ones."""
        for codec in ("none", "zstd"):
            uri = self.synth(f"large-{codec}", 23, layout="plain", chunk=4, shape="1024,150",
                             dtype="int16", codec=codec)
            settings = self.settings(uri, order__epochs=1, readers__cache="off")
            with self.subTest(codec=codec):
                self.assertEqual(self.digests(2, 2, {**settings, "store.direct": "true"}),
                                 self.digests(1, 1, settings))


@unittest.skipUnless(os.getuid() == 0 and os.path.exists("/dev/fuse") and not SANITIZED,
                     "needs root and /dev/fuse")
class HangingMount(Storage):
    """A real file system that stops answering: the kernel holds the worker until it is killed."""

    def setUp(self):
        super().setUp()
        self.mount = os.path.join(self.folder, "mount")
        os.mkdir(self.mount)
        self.server = None

    def tearDown(self):
        if self.server:
            self.server.terminate()
            self.server.communicate(timeout=20)
        super().tearDown()

    def serve(self, uri, target):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hangfs.py")
        self.server = subprocess.Popen([sys.executable, script, uri, self.mount, target],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if self.server.stdout.readline() != "ready\n":
            self.skipTest(f"cannot mount: {self.server.communicate()[0]}")

    def check(self, target, readers, who, path=None):
        self.serve(self.plain("plain-100", 100), target)
        before = leftovers()
        # A mount that hangs holds every read of it: with one worker a reader there is one that can be named.
        settings = {**self.settings(self.mount), "store.timeout": 3, "delivery.trainers": 2,
                    "readers.threads": 1}
        outcome = self.reader(readers, settings, [])
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output,
                         rf"error: reader {who} on \S+: reading '\S+/{path or target}' has not ")
        self.assert_nothing_left(before, outcome)

    def test_chunk(self):
        self.check("data/5.0", 1, "0")

    def test_chunk_of_one_reader(self):
        self.check("data/11.0", 3, "[0-2]", "data/[0-9]+.0")

    def test_metadata(self):
        self.check(".zmetadata", 2, "0")


if __name__ == "__main__":
    unittest.main()
