"""The Python package when something goes wrong: failures, interrupts, threads, forks, and runs that are not there."""

import contextlib
import copy
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import unittest.mock

try:
    import numpy  # pylint: disable=unused-import
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
from demo import Demo, connect
from interrupts import steps_in_spite_of_interrupts


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
