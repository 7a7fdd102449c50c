"""Large chunks of a directory, through the page cache and past it (store.direct).

Arrays of float32, one sample a chunk, raw and in blosc-zstd, are read in the order of an epoch by the reader's pool
(penstock-bench-limit cold), with store.direct off and on, each cold (all chunks dropped from the
page cache before the turn) and warm (read before). Ways take turns, medians over rounds. The last
line is one JSON object.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20


def chunks_of(dataset):
    return [path for path in (dataset / "data").iterdir() if not path.name.startswith(".")]


def advise(path, advice):
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, advice)
    finally:
        os.close(file)


def make_dataset(arguments, codec, chunk_bytes):
    dataset = arguments.work / f"local-{codec}-{chunk_bytes // 1024}-{arguments.bytes // MIB}.zarr"
    if not dataset.exists():
        part = dataset.with_suffix(".part")
        subprocess.run([arguments.build / "bin" / "penstock", "synth", part, "--overwrite",
                        "--layout", "plain", "--codec", codec,
                        "--shape", f"{chunk_bytes // 1024},256",
                        "--samples", str(arguments.bytes // chunk_bytes)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        part.rename(dataset)
    os.sync()  # what is not on the disk yet cannot be dropped
    return dataset


def read_all(arguments, dataset, direct):
    run = subprocess.run([arguments.build / "bin" / "penstock-bench-limit", "cold",
                          "--set", f"dataset.uri={dataset}", "--set", "batch.global_size=1",
                          "--set", f"readers.threads={arguments.threads}",
                          "--set", f"store.direct={str(direct).lower()}"],
                         stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


def measure(arguments, dataset):
    """MB of stored bytes a second and ms of CPU time a chunk, of each way."""
    turns = {}
    chunks = chunks_of(dataset)
    for _ in range(arguments.rounds):
        for state in ("cold", "warm"):
            for direct in (False, True):
                if state == "cold":
                    for chunk in chunks:
                        advise(chunk, os.POSIX_FADV_DONTNEED)
                else:
                    for chunk in chunks:
                        chunk.read_bytes()
                result = read_all(arguments, dataset, direct)
                way = state + (" direct" if direct else " plain")
                turns.setdefault(way, []).append(
                    (result["stored_bytes"] / result["seconds"] / 1e6,
                     result["cpu_s"] / len(chunks) * 1e3))
    return {way: [round(statistics.median(values), 2) for values in zip(*of)]
            for way, of in turns.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--bytes", type=int, default=512 * MIB, help="decoded, of each dataset")
    parser.add_argument("--kib", type=int, nargs="*", default=[1024, 4096, 16384],
                        help="of a chunk")
    parser.add_argument("--codec", nargs="*", default=["none", "blosc-zstd"])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = {}
    print(f"{'':22}" + "".join(f"{way:>18}" for way in
                                ("cold plain", "cold direct", "warm plain", "warm direct")))
    for codec in arguments.codec:
        for kib in arguments.kib:
            dataset = make_dataset(arguments, codec, kib * 1024)
            ways = measure(arguments, dataset)
            results[f"{codec} {kib}"] = ways
            print(f"{codec + f' {kib} KiB':22}" + "".join(
                f"{rate:8.0f}, {cpu_ms:5.2f} ms" for rate, cpu_ms in ways.values()), flush=True)
    print(json.dumps({"benchmark": "local", "threads": arguments.threads, **results}))


if __name__ == "__main__":
    sys.exit(main())
