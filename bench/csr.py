#!/usr/bin/env python3
"""Rows of a sparse matrix in AnnData's layout: Penstock beside decoding alone, and beside loaders of single-cell data.

    bench/run.sh csr [OPTION...]

The dataset is that of `penstock synth --layout csr`: cells of about 1,000 of 20,000 genes, as X/indptr, X/indices and X/data. All is in
the page cache, and every loader shuffles over the whole matrix.

  decode    the reader's workers decode the chunks of each row once, and do nothing else
  both      they also copy the items of each row once, in no order, to memory as large as a ring: what is left to do once
            all else is free
  Penstock  --epochs epochs of one reader with one penstock-trainer --touch, which gets each batch as CSR; no row is kept for
            the next epoch
  peers     bench/csr_peers.py on the same files: anndata and scipy under a DataLoader, scDataset, annbatch

Clocks of Penstock and its peers run from the first batch on: opening files, and loading before the first batch, count for nobody.
Rounds make each measurement once, one after another; figures are medians. The last line is one JSON object: rows/s, null where no peer
could be measured.
"""

import argparse
import json
import pathlib
import sys

import environments
import jobs
import ragged
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
PEERS = {"anndata": "singlecell", "scdataset": "singlecell", "annbatch": "annbatch"}
CONFIG = """dataset:
  uri: {dataset}
  fields:
    X: {{array: X, deliver: csr}}
batch: {{global_size: {batch}, last: drop}}
order: {{seed: 17, window_rows: 8}}
"""


def make_dataset(arguments):
    path = arguments.work / f"cells-{arguments.samples}.zarr"
    if not path.exists():
        say(f"writing {path}")
        part = path.with_suffix(".part")
        run(
            [arguments.build / "bin/penstock", "synth", part, "--overwrite", "--layout", "csr", "-n", arguments.samples, "--format", 3], 600
        )
        part.rename(path)
    return path


def measure_peers(arguments, dataset, pythons, missing, found):
    for peer in list(pythons):
        try:
            jobs.read_files(dataset)
            command = [pythons[peer], BENCH / "csr_peers.py", peer, dataset, "--batch", arguments.batch, "--workers", arguments.threads]
            found.setdefault(peer, []).append(json.loads(run(command, arguments.timeout).splitlines()[-1])["rows"])
            say(f"{peer}: {found[peer][-1]:,.0f} rows/s")
        except Failed as reason:
            missing[peer] = str(reason)
            del pythons[peer]


def measure(arguments, config):
    """Rows a second from the first batch on."""
    trainer = ragged.deliver(arguments, config, epochs=arguments.epochs, settings=["readers.cache=off"])[1]
    return (trainer["samples"] - arguments.batch) / (trainer["seconds"] - trainer["first_batch_ms"] / 1000)


def print_table(figures, found, missing):
    print(f"\n{'rows/s':24} {'median':>10} {'min':>10} {'max':>10}")
    for name, values in {**figures, **found}.items():
        print(f"{name:24} {ragged.median(values):10,.0f} {min(values):10,.0f} {max(values):10,.0f}")
    for peer, reason in missing.items():
        print(f"{peer:24} {'-':>10}  {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ragged.add_arguments(parser, 400000)
    parser.add_argument("--epochs", type=int, default=6, help="of Penstock's run (%(default)s)")
    arguments = parser.parse_args()
    ragged.settle(arguments)
    dataset = make_dataset(arguments)
    config = arguments.work / "csr.yaml"
    config.write_text(CONFIG.format(dataset=dataset, batch=arguments.batch), encoding="utf-8")
    pythons, missing = environments.prepare_all(arguments.environments, PEERS, arguments.peers)
    figures, found = {"decoding alone": [], "decoding and copying": [], "Penstock": []}, {}
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        for values, one in zip(
            figures.values(),
            (
                lambda: ragged.limit(arguments, config, "cold"),
                lambda: ragged.limit(arguments, config, "both"),
                lambda: measure(arguments, config),
            ),
        ):
            jobs.read_files(dataset)
            values.append(one())
        say(", ".join(f"{name} {values[-1]:,.0f}" for name, values in figures.items()))
        measure_peers(arguments, dataset, pythons, missing, found)
    print_table(figures, found, missing)
    decode, both, penstock = (ragged.median(values) for values in figures.values())
    best = max((ragged.median(values) for values in found.values()), default=None)
    print(f"decoding and copying over decoding alone: {both / decode:.2f}")
    print(f"Penstock over decoding and copying: {penstock / both:.2f}")
    for name, base, goal in (("decoding alone", decode, 0.8), ("the best peer", best, 5)):
        if base:
            print(f"Penstock over {name}: {penstock / base:.2f} (goal {goal}: {'reached' if penstock / base >= goal else 'missed'})")
    print(json.dumps({"decode": decode, "penstock": penstock, "best_peer": best}))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"csr: {failed}")
