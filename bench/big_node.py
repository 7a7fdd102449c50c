#!/usr/bin/env python3
"""One node of many cores: how much of memcpy and of decoding readers deliver, and whether one reader, two or four deliver most.

    bench/run.sh big_node [OPTION...]

  latents  160 KiB a sample, one a chunk. One reader with a thread a cpu and one penstock-trainer --touch: the first epoch beside
           `penstock-bench-limit cold`, which only decodes, and later ones, from memory, beside `warm`, which only copies.
           Then from memory with --trainers trainers, and one, two and four readers that share as many threads
  small    samples of 64 bytes from memory, one reader, beside `warm`
  csr      cells of AnnData's layout, decoded in each epoch, beside `cold`

It is meant for 16 cores and more, and takes less than eight minutes: rounds make each measurement once, one after another, as many as
fit. Figures are medians. The last line is one JSON object of ratios: of later epochs, csr and first epochs to their limits; and of
two and four readers to one.
"""

import argparse
import json
import os
import shutil
import sys

import csr
import jobs
import ragged
from commands import Failed, run, say

READERS = (1, 2, 4)
LATENTS = """dataset:
  uri: {dataset}
  fields:
    latents: {{array: base_frames}}
    text: {{array: clip_emb, index: segment_to_video}}
batch: {{global_size: 64, last: drop}}
order: {{seed: 17}}
"""
SMALL = """dataset: {{uri: {dataset}}}
batch: {{global_size: 16384, last: drop}}
"""
CELLS = csr.CONFIG.replace("{batch}", "32")
VARIANTS = {
    "limit_cold": "latents: decoding alone",
    "cold": "  Penstock, first epoch",
    "limit_warm": "latents: memcpy alone",
    "warm": "  Penstock, later epochs",
    **{f"readers_{count}": f"  several trainers, readers: {count}" for count in READERS},
    "limit_small": "64 bytes: memcpy alone",
    "small": "  Penstock, later epochs",
    "limit_csr": "csr: decoding alone",
    "csr": "  Penstock",
}
RATIOS = {
    "warm_share": ("warm", "limit_warm", 0.80),
    "csr_share": ("csr", "limit_csr", None),
    "cold_share": ("cold", "limit_cold", None),
    "two_readers_over_one": ("readers_2", "readers_1", 0.90),
    "four_readers_over_one": ("readers_4", "readers_1", 0.90),
}


def write_config(arguments, name, text, samples, *options):
    """Written under another name first: a dataset that is there is complete."""
    dataset = arguments.work / f"big-{name}-{samples}.zarr"
    if not dataset.exists():
        say(f"writing {dataset}")
        part = dataset.with_suffix(".part")
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "-n", samples, *options], 600)
        part.rename(dataset)
    path = arguments.work / f"big-{name}.yaml"
    path.write_text(text.format(dataset=dataset), encoding="utf-8")
    jobs.read_files(dataset)
    return path


def deliver(arguments, config, readers, trainers, epochs):
    """Samples a second of the first epoch, and of all later ones together, as the trainers saw them."""
    folder = arguments.work / "big-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    settings = {"delivery.trainers": trainers, "order.epochs": epochs, "readers.threads": max(1, arguments.threads // readers)}
    command, environment = jobs.one_reader(arguments.build, settings, config)
    command[command.index("-np") + 1] = str(readers)
    run([*command, "--", arguments.build / "bin/penstock-trainer", "--touch", f"--json={folder}/trainer-{{rank}}.json"], 300,
        env=environment)
    reports = [json.loads(path.read_text(encoding="utf-8"))["epochs"] for path in folder.glob("trainer-*.json")]
    first_s = max(report[0]["seconds"] for report in reports)
    all_s = max(sum(epoch["seconds"] for epoch in report) for report in reports)
    first = sum(report[0]["samples"] for report in reports)
    later = sum(epoch["samples"] for report in reports for epoch in report[1:])
    return first / first_s, later / (all_s - first_s)


def limit(arguments, config, mode, passes=1):
    out = run([arguments.build / "bin/penstock-bench-limit", mode, "-c", config, "-p", passes, "--set",
               f"readers.threads={arguments.threads}"], 300)
    return json.loads(out)["samples_per_s"]


def measure_round(arguments, configs, rates):
    def note(name, rate):
        rates.setdefault(name, []).append(rate)
        say(f"{name} {rate:,.0f}")

    latents, small, cells = configs
    note("limit_cold", limit(arguments, latents, "cold"))
    cold, warm = deliver(arguments, latents, 1, 1, arguments.epochs)
    note("limit_warm", limit(arguments, latents, "warm", arguments.epochs - 1))
    note("cold", cold)
    note("warm", warm)
    for count in READERS:
        note(f"readers_{count}", deliver(arguments, latents, count, arguments.trainers, arguments.epochs)[1])
    note("small", deliver(arguments, small, 1, 1, 4)[1])
    note("limit_small", limit(arguments, small, "warm", 3))
    note("csr", csr.measure(arguments, cells))
    note("limit_csr", ragged.limit(arguments, cells, "cold"))


def print_table(rates):
    print(f"\n{'samples/s':40} {'median':>12} {'min':>12} {'max':>12}")
    for name, text in VARIANTS.items():
        values = rates[name]
        print(f"{text:40} {ragged.median(values):12,.0f} {min(values):12,.0f} {max(values):12,.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=jobs.pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=jobs.pathlib.Path, required=True, help="datasets and reports")
    parser.add_argument("--rounds", type=int, default=5, help="at most (%(default)s)")
    parser.add_argument("--seconds", type=float, default=400, help="after which no round begins that could take longer (%(default)s)")
    parser.add_argument("--samples", type=int, default=5000, help="of latents; as many cells times 20, and small samples times 400 (%(default)s)")
    parser.add_argument("--epochs", type=int, default=21, help="of latents (%(default)s)")
    parser.add_argument("--trainers", type=int, default=4, help="of one, two and four readers (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of all readers together (one a cpu)")
    arguments = parser.parse_args()
    arguments.build, arguments.work, arguments.batch = arguments.build.resolve(), arguments.work.resolve(), 32
    arguments.work.mkdir(parents=True, exist_ok=True)
    clock, rates = jobs.Clock(arguments.seconds), {}
    configs = (
        write_config(arguments, "latents", LATENTS, arguments.samples),
        write_config(arguments, "small", SMALL, 400 * arguments.samples, "--layout", "plain", "--shape", "16", "--chunk", "4096",
                     "--codec", "none"),
        write_config(arguments, "cells", CELLS, 20 * arguments.samples, "--layout", "csr", "--format", "3"),
    )
    say(f"{arguments.threads} threads; datasets took {clock.elapsed():.0f} s")
    for number in range(arguments.rounds):
        since = clock.elapsed()
        say(f"round {number + 1} of {arguments.rounds}")
        measure_round(arguments, configs, rates)
        if not clock.fits_another(since):
            break
    print_table(rates)
    ratios = {name: ragged.median(rates[above]) / ragged.median(rates[below]) for name, (above, below, _) in RATIOS.items()}
    for name, (_, _, goal) in RATIOS.items():
        judged = f" (goal {goal:.2f}: {'reached' if ratios[name] >= goal else 'missed'})" if goal else ""
        print(f"{name} {ratios[name]:.2f}{judged}")
    print(json.dumps({name: round(ratio, 4) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"big_node: {failed}")
