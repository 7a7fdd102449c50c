#!/usr/bin/env python3
"""Chunk lengths, codecs, levels and filters: what they cost on latents of a video autoencoder.

    bench/run.sh layouts [OPTION...]

The latents are those of `penstock synth`: float16 [20, 4, 32, 32] a sample. Random values on a coarse grid, one node every 4
frames and every 8 rows and columns, are interpolated linearly; noise is added to each value, with a standard deviation of
--grain percent of a node's. 25 percent is "noisy"; 1 percent, "smooth", stands for still pictures, and shows what filters can
gain at most. Each layout is written by `penstock rechunk` (Zarr v3), then measured, then removed. All files are in the page cache.

  stored      bytes of all chunks over decoded bytes
  decode      decoded GB a second of one thread of the reader's pool, which reads and decodes, and does nothing else
  cold, warm  samples/s of the first epoch, from files, and of the second, from memory: one reader with a thread a CPU, one
              penstock-trainer --touch
  memory      most memory of the reader in an epoch, where it has no more than `penstock plan` says it needs

"delta 1" and "delta 4" store differences along frames and along columns. Zarr v3 has these for integers alone, so these layouts
hold the bits of the float16 as int16.

Rounds measure each layout; figures are medians. --budget bounds the time: late layouts get one round. --data, --chunks and --part measure a
piece of all, and with --update FILE the other figures are those of FILE, an earlier last line. The last line is one JSON
object: {"noisy": {layout: {chunk length: {"stored", "decode", "cold", "warm"}}}, "smooth": ..., "memory_mib": {chunk length: ...}}.
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

from jobs import one_reader, read_files, save_plots
from commands import Failed, reason_of, run, say

SAMPLE_BYTES = 20 * 4 * 32 * 32 * 2
GRAINS = {"noisy": 25, "smooth": 1}
CHUNKS = (1, 4, 8, 16, 64)
SMOOTH_CHUNKS = (8,)
MEMORY_LAYOUT = "blosc-zstd 3, shuffle"
LAYOUTS = {
    "none": ["--codec", "none"],
    "blosc-lz4 5, shuffle": ["--codec", "blosc-lz4", "--level", "5"],
    "blosc-lz4 5, bitshuffle": ["--codec", "blosc-lz4", "--level", "5", "--shuffle", "bitshuffle"],
    "blosc-zstd 1, shuffle": ["--codec", "blosc-zstd", "--level", "1"],
    MEMORY_LAYOUT: ["--codec", "blosc-zstd", "--level", "3"],
    "blosc-zstd 9, shuffle": ["--codec", "blosc-zstd", "--level", "9"],
    "blosc-zstd 1, bitshuffle": ["--codec", "blosc-zstd", "--level", "1", "--shuffle", "bitshuffle"],
    "blosc-zstd 3, bitshuffle": ["--codec", "blosc-zstd", "--level", "3", "--shuffle", "bitshuffle"],
    "blosc-zstd 9, bitshuffle": ["--codec", "blosc-zstd", "--level", "9", "--shuffle", "bitshuffle"],
    "zstd 3": ["--codec", "zstd", "--level", "3"],
    "delta 1, blosc-zstd 3, shuffle": ["--codec", "blosc-zstd", "--level", "3", "--delta", "1"],
    "delta 4, blosc-zstd 3, shuffle": ["--codec", "blosc-zstd", "--level", "3", "--delta", "4"],
}
QUICK = ("none", MEMORY_LAYOUT, "delta 1, blosc-zstd 3, shuffle")
CONFIG = """dataset: {{uri: {dataset}, fields: {{latents: {{array: base_frames}}}}}}
batch: {{global_size: 64, last: drop}}
order: {{seed: 17}}
"""


def make_source(arguments, name):
    """Written under another name first: a dataset that is there is complete."""
    path = arguments.work / f"layouts-{name}-{arguments.samples}.zarr"
    if not path.exists():
        say(f"writing {path}")
        part = path.with_suffix(".part")
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "--samples", arguments.samples, "--chunk", 64,
             "--codec", "none", "--grain", GRAINS[name]], 600)
        part.rename(path)
    return path


def make_bits(source):
    """The same chunks as int16."""
    path = source.with_name(f"{source.stem}-bits.zarr")
    shutil.rmtree(path, ignore_errors=True)
    array = path / "base_frames"
    array.mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}', encoding="ascii")
    document = json.loads((source / "base_frames" / ".zarray").read_text(encoding="ascii"))
    (array / ".zarray").write_text(json.dumps({**document, "dtype": "<i2"}), encoding="ascii")
    for chunk in (source / "base_frames").iterdir():
        if not chunk.name.startswith("."):
            (array / chunk.name).symlink_to(chunk)
    return path


def write(arguments, sources, layout, chunk):
    """The dataset, and its stored share."""
    path = arguments.work / "layout.zarr"
    shutil.rmtree(path, ignore_errors=True)
    source = sources["bits" if "delta" in layout else "floats"]
    run([arguments.build / "bin/penstock", "rechunk", source, path, "--arrays", "base_frames", "--chunk", chunk, "--no-verify",
         *LAYOUTS[layout]], 300)
    stored = sum(file.stat().st_size for file in (path / "base_frames" / "c").rglob("*") if file.is_file())
    config = arguments.work / "layouts.yaml"
    config.write_text(CONFIG.format(dataset=path), encoding="utf-8")
    return path, config, stored / (arguments.samples * SAMPLE_BYTES)


def decode(arguments, config):
    """GB/s."""
    found = json.loads(run([arguments.build / "bin/penstock-bench-limit", "cold", "-c", config, "--set", "readers.threads=1"], 100))
    return found["samples"] * SAMPLE_BYTES / found["seconds"] / 1e9


def service(arguments, config, settings=None, epochs=2):
    """Samples/s of each epoch, and the most memory of any process, in MiB."""
    folder = arguments.work / "layouts-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command, environment = one_reader(arguments.build, {
        "delivery.trainers": 1, "readers.threads": arguments.threads, "order.epochs": epochs, **(settings or {})}, config)
    command += ["--", arguments.build / "bin/penstock-trainer", "--touch", f"--json={folder}/trainer.json"]
    with open(folder / "log", "w+", encoding="utf-8") as log:
        with subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, env=environment) as job:
            _, status, used = os.wait4(job.pid, 0)
            job.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        if job.returncode != 0:
            raise Failed(f"exit code {job.returncode}: {reason_of(log.read())}")
    report = json.loads((folder / "trainer.json").read_text(encoding="utf-8"))
    return [epoch["samples"] / epoch["seconds"] for epoch in report["epochs"]], used.ru_maxrss / 1024


def measure_memory(arguments, config):
    plan = json.loads(run([arguments.build / "bin/penstock", "plan", "--json", "-c", config, "--set", "delivery.trainers=1",
                           "--set", f"readers.threads={arguments.threads}"], 100))
    return service(arguments, config, {"readers.memory_limit": plan["memory"]["least"]}, epochs=1)[1]


def measure(arguments, path, config, rounds):
    found = {"decode": [], "cold": [], "warm": []}
    for _ in range(rounds):
        read_files(path)
        found["decode"].append(decode(arguments, config))
        (cold, warm), _ = service(arguments, config)
        found["cold"].append(cold)
        found["warm"].append(warm)
    return {name: round(statistics.median(values), 3) for name, values in found.items()}


def print_table(name, lines):
    print(f"\n{name}: {GRAINS[name]}% grain\n{'layout':32} {'chunk':>5} {'stored':>7} {'decode':>7} {'cold':>8} {'warm':>8}\n"
          f"{'':32} {'':5} {'':7} {'GB/s':>7} {'samples/s':>17}")
    for layout, chunks in lines.items():
        for chunk, line in chunks.items():
            print(f"{layout:32} {chunk:>5} {line['stored']:7.3f} {line['decode']:7.2f} {line['cold']:8,.0f} {line['warm']:8,.0f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets and reports")
    parser.add_argument("--samples", type=int, default=2048, help="160 KiB each (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--budget", type=int, default=450, help="seconds (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the reader (one a cpu)")
    parser.add_argument("--quick", action="store_true", help="three layouts, chunks of 1 and 8, one round")
    parser.add_argument("--data", choices=GRAINS, nargs="+", default=list(GRAINS), help="(all)")
    parser.add_argument("--chunks", type=int, nargs="+", default=CHUNKS, help="chunk lengths (all)")
    parser.add_argument("--part", default="1/1", help="of the layouts, as 2/4 (%(default)s)")
    parser.add_argument("--update", type=pathlib.Path, help="an earlier last line, for what is not measured")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plot; takes Matplotlib")
    arguments = parser.parse_args()
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    return arguments


def main():
    arguments = parse()
    part, parts = map(int, arguments.part.split("/"))
    layouts = (QUICK if arguments.quick else tuple(LAYOUTS))[part - 1::parts]
    chunks = {"noisy": (1, 8) if arguments.quick else CHUNKS, "smooth": SMOOTH_CHUNKS}
    chunks = {name: [chunk for chunk in chunks[name] if chunk in arguments.chunks] for name in arguments.data}
    # Chunk lengths outermost: where time runs short, all layouts of a length have as many rounds.
    todo = [(name, chunk, layout) for name in chunks for chunk in chunks[name] for layout in layouts]
    results = json.loads(arguments.update.read_text(encoding="utf-8")) if arguments.update else {name: {} for name in chunks}
    memory, sources = results.pop("memory_mib", {}), {}
    for name in chunks:
        floats = make_source(arguments, name)
        sources[name] = {"floats": floats, "bits": make_bits(floats)}
    start = time.monotonic()
    for number, (name, chunk, layout) in enumerate(todo):
        late = time.monotonic() - start > arguments.budget * number / len(todo)
        path, config, stored = write(arguments, sources[name], layout, chunk)
        line = {"stored": round(stored, 4), **measure(arguments, path, config, 1 if arguments.quick or late else arguments.rounds)}
        results[name].setdefault(layout, {})[str(chunk)] = line
        if name == "noisy" and layout == MEMORY_LAYOUT:
            memory[str(chunk)] = round(measure_memory(arguments, config), 1)
        say(f"{name}, {layout}, chunks of {chunk}: {line}" + (" (late: one round)" if late and not arguments.quick else ""))
        shutil.rmtree(path)
    for name, lines in results.items():
        print_table(name, lines)
    print("\nmost memory of the reader, MiB: " + ", ".join(f"chunks of {chunk} {mib:,.0f}" for chunk, mib in memory.items()))
    if arguments.plots:
        save_plots(arguments.plots, "layouts", {**results, "memory_mib": memory})
    print(json.dumps({**results, "memory_mib": memory}))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"layouts: {failed}")
