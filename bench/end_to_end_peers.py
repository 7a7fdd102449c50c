#!/usr/bin/env python3
"""The other libraries of bench/run.sh end_to_end, besides zarr-python: one trainer reads a directory (loaders.py).

    end_to_end_peers.py prepare SETTINGS --environments FOLDER --dataset FOLDER --batch B
    end_to_end_peers.py measure SETTINGS --environments FOLDER --dataset FOLDER --batch B

prepare installs what is missing, finds out how many batches ahead each library is fastest with, and writes the file
SETTINGS. What cannot be installed or fails is noted there with the reason. measure lets each library read two epochs, in a
process of its own, and prints two lines for each, as report.py keeps them: NAME_cold and NAME_warm.
"""
import argparse
import json
import pathlib
import sys

import environments
import jobs
from jobs import read_files
from commands import Failed, run, say

PEERS = {"tensorstore": "torch", "zarrs": "torch", "insitubatch": "insitubatch", "grain": "torch"}
AHEAD = (0, 2, 6)  # batches on their way; of grain threads
PROBES, PROBE_BATCHES = 2, 20
TIMEOUT_S = 300
CACHE_BYTES = 4 << 30  # room for all samples


def measure_once(arguments, name, *options):
    """Samples a second of each epoch."""
    python = environments.python_of(arguments.environments, PEERS[name])
    # Of insitubatch the whole dataset is a host's own share.
    loader = "insitubatch-own" if name == "insitubatch" else name
    command = [python, jobs.BENCH / "loaders.py", loader, "--location", arguments.dataset.resolve(), "--array",
               "base_frames", "--joined", "clip_emb", "segment_to_video", "--batch", arguments.batch, "--cache",
               CACHE_BYTES, "--touch", "page", *options]
    read_files(arguments.dataset)
    result = json.loads(run(command, TIMEOUT_S).splitlines()[-1])
    begin, rates = result["begin"], []
    for epoch in result["epochs"]:
        rates.append(epoch["samples"] / (epoch["end"] - begin))
        begin = epoch["end"]
    return rates


def probe(arguments, name):
    """Each setting's best rate of a few batches."""
    rates = dict.fromkeys(AHEAD, 0)
    for _ in range(PROBES):
        for ahead in AHEAD:
            rate, = measure_once(arguments, name, "--ahead", ahead, "--epochs", 1, "--most-batches", PROBE_BATCHES)
            rates[ahead] = max(rates[ahead], rate)
    return rates


def prepare(arguments):
    settings, missing = {}, {}
    for name, environment in PEERS.items():
        try:
            environments.prepare(arguments.environments, environment)
            rates = probe(arguments, name)
        except (Failed, environments.Missing) as reason:
            missing[name] = str(reason)
            say(f"{name}: skipped: {reason}")
            continue
        settings[name] = max(rates, key=rates.get)
        say(f"{name}: " + ", ".join(f"{ahead} ahead {rate:,.0f}" for ahead, rate in rates.items()) + " samples/s")
    arguments.settings.write_text(json.dumps({"ahead": settings, "missing": missing}), encoding="utf-8")


def measure(arguments):
    for name, ahead in json.loads(arguments.settings.read_text(encoding="utf-8"))["ahead"].items():
        rates = measure_once(arguments, name, "--ahead", ahead, "--epochs", 2)
        for kind, rate in zip(("cold", "warm"), rates):
            print(json.dumps({"variant": f"{name}_{kind}", "samples_per_s": rate}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "measure"])
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--environments", type=pathlib.Path, required=True)
    parser.add_argument("--dataset", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    arguments = parser.parse_args()
    try:
        {"prepare": prepare, "measure": measure}[arguments.what](arguments)
    except Failed as failure:
        sys.exit(f"end_to_end_peers.py: {failure}")


if __name__ == "__main__":
    main()
