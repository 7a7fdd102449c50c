"""A dataset in four kinds of store, with latency added, against a bare loop of GETs and decoding. nginx plays the cloud: each answer
is held back for so many milliseconds, and nobody looks at signatures, which readers make all the same. In every round, one after
another, for gs, az, s3 and an Icechunk repository behind s3, with the same data in the page cache:

  gets     curl fetches the same objects, as many at a time as the reader may ask for, and throws them away
  decode   a reader reads the dataset from its directory
  store    the same reader over the cloud
  peer     Icechunk alone: zarr-python with icechunk, in slabs of 200 chunks, all requested at once

Rates are stored bytes a second; of readers, over the epochs after the first. `ratio` is store / min(gets, decode) of a round, and the
last line, one JSON object, has the median for each store. Without --rate all is on loopback. All shares the machine's CPUs.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import environments
import remote
import icechunk_writer  # remote.py has its folder in the path

KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
ACCOUNT = {"AZURE_STORAGE_ACCOUNT_NAME": "bench", "AZURE_STORAGE_ACCOUNT_KEY": "YmVuY2g="}


def make_root(arguments, dataset):
    root = arguments.work / f"clouds-{dataset.name}"
    folder = root / "bench" / "bench"
    if not folder.exists():
        new = root / "new"
        shutil.rmtree(root, ignore_errors=True)
        new.mkdir(parents=True)
        (new / "latents").symlink_to(dataset)
        icechunk_writer.Writer(str(new / "repository"), version=1).commit(str(dataset))
        folder.parent.mkdir()
        new.rename(folder)
    return root


def benches(arguments, server, root, dataset):
    """The folder below `root` is a bucket, and an account of Azure; the next one a container."""
    folder = root / "bench" / "bench"
    places = {
        "gs": ("latents/base_frames", "gs://bench/bench/latents", {"store.anonymous": "true"}, {}),
        "az": ("latents/base_frames", "az://bench/latents", {}, ACCOUNT),
        "s3": ("latents/base_frames", "s3://bench/bench/latents", {}, KEYS),
        "icechunk": ("repository/chunks", "icechunk+s3://bench/bench/repository", {}, KEYS),
    }
    return {name: remote.Bench(arguments, server, root, folder / values, uri, {"store.endpoint": server.url, **settings}, environment)
            for name, (values, uri, settings, environment) in places.items()}


def make_peer(arguments):
    """The Python that has icechunk; None, with the reason said."""
    try:
        return environments.prepare(arguments.work / "environments", "icechunk")
    except environments.Missing as why:
        print(f"no peer of Icechunk: {why}", file=sys.stderr)
        return None


def peer_rate(bench, python):
    """Stored bytes a second of all chunks, once; opening does not count."""
    command = [str(python), str(pathlib.Path(__file__).with_name("clouds_peer.py")), bench.server.url]
    done = subprocess.run(bench.command(*command), check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **KEYS})
    return bench.bytes / float(done.stdout)


def run(arguments):
    dataset = remote.make_dataset(arguments, 3)
    root = make_root(arguments, dataset)
    server = remote.make_server(arguments, root)
    peer = make_peer(arguments)
    rates, peers = {}, []
    try:
        all_benches = benches(arguments, server, root, dataset)
        for _ in range(arguments.rounds):
            for name, bench in all_benches.items():
                found = bench.link(), bench.reader(str(dataset)), bench.remote()
                rates.setdefault(name, []).append(found)
                print(f"{name:9}" + "  ".join(f"{way} {rate / 1e6:5.0f} MB/s" for way, rate in zip(("gets", "decode", "store"), found)),
                      f" cores {bench.cores[-1]:.2f}", file=sys.stderr, flush=True)
            if peer:
                peers.append(rates["icechunk"][-1][2] / peer_rate(all_benches["icechunk"], peer))
                print(f"icechunk  {peers[-1]:.2f} of zarr-python with icechunk", file=sys.stderr, flush=True)
    finally:
        server.close()
    ratios = {name: round(statistics.median(store / min(gets, decode) for gets, decode, store in found), 3) for name, found in rates.items()}
    print(f"\n{'':9}{'gets':>8}{'decode':>8}{'store':>8}   MB/s, medians; store / min(gets, decode)")
    for name, found in rates.items():
        print(f"{name:9}" + "".join(f"{statistics.median(values) / 1e6:8.0f}" for values in zip(*found)) + f"{ratios[name]:8.2f}")
    if peers:
        print(f"icechunk: {statistics.median(peers):.2f} of what zarr-python with icechunk reads")
    print(json.dumps(ratios))


def main():
    arguments = remote.parse(remote.make_parser(__doc__))
    if not arguments:
        return 77
    run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
