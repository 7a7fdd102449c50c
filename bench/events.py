#!/usr/bin/env python3
"""Windows of an event camera, delivered dense: Penstock beside the limits of the machine, and beside loaders of Parquet.

    bench/run.sh events [OPTION...]

A window has about 97,000 events (bin, y, x, count), 2.1% of the cells of [20, 360, 640]. `penstock synth --layout events` makes them. They
are written as Parquet, a row for each event and a row group for each window, and then imported by `penstock import parquet`.

  limit     the slower of two: the workers decode each chunk once (cold); memset of a window's cells and one pass over its events, by
            each thread alone with its windows (penstock-bench-scatter)
  Penstock  the second epoch, from memory, of one reader with one penstock-trainer --touch; batch_ms: on one core, from batch to batch
  peers     bench/events_peers.py: a DataLoader that reads Parquet by pyarrow or polars, and scatters with NumPy

memory_penstock is what a reader of about 20,000 windows takes with all of them kept for later epochs as they are stored, as `penstock plan`
says of the windows that were written, many times over. memory_dense is the same with dense rows. Both have the ring of dense batches,
which does not grow with the dataset.
exchange_share is what two readers exchange over the same samples when dense. Rounds make each measurement once, one after another; figures
are medians. The last line is one JSON object: batches/s, milliseconds, bytes and a share; null where no peer could be measured.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys

import environments
import jobs
import ragged
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
SHAPE = (20, 360, 640)
CELLS = SHAPE[0] * SHAPE[1] * SHAPE[2]
WINDOWS, MOST_STORES = 20000, 1000  # that memory is reckoned for
PEERS = ("pyarrow", "polars")
CONFIG = """dataset:
  uri: {dataset}
  fields:
    events:
      ragged: {{offsets: events/offsets, index: [events/bin, events/y, events/x], values: events/count}}
      deliver: {{dense: [20, 360, 640], combine: sum}}
    label: {{array: label}}
batch: {{global_size: {batch}, last: drop}}
order: {{seed: 17, window_rows: 8}}
exchange: {{buffer_limit: 256MiB}}
"""


def python_of(arguments):
    try:
        return environments.prepare(arguments.environments, "parquet"), None
    except environments.Missing as reason:
        return None, str(reason)


def make_datasets(arguments, python):
    """The windows as Parquet (None without a Python for it), and as the Zarr dataset that trainers read."""
    synth = arguments.work / f"events-{arguments.samples}-synth.zarr"
    parquet, zarr = synth.with_name(f"events-{arguments.samples}.parquet"), synth.with_name(f"events-{arguments.samples}.zarr")
    if not synth.exists():
        say(f"writing {synth}")
        part = synth.with_suffix(".part")
        run(
            [arguments.build / "bin/penstock", "synth", part, "--overwrite", "--layout", "events", "-n", arguments.samples, "--format", 3],
            900,
        )
        part.rename(synth)
    if not python:
        return None, synth
    if not parquet.exists():
        say(f"writing {parquet}")
        run([python, BENCH / "events_peers.py", "write", synth, parquet], 900)
    if not zarr.exists():
        say(f"importing {parquet}")
        run(
            [
                python,
                "-m",
                "penstock.import_parquet",
                parquet,
                zarr,
                "--window",
                "window_id",
                "--per-window",
                "label",
                "--group",
                "events",
                "--cast",
                "bin=uint8",
            ],
            1800,
            env={"PYTHONPATH": str(BENCH.parent / "python"), "PATH": "/usr/bin:/bin"},
        )
    return parquet, zarr


def measure_peers(arguments, parquet, python, missing, found):
    for peer in PEERS:
        if peer in missing:
            continue
        try:
            parquet.read_bytes()
            command = [python, BENCH / "events_peers.py", peer, parquet, "--batch", arguments.batch, "--workers", arguments.threads]
            found.setdefault(peer, []).append(json.loads(run(command, arguments.timeout).splitlines()[-1])["batches"])
            say(f"{peer}: {found[peer][-1]:.2f} batches/s")
        except Failed as reason:
            missing[peer] = str(reason)


def scatter_limit(arguments):
    """Windows a second of memset and one pass over the events, by as many processes at once as the reader has threads."""
    command = [arguments.build / "bin/penstock-bench-scatter", "5"]
    with concurrent.futures.ThreadPoolExecutor(arguments.threads) as pool:
        outs = list(pool.map(lambda _: run(command, 300), range(arguments.threads)))
    first = [json.loads(out.splitlines()[0]) for out in outs]
    if any(line["dtype"] != "uint8" or not line["in_order"] for line in first):
        raise Failed("penstock-bench-scatter does not begin with uint8 in order")
    return sum(1e6 / line["first"][0] for line in first)


def batch_ms(arguments, config):
    """The median time from batch to batch on one core, in the second epoch."""
    loop = [sys.executable, BENCH / "events_loop.py"]
    out = arguments.work / "events-gaps.json"
    ragged.deliver(arguments, config, epochs=2, threads=1, trainer=[*loop, out], before=["taskset", "-c", "0"])
    return json.loads(out.read_text(encoding="utf-8"))["median_ms"]


def measure(arguments, config, figures):
    decode = ragged.limit(arguments, config, "cold")
    scatter = scatter_limit(arguments)
    _, trainer = ragged.deliver(arguments, config)
    cold, warm = (rate / arguments.batch for rate in ragged.rates(trainer))
    new = {
        "decode": decode / arguments.batch,
        "scatter": scatter / arguments.batch,
        "cold": cold,
        "penstock": warm,
        "batch_ms": batch_ms(arguments, config),
    }
    two, _ = ragged.deliver(arguments, config, readers=2, settings=["order.placement=fixed"])  # half of all move
    epoch = two["epochs"][-1]
    new["exchange_share"] = epoch["sent_bytes"] / (epoch["moved_samples"] * CELLS)
    for name, value in new.items():
        figures.setdefault(name, []).append(value)
    say(", ".join(f"{name} {value:,.2f}" for name, value in new.items()))


def plan_memory(arguments, dataset):
    """A reader's memory for about WINDOWS windows: all kept as stored, and all kept dense."""
    windows = json.loads((dataset / "label/zarr.json").read_text(encoding="utf-8"))["shape"][0]
    stores = min(-(-WINDOWS // windows), MOST_STORES)
    config = arguments.work / "events-many.yaml"
    config.write_text(CONFIG.format(dataset=json.dumps([str(dataset)] * stores), batch=arguments.batch), encoding="utf-8")
    settings = ("readers.cache=stored", "order.epochs=2", f"readers.threads={arguments.threads}", "readers.memory_limit=1TiB")
    words = [word for setting in settings for word in ("--set", setting)]
    memory = json.loads(run([arguments.build / "bin/penstock", "plan", "--json", "-c", config, *words], 300))["memory"]
    rows = memory["row_buffers"] + memory["pages"] + memory["stored_rows"]
    return memory["total"], memory["total"] - rows + windows * stores * CELLS


def print_table(figures, found, missing):
    print(f"\n{'batches/s':28} {'median':>9} {'min':>9} {'max':>9}")
    texts = {
        "decode": "limit: decoding",
        "scatter": "limit: clearing and scattering",
        "cold": "Penstock, first epoch",
        "penstock": "Penstock, second epoch",
    }
    for name, text in texts.items():
        values = figures[name]
        print(f"{text:28} {ragged.median(values):9.2f} {min(values):9.2f} {max(values):9.2f}")
    for peer, values in found.items():
        print(f"{peer + ' over Parquet':28} {ragged.median(values):9.2f} {min(values):9.2f} {max(values):9.2f}")
    for peer, reason in missing.items():
        print(f"{peer:28} {'-':>9}  {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ragged.add_arguments(parser, 1000)
    arguments = parser.parse_args()
    ragged.settle(arguments)
    python, reason = python_of(arguments) if arguments.peers else (None, "left out by --no-peers")
    parquet, dataset = make_datasets(arguments, python)
    missing = {} if python else dict.fromkeys(PEERS, reason)
    config = arguments.work / "events.yaml"
    config.write_text(CONFIG.format(dataset=dataset, batch=arguments.batch), encoding="utf-8")
    figures, found = {}, {}
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        jobs.read_files(dataset)
        measure(arguments, config, figures)
        measure_peers(arguments, parquet, python, missing, found)
    print_table(figures, found, missing)
    medians = {name: ragged.median(values) for name, values in figures.items()}
    limit = min(medians["decode"], medians["scatter"])
    peer = max((ragged.median(values) for values in found.values()), default=None)
    memory, dense = plan_memory(arguments, dataset)
    for text, value, goal, reached in (
        ("of the limit (goal 0.8)", medians["penstock"] / limit, 0.8, medians["penstock"] / limit >= 0.8),
        (
            "times the best loader of Parquet (goal 10)",
            medians["penstock"] / peer if peer else 0,
            10,
            peer and medians["penstock"] >= 10 * peer,
        ),
        (f"times less memory than dense, with {WINDOWS:,} windows (goal 8)", dense / memory, 8, dense >= 8 * memory),
        ("ms a batch on one core (goal: below 10)", medians["batch_ms"], 10, medians["batch_ms"] < 10),
    ):
        print(f"{value:.2f} {text}: {'reached' if reached else 'missed'}")
    print(
        json.dumps(
            {
                "limit": limit,
                "penstock": medians["penstock"],
                "parquet_loader": peer,
                "batch_ms": medians["batch_ms"],
                "memory_penstock": memory,
                "memory_dense": dense,
                "exchange_share": medians["exchange_share"],
            }
        )
    )


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"events: {failed}")
