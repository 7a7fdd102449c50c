#!/usr/bin/env python3
"""Penstock and other libraries on several hosts that share one link to an object store.

    bench/run.sh cluster_peers

Hosts are made of this machine (root): their memory is limited, so that the dataset fits into all of them together and
not into one. One host more has the store (nginx), behind a link that all share. There is one trainer a host, which
touches all bytes (loaders.py), for three epochs. Bytes are counted at the store's link. docs/measured/benchmarks.md says more.
The last line of output is one JSON object. Only the standard library is used here.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

import environments
import jobs
from jobs import Failed, Jobs, read_files, say

EPOCHS = 3
ARRAY = "base_frames"
RECORD_BYTES = 20 * 4 * 32 * 32 * 2
BUCKET, DATASET, SHARDS = "bucket", "dataset", "mds"
LOADERS = jobs.BENCH / "loaders.py"
PORT = 29577
# The environment of a peer, the stores it can read, and its settings beside the defaults of loaders.py. Each host's
# cache is as large as the memory limit allows: see docs/measured/benchmarks.md.
PEERS = {
    "tensorstore": ("torch", ("http", "s3"), ("--ahead", "2")),
    "zarrs": ("torch", ("http", "s3"), ("--ahead", "2", "--threads", "16")),
    "insitubatch": ("insitubatch", ("http", "s3"), ("--ahead", "2")),
    "insitubatch-own": ("insitubatch", ("http", "s3"), ("--ahead", "2")),
    "streaming": ("streaming", ("s3",), ("--ahead", "8")),
}
KEEPS_SHARE = ("insitubatch-own", "streaming")  # a trainer never sees the other hosts' samples


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.set_defaults(timeout=180)  # importing PyTorch four times on a busy machine takes a minute
    parser.add_argument("--hosts", type=int, default=4, help="with a trainer each (4)")
    parser.add_argument("--rate", default="1gbit", help="of each host's link, and of the store's (1gbit)")
    parser.add_argument("--memory", type=int, default=512, help="MiB of each host (512)")
    parser.add_argument("--cache", type=int, default=224, help="MiB that a peer may keep decoded chunks in (224)")
    parser.add_argument("--samples", type=int, default=4096, help="of 160 KiB each (4096)")
    parser.add_argument("--batch", type=int, default=32, help="samples of a step for each host (32)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds, at most (3)")
    parser.add_argument("--budget", type=float, default=780, help="seconds after which no round begins (780)")
    parser.add_argument("--stores", default="http,s3", help="how the store is spoken to (http,s3)")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"what is measured beside Penstock ({','.join(PEERS)})")
    parser.add_argument("--no-peers", dest="peers", action="store_const", const="", help="Penstock alone")
    parser.add_argument("--environments", type=pathlib.Path, help="where peers are installed (--work/environments)")
    parser.add_argument("--set", action="append", default=[], help="an option of penstock-reader, KEY=VALUE")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plot and the figures it is made of")
    arguments = parser.parse_args()
    arguments.stores = arguments.stores.split(",")
    arguments.peers = [peer for peer in arguments.peers.split(",") if peer]
    if arguments.hostfile or arguments.launch:
        parser.error("hosts that exist have the memory and links they have: cluster_peers makes its own")
    unknown = {*arguments.peers} - {*PEERS} | {*arguments.stores} - {"http", "s3"}
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    arguments.environments = arguments.environments or arguments.work / "environments"
    return arguments


# --- before there are hosts ---------------------------------------------------------------------------------------


def folder(arguments):
    """What the store serves: DATASET and SHARDS in a bucket, which is a folder."""
    return arguments.work.resolve() / f"cluster_peers-{arguments.samples}"


def can_run():
    """Whether there is what the store takes."""
    if shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin"):
        return True
    say("there is no nginx: apt-get install nginx-light")
    return False


def prepare(arguments):
    """Datasets and environments. Notes why peers are missing, and how many bytes each form of the dataset has."""
    bucket = folder(arguments) / BUCKET
    bucket.mkdir(parents=True, exist_ok=True)
    Jobs(arguments).synth(bucket.relative_to(arguments.work.resolve()) / DATASET, arguments.samples, format=3)
    missing = {}
    for peer in arguments.peers:
        try:
            environments.prepare(arguments.environments, PEERS[peer][0])
        except environments.Missing as reason:
            missing[peer] = str(reason)
    if "streaming" in arguments.peers and "streaming" not in missing:
        convert(arguments, bucket)
    (folder(arguments) / "missing.json").write_text(json.dumps(missing), encoding="utf-8")


def convert(arguments, bucket):
    if (bucket / SHARDS).exists():
        return
    say(f"converting to {bucket / SHARDS}")
    part = bucket / f"{SHARDS}.part"
    shutil.rmtree(part, ignore_errors=True)
    subprocess.run([environments.python_of(arguments.environments, "streaming"), LOADERS, "convert", "--location",
                    bucket / DATASET, "--array", ARRAY, "--format", "3", "--local", part], check=True)
    part.rename(bucket / SHARDS)


def python_with_numpy(arguments):
    """For Penstock's trainers."""
    for python in (sys.executable, "/usr/bin/python3", environments.python_of(arguments.environments.resolve(), "torch")):
        if environments.can_import(pathlib.Path(python), ["numpy"]):
            return python
    raise Failed("there is no Python with numpy: apt-get install python3-numpy")


def stored_bytes(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


# --- the store ----------------------------------------------------------------------------------------------------


class Store:
    """The object store on the last host, and the bytes that have passed its link, noted fifty times a second."""

    def __init__(self, arguments):
        self.host = f"h{arguments.hosts + 1}"
        self.counter = pathlib.Path(f"/sys/class/net/{self.host}/statistics/rx_bytes")  # the bridge's end of its link
        self.process = subprocess.Popen([jobs.HOSTS_SCRIPT, "on", self.host, sys.executable, jobs.BENCH / "store.py",
                                         folder(arguments), f"10.77.0.{10 + arguments.hosts + 1}"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise Failed("the store does not start")
        self.notes, self.ended = [(time.monotonic(), self.bytes())], threading.Event()
        self.thread = threading.Thread(target=self.note, daemon=True)
        self.thread.start()

    def bytes(self):
        return int(self.counter.read_text(encoding="ascii"))

    def note(self):
        while not self.ended.wait(0.02):
            self.notes.append((time.monotonic(), self.bytes()))

    def bytes_at(self, when):
        """What had passed at this time of the monotonic clock, from the first note after it."""
        return next((count for noted, count in self.notes if noted >= when), self.notes[-1][1])

    def close(self):
        self.ended.set()
        self.thread.join()
        self.process.stdin.close()
        self.process.wait()


# --- one run ------------------------------------------------------------------------------------------------------


class Cluster:
    def __init__(self, arguments, store):
        self.arguments, self.store, self.jobs = arguments, store, Jobs(arguments)
        self.run = folder(arguments) / "run"
        self.caches = folder(arguments) / "caches"
        self.python = python_with_numpy(arguments)

    def where(self, kind, name):
        if kind == "s3":
            return ["--location", f"s3://{BUCKET}/{name}", "--endpoint", self.store.url]
        return ["--location", f"{self.store.url}/{BUCKET}/{name}"]

    def common(self):
        return ["--array", ARRAY, "--format", "3", "--hosts", self.arguments.hosts, "--batch", self.arguments.batch,
                "--epochs", EPOCHS, "--meet", self.run, "--result", self.run / "result-{rank}"]

    def penstock(self, kind, settings):
        """One reader and one trainer a host."""
        values = {"dataset.uri": self.where(kind, DATASET)[1], f"dataset.fields.{ARRAY}": ARRAY,
                  "order.epochs": EPOCHS, "order.seed": 17, "batch.global_size": self.arguments.hosts * self.arguments.batch,
                  "delivery.trainers": self.arguments.hosts, "readers.threads": 1, **settings}
        if kind == "s3":
            values["store.endpoint"] = self.store.url
        command = ["env", *CREDENTIALS, f"PENSTOCK_LIBRARY={self.library()}",
                   self.jobs.program("penstock-reader"), "--quiet", "--report", self.run / "report.json"]
        for key, value in values.items():
            command += ["--set", f"{key}={value}"]
        self.jobs.launch(self.arguments.hosts, [*command, "--", self.python, LOADERS, "penstock", *self.common()])

    def library(self):
        return next(self.arguments.build.resolve().rglob("libpenstock.so"))

    def peer(self, kind, name):
        environment, _, options = PEERS[name]
        python = environments.python_of(self.arguments.environments.resolve(), environment)
        processes = []
        for rank in range(self.arguments.hosts):
            cache = self.caches / f"{rank}"
            variables = {"RANK": rank, "WORLD_SIZE": self.arguments.hosts, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
                         "MASTER_ADDR": "10.77.0.11", "MASTER_PORT": PORT, "GLOO_SOCKET_IFNAME": "eth0",
                         "OMP_NUM_THREADS": 1}
            command = [jobs.HOSTS_SCRIPT, "on", f"h{rank + 1}", "env", *CREDENTIALS,
                       *(f"{key}={value}" for key, value in variables.items()), python, LOADERS, name,
                       *self.where(kind, SHARDS if name == "streaming" else DATASET), *self.common(),
                       "--cache", self.arguments.cache << 20, "--local", cache, *options]
            log = open(self.run / f"log-{rank}", "w", encoding="utf-8")  # pylint: disable=consider-using-with
            processes.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                              stderr=log))
            log.close()
        self.wait(name, processes)

    def wait(self, name, processes):
        """Until all have ended well."""
        deadline = time.monotonic() + self.arguments.timeout
        while True:
            codes = [process.poll() for process in processes]
            if all(code == 0 for code in codes):
                return
            if any(codes) or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        for process in processes:
            process.kill()
            process.wait()
        for rank, code in enumerate(codes):
            if code:
                said = (self.run / f"log-{rank}").read_text(encoding="utf-8", errors="replace").splitlines()
                raise Failed(f"{name}: on h{rank + 1}: exit code {code}{', perhaps for want of memory' * (code == -9)}: "
                             f"{said[-1][:300] if said else 'it said nothing'}")
        raise Failed(f"{name}: took more than {self.arguments.timeout:.0f} s")

    def measure(self, name, kind, settings):
        """Samples a second, and bytes from the store, of each epoch."""
        for path in (self.run, self.caches):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        read_files(folder(self.arguments) / BUCKET / (SHARDS if name == "streaming" else DATASET))
        before = self.store.bytes()
        if name.startswith("penstock"):
            self.penstock(kind, settings)
        else:
            self.peer(kind, name)
        results = [json.loads((self.run / f"result-{rank}").read_text(encoding="ascii"))
                   for rank in range(self.arguments.hosts)]
        begin, rates, counts = min(result["begin"] for result in results), [], []
        for number in range(EPOCHS):
            end = max(result["epochs"][number]["end"] for result in results)
            samples = sum(result["epochs"][number]["samples"] for result in results)
            count = self.store.bytes_at(end)
            rates.append(samples / (end - begin))
            counts.append(count - before)
            begin, before = end, count
        return {"name": name, "store": kind, "samples_per_s": rates, "store_bytes": counts}


CREDENTIALS = ["AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "AWS_REGION=us-east-1",
               "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true"]


def contestants(arguments, missing):
    """Names, each with the settings of penstock-reader that it is run with."""
    own = {"readers.memory_limit": f"{arguments.memory * 5 // 8}MiB",
           **dict(option.split("=", 1) for option in arguments.set)}
    return {"penstock": own, "penstock-fixed": {**own, "order.placement": "fixed"},
            **{peer: {} for peer in arguments.peers if peer not in missing}}


def measure_all(arguments, missing):
    """All runs, and the failures of peers, which are tried again in the next round."""
    store = Store(arguments)
    clock = jobs.Clock(arguments.budget)
    results, failures = [], []
    try:
        cluster = Cluster(arguments, store)
        names = contestants(arguments, missing)
        for number in range(arguments.rounds):
            since = clock.elapsed()
            for kind in arguments.stores:
                for name, settings in names.items():
                    if name in PEERS and kind not in PEERS[name][1]:
                        continue
                    try:
                        found = cluster.measure(name, kind, settings)
                    except Failed as failure:
                        if name.startswith("penstock"):
                            raise
                        failures.append(f"{kind}: {failure}")
                        say(failures[-1])
                        continue
                    results.append(found)
                    rates = ", ".join(f"{rate:,.0f}" for rate in found["samples_per_s"])
                    counts = ", ".join(f"{count / 1e6:,.0f}" for count in found["store_bytes"])
                    say(f"{clock.elapsed():4.0f} s  round {number + 1} of {arguments.rounds}, {kind}: {name} {rates} "
                        f"samples/s, {counts} MB from the store")
            if number + 1 < arguments.rounds and not clock.fits_another(since):
                say(f"another round would not fit into --budget {arguments.budget:.0f}")
                break
    finally:
        store.close()
    return results, failures


# --- what came of it ----------------------------------------------------------------------------------------------


def medians(results, key):
    return [statistics.median(values) for values in zip(*(result[key] for result in results))]


def summary(results, kind):
    """{name: {"samples_per_s": of each epoch, "least": …, "most": …, "store_bytes": …}}"""
    lines = {}
    for name in dict.fromkeys(result["name"] for result in results):
        runs = [result for result in results if (result["name"], result["store"]) == (name, kind)]
        if runs:
            rates = [run["samples_per_s"] for run in runs]
            lines[name] = {"samples_per_s": [round(rate, 1) for rate in medians(runs, "samples_per_s")],
                           "least": [round(min(values), 1) for values in zip(*rates)],
                           "most": [round(max(values), 1) for values in zip(*rates)],
                           "store_bytes": [round(count) for count in medians(runs, "store_bytes")], "runs": len(runs)}
    return lines


def best_of(lines, names):
    """The best of these in each epoch."""
    rates = [lines[name]["samples_per_s"] for name in names if name in lines]
    return [max(values) for values in zip(*rates)] or None


def print_table(kind, lines):
    print(f"\n{kind:16} {'samples/s, epoch 1':>19} {'2':>8} {'3':>8} {'MB of the store, epoch 1':>26} {'2':>6} {'3':>6}")
    for name, line in lines.items():
        rates, counts = line["samples_per_s"], [count / 1e6 for count in line["store_bytes"]]
        print(f"{name:16} {rates[0]:19,.0f} {rates[1]:8,.0f} {rates[2]:8,.0f} {counts[0]:26,.0f} {counts[1]:6,.0f} "
              f"{counts[2]:6,.0f}")


def evaluate(arguments, results, failures, missing):
    bucket = folder(arguments) / BUCKET
    sizes = {name: stored_bytes(bucket / name) for name in (DATASET, SHARDS) if (bucket / name).exists()}
    print(f"\ncluster_peers: {arguments.samples:,} samples of {RECORD_BYTES:,} bytes; {arguments.hosts} hosts with "
          f"{arguments.memory} MiB each, {arguments.batch} samples of a step a host; all links {arguments.rate}; stored: "
          + ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in sizes.items()))
    stores = {kind: summary(results, kind) for kind in arguments.stores}
    for kind, lines in stores.items():
        print_table(kind, lines)
    for name, reason in missing.items():
        print(f"{name}: skipped: {reason}")
    for failure in failures:
        print(f"failed: {failure}")
    figures = {"samples": arguments.samples, "keeps_share": KEEPS_SHARE, "record_bytes": RECORD_BYTES, "hosts": arguments.hosts,
               "memory_mib": arguments.memory, "rate": arguments.rate, "stored_bytes": sizes, "stores": stores}
    if arguments.plots:
        jobs.save_plots(arguments.plots, "cluster_peers", figures)
    print(json.dumps({**verdict(stores[arguments.stores[-1]]), "stored_bytes": sizes, "skipped": missing, "failed": len(failures),
                      "stores": {kind: verdict(lines) for kind, lines in stores.items()}}))


def verdict(lines):
    """The figures of one store."""
    peers = [name for name in PEERS if name in lines]
    return {**{name.replace("-", "_"): line["samples_per_s"] for name, line in lines.items() if name not in PEERS},
            "best_peer": best_of(lines, peers),
            "best_peer_of_all_samples": best_of(lines, [name for name in peers if name not in KEEPS_SHARE]),
            "store_bytes": {name: line["store_bytes"] for name, line in lines.items()}}


def main():
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if "CLUSTER_NAME" not in os.environ:
        if not can_run():
            sys.exit(jobs.CANNOT)
        prepare(arguments)
        limits = ",".join(f"h{host + 1}={arguments.memory}M" for host in range(arguments.hosts))
        jobs.on_new_hosts(arguments, arguments.hosts + 1, ["--rate", arguments.rate, "--memory", limits,
                                                           "--share", str(folder(arguments))])
    try:
        missing = json.loads((folder(arguments) / "missing.json").read_text(encoding="utf-8"))
        evaluate(arguments, *measure_all(arguments, missing), missing)
    except Failed as failure:
        say(f"cluster_peers: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
