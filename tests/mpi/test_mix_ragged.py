"""Mixes of sources with ragged fields: random worlds as in test_mix_model.py, with the ragged fields of test_ragged.py, against
the same brute-force models; and readers and trainers that die.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_mix_ragged.py --long 40 --seed 7
"""

import copy
import json
import os
import re
import subprocess
import unittest

from job import launcher_is_open_mpi, program, random_options
from recovery import SLOTS

import test_mix_model
import test_ragged  # skips where it cannot run

import numpy as np

if "PENSTOCK_TEST_RUNS" not in os.environ:
    test_mix_model.RUNS = 3  # short: all sources are written with zarr


class Part(test_mix_model.Part, test_ragged.World):
    """A source with ragged fields. Those of a later source have other lengths, chunks, offsets and steps."""

    def make_store(self, count):
        if self.first_part and not hasattr(self, "ragged"):
            self.adopt(self.first_part)
        arrays = super().make_store(count)
        for types, *_ in self.kinds.values():
            for path in types:  # a file for each item takes long to write
                self.chunks[path] = (max(self.chunks[path][0], 5), *self.chunks[path][1:])
                if path in self.shards:
                    self.shards[path] = (3 * self.chunks[path][0], *self.chunks[path][1:])
        return arrays

    def adopt(self, first):
        rng = self.rng
        self.ragged, self.kinds, self.first_frame = copy.deepcopy(first.ragged), {}, 1
        for name, (types, _, mean, _) in first.kinds.items():
            self.kinds[name] = (types, rng.choice(("i8", "i4")), rng.choice((0, 1, 4, 20, mean)), rng.random() < 0.3)
            self.chunks[f"{name}/starts"] = (rng.choice((3, 50)),)
            for path, (_, shape) in types.items():
                self.chunks[path] = (rng.choice((7, 40, 300)), *shape)

    def make_fields(self):
        super().make_fields()
        for name, field in self.ragged.items():
            if "steps" in self.fields[name]:
                field["steps"] = self.fields[name]["steps"]

    def row_length(self):
        """As `penstock plan` says: how long rows are is not what is tested here."""
        path = os.path.join(os.path.dirname(self.folder), self.write_part())
        said = subprocess.run([program("penstock"), "plan", "-c", path, "-s", "batch.global_size=1"],
                              capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        return int(re.search(r"^chunk rows .* of (\d+) ", said.stdout, re.MULTILINE)[1])


class World(test_mix_model.MixedWorld):
    kind = Part

    def sample(self, d, anchor, key):
        fields = self.parts[d].sample(anchor, key) | {"source": np.array(d, "i4")}
        return {name: fields[name] for name in sorted(fields)}

    def delivered(self, d, anchor, key):
        """A sample that is masked is zero, but has its lengths."""
        values = self.sample(d, anchor, key)
        lengths = {f"{name}.{which}" for name in self.parts[d].ragged for which in ("offsets", "length")}
        if (d, anchor) in self.bad:
            values = {name: value if name in lengths else np.zeros_like(value) for name, value in values.items()}
        return values

    def __str__(self):
        return super().__str__() + json.dumps([part.ragged for part in self.parts])


class Model(test_mix_model.Model):
    """penstock-trainer's digests against the model."""

    def make_world(self, rng):
        return World(rng, self.folder)


class Jobs(test_ragged.Jobs):
    """Readers and trainers die, in both placements; what the sources must have."""

    test_messages_are_as_large_as_the_items = test_a_store_behind_http = None

    def source(self, name, **field):
        """A source's file."""
        events = {"ragged": {"offsets": "events/offsets", "index": [f"events/{axis}" for axis in ("bin", "y", "x")],
                             "values": "events/count"}, "steps": "0:2", **field}
        path = os.path.join(self.folder, f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"dataset": {"uri": os.path.join(self.datasets, name), "fields": {"events": events}},
                       "samples": {"pad": {"after": 1}}}, file)
        return path

    def settings(self, **more):
        deliver = more.pop("deliver", "csr")
        fields = {"deliver": {"dense": [4, 9, 16]}, "cast": "uint8"} if deliver == "dense" else {"deliver": deliver}
        sources = f"{self.source('events', **fields)}:2,{self.source('even', **fields)}:1"
        return {"mix.sources": sources, "mix.samples": 300, "batch.global_size": 8, "batch.last": "partial",
                "order.epochs": 6, "order.seed": 5, "readers.threads": 1, "delivery.trainers": self.trainers,
                "delivery.slots": SLOTS, "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100, **more}

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_a_reader_is_killed(self):
        self.kill_and_go_on({"reader": 1}, deliver="dense")

    def test_what_does_not_fit(self):
        self.trainers = 1
        for first, second, said in (
                ({}, {"deliver": {"pad": 1000}}, "field 'events' is ragged, delivered as csr, with 2 steps in source"),
                ({"deliver": {"pad": 1000}}, {"deliver": {"pad": 999}}, "and ragged, padded to 999, with 2 steps in"),
                ({"steps": "0:2"}, {"steps": "0:3"}, "and ragged, delivered as csr, with 3 steps in"),
                ({"deliver": {"dense": [4, 9, 16]}}, {"deliver": {"dense": [4, 9, 16], "combine": "max"}}, "combine max"),
                ({"deliver": {"dense": [4, 9, 16]}}, {"deliver": {"dense": [4, 9, 17]}}, "(2, 4, 9, 16) in source"),
                ({}, {"cast": "float32"}, "field 'events' is uint8 () in source")):
            sources = f"{self.source('events', **first)}:2,{self.source('even', **second)}:1"
            outcome = self.reader(1, {"mix.sources": sources, "delivery.trainers": 1}, [])
            self.assertNotEqual(outcome.code, 0, outcome.output)
            self.assertIn(said, outcome.output)
            self.assertEqual(outcome.output.count("the sources of a mix have the same"), 1, outcome.output)


if __name__ == "__main__":
    test_mix_model.RUNS, test_mix_model.SEED = random_options(test_mix_model.RUNS, test_mix_model.SEED)
    unittest.main()
