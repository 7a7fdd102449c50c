#!/usr/bin/env python3
"""Reaches the pods of an Indexed Job without ssh. All pods run the same line:

    pods.py --job NAME --service SERVICE --pods N --secret FILE -- penstock-run --hostfile /tmp/pods/hosts ... -- train.py

Pod 0 writes the names of all pods to /tmp/pods/hosts and runs the command. mpirun and mpiexec in it reach a pod by
/tmp/pods/agent instead of ssh. The others wait for orders, until pod 0 says how the command has ended.

The port gives nothing to those who do not know the secret. A pod draws a number for each connection; an order has an HMAC of the
secret over this number, so that none is forged, changed or used again, and names the pod that it is for. So has the answer.
Orders can be read by others, and have no values of variables. MPI's own ports are as open as ever: let a NetworkPolicy keep a
job's pods to themselves. If pod 0 is gone, the Job has failed, and Kubernetes ends the others.
"""

import argparse
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

PORT, FOLDER = 8465, "/tmp/pods"
NUMBER_BYTES, MARK_BYTES, LONGEST, MOST = 32, 32, 1 << 20, 64
GREETING_S, PATIENCE_S = 10, 300  # for an order; for pods that are not there yet


def mark(secret, what, number, body):
    return hmac.digest(secret, what + number + body, hashlib.sha256)


def receive(file, secret, what, number):
    """The next line, of one that knows the secret; ValueError: of another."""
    given, body = file.read(MARK_BYTES), file.readline(LONGEST)
    if not body.endswith(b"\n") or not hmac.compare_digest(given, mark(secret, what, number, body)):
        raise ValueError("it does not know the secret")
    return json.loads(body)


def send(connection, secret, what, number, value):
    body = json.dumps(value).encode() + b"\n"
    connection.sendall(mark(secret, what, number, body) + body)


def exit_code(process):
    code = process.wait()
    return code if code >= 0 else 128 - code


def stop(process):
    """As sshd does with a session that is gone, and then more."""
    for number, pause_s in ((signal.SIGHUP, 1), (signal.SIGTERM, 10), (signal.SIGKILL, 1)):
        try:
            if process.poll() is None:
                os.killpg(process.pid, number)
                process.wait(pause_s)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


class Follower:
    """A pod that takes orders. A thread for each connection, MOST at once."""

    def __init__(self, pod, secret):
        self.pod, self.secret, self.code = pod, secret, None
        self.ended, self.places = threading.Event(), threading.BoundedSemaphore(MOST)

    def serve(self, listener):
        while True:
            connection = listener.accept()[0]
            if self.places.acquire(blocking=False):
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def answer(self, connection):
        late = threading.Timer(GREETING_S, connection.shutdown, (socket.SHUT_RDWR,))
        late.start()
        with connection:
            try:
                number = secrets.token_bytes(NUMBER_BYTES)
                connection.sendall(number)
                order = receive(connection.makefile("rb"), self.secret, b"order", number)
                late.cancel()
                if order["pod"] == self.pod:
                    send(connection, self.secret, b"answer", number, self.obey(order, connection))
            except (OSError, ValueError):
                pass  # a stranger, or one that is gone
            finally:
                late.cancel()
                self.places.release()

    def obey(self, order, connection):
        if "end" in order:
            self.code = order["end"]
            self.ended.set()
            return 0
        process = subprocess.Popen(["sh", "-c", order["command"]], stdin=subprocess.DEVNULL, start_new_session=True)

        def watch():  # nothing comes: who has asked is gone, and takes the command along
            try:
                connection.recv(1)
            except OSError:
                pass
            stop(process)

        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        threading.Thread(target=watch, daemon=True).start()
        return exit_code(process)


def connect(host, patience_s):
    """A connection to a pod, and its number, once it is there and has a place."""
    end = time.monotonic() + patience_s
    while True:
        try:
            connection = socket.create_connection((host, PORT), GREETING_S)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            file = connection.makefile("rb")
            number = file.read(NUMBER_BYTES)
            if len(number) == NUMBER_BYTES:
                return connection, file, number
            connection.close()
            raise OSError("all its places are taken")
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def ask(host, secret, patience_s, **order):
    """The answer of a pod, by its name."""
    connection, file, number = connect(host, patience_s)
    with connection:
        send(connection, secret, b"order", number, {"pod": host.split(".")[0], **order})
        connection.settimeout(None)
        return receive(file, secret, b"answer", number)


def agent(secret, words):
    """What mpirun calls instead of ssh: [OPTION...] HOST COMMAND..."""
    while words[0].startswith("-"):
        words = words[1:]
    if words[0].split(".")[0] == socket.gethostname().split(".")[0]:
        os.execvp("sh", ["sh", "-c", " ".join(words[1:])])
    return ask(words[0], secret, PATIENCE_S, command=" ".join(words[1:]))


def lead(arguments, secret):
    hosts = [f"{arguments.job}-{index}.{arguments.service}" for index in range(arguments.pods)]
    with open(f"{FOLDER}/hosts", "w") as file:
        file.writelines(f"{host}\n" for host in hosts)
    # Open MPI 4, Open MPI 5, MPICH. Only this pod reaches others: no tree.
    reach = {"OMPI_MCA_plm_rsh_agent": f"{FOLDER}/agent", "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
             "PRTE_MCA_plm_ssh_agent": f"{FOLDER}/agent", "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
             "HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": f"{FOLDER}/agent"}
    command = subprocess.Popen(arguments.command, env={**os.environ, **reach})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: command.send_signal(number))
    code = exit_code(command)
    for host in hosts[1:]:
        try:
            ask(host, secret, GREETING_S, end=code)
        except (OSError, ValueError) as error:
            print(f"pods.py: pod '{host}' does not hear of the end: {error}", file=sys.stderr)
    return code


def follow(arguments, index, secret):
    follower = Follower(f"{arguments.job}-{index}", secret)
    signal.signal(signal.SIGTERM, lambda *_: None)  # pod 0 gets it, too, and ends all in good order
    listener = socket.create_server(("", PORT), backlog=MOST)
    threading.Thread(target=follower.serve, args=(listener,), daemon=True).start()
    follower.ended.wait()
    time.sleep(0.5)  # for the answer to go out
    return follower.code


def prepare(path):
    """A folder of this user's alone, with the agent: Open MPI's daemons look for it in all pods."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    if os.stat(FOLDER).st_uid != os.geteuid() or os.path.islink(FOLDER):
        sys.exit(f"pods.py: '{FOLDER}' is another user's")
    with open(f"{FOLDER}/agent", "w") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" "{os.path.abspath(__file__)}" --agent "{os.path.abspath(path)}" "$@"\n')
    os.chmod(f"{FOLDER}/agent", 0o700)


def read_secret(path):
    with open(path, "rb") as file:
        secret = file.read().strip()
    if len(secret) < 32:
        sys.exit(f"pods.py: the secret '{path}' has {len(secret)} bytes: make one of 32 or more by 'openssl rand -hex 32'")
    return secret


def main():
    if sys.argv[1:2] == ["--agent"]:
        return agent(read_secret(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", required=True, help="its name: pods are called NAME-0, NAME-1, ...")
    parser.add_argument("--service", required=True, help="the headless Service that gives pods their names")
    parser.add_argument("--pods", type=int, required=True, help="how many there are")
    parser.add_argument("--secret", required=True, help="a file with 32 bytes or more, the same in all pods")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    secret, index = read_secret(arguments.secret), int(os.environ["JOB_COMPLETION_INDEX"])
    prepare(arguments.secret)
    return lead(arguments, secret) if index == 0 else follow(arguments, index, secret)


if __name__ == "__main__":
    sys.exit(main())
