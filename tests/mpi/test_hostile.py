"""Hostile and broken peers of a running service: nobody but they themselves is hurt."""

import array
import contextlib
import glob
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest

from job import MPIEXEC, TIMEOUT_S, JobTest, environment, leftovers, program, without_positions

MAGIC, HELLO, WELCOME = 0x4D534E50, 1, 3  # src/delivery/ring/protocol.h, which VERSION is read from
with open(os.path.join(os.path.dirname(__file__), "../../src/delivery/ring/protocol.h"), encoding="utf-8") as header:
    VERSION = int(re.search(r"PROTOCOL_VERSION = (\d+)", header.read())[1])
SILENT = 1000
ENTRY_S = TIMEOUT_S  # for trainers to get past them; it takes less than four seconds on a quiet machine


class Service:
    """A penstock-reader that waits for trainers from elsewhere."""

    def __init__(self, test, readers, settings):
        command = [MPIEXEC, *test.flags, "-np", str(readers), program("penstock-reader")]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.run_dir, self.readers = settings["delivery.run_dir"], readers
        self.output = open(os.path.join(test.folder, f"service.{time.monotonic_ns()}"), "w+",
                           encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, env=environment(),
                                        start_new_session=True)
        test.addCleanup(self.end)
        deadline = time.monotonic() + TIMEOUT_S
        while not all(self.connects(reader) for reader in range(readers)):
            test.assertIsNone(self.process.poll(), self.said())
            test.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.05)

    def connect(self, reader):
        """A connection that says nothing yet. Paths of sockets are short: the folder is entered."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(self.run_dir, os.O_RDONLY)
        try:
            one.connect(f"/proc/self/fd/{folder}/reader-{reader}.sock")
        except OSError:
            one.close()
            raise
        finally:
            os.close(folder)
        return one

    def connects(self, reader):
        try:
            self.connect(reader).close()
            return True
        except OSError:
            return False

    def pid(self, reader):
        with open(os.path.join(self.run_dir, f"reader-{reader}.lock"), encoding="ascii") as file:
            return int(file.read())

    def sockets(self, reader):
        """How many sockets the reader has open."""
        count = 0
        for path in glob.glob(f"/proc/{self.pid(reader)}/fd/*"):
            try:
                count += os.readlink(path).startswith("socket:")
            except OSError:
                pass
        return count

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def wait(self, timeout=TIMEOUT_S):
        return self.process.wait(timeout)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.output.close()


def message(kind, body=b"", magic=MAGIC, version=VERSION):
    return struct.pack("<IIII", magic, version, kind, 0) + body


def with_descriptors(fd, count):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * count))]


class Hostile(JobTest):
    TRAINERS, POSITIONS = 3, True

    def settings(self, **more):
        return {"dataset.uri": self.synth("hostile", 120, chunk=4, videos=5),
                "batch.global_size": 12, "order.epochs": 3, "order.seed": 5,
                "delivery.trainers": self.TRAINERS, "readers.threads": 1,
                "delivery.slots": 4, **more}  # few: the reader needs a tail to go on

    def setUp(self):
        super().setUp()
        if not hasattr(Hostile, "expected"):  # the digests of a run without any harm
            Hostile.expected = self.digests(2, self.TRAINERS, self.settings())
            for path in glob.glob(os.path.join(self.folder, "digest.*")):
                os.remove(path)

    def of_ranks(self, lines, ranks):
        share = self.settings()["batch.global_size"] // self.TRAINERS
        return [line for line in lines if int(line[2]) // share in ranks]

    def serve(self, readers=2, **more):
        run_dir = os.path.join(self.folder, "run")
        return Service(self, readers, self.settings(**{"delivery.run_dir": run_dir, **more}))

    def trainers(self, service):
        return [subprocess.Popen(
            [program("penstock-trainer"), "--run-dir", service.run_dir, "--rank", str(rank),
             "--world-size", str(self.TRAINERS), "--timeout", str(TIMEOUT_S), "--digest",
             os.path.join(self.folder, "digest.{rank}")],
            env=environment(PENSTOCK_READER=rank % service.readers), stdin=subprocess.DEVNULL)
            for rank in range(self.TRAINERS)]

    def assert_served(self, service):
        """All trainers come, and get what they would get without anyone else."""
        for trainer in self.trainers(service):
            self.assertEqual(trainer.wait(TIMEOUT_S), 0, service.said())
        self.assertEqual(service.wait(), 0, service.said())
        self.assertEqual(without_positions(self.digest_lines()), without_positions(self.expected))

    def mixed(self, kind, expect_failure):
        """A job whose trainer of rank 1 is a hostile one."""
        command = (f"if [ $RANK = 1 ]; then exec {program('hostile-trainer')} {kind}; fi; "
                   f"exec {program('penstock-trainer')} --digest {self.folder}/digest.$RANK")
        expected = self.of_ranks(self.expected, (0, 2))
        before = leftovers()
        for old in glob.glob(os.path.join(self.folder, "digest.*")):
            os.remove(old)
        outcome = self.reader(2, self.settings(), ("sh", "-c", command))
        self.assertEqual(outcome.code != 0, expect_failure, outcome.output)
        self.assert_nothing_left(before, outcome)
        return expected, outcome

    def test_garbage_in_a_ring(self):
        """Header, flags and leased batches overwritten all the time: the run ends well, and nobody else
        sees a difference."""
        expected, _ = self.mixed("garbage", False)
        self.assertEqual(self.digest_lines(), expected)

    def test_broken_trainers_are_named(self):
        """What the others got until then is what they would have got."""
        for kind, cause in (("tail", "impossible tail"), ("back", "impossible tail"),
                            ("cursor", "impossible tail or cursor"), ("socket", "not a Penstock message")):
            with self.subTest(kind=kind):
                expected, outcome = self.mixed(kind, True)
                self.assertRegex(outcome.output, f"trainer 1 .*{cause}")
                lines = self.digest_lines()
                self.assertEqual([line for line in lines if line not in expected], [])
                for rank in (0, 2):
                    own = self.of_ranks(lines, (rank,))
                    self.assertEqual(own, self.of_ranks(expected, (rank,))[:len(own)])

    def test_a_broken_trainer_is_replaced(self):
        """With restarts it is dropped and started again, in its right mind: all is as if nothing had been."""
        mark = os.path.join(self.folder, "broken-once")
        trainer = f"{program('penstock-trainer')} --digest {self.folder}/digest.$RANK"
        command = (f"if [ $RANK = 1 ] && [ ! -e {mark} ]; then touch {mark}; "
                   f"exec {program('hostile-trainer')} tail; fi; "
                   f"exec {trainer}.$(date +%s%N)")
        outcome = self.reader(2, self.settings(**{"delivery.restarts": 1}), ("sh", "-c", command))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, "trainer 1 .*impossible tail")
        expected = self.of_ranks(self.expected, (0, 2))
        self.assertEqual(self.of_ranks(self.digest_lines(), (0, 2)), expected)

    def test_silent_connections(self):
        """1,000 connections that say nothing, and stay: trainers get in nevertheless, and the readers do
        not keep them."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < SILENT + 100:
            self.skipTest(f"no more than {hard} descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        service = self.serve(**{"order.epochs": 100})
        silent = [service.connect(i % service.readers) for i in range(SILENT)]
        start = time.monotonic()
        trainers = self.trainers(service)
        while not all(os.path.exists(os.path.join(self.folder, f"digest.{rank}"))
                      for rank in range(self.TRAINERS)):
            self.assertLess(time.monotonic() - start, ENTRY_S, service.said())
            time.sleep(0.02)
        for trainer in trainers:
            self.assertEqual(trainer.wait(TIMEOUT_S), 0, service.said())
        self.assertEqual(service.wait(), 0, service.said())
        shown = len(self.expected) // 3  # an epoch's
        self.assertEqual([line for line in self.digest_lines() if int(line[0]) < 1],
                         self.expected[:shown])
        for one in silent:
            one.close()

    def test_no_connection_is_kept(self):
        """After hundreds of connections that stayed silent, hung up or talked nonsense a reader has as
        many sockets as before."""
        service = self.serve(readers=1)
        # Connections are accepted in turn: once one of nonsense is hung up on, none of before is left but such as have ended.
        first = service.connect(0)
        first.settimeout(TIMEOUT_S)
        first.send(b"nonsense")
        with contextlib.suppress(ConnectionError):
            while first.recv(65536):
                pass
        first.close()
        before = service.sockets(0)
        held = []
        for i in range(300):
            one = service.connect(0)
            if i % 3 == 0:
                one.send(b"nonsense")
            elif i % 3 == 1:
                held.append(one)
                continue
            one.close()
        deadline = time.monotonic() + ENTRY_S
        while service.sockets(0) > before:
            self.assertLess(time.monotonic(), deadline, service.sockets(0))
            time.sleep(0.1)
        self.assert_served(service)
        for one in held:
            one.close()

    def test_nonsense(self):
        """While the service waits and while it delivers, over and over."""
        service = self.serve()
        hello = struct.pack("<III2048s", 0, self.TRAINERS, 0, b"")
        held = []
        null = os.open(os.devnull, os.O_RDONLY)

        def send(reader, packet, descriptors=0):
            one = service.connect(reader)
            one.sendmsg([packet], with_descriptors(null, descriptors) if descriptors else [])
            held.append(one)

        def attack():
            for reader in range(service.readers):
                send(reader, message(HELLO, hello, magic=1))
                send(reader, message(HELLO, hello, version=77))
                send(reader, message(HELLO, hello)[:9])
                send(reader, message(HELLO, hello) + bytes(100000))
                send(reader, message(HELLO, hello), 1)
                send(reader, message(HELLO, hello), 3)
                send(reader, message(HELLO, hello), 200)
                send(reader, message(WELCOME), 3)
                send(reader, message(0xFFFFFFFF, b"\xff" * 900))
                send(reader, b"\xff")
                held.append(service.connect(reader))
            while len(held) > 100:
                held.pop(0).close()

        for _ in range(5):
            attack()
        trainers = self.trainers(service)
        while any(trainer.poll() is None for trainer in trainers):
            try:
                attack()
            except OSError:
                break  # the service has ended
        for trainer in trainers:
            self.assertEqual(trainer.wait(TIMEOUT_S), 0, service.said())
        self.assertEqual(service.wait(), 0, service.said())
        self.assertEqual(self.digest_lines(), self.expected)
        for one in held:
            one.close()
        os.close(null)

    def test_two_runs_with_one_run_dir(self):
        """The second is refused with the first one's pid; the first does not notice."""
        service = self.serve()
        outcome = self.reader(2, self.settings(**{"delivery.run_dir": service.run_dir}))
        self.assertNotEqual(outcome.code, 0)
        named = re.search(r"reader ([01]) .*alive already: process (\d+)", outcome.output)
        self.assertIsNotNone(named, outcome.output)
        self.assertEqual(int(named[2]), service.pid(int(named[1])))
        self.assert_served(service)
        self.assertFalse(os.path.exists(service.run_dir))

    def test_run_dir_of_dead_readers(self):
        """After kill -9 everything still lies there; the next run takes it over."""
        dead = self.serve()
        dead.process.send_signal(signal.SIGSTOP)  # or mpirun would end the second one, and reap it
        for pid in [dead.pid(reader) for reader in range(dead.readers)]:
            with contextlib.suppress(ProcessLookupError):  # MPICH's proxy, which runs on, may be faster
                os.kill(pid, signal.SIGKILL)
        dead.end()
        self.assertTrue(os.path.exists(os.path.join(dead.run_dir, "reader-0.sock")))
        self.assert_served(self.serve())

    def refused(self, cause):
        run_dir = os.path.join(self.folder, "run")
        outcome = self.reader(2, self.settings(**{"delivery.run_dir": run_dir}))
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, cause)
        self.assertIn(run_dir, outcome.output)

    def test_run_dirs_that_are_not_private(self):
        run_dir = os.path.join(self.folder, "run")
        os.mkdir(run_dir)
        os.chmod(run_dir, 0o777)
        self.refused("open to others .*0777")
        if os.getuid() == 0:
            os.chmod(run_dir, 0o700)
            os.chown(run_dir, 65534, -1)
            self.refused("belongs to user 65534")
        os.rmdir(run_dir)
        elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(elsewhere, 0o700)
        os.symlink(elsewhere, run_dir)
        self.refused("symbolic link")
        self.assertEqual(os.listdir(elsewhere), [])
        os.remove(run_dir)
        with open(run_dir, "w", encoding="ascii"):
            pass
        self.refused("not a directory")


if __name__ == "__main__":
    unittest.main()
