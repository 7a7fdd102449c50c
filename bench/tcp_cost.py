#!/usr/bin/env python3
"""Processor time that a plain TCP connection between two hosts takes, for each byte sent or received.

    tcp_cost.py FILE RECORD_BYTES RECORDS        started once on each of two hosts

The hosts meet through FILE, which both see. Each prints one JSON object. Only the standard library is used.
"""
import json
import os
import pathlib
import socket
import sys
import time

PATIENCE_S = 30


def receive(path, record, count):
    with socket.create_server((socket.gethostname(), 0)) as server:
        part = path.with_suffix(".part")
        part.write_text(f"{socket.gethostname()} {server.getsockname()[1]}", encoding="ascii")
        part.rename(path)
        server.settimeout(PATIENCE_S)
        connection, _ = server.accept()
    path.unlink()
    buffer = bytearray(record)
    start = time.process_time()
    with connection:
        for _ in range(count):
            if connection.recv_into(buffer, record, socket.MSG_WAITALL) != record:
                raise OSError("the connection has ended early")
    return time.process_time() - start


def send(path, record, count):
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} does not come")
        time.sleep(0.02)
    host, port = path.read_text(encoding="ascii").split()
    buffer = bytes(record)
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        start = time.process_time()
        for _ in range(count):
            connection.sendall(buffer)
        return time.process_time() - start


def main():
    path, record, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rank = next(os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
                if name in os.environ)
    seconds = (receive if rank == "0" else send)(path, record, count)
    print(json.dumps({"seconds_per_byte": seconds / record / count}))


if __name__ == "__main__":
    main()
