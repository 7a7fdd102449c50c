#!/usr/bin/env python3
"""Windows of 16 steps: Penstock beside the limits of the machine, and beside xbatcher, robomimic's and LeRobot's datasets.

    bench/run.sh windows [OPTION...]

The dataset is a robot's, of `penstock synth --layout robot`, twice: with 8 and with 64 frames a chunk. A sample is image, state
and action at steps -1 to 14, 442 KB with images of 96 x 96; an episode's end lets 1 step before and 7 after be missing. All frames are in the page cache.

  limit cold  the slower of two: the reader's workers decode each row once with its halo, and do nothing else; and limit warm
  in turn     the two one after another: 1 / (1 / decoding + 1 / copies), since both share the cores. No goal
  limit both  the two at once: the same workers decode each row once and copy each window once, in a loop that waits for nothing.
              No goal: the limit that cores and memory's bandwidth set together
  limit warm  the same workers copy windows from decoded rows in memory into a ring of batches, in the order of an epoch
  cold, warm  the first and the second epoch of one reader with one penstock-trainer --touch
  peers       bench/windows_peers.py, in environments of their own. Where one cannot be installed, the reason is printed

Rounds make each measurement once, one after another; figures are medians. The last line is one JSON object: samples/s, null where
no peer could be measured.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys

import environments
import jobs
from jobs import one_reader, save_plots
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
CHUNKS = {"rows8": 8, "rows64": 64}
WINDOW_ROWS = {"rows8": 8, "rows64": 2}  # of the shuffle: several windows, so that one is decoded while another is delivered
PEERS = ("xbatcher", "robomimic", "lerobot")
ON_THE_STORE = ("xbatcher",)  # the others have files of their own, whatever the store's chunks
VARIANTS = {"limit_cold": "limit, first epoch", "limit_in_turn": "one after another, first epoch",
            "limit_both": "both at once, first epoch", "cold": "Penstock, first epoch",
            "limit_warm": "limit, second epoch", "warm": "Penstock, second epoch"}
GOALS = [("cold", "limit_cold", 0.85), ("cold", "limit_both", None), ("warm", "limit_warm", 0.85), ("cold", "best_peer_cold", 5), ("warm", "best_peer_warm", 20)]
CONFIG = """dataset:
  uri: {dataset}
  fields:
    img: {{array: data/img, steps: "-1:15"}}
    state: {{array: data/state, steps: "-1:15"}}
    action: {{array: data/action, steps: "-1:15"}}
samples:
  episodes: {{ends: meta/episode_ends}}
  pad: {{before: 1, after: 7}}
batch: {{global_size: {batch}, last: drop}}
order: {{seed: 17, window_rows: {window_rows}}}
"""


def make_dataset(arguments, chunk):
    """Written under another name first: a dataset that is there is complete."""
    path = arguments.work / f"robot-{arguments.side}-{arguments.frames}-{chunk}.zarr"
    if not path.exists():
        say(f"writing {path}")
        part = path.with_suffix(".part")
        run([arguments.build / "bin/penstock", "synth", part, "--overwrite", "--layout", "robot", "--samples", arguments.frames,
             "--shape", f"{arguments.side},{arguments.side},3", "--chunk", chunk], 600)
        part.rename(path)
    return path


def write_config(arguments, name):
    path = arguments.work / f"windows-{name}.yaml"
    path.write_text(CONFIG.format(dataset=make_dataset(arguments, CHUNKS[name]), batch=arguments.batch,
                                  window_rows=WINDOW_ROWS[name]), encoding="utf-8")
    return path


def read_files(arguments, name):
    jobs.read_files(make_dataset(arguments, CHUNKS[name]))


def limit(arguments, config, mode):
    result = run([arguments.build / "bin/penstock-bench-limit", mode, "-c", config, "--set",
                  f"readers.threads={arguments.threads}"], 300)
    return json.loads(result)["samples_per_s"]


def penstock(arguments, config):
    """Samples a second of the first and the second epoch."""
    folder = arguments.work / "windows-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    reader, environment = one_reader(arguments.build, {
        "delivery.trainers": 1, "readers.threads": arguments.threads, "order.epochs": 2}, config)
    run([*reader, "--", arguments.build / "bin/penstock-trainer", "--touch", f"--json={folder}/trainer.json"], 600,
        env=environment)
    report = json.loads((folder / "trainer.json").read_text(encoding="utf-8"))
    return [epoch["samples"] / epoch["seconds"] for epoch in report["epochs"]]


def measure_penstock(arguments, name, config, rates):
    read_files(arguments, name)
    decoded = limit(arguments, config, "cold")
    read_files(arguments, name)
    cold, warm = penstock(arguments, config)
    copied = limit(arguments, config, "warm")
    in_turn = 1 / (1 / decoded + 1 / copied)
    read_files(arguments, name)
    at_once = limit(arguments, config, "both")
    for variant, rate in (("limit_cold", min(decoded, copied)), ("limit_in_turn", in_turn), ("limit_both", at_once), ("cold", cold),
                          ("limit_warm", copied), ("warm", warm)):
        rates[name].setdefault(variant, []).append(rate)
    say(f"{name}: " + ", ".join(f"{variant} {values[-1]:,.0f}" for variant, values in rates[name].items()) + " samples/s")


def measure_peer(arguments, peer, python, names, found):
    """Adds (cold, warm) of a peer to those of each of the names."""
    dataset = make_dataset(arguments, CHUNKS[names[0]])
    result = json.loads(run([python, BENCH / "windows_peers.py", peer, dataset, "--work", arguments.work, "--workers",
                             arguments.threads], arguments.timeout).splitlines()[-1])
    for name in names:
        found[name].setdefault(peer, []).append((result["cold"], result["warm"]))
    say(f"{peer}, {' and '.join(names)}: {result['cold']:,.0f} cold, {result['warm']:,.0f} warm samples/s")


def measure_peers(arguments, pythons, missing, found):
    for peer in list(pythons):
        try:
            for names in [[name] for name in CHUNKS] if peer in ON_THE_STORE else [list(CHUNKS)]:
                measure_peer(arguments, peer, pythons[peer], names, found)
        except Failed as reason:
            missing[peer] = str(reason)
            del pythons[peer]


def medians(rates, found):
    """One object of the last line, and each peer's medians."""
    result = {variant: round(statistics.median(values), 1) for variant, values in rates.items()}
    peers = {peer: [statistics.median(values) for values in zip(*measured)] for peer, measured in found.items()}
    for place, temperature in enumerate(("cold", "warm")):
        result[f"best_peer_{temperature}"] = max((pair[place] for pair in peers.values()), default=None)
    return result, peers


def print_table(name, result, rates, peers, missing):
    print(f"\n{name}: chunks of {CHUNKS[name]} frames\n{'samples/s':34} {'median':>9} {'min':>9} {'max':>9}")
    for variant, text in VARIANTS.items():
        print(f"{text:34} {result[variant]:9,.0f} {min(rates[variant]):9,.0f} {max(rates[variant]):9,.0f}")
    for peer, pair in peers.items():
        for place, epoch in enumerate(("from files", "from memory")):
            print(f"{f'{peer}, {epoch}':34} {pair[place]:9,.1f}")
    for peer, reason in missing.items():
        print(f"{peer:34} {'-':>9}  {reason}")
    for variant, base, goal in GOALS:
        if result[base]:
            ratio = result[variant] / result[base]
            judged = f" (goal {goal}: {'reached' if ratio >= goal else 'missed'})" if goal else ""
            print(f"{variant} / {base}: {ratio:.2f}{judged}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="datasets and reports")
    parser.add_argument("--environments", type=pathlib.Path, help="where peers are installed (environments in --work)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--peer-rounds", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--frames", type=int, default=20000, help="of each dataset (%(default)s)")
    parser.add_argument("--side", type=int, default=96, help="of an image, in pixels of 3 bytes (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the reader (one a cpu)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that one peer may take (%(default)s)")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--plots", type=pathlib.Path, help="folder for the plot; takes Matplotlib")
    arguments = parser.parse_args()
    arguments.build, arguments.work = arguments.build.resolve(), arguments.work.resolve()
    arguments.environments = (arguments.environments or arguments.work / "environments").resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    return arguments


def main():
    arguments = parse()
    configs = {name: write_config(arguments, name) for name in CHUNKS}
    rates, found = {name: {} for name in CHUNKS}, {name: {} for name in CHUNKS}
    pythons, missing = environments.prepare_all(arguments.environments, {peer: peer for peer in PEERS}, arguments.peers)
    for number in range(max(arguments.rounds, arguments.peer_rounds)):
        say(f"round {number + 1} of {arguments.rounds}")
        for name in CHUNKS if number < arguments.rounds else ():
            measure_penstock(arguments, name, configs[name], rates)
        if number < arguments.peer_rounds:
            measure_peers(arguments, pythons, missing, found)
    results, shown = {}, {}
    for name in CHUNKS:
        results[name], peers = medians(rates[name], found[name])
        print_table(name, results[name], rates[name], peers, missing)
        shown[name] = {**results[name], "peers": peers}
        del results[name]["limit_in_turn"], results[name]["limit_both"]  # in the table and the plot
    if arguments.plots:
        save_plots(arguments.plots, "windows", shown)
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"windows: {failed}")
