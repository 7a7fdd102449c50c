#!/usr/bin/env python3
"""Runs bench/run.sh on next to nothing and checks its last lines. Judges no timings.

    smoke.py BUILD_DIRECTORY
"""
import importlib.util
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent


CANNOT = 77


def last_line(build, what, *options):
    """None where this machine cannot run the benchmark, and says why."""
    command = [BENCH / "run.sh", what, "--build", build, "--work", build / "bench" / "smoke",
               *options]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True, timeout=100)
    print(run.stdout)
    if run.returncode == CANNOT:
        return None
    run.check_returncode()
    return json.loads(run.stdout.splitlines()[-1])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    small = ["--samples", "64", "--batch", "16", "--rounds", "1", "--no-dataloader"]
    rates = last_line(build, "end_to_end", *small, "--no-peers")
    assert list(rates) == ["limit_cold", "cold", "limit_warm", "warm", "dataloader", "cold_pair", "warm_pair",
                           "best_peer_cold", "best_peer_warm"], rates
    for missing in ("dataloader", "best_peer_cold", "best_peer_warm"):
        assert rates.pop(missing) is None, rates
    assert all(rate > 0 for rate in rates.values()), rates
    share = last_line(build, "idle", *small)
    assert list(share) == ["readers_cpu_share", "waiting_cpu_share"] and min(share.values()) > 0, share
    windows = last_line(build, "windows", "--frames", "400", "--batch", "16", "--rounds", "1", "--no-peers")
    for rates in windows.values():
        assert rates.pop("best_peer_cold") is None and rates.pop("best_peer_warm") is None, windows
        assert list(rates) == ["limit_cold", "cold", "limit_warm", "warm"] and min(rates.values()) > 0, windows
    ingest = last_line(build, "ingest", "--videos", "1", "--seconds", "6", "--segments", "1", "--rounds", "1", "--no-peers")
    if ingest is not None: # without FFmpeg it cannot run
        assert list(ingest) == ["limit", "penstock", "peer"] and ingest.pop("peer") is None and min(ingest.values()) > 0, ingest
    csr = last_line(build, "csr", "--samples", "2000", "--rounds", "1", "--no-peers")
    assert list(csr) == ["decode", "penstock", "best_peer"] and csr.pop("best_peer") is None and min(csr.values()) > 0, csr
    node = last_line(build, "big_node", "--samples", "200", "--epochs", "3", "--rounds", "1")
    assert list(node) == ["warm_share", "csr_share", "cold_share", "two_readers_over_one", "four_readers_over_one"], node
    assert min(node.values()) > 0, node
    layouts = last_line(build, "layouts", "--quick", "--samples", "64")
    assert list(layouts) == ["noisy", "smooth", "memory_mib"] and set(layouts["memory_mib"]) == {"1", "8"}, layouts
    for chunks in [*layouts["noisy"].values(), *layouts["smooth"].values()]:
        assert "8" in chunks and all(min(line.values()) > 0 for line in chunks.values()), layouts
    assert layouts["noisy"]["none"]["8"]["stored"] == 1, layouts
    costs = last_line(build, "plan_at_scale", "--most", "1000000")
    assert costs["readers"] == 1024 and costs["rank0_mb"] > 0 and costs["counts_ms"] > 0, costs
    assert all(min(found.values()) >= 0 < max(found.values()) for found in costs["anchors"].values()), costs
    rates = last_line(build, "decode", "--rounds", "1", "--most", "64", "--no-peers")["decode"]
    assert {rate["bytes"] for rate in rates} == {65536}, rates
    assert all(rate["rate"] > 0 for rate in rates), rates
    small = last_line(build, "small_chunks", "--rounds", "1", "--most", "500", "--no-peers")
    assert small["penstock"]["raw 8"] > 0, small
    large = last_line(build, "local", "--rounds", "1", "--bytes", str(2 << 20), "--kib", "1024",
                      "--codec", "none")
    assert min(min(way) for way in large["none 1024"].values()) > 0, large
    joined = last_line(build, "shards", "--rounds", "1", "--rows", "8", "--gaps", "16", "--sizes",
                       "4096", "--no-http")
    assert min(joined["gap"]["16 KiB"]["cold"]) > 0, joined
    shared = last_line(build, "groups", "--no-peers", "--rounds", "1", "--samples", "64", "--batch", "16", "--steps", "16")
    assert list(shared) == ["independent", "group", "broadcast_peer", "ring_bytes_per_node", "store_bytes_over_dataset"], shared
    assert shared["group"] > 0 and shared["broadcast_peer"] is None and shared["store_bytes_over_dataset"] == 1, shared
    peers = last_line(build, "cluster_peers", "--no-peers", "--samples", "64", "--batch", "4", "--rounds", "1")
    if peers:
        assert min(peers["penstock"]) > 0 and len(peers["penstock"]) == 3, peers
        assert set(peers["stores"]) == {"http", "s3"} and peers["best_peer"] is None, peers
        first, *later = peers["store_bytes"]["penstock"]
        assert first > peers["stored_bytes"]["dataset"] / 2 and sum(later) < first / 2, peers
    if importlib.util.find_spec("numpy"):
        costs = last_line(build, "python", "--rounds", "1", "--few")
        assert list(costs) == ["trainer", "python", "tiny_trainer", "tiny_python", "tiny_bound"], costs
        assert min(costs.values()) > 0, costs
        simulated = last_line(build, "simulate", "--most", "64", "--draws", "1")
        shares = simulated["by_nodes"]["100 Gbit/s fat tree, RDMA"]
        assert 0 < shares["1024"]["64"][1] < shares["163840"]["64"][1] <= 100, shares
    else:
        print("simulate, python: left out, there is no numpy")


if __name__ == "__main__":
    main()
