#!/usr/bin/env python3
"""Runs bench/run.sh on next to nothing and checks its last lines. Judges no timings.

    smoke.py BUILD_DIRECTORY
"""
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent


def last_line(build, what):
    command = [BENCH / "run.sh", what, "--build", build, "--work", build / "bench" / "smoke",
               "--samples", "64", "--batch", "16", "--rounds", "1", "--no-dataloader"]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=100)
    print(run.stdout)
    return json.loads(run.stdout.splitlines()[-1])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    rates = last_line(build, "end_to_end")
    assert list(rates) == ["limit_cold", "cold", "limit_warm", "warm", "dataloader"], rates
    assert rates.pop("dataloader") is None
    assert all(rate > 0 for rate in rates.values()), rates
    share = last_line(build, "idle")
    assert list(share) == ["readers_cpu_share"] and share["readers_cpu_share"] > 0, share


if __name__ == "__main__":
    main()
