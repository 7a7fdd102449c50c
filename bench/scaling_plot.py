#!/usr/bin/env python3
"""Draws what bench/scaling.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    scaling_plot.py SCALING_JSON [FOLDER]
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
# pylint: disable=wrong-import-position
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter  # noqa: E402

COLORS = {("local", "cached"): "#1b8a5a", ("fixed", "cached"): "#0b6fa4", ("local", "cold"): "#e0a526",
          ("fixed", "cold"): "#d1642a"}
NAMES = {"cached": "from memory", "cold": "read and decoded"}
TEXT, FAINT = "#333333", "#9a9a9a"
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": FAINT,
         "axes.labelcolor": TEXT, "text.color": TEXT, "xtick.color": TEXT, "ytick.color": TEXT,
         "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left",
         "legend.frameon": False, "legend.fontsize": 9, "svg.fonttype": "none", "svg.hashsalt": "penstock", "figure.dpi": 130}


def lines_of(figures, rows, placement, mode):
    """On one host both placements are the same."""
    found = [line for line in figures["lines"] if (line["rows"], line["mode"]) == (rows, mode)
             and (line["placement"] == placement or line["hosts"] == 1)]
    return sorted(found, key=lambda line: line["hosts"])


def rows_of(figures):
    return sorted({line["rows"] for line in figures["lines"]})


def row_title(rows):
    return f"rows of {rows} samples" if rows > 1 else "rows of one sample"


def link_text(figures):
    if not figures["link_bits"]:
        return "links as measured"
    return f"links of {figures['link_bits'] / 1e9:g} Gbit/s" + (", shaped" if figures["shaped"] else "")


def save(figure, folder, name):
    written = []
    for ending, more in (("svg", {"metadata": {"Date": None}}), ("png", {"metadata": {"Software": None}})):
        path = folder / f"{name}.{ending}"
        figure.savefig(path, bbox_inches="tight", **more)
        written.append(path)
    plt.close(figure)
    return written


def panels(figures, height):
    rows = rows_of(figures)
    figure, axes = plt.subplots(1, len(rows), figsize=(5.0 * len(rows), height), sharey=True, squeeze=False)
    for row, axis in zip(rows, axes[0]):
        axis.set_title(row_title(row), pad=10)
        axis.set_xlabel("hosts")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis="y", color="#e8e8e8", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, list(zip(rows, axes[0]))


def plot_rates(figures, folder):
    figure, axes = panels(figures, 4.2)
    labelled = {}
    for rows, axis in axes:
        for (placement, mode), color in COLORS.items():
            lines = lines_of(figures, rows, placement, mode)
            hosts = [line["hosts"] for line in lines]
            middle = [line["samples_per_s"]["median"] for line in lines]
            below = [value - line["samples_per_s"]["least"] for value, line in zip(middle, lines)]
            above = [line["samples_per_s"]["most"] - value for value, line in zip(middle, lines)]
            marker = "o" if mode == "cached" else "s"
            labelled[f"{placement}, {NAMES[mode]}"] = axis.errorbar(
                hosts, middle, yerr=(below, above), fmt=f"-{marker}", color=color, markersize=5.5, capsize=3,
                linewidth=1.6 if mode == "cached" else 1.0, zorder=4)
            limited = [line for line in lines if line["limit"]]
            if (placement, mode) == ("local", "cached"):
                labelled["what links and processors allow local, from memory"] = axis.plot(
                    [line["hosts"] for line in limited], [line["limits"][line["limit"]] for line in limited],
                    color=TEXT, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)[0]
                for line in limited:
                    axis.annotate(f"{line['ratio']:.2f}", (line["hosts"], line["samples_per_s"]["median"]),
                                  xytext=(5, -12), textcoords="offset points", fontsize=8.5, color=color)
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_ylim(bottom=0)
        axis.set_xlim(0.7, max(line["hosts"] for line in figures["lines"]) + 0.4)
    axes[0][1].set_ylabel("samples/s, all hosts together")
    cores = f", {figures['cores']:g} cores a host" if figures.get("cores") else ""
    figure.suptitle(f"Samples of {figures['record_bytes'] // 1024} KiB delivered, {link_text(figures)}{cores}", x=0.01,
                    ha="left", fontsize=12.5)
    figure.legend(labelled.values(), labelled.keys(), loc="lower center", bbox_to_anchor=(0.5, -0.12), ncol=3,
                  handletextpad=0.5, columnspacing=1.8)
    figure.tight_layout(w_pad=2.5)
    return save(figure, folder, "scaling_rates")


def plot_bytes(figures, folder):
    """Shares of an epoch's bytes, of both placements: the scale is logarithmic."""
    figure, axes = panels(figures, 3.6)
    width = 0.2
    labelled = {}
    for rows, axis in axes:
        for place, placement in enumerate(("fixed", "local")):
            lines = [line for line in lines_of(figures, rows, placement, "cached") if line["hosts"] > 1]
            hosts = [line["hosts"] for line in lines]
            epoch = figures["samples"] * figures["record_bytes"]
            for shift, color, label, values in (
                    (-width / 2, FAINT, "forecast of penstock plan",
                     [line["forecast_bytes"] * line["hosts"] / epoch for line in lines]),
                    (width / 2, COLORS[placement, "cached"], f"{placement}: sent", [line["sent_share"] for line in lines])):
                at = [host + shift + (2.2 * place - 1.1) * width for host in hosts]
                labelled[label] = axis.bar(at, [100 * value for value in values], width, color=color, zorder=2)
                if shift > 0:
                    for x, value in zip(at, values):
                        axis.annotate(f"{value:.1%}", (x, 100 * value), xytext=(-3, 3), textcoords="offset points",
                                      ha="center", fontsize=8)
        axis.set_yscale("log")
        axis.set_ylim(1, 150)
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0][1].set_ylabel("of all samples")
    figure.suptitle("From memory: samples that cross the network, and their forecast", x=0.01, ha="left", y=1.04,
                    fontsize=12.5)
    figure.legend(labelled.values(), labelled.keys(), loc="lower center", bbox_to_anchor=(0.5, -0.08), ncol=3)
    figure.tight_layout(w_pad=2.5)
    return save(figure, folder, "scaling_bytes")


def plot(figures, folder):
    """Writes all pictures as SVG and PNG; returns their paths."""
    with plt.rc_context(STYLE):
        return plot_rates(figures, folder) + plot_bytes(figures, folder)


def main(plot_to):
    """FILE [FOLDER] on the command line: plot_to(what FILE says, FOLDER) returns the files that it writes."""
    path = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else path.parent
    for written in plot_to(json.loads(path.read_text(encoding="utf-8")), folder):
        print(written)


if __name__ == "__main__":
    main(plot)
