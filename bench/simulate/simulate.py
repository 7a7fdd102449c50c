#!/usr/bin/env python3
"""Simulates the exchange on 64 to 1,024 nodes: how much of their links readers reach, by nodes,
record size and steps a round, as bands over what is not known of a network; and what order.placement
local makes of it.

The traffic is the plan's own (penstock-bench-schedule). A LogGP-style model (model.py) is run on
it; where SimGrid is installed, exchange_smpi.c first carries out smaller jobs under SMPI, and the
two are compared. Plots need matplotlib. The last line of output is one JSON object.
"""
import argparse
import itertools
import json
import math
import pathlib
import shutil
import subprocess
import sys

import numpy

import model

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
READERS = [64, 128, 256, 512, 1024]
RECORDS = [KIB, 4 * KIB, 16 * KIB, 160 * KIB]
STEPS = [1, 2, 4, 8, 16, 32]
SAMPLES_PER_STEP = 256  # of a reader: 8 trainers, 32 each
SCHEDULE_STEPS = 24
ROUNDS = 8
ROW_LENGTHS = [1, 100]
PLACED = [64, 256, 1024]  # nodes for which both placements are compared
SEEDS = [17, 18]  # of the order of samples
MICRO, NANO = 1e-6, 1e-9

# What is not known: latency, the MPI thread's time for a message and a byte, the time until a
# complete round is noticed, and what share of the links all-to-all traffic gets. Uniform, but for
# times, which are drawn by their logarithm.
RDMA = {"latency_s": (1 * MICRO, 5 * MICRO), "message_s": (0.3 * MICRO, 1.5 * MICRO),
        "byte_s": (0, 0), "test_s": (10 * MICRO, 50 * MICRO), "share": (0.7, 0.95)}
TCP = {"latency_s": (30 * MICRO, 50 * MICRO), "message_s": (3 * MICRO, 10 * MICRO),
       "byte_s": (0.15 * NANO, 0.3 * NANO), "test_s": (10 * MICRO, 50 * MICRO),
       "share": (0.8, 0.95)}
NETWORKS = {"25 Gbit/s cloud, TCP": (25, TCP), "100 Gbit/s fat tree, RDMA": (100, RDMA),
            "200 Gbit/s fat tree, RDMA": (200, RDMA), "400 Gbit/s fat tree, RDMA": (400, RDMA)}

# readers, record bytes, steps a round, and the network, for the comparison with SMPI
SMPI_CASES = [
    (16, 16 * KIB, 4, (100, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (16, 1 * KIB, 4, (200, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (16, 4 * KIB, 2, (25, 40 * MICRO, 5 * MICRO, 0.2 * NANO, 25 * MICRO)),
    (32, 16 * KIB, 4, (100, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (32, 160 * KIB, 1, (400, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (32, 1 * KIB, 4, (200, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (32, 4 * KIB, 1, (400, 2 * MICRO, 0.5 * MICRO, 0, 10 * MICRO)),
    (32, 4 * KIB, 2, (25, 40 * MICRO, 5 * MICRO, 0.2 * NANO, 25 * MICRO)),
    (64, 16 * KIB, 4, (100, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (64, 1 * KIB, 4, (200, 4 * MICRO, 1 * MICRO, 0, 25 * MICRO)),
    (64, 4 * KIB, 2, (25, 40 * MICRO, 5 * MICRO, 0.2 * NANO, 25 * MICRO)),
]

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-1023" speed="1Gf" bw="{bytes_per_s}Bps"
           lat="{hop_s}s" topology="FAT_TREE" topo_parameters="2;32,32;1,32;1,1"
           sharing_policy="SPLITDUPLEX"/>
</platform>
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


class Schedules:
    """Traffic of jobs, made once and kept."""

    def __init__(self, program, work):
        self.program, self.work = program, work
        self.traffic = {}

    def path(self, readers, seed=SEEDS[0], row_length=1, state="warm", placement="fixed"):
        path = self.work / f"schedule-{readers}-{seed}-{row_length}-{state}-{placement}"
        if not path.exists():
            part = path.with_suffix(".part")
            subprocess.run([self.program, part, str(readers), str(SCHEDULE_STEPS), str(row_length),
                            str(seed), state, placement], check=True)
            part.rename(path)
        return path

    def rounds(self, readers, steps, stripes=1, row_length=1, state="warm", placement="fixed"):
        """One series of rounds for each seed."""
        key = (readers, steps, stripes, row_length, state, placement)
        if key not in self.traffic:
            self.traffic[key] = [
                model.rounds_of(
                    model.load(self.path(readers, seed, row_length, state, placement)),
                    steps, stripes, ROUNDS, numpy.random.default_rng(seed)) for seed in SEEDS]
        return self.traffic[key]

    def travels(self, readers, placement, row_length=1):
        """The share of the samples that one reader sends to another."""
        paths = [self.path(readers, seed, row_length, "warm", placement) for seed in SEEDS]
        return float(numpy.mean([model.load(path).sum(dtype=numpy.int64) for path in paths]) /
                     (SCHEDULE_STEPS * SAMPLES_PER_STEP * readers))


def draw_networks(name, count):
    """Networks that the name may stand for."""
    gbit, ranges = NETWORKS[name]
    random = numpy.random.default_rng(11)
    networks = []
    for _ in range(count):
        values = {}
        for key, (low, high) in ranges.items():
            position = random.random()
            values[key] = (low * (high / low) ** position if key.endswith("_s") and low > 0
                           else low + (high - low) * position)
        networks.append(model.Network(gbit=gbit, **values))
    return networks


def band(traffic, record_bytes, networks):
    """10th, 50th and 90th percentile of the share of the link, in percent."""
    shares = [100 * model.rate_share(traffic[i % len(traffic)], record_bytes, network)
              for i, network in enumerate(networks)]
    return [float(value) for value in numpy.percentile(shares, [10, 50, 90])]


def rate_band(traffic, steps, record_bytes, networks):
    """10th, 50th and 90th percentile of the samples a second that the exchange lets each node have."""
    rates = [len(traffic[0]) * steps * SAMPLES_PER_STEP /
             model.run(traffic[i % len(traffic)], record_bytes, network)[0]
             for i, network in enumerate(networks)]
    return [float(value) for value in numpy.percentile(rates, [10, 50, 90])]


def show_thousands(values):
    return f"{values[1] / 1e3:,.0f} ({values[0] / 1e3:,.0f}-{values[2] / 1e3:,.0f})"


def show(values):
    return f"{values[1]:3.0f}% ({values[0]:.0f}-{values[2]:.0f})"


def size(count):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


# ---- SMPI beside the model


def run_smpi(arguments, schedules, program, case):
    readers, record_bytes, steps, (gbit, latency, message, byte, test) = case
    platform, hosts = arguments.work / "platform.xml", arguments.work / "hosts"
    platform.write_text(PLATFORM.format(bytes_per_s=gbit * 1e9 / 8, hop_s=latency / 4))
    hosts.write_text("".join(f"n{i}\n" for i in range(readers)))
    run = subprocess.run(
        ["smpirun", "-np", str(readers), "-platform", platform, "-hostfile", hosts,
         "--cfg=smpi/simulate-computation:no", "--cfg=smpi/test:0", "--cfg=smpi/bw-factor:0:1",
         "--cfg=smpi/lat-factor:0:1", "--cfg=network/crosstraffic:0",
         "--cfg=surf/precision:1e-6", "--log=root.thres:error", program,
         schedules.path(readers), str(record_bytes), str(steps), str(message / NANO),
         str(byte / NANO * 1000), str(test / NANO)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def compare_with_smpi(arguments, schedules):
    """The greatest deviation of the model, as a ratio; None without SimGrid."""
    if not shutil.which("smpicc"):
        print("\nSMPI: left out, libsimgrid-dev is not installed: the model is not checked")
        return None
    program = arguments.work / "exchange_smpi"
    source = pathlib.Path(__file__).with_name("exchange_smpi.c")
    subprocess.run(["smpicc", "-O2", source, "-o", program], check=True)
    print(f"\nmodel beside SMPI (SimGrid), {SCHEDULE_STEPS} steps\n")
    print(f"{'readers':>7} {'record':>8} {'steps a round':>13} {'Gbit/s':>6} {'message':>8} "
          f"{'SMPI':>10} {'model':>10} {'model/SMPI':>10}")
    worst = 1.0
    for case in SMPI_CASES:
        readers, record_bytes, steps, (gbit, latency, message, byte, test) = case
        if readers > min(arguments.most_smpi, max(arguments.readers) // 4):
            continue
        say(f"SMPI: {readers} readers, records of {size(record_bytes)}")
        result = run_smpi(arguments, schedules, program, case)
        schedule = model.load(schedules.path(readers))
        traffic = model.rounds_of(schedule, steps, 1, result["rounds"], None)
        network = model.Network(gbit, latency, message, byte, test, 1.0)
        seconds, _ = model.run(traffic, record_bytes, network)
        ratio = seconds / result["seconds"]
        worst = max(worst, ratio, 1 / ratio)
        print(f"{readers:7} {size(record_bytes):>8} {steps:13} {gbit:6} {message / MICRO:5.1f} us "
              f"{result['seconds'] * 1e3:7.2f} ms {seconds * 1e3:7.2f} ms {ratio:10.2f}",
              flush=True)
    return worst


# ---- what the bands are made of


def by_nodes(arguments, schedules):
    """{network: {record: {nodes: band}}} with two steps a round, which 4 slots allow."""
    results = {}
    print("\nshare of the link that the exchange reaches, two steps a round: median (10th-90th "
          "percentile)")
    for name in NETWORKS:
        networks = draw_networks(name, arguments.draws)
        results[name] = {record: {readers: band(schedules.rounds(readers, 2), record, networks)
                                  for readers in arguments.readers} for record in RECORDS}
        print(f"\n{name:28}" + "".join(f"{readers:>16,}" for readers in arguments.readers))
        for record in RECORDS:
            cells = "".join(f"{show(results[name][record][readers]):>16}"
                            for readers in arguments.readers)
            print(f"  records of {size(record):15}{cells}", flush=True)
    return results


def by_steps(arguments, schedules):
    """{network: {record: {steps: band}}} on the most nodes."""
    readers = max(arguments.readers)
    results = {}
    print(f"\nthe same on {readers:,} nodes, by steps a round")
    for name in NETWORKS:
        networks = draw_networks(name, arguments.draws)
        results[name] = {record: {steps: band(schedules.rounds(readers, steps), record, networks)
                                  for steps in STEPS} for record in RECORDS}
        print(f"\n{name:28}" + "".join(f"{steps:>16}" for steps in STEPS))
        for record in RECORDS:
            cells = "".join(f"{show(results[name][record][steps]):>16}" for steps in STEPS)
            print(f"  records of {size(record):15}{cells}", flush=True)
    return results


def imbalance(arguments, schedules):
    """What a reader sends at most in a round, over the average."""
    print("\nmost that a reader sends in a round of two steps, over the average\n")
    print(f"{'':36}" + "".join(f"{readers:>10,}" for readers in arguments.readers))
    results = {}
    for row_length, state in itertools.product(ROW_LENGTHS, ("cold", "warm")):
        ratios = []
        for readers in arguments.readers:
            traffic = schedules.rounds(readers, 2, 1, row_length, state)[0]
            sent = sum(each.out_records.sum() for each in traffic)
            most = numpy.mean([each.out_records.max() for each in traffic])
            ratios.append(float(most / (sent / len(traffic) / readers)) if sent else 0.0)
        text = f"rows of {row_length}, {'first epoch' if state == 'cold' else 'from memory'}"
        print(f"{text:36}" + "".join(f"{ratio:10.2f}" for ratio in ratios), flush=True)
        results[text] = ratios
    return results


def chosen(arguments, readers, record, placement):
    """The rounds that Penstock chooses by itself: with as many slots as rings have room for."""
    slots = 4 if record >= 32 * KIB else 32
    run = subprocess.run([arguments.schedule, "shape", str(readers), str(record), str(slots), str(128 * MIB),
                          placement], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def choices(arguments, schedules, name="200 Gbit/s fat tree, RDMA"):
    """What Penstock chooses by itself, and what it then reaches."""
    print(f"\nrounds that Penstock chooses by itself (buffer_limit 128 MiB), {name}\n")
    print(f"{'readers':>7} {'record':>8} {'placement':>9}  {'rounds':12} {'buffers':>9}  share of the link")
    networks = draw_networks(name, arguments.draws)
    results = []
    for readers, record, placement in itertools.product(arguments.readers, RECORDS, ("fixed", "local")):
        shape = chosen(arguments, readers, record, placement)
        steps = shape["steps"]
        values = band(schedules.rounds(readers, steps, placement=placement), record, networks)
        print(f"{readers:7,} {size(record):>8} {placement:>9}  {steps:2} step{'s' if steps > 1 else ' '}     "
              f"{size(shape['buffers']):>9}  {show(values)}", flush=True)
        results.append({"readers": readers, "record": record, "placement": placement, **shape, "share": values})
    return results


# ---- order.placement local


def formula(readers):
    """Of the samples, those that travel where chance alone decides who has them."""
    return math.sqrt((1 - 1 / readers) / (2 * math.pi * SAMPLES_PER_STEP))


def travelling(arguments, schedules):
    """What share of the samples travels, counted in the plan, and over the formula."""
    print("\nshare of the samples that travel, all rows in memory: counted (over the formula)\n")
    print(f"{'':36}" + "".join(f"{readers:>16,}" for readers in arguments.readers))
    results = {}
    for placement, row_length in (("fixed", 1), ("local", 1), ("local", 8), ("local", 100)):
        text = f"{placement}, rows of {row_length}"
        shares = [schedules.travels(readers, placement, row_length) for readers in arguments.readers]
        over = [share / (formula(readers) if placement == "local" else 1 - 1 / readers)
                for share, readers in zip(shares, arguments.readers)]
        results[text] = {"share": shares, "over_formula": over}
        print(f"{text:36}" + "".join(f"{share:>9.2%} ({ratio:.2f})"
                                     for share, ratio in zip(shares, over)), flush=True)
    return results


def by_placement(arguments, schedules):
    """{network: {record: {placement: {nodes: band of samples/s a node}}}}, in rounds as Penstock chooses."""
    readers_of = [readers for readers in PLACED if readers in arguments.readers]
    results = {}
    print("\nthousands of samples a second and node that the exchange allows: median (10th-90th percentile)")
    for name in NETWORKS:
        networks = draw_networks(name, arguments.draws)
        print(f"\n{name:36}" + "".join(f"{readers:>24,}" for readers in readers_of))
        results[name] = {}
        for record, placement in itertools.product(RECORDS, ("fixed", "local")):
            steps = {readers: chosen(arguments, readers, record, placement)["steps"] for readers in readers_of}
            bands = {readers: rate_band(schedules.rounds(readers, steps[readers], placement=placement),
                                        steps[readers], record, networks) for readers in readers_of}
            results[name].setdefault(record, {})[placement] = bands
            text = f"  records of {size(record)}, {placement}"
            print(f"{text:36}" + "".join(f"{show_thousands(bands[readers]):>24}"
                                         for readers in readers_of), flush=True)
    return results


# ---- plots


def draw(results_by_nodes, results_by_steps, most_readers, path):
    try:
        import matplotlib
    except ImportError:
        say("no plots: python3-matplotlib is not installed")
        return
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot
    path.mkdir(parents=True, exist_ok=True)
    for kind, results, xlabel, title in (
            ("exchange_by_nodes", results_by_nodes, "nodes",
             "Exchange: share of each node's link, two steps a round"),
            ("exchange_by_steps", results_by_steps, "steps a round (256 samples a reader each)",
             f"Exchange on {most_readers:,} nodes: share of each node's link")):
        figure, axes = pyplot.subplots(2, 2, figsize=(10, 7.5), sharex=True, sharey=True)
        colours = pyplot.cm.viridis(numpy.linspace(0.9, 0, len(RECORDS)))
        for axis, (name, lines) in zip(axes.flat, results.items()):
            for colour, (record, points) in zip(colours, lines.items()):
                x = list(points)
                low, middle, high = zip(*points.values())
                axis.fill_between(x, low, high, color=colour, alpha=0.22, lw=0)
                axis.plot(x, middle, "-o", color=colour, ms=4, label=size(record))
            axis.set_xscale("log", base=2)
            axis.set(title=name, ylim=(0, 100), xticks=x)
            axis.set_xticklabels([f"{value:,}" for value in x])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        for axis in axes[-1]:
            axis.set_xlabel(xlabel)
        for axis in axes[:, 0]:
            axis.set_ylabel("% of link rate")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False,
                      title="record size; line: median, band: 10th to 90th percentile")
        figure.suptitle(title)
        figure.tight_layout(rect=(0, 0.08, 1, 1))
        for suffix, metadata in (("svg", {"Date": None}), ("png", {})):
            figure.savefig(path / f"{kind}.{suffix}", dpi=110, metadata=metadata)
    say(f"plots: {path}")


def draw_placements(results, path):
    """Samples a second and node over nodes, fixed and local."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7.5), sharex=True, sharey=True)
    colours = pyplot.cm.viridis(numpy.linspace(0.9, 0, len(RECORDS)))
    for axis, (name, records) in zip(axes.flat, results.items()):
        for colour, (record, placements) in zip(colours, records.items()):
            for placement, style in (("local", "-o"), ("fixed", "--s")):
                bands = placements[placement]
                low, middle, high = zip(*bands.values())
                axis.fill_between(list(bands), low, high, color=colour, alpha=0.15, lw=0)
                axis.plot(list(bands), middle, style, color=colour, ms=4,
                          label=f"{size(record)}, {placement}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set(title=name, xticks=list(bands))
        axis.set_xticklabels([f"{value:,}" for value in bands])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("nodes")
    for axis in axes[:, 0]:
        axis.set_ylabel("samples/s of a node")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(RECORDS), frameon=False)
    figure.suptitle("What the exchange allows, from memory: order.placement local (solid) and fixed (dashed)")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    for suffix, metadata in (("svg", {"Date": None}), ("png", {})):
        figure.savefig(path / f"exchange_by_placement.{suffix}", dpi=110, metadata=metadata)
    pyplot.close(figure)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedule", help="penstock-bench-schedule")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="for schedules")
    parser.add_argument("--plots", type=pathlib.Path, required=True, help="where the plots go")
    parser.add_argument("--draws", type=int, default=8, help="networks drawn for a band (8)")
    parser.add_argument("--most-readers", type=int, default=max(READERS),
                        help="leave larger jobs out (1024)")
    parser.add_argument("--most-smpi", type=int, default=64,
                        help="largest job that SMPI carries out, 16 to 64 (64)")
    arguments = parser.parse_args()
    arguments.readers = [readers for readers in READERS if readers <= arguments.most_readers]
    if not arguments.readers or arguments.draws < 1:
        parser.error(f"--most-readers {min(READERS)} or more, --draws 1 or more")
    arguments.work.mkdir(parents=True, exist_ok=True)
    return arguments


def main():
    arguments = parse()
    schedules = Schedules(arguments.schedule, arguments.work)
    worst = compare_with_smpi(arguments, schedules)
    nodes = by_nodes(arguments, schedules)
    steps = by_steps(arguments, schedules)
    uneven = imbalance(arguments, schedules)
    chosen = choices(arguments, schedules)
    travel = travelling(arguments, schedules)
    placed = by_placement(arguments, schedules)
    draw(nodes, steps, max(arguments.readers), arguments.plots)
    draw_placements(placed, arguments.plots)
    print(json.dumps({"model_over_smpi_worst": worst, "by_nodes": nodes, "by_steps": steps,
                      "imbalance": uneven, "choices": chosen, "travels": travel,
                      "by_placement": placed},
                     default=str))


if __name__ == "__main__":
    main()
