"""A dataset over HTTP with latency added, against what the link and decoding alone give: nginx on
loopback, which holds back each answer. In every round, one after another:

  link     curl fetches all chunks at once, 200 at a time, and throws them away
  decode   a reader reads the dataset from its directory, which is in the page cache
  remote   the same reader, with default settings, over HTTP

All share the machine's CPUs: on a small one the server takes part of what decoding needs.

The last line is one JSON object; `ratio` is remote / min(link, decode), in stored bytes a second, of the median.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import servers  # noqa: E402


class Bench:
    def __init__(self, arguments, dataset, url):
        self.arguments, self.dataset, self.url = arguments, dataset, url
        self.keys = [str(path.relative_to(dataset)) for path in dataset.glob("base_frames/*")
                     if not path.name.startswith(".")]
        self.bytes = sum((dataset / key).stat().st_size for key in self.keys)
        self.urls = arguments.work / "urls.curl"
        self.urls.write_text("".join(f"url = \"{url}/{key}\"\noutput = \"/dev/null\"\n"
                                     for key in self.keys), encoding="ascii")

    def link(self):
        start = time.monotonic()
        subprocess.run(["curl", "--silent", "--no-progress-meter", "--fail", "--noproxy", "*", "--parallel",
                        "--parallel-max", "200", "--config", str(self.urls)], check=True,
                       stderr=subprocess.DEVNULL)
        return self.bytes / (time.monotonic() - start)

    def reader(self, uri):
        """Of the epochs after the first, so that starting does not count."""
        report = self.arguments.work / "report.json"
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1",
                   str(self.arguments.build / "bin" / "penstock-reader"), "--quiet", "--report",
                   str(report)]
        settings = {"dataset.uri": uri, "order.epochs": 3, "readers.cache": "off",
                    "batch.global_size": 64, **dict(s.split("=", 1) for s in self.arguments.set)}
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        command += ["--", str(self.arguments.build / "bin" / "penstock-trainer")]
        subprocess.run(command, check=True, env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        epochs = json.loads(report.read_text(encoding="ascii"))["epochs"][1:]
        return sum(e["stored_bytes"] for e in epochs) / sum(e["seconds"] for e in epochs)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--chunk", type=int, default=8)
    parser.add_argument("--latency", type=float, default=50, help="milliseconds (50)")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for the reader")
    arguments = parser.parse_args()
    if not (servers.nginx_program() and shutil.which("curl") and
            os.path.exists(servers.ECHO_MODULE)):
        print("needs curl, and nginx with its echo module: apt-get install nginx-light curl",
              file=sys.stderr)
        return 77
    arguments.work.mkdir(parents=True, exist_ok=True)
    dataset = arguments.work / f"remote-{arguments.samples}-{arguments.chunk}"
    if not dataset.exists():
        subprocess.run([str(arguments.build / "bin" / "penstock"), "synth", str(dataset), "--samples",
                        str(arguments.samples), "--chunk", str(arguments.chunk)], check=True)
    server = servers.Nginx(arguments.work.resolve(), latency_s=arguments.latency / 1000)
    try:
        url = f"{server.url}/{dataset.name}"
        bench = Bench(arguments, dataset, url)
        ways = {"link": bench.link, "decode": lambda: bench.reader(str(dataset)),
                "remote": lambda: bench.reader(url)}
        rates = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, measure in ways.items():
                rates[way].append(measure())
            print("  ".join(f"{way} {values[-1] / 1e6:.0f} MB/s" for way, values in rates.items()),
                  file=sys.stderr, flush=True)
    finally:
        server.close()
    ratios = [r / min(l, d) for l, d, r in zip(rates["link"], rates["decode"], rates["remote"])]
    print(json.dumps({"benchmark": "remote", "latency_ms": arguments.latency,
                      "chunk": arguments.chunk, "samples": arguments.samples,
                      **{f"{way}_mb_s": round(statistics.median(values) / 1e6, 1)
                         for way, values in rates.items()},
                      "ratio": round(statistics.median(ratios), 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
