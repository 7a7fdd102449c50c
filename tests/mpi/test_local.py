"""order.placement local: each step has the same set of samples on any shape, once each."""

import json
import math
import os
import unittest

from job import SANITIZED, JobTest, program, run


class Sets(JobTest):
    SAMPLES = 203

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "partial", "order.epochs": 2,
                "order.seed": 5, "order.window_rows": 9, "readers.threads": 1, **more}

    def check(self, shapes, chunk=8, **more):
        """What one reader delivers."""
        uri = more.pop("uri", None) or self.synth(f"chunk{chunk}", self.SAMPLES, chunk=chunk, videos=7)
        settings = self.settings(uri, **more)
        order = {key: value for key, value in settings.items() if key.startswith(("dataset", "samples", "order", "batch"))}
        expected = self.single(order)
        for readers, trainers in shapes[:1] if SANITIZED else shapes:
            with self.subTest(readers=readers, trainers=trainers):
                self.assertEqual(self.digests(readers, trainers, settings), expected)


class Local(Sets):
    def test_rows_of_one(self):
        self.check(((1, 2), (2, 4), (3, 2)), chunk=1)

    def test_rows_of_eight(self):
        self.check(((2, 2), (3, 4), (5, 2)))

    def test_more_trainers_than_a_batch_has_samples_for_each(self):
        self.check(((3, 12), (2, 6)), chunk=1)

    def test_a_batch_that_trainers_do_not_divide(self):
        for last in ("partial", "pad", "drop"):
            self.check(((3, 5), (2, 3), (1, 7)), chunk=4, **{"batch.global_size": 8, "batch.last": last})

    def test_padding(self):
        self.check(((3, 4), (2, 2)), **{"batch.last": "pad"})

    def test_dropped(self):
        self.check(((3, 4),), **{"batch.last": "drop"})

    def check_stripes(self, **more):
        """Records of 256 bytes, which are packed: larger ones need no buffers, and no stripes."""
        uri = self.synth("packed", self.SAMPLES, layout="plain", shape=64, chunk=8)
        self.check(((2, 4), (3, 2)), uri=uri, **{"exchange.buffer_limit": "4KiB", **more})

    def test_stripes(self):
        for size, last in ((24, "partial"), (24, "pad"), (27, "pad")):
            self.check_stripes(**{"batch.global_size": size, "batch.last": last})

    def test_stripes_without_samples(self):
        """The last step has fewer samples than trainers: two of its three stripes have none."""
        self.check_stripes(**{"batch.global_size": 40})

    def test_several_steps_a_round(self):
        self.check(((3, 4),), **{"exchange.steps_per_round": 2, "delivery.slots": 4})

    def test_several_workers_look_up(self):
        """A round of more positions than one worker takes at a time."""
        uri = self.synth("small", 14000, layout="plain", shape=2, chunk=100)
        self.check(((2, 4), (1, 3)), uri=uri, **{"batch.global_size": 10008, "readers.threads": 3,
                                                 "order.window_rows": 60})

    def test_nothing_kept(self):
        self.check(((3, 4),), **{"readers.cache": "off"})

    def test_not_shuffled(self):
        self.check(((3, 4),), chunk=1, **{"order.shuffle": "false"})

    def test_a_window_smaller_than_a_step(self):
        self.check(((3, 4), (2, 2)), **{"order.window_rows": 1, "batch.global_size": 24})

    def test_bad_samples_are_masked(self):
        uri = self.synth("bad", self.SAMPLES, layout="plain", chunk=4, shape=100)
        for chunk in (3, 17, 40):
            with open(os.path.join(uri, "data", f"{chunk}.0"), "r+b") as file:
                file.truncate(10)
        settings = self.settings(uri, **{"errors.bad_sample": "mask"})
        padding = ["--digest-padding"]
        expected = self.digests(1, 1, settings, padding)
        self.assertEqual(self.digests(3, 4, settings, padding), expected)
        valid = self.digests(3, 4, settings)
        every = {line[3] for line in expected}
        self.assertEqual(every - {line[3] for line in valid},
                         every & {str(4 * chunk + i) for chunk in (3, 17, 40) for i in range(4)})


class Fixed(Local):
    """With order.placement fixed also the positions are the same on any shape."""

    POSITIONS = True

    def settings(self, uri, **more):
        return super().settings(uri, **{"order.placement": "fixed", **more})


class Page(JobTest):
    """Who gets what is as docs/inside/order.md says: computed here from the page, and from the order of `fixed`."""

    POSITIONS = True
    TRAINERS, BATCH, SAMPLES, CHUNK, SEED = 5, 60, 203, 4, 2**63 + 5

    def settings(self, shape=64, **more):
        uri = self.synth(f"page{shape}", self.SAMPLES, layout="plain", shape=shape, chunk=self.CHUNK)
        return {"dataset.uri": uri, "batch.global_size": self.BATCH, "batch.last": "partial", "order.epochs": 2,
                "order.seed": self.SEED, "readers.threads": 1, **more}

    @staticmethod
    def random_u64(key, high, low):
        """Philox 4x32-10."""
        word = 2**32 - 1
        x, k = [low & word, low >> 32, high & word, high >> 32], [key & word, key >> 32]
        for _ in range(10):
            one, two = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
            x = [two >> 32 ^ x[1] ^ k[0], two & word, one >> 32 ^ x[3] ^ k[1], one & word]
            k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
        return x[1] << 32 | x[0]

    def near(self, row):
        """The trainer that a row is near."""
        return row % self.TRAINERS

    def destinations(self, epoch, step, samples, readers):
        """By position of a step on one node. `samples`: the indices at the positions."""
        size, trainers = len(samples), self.TRAINERS
        group_of = [t * readers // trainers for t in range(trainers)]
        gets = [[d for t in range(trainers) if group_of[t] == group
                 for d in range(t * size // trainers, (t + 1) * size // trainers)] for group in range(readers)]
        near = [group_of[self.near(index // self.CHUNK)] for index in samples]
        key = self.random_u64(self.random_u64(self.SEED, 4, epoch), 0, step)
        left, groups = [len(part) for part in gets], {}
        for rest in (False, True):
            for p in ((key % size + i) % size for i in range(size)):
                wanted = [((key >> 32) + k) % readers for k in range(readers)] if rest else [near[p]]
                group = next((g for g in wanted if left[g]), None)
                if p not in groups and group is not None:
                    groups[p] = group
                    left[group] -= 1
        return [gets[groups[p]].pop(0) for p in range(size)]

    def check(self, readers, groups=None, **more):
        """`groups`: of trainers whose rings are on one NUMA node of one reader, if they are more than readers."""
        fixed = self.digests(1, 1, self.settings(more.get("shape", 64)))
        steps = {}
        for line in fixed:
            steps.setdefault((int(line[0]), int(line[1])), []).append(int(line[3]))
        expected = sorted([epoch, step, destination, index] for (epoch, step), samples in steps.items()
                          for destination, index in zip(self.destinations(epoch, step, samples, groups or readers), samples))
        lines = self.digests(readers, self.TRAINERS, self.settings(**more))
        self.assertEqual([[int(word) for word in line[:4]] for line in lines], expected)

    def test_steps(self):
        self.check(3)

    def test_numa_nodes(self):
        """Two cpus pass for NUMA nodes (hwloc is told so), and have three and two of the five trainers. Samples of
        128 KiB count, smaller ones do not."""
        if not os.sched_getaffinity(0) >= {0, 1}:
            self.skipTest("cpus 0 and 1 are needed")
        pretended = {"HWLOC_SYNTHETIC": "numa:2 core:1 pu:1", "HWLOC_THISSYSTEM": "1"}
        os.environ.update(pretended)
        self.addCleanup(lambda: [os.environ.pop(name) for name in pretended])
        for shape, groups in (32768, 2), (16384, 1):
            self.check(1, groups, shape=shape, **{"readers.threads": 2})

    def test_stripes(self):
        """They change nothing. Three records of 256 bytes for each of five trainers fit 4 KiB, of twelve."""
        self.check(2, **{"exchange.buffer_limit": "4KiB"})


class UnevenPage(Page):
    """Shares that differ by one."""

    BATCH = 58


class Resume(JobTest):
    """A state has what it has with `fixed`, and the locality; other readers and trainers go on."""

    def settings(self, **more):
        return {"dataset.uri": self.synth("resume", 97, chunk=4, videos=5), "batch.global_size": 8,
                "batch.last": "partial", "order.epochs": 3, "readers.threads": 1, **more}

    def state_after(self, steps, settings):
        """Of three readers and four trainers: the state, and the digests."""
        path = os.path.join(self.folder, "state")
        lines = self.digests(3, 4, settings, ["--steps", str(steps), "--state", path + ".{rank}"], expect=3)
        return path + ".0", lines

    def test_other_shapes_go_on(self):
        whole = self.digests(1, 1, self.settings())
        path, head = self.state_after(7, self.settings())
        for shape in ((3, 4), (1, 1), (2, 8), (2, 3)):
            with self.subTest(shape=shape):
                tail = self.digests(*shape, self.settings(), options=["--resume", path])
                self.assertEqual(head + tail, whole)

    def test_the_other_placement_is_refused(self):
        for placement, other in (("local", "fixed"), ("fixed", "local")):
            path, _ = self.state_after(7, self.settings(**{"order.placement": placement}))
            with open(path, encoding="ascii") as file:
                self.assertEqual("placement" in json.load(file), placement == "local")
            outcome = self.reader(1, {**self.settings(**{"order.placement": other}), "delivery.trainers": 1}, [],
                                  ["--resume", path])
            self.assertEqual(outcome.code, 4, outcome.output)
            self.assertIn(f"order.placement was {placement}, this run has {other}", outcome.output)
            self.assertIn(f"--set order.placement={placement}\n", outcome.output)


class Traffic(JobTest):
    """What travels is the imbalance, and what `penstock plan` says."""

    SAMPLES, BATCH, READERS = 8192, 256, 4

    def settings(self, chunk):
        return {"dataset.uri": self.synth(f"plain{chunk}", self.SAMPLES, layout="plain", shape=64, codec="none",
                                          chunk=chunk),
                "batch.global_size": self.BATCH, "order.epochs": 2, "readers.threads": 1,
                "delivery.trainers": self.READERS}

    def forecast(self, settings):
        command = [program("penstock"), "plan", "--json", "--readers", str(self.READERS)]
        made = run([*command, *(word for pair in settings.items() for word in ("--set", "=".join(map(str, pair))))])
        self.assertEqual(made.code, 0, made.output)
        return json.loads(made.output)

    def check(self, chunk, **more):
        """The shares of samples that moved, by epoch."""
        settings = {**self.settings(chunk), **more}
        plan = self.forecast(settings)
        path = os.path.join(self.folder, "report.json")
        outcome = self.reader(self.READERS, settings, [], ["--report", path, "--quiet"])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(path, encoding="ascii") as file:
            epochs = json.load(file)["epochs"]
        for planned, epoch in zip(plan["epochs"], epochs):
            self.assertAlmostEqual(epoch["sent_bytes"], planned["exchanged_bytes"],
                                   delta=0.05 * planned["exchanged_bytes"])
            self.assertEqual(epoch["local_samples"] + epoch["moved_samples"], self.SAMPLES)
            self.assertEqual(epoch["moved_samples"] * 256, epoch["sent_bytes"])
        self.assertGreater(plan["fixed"]["epochs"][1]["exchanged_bytes"], 10 * plan["epochs"][1]["exchanged_bytes"])
        return [epoch["moved_samples"] / self.SAMPLES for epoch in epochs]

    def test_rows_of_one(self, **more):
        """sqrt((1 - 1/R) / (2 pi b)), of b samples of a step a reader; the first epoch is no worse than later ones."""
        imbalance = math.sqrt((1 - 1 / self.READERS) / (2 * math.pi * self.BATCH / self.READERS))
        for share in self.check(1, **more):
            self.assertLess(share, 1.15 * imbalance)
            self.assertGreater(share, imbalance / 2)

    def test_rows_of_eight(self):
        self.check(8)

    def test_stripes(self):
        """A step is shared out as a whole, in however many rounds it travels."""
        self.test_rows_of_one(**{"exchange.buffer_limit": "5KiB"})


if __name__ == "__main__":
    unittest.main()
