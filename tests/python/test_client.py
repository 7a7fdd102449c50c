"""The Python package against a demo server: contents, order, the life of views, and epochs."""

import ctypes
import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
from demo import Demo, connect, pattern

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "include", "penstock.h")


class Contents(unittest.TestCase):
    def test_info(self):
        with Demo(samples=41) as demo, connect(demo) as loader:
            self.assertEqual([f.name for f in loader.info.fields], ["bits", "image", "label"])
            self.assertEqual(loader.info.fields[1].shape, (2, 3))
            self.assertEqual(loader.info.fields[0].dtype_name, "bfloat16")
            self.assertEqual(loader.info.dataset_samples, 41)
            self.assertEqual(len(loader), 11)
            self.assertEqual(loader.info.fingerprint, 0x0123456789ABCDEF)
            self.assertEqual(loader.info.order_id, 0xFEDCBA9876543210)

    def test_sizes_are_those_of_the_c_interface(self):
        """Each state and message fits: one of order.placement local is longer than others."""
        with open(HEADER, encoding="utf-8") as file:
            sizes = dict(re.findall(r"PENSTOCK_(STATE_BYTES|MESSAGE_BYTES) = (\d+)", file.read()))
        self.assertEqual(sizes, {"STATE_BYTES": str(penstock._library.STATE_BYTES),
                                 "MESSAGE_BYTES": str(penstock._library.MESSAGE_BYTES)})

    def test_structs_have_the_members_of_the_c_interface(self):
        """In the same order, with as many bytes a number: a member that is missing here is read beyond the end."""
        library = penstock._library
        structs = {"options": library.Options, "stats": library.CStats, "ring": library.Ring, "field": library.CField,
                   "ring_watch": library.RingWatch, "info": library.CInfo, "batch": library.CBatch}
        with open(HEADER, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for name, struct in structs.items():
            body = re.search(rf"struct penstock_{name} \{{(.*?)\n\}};", text, flags=re.S).group(1)
            members = []
            for line in filter(None, (part.strip() for part in body.split(";"))):
                function = re.match(r"void \(\*(\w+)\)", line)
                names = [function.group(1)] if function else re.findall(r"(\w+)(?:\[\w+\])?(?:,|$)", line)
                size = re.match(r"u?int(\d+)_t (?!\*)", line)
                members += [(member, int(size.group(1)) // 8 if size else None) for member in names]
            self.assertEqual([member for member, _ in members], [field[0] for field in struct._fields_], name)
            for (member, size), (_, kind) in zip(members, struct._fields_):
                if size and not issubclass(kind, ctypes.Array):
                    self.assertEqual(ctypes.sizeof(kind), size, f"{name}.{member}")

    def test_statistics(self):
        with Demo(samples=400) as demo, connect(demo) as loader:
            batches = [next(loader), next(loader)]
            stats = loader.stats()
            self.assertEqual((stats.batches, stats.samples, stats.leased, stats.reconnects), (2, 8, 2, 0))
            self.assertEqual(stats.bytes, sum(array.nbytes for batch in batches for array in batch.values()))
        with self.assertRaisesRegex(penstock.Invalid, "closed"):
            loader.stats()

    def test_batches(self):
        with Demo(samples=10, batch=4, epochs=2) as demo, connect(demo) as loader:
            seen = []
            for number, batch in enumerate(loader):
                self.assertEqual((batch.epoch, batch.step), divmod(number, 3))
                self.assertEqual(batch["image"].shape, (4, 2, 3))
                self.assertEqual(batch["image"].dtype, np.float32)
                self.assertEqual(batch["bits"].dtype.itemsize, 2)
                self.assertEqual(batch["label"].tolist(), batch.indices.tolist())
                for i, index in enumerate(batch.indices):
                    self.assertEqual(batch["image"][i].tobytes(), pattern(int(index), 24))
                    self.assertEqual(batch["bits"][i].tobytes(), pattern(int(index), 8))
                self.assertEqual(batch.first_position, 0)
                self.assertEqual(len(set(batch.sample_keys.tolist())), 4)
                seen += batch.indices[batch.valid].tolist()
            self.assertEqual(seen[:10], list(range(10)))
            self.assertEqual(seen[10:], [(p + 7) % 10 for p in range(10)])

    def test_partial_last_step(self):
        with Demo(samples=9, batch=4, epochs=1, last="partial") as demo, connect(demo) as loader:
            self.assertEqual([b.sample_count for b in loader], [4, 4, 1])

    def test_views_are_writable_memory_of_the_slot(self):
        with Demo() as demo, connect(demo) as loader:
            batch = next(loader)
            self.assertTrue(batch["image"].flags.writeable)
            self.assertFalse(batch["image"].flags.owndata)
            batch["image"][...] = 5
            self.assertEqual(batch["image"].sum(), 4 * 6 * 5)

    def test_bfloat16(self):
        with Demo() as demo, connect(demo) as loader:
            expected = "bfloat16" if importlib.util.find_spec("ml_dtypes") else "uint16"
            self.assertEqual(next(loader)["bits"].dtype.name, expected)

    def test_bfloat16_without_ml_dtypes(self):
        with unittest.mock.patch.dict(sys.modules, {"ml_dtypes": None}), Demo() as demo:
            with self.assertWarnsRegex(UserWarning, r"field 'bits' is bfloat16, .* batch.torch\('bits'\)") as told:
                loader = connect(demo)
            self.assertEqual(told.filename, connect.__code__.co_filename)
            with loader:
                batch = next(loader)
                self.assertEqual(batch["bits"].dtype, np.uint16)
                self.assertEqual(batch["bits"][0].tobytes(), pattern(int(batch.indices[0]), 8))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_tensors_of_all_fields(self):
        """With ml_dtypes and without: the same dtype, bits and memory."""
        import torch

        for hidden in ({}, {"ml_dtypes": None}):
            with unittest.mock.patch.dict(sys.modules, hidden), warnings.catch_warnings(), Demo() as demo:
                warnings.simplefilter("ignore")
                with connect(demo) as loader:
                    batch = next(loader)
                    tensors = {name: batch.torch(name) for name in batch}
                    self.assertEqual([tensor.dtype for tensor in tensors.values()],
                                     [torch.bfloat16, torch.float32, torch.int64])
                    for name, tensor in tensors.items():
                        self.assertEqual(tuple(tensor.shape), batch[name].shape)
                        self.assertEqual(tensor.data_ptr(), batch[name].ctypes.data)
                        tensor.fill_(1)
                    self.assertEqual(set(batch["bits"].view(np.uint16).flat), {0x3F80})

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch(self):
        import torch

        with Demo(slots=8) as demo, connect(demo) as loader:
            tensor = torch.from_numpy(next(loader)["image"])
            before = tensor.clone()
            for _, _batch in zip(range(4), loader):
                pass
            self.assertTrue(torch.equal(tensor, before))


class Lifetime(unittest.TestCase):
    def test_a_slot_is_not_reused_while_a_view_lives(self):
        with Demo(slots=3, samples=400) as demo, connect(demo) as loader:
            view = next(loader)["image"][2, 1:, ::2]  # the batch itself is gone
            copy = view.copy()
            with self.assertRaisesRegex(penstock.Invalid, "epoch 0 step 0"):
                for _ in range(10):
                    next(loader)  # released at once, but the ring cannot pass the first slot
            self.assertTrue(np.array_equal(view, copy))
            del view
            slots = [next(loader).slot for _ in range(9)]
            self.assertEqual(slots, [0, 1, 2] * 3)

    def test_several_batches_may_be_leased(self):
        with Demo(slots=3, samples=400) as demo, connect(demo) as loader:
            held = [next(loader) for _ in range(3)]
            self.assertEqual([b.slot for b in held], [0, 1, 2])
            with self.assertRaises(penstock.Invalid):
                next(loader)
            indices = held[1].indices
            del held
            self.assertEqual(next(loader).slot, 0)
            self.assertEqual(indices.tolist(), [4, 5, 6, 7])

    def test_batches_in_cycles_are_collected(self):
        with Demo(slots=2, samples=400) as demo, connect(demo) as loader:
            gc.disable()
            try:
                for _ in range(6):
                    batch = next(loader)
                    batch["self"] = batch
                    del batch
            finally:
                gc.enable()

    def test_batches_and_views_outlive_the_loader(self):
        """A batch becomes a copy; a view of its array keeps the slot, and the goodbye."""
        for viewed in (False, True):
            with Demo(slots=2) as demo:
                loader = connect(demo)
                batch = next(loader)
                view = batch["image"][3] if viewed else None
                loader.close()
                with self.assertRaises(penstock.Invalid):
                    next(loader)
                self.assertEqual(batch["image"][3].tobytes(), pattern(3, 24))
                if viewed:
                    self.assertIsNone(demo.process.poll())
                    self.assertEqual(view.tobytes(), pattern(3, 24))
                    del view
                self.assertEqual(demo.process.wait(60), 0)  # it got its goodbye
                self.assertIn("trainer 0 said goodbye", demo.farewell())

    def test_goodbye_at_the_end_in_spite_of_views(self):
        with Demo(slots=2, samples=8) as demo, connect(demo) as loader:
            for batch in loader:
                pass
            loader.close()
            self.assertEqual(demo.process.wait(60), 0)
            self.assertEqual(batch["image"][0].tobytes(), pattern(int(batch.indices[0]), 24))

    def test_goodbye_when_the_process_ends(self):
        program = (
            "import sys, penstock\n"
            "loader = penstock.connect(sys.argv[1], rank=0, world_size=1)\n"
            "batch = next(loader)\n"
        )
        with Demo() as demo:
            subprocess.run([sys.executable, "-c", program, demo.run_dir], check=True)
            self.assertEqual(demo.process.wait(60), 0)
            self.assertEqual(demo.farewell(), "trainer 0 said goodbye at epoch 0 step 1\n")

    def test_a_trace_is_written_in_spite_of_views(self):
        program = (
            "import sys, penstock\n"
            "with penstock.connect(sys.argv[1], rank=0, world_size=1) as loader:\n"
            "    for batch in loader:\n"
            "        pass\n"
        )
        with Demo(samples=8) as demo, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            subprocess.run([sys.executable, "-c", program, demo.run_dir], check=True, env={**os.environ, "PENSTOCK_TRACE": path})
            with open(path + ".0", encoding="ascii") as file:
                spans = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
            self.assertEqual([span["name"] for span in spans], ["next"] * 5)  # the last one says the end

    def test_release_from_other_threads(self):
        with Demo(slots=3, samples=2000, epochs=1) as demo, connect(demo) as loader:
            sums, threads = [], []

            def work(batch):
                sums.append(int(batch["label"].sum()))

            for batch in loader:
                thread = threading.Thread(target=work, args=(batch,))
                del batch
                threads.append(thread)
                thread.start()
                thread.join()
            del threads, thread
            self.assertEqual(sum(sums), 2000 * 1999 // 2)


class Epochs(unittest.TestCase):
    def test_epochs(self):
        with Demo(samples=12, batch=4, epochs=3) as demo, connect(demo) as loader:
            steps = [(e.number, loader.complete or e.complete, [b.step for b in e], e.complete) for e in loader.epochs()]
            self.assertEqual(steps, [(n, False, [0, 1, 2], True) for n in range(3)])
            self.assertTrue(loader.complete)
            self.assertEqual(list(loader), [])

    def test_the_rest_of_an_epoch_is_skipped(self):
        with Demo(samples=12, batch=4, epochs=3) as demo, connect(demo) as loader:
            epochs = []
            for epoch in loader.epochs():
                epochs.append((next(epoch).epoch, epoch))
            self.assertEqual([(number, epoch.complete) for number, epoch in epochs], [(n, False) for n in range(3)])

    def test_resumed_in_the_middle(self):
        with Demo(samples=12, batch=4, epochs=2, start=2) as demo, connect(demo) as loader:
            self.assertEqual(loader.state()["step"], 2)
            steps = [(e.number, [b.step for b in e], e.complete) for e in loader.epochs()]
            self.assertEqual(steps, [(0, [2], True), (1, [0, 1, 2], True)])

    def test_told_to_stop(self):
        for end, whole in ((1, [False]), (3, [True, False]), (5, [True, False])):
            with Demo(samples=12, batch=4, epochs=3, end=end) as demo, connect(demo) as loader:
                epochs = [([b.step for b in epoch], epoch.complete) for epoch in loader.epochs()]
                self.assertEqual([complete for _, complete in epochs], whole)
                self.assertFalse(loader.complete)

    def test_an_epoch_by_its_number(self):
        with Demo(samples=12, batch=4, epochs=5, start=1) as demo, connect(demo) as loader:
            self.assertEqual([batch.step for batch in loader.epoch(0)], [1, 2])
            self.assertEqual(next(loader.epoch(2)).epoch, 2)
            self.assertEqual([(batch.epoch, batch.step) for batch in loader.epoch(4)], [(4, 0), (4, 1), (4, 2)])
            with self.assertRaisesRegex(penstock.Invalid, "epoch 3 is over"):
                loader.epoch(3)
            for number in (5, 6):
                with self.assertRaisesRegex(penstock.Ended, f"epoch {number} was asked for, and order.epochs is 5"):
                    loader.epoch(number)

    def test_one_loop_at_a_time(self):
        with Demo(samples=12, batch=4, epochs=2) as demo, connect(demo) as loader:
            with self.assertRaisesRegex(penstock.Invalid, "goes on with epoch 0: .* to one loop at a time"):
                for first, second in zip(loader.epochs(), loader.epochs()):
                    list(zip(first, second))

    def test_from_a_state(self):
        for state in ({"step": 2}, '{"mine": [1], "step":2}'):
            with Demo(samples=12, batch=4, epochs=2) as demo, connect(demo, state=state) as loader:
                self.assertEqual((loader.info.start_epoch, loader.info.start_step), (0, 2))
                self.assertEqual([(b.epoch, b.step) for b in loader],
                                 [(0, 2), (1, 0), (1, 1), (1, 2)])

    def test_from_the_environment(self):
        os.environ["PENSTOCK_STATE"] = '{"step":1}'
        try:
            with Demo(samples=12, batch=4, epochs=1) as demo, connect(demo) as loader:
                self.assertEqual([b.step for b in loader], [1, 2])
        finally:
            del os.environ["PENSTOCK_STATE"]

    def test_state(self):
        with Demo(samples=12, batch=4) as demo, connect(demo) as loader:
            state = {"version": 2, "dataset": "0123456789abcdef", "order_id": "fedcba9876543210",
                     "seed": 17, "global_batch": 4, "row_length": 1, "window_rows": 64,
                     "shuffle": True, "last": "pad"}
            self.assertEqual(loader.state(), {**state, "epoch": 0, "step": 0})
            next(loader)
            self.assertEqual(loader.state(), {**state, "epoch": 0, "step": 1})
            next(loader), next(loader)
            self.assertEqual(loader.state(), {**state, "epoch": 1, "step": 0})


if __name__ == "__main__":
    unittest.main()
