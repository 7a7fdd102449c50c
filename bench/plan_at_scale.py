#!/usr/bin/env python3
"""Cost of the plan over dataset size and number of readers: runs penstock-bench-plan over many
sizes, prints a table with the targets beside it, and draws a plot where matplotlib is installed.

The last line of output is one JSON object.
"""
import argparse
import json
import pathlib
import subprocess
import sys

SAMPLES = [10 ** 6, 10 ** 7, 10 ** 8, 10 ** 9]
READERS = [16, 64, 256, 1024]
MATCHED_READERS, MATCHED_ROWS, WORKERS = [8, 64, 256, 1024], [1, 100], [1, 4, 16]
MATCHED_SAMPLES = 10 ** 8
SAMPLES_PER_STEP = 256  # of a reader

# key, name, unit, how to get it from a result, target at 10^9 samples, 10^7 rows and 1,024 readers.
# Rank 0 is a reader, too.
FIGURES = [
    ("rank0_start_ms", "start-up, rank 0", "ms",
     lambda r: r["plan_ms"] + r["rank0_start_ms"] + r["reader_start_ms"], 1000),
    ("reader_start_ms", "start-up, a reader", "ms",
     lambda r: r["plan_ms"] + r["reader_start_ms"], 1000),
    ("rank0_mb", "memory, rank 0", "MB",
     lambda r: (r["rank0_bytes"] + r["reader_bytes"]) / 1e6, 64),
    ("reader_mb", "memory, a reader", "MB", lambda r: r["reader_bytes"] / 1e6, 64),
    ("window_first_ms", "assignment, nothing in memory", "ms",
     lambda r: r["window_first_ms"]["median"], 10),
    ("window_kept_ms", "assignment, all in memory", "ms",
     lambda r: r["window_kept_ms"]["median"], 10),
    ("window_partly_kept_ms", "assignment, 60% in memory", "ms",
     lambda r: r["window_partly_kept_ms"]["median"], 10),
    ("items_ms", "what a reader sends of a window", "ms", lambda r: r["items_ms"]["median"], None),
    ("item_ns", "  of that, a sample", "ns", lambda r: r["item_ns"], None),
    ("counts_ms", "counts of a round", "ms", lambda r: r["counts_ms"]["median"], 1),
]

ANCHOR_FIGURES = [  # key, name, target at 10^9 frames
    ("build_s", "start-up, s", 5),
    ("table_mb", "tables, MB", None),
    ("peak_mb", "most memory at the start, MB", 512),
    ("place_ns", "frame of a place, ns", 1000),
    ("frame_ns", "place of a frame, ns", 1000),
    ("episode_ns", "episode of a frame, ns", 1000),
    ("plan_s", "plan: start-up, s", 5),
    ("plan_mb", "plan: tables, MB", None),
    ("epoch_s", "plan: an epoch, s", 1),
    ("order_ns", "sample of a position, ns", 1000),
    ("position_ns", "  one at a time, ns", None),
]


def measure(program, samples, readers, row_length=100):
    run = subprocess.run([program, str(samples), str(readers), str(row_length)], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=True, text=True, timeout=600)
    result = json.loads(run.stdout)
    print(f"{samples:>13,} samples, {readers:>5,} readers", file=sys.stderr)
    return result


def table(results):
    """All sizes for the most readers, one column a size; then the verdict on the largest."""
    most = max(result["readers"] for result in results)
    columns = [result for result in results if result["readers"] == most]
    print(f"\nthe plan at scale: {most:,} readers with 8 trainers each, rows of 100 samples, "
          f"windows of {columns[-1]['window_rows']:,} rows,\nrounds of "
          f"{columns[-1]['round_records']:,} samples a reader; one core; medians\n")
    heads = "".join(f"{result['samples']:>16,}" for result in columns)
    print(f"{'samples':42}{heads}   target")
    for _, name, unit, value, target in FIGURES:
        cells = "".join(f"{value(result):16,.3f}" for result in columns)
        print(f"{name + ', ' + unit:42}{cells}   " + (f"{target:,}" if target else "-"))
    largest = columns[-1]
    missed = [name for _, name, _, value, target in FIGURES if target and value(largest) >= target]
    print(f"\nall targets reached at {largest['samples']:,} samples" if not missed
          else f"\nmissed: {', '.join(missed)}")


def step_ms(matched, workers):
    """Of order.placement local, at rank 0: workers share the looking up, and one of them does the rest."""
    return ((matched["look_up_ms"] + matched["assign_look_up_ms"]) / workers + matched["match_ms"] + matched["list_ms"]
            + matched["decide_ms"])


def note_assignment(program, samples, readers, rows, matched):
    """What rank 0 takes besides, for a step's part of windows whose rows have homes."""
    plan = measure(program, samples, readers, rows)
    steps = plan["window_rows"] * rows / matched["positions"]
    matched["assign_look_up_ms"] = plan["window_look_up_ms"]["median"] / steps
    matched["decide_ms"] = max(plan["window_kept_ms"]["median"] - plan["window_look_up_ms"]["median"], 0) / steps


def measure_local(program, samples):
    """What order.placement local costs a reader, by readers and rows; {"READERSxROWS": stages in ms}."""
    print("\na step with order.placement local, ms of each reader, and of rank 0 besides (rows, decide);\n"
          "and what so many workers allow a node, samples/s\n")
    print(f"{'readers':>7} {'rows of':>7} {'positions':>10} {'look up':>8} {'match':>8} {'list':>8} {'rows':>8} {'decide':>8}"
          + "".join(f"{f'{count} workers':>14}" for count in WORKERS))
    results = {}
    for readers in MATCHED_READERS:
        for rows in MATCHED_ROWS:
            run = subprocess.run([program.with_name("penstock-bench-match"), str(readers), str(rows)],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True, timeout=120)
            matched = json.loads(run.stdout)
            note_assignment(program, samples, readers, rows, matched)
            results[f"{readers}x{rows}"] = matched
            rates = "".join(f"{SAMPLES_PER_STEP / step_ms(matched, count) * 1e3:14,.0f}" for count in WORKERS)
            print(f"{readers:7,} {rows:7} {matched['positions']:10,} {matched['look_up_ms']:8.2f} "
                  f"{matched['match_ms']:8.2f} {matched['list_ms']:8.2f} {matched['assign_look_up_ms']:8.2f} "
                  f"{matched['decide_ms']:8.2f}{rates}")
    return results


def measure_anchors(program, frames):
    """What choosing samples costs: windows, samples.where, windows with frames missing. Returns penstock-bench-anchors' JSON."""
    run = subprocess.run([program.with_name("penstock-bench-anchors"), str(frames)], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=True, text=True, timeout=600)
    result = json.loads(run.stdout)
    del result["frames"]
    print(f"\nchoosing samples of {frames:,} frames: rows of 100, episodes of 1,000; one core\n")
    print(f"{'':30}" + "".join(f"{name:>12}" for name in result) + "   target")
    for key, name, target in ANCHOR_FIGURES:
        print(f"{name:30}" + "".join(f"{one[key]:12,.2f}" for one in result.values())
              + f"   {target if target else '-'}")
    return result


def draw(results, path):
    """Four panels over samples, one line for each number of readers; SVG and PNG."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: python3-matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot
    panels = [
        ("Assignment of a 4,096-row window", "ms", 10, "nothing in memory", "all in memory",
         lambda r: r["window_first_ms"]["median"], lambda r: r["window_kept_ms"]["median"]),
        ("Counts of a round of 512 samples a reader", "ms", 1, "median", "99th percentile",
         lambda r: r["counts_ms"]["median"], lambda r: r["counts_ms"]["p99"]),
        ("Start-up", "ms", 1000, "rank 0", "a reader",
         lambda r: r["plan_ms"] + r["rank0_start_ms"] + r["reader_start_ms"],
         lambda r: r["plan_ms"] + r["reader_start_ms"]),
        ("Memory", "MB", 64, "rank 0", "a reader",
         lambda r: (r["rank0_bytes"] + r["reader_bytes"]) / 1e6,
         lambda r: r["reader_bytes"] / 1e6),
    ]
    readers = sorted({result["readers"] for result in results})
    colours = pyplot.cm.viridis([0.85 - 0.85 * i / max(1, len(readers) - 1)
                                 for i in range(len(readers))])
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 8))
    for axis, panel in zip(axes.flat, panels):
        title, unit, target, solid_name, dashed_name, solid, dashed = panel
        for colour, count in zip(colours, readers):
            rows = [result for result in results if result["readers"] == count]
            x = [result["samples"] for result in rows]
            axis.plot(x, [solid(result) for result in rows], "-o", color=colour, ms=4,
                      label=f"{count:,} readers")
            axis.plot(x, [dashed(result) for result in rows], "--s", color=colour, ms=3.5, mfc="w")
        axis.axhline(target, color="tab:red", lw=1.2)
        axis.text(0.99, target, f"target: below {target:,} {unit} ", color="tab:red", ha="right",
                  va="bottom", fontsize=9, transform=axis.get_yaxis_transform())
        axis.set(xscale="log", yscale="log", ylabel=unit, xlabel="samples")
        axis.set_title(f"{title}\nsolid: {solid_name}, dashed: {dashed_name}", fontsize=11)
        axis.set_ylim(bottom=min(axis.get_ylim()[0], target / 100), top=target * 4)
        axis.grid(True, which="major", alpha=0.3)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(readers), frameon=False)
    figure.suptitle("Cost of the plan over dataset size: rows of 100 samples, one core")
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    path.mkdir(parents=True, exist_ok=True)
    for kind, metadata in (("svg", {"Date": None}), ("png", {})):
        figure.savefig(path / f"plan_at_scale.{kind}", dpi=110, metadata=metadata)
    print(f"plots: {path}/plan_at_scale.svg, .png", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="penstock-bench-plan")
    parser.add_argument("--plots", type=pathlib.Path, required=True, help="where the plots go")
    parser.add_argument("--most-samples", type=int, default=max(SAMPLES),
                        help="leave larger ones out")
    arguments = parser.parse_args()
    results = [measure(arguments.program, samples, readers)
               for samples in SAMPLES if samples <= arguments.most_samples for readers in READERS]
    if not results:
        parser.error(f"--most-samples: at least {min(SAMPLES)}")
    table(results)
    local = measure_local(pathlib.Path(arguments.program), min(MATCHED_SAMPLES, arguments.most_samples))
    anchors = measure_anchors(pathlib.Path(arguments.program), results[-1]["samples"])
    draw(results, arguments.plots)
    largest = results[-1]
    print(json.dumps({"samples": largest["samples"], "rows": largest["rows"],
                      "readers": largest["readers"],
                      **{key: round(value(largest), 4) for key, _, _, value, _ in FIGURES},
                      "local_step_ms": {key: matched["step_ms"] for key, matched in local.items()},
                      "anchors": anchors}))


if __name__ == "__main__":
    main()
