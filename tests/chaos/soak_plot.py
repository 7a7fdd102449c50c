#!/usr/bin/env python3
"""Draws what soak.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    soak_plot.py SOAK_JSON [FOLDER]       writes FOLDER/soak.svg and FOLDER/soak.png
"""

import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
# pylint: disable=wrong-import-position
import matplotlib.pyplot as plt  # noqa: E402

COLORS = {"reader": "#0b6fa4", "trainer": "#d1642a", "readers' mpirun": "#3f8f5f", "trainers' mpirun": "#9a9a9a",
          "keeper": "#8a6bb0"}
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11,
         "axes.titlelocation": "left", "legend.frameon": False, "legend.fontsize": 9, "svg.fonttype": "none",
         "svg.hashsalt": "penstock", "figure.dpi": 130}


def panel(axis, figures, what, scale, title):
    for process in figures["processes"]:
        minutes = [at / 60 for at in process["seconds"]]
        axis.plot(minutes, [value / scale for value in process[what]], color=COLORS[process["kind"]], linewidth=1.2,
                  label=process["kind"])
    axis.set_title(title)
    axis.set_xlabel("minutes")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", color="#e8e8e8", linewidth=0.8)
    axis.set_axisbelow(True)


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        figures = json.load(file)
    folder = sys.argv[2] if len(sys.argv) > 2 else "."
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.6))
        panel(axes[0], figures, "memory_bytes", 1 << 20, "resident memory, MiB")
        panel(axes[1], figures, "descriptors", 1, "open descriptors")
        panel(axes[2], figures, "threads", 1, "threads")
        figure.suptitle(f"{figures['seconds'] / 60:.0f} minutes, {figures['epochs']} epochs", x=0.01, ha="left")
        labelled = dict(zip(*reversed(axes[0].get_legend_handles_labels())))
        figure.legend(labelled.values(), labelled.keys(), loc="lower center", ncol=5, bbox_to_anchor=(0.5, -0.08))
        figure.tight_layout(w_pad=2)
        for kind in ("svg", "png"):
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(os.path.join(folder, f"soak.{kind}"), bbox_inches="tight", metadata=metadata)


if __name__ == "__main__":
    main()
