"""The Python package against a demo server: contents, order, the life of views, ends and errors."""

import contextlib
import copy
import ctypes
import gc
import importlib.util
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import unittest.mock
import warnings

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
from demo import Demo, pattern
from interrupts import steps_in_spite_of_interrupts

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "include", "penstock.h")


def connect(demo, **options):
    return penstock.connect(demo.run_dir, rank=0, world_size=1, timeout=10, **options)


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
            self.assertEqual(told.filename, __file__)
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
            steps = [(e.number, loader.complete, [b.step for b in e]) for e in loader.epochs()]
            self.assertEqual(steps, [(n, False, [0, 1, 2]) for n in range(3)])
            self.assertTrue(loader.complete)
            self.assertEqual(list(loader), [])

    def test_the_rest_of_an_epoch_is_skipped(self):
        with Demo(samples=12, batch=4, epochs=3) as demo, connect(demo) as loader:
            first = [next(epoch).epoch for epoch in loader.epochs()]
            self.assertEqual(first, [0, 1, 2])

    def test_resumed_in_the_middle(self):
        with Demo(samples=12, batch=4, epochs=2, start=2) as demo, connect(demo) as loader:
            self.assertEqual(loader.state()["step"], 2)
            steps = [(e.number, [b.step for b in e]) for e in loader.epochs()]
            self.assertEqual(steps, [(0, [2]), (1, [0, 1, 2])])

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


class Failures(unittest.TestCase):
    def test_failure_of_the_service(self):
        with Demo(fail=2) as demo, connect(demo) as loader:
            with self.assertRaisesRegex(penstock.Corrupt, "array 'image' chunk 3.0"):
                for _ in loader:
                    pass

    def test_death_of_the_service(self):
        with Demo(die=1) as demo, connect(demo) as loader:
            with self.assertRaises(penstock.Lost) as caught:
                for _ in range(5):
                    loader.next()
            self.assertIsInstance(caught.exception, ConnectionError)

    def ends_by(self, error):
        """What the service hears when an exception leaves the with block."""
        with Demo() as demo:
            with self.assertRaises(type(error)):
                with connect(demo) as loader:
                    next(loader)
                    raise error
            self.assertEqual(demo.process.wait(60), 0)
            return demo.farewell()

    def test_an_exception_is_no_goodbye(self):
        for error, words in (
            (ValueError("boom\nbang"), "ValueError: boom bang"),
            (KeyError("x"), "KeyError: 'x'"),
            (ValueError("a\udcff"), "ValueError: a?"),
            (KeyboardInterrupt(), "KeyboardInterrupt"),
            (SystemExit(3), "SystemExit: 3"),
            (penstock.Lost("so"), "penstock._errors.Lost: so"),
        ):
            with self.subTest(error=error):
                said = self.ends_by(error)
                self.assertRegex(said, r"trainer 0 \(process \d+\) failed at epoch 0 step [01]: ")
                self.assertIn(": " + words + "\n", said)

    def test_some_exceptions_are(self):
        for error in (SystemExit(0), SystemExit(), penstock.Ended("over")):
            with self.subTest(error=error):
                self.assertIn("trainer 0 said goodbye", self.ends_by(error))

    def test_an_exception_that_nobody_catches(self):
        program = (
            "import sys, penstock\n"
            "def train():\n"
            "    loader = penstock.connect(sys.argv[1], rank=0, world_size=1)\n"
            "    batch = next(loader)\n"
            "    raise ValueError('boom')\n"
            "train()\n"
        )
        with Demo() as demo:
            done = subprocess.run(
                [sys.executable, "-c", program, demo.run_dir], capture_output=True, check=False
            )
            self.assertIn(b"ValueError: boom", done.stderr)
            self.assertEqual(demo.process.wait(60), 0)
            self.assertRegex(demo.farewell(), "trainer 0 .* failed at epoch 0 step 0: ValueError: boom")

    def test_waiting_without_a_limit_can_be_interrupted(self):
        for timeout in (-1, None, 1e30):
            with self.subTest(timeout=timeout), Demo() as demo, connect(demo) as loader:
                demo.process.send_signal(signal.SIGSTOP)
                try:
                    with self.assertRaises(KeyboardInterrupt):
                        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                        while True:
                            loader.next(timeout=timeout)
                finally:
                    demo.process.send_signal(signal.SIGCONT)

    def test_waiting_for_a_service_can_be_interrupted(self):
        """Where there is none; where one says nothing; and where one waits for another trainer."""
        with Demo() as silent, Demo(trainers=2) as waiting:
            silent.process.send_signal(signal.SIGSTOP)
            for run_dir, world_size in (("/nonexistent/run", 1), (silent.run_dir, 1), (waiting.run_dir, 2)):
                for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, ZeroDivisionError)):
                    before = signal.signal(signal.SIGTERM, lambda *_: 1 // 0)
                    timer = threading.Timer(0.2, os.kill, (os.getpid(), number))
                    started = time.monotonic()
                    timer.start()
                    with self.subTest(run_dir=run_dir, number=number), self.assertRaises(error):
                        penstock.connect(run_dir, rank=0, world_size=world_size, timeout=20)
                    self.assertLess(time.monotonic() - started, 10)
                    timer.join()
                    signal.signal(signal.SIGTERM, before)
            silent.process.send_signal(signal.SIGCONT)
            silent.process.kill()
            waiting.process.kill()

    def test_an_interrupt_loses_no_batch(self):
        """A signal comes while a batch is waited for, and the batch before the signal is seen."""
        with Demo(samples=400, slots=2, epochs=1) as demo, connect(demo) as loader:
            steps, interrupts = [], 0

            def interrupt():
                os.kill(os.getpid(), signal.SIGINT)
                demo.process.send_signal(signal.SIGCONT)

            while len(steps) < 60:
                timer = None
                if len(steps) % 10 == 0:
                    demo.process.send_signal(signal.SIGSTOP)
                    timer = threading.Timer(0.05, interrupt)
                    timer.start()
                try:
                    for _ in range(10):
                        steps.append(loader.next().step)
                except KeyboardInterrupt:
                    interrupts += 1
                    self.assertEqual(loader.state()["step"], len(steps))
                if timer:
                    timer.join()
            self.assertEqual(steps, list(range(len(steps))))
            self.assertGreater(interrupts, 0)

    def test_an_interrupt_anywhere(self):
        """No batch is lost, and none comes twice."""
        with Demo(samples=4000, epochs=1) as demo, connect(demo) as loader:
            steps, places = steps_in_spite_of_interrupts(loader.epoch(0))
            self.assertGreater(places, 10)
            self.assertEqual(steps, list(range(places)))

    def test_a_thread_that_dies_leaves_its_batch(self):
        with Demo(slots=2) as demo, connect(demo) as loader:
            with unittest.mock.patch.object(loader, "_settle", side_effect=SystemExit):
                thread = threading.Thread(target=loader.next)
                thread.start()
                thread.join()
            self.assertEqual([loader.next().step for _ in range(4)], [0, 1, 2, 3])

    def test_errors_on_the_way_free_the_connection(self):
        connection = penstock._loader.Connection
        for name, closes in (("penstock._loader.info_of", False), ("penstock.Batch.copy_out", True)):
            with self.subTest(name=name), Demo() as demo, contextlib.ExitStack() as stack:
                free = unittest.mock.patch.object(connection, "_free", autospec=True, side_effect=connection._free)
                free = stack.enter_context(free)
                loader = connect(demo) if closes else None
                held = next(loader) if closes else None
                with unittest.mock.patch(name, side_effect=MemoryError), self.assertRaises(MemoryError):
                    loader.close() if closes else connect(demo)
                del loader, held
                free.assert_called_once()
                self.assertEqual(demo.process.wait(60), 0)

    def test_one_thread_at_a_time(self):
        with Demo() as demo, connect(demo) as loader:
            demo.process.send_signal(signal.SIGSTOP)
            try:
                with self.assertRaises(penstock.Timeout):
                    while True:
                        loader.next(timeout=0.3)
                words = []

                def take(timeout):
                    try:
                        loader.next(timeout=timeout)
                    except penstock.Timeout:
                        pass
                    except penstock.Invalid as error:
                        words.append(str(error))

                thread = threading.Thread(target=take, args=(1,))
                thread.start()
                while thread.is_alive() and not words:
                    take(0)
                thread.join()
                self.assertRegex(words[0], "another thread is in penstock_next")
            finally:
                demo.process.send_signal(signal.SIGCONT)

    def test_threads_that_race_get_no_batch_twice(self):
        steps, interval = [], sys.getswitchinterval()

        def take(loader):
            while True:
                try:
                    steps.append(loader.next().step)
                except penstock.Invalid:
                    pass
                except penstock.Ended:
                    return

        sys.setswitchinterval(1e-6)
        try:
            with Demo(samples=4000, epochs=1, slots=8) as demo, connect(demo) as loader:
                threads = [threading.Thread(target=take, args=(loader,)) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(sorted(steps), list(range(1000)))

    def test_no_loader_travels(self):
        with Demo() as demo, connect(demo) as loader:
            for travel in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(penstock.Invalid, "cannot be pickled or copied"):
                    travel(loader)
            batch = pickle.loads(pickle.dumps(next(loader)))  # batches may: as copies
            self.assertEqual((batch.step, batch["label"].tolist()), (0, batch.indices.tolist()))
            self.assertEqual(list(batch.keys()), ["bits", "image", "label"])

    def test_closed_by_another_thread(self):
        with Demo() as demo:
            loader = connect(demo)
            demo.process.send_signal(signal.SIGSTOP)
            waits, main = threading.Event(), threading.get_ident()

            def close():
                """Once next() has begun to wait."""
                waits.wait()
                while "_await" not in [frame.name for frame in traceback.extract_stack(sys._current_frames()[main])]:
                    time.sleep(0.01)
                loader.close()

            closing = threading.Thread(target=close)
            closing.start()
            try:
                with self.assertRaises(penstock.Timeout):
                    while True:
                        loader.next(timeout=0.3)
                waits.set()
                with self.assertRaises(penstock.Ended):
                    loader.next()
                closing.join()
                with self.assertRaises(penstock.Invalid):
                    loader.next()
            finally:
                demo.process.send_signal(signal.SIGCONT)

    def test_forked(self):
        with Demo() as demo, connect(demo) as loader:
            held = next(loader)
            child = os.fork()
            if child == 0:
                try:
                    loader.next()
                except penstock.Invalid as error:
                    os._exit(0 if "was forked by" in str(error) else 1)
                os._exit(2)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(next(loader).step, held.step + 1)

    def test_nobody_there(self):
        started = time.monotonic()
        with self.assertRaisesRegex(penstock.NotFound, "/nonexistent/run"):
            penstock.connect("/nonexistent/run", rank=0, world_size=1, timeout=0.05)
        self.assertLess(time.monotonic() - started, 30)

    def test_a_named_run_that_is_over(self):
        """The run beside it has left a mark of its end, and no run directory."""
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "cursor-")
            with unittest.mock.patch.dict(os.environ, PENSTOCK_CURSORS=prefix):
                def connect_late():
                    penstock.connect("val", run_dir="/nonexistent/run", rank=0, world_size=1, timeout=0.05)

                with self.assertRaisesRegex(penstock.NotFound, "run.val"):
                    connect_late()
                with open(prefix + "end", "wb"), self.assertRaisesRegex(penstock.Ended, "is over, and any run 'val' beside it"):
                    connect_late()

    def test_refused(self):
        with Demo() as demo:
            with self.assertRaisesRegex(penstock.Refused, "the service was started for 1"):
                penstock.connect(demo.run_dir, rank=0, world_size=2, timeout=10)
            demo.process.kill()

    def test_timeout(self):
        with Demo(slots=3) as demo, connect(demo) as loader:
            demo.process.send_signal(subprocess.signal.SIGSTOP)
            try:
                with self.assertRaises(penstock.Timeout):
                    for _ in range(9):
                        loader.next(timeout=0.3)
            finally:
                demo.process.send_signal(subprocess.signal.SIGCONT)

    def test_arguments(self):
        with self.assertRaises(penstock.Invalid):
            penstock.connect("/tmp", rank=1)
        with self.assertRaises(ValueError):
            penstock.connect("/tmp", rank=1, world_size=0)

    def test_version(self):
        self.assertEqual(penstock.library_version(), penstock.__version__)


if __name__ == "__main__":
    unittest.main()
