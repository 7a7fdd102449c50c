#!/usr/bin/env python3
"""Draws what bench/layouts.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    layouts_plot.py LAYOUTS_JSON [FOLDER]
"""
import scaling_plot
from scaling_plot import plt

CHUNK = "8"  # of the panel of sizes
SHOWN = {"none": "#6d6d6d", "blosc-lz4 5, shuffle": "#1b8a5a", "blosc-zstd 3, shuffle": "#0b6fa4", "zstd 3": "#e0a526",
         "delta 1, blosc-zstd 3, shuffle": "#d1642a"}


def plot_by_layout(axis, layouts, key, scale, title):
    """A line a layout: noisy and smooth."""
    names = list(layouts["noisy"])
    for at, layout in enumerate(names):
        found = [scale * layouts[name][layout][CHUNK][key] for name in ("noisy", "smooth")]
        axis.plot(found, [at, at], "-", color="#d0d0d0", linewidth=1.5, zorder=1)
        for value, marker in zip(found, "o^"):
            axis.plot(value, at, marker, color=SHOWN.get(layout, "#9a9a9a"), markersize=6)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", color="#f0f0f0", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_title(title, fontsize=9)


def plot_sizes(axis, layouts):
    plot_by_layout(axis, layouts, "stored", 100, f"stored, % of decoded; {CHUNK} a chunk")
    axis.plot([], [], "o", color="#9a9a9a", label="noisy")
    axis.plot([], [], "^", color="#9a9a9a", label="smooth")
    axis.legend(loc="lower left", bbox_to_anchor=(-0.9, -0.22), ncol=2, fontsize=8)


def plot_decode(axis, layouts):
    plot_by_layout(axis, layouts, "decode", 1, "decoding, GB/s a core")
    axis.set_xscale("log")
    axis.set_xticks([1, 3, 10, 30], ["1", "3", "10", "30"])
    axis.minorticks_off()
    axis.set_yticklabels([])


def plot_chunks(axis, layouts):
    for layout, color in SHOWN.items():
        chunks = layouts["noisy"].get(layout, {})
        axis.plot([int(chunk) for chunk in chunks], [line["cold"] / 1000 for line in chunks.values()], "o-", color=color, label=layout)
    axis.set_xscale("log", base=2)
    axis.set_xticks([int(chunk) for chunk in layouts["memory_mib"]], list(layouts["memory_mib"]))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("samples a chunk")
    axis.set_title("first epoch, thousand samples/s", fontsize=9)
    axis.legend(loc="center left", bbox_to_anchor=(0, 0.55), fontsize=7)


def plot_memory(axis, memory):
    axis.bar(range(len(memory)), list(memory.values()), 0.6, color="#0b6fa4")
    for at, mib in enumerate(memory.values()):
        axis.text(at, mib, f"{mib:,.0f}", ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(memory)), list(memory))
    axis.set_xlabel("samples a chunk")
    axis.set_title("memory the reader needs, MiB", fontsize=9)


def plot(layouts, folder):
    plt.rcParams.update(scaling_plot.STYLE)
    figure, axes = plt.subplots(1, 4, figsize=(14, 4), gridspec_kw={"width_ratios": [1, 1, 1.3, 0.8]})
    plot_sizes(axes[0], layouts)
    plot_decode(axes[1], layouts)
    plot_chunks(axes[2], layouts)
    plot_memory(axes[3], layouts["memory_mib"])
    figure.tight_layout()
    return scaling_plot.save(figure, folder, "layouts")


if __name__ == "__main__":
    scaling_plot.main(plot)
