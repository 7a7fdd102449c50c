"""hosts.sh: hosts have what is theirs and share the rest, and all of it goes, however it ends."""

import glob
import os
import signal
import subprocess
import sys
import time
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts.sh")
TIMEOUT_S = 120
SKIPPED = 77

# Takes one connection on the address given, and reads to its end.
SERVER = """
import socket, sys
connection = socket.create_server((sys.argv[1], 5000)).accept()[0]
while connection.recv(1 << 16): pass
"""
CLIENT = """
import socket, sys, time
for attempt in range(1200):
    try:
        connection = socket.create_connection((sys.argv[1], 5000))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
connection.sendall(bytes(int(sys.argv[2])))
"""
# Processor seconds that a second of work takes.
BURN = """
import time
end = time.monotonic() + 1
while time.monotonic() < end: pass
print(time.process_time())
"""


def hosts_sh(*arguments):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL)


def remains(name):
    """What there is of a cluster: its directory, processes that see it mounted, cgroups."""
    folder = f"/tmp/penstock-cluster.{name}"
    found = glob.glob(folder) + glob.glob(f"/sys/fs/cgroup/**/penstock-cluster.{name}",
                                          recursive=True)
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/mountinfo", encoding="utf-8") as file:
                if f" {folder} " in file.read():
                    found.append(path)
        except OSError:
            continue
    return found


class HostsTest(unittest.TestCase):
    def setUp(self):
        self.name = f"test-{os.getpid()}-{self._testMethodName[-8:]}"

    def tearDown(self):
        if os.path.exists(f"/tmp/penstock-cluster.{self.name}"):
            hosts_sh("down", "--name", self.name)

    def hosts(self, *arguments, expect=0):
        done = hosts_sh(*arguments)
        if done.returncode == SKIPPED and expect != SKIPPED:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def up(self, count, *options):
        self.hosts("up", str(count), "--name", self.name, *options)

    def on(self, host, *command, expect=0):
        return self.hosts("on", "--name", self.name, host, *command, expect=expect)


class Hosts(HostsTest):
    """What is private to a host and what is not."""

    def test_names_and_addresses(self):
        before = os.uname().nodename
        self.up(3)
        lines = self.hosts("all", "--name", self.name, "hostname").split("\n")
        self.assertEqual(sorted(filter(None, lines)), ["h1: h1", "h2: h2", "h3: h3"])
        self.assertEqual(self.on("head", "getent", "hosts", "h3").split(), ["10.77.0.13", "h3"])
        self.assertEqual(os.uname().nodename, before)

    def test_no_way_out(self):
        before = os.listdir("/sys/class/net")
        self.up(1)
        self.assertEqual(os.listdir("/sys/class/net"), before)
        for host in ("h1", "head"):
            routes = self.on(host, "ip", "-4", "route").split("\n")
            self.assertEqual([line.split()[0] for line in routes if line], ["10.77.0.0/24"])
        self.assertEqual(sorted(self.on("h1", "ls", "/sys/class/net").split()), ["eth0", "lo"])

    def test_private_directories_last_as_long_as_the_host(self):
        self.up(2)
        for folder in ("/dev/shm", "/tmp"):
            path = os.path.join(folder, self.name)
            self.on("h1", "touch", path)
            self.on("h1", "test", "-e", path)
            self.on("h2", "test", "-e", path, expect=1)
            self.on("head", "test", "-e", path, expect=1)
            self.assertFalse(os.path.exists(path))

    def test_shared_directories(self):
        self.up(2)
        self.on("h1", "sh", "-c", "echo shared >$TMPDIR/file")
        self.assertEqual(self.on("h2", "sh", "-c", "cat $TMPDIR/file"), "shared\n")
        self.on("h2", "cmp", SCRIPT, f"/proc/{os.getpid()}/root{SCRIPT}")

    def test_rsh_is_like_ssh(self):
        self.up(1)
        self.assertEqual(self.on("head", "sh", "-c", "MARK=set $CLUSTER_RSH h1 hostname '$MARK;' "
                                 "'echo \"<$MARK>\"'"), "h1\n<>\n")

    def test_two_clusters_do_not_meet(self):
        self.up(1)
        self.assertEqual(self.hosts("with", "2", "--", "hostname"), "head\n")
        self.assertEqual(self.on("h1", "hostname"), "h1\n")

    def test_a_host_is_lost(self):
        self.up(2)
        server = subprocess.Popen([SCRIPT, "on", "--name", self.name, "h2", "sleep", "100"])
        self.hosts("lose", "--name", self.name, "h2")
        self.assertEqual(server.wait(TIMEOUT_S), -signal.SIGKILL)
        self.on("h2", "true", expect=1)
        self.assertEqual(self.on("h1", "hostname"), "h1\n")
        self.assertNotIn("h2", self.on("head", "ip", "link"))
        self.hosts("lose", "--name", self.name, "h2", expect=2)
        self.hosts("down", "--name", self.name)
        self.assertEqual(remains(self.name), [])

    def test_no_cluster_in_a_cluster(self):
        self.up(1)
        self.on("head", SCRIPT, "up", "1", expect=1)


class Limits(HostsTest):
    """Links and processors that are slower than the machine's, and less memory."""

    def test_rate(self):
        self.up(2, "--rate", "300mbit")
        self.assertIn("tbf", self.on("head", "tc", "qdisc", "show", "dev", "h2"))
        sent = 8 << 20
        server = subprocess.Popen([SCRIPT, "on", "--name", self.name, "h2", sys.executable, "-c",
                                   SERVER, "10.77.0.12"])
        self.on("h1", sys.executable, "-c", CLIENT, "10.77.0.12", str(sent))
        self.assertEqual(server.wait(TIMEOUT_S), 0)
        # Out of one host, and in at the other, the bytes have passed a filter of that rate.
        for link in (("h1", "eth0"), ("head", "h2")):
            shown = self.on(link[0], "tc", "-s", "qdisc", "show", "dev", link[1])
            self.assertIn("rate 300Mbit", shown)
            self.assertGreater(int(shown.split(" Sent ")[1].split()[0]), sent)

    def test_cpus(self):
        self.up(2, "--cpus", "h1=0.25")
        self.assertLess(float(self.on("h1", sys.executable, "-c", BURN)), 0.5)
        self.assertLess(float(self.on("head", "sh", "-c",
                                      f"$CLUSTER_RSH h1 \"{sys.executable} -c '{BURN}'\"")), 0.5)
        self.assertIn(f"penstock-cluster.{self.name}/h1", self.on("h1", "cat", "/proc/self/cgroup"))
        self.assertNotIn("penstock-cluster", self.on("h2", "cat", "/proc/self/cgroup"))
        self.hosts("down", "--name", self.name)
        self.assertEqual(remains(self.name), [])


    def test_memory(self):
        self.up(2, "--memory", "h1=64M", "--cpus", "h1=1")
        take = ("sh", "-c", f"{sys.executable} -c 'bytearray(100 << 20)' || echo no")
        self.assertEqual(self.on("h1", *take).split()[-1:], ["no"])
        self.assertEqual(self.on("h2", *take), "")
        self.on("h1", "grep", f":memory:/penstock-cluster.{self.name}/h1$\\|::/penstock", "/proc/self/cgroup")
        self.hosts("down", "--name", self.name)
        self.assertEqual(remains(self.name), [])


class Ends(HostsTest):
    """All goes, and the exit code stays."""

    # Leaves a process on a host that does not hear, and tells that it is there.
    STUBBORN = ("$CLUSTER_RSH h1 'trap \"\" TERM HUP INT; setsid sleep 1000 & "
                "touch $TMPDIR/started; wait; wait' & wait")

    def with_two(self, *command):
        return ("with", "2", "--name", self.name, "--", *command)

    def killed(self, number):
        """The exit code of a script that gets a signal while a stubborn process runs on a host."""
        script = subprocess.Popen(["env", "--default-signal", SCRIPT,
                                   *self.with_two("sh", "-c", self.STUBBORN)],
                                  stderr=subprocess.DEVNULL)
        started = f"/tmp/penstock-cluster.{self.name}/tmp/started"
        deadline = time.monotonic() + TIMEOUT_S
        while not os.path.exists(started) and script.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        script.send_signal(number)
        return script.wait(TIMEOUT_S)

    def test_success(self):
        self.hosts(*self.with_two("sh", "-c", "$CLUSTER_RSH h1 'setsid sleep 1000 >&- 2>&- &'"))
        self.assertEqual(remains(self.name), [])

    def test_failure(self):
        self.hosts(*self.with_two("sh", "-c", "exit 3"), expect=3)
        self.assertEqual(remains(self.name), [])

    def test_command_that_is_not_there(self):
        self.hosts(*self.with_two("/nowhere"), expect=127)
        self.assertEqual(remains(self.name), [])

    def test_sigterm(self):
        self.assertEqual(self.killed(signal.SIGTERM), 128 + signal.SIGTERM)
        self.assertEqual(remains(self.name), [])

    def test_sigint(self):
        self.assertEqual(self.killed(signal.SIGINT), 128 + signal.SIGINT)
        self.assertEqual(remains(self.name), [])

    def test_sigkill(self):
        """What it leaves is known to be nobody's."""
        self.assertEqual(self.killed(signal.SIGKILL), -signal.SIGKILL)
        self.hosts("down", "--dead")
        self.assertEqual(remains(self.name), [])

    def test_refusals(self):
        for arguments in (("with", "0", "--", "true"), ("with", "2"), ("up", "2", "--rate", "fast"),
                          ("up", "2", "--cpus", "h3=1", "--name", self.name),
                          ("up", "2", "--memory", "h1=lots"), ("up", "2", "--memory", "h3=1G", "--name", self.name),
                          ("up", "2", "--name", "../x"), ("up", "2", "--what", "1"), ("what",)):
            with self.subTest(arguments=arguments):
                self.hosts(*arguments, expect=2)
        self.assertEqual(remains(self.name), [])
        self.hosts("on", "--name", self.name, "h1", "true", expect=1)


if __name__ == "__main__":
    probe = hosts_sh("with", "1", "--", "true")
    if probe.returncode == SKIPPED:
        print(probe.stderr)
        sys.exit(SKIPPED)
    unittest.main()
