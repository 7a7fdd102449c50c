"""How close penstock derive comes to decoding its source and encoding its destination, with an encoder that only copies.

The source has latents of 160 KiB a sample, in chunks of 8. In each round, one after another, with the same codec and chunks:
decode all slabs of the source, encode them to nowhere (penstock-bench-rechunk), and derive the same array, --no-verify. Files
come from the page cache and go to a file system in memory. The limit is what cores that are never idle come to if the encoder
costs nothing: 1 / (1/decode + 1/encode). No rate has the start of an encoder, nor its first batch."""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

SAMPLE_BYTES = 20 * 4 * 32 * 32 * 2
CHUNK = 8


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def make_source(options):
    source = options.work / f"derive-{options.samples}-{options.codec}.zarr"
    if not source.exists():
        whole, part = options.work / "derive-whole.zarr", source.with_suffix(".part")
        run(options.bin / "penstock", "synth", whole, "--overwrite", "--samples", options.samples)
        shutil.rmtree(part, ignore_errors=True)
        run(options.bin / "penstock", "rechunk", whole, part, "--arrays", "base_frames", "--chunk", CHUNK, "--codec", options.codec, "--level", options.level)
        shutil.rmtree(whole)
        part.rename(source)
    return source


def measure_limits(options, source):
    """Samples/s of decoding, of encoding, and of rechunk, which does both."""
    target = options.scratch / "derive"
    rates = json.loads(run(options.bin / "penstock-bench-rechunk", source, target, CHUNK, options.codec, options.level, options.threads))
    for name in ("plain", "verified"):
        shutil.rmtree(f"{target}.{name}")
    return {name: rates[name] * 1e6 / SAMPLE_BYTES for name in ("decode", "encode", "rechunk")}


def measure_derive(options, source, batch):
    target = options.scratch / "derive.zarr"
    said = run(options.bin / "penstock", "derive", source, target, "--field", "copy", "--run", options.bin / "penstock-bench-encoder", "--batch", batch,
        "--chunk", CHUNK, "--codec", options.codec, "--level", options.level, "--no-verify", "--threads", options.derive_threads, stderr=subprocess.DEVNULL)
    shutil.rmtree(target)
    rate, unit = re.search(r"([\d.]+) ([KMG]iB)/s;", said).groups()
    return float(rate) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit] / SAMPLE_BYTES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where it is written (/dev/shm)")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", default="zstd")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the limits (one a CPU)")
    parser.add_argument("--derive-threads", type=int, help="of derive (twice as many: threads wait for the encoder)")
    options = parser.parse_args()
    options.bin = options.build / "bin"
    options.derive_threads = options.derive_threads or 2 * options.threads
    options.work.mkdir(parents=True, exist_ok=True)
    source = make_source(options)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-derive-", dir=options.scratch) as scratch:
        options.scratch = pathlib.Path(scratch)
        rounds = measure(options, source)
    print_rounds(rounds)


def measure(options, source):
    rounds = []
    for _ in range(options.rounds):
        each = measure_limits(options, source)
        each["limit"] = 1 / (1 / each["decode"] + 1 / each["encode"])
        for batch in (CHUNK, 1):
            each[f"batch {batch}"] = measure_derive(options, source, batch)
        rounds.append(each)
    return rounds


def print_rounds(rounds):
    print(f"{'samples/s':12} {'median':>9} {'min':>9} {'max':>9}   of the limit")
    shares = {}
    for name in rounds[0]:
        values = [each[name] for each in rounds]
        shares[name] = statistics.median(each[name] / each["limit"] for each in rounds)  # a machine's speed changes from round to round
        print(f"{name:12} {statistics.median(values):9,.0f} {min(values):9,.0f} {max(values):9,.0f}   {shares[name]:.2f}")
    print(json.dumps({"limit": round(statistics.median(each["limit"] for each in rounds), 1),
                      "penstock": round(statistics.median(each[f"batch {CHUNK}"] for each in rounds), 1),
                      "share": round(shares[f"batch {CHUNK}"], 3), "share_batch_1": round(shares["batch 1"], 3)}))


if __name__ == "__main__":
    main()
