"""The log: as JSON lines, and the line of progress on a terminal."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
import unittest

from job import TIMEOUT_S, JobTest, environment, program


class Log(JobTest):
    def settings(self, **more):
        return {"dataset.uri": self.synth("demo.zarr", 600), "batch.global_size": 60, "delivery.trainers": 2,
                **{key.replace("__", "."): value for key, value in more.items()}}

    def objects(self, outcome):
        """Every line that is an object: MPI's launcher adds lines of its own when a run fails."""
        return [json.loads(line) for line in outcome.output.splitlines() if line.startswith("{")]

    def test_json_lines_say_what_text_does(self):
        outcome = self.reader(2, self.settings(order__epochs=2), [], ["--log", "json"])
        self.assertEqual(outcome.code, 0, outcome.output)
        lines = self.objects(outcome)
        self.assertEqual(len(lines), len(outcome.output.splitlines()), outcome.output)
        for line in lines:
            self.assertEqual(list(line), ["program", "time", "level", "rank", "host", "message"])
            self.assertEqual(line["program"], "penstock-reader")
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(line["rank"], 0)
        delivered = [line["message"] for line in lines if re.match(r"epoch \d delivered: 600 samples", line["message"])]
        self.assertEqual(len(delivered), 2)
        for message in delivered:  # of less than 50 ms there is no rate
            seconds, rate = re.search(r"samples in ([\d.]+) s(?:, ([\d,]+) samples/s)?$", message).groups()
            self.assertTrue((float(seconds) > 0.05) == (rate is not None) or seconds == "0.05", message)
        rows = [line["message"].split() for line in lines if re.match(r" +\d ", line["message"])]
        self.assertEqual(len(rows), 2, outcome.output)
        for row in rows:
            self.assertTrue((float(row[3]) > 0.05) == (row[4:6] != ["-", "-"]) or row[3] == "0.05", row)

    def test_levels(self):
        outcome = self.reader(1, self.settings(dataset__uri="/nowhere/at/all.zarr"), [], ["--log", "json"])
        self.assertNotEqual(outcome.code, 0, outcome.output)
        [error] = [line for line in self.objects(outcome) if line["level"] == "error"]
        self.assertIn("/nowhere/at/all.zarr", error["message"])
        self.assertNotIn("penstock-reader", error["message"])
        outcome = self.reader(1, self.settings(), [], ["--log", "xml"])
        self.assertIn("--log 'xml': neither text nor json", outcome.output)

    def test_progress_on_a_terminal_is_of_the_epoch(self):
        """Without mpirun, which would take the terminal away. The line comes after two seconds."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        command = [program("penstock-reader")]
        for key, value in self.settings(batch__global_size=20, delivery__trainers=1, order__epochs=1).items():
            command += ["--set", f"{key}={value}"]
        started = time.monotonic()
        process = subprocess.Popen([*command, "--", program("penstock-trainer"), "--compute-ms", "150"], stderr=other,
                                   stdin=subprocess.DEVNULL, env=environment(), cwd=self.folder)
        os.close(other)
        sent = b""
        try:
            while more := os.read(main, 65536):
                sent += more
        except OSError:  # nobody has the other end any more
            pass
        os.close(main)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0, sent)
        lines = re.findall(r"\repoch 0 of 1 \[[#.]{24}\] +\d+% (\d+) of 30 steps, [\d.]+ \w+/s, (\d+) s left\x1b\[K", sent.decode())
        self.assertGreater(len(lines), 0, sent)
        self.assertLess(len(lines), time.monotonic() - started - 1, "more than once a second")


if __name__ == "__main__":
    unittest.main()
