#!/usr/bin/env python3
"""Reaches the pods of an Indexed Job without ssh. All pods run the same line:

    pods.py --job NAME --service SERVICE --pods N -- penstock-run --hostfile /tmp/pods ... -- train.py

Pod 0 writes the names of all pods to /tmp/pods and runs the command. mpirun and mpiexec in it reach a pod by this script instead
of ssh (--agent HOST COMMAND). The other pods ask pod 0 what to run, over HTTP, until pod 0 says that the command has ended: they
take orders from that name alone, and nobody can reach them. Give pod 0's port to no other network, as with MPI's own ports.
"""

import argparse
import http.server
import json
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

PORT = int(os.environ.get("PODS_PORT", 8465))
WAIT_S = 20  # a question that has no answer yet is asked again


class Orders:
    """Commands by pod, and how they ended. Any thread."""

    def __init__(self):
        self.lock, self.queues, self.ends, self.code = threading.Lock(), {}, {}, None

    def of(self, pod):
        with self.lock:
            return self.queues.setdefault(pod, queue.Queue())

    def run(self, pod, command):
        """The command's exit code, once the pod has run it."""
        with self.lock:
            number, end = len(self.ends), queue.Queue()
            self.ends[number] = end
        self.of(pod).put({"number": number, "command": command})
        return end.get()

    def next(self, pod):
        end = time.monotonic() + WAIT_S
        while self.code is None and time.monotonic() < end:
            try:
                return self.of(pod).get(timeout=0.2)
            except queue.Empty:
                pass
        return {} if self.code is None else {"code": self.code}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        orders = self.server.orders
        if self.path == "/next":
            answer = orders.next(body["pod"])
        elif self.path == "/ended":
            orders.ends[body["number"]].put(body["code"])
            answer = {}
        elif self.path == "/run" and self.client_address[0] == "127.0.0.1":
            answer = {"code": orders.run(body["pod"], body["command"])}
        else:
            return self.send_error(403)
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        try:
            self.wfile.write(text)
        except ConnectionError:
            pass  # who has asked is gone

    def log_message(self, *_):
        pass


def ask(host, path, **body):
    request = urllib.request.Request(f"http://{host}:{PORT}{path}", json.dumps(body).encode())
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.loads(answer.read())


def agent(words):
    """What mpirun calls instead of ssh: [OPTION...] HOST COMMAND..."""
    while words[0].startswith("-"):
        words = words[1:]
    pod, command = words[0].split(".")[0], " ".join(words[1:])
    if pod == os.environ["PODS_OWN"]:
        return subprocess.call(["sh", "-c", command])
    return ask("127.0.0.1", "/run", pod=pod, command=command)["code"]


def write_agent(arguments):
    """In all pods, since Open MPI's daemons look whether it is there; only pod 0 can use it."""
    script = os.path.join(os.path.dirname(arguments.hostfile), "pods-agent")
    with open(script, "w") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" "{os.path.abspath(__file__)}" --agent "$@"\n')
    os.chmod(script, 0o755)
    return script


def lead(arguments):
    """Pod 0: the command, with the pods' names in a file."""
    with open(arguments.hostfile, "w") as file:
        file.writelines(f"{arguments.job}-{index}.{arguments.service}\n" for index in range(arguments.pods))
    script = write_agent(arguments)
    server = http.server.ThreadingHTTPServer(("", PORT), Handler)
    server.daemon_threads, server.orders = True, Orders()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # Open MPI 4, Open MPI 5, MPICH. Only this pod can reach others: no tree.
    reach = {"OMPI_MCA_plm_rsh_agent": script, "OMPI_MCA_plm_rsh_no_tree_spawn": "1", "PRTE_MCA_plm_ssh_agent": script,
             "PRTE_MCA_plm_ssh_no_tree_spawn": "1", "HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": script,
             "PODS_OWN": f"{arguments.job}-0"}
    code = subprocess.call(arguments.command, env={**os.environ, **reach})
    server.orders.code = code if code >= 0 else 128 - code
    time.sleep(2)  # for pods to hear of it
    return server.orders.code


def follow(arguments, index):
    """Another pod: what pod 0 says, until it has no more to say."""
    pod, first, lost = f"{arguments.job}-{index}", f"{arguments.job}-0.{arguments.service}", 0
    first = os.environ.get("PODS_FIRST", first)
    write_agent(arguments)

    def obey(order):
        code = subprocess.call(["sh", "-c", order["command"]], stdin=subprocess.DEVNULL)
        ask(first, "/ended", number=order["number"], code=code if code >= 0 else 128 - code)

    while True:
        try:
            order = ask(first, "/next", pod=pod)
        except (urllib.error.URLError, OSError):
            lost += 1  # not there yet, or gone
            if lost > arguments.patience:
                print(f"pods.py: pod 0, '{first}', does not answer for {lost} s", file=sys.stderr)
                return 1
            time.sleep(1)
            continue
        lost = 0
        if "code" in order:
            return order["code"]
        if order:
            threading.Thread(target=obey, args=(order,), daemon=True).start()


def main():
    if sys.argv[1:2] == ["--agent"]:
        return agent(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", required=True, help="its name: pods are called NAME-0, NAME-1, ...")
    parser.add_argument("--service", required=True, help="the headless Service that gives pods their names")
    parser.add_argument("--pods", type=int, required=True, help="how many there are")
    parser.add_argument("--hostfile", default="/tmp/pods", help="where pod 0 writes all names")
    parser.add_argument("--patience", type=int, default=300, help="seconds that pods wait for pod 0")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    return lead(arguments) if index == 0 else follow(arguments, index)


if __name__ == "__main__":
    sys.exit(main())
