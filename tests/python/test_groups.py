"""Groups of trainers against a demo server: who has the same batches, which parts of them, and memory that nobody may write to."""

import contextlib
import gc
import importlib.util
import os
import signal
import subprocess
import sys
import unittest

import numpy as np

import penstock
from demo import Demo, connect_all, pattern

SHAPES = {"grid": (8, 6), "tokens": (16,)}


@contextlib.contextmanager
def loaders(trainers, options=lambda rank: {}, **settings):
    """The loaders of all trainers of a service with grid [8, 6], label and tokens [16]."""
    with Demo(trainers=trainers, fields="grid", slots=4, **settings) as demo, contextlib.ExitStack() as stack:
        yield [stack.enter_context(loader) for loader in connect_all(demo, trainers, options)]


def whole(name, index):
    """A field of a sample, as demo_server.c says."""
    if name == "label":
        return np.int64(index)
    size = int(np.prod(SHAPES[name]))
    return np.frombuffer(pattern(index, 4 * size), np.int32).reshape(SHAPES[name])


def part(field, index):
    values = whole(field.name, index)
    for cut in field.cuts:
        values = np.take(values, field.positions(cut.axis), axis=cut.axis)
    return values


def is_right(loader, batch):
    return all(np.array_equal(batch[field.name], np.stack([part(field, index) for index in batch.indices.tolist()]))
               for field in loader.info.fields)


class Groups(unittest.TestCase):
    def test_ranks_of_a_group_have_the_same_batches(self):
        with loaders(8, mesh="pp:2,dp:2,tp:2", data="dp", batch=3, samples=20) as all_:
            infos = [loader.info for loader in all_]
            self.assertEqual([tuple(info.coordinates.values()) for info in infos], list(np.ndindex(2, 2, 2)))
            self.assertEqual([info.group for info in infos], [0, 0, 1, 1] * 2)
            self.assertEqual({(info.group_count, info.batch_size, info.global_batch_size, info.is_shared) for info in infos},
                             {(2, 3, 6, True)})
            self.assertEqual([(axis.name, axis.size, axis.divides) for axis in infos[5].mesh],
                             [("pp", 2, False), ("dp", 2, True), ("tp", 2, False)])
            for step in range(all_[0].info.steps_per_epoch):
                batches = [loader.next() for loader in all_]
                self.assertTrue(all(is_right(*pair) for pair in zip(all_, batches)))
                for batch, info in zip(batches, infos):
                    self.assertEqual(batch.indices.tolist(), [(6 * step + 3 * info.group + i) % 20 for i in range(3)])
                del batch, batches

    def test_without_a_mesh_each_rank_is_a_group(self):
        with loaders(2) as all_:
            self.assertEqual([(loader.info.group, loader.info.group_count, loader.info.mesh) for loader in all_],
                             [(0, 2, ()), (1, 2, ())])
            batch = all_[0].next()
            self.assertFalse(all_[0].info.is_shared)
            batch["grid"][0] = 7  # its own memory

    def test_parts(self):
        cases = {
            "grid:0:tp": [[0, 1], [2, 3], [4, 5], [6, 7]],
            "tokens:0:tp:zigzag": [[0, 1, 14, 15], [2, 3, 12, 13], [4, 5, 10, 11], [6, 7, 8, 9]],
            "grid:1:tp::chunk": [[0, 1], [2, 3], [4, 5], []],
            "grid:1:tp::even": [[0, 1], [2, 3], [4], [5]],
            "grid:1:tp::1,1,1,3": [[0], [1], [2], [3, 4, 5]],
            "grid:0:tp::even": [[0, 1], [2, 3], [4, 5], [6, 7]],
        }
        of_torch = {"grid:0:tp", "grid:1:tp::chunk", "grid:0:tp::even"}
        for cut, parts in cases.items():
            with loaders(4, mesh="dp:1,tp:4", data="dp", cut=cut, samples=8) as all_:
                name, axis = cut.split(":")[0], int(cut.split(":")[1])
                fields = [loader.fields[name] for loader in all_]
                self.assertEqual([field.positions(axis).tolist() for field in fields], parts)
                self.assertEqual({field.global_shape for field in fields}, {SHAPES[name]})
                self.assertEqual({field.cuts[0].over for field in fields}, {("tp",)})
                self.assertEqual({field.cuts[0].is_torch_chunk for field in fields}, {cut in of_torch})
                self.assertTrue(all(is_right(loader, loader.next()) for loader in all_))

    def test_a_field_cut_along_two_axes_and_a_cut_over_two(self):
        with loaders(8, mesh="dp:2,h:2,w:2", data="dp", cut=["grid:1:w", "grid:0:h", "tokens:0:w,h"]) as all_:
            self.assertEqual([loader.fields["grid"].shape for loader in all_], [(4, 3)] * 8)
            self.assertEqual([[cut.over for cut in loader.fields["grid"].cuts] for loader in all_], [[("h",), ("w",)]] * 8)
            self.assertEqual([loader.fields["tokens"].positions()[0] for loader in all_], [0, 8, 4, 12] * 2)
            self.assertTrue(all(is_right(loader, loader.next()) for loader in all_))

    def test_fields_for_some_ranks_alone(self):
        with loaders(2, mesh="pp:2,dp:1", data="dp", only=["tokens:pp:0", "grid:pp:1", "label:pp:1"]) as all_:
            self.assertEqual([list(loader.fields) for loader in all_], [["tokens"], ["grid", "label"]])
            batches = [loader.next() for loader in all_]
            self.assertTrue(all(is_right(*pair) for pair in zip(all_, batches)))
            self.assertEqual(*(batch.indices.tolist() for batch in batches))


class Coordinates(unittest.TestCase):
    MESH = {"mesh": "dp:2,tp:2", "data": "dp"}

    def test_a_program_places_its_ranks(self):
        told = lambda rank: {"coordinates": {"tp": rank // 2, "dp": rank % 2}}
        with loaders(4, told, **self.MESH) as all_:
            self.assertEqual([loader.info.coordinates for loader in all_], [{"dp": d, "tp": t} for t in (0, 1) for d in (0, 1)])
            self.assertEqual([loader.info.rank for loader in all_], [0, 2, 1, 3])
            self.assertTrue(all(is_right(loader, loader.next()) for loader in all_))

    def test_sizes_are_compared_and_axes_of_size_1_are_not_missed(self):
        told = lambda rank: {"coordinates": {"tp": (rank // 2, 2), "dp": (rank % 2, 2), "ep": (0, 1)}}
        with loaders(4, told, mesh="pp:1,dp:2,tp:2", data="dp") as all_:
            self.assertEqual([loader.info.rank for loader in all_], [0, 2, 1, 3])

    def refuse(self, coordinates, *words, mesh="dp:2,tp:2", data="dp"):
        settings = {"mesh": mesh, "data": data} if mesh else {}
        with Demo(trainers=4, fields="grid", **settings) as demo:
            with self.assertRaises(penstock.Refused) as caught:
                penstock.connect(demo.run_dir, rank=0, world_size=4, timeout=10, coordinates=coordinates)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_one_message_says_both(self):
        both = "(told: dp=0/4,tp=0/1; delivery.mesh: [dp: 2, tp: 2])"
        self.refuse({"dp": (0, 4), "tp": (0, 1)}, "axis 'dp' of delivery.mesh has size 2", both)
        both = "(told: dp=0/2,cp=1/2; delivery.mesh: [dp: 2, tp: 2])"
        self.refuse({"dp": (0, 2), "cp": (1, 2)}, "'cp=1/2', and delivery.mesh has no such axis", both)
        self.refuse({"dp": 2, "tp": 0}, "axis 'dp' of delivery.mesh has coordinates 0 to 1", "told: dp=2,tp=0;")
        self.refuse({"dp": 1}, "by delivery.mesh it is rank 0 (dp 0, tp 0): tell all axes, or none", "told: dp=1;")
        self.refuse({"dp": 1}, "it tells its coordinates (dp=1), and delivery.mesh is not set", mesh="")


class Writing(unittest.TestCase):
    """Ranks of a group share memory, which is read-only."""

    MESH = {"mesh": "dp:1,tp:2", "data": "dp", "cut": "tokens:0:tp"}

    def test_numpy_says_so(self):
        with loaders(2, **self.MESH) as all_:
            batch, other = (loader.next() for loader in all_)
            for array in (*batch.values(), batch.indices, batch.sample_keys, batch.valid):
                self.assertFalse(array.flags.writeable)
                with self.assertRaisesRegex(ValueError, "read-only"):
                    array[0] = 0
                with self.assertRaises(ValueError):
                    array.flags.writeable = True
            self.assertTrue(is_right(all_[1], other))

    def test_copy_out_gives_memory_of_its_own(self):
        with loaders(2, **self.MESH) as all_:
            batch, other = (loader.next() for loader in all_)
            self.assertEqual(all_[0].stats().leased, 1)
            batch.copy_out()
            gc.collect()
            self.assertEqual(all_[0].stats().leased, 0)
            for array in (*batch.values(), batch.indices, batch.sample_keys, batch.valid):
                array[:] = 0
            self.assertTrue(is_right(all_[1], other))

    def test_a_tensor_ends_the_process(self):
        """torch knows no read-only tensors."""
        if not importlib.util.find_spec("torch"):
            self.skipTest("no torch")
        program = ("import sys; from test_groups import *\n"
                   "with loaders(2, **Writing.MESH) as all_:\n"
                   "    batch = all_[0].next()\n"
                   "    tensor = batch.torch('grid')\n"
                   "    assert tensor.data_ptr() == batch['grid'].ctypes.data and int(tensor.sum()) == int(batch['grid'].sum())\n"
                   "    if sys.argv[1] == 'copies': batch.copy_out(); tensor = batch.torch('grid')\n"
                   "    tensor.add_(1)\n")
        ends = [subprocess.run([sys.executable, "-W", "error", "-c", program, how], cwd=os.path.dirname(os.path.abspath(__file__)),
                               stderr=subprocess.PIPE, text=True) for how in ("writes", "copies")]
        self.assertEqual([end.returncode for end in ends], [-signal.SIGSEGV, 0], [end.stderr for end in ends])

    def test_jax_takes_the_memory_and_leaves_it_alone(self):
        """JAX's arrays are immutable. One that is donated may be the program's output, but not in this memory."""
        if not importlib.util.find_spec("jax"):
            self.skipTest("no jax")
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax

        with loaders(2, **self.MESH) as all_:
            batch = all_[0].next()
            array = jax.device_put(batch["grid"])
            self.assertTrue(np.array_equal(jax.jit(lambda x: x + 1, donate_argnums=0)(array), batch["grid"] + 1))
            self.assertTrue(is_right(all_[0], batch))

    def test_arrow_and_copies_at_the_end(self):
        with loaders(2, **self.MESH) as all_:
            batch = all_[0].next()
            tokens = batch.arrow()
            del tokens
            all_[0].close()
            self.assertTrue(batch["grid"].flags.writeable and is_right(all_[0], batch))


if __name__ == "__main__":
    unittest.main()
