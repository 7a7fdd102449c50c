"""Metrics: a real scrape of a running job against its report, causes of waits, files, refusals."""

import fcntl
import glob
import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.parse

from job import TIMEOUT_S, JobTest, environment, launcher_passes_last_words, leftovers, program

HAS_FAULTS = os.environ.get("PENSTOCK_HAS_FAULTS") == "1"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLD = os.path.join(ROOT, "tests", "mpi", "hold_trainer.py")
CAUSES = ("storage", "decode", "memory", "network", "trainers", "planning")


def parse(text):
    """Series of Prometheus' text: {'name{labels}': value}; a series that is there twice is an error."""
    series = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            if name in series:
                raise AssertionError(f"twice: {name}")
            series[name] = float(value)
    return series


def get(address, path="/metrics", method="GET", body=None):
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


class MetricsTest(JobTest):
    def setUp(self):
        super().setUp()
        self.run_dir = os.path.join(self.folder, "run")

    def begin(self, readers, trainers, settings, work=0, env=None, options=()):
        """Starts a job whose trainers wait with their last batch behind them. Returns its thread, and where its outcome goes."""
        settings = {"delivery.trainers": trainers, "delivery.run_dir": self.run_dir, **settings}
        self.found = found = []
        more = {"PYTHONPATH": os.path.join(ROOT, "python"), **(env or {})}

        def work_on():
            found.append(self.reader(readers, settings, (sys.executable, HOLD, self.folder, str(work)),
                                     options, env=environment(**more)))
        thread = threading.Thread(target=work_on)
        thread.start()
        return thread, found

    def await_all(self, trainers, thread):
        """Until all trainers have their last batch, and the pages of the readers say so. Returns what they waited."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(glob.glob(os.path.join(self.folder, "done.*"))) < trainers:
            if not thread.is_alive() or time.monotonic() > deadline:
                self.end(thread)
                self.fail(f"the trainers do not come to their last batch: {self.found[0].output}")
            time.sleep(0.02)
        time.sleep(0.6)  # pages are a quarter of a second old at most
        waited = {}
        for path in glob.glob(os.path.join(self.folder, "done.*")):
            with open(path, encoding="ascii") as file:
                waited[int(path.rsplit(".", 1)[1])] = float(file.read())
        return waited

    def end(self, thread):
        with open(os.path.join(self.folder, "go"), "w", encoding="ascii"):
            pass
        thread.join()

    def addresses(self):
        """Of the readers in the run directory, by their rank."""
        found = {}
        for path in glob.glob(os.path.join(self.run_dir, "reader-*.json")):
            with open(path, encoding="ascii") as file:
                [target] = json.load(file)
            found[int(path.rsplit("-", 1)[1][:-5])] = target["targets"][0]
        return found

    def observe(self, readers, trainers, settings, **more):
        """Runs a job and scrapes every reader when all is delivered: series of all readers, waits of trainers, report."""
        report = os.path.join(self.folder, "report.json")
        before = leftovers()
        thread, found = self.begin(readers, trainers, {"metrics.listen": "127.0.0.1:0", **settings},
                                   options=["--report", report], **more)
        try:
            waited = self.await_all(trainers, thread)
            addresses = self.addresses()
            texts = {reader: get(address)[2] for reader, address in addresses.items()}
        finally:
            self.end(thread)
        self.assertEqual(found[0].code, 0, found[0].output)
        self.assertEqual(sorted(texts), list(range(readers)))
        self.assert_nothing_left(before, found[0])
        self.assertFalse(os.path.exists(self.run_dir))
        with open(report, encoding="ascii") as file:
            return texts, waited, json.load(file)

    def blocked(self, series, reader=0):
        return {cause: series[f'penstock_blocked_seconds_total{{reader="{reader}",on="{cause}"}}'] for cause in CAUSES}


class Scrape(MetricsTest):
    def test_is_what_the_report_says(self):
        uri = self.synth("demo.zarr", 600)
        readers, trainers, epochs = 2, 3, 2
        texts, waited, report = self.observe(readers, trainers, {
            "dataset.uri": uri, "batch.global_size": 60, "order.epochs": epochs, "readers.threads": 2, "order.seed": 5,
            "delivery.slots": 4})
        all_series = {reader: parse(text) for reader, text in texts.items()}
        samples = {"store_read_bytes_total": "stored_bytes", "decoded_bytes_total": "decoded_bytes",
                   "exchange_sent_bytes_total": "sent_bytes", "rows_read_total": "rows_read"}
        for reader, series in all_series.items():
            told = report["readers"][reader]
            for name, value in told["metrics"].items():
                bare, _, label = name.partition("{")
                key = f'penstock_{bare}{{reader="{reader}"' + ("," + label if label else "}")
                if bare == "cpu_seconds_total":
                    self.assertLessEqual(series[key], value)
                elif bare.startswith("blocked"):
                    self.assertAlmostEqual(series[key], value, delta=0.5)
                elif not bare.endswith("_seconds_total"):
                    self.assertEqual(series[key], value, key)
            for name, member in samples.items():
                self.assertEqual(series[f'penstock_{name}{{reader="{reader}"}}'],
                                 sum(epoch[member] for epoch in told["epochs"]), name)
            self.assertIn(f'dataset="{uri}"', texts[reader])
        total = sum(series[f'penstock_samples_delivered_total{{reader="{reader}"}}'] for reader, series in all_series.items())
        self.assertEqual(total, epochs * 600)
        self.assertEqual(total, sum(epoch["samples"] for epoch in report["epochs"]))
        self.look_at_trainers(all_series, waited, steps=epochs * 10)

    def look_at_trainers(self, all_series, waited, steps):
        """Each trainer is one reader's, has taken all steps, and waited as long as it says itself."""
        for rank, own in waited.items():
            name = f'rank="{rank}"'
            at = [(series, reader) for reader, series in all_series.items()
                  if f'penstock_trainer_batches_total{{reader="{reader}",{name}}}' in series]
            self.assertEqual(len(at), 1)
            series, reader = at[0]

            def value(metric, more=""):
                return series[f'penstock_{metric}{{reader="{reader}",{name}{more}}}']
            self.assertEqual(value("trainer_batches_total"), steps)
            self.assertEqual(value("trainer_wait_seconds_count"), steps)
            self.assertEqual(value("trainer_wait_seconds_bucket", ',le="+Inf"'), steps)
            self.assertLessEqual(value("trainer_wait_seconds_sum"), own + 0.01)
            self.assertGreater(value("trainer_wait_seconds_sum"), own / 2 - 0.05)
            self.assertEqual(value("ring_ready_slots"), 0)
            self.assertEqual(value("ring_held_slots"), 0)
            self.assertEqual(value("ring_slots"), 4)
            self.assertAlmostEqual(value("trainer_last_release_timestamp_seconds"), time.time(), delta=TIMEOUT_S)

    def test_passes_promtool(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is not there (Debian: prometheus)")
        uri = self.synth("demo.zarr", 600)
        texts, _, _ = self.observe(1, 1, {"dataset.uri": uri, "batch.global_size": 60})
        checked = subprocess.run(["promtool", "check", "metrics"], input=texts[0], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertEqual(checked.stdout + checked.stderr, "")

    def test_answers_nothing_else(self):
        uri = self.synth("demo.zarr", 600)
        thread, found = self.begin(1, 1, {"dataset.uri": uri, "batch.global_size": 60, "metrics.listen": "127.0.0.1:0"})
        try:
            self.await_all(1, thread)
            address = self.addresses()[0]
            host, port = address.split(":")
            silent = [socket.create_connection((host, int(port)), timeout=20) for _ in range(4)]
            silent[0].sendall(b"GET /metr")
            silent[1].sendall(b"\0\xff\r\n\r\n" * 1000)
            status, headers, text = get(address)
            self.assertEqual(status, 200)
            self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            self.assertEqual(get(address, method="HEAD")[::2], (200, ""))
            self.assertEqual(get(address, "/")[0], 200)
            self.assertEqual(get(address, "/etc/passwd")[0], 404)
            self.assertEqual(get(address, method="POST", body="x" * 100000)[0], 405)
            self.assertEqual(len(parse(get(address)[2])), len(parse(text)))
            for connection in silent:
                connection.close()
        finally:
            self.end(thread)
        self.assertEqual(found[0].code, 0, found[0].output)


class Causes(MetricsTest):
    """What is waited for, and by whom."""

    @unittest.skipUnless(HAS_FAULTS, "built without the fault-injecting store")
    def test_a_slow_store_is_storage_and_trainers_wait(self):
        uri = self.synth("small.zarr", 160)
        texts, waited, _ = self.observe(1, 1, {"dataset.uri": uri, "batch.global_size": 16, "readers.threads": 1},
                                        env={"PENSTOCK_FAULTS": "seed=1,delay=1,delay_ms=5"})
        series = parse(texts[0])
        blocked = self.blocked(series)
        self.assertEqual(max(blocked, key=blocked.get), "storage", blocked)
        self.assertGreater(blocked["storage"], 0.5)
        self.assertGreater(series['penstock_trainer_wait_seconds_sum{reader="0",rank="0"}'], 0.5 * waited[0])
        self.assertGreater(waited[0], 0.5)

    def test_a_slow_trainer_does_not_wait(self):
        uri = self.synth("small.zarr", 160)
        work, epochs = 0.05, 4
        texts, _, _ = self.observe(1, 1, {"dataset.uri": uri, "batch.global_size": 16, "order.epochs": epochs}, work=work)
        series = parse(texts[0])
        blocked = self.blocked(series)
        self.assertEqual(max(blocked, key=blocked.get), "trainers", blocked)
        self.assertGreater(blocked["trainers"], 0.5)
        # The first batch is waited for; after that slots are full. Half of all steps leave room for a busy machine.
        ready = series['penstock_trainer_wait_seconds_bucket{reader="0",rank="0",le="0.001"}']
        self.assertGreater(ready, epochs * 10 / 2)


class Top(MetricsTest):
    """`penstock top` of a running job."""

    def top(self, *options, **env):
        return subprocess.run([program("penstock"), "top", self.run_dir, *options], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False, env=environment(**env))

    def on_terminal(self, lines, columns, **env):
        """What the full screen is sent until the run is told to end, and its exit code."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        process = subprocess.Popen([program("penstock"), "top", self.run_dir], stdout=other, env=environment(**env))
        os.close(other)
        sent = b""
        while sent.count(b"reader  node") < 2:
            sent += os.read(main, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while more := os.read(main, 65536):
                sent += more
        except OSError:  # the other end is closed
            pass
        os.close(main)
        return sent.decode(), process.wait(timeout=TIMEOUT_S)

    def test_shows_a_job_that_does_not_wait(self):
        uri = self.synth("small.zarr", 160)
        thread, found = self.begin(1, 2, {"dataset.uri": uri, "batch.global_size": 16, "order.epochs": 20}, work=0.1)
        try:
            while not (thread.is_alive() and os.path.exists(self.run_dir) and
                       self.top("--once", "--json").stdout.count('"serving":true') == 1):
                self.assertTrue(thread.is_alive(), self.found)
            looked = json.loads(self.top("--once", "--json").stdout)
            plain = self.top("--once")
            listed, table = self.listed("--json"), self.listed()
            screen, code = self.on_terminal(24, 80, NO_COLOR="1")
            colored, _ = self.on_terminal(50, 200)
        finally:
            self.end(thread)
        self.assertEqual(found[0].code, 0, found[0].output)
        mine = next(run for run in json.loads(listed)["runs"] if run["run_dir"] == self.run_dir)
        self.assertEqual((mine["readers"], mine["readers_here"], mine["trainers"], mine["run"]), (1, 1, 2, ""), mine)
        self.assertEqual((mine["pid"], mine["dataset"]), (looked["readers"][0]["pid"], looked["readers"][0]["dataset"]), mine)
        self.assertRegex(table, rf"(?m)^{self.run_dir} +{mine['pid']} +0:\d\d +1 \(1\) +\d/2 +.*small.zarr$")
        self.assertRegex(table, r"(?m)^next: penstock top /")
        [rates], [reader] = looked["rates"], looked["readers"]
        self.assertEqual(max(rates["blocked"], key=rates["blocked"].get), "trainers", rates)
        self.assertEqual(sorted(rates["waits"]), ["0", "1"])
        self.assertLess(looked["verdict"]["wait"], 0.5)
        self.assertEqual(reader["metrics"]["epochs"], 20)
        self.assertEqual([trainer["rank"] for trainer in reader["trainers"]], [0, 1])
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertRegex(plain.stdout, r"epoch \d+ of 20, step \d+ of 10 ")
        self.assertIn("trainer  reader  batches/s", plain.stdout)
        self.assertEqual(code, 0)
        self.assertNotRegex(screen, "\033\\[[0-9;]*m")
        self.assertRegex(colored, "\033\\[[0-9;]*m")
        self.assertTrue(screen.endswith("\033[?25h\033[?1049l"), repr(screen[-60:]))
        for line in re.sub("\033\\[[?0-9;]*[a-zA-Z]", "", screen).splitlines():
            self.assertLessEqual(len(line), 80)
        self.assertNotIn("memory/s", screen)
        self.assertIn("memory/s", colored)

    def listed(self, *options):
        """The runs of this user: that of the test, one more that is made up of a lock and a socket, and whatever else runs."""
        with tempfile.TemporaryDirectory(prefix="penstock-", dir="/tmp") as other, open(f"{other}/reader-0.lock", "w") as lock:
            open(f"{other}/reader-0.sock", "w").close()
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            shown = subprocess.run([program("penstock"), "top", *options], capture_output=True, text=True, timeout=TIMEOUT_S,
                                   env=environment(PENSTOCK_RUN_DIR=self.run_dir))
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn(other, shown.stdout)
            return shown.stdout

    def test_says_when_there_is_nothing(self):
        looked = self.top("--once")
        self.assertEqual(looked.returncode, 1)
        self.assertIn(f"there is no run directory '{self.run_dir}': the run has ended, or has another", looked.stderr)
        os.mkdir(self.run_dir, 0o700)
        looked = self.top("--once")
        self.assertEqual(looked.returncode, 1)
        self.assertIn("no reader of this node runs here", looked.stderr)
        os.chmod(self.run_dir, 0o755)
        looked = self.top("--once")
        self.assertIn("is open to others (mode 0755); no run has made it so", looked.stderr)

    def test_epochs_without_an_end(self):
        """And the reader of the screen goes away: top ends, and the run goes on."""
        screens = []

        def look():
            shown = self.top("--once")
            main, other = pty.openpty()
            process = subprocess.Popen([program("penstock"), "top", self.run_dir], stdout=other, stderr=subprocess.DEVNULL,
                                       env=environment())
            os.close(other)
            os.close(main)
            screens.append(shown.stdout)
            return process.wait(timeout=TIMEOUT_S) is not None and "samples/s" in shown.stdout
        outcome = self.reader(1, {"dataset.uri": self.synth("small.zarr", 160), "batch.global_size": 16, "order.epochs": 0,
                                  "delivery.trainers": 1, "delivery.run_dir": self.run_dir}, ["--compute-ms", "20"],
                              send=(look, signal.SIGINT))
        if launcher_passes_last_words():
            self.assertRegex(outcome.output, "stopped by SIG(INT|TERM)")  # in good order, if half a second is enough
        self.assertRegex(screens[-1], r"epoch \d+, step \d+ of 10 ")


class Dashboard(MetricsTest):
    """The dashboard's queries: of metrics that there are, and answered by a real Prometheus."""

    def queries(self):
        with open(os.path.join(ROOT, "launch", "grafana", "penstock.json"), encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]

    def test_names_are_in_the_table(self):
        with open(os.path.join(ROOT, "docs", "run", "metrics.md"), encoding="utf-8") as file:
            known = set(re.findall(r"^\| `(penstock_\w+)", file.read(), re.MULTILINE))
        used = {name for _, query in self.queries() for name in re.findall(r"penstock_\w+", query)}
        self.assertGreater(len(used), 15)
        self.assertEqual({re.sub(r"(seconds)_(bucket|sum|count)$", r"\1", name) for name in used} - known, set())

    def prometheus(self):
        """A server of our own on the loopback, that finds readers as docs/run/metrics.md says. Returns it, and its address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        path = os.path.join(self.folder, "prometheus.yml")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: penstock
    file_sd_configs: [{{files: ["{self.run_dir}/reader-*.json"]}}]
""")
        log = open(os.path.join(self.folder, "prometheus.log"), "w", encoding="utf-8")
        with log:
            return subprocess.Popen(["prometheus", f"--config.file={path}", f"--web.listen-address={address}",
                                     f"--storage.tsdb.path={self.folder}/tsdb", "--log.level=warn"],
                                    stdout=log, stderr=log), address

    def ask(self, address, query):
        status, _, text = get(address, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        self.assertEqual(status, 200, f"{query}: {text}")
        return json.loads(text)["data"]["result"]

    def test_prometheus_answers_every_query(self):
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is not there (Debian: prometheus)")
        uri = self.synth("small.zarr", 160)
        thread, found = self.begin(2, 2, {"dataset.uri": uri, "batch.global_size": 16, "order.epochs": 100,
                                          "metrics.listen": "127.0.0.1:0"}, work=0.02)
        server = None
        try:
            while thread.is_alive() and len(self.addresses()) < 2:
                time.sleep(0.05)
            server, address = self.prometheus()
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline and server.poll() is None:
                try:
                    if get(address, "/-/ready")[0] == 200 and len(
                            self.ask(address, "rate(penstock_samples_delivered_total[20s]) > 0")) == 2:
                        break
                except OSError:  # it has not begun to listen
                    pass
                time.sleep(0.2)
            answers = {}
            for title, query in self.queries():
                filled = query.replace("$__rate_interval", "20s").replace('"$job"', '".*"')
                answers[title, query] = self.ask(address, filled)
        finally:
            if server:
                server.terminate()
                server.wait()
            self.end(thread)
        self.assertEqual(found[0].code, 0, found[0].output)
        for (title, query), answer in answers.items():
            self.assertGreater(len(answer), 0, f"{title}: nothing for {query}")
            for series in answer:
                self.assertNotIn("Inf", series["value"][1], f"{title}: {query}")


class Files(MetricsTest):
    def test_textfile_is_there_while_the_run_is(self):
        uri = self.synth("demo.zarr", 600)
        out = os.path.join(self.folder, "out")
        os.mkdir(out)
        thread, found = self.begin(2, 2, {"dataset.uri": uri, "batch.global_size": 60,
                                          "metrics.file": os.path.join(out, "p-{rank}.prom")})
        try:
            self.await_all(2, thread)
            self.assertEqual(self.addresses(), {})  # nobody listens unless asked
            names = sorted(os.listdir(out))
            texts = []
            for name in names:
                with open(os.path.join(out, name), encoding="utf-8") as file:
                    texts.append(file.read())
        finally:
            self.end(thread)
        self.assertEqual(found[0].code, 0, found[0].output)
        self.assertEqual(names, ["p-0.prom", "p-1.prom"])
        self.assertEqual(len({*parse(texts[0]), *parse(texts[1])}), len(parse(texts[0])) + len(parse(texts[1])))
        self.assertEqual(os.listdir(out), [])

    def refused(self, readers, settings, *words):
        outcome = self.reader(readers, {"dataset.uri": self.synth("demo.zarr", 600), "batch.global_size": 60,
                                        "delivery.run_dir": self.run_dir, **settings}, [])
        self.assertNotEqual(outcome.code, 0, outcome.output)
        for word in words:
            self.assertIn(word, outcome.output)
        self.assertFalse(os.path.exists(self.run_dir))

    def refuse_what_is_no_file(self):
        """None of them is removed, and a pipe that nobody reads does not stop the job."""
        pipe, link = os.path.join(self.folder, "pipe"), os.path.join(self.folder, "link")
        os.mkfifo(pipe)
        os.symlink("pipe", link)
        for path in (pipe, link, self.folder):
            self.refused(1, {"metrics.file": path}, f"metrics.file '{path}' is no regular file")
            self.assertTrue(os.path.lexists(path))

    def test_refusals_say_what_to_do(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            port = taken.getsockname()[1]
            self.refused(1, {"metrics.listen": f"127.0.0.1:{port}"}, f"metrics.listen: cannot listen at 127.0.0.1:{port}",
                         "Address already in use", "choose another port, or 0")
        self.refused(1, {"metrics.file": "/nowhere/at/all.prom"}, "metrics.file: ", "/nowhere/at/")
        self.refuse_what_is_no_file()
        self.refused(2, {"metrics.file": os.path.join(self.folder, "one.prom")}, "the 2 readers of node", "{rank}")


if __name__ == "__main__":
    unittest.main()
