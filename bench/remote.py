"""A dataset over HTTP with latency added, against what the link and decoding alone give. nginx holds back each answer for so
many milliseconds. In every round, one after another, with the same data in the page cache:

  link     curl fetches all values at once, 200 at a time, and throws them away: what server, latency and link allow
  decode   a reader reads the dataset from its directory
  remote   the same reader, with default settings, over HTTP

Without --rate all is on loopback and shares the machine's CPUs, so that decoding is what bounds. With --rate 1gbit
the reader is a host of its own behind such a link (root; tests/cluster/hosts.sh), which then is what bounds.

Rates are stored bytes a second; of readers, over the epochs after the first, so that starting does not count. `ratio` is remote
/ min(link, decode) of a round; the last line, one JSON object, has the median. `cores` is what all processes, the server
included, took of the machine's CPUs during remote: with all of them busy, latency is not what is measured.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOSTS_SCRIPT = ROOT / "tests" / "cluster" / "hosts.sh"
HEAD = "10.77.0.1"
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import servers  # noqa: E402


def make_dataset(arguments, zarr_format=2):
    """Written once; with --shard the same samples, written anew in shards."""
    penstock, name = str(arguments.build / "bin" / "penstock"), f"remote{zarr_format}-{arguments.samples}-{arguments.chunk}"
    dataset = arguments.work / name
    if not dataset.exists():
        subprocess.run([penstock, "synth", str(dataset), "--samples", str(arguments.samples),
                        "--chunk", str(arguments.chunk), "--format", str(zarr_format)], check=True)
    if not arguments.shard:
        return dataset
    sharded = arguments.work / f"{name}-{arguments.shard}"
    if not (sharded / "zarr.json").exists():
        subprocess.run([penstock, "rechunk", "--no-verify", "--arrays=base_frames", f"--chunk={arguments.chunk},5",
                        f"--shard={arguments.shard}", str(dataset), str(sharded)], check=True)
    return sharded


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def make_server(arguments, root):
    return servers.Nginx(root, tls=arguments.tls, latency_s=arguments.latency / 1000,
                         address=HEAD if arguments.rate else "127.0.0.1")


class Bench:
    """A dataset in a directory, and the same one at `uri`: `values` are the files below `root`, the server's, that hold it."""

    def __init__(self, arguments, server, root, values, uri, settings, environment):
        self.arguments, self.server, self.uri = arguments, server, uri
        self.settings, self.environment = settings, environment
        files = [path for path in values.rglob("*") if path.is_file() and path.name != "zarr.json" and not path.name.startswith(".")]
        self.bytes = sum(path.stat().st_size for path in files)
        self.urls = arguments.work / "urls.curl"
        self.lines = "".join(f"url = \"{server.url}/{path.relative_to(root)}\"\noutput = \"/dev/null\"\n" for path in files)
        self.cores = []

    def command(self, *words):
        """On the host behind the link, if there is one."""
        return [str(HOSTS_SCRIPT), "on", "h1", *words] if self.arguments.rate else list(words)

    def link(self):
        self.urls.write_text(self.lines, encoding="ascii")
        start = time.monotonic()
        trust = ["--cacert", self.server.ca_file] if self.arguments.tls else []
        subprocess.run(self.command("curl", *trust, "--silent", "--no-progress-meter", "--fail", "--noproxy", "*",
                                    "--parallel", "--parallel-max", "200", "--config", str(self.urls)),
                       check=True, stderr=subprocess.DEVNULL)
        return self.bytes / (time.monotonic() - start)

    def reader(self, uri):
        report = self.arguments.work / "report.json"
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1",
                   str(self.arguments.build / "bin" / "penstock-reader"), "--quiet", "--report", str(report)]
        settings = {"dataset.uri": uri, "order.epochs": self.arguments.epochs + 1, "readers.cache": "off",
                    "batch.global_size": 64, **({"store.ca_file": self.server.ca_file} if self.arguments.tls else {}),
                    **self.settings, **dict(s.split("=", 1) for s in self.arguments.set)}
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        command += ["--", str(self.arguments.build / "bin" / "penstock-trainer")]
        subprocess.run(self.command(*command), check=True, env={
            **os.environ, **self.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        epochs = json.loads(report.read_text(encoding="ascii"))["epochs"][1:]
        return sum(e["stored_bytes"] for e in epochs) / sum(e["seconds"] for e in epochs)

    def remote(self):
        start, busy_s = time.monotonic(), children_cpu_s() + self.server.cpu_s()
        rate = self.reader(self.uri)
        busy_s = children_cpu_s() + self.server.cpu_s() - busy_s
        self.cores.append(busy_s / (time.monotonic() - start))
        return rate


def run(arguments):
    dataset = make_dataset(arguments)
    server = make_server(arguments, arguments.work.resolve())
    try:
        bench = Bench(arguments, server, arguments.work, dataset / "base_frames", f"{server.url}/{dataset.name}", {}, {})
        ways = {"link": bench.link, "decode": lambda: bench.reader(str(dataset)), "remote": bench.remote}
        rates = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, measure in ways.items():
                rates[way].append(measure())
            print("  ".join(f"{way} {values[-1] / 1e6:.0f} MB/s" for way, values in rates.items()),
                  f" cores {bench.cores[-1]:.2f}", file=sys.stderr, flush=True)
    finally:
        server.close()
    ratios = [r / min(l, d) for l, d, r in zip(rates["link"], rates["decode"], rates["remote"])]
    print(json.dumps({"benchmark": "remote", "latency_ms": arguments.latency, "rate": arguments.rate or "loopback", "tls": arguments.tls,
                      "chunk": arguments.chunk, "shard": arguments.shard, "samples": arguments.samples,
                      **{f"{way}_mb_s": round(statistics.median(values) / 1e6, 1)
                         for way, values in rates.items()},
                      "cores": round(statistics.median(bench.cores), 2),
                      "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
                      "ratio": round(statistics.median(ratios), 3)}))


def make_parser(description):
    """With the options of all benchmarks of remote stores."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6, help="that are measured (6)")
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--chunk", type=int, default=8, help="samples in a chunk (8)")
    parser.add_argument("--latency", type=float, default=50, help="milliseconds (50)")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for the reader")
    parser.add_argument("--rate", default="", help="of the link to the reader, as tc writes it: 1gbit (loopback)")
    parser.set_defaults(shard=0, tls=False)
    return parser


def parse(parser):
    """None, with the reason said: a program is not there. With --rate the program goes on in hosts of its own."""
    arguments = parser.parse_args()
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    if not (servers.nginx_program() and shutil.which("curl") and
            os.path.exists(servers.ECHO_MODULE)):
        print("needs curl, and nginx with its echo module: apt-get install nginx-light curl",
              file=sys.stderr)
        return None
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.rate and "CLUSTER_NAME" not in os.environ:
        os.execv(HOSTS_SCRIPT, [str(HOSTS_SCRIPT), "with", "1", "--rate", arguments.rate, "--share",
                                str(arguments.work), "--share", str(arguments.build), "--",
                                sys.executable, *sys.argv])
    return arguments


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--shard", type=int, default=0, help="samples in a shard; 0: no shards")
    parser.add_argument("--tls", action="store_true", help="https, with a certificate of the server's own")
    arguments = parse(parser)
    if not arguments:
        return 77
    run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
