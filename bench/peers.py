#!/usr/bin/env python3
"""Penstock's reading of chunks beside that of other libraries, on the same arrays in a directory.

    peers.py decode|small_chunks --build DIRECTORY --work DIRECTORY [--rounds N] [--threads N]

decode: arrays of float16, one sample a chunk, that zarr-python 3 has written with four codecs and
chunks of 64 KiB to 16 MiB; one thread each. small_chunks: 100,000 (or --count) raw chunks of 8 KiB
in random order, with N threads. Readers are Penstock (penstock-bench-limit cold: its pool, all rows once),
zarr-python 3, tensorstore (with several threads: as many as it likes), and zarrs, which is
zarr-python 3 with a codec pipeline in Rust. Of the others, each read is a batch of samples into new
memory. All files are in the page cache.

Readers take turns, each in a process of its own; start-up and opening are not counted. Printed are
medians over rounds, by CPU time of the whole process (decode) and by wall time (small_chunks). What
cannot be imported is left out, with the reason. The last line is one JSON object.
"""

import argparse
import importlib
import json
import pathlib
import statistics
import subprocess
import sys
import time

MIBIBYTE = 1 << 20
ARRAY_BYTES, BATCH_BYTES = 64 * MIBIBYTE, 4 * MIBIBYTE
CHUNK_BYTES = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24]
CODECS = ["blosc-zstd", "blosc-lz4", "zstd", "gzip"]
SMALL_COUNT, SMALL_BATCH, SMALL_SECONDS = 100000, 512, 4


# --- datasets -------------------------------------------------------------------------------------


def write_array(folder, codec, chunk_bytes):
    """About what float16 samples are: the low byte is noise, the high one takes few values."""
    import numpy
    import zarr
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

    compressors = {
        "blosc-zstd": BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=2),
        "blosc-lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=2),
        "zstd": ZstdCodec(level=3),
        "gzip": GzipCodec(level=5),
    }
    shape = (ARRAY_BYTES // chunk_bytes, chunk_bytes // 2)
    group = zarr.create_group(folder, zarr_format=3, overwrite=True)
    array = group.create_array(
        "data", shape=shape, chunks=(1, shape[1]), dtype="float16", compressors=compressors[codec]
    )
    noise = numpy.random.default_rng(7).integers(0, 0x800, shape, dtype=numpy.uint16)
    array[...] = noise.view(numpy.float16)


def decode_datasets(work):
    """{name: folder}; written on the first use, under another name until they are complete."""
    (work / "decode").mkdir(exist_ok=True)
    folders = {}
    for codec in CODECS:
        for chunk_bytes in CHUNK_BYTES:
            folder = work / "decode" / f"{codec}-{chunk_bytes >> 10}.zarr"
            if not folder.exists():
                part = folder.with_suffix(".part")
                write_array(str(part), codec, chunk_bytes)
                part.rename(folder)
            folders[f"{codec} {chunk_bytes >> 10}"] = folder
    return folders


def small_dataset(build, work, count):
    folder = work / ("small.zarr" if count == SMALL_COUNT else f"small-{count}.zarr")
    if not folder.exists():
        part = folder.with_suffix(".part")
        command = [build / "bin" / "penstock", "synth", part, "--overwrite", "--layout", "plain"]
        command += ["--samples", str(count), "--shape", "2048", "--codec", "none"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        part.rename(folder)
    return {"raw 8": folder}


# --- readers --------------------------------------------------------------------------------------


def penstock(build, folder, threads):
    """(seconds, CPU seconds, samples, bytes)"""
    command = [build / "bin" / "penstock-bench-limit", "cold", "--set", f"dataset.uri={folder}"]
    command += ["--set", f"readers.threads={threads}", "--set", "batch.global_size=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"peers.py: {done.stderr}")
    result = json.loads(done.stdout)
    size = result["samples"] * result["sample_bytes"]
    return result["seconds"], result["cpu_s"], result["samples"], size


def open_zarr(folder, threads):
    import zarr
    from numcodecs import blosc

    blosc.set_nthreads(1)
    zarr.config.set({"async.concurrency": max(threads, 1), "threading.max_workers": threads})
    array = zarr.open_group(str(folder), mode="r")["data"]
    return array.shape, lambda rows: array.oindex[rows], lambda begin, end: array[begin:end]


def open_zarrs(folder, threads):
    import zarr

    importlib.import_module("zarrs")  # registers itself
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    if threads == 1:
        zarr.config.set({"codec_pipeline.chunk_concurrent_maximum": 1})
    return open_zarr(folder, threads)


def open_tensorstore(folder, threads):
    import tensorstore

    driver = "zarr3" if (folder / "data" / "zarr.json").exists() else "zarr"
    one = {"data_copy_concurrency": {"limit": 1}, "file_io_concurrency": {"limit": 1}}
    array = tensorstore.open(
        {"driver": driver, "kvstore": {"driver": "file", "path": str(folder / "data")}},
        context=tensorstore.Context(one if threads == 1 else {}),
        read=True,
    ).result()
    return (
        array.shape,
        lambda rows: array.oindex[rows].read().result(),
        lambda begin, end: array[begin:end].read().result(),
    )


OPENERS = {"zarr": open_zarr, "tensorstore": open_tensorstore, "zarrs": open_zarrs}


def read_in_order(array):
    """Returns the number of samples."""
    shape, _, read = array
    rows = max(BATCH_BYTES // (2 * shape[1]), 1)
    for begin in range(0, shape[0], rows):
        read(begin, min(begin + rows, shape[0]))
    return shape[0]


def read_at_random(array):
    """For some seconds, or everything. Returns the number of samples."""
    import numpy

    shape, read, _ = array
    deadline = time.perf_counter() + SMALL_SECONDS
    order = numpy.random.default_rng(7).permutation(shape[0])
    for begin in range(0, shape[0], SMALL_BATCH):
        if time.perf_counter() > deadline:
            return begin
        read(order[begin : begin + SMALL_BATCH])
    return shape[0]


def read_all(what, library, folders, threads):
    """What a child does: {name: [seconds, CPU seconds, samples]} of one pass over each dataset."""
    results = {}
    for name, folder in folders.items():
        array = OPENERS[library](pathlib.Path(folder), threads)
        array[2](0, 1)
        start, cpu = time.perf_counter(), time.process_time()
        count = (read_in_order if what == "decode" else read_at_random)(array)
        results[name] = [time.perf_counter() - start, time.process_time() - cpu, count]
    return results


# --- rounds ---------------------------------------------------------------------------------------


def missing_libraries():
    missing = {}
    for library in OPENERS:
        try:
            version = getattr(importlib.import_module(library), "__version__", "")
            if library == "zarr" and int(version.split(".")[0]) < 3:
                missing[library] = f"zarr-python {version} is not 3"
        except ImportError as error:
            missing[library] = str(error)
    return missing


def child(what, library, folders, threads):
    command = [sys.executable, __file__, what, "--library", library, "--threads", str(threads)]
    text = json.dumps({name: str(folder) for name, folder in folders.items()})
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(arguments, folders, libraries):
    """{reader: {name: [rates]}}: GB a CPU second, or samples a second."""
    decode = arguments.what == "decode"
    rates = {reader: {name: [] for name in folders} for reader in ["penstock", *libraries]}
    for number in range(arguments.rounds):
        sizes = {}
        for name, folder in folders.items():
            wall, cpu, samples, size = penstock(arguments.build, folder, arguments.threads)
            sizes[name] = size / 1e9
            rates["penstock"][name].append(sizes[name] / cpu if decode else samples / wall)
        for library in libraries:
            results = child(arguments.what, library, folders, arguments.threads)
            for name, (wall, cpu, samples) in results.items():
                rates[library][name].append(sizes[name] / cpu if decode else samples / wall)
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return rates


def print_table(arguments, rates, missing):
    decode = arguments.what == "decode"
    readers = list(rates)
    print(f"{'array':12} {'KiB':>6}" + "".join(f"{reader:>14}" for reader in readers))
    for name in rates["penstock"]:
        codec, size = name.split()
        medians = [statistics.median(rates[reader][name]) for reader in readers]
        columns = "".join(f"{rate:14.2f}" if decode else f"{rate:14,.0f}" for rate in medians)
        print(f"{codec:12} {size:>6}{columns}")
    for library, reason in missing.items():
        print(f"{library}: skipped: {reason}")
    unit = "gb_per_cpu_s" if decode else "samples_per_s"
    result = {
        reader: {name: round(statistics.median(values), 3) for name, values in of.items()}
        for reader, of in rates.items()
    }
    print(json.dumps({"what": arguments.what, "unit": unit, **result, "skipped": missing}))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["decode", "small_chunks"])
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--count", type=int, default=SMALL_COUNT, help="small_chunks: of chunks")
    parser.add_argument("--no-peers", action="store_true", help="Penstock alone")
    parser.add_argument("--library", choices=sorted(OPENERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        folders = json.load(sys.stdin)
        print(json.dumps(read_all(arguments.what, arguments.library, folders, arguments.threads)))
        return
    missing = missing_libraries()
    if arguments.no_peers:
        missing = dict.fromkeys(OPENERS, "left out by --no-peers")
    libraries = [library for library in OPENERS if library not in missing]
    if arguments.what == "small_chunks":
        folders = small_dataset(arguments.build, arguments.work, arguments.count)
    elif "zarr" in missing:
        print(f"left out: arrays are written by zarr-python 3: {missing['zarr']}", file=sys.stderr)
        print(json.dumps({"what": "decode", "skipped": missing}))
        return
    else:
        folders = decode_datasets(arguments.work)
    print_table(arguments, measure(arguments, folders, libraries), missing)


if __name__ == "__main__":
    main()
