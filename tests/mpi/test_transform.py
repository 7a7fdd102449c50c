"""delivery.transform: what trainers get is what the function makes of each sample by itself, on any shape, through kills of its
processes; and each thing that goes wrong is one message."""

import glob
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from job import ALONE, BIN, MARK, SANITIZED, JobTest, environment, leftovers, python_words

for module in ("numpy", "zarr"):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: {sys.executable} has no {module}")
        sys.exit(77)

import numpy as np
import zarr

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transform_program.py")
sys.path.insert(0, os.path.join(ROOT, "python"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "2" if SANITIZED else "4"))
HAS_GIL = True
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "43"))


PYTHON = python_words()  # of the transform


def command(mode="new", threads=1):
    return " ".join([f"MODE={mode}", f"THREADS={threads}", *PYTHON, PROGRAM])


class Transforms(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = np.random.default_rng(SEED)
        cls.images = rng.integers(0, 70, (90, 4, 3), np.uint8)
        cls.lengths = rng.integers(0, 15, 90)
        cls.offsets = np.concatenate([[0], np.cumsum(cls.lengths)])
        cls.text = rng.integers(0, 1000, cls.offsets[-1], np.int64).astype(np.uint16)
        cls.uri = os.path.join(cls.datasets, "data.zarr")
        group = zarr.open_group(cls.uri, mode="w")
        for name, array, chunk in (("image", cls.images, 7), ("offsets", cls.offsets, 91), ("values", cls.text, 50), ("id", np.arange(90), 90)):
            made = group.create_array(name, shape=array.shape, chunks=(chunk, *array.shape[1:]), dtype=array.dtype)
            made[...] = array

    def settings(self, mode="new", **more):
        return {"dataset.uri": self.uri, "batch.global_size": 12, "order.epochs": 2, "order.seed": 5, "delivery.transform_run": command(mode),
                "delivery.transform_processes": 2, **more}

    def run_yaml(self, mode, deliver="csr"):
        text = "dataset:\n  fields:\n    image: image\n    id: id\n"
        if mode in ("rows", "all"):
            text += f"    text: {{ragged: {{offsets: offsets, values: values}}, deliver: {deliver}}}\n"
        path = os.path.join(self.folder, "run.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def start(self, readers, settings, mode, options=()):
        return self.reader(readers, {**settings, "delivery.transform_fields": "image,text" if mode == "rows" else "image"},
                           (*python_words(), PROGRAM, os.path.join(self.folder, "got")), ["--quiet", "-c", self.run_yaml(mode), *options],
                           env=environment(PYTHONPATH=os.path.join(ROOT, "python")))

    def got(self):
        samples = []
        for path in glob.glob(os.path.join(self.folder, "got.*")):
            samples += list(np.load(path, allow_pickle=True))
            os.remove(path)
        return samples

    def check(self, samples, mode, epochs, count):
        from penstock import Rng
        from transform_program import sample

        self.assertEqual(len(samples), count)
        valid = sorted((epoch, index) for epoch, _, index, _, is_valid, _ in samples if is_valid)
        self.assertEqual(valid, sorted(set(valid)))
        for _, _, index, key, _, fields in samples:
            row = self.text[self.offsets[index] : self.offsets[index + 1]]
            right = sample(mode, self.images[index], row, Rng([key]))
            self.assertEqual(set(fields), set(right) | {"id"})
            self.assertEqual(fields["id"], index)
            for name, value in right.items():
                self.assertEqual(fields[name].dtype, value.dtype, name)
                np.testing.assert_array_equal(fields[name], value, name)

    def test_any_shape(self):
        draw = random.Random(SEED)
        for number in range(RUNS):
            mode, readers, groups, members = draw.choice(("new", "rows")), draw.randint(1, 3), draw.choice((1, 2, 3, 4)), draw.choice((1, 1, 2))
            settings = self.settings(mode, **{
                "delivery.trainers": groups * members, "delivery.transform_processes": draw.randint(1, 3),
                "order.placement": draw.choice(("local", "fixed")), "batch.last": draw.choice(("drop", "partial", "pad")),
                "exchange.steps_per_round": draw.choice(("auto", 1, 2)), "readers.cache": draw.choice(("auto", "off"))})
            if members > 1:
                settings.update({"delivery.mesh": f"dp:{groups},tp:{members}", "delivery.data": "dp"})
            with self.subTest(number=number, seed=SEED, mode=mode, readers=readers, settings=settings):
                outcome = self.start(readers, settings, mode)
                self.assertEqual(outcome.code, 0, outcome.output)
                epoch = {"drop": 84, "partial": 90, "pad": 96}[settings["batch.last"]]
                samples = self.got()
                if members > 1:
                    samples = sorted(samples, key=lambda one: tuple(one[:5]))[::members]
                self.check(samples, mode, 2, 2 * epoch)

    def test_threads(self):
        """Several threads of one process, each with a part of the batch."""
        met = os.path.join(self.folder, "met")
        for mode in ("new", "rows"):
            settings = self.settings(mode, **{"delivery.transform_run": command(mode, 2), "delivery.transform_processes": 1})
            outcome = self.start(1, settings, mode)
            self.assertEqual(outcome.code, 0, outcome.output)
            self.check(self.got(), mode, 2, 2 * 84)
            with open(met, encoding="ascii") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(lines), 2 * 2 * 7, lines)
            self.assertEqual({words.split()[1] for words in lines}, {str(HAS_GIL)})
            os.remove(met)

    def test_all_is_handed_on(self):
        """Held and ragged fields of any form that a function returns as it got them: as without a transform."""
        forms = ("csr", {}), ("{pad: 16}", {}), ("{pad: bound}", {"batch.budget_items": 90, "batch.budget_field": "text"})
        for deliver, more in forms if RUNS > 6 else forms[:1]:
            settings, samples = self.settings("all", **{"delivery.trainers": 2, "batch.last": "partial"}, **more), []
            if more:
                del settings["batch.global_size"]
            for run in (settings["delivery.transform_run"], ""):
                options = {**settings, "delivery.transform_run": run, "delivery.transform_processes": 3 if run else "auto"}
                outcome = self.reader(2, options, (*python_words(), PROGRAM, os.path.join(self.folder, "got")),
                                      ["--quiet", "-c", self.run_yaml("all", deliver)], env=environment(PYTHONPATH=os.path.join(ROOT, "python")))
                self.assertEqual(outcome.code, 0, outcome.output)
                samples.append(sorted(map(tuple, self.got()), key=lambda one: one[:3]))
            self.assertEqual(len(samples[0]), 180)
            for one, other in zip(*samples):
                self.assertEqual(one[:5], other[:5])
                self.assertEqual(set(one[5]), {"image", "id", "text"} | {name for name in one[5] if name.startswith("text")})
                self.assertEqual(one[5].keys(), other[5].keys())
                for name, value in one[5].items():
                    np.testing.assert_array_equal(value, other[5][name], name)

    def test_runs_beside_another(self):
        """--also: each run has its own transform."""
        words = " ".join([*python_words(), PROGRAM, os.path.join(self.folder, "got")])
        for name, mode in (("train", "new"), ("val", "rows")):
            with open(os.path.join(self.folder, f"{name}.yaml"), "w", encoding="ascii") as file:
                json.dump({
                    "dataset": {"uri": self.uri, "fields": {"image": "image", "id": "id", "text": {"ragged": {"offsets": "offsets", "values": "values"}}}},
                    "batch": {"global_size": 12, "last": "partial"}, "order": {"seed": 5, **({"epochs": 2} if name == "train" else {})},
                    "delivery": {"transform": {"run": command(mode), "processes": 2, "fields": ["image", "text"]}}}, file)
        outcome = self.reader(2, {}, ("sh", "-c", f"{words} val 1 && mv got.0.npy val.npy && {words}"), [
            "--quiet", "-c", os.path.join(self.folder, "train.yaml"), "--also", "val=" + os.path.join(self.folder, "val.yaml")],
            env=environment(PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.check(self.got(), "new", 2, 2 * 90)
        self.check(list(np.load(os.path.join(self.folder, "val.npy"), allow_pickle=True)), "rows", 1, 90)

    def test_a_state_resumes(self):
        """A second run from a step on makes the same of the rest."""
        outcome = self.start(1, self.settings(), "new")
        self.assertEqual(outcome.code, 0, outcome.output)
        whole = {s[:3]: s for s in map(tuple, self.got())}
        state = os.path.join(self.folder, "state")
        outcome = self.start(2, self.settings(**{"delivery.trainers": 2}), "new", ["--resume", state])
        self.assertEqual(outcome.code, 0, outcome.output)
        rest = self.got()
        self.assertEqual(len(rest), 12 * 4)
        for found in map(tuple, rest):
            for name, value in whole[found[:3]][5].items():
                np.testing.assert_array_equal(found[5][name], value, name)

    def ours(self):
        """The processes of the transform."""
        pids = []
        for pid in subprocess.run(["pgrep", "-f", f"python[^ ]* {PROGRAM}$"], capture_output=True, text=True).stdout.split():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"PENSTOCK_TEST_MARK={MARK}".encode() in file.read():
                        pids.append(int(pid))
            except OSError:
                pass
        return pids

    def kill_some(self, stop, killed, count):
        """Kills processes of the transform, one after another, once all are there: the trial has one."""
        draw = random.Random(SEED)
        while not stop.wait(draw.uniform(0.05, 0.2)) and len(killed) < 4:
            pids = self.ours()
            if len(pids) >= count or killed and pids:
                killed.append(draw.choice(pids))
                os.kill(killed[-1], signal.SIGKILL)

    def test_kills(self):
        stop, killed = threading.Event(), []
        killer = threading.Thread(target=self.kill_some, args=(stop, killed, 4))
        killer.start()
        outcome = self.start(2, self.settings("slow", **{"order.epochs": 10, "delivery.trainers": 2, "batch.last": "partial"}), "new")
        stop.set()
        killer.join()
        self.assertEqual(outcome.code, 0, outcome.output)
        self.check(self.got(), "new", 10, 10 * 90)
        self.assertGreater(outcome.output.count("started again"), 0, f"killed {killed}")

    def test_bad_samples_are_masked(self):
        """errors.bad_sample: mask: a sample at which the function fails is zeros with valid 0, is listed once, and counts."""
        array, odd, report = zarr.open_group(self.uri)["image"], [8, 41, 88], os.path.join(self.folder, "bad.jsonl")
        more = {"errors.bad_sample": "mask", "errors.report": report}
        array.set_orthogonal_selection(odd, np.full((3, 4, 3), 77, np.uint8))
        try:
            outcome = self.start(2, self.settings("odd", **more, **{"batch.last": "partial", "delivery.trainers": 2}), "new")
            self.assertEqual(outcome.code, 0, outcome.output)
            samples = self.got()
            bad = [one for one in samples if not one[4]]
            self.assertEqual(sorted((epoch, index) for epoch, _, index, *_ in bad), [(e, i) for e in (0, 1) for i in odd])
            for one in bad:
                for name, value in one[5].items():
                    self.assertFalse(np.any(value) and name != "id", f"{name} of {one}")
            self.check([one for one in samples if one[4]], "new", 2, 2 * 87)
            with open(report, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            self.assertEqual(sorted(line["samples"] for line in lines), [[i, i + 1] for i in odd])
            self.assertEqual({line["array"] for line in lines}, {"delivery.transform"})
            for line in lines:
                self.assertRegex(line["error"], r"delivery.transform failed at the sample with index \d+ \(epoch \d step \d+\): ValueError: "
                                                r"this one is odd; at .*transform_program.py:\d+ \(change\)")
            outcome = self.start(1, self.settings("odd", **more, **{"errors.max_bad": 2}), "new")
            self.assertNotEqual(outcome.code, 0)
            self.assertRegex(outcome.output, r"more than errors.max_bad 2 bad samples; the last, of reader 0 on .*: delivery.transform failed at")
        finally:
            array[...] = self.images

    def test_what_fails(self):
        odd = self.images[41].copy()
        zarr.open_group(self.uri)["image"][41] = np.full_like(odd, 77)
        try:
            self.fails("odd", r"reader 0 on .*: delivery.transform failed at the sample with index 41 \(epoch \d step \d+\): ValueError: "
                              r"this one is odd; at .*transform_program.py:\d+ \(change\)", {})
        finally:
            zarr.open_group(self.uri)["image"][41] = odd
        for more in {}, {"errors.bad_sample": "mask"}:
            self.fails("other", r"delivery.transform failed.*: Invalid: output 'image' is float32 \(\d+, 1, 3\), and after its trial should be "
                                r"float32 \(\d+, 4, 3\)", more)

    def test_what_cannot_start(self):
        two = os.path.join(self.folder, "two.py")
        with open(two, "w", encoding="ascii") as file:
            file.write("import penstock\n@penstock.transform\ndef one(batch):\n    return {}\n@penstock.transform()\ndef other(batch):\n"
                       "    return {}\n")
        for run, words, more in (
                ("true", r"'true' ended with exit code 0 before it had said what it makes: has it a @penstock.transform\?", {}),
                (command("long"), r"delivery.transform failed in its trial.*: output 'rows' has 41 items; the decorator's ragged allows 40", {}),
                (" ".join([*PYTHON, two]), r"a file has one transform, and this one has 'one' and, in line 6, 'other': call one in the other",
                 {}),
                ("nothing-there", r"ended with exit code 127: the shell found no such command before it had said what it makes", {}),
                ("sleep 100", r"'sleep 100' has said nothing for 1 s \(delivery.transform.timeout\): does it call penstock.transform\?",
                 {"delivery.transform_timeout": 1}),
                (command(), r"delivery.transform.fields: there is no field 'nothing'", {"delivery.transform_fields": "nothing"}),
                (command(), r"KeyError: \"no field 'image'; there are id\"; at .*transform_program.py", {"delivery.transform_fields": "id"}),
                (command(), r"delivery.transform.fields: field 'text.offsets' is named twice: what comes beside a field is with it",
                 {"delivery.transform_fields": "text,image,text.offsets"}),
                (command("clash"), r"delivery.transform: there is a field 'rows.offsets' already \(output 'rows.offsets'\): give",
                 {"delivery.transform_fields": "image"})):
            settings, path = {**self.settings(), "delivery.transform_run": run, **more}, self.run_yaml("rows")
            if run == "true":
                outcome = self.reader(1, settings, [], ["--quiet", "-c", path])
                self.assertNotEqual(outcome.code, 0)
                self.assertRegex(outcome.output, words)
            planned = self.plan_of(path, settings)
            self.assertNotEqual(planned.returncode, 0)
            self.assertRegex(planned.stderr, words)

    def test_a_process_hangs(self):
        with open(os.path.join(self.folder, "hang"), "w", encoding="ascii"):
            pass
        outcome = self.start(1, self.settings("hang", **{"delivery.transform_timeout": 8}), "new")
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertIn("a process of delivery.transform hung; started again", outcome.output)
        self.check(self.got(), "new", 2, 2 * 84)

    def ends_alone(self, settings, when, number):
        """A reader that gets a signal leaves no process of its transform."""
        before = leftovers()
        outcome = self.reader(ALONE, settings, (*python_words(), PROGRAM, os.path.join(self.folder, "got")),
                              ["--quiet", "-c", self.run_yaml("new")], send=(when, number),
                              env=environment(PYTHONPATH=os.path.join(ROOT, "python")))
        deadline = time.monotonic() + 10
        while left := [name for name in leftovers() - before if name.startswith("/proc/")]:
            self.assertLess(time.monotonic(), deadline, f"left behind: {left}")
            time.sleep(0.05)
        return outcome

    def test_a_signal_in_the_trial(self):
        started = os.path.join(self.folder, "started")
        settings = {**self.settings(), "delivery.transform_run": "touch started; sleep 100; true"}
        outcome = self.ends_alone(settings, lambda: os.path.exists(started), signal.SIGTERM)
        self.assertEqual(outcome.code, 128 + signal.SIGTERM, outcome.output)
        self.assertLess(outcome.seconds, 20)

    def test_a_process_hangs_and_its_reader_dies(self):
        hang = os.path.join(self.folder, "hang")
        with open(hang, "w", encoding="ascii"):
            pass
        settings = {**self.settings(), "delivery.transform_run": command("hang") + "; true", "delivery.transform_fields": "image"}
        outcome = self.ends_alone(settings, lambda: not os.path.exists(hang), signal.SIGKILL)
        self.assertEqual(outcome.code, -signal.SIGKILL)
        self.assertLess(outcome.seconds, 20)

    def test_one_sample_a_chunk(self):
        """The trial's samples are of two rows: what depends on the batch is found where each row has one sample."""
        uri = os.path.join(self.folder, "single.zarr")
        made = zarr.open_group(uri, mode="w").create_array("image", shape=self.images.shape, chunks=(1, 4, 3), dtype="u1")
        made[...] = self.images
        planned = self.plan_of(None, {**self.settings("batch"), "dataset.uri": uri, "dataset.fields.image": "image"})
        self.assertRegex(planned.stderr, "output 'image' of a sample is another one when the sample comes alone")

    def fails(self, mode, words, more):
        outcome = self.start(1, self.settings(mode, **more), mode)
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, words)

    def plan_of(self, path, settings):
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return subprocess.run([os.path.join(BIN, "penstock"), "plan", *(["-c", path] if path else []), *words], capture_output=True, text=True,
                              env=environment(PYTHONPATH=os.path.join(ROOT, "python")), cwd=self.folder, check=False)

    def test_plan(self):
        planned = self.plan_of(self.run_yaml("new"), self.settings(**{"delivery.transform_fields": "image"}))
        self.assertIn("transform  gets image; makes image float32 [4, 3], coin bool, numbers int64 [3]\n", planned.stdout, planned.stderr)


if __name__ == "__main__":
    unittest.main()
