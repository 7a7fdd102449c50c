"""What the limits of joining reads within a shard should be: store.coalesce_gap and
store.coalesce_size, from local files and over HTTP with latency.

Arrays [chunks a row, samples, ...] with the samples along axis 1, in shards of raw inner chunks: a
row takes one inner chunk of each index along axis 0, and between two of them lie those of the other
rows of the shard. Each array is read once by the reader's pool (penstock-bench-limit cold):

  gap    inner chunks of 16 KiB (or as long as the gap), 32 a row, with 4 KiB to 1 MiB between: read
         by one request a chunk, and by one for all
  size   rows of 16 MiB without gaps, read by requests of at most 256 KiB to 16 MiB

from the page cache, from the disk (dropped from the page cache before), and from nginx on loopback
that holds back each answer. Ways take turns; medians over rounds. The last line is one JSON object.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import servers  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
STORES = ("warm", "cold", "http")


class Layout:
    """Rows of `chunks` inner chunks of chunk_bytes; `rows` of them, `together` in a shard."""

    def __init__(self, chunks, chunk_bytes, rows, together):
        self.chunks, self.chunk_bytes = chunks, chunk_bytes
        self.rows, self.together = rows, together
        self.gap_bytes = (together - 1) * chunk_bytes
        self.name = f"shards-{chunks}-{chunk_bytes // KIB}-{rows}-{together}.zarr"

    def write(self, arguments):
        """Returns the folder; written on the first use, under another name until it is complete."""
        folder = arguments.work / self.name
        if folder.exists():
            return folder
        program = arguments.build / "bin" / "penstock"
        plain, part = folder.with_suffix(".plain"), folder.with_suffix(".part")
        for command in (
                ["synth", plain, "--overwrite", "--layout", "plain", "--codec", "none",
                 "--samples", self.chunks, "--shape", f"{self.rows},{self.chunk_bytes // 4}"],
                ["rechunk", plain, part, "--codec", "none", "--no-verify",
                 "--chunk", "1,1", "--shard", f"{self.chunks},{self.together}"]):
            subprocess.run([str(word) for word in [program, *command]], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-r", plain], check=True)
        part.rename(folder)
        os.sync()
        return folder


def to_or_from_cache(folder, cold):
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                if cold:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                else:
                    while file.read(MIB):
                        pass


def read_all(arguments, uri, threads, gap_bytes, size_bytes):
    """Decoded MB a second."""
    command = [str(arguments.build / "bin" / "penstock-bench-limit"), "cold"]
    for setting in (f"dataset.uri={uri}", "dataset.sample_axis=1", "batch.global_size=1",
                    f"readers.threads={threads}", f"store.coalesce_gap={gap_bytes}",
                    f"store.coalesce_size={size_bytes}"):
        command += ["--set", setting]
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return result["samples"] * result["sample_bytes"] / result["seconds"] / 1e6


def measure(arguments, layout, url, ways):
    """{store: {way: MB/s}}; a way is (gap, size)."""
    folder = layout.write(arguments)
    stores = [store for store in STORES if store != "http" or url]
    rates = {store: {way: [] for way in ways} for store in stores}
    for _ in range(arguments.rounds):
        for store in stores:
            for way in ways:
                to_or_from_cache(folder, store == "cold")
                uri = f"{url}/{folder.name}" if store == "http" else folder
                threads = arguments.http_threads if store == "http" else arguments.threads
                rates[store][way].append(read_all(arguments, uri, threads, *way))
    return {store: {way: statistics.median(values) for way, values in of.items()}
            for store, of in rates.items()}


def measure_gaps(arguments, url):
    results = {}
    most = 64 * MIB
    print(f"{'gap':>8}" + "".join(f"{store + ': apart, joined':>26}" for store in STORES))
    for gap_kib in arguments.gaps:
        chunk_kib = min(gap_kib, 16)
        layout = Layout(32, chunk_kib * KIB, arguments.rows, gap_kib // chunk_kib + 1)
        rates = measure(arguments, layout, url, [(1, most), (layout.gap_bytes, most)])
        results[f"{gap_kib} KiB"] = {store: [round(rate, 1) for rate in of.values()]
                                     for store, of in rates.items()}
        print(f"{gap_kib:>4} KiB" + "".join(
            f"{apart:14.0f}, {joined:5.0f} MB/s" for apart, joined in
            (of.values() for of in rates.values())), flush=True)
    return results


def measure_sizes(arguments, url):
    layout = Layout(256, 64 * KIB, arguments.rows // 8, 1)
    ways = [(64 * KIB, kib * KIB) for kib in arguments.sizes]
    rates = measure(arguments, layout, url, ways)
    print(f"{'size':>10}" + "".join(f"{store:>12}" for store in rates))
    for way in ways:
        print(f"{way[1] // KIB:>6} KiB" + "".join(f"{of[way]:7.0f} MB/s" for of in rates.values()))
    return {f"{way[1] // KIB} KiB": {store: round(of[way], 1) for store, of in rates.items()}
            for way in ways}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=256, help="of the arrays with gaps")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--http-threads", type=int, default=8)
    parser.add_argument("--latency", type=float, default=50, help="milliseconds (50)")
    parser.add_argument("--gaps", type=int, nargs="*", default=[4, 16, 64, 128, 256, 1024],
                        help="KiB")
    parser.add_argument("--sizes", type=int, nargs="*", default=[256, 1024, 4096, 16384],
                        help="KiB")
    parser.add_argument("--no-http", action="store_true")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    server = None
    if not arguments.no_http and servers.nginx_program() and os.path.exists(servers.ECHO_MODULE):
        server = servers.Nginx(arguments.work.resolve(), latency_s=arguments.latency / 1000)
    else:
        print("http is left out: nginx with its echo module (nginx-light) is not there, or not "
              "wanted", file=sys.stderr)
    try:
        url = server.url if server else None
        gaps, sizes = measure_gaps(arguments, url), measure_sizes(arguments, url)
    finally:
        if server:
            server.close()
    print(json.dumps({"benchmark": "shards", "latency_ms": arguments.latency, "gap": gaps,
                      "size": sizes}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
