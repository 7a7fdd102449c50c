#!/usr/bin/env python3
"""Draws docs/pictures/top.png: a terminal with `penstock top` of a running job on three hosts, made of this machine.

    docs/pictures/top.py BUILD [TEXT]    BUILD/bin has the programs. Needs root (tests/cluster/hosts.sh) and chromium.
                                         TEXT: where to keep what the terminal was sent
"""
import fcntl
import html
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES, COLUMNS, LOOKS = 24, 92, 14
STYLES = {"1;31": "color:#f66;font-weight:bold", "1;33": "color:#fc4;font-weight:bold", "1;32": "color:#6d6;font-weight:bold",
          "31": "color:#f66", "4": "text-decoration:underline"}


def last_screen(sent):
    """The last screen that was drawn whole."""
    return sent.split("\033[H\033[J")[-2]


def as_html(screen):
    body = ""
    for part in re.split("(\033\\[[?0-9;]*[a-zA-Z])", screen):
        found = re.fullmatch("\033\\[([0-9;]*)m", part)
        if found:
            body += "</span>" if found[1] in ("", "0") else f'<span style="{STYLES[found[1]]}">'
        elif not part.startswith("\033"):
            body += html.escape(part.replace("\r", ""))
    return f"""<body style="margin:0;background:#16181d"><pre style="margin:0;padding:14px;color:#ddd;
        font:14px/1.35 'DejaVu Sans Mono',monospace">{body.rstrip()}</pre>"""


def watch(build, run_dir):
    """What `penstock top` sends to a terminal."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    top = subprocess.Popen([os.environ["CLUSTER_RSH"], "h1", build / "bin/penstock", "top", run_dir], stdout=other, stdin=other)
    os.close(other)
    sent = ""
    try:
        while sent.count("\033[H\033[J") <= LOOKS:
            sent += os.read(main, 65536).decode()
    finally:
        os.close(main)  # as if somebody closed the terminal
        top.send_signal(signal.SIGINT)
        top.wait(20)
    return sent


def on_hosts(build, text):
    """On the head node: runs a job on all hosts, and looks."""
    run_dir = "/tmp/penstock-run"
    with tempfile.TemporaryDirectory() as folder:
        dataset = pathlib.Path(folder, "latents.zarr")
        subprocess.run([build / "bin/penstock", "synth", dataset, "--samples", "3000"], check=True, stdout=subprocess.DEVNULL)
        settings = {"dataset.uri": "latents.zarr", "batch.global_size": 96, "order.epochs": 400, "delivery.trainers": 6,
                    "delivery.run_dir": run_dir, "readers.threads": 1, "readers.memory_limit": "120MiB", "order.window_rows": 64}
        command = ["mpirun", "-np", "3", build / "bin/penstock-reader", "--quiet"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        job = subprocess.Popen([*map(str, command), "--", build / "bin/penstock-trainer", "--compute-ms", "25"], cwd=folder,
                               env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        try:
            look = [os.environ["CLUSTER_RSH"], "h1", build / "bin/penstock", "top", run_dir, "--once", "--json"]
            while b'"serving":true' not in subprocess.run(look, capture_output=True, check=False).stdout:
                time.sleep(0.2)
            text.write_text(watch(build, run_dir), encoding="utf-8")
        finally:
            job.send_signal(signal.SIGINT)
            job.wait()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if "CLUSTER_HOSTS" in os.environ:
        on_hosts(build, pathlib.Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else f"{folder}/sent").resolve()
        subprocess.run([ROOT / "tests/cluster/hosts.sh", "with", "3", "--cpus", "h1=0.5,h2=0.5,h3=0.5", "--share", build, "--share",
                        text.parent, "--", sys.executable, __file__, build, text], check=True)
        page = as_html(last_screen(text.read_text(encoding="utf-8")))
    with Browser(820, 400) as browser:
        browser.show(page)
        browser.save(ROOT / "docs/pictures/top.png", 32, height=browser.ask("document.querySelector('pre').offsetHeight"))


if __name__ == "__main__":
    main()
