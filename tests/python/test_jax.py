"""penstock.jax against a demo server, on two devices of the CPU."""

import collections
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import numpy as np

import penstock
import penstock.jax
from demo import Demo, connect, event_lengths, pattern

jax.config.update("jax_enable_x64", True)
SAMPLES, BATCH = 41, 4
STEPS = -(-SAMPLES // BATCH)


def sharding(devices=2):
    mesh = jax.sharding.Mesh(jax.devices()[:devices], "data")
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))


def is_right(batch):
    """Whether all bytes are those of the samples that the step has: demo_server.c says which."""
    indices = [(position + 7 * batch.epoch) % SAMPLES for position in range(batch.step * BATCH, (batch.step + 1) * BATCH)]
    images, bits = np.asarray(batch["image"]), np.asarray(batch["bits"])
    return (np.asarray(batch["label"]).tolist() == indices == batch.indices.tolist()
            and all(images[i].tobytes() == pattern(index, 24) and bits[i].tobytes() == pattern(index, 8)
                    for i, index in enumerate(indices)))


class Batches(unittest.TestCase):
    def test_global_arrays_over_two_devices(self):
        with Demo(samples=SAMPLES, epochs=2, slots=4) as demo, connect(demo) as loader:
            seen = []
            for batch in penstock.jax.batches(loader, sharding()):
                self.assertEqual({shard.data.shape for shard in batch["image"].addressable_shards}, {(2, 2, 3)})
                self.assertEqual((batch.sample_keys.dtype, batch.sample_keys.shape), (np.uint32, (BATCH, 2)))
                jax.random.wrap_key_data(batch.sample_keys[0])
                self.assertTrue(is_right(batch))
                seen.append((batch.epoch, batch.step))
            self.assertEqual(seen, [divmod(n, STEPS) for n in range(2 * STEPS)])

    def test_constants(self):
        everywhere = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), "data"), jax.sharding.PartitionSpec())
        with Demo(constants=1) as demo, connect(demo) as loader:
            found = penstock.jax.constants(loader, everywhere)
            self.assertEqual({shard.data.shape for shard in found["grid/height"].addressable_shards}, {(2, 3)})
            self.assertEqual(found["time"].tolist(), [1 << 40, -1])
            split = penstock.jax.constants(loader, sharding(), names=["grid/height"])
            self.assertEqual([shard.data.tolist() for shard in split["grid/height"].addressable_shards],
                             [[[0, 1, 2]], [[3, 4, 5]]])
            with unittest.mock.patch.object(type(jax.config), "jax_enable_x64", False):
                with self.assertRaisesRegex(penstock.Invalid, "constant 'time' is int64, and JAX would cut it"):
                    penstock.jax.constants(loader)
                found = penstock.jax.constants(loader, names=["grid/height"])
            self.assertEqual(list(found), ["grid/height"])
        self.assertEqual(found["grid/height"].tolist(), [[0, 1, 2], [3, 4, 5]])  # they outlive the loader

    def kept(self):
        with Demo(samples=SAMPLES, epochs=2, slots=4) as demo, connect(demo) as loader:
            return [is_right(batch) for batch in list(penstock.jax.batches(loader, sharding(), ahead=2))]

    def test_arrays_outlive_their_slots(self):
        """On the CPU, JAX takes a host's memory for an array where it can, and the slot is overwritten."""
        self.assertEqual(self.kept(), [True] * 2 * STEPS)

    def test_epochs(self):
        """Of an epoch no batch of the next one is on its way, and the state is behind the last batch that was given."""
        with Demo(samples=SAMPLES, epochs=3, slots=4) as demo, connect(demo) as loader:
            seen, complete = [], []
            for epoch in loader.epochs():
                for batch in penstock.jax.batches(epoch, sharding(), ahead=2):
                    state = loader.state()
                    self.assertEqual((state["epoch"], state["step"]), divmod(epoch.number * STEPS + batch.step + 1, STEPS))
                    seen.append((batch.epoch, batch.step))
                    if epoch.number == 1 and batch.step == 3:
                        break
                complete.append(epoch.complete)
            self.assertEqual(seen, [(0, n) for n in range(STEPS)] + [(1, n) for n in range(4)] + [(2, n) for n in range(STEPS)])
            self.assertEqual(complete, [True, False, True])
            self.assertTrue(loader.complete and loader._ended)

    def test_a_loop_that_was_left_is_not_begun_again(self):
        with Demo(samples=SAMPLES, epochs=2, slots=4) as demo, connect(demo) as loader:
            for _ in penstock.jax.batches(loader, sharding()):
                if loader._taken != loader._cursor:
                    break  # another batch had come, and is on its way
            with self.assertRaisesRegex(penstock.Invalid, "batches on their way to the devices, which would be lost"):
                penstock.jax.batches(loader, sharding())
            self.assertEqual(next(penstock.jax.batches(loader.epoch(1), sharding())).epoch, 1)

    def test_a_batch_that_was_not_trained_on_comes_again(self):
        for stop in (0, 3, STEPS, 2 * STEPS - 1):
            with Demo(samples=SAMPLES, epochs=2, slots=5) as demo:
                with self.assertRaisesRegex(ValueError, "died"), connect(demo) as loader:
                    for number, _ in enumerate(penstock.jax.batches(loader, sharding(), ahead=3)):
                        if number == stop:
                            raise ValueError("died")
                self.assertEqual(demo.process.wait(60), 0)
                epoch, step = divmod(stop, STEPS)
                self.assertRegex(demo.farewell(), rf"failed at epoch {epoch} step {step}: ValueError: died")

    def test_a_batch_is_a_tree(self):
        compiled = []

        @jax.jit
        def work(batch):
            compiled.append(1)
            return jax.tree.map(lambda array: array[:2], batch), batch["image"].sum()

        with Demo(samples=SAMPLES, epochs=1, slots=4) as demo, connect(demo) as loader:
            for batch in penstock.jax.batches(loader, sharding()):
                half, total = work(batch)
                self.assertAlmostEqual(float(total), float(batch["image"].sum()), places=3)
                self.assertEqual(list(half.keys()), list(batch.keys()))
                self.assertEqual(half["label"].tolist(), batch["label"][:2].tolist())
                self.assertEqual((half.valid.shape, half.sample_keys.shape), ((2,), (2, 2)))
                with self.assertRaises(AttributeError):
                    half.step  # of another batch, if it was compiled in  # pylint: disable=pointless-statement
        self.assertEqual(len(compiled), 1)

    def test_batches_on_their_way_leave_the_service_a_slot(self):
        with Demo(slots=3) as demo, connect(demo) as loader:
            with self.assertRaisesRegex(penstock.Invalid, "at most 1 batches .* raise delivery.slots"):
                penstock.jax.batches(loader, sharding(), ahead=2)

    def test_a_slot_that_comes_back_late_is_waited_for(self):
        with Demo(samples=400, slots=4) as demo, connect(demo, wait_for_release=True) as loader:
            held = collections.deque(loader.next() for _ in range(4))

            def release_later():
                time.sleep(0.2)
                held.clear()

            thread = threading.Thread(target=release_later)
            thread.start()
            self.assertEqual(loader.next(timeout=30).step, 4)
            thread.join()


class Ragged(unittest.TestCase):
    def test_matrices_of_this_process(self):
        for name, steps in (("ragged", 1), ("sequences", 3)):
            with Demo(fields=name, samples=SAMPLES, epochs=1, slots=4) as demo, connect(demo) as loader:
                for batch in penstock.jax.batches(loader, sharding(1)):
                    csr = batch.csr("events")
                    lengths = [length for index in batch.indices.tolist() for length in event_lengths(index, steps)]
                    self.assertEqual(np.diff(csr.offsets).tolist(), lengths)
                    self.assertEqual(batch["points"].shape, (batch.csr("points").offsets[-1], 3))
                    matrix = csr.bcsr(512)
                    for mine, whole in ((matrix.data, batch["events"]), (matrix.indices, batch["events.x"]),
                                        (matrix.indptr, batch["events.offsets"])):
                        self.assertEqual(mine.unsafe_buffer_pointer(), whole.unsafe_buffer_pointer())
                    expected = np.zeros((BATCH * steps, 512), np.float32)
                    rows = np.repeat(np.arange(BATCH * steps), lengths)
                    expected[rows, np.asarray(batch["events.x"])] = np.asarray(batch["events"])
                    self.assertTrue(np.array_equal(matrix.todense(), expected))
                    coordinates = csr.bcoo(512)
                    self.assertEqual(coordinates.data.unsafe_buffer_pointer(), batch["events"].unsafe_buffer_pointer())
                    self.assertTrue(np.array_equal(coordinates.todense(), expected))

    def test_strings(self):
        with Demo(fields="strings", samples=SAMPLES, epochs=1, slots=4) as demo, connect(demo) as loader:
            batch = next(penstock.jax.batches(loader, sharding(1)))
            ends, data = batch["name.offsets"].tolist(), bytes(batch["name"].tolist())
            self.assertEqual([text.encode() for text in batch.strings("name")],
                             [data[begin:end] for begin, end in zip(ends, ends[1:])])
            self.assertEqual(batch.first_position, 0)

    def test_a_batch_has_what_the_plain_one_has(self):
        public = lambda batch: {name for name in dir(batch) if not name.startswith("_")}
        self.assertEqual(public(penstock.Batch) - public(penstock.jax.Batch), {"arrow", "copy_out", "slot", "torch"})

    def test_arrays_outlive_their_slots(self):
        with Demo(fields="ragged", samples=SAMPLES, epochs=1, slots=4) as demo, connect(demo) as loader:
            for batch in list(penstock.jax.batches(loader, sharding(1))):
                starts = [index for index in batch.indices.tolist() for _ in range(sum(event_lengths(index, 1)))]
                places = [j for index in batch.indices.tolist() for j in range(sum(event_lengths(index, 1)))]
                self.assertEqual(batch["events"].tolist(), [start + j / 2 for start, j in zip(starts, places)])


def outcomes(program, count, arguments):
    """What processes print last, as JSON. `arguments`: of a rank, and the port of the first one."""
    # The port stays this test's own until JAX, whose sockets share ports, listens at it.
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
        processes = [subprocess.Popen([sys.executable, path, *arguments(rank, port)], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) for rank in range(count)]
        try:
            ends = [(*process.communicate(timeout=120), process.returncode) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    assert not any(code for _, _, code in ends), "\n".join(err for _, err, _ in ends)
    return [json.loads(out.splitlines()[-1]) for out, _, _ in ends]


class Processes(unittest.TestCase):
    """Two processes of two devices each: a sharding is right, or refused in both."""

    @classmethod
    def setUpClass(cls):
        with Demo(trainers=2, batch=4, samples=400, slots=4) as demo:
            cls.outcomes = outcomes("jax_process.py", 2, lambda rank, port: [demo.run_dir, str(rank), port])

    def test_rows_of_the_step(self):
        for outcome in self.outcomes:
            self.assertEqual([outcome[name] for name in ("data", "both", "within", "reordered within", "own", "one device")],
                             [True] * 6, outcome)

    def test_others_are_refused(self):
        words = {
            "shared": r"over the mesh \(data: 2, model: 2\), process 0 has rows 0 to 7 of the 8 samples .* has 4 samples of its "
                      r"own .* PartitionSpec\(\('data', 'model'\)\)",
            "everywhere": "process 0 has rows 0 to 7 of the 8 samples",
            "interleaved": "process 0 has rows 0 to 5 of the 8 samples",
            "swapped": r"this process has rows \d to \d of a step, which are those of rank \d, and it is trainer \d",
            "more axes": r"field 'label' of shape \[8\], .* Shard the first axis alone",
        }
        for outcome in self.outcomes:
            for name, message in words.items():
                self.assertRegex(outcome[name], message)


class GroupsOfProcesses(unittest.TestCase):
    """Four processes of two devices each: two groups, of two parts each."""

    @classmethod
    def setUpClass(cls):
        mesh = {"fields": "grid", "trainers": 4, "batch": 4, "samples": 400, "slots": 4, "mesh": "dp:2,sp:2", "data": "dp"}
        with Demo(**mesh, cut=["grid:0:sp", "tokens:0:sp:zigzag"]) as demo, Demo(**mesh, cut="grid:0:sp::5,3", only="tokens:sp:0") as other:
            cls.outcomes = outcomes("jax_group_process.py", 4, lambda rank, port: [str(rank), port, demo.run_dir, other.run_dir])

    def test_rows_and_parts(self):
        for name in ("rows", "finer", "another axis", "some rows", "half", "own", "group"):
            self.assertEqual([outcome[name] for outcome in self.outcomes], [dict.fromkeys(("grid", "label", "tokens", "valid"), True)] * 4)

        self.assertEqual([outcome["sums"] for outcome in self.outcomes], [True] * 4)

    def test_unequal_parts_and_fields_for_some_processes_alone(self):
        for number, outcome in enumerate(self.outcomes):
            self.assertRegex(outcome["unequal"], r"field 'grid' is cut into 2 parts of unequal lengths along axis 0")
            has = ("grid", "label", "valid") if number % 2 else ("grid", "label", "tokens", "valid")
            self.assertEqual(outcome["unequal own"], dict.fromkeys(has, True))

    def test_others_are_refused_by_all(self):
        words = {
            "parts": r"field 'grid': .*process 0 has indices 0 to 7 of axis 1 of 8, which are those of several parts",
            "everywhere": r"process 0 has rows 0 to 7 of the 8 samples of a step. Each group of processes has 4 .*"
                          r"as delivery.data says, \['dp'\], over a mesh .* of delivery.mesh, \[dp: 2, sp: 2\]",
            "interleaved": "has rows 4 to 5 of a step, which are those of group 1, and its trainer is of another group",
            "swapped": "has rows 4 to 7 of a step, which are those of group 1, and its trainer is of another group",
            "parts swapped": "field 'grid': .* has indices 4 to 7 of axis 1, which are part 1, and its trainer has another one",
        }
        for outcome in self.outcomes:
            for name, message in words.items():
                self.assertRegex(str(outcome[name]), message)


class Refusals(unittest.TestCase):
    def refuse(self, message, **options):
        with Demo(**options) as demo, connect(demo) as loader:
            with self.assertRaisesRegex(penstock.Invalid, message):
                penstock.jax.batches(loader, sharding())

    def test_64_bits_that_jax_would_cut(self):
        with unittest.mock.patch.object(type(jax.config), "jax_enable_x64", False):
            self.refuse("field 'label' is int64, and JAX would cut it to 32 bits: cast it")

    def test_ragged_items_on_several_devices(self):
        self.refuse("field 'events' is ragged, and 2 devices of this process cannot share its items", fields="ragged")

    def test_a_batch_that_does_not_divide(self):
        self.refuse("array of shape \\[3\\], .* cannot lie as .* says: .*batch.global_size", batch=3)

    def test_a_short_last_step(self):
        self.refuse("steps have unequal numbers of samples", samples=SAMPLES, last="partial")
        with Demo(samples=SAMPLES, last="partial") as demo, connect(demo) as loader:
            batches = list(penstock.jax.batches(loader, sharding(1)))
        self.assertEqual([batch.sample_count for batch in batches[:STEPS]], [BATCH] * (STEPS - 1) + [SAMPLES % BATCH])
        self.assertEqual({len(batch["image"]) - batch.sample_count for batch in batches}, {0})

    def test_a_rank_that_jax_does_not_have(self):
        with Demo(trainers=2) as demo:
            loaders = []
            threads = [threading.Thread(target=lambda rank=rank: loaders.append(
                penstock.connect(demo.run_dir, rank=rank, world_size=2, timeout=10))) for rank in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with self.assertRaisesRegex(penstock.Invalid, "this process is 0 of 1 to JAX, and trainer [01] of 2"):
                penstock.jax.batches(loaders[0], sharding())
            for loader in loaders:
                loader.close()


if __name__ == "__main__":
    unittest.main()
