#!/usr/bin/env python3
"""Draws what bench/layouts.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    layouts_plot.py LAYOUTS_JSON [FOLDER]
"""
import scaling_plot
from scaling_plot import plt

CHUNK = "8"  # of the panel of sizes
SHOWN = {"none": "#6d6d6d", "blosc-lz4 5, shuffle": "#1b8a5a", "blosc-zstd 3, shuffle": "#0b6fa4", "zstd 3": "#e0a526",
         "delta 1, blosc-zstd 3, shuffle": "#d1642a"}


def plot_sizes(axis, layouts):
    for name, marker in (("noisy", "o"), ("smooth", "^")):
        for layout, chunks in layouts[name].items():
            line = chunks[CHUNK]
            axis.plot(100 * line["stored"], line["decode"], marker, color=SHOWN.get(layout, "#9a9a9a"), markersize=6)
            if name == "noisy" or layout.startswith("delta"):
                axis.annotate(layout, (100 * line["stored"], line["decode"]), xytext=(4, 3), textcoords="offset points", fontsize=6.5)
    axis.set_yscale("log")
    axis.set_xlabel("stored, % of decoded")
    axis.set_title(f"decoding, GB/s a core; {CHUNK} samples a chunk", fontsize=9)
    axis.plot([], [], "o", color="#9a9a9a", label="noisy")
    axis.plot([], [], "^", color="#9a9a9a", label="smooth")
    axis.legend(loc="best")


def plot_chunks(axis, layouts):
    for layout, color in SHOWN.items():
        chunks = layouts["noisy"].get(layout, {})
        axis.plot([int(chunk) for chunk in chunks], [line["cold"] / 1000 for line in chunks.values()], "o-", color=color, label=layout)
    axis.set_xscale("log", base=2)
    axis.set_xticks([int(chunk) for chunk in layouts["memory_mib"]], list(layouts["memory_mib"]))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("samples a chunk")
    axis.set_title("first epoch, thousand samples/s", fontsize=9)
    axis.legend(loc="best", fontsize=6.5)


def plot_memory(axis, memory):
    axis.bar(range(len(memory)), list(memory.values()), 0.6, color="#0b6fa4")
    for at, mib in enumerate(memory.values()):
        axis.text(at, mib, f"{mib:,.0f}", ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(memory)), list(memory))
    axis.set_xlabel("samples a chunk")
    axis.set_title("memory the reader needs, MiB", fontsize=9)


def plot(layouts, folder):
    plt.rcParams.update(scaling_plot.STYLE)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), gridspec_kw={"width_ratios": [1.4, 1.2, 0.8]})
    plot_sizes(axes[0], layouts)
    plot_chunks(axes[1], layouts)
    plot_memory(axes[2], layouts["memory_mib"])
    figure.tight_layout()
    return scaling_plot.save(figure, folder, "layouts")


if __name__ == "__main__":
    scaling_plot.main(plot)
