#!/usr/bin/env python3
"""Runs a trainer, and notes what its host's network interfaces counted meanwhile.

    host_counters.py FILE [--read FOLDER] COMMAND...

Writes to FILE, with {rank} replaced by RANK, the host's name, and of the interface that moved most: its name, the bytes
sent and received (frames, with all headers), its speed in Mbit/s if it knows one, and its MTU. Reads all files of FOLDER
before the trainer starts. Readers wait for their trainers, so that the first epoch finds the files in the page cache.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

from jobs import read_files


def number(path):
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def counters():
    """Bytes sent and received by each interface."""
    found = {}
    for interface in pathlib.Path("/sys/class/net").iterdir():
        sent, received = (number(interface / "statistics" / name) for name in ("tx_bytes", "rx_bytes"))
        if interface.name != "lo" and sent is not None and received is not None:
            found[interface.name] = (sent, received)
    return found


def main():
    path, command = sys.argv[1].replace("{rank}", os.environ.get("RANK", "0")), sys.argv[2:]
    if command[0] == "--read":
        read_files(pathlib.Path(command[1]))
        command = command[2:]
    before = counters()
    with subprocess.Popen(command) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        code = child.wait()
    moved = [(sent - before[name][0], received - before[name][1], name)
             for name, (sent, received) in counters().items() if name in before]
    sent, received, name = max(moved, key=lambda one: one[0] + one[1], default=(0, 0, None))
    interface = pathlib.Path("/sys/class/net") / str(name)
    speed = number(interface / "speed")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"node": socket.gethostname(), "interface": name, "sent_bytes": sent,
                   "received_bytes": received, "speed_mbit": speed if speed and speed > 0 else None,
                   "mtu": number(interface / "mtu")}, file)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
