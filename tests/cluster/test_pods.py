"""pods.py of launch/kubernetes on three hosts that are called as pods are: a run without ssh, and who may give orders."""

import os
import shlex
import signal
import subprocess
import sys
import time
import unittest

from cluster import HERE, ClusterTest
from job import environment, program, run

PODS = os.path.abspath(os.path.join(HERE, "..", "..", "launch", "kubernetes", "pods.py"))
sys.path.insert(0, os.path.dirname(PODS))
import pods  # noqa: E402

ADDRESSES = [f"10.77.0.{11 + index}" for index in range(3)]


def on(index, *words):
    """The command is quoted, as ssh wants it."""
    return [*shlex.split(os.environ["CLUSTER_RSH"]), f"h{index + 1}", shlex.join(words)]


class Pods(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(os.environ["CLUSTER_DIR"], "hosts"), "a", encoding="ascii") as file:
            for index, address in enumerate(ADDRESSES):
                file.write(f"{address} pod-{index}.svc pod-{index}\n")
                subprocess.run(on(index, "hostname", f"pod-{index}"), check=True)

    def setUp(self):
        super().setUp()
        self.started, self.numbers = [], 0
        self.secret = os.path.join(self.folder, "secret")
        with open(self.secret, "w", encoding="ascii") as file:
            file.write("0123456789abcdef" * 4)
        self.key = pods.read_secret(self.secret)

    def tearDown(self):
        for process, number in self.started:
            if process.poll() is None:
                os.kill(number(), signal.SIGKILL)
            process.communicate()
        super().tearDown()

    def start(self, index, *words):
        """A process on a host, and what gives its number: all hosts see all processes."""
        self.numbers += 1
        path = os.path.join(self.folder, f"number.{self.numbers}")
        process = subprocess.Popen(on(index, "sh", "-c", f'echo $$ >{path} && exec "$@"', "sh", *words), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=environment())
        self.started.append((process, lambda: self.number_in(path)))
        return self.started[-1]

    def number_in(self, path):
        def number():
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        self.wait_for(lambda: os.path.exists(path) and number(), f"nothing writes {path}")
        return int(number())

    def pod(self, index, *command):
        """All pods run the same line."""
        path = os.pathsep.join([os.path.dirname(program("penstock-run")), os.path.dirname(sys.executable), os.environ["PATH"]])
        words = ["env", f"JOB_COMPLETION_INDEX={index}", f"PATH={path}", sys.executable, PODS, "--job", "pod", "--service", "svc",
                 "--pods", "3", "--secret", self.secret, "--", *command]
        return self.start(index, *words)

    def run_pods(self, *command):
        """How each pod ends, and what pod 0 says."""
        others = [self.pod(index, *command) for index in (1, 2)]
        first = self.pod(0, *command)[0]
        output = first.communicate(timeout=100)[0]
        return [first.returncode, *(other.wait(20) for other, _ in others)], output

    def wait_for(self, condition, what):
        end = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def listens(self, address):
        try:
            pods.socket.create_connection((address, pods.PORT), 5).close()
        except OSError:
            return False
        return True

    def test_run(self):
        settings = [word for key, value in {**self.settings, "delivery.trainers": 6}.items() for word in ("--set", f"{key}={value}")]
        for more in ([], ["--restarts", "1"]):
            with self.subTest(more=more):
                codes, output = self.run_pods("penstock-run", "--verbose", "--hostfile", "/tmp/pods/hosts", *more, *settings, "--",
                                              *self.trainer_command())
                self.assertEqual(codes, [0, 0, 0], output)
                self.assertEqual([name.split(".")[0] for name in self.nodes(output)], ["pod-0", "pod-1", "pod-2"], output)
                self.assert_same_digests()

    def test_ends(self):
        """All pods end with the command's code, and a command on a pod with its own."""
        codes, output = self.run_pods("sh", "-c", '$HYDRA_LAUNCHER_EXEC -x pod-2.svc "hostname; exit 3"; [ $? = 3 ] && exit 5')
        self.assertEqual(codes, [5, 5, 5], output)

    def test_signal(self):
        """Kubernetes signals all pods; the command of pod 0 ends all of them."""
        mark = os.path.join(self.folder, "began")
        script = f"import signal, sys, time; signal.signal(15, lambda *_: sys.exit(6)); open({mark!r}, 'w'); time.sleep(60)"
        every = [self.pod(index, sys.executable, "-c", script) for index in (1, 2)]
        for address in ADDRESSES[1:]:
            self.wait_for(lambda address=address: self.listens(address), "a pod does not listen")
        every.append(self.pod(0, sys.executable, "-c", script))
        self.wait_for(lambda: os.path.exists(mark), "the command does not begin")
        for _, number in every:
            os.kill(number(), signal.SIGTERM)
        self.assertEqual([process.wait(20) for process, _ in every], [6, 6, 6])

    def order(self, secret, number=None, pod="pod-1", **order):
        """What pod 1 answers to an order; None: it hangs up. By a number of another connection, if one is given."""
        with pods.socket.create_connection((ADDRESSES[1], pods.PORT), 5) as connection:
            file = connection.makefile("rb")
            own = file.read(pods.NUMBER_BYTES)
            pods.send(connection, secret, b"order", number or own, {"pod": pod, **order})
            connection.settimeout(20)
            try:
                return pods.receive(file, secret, b"answer", own)
            except ValueError:
                return None

    def test_who_may_order(self):
        follower = self.pod(1, "true")[0]
        mark = os.path.join(self.folder, "mark")
        touch = f"touch {mark}"

        def answers():
            try:
                return self.order(self.key, command="exit 4") == 4
            except OSError:
                return False
        self.wait_for(answers, "an order with the secret is not obeyed")
        self.assertIsNone(self.order(b"another secret, of as many bytes", command=touch))
        self.assertIsNone(self.order(self.key, number=bytes(pods.NUMBER_BYTES), command=touch))
        self.assertIsNone(self.order(self.key, pod="pod-2", command=touch))
        self.assertIsNone(self.order(b"another secret, of as many bytes", end=0))
        with pods.socket.create_connection((ADDRESSES[1], pods.PORT), 5) as connection:
            connection.sendall(b"x" * (pods.LONGEST + 100) + b"\n")
            connection.settimeout(20)
            try:
                while connection.recv(4096):
                    pass
            except ConnectionError:
                pass
        self.assertFalse(os.path.exists(mark))
        self.assertIsNone(follower.poll())
        # Those who connect and say nothing take no place for long, and none of the secret's holders'.
        silent = [pods.socket.create_connection((ADDRESSES[1], pods.PORT), 5) for _ in range(2 * pods.MOST)]
        self.assertEqual(pods.ask("pod-1.svc", self.key, 20, command="exit 4"), 4)
        for connection in silent:
            connection.close()
        self.assertEqual(self.order(self.key, command=touch), 0)
        self.assertTrue(os.path.exists(mark))

    def test_gone(self):
        """A command ends with the agent that has asked for it."""
        self.pod(1, "true")
        number = os.path.join(self.folder, "number")
        agent = self.start(0, sys.executable, PODS, "--agent", self.secret, "pod-1.svc", f"echo $$ >{number}; sleep 60")
        command = f"/proc/{self.number_in(number)}"
        self.assertTrue(os.path.exists(command))
        os.kill(agent[1](), signal.SIGKILL)
        self.wait_for(lambda: not os.path.exists(command), "the command goes on")

    def test_secret(self):
        with open(self.secret, "w", encoding="ascii") as file:
            file.write("short\n")
        outcome = run(on(0, "env", "JOB_COMPLETION_INDEX=0", sys.executable, PODS, "--job", "pod", "--service", "svc", "--pods", "3",
                         "--secret", self.secret, "--", "true"))
        self.assertEqual(outcome.code, 1, outcome.output)
        self.assertIn("has 5 bytes: make one of 32 or more", outcome.output)


if __name__ == "__main__":
    unittest.main()
