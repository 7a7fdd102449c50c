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

COLORS = {"cached": "#0b6fa4", "cold": "#d1642a"}
TEXT, FAINT = "#333333", "#9a9a9a"
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": FAINT,
         "axes.labelcolor": TEXT, "text.color": TEXT, "xtick.color": TEXT, "ytick.color": TEXT,
         "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left",
         "legend.frameon": False, "legend.fontsize": 9, "svg.fonttype": "none", "svg.hashsalt": "penstock", "figure.dpi": 130}


def lines_of(figures, rows, mode):
    found = [line for line in figures["lines"] if (line["rows"], line["mode"]) == (rows, mode)]
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
    figure, axes = plt.subplots(1, len(rows), figsize=(4.6 * len(rows), height), sharey=True, squeeze=False)
    for row, axis in zip(rows, axes[0]):
        axis.set_title(row_title(row), pad=10)
        axis.set_xlabel("hosts")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis="y", color="#e8e8e8", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, list(zip(rows, axes[0]))


def plot_rates(figures, folder):
    figure, axes = panels(figures, 4.0)
    labelled = {}
    for rows, axis in axes:
        for mode, marker, shift in (("cold", "s", -0.06), ("cached", "o", 0.06)):  # apart where they meet
            lines = lines_of(figures, rows, mode)
            hosts = [line["hosts"] + shift for line in lines]
            middle = [line["samples_per_s"]["median"] for line in lines]
            below = [value - line["samples_per_s"]["least"] for value, line in zip(middle, lines)]
            above = [line["samples_per_s"]["most"] - value for value, line in zip(middle, lines)]
            labelled[f"{mode}: " + ("read, decoded and exchanged" if mode == "cold" else "exchanged from memory")] = \
                axis.errorbar(hosts, middle, yerr=(below, above), fmt=marker, color=COLORS[mode], markersize=6.5,
                              capsize=3, linewidth=1.2, zorder=4)
            for line, value in zip(lines, middle):
                if mode == "cached" and line["limit"] == "links":
                    axis.annotate(f"{line['ratio']:.2f}", (line["hosts"] + shift, value), xytext=(3, -15),
                                  textcoords="offset points", ha="center", fontsize=9, color=COLORS[mode])
        crossing = [line for line in lines_of(figures, rows, "cached") if "links" in line["limits"]]
        hosts = [line["hosts"] for line in crossing]
        allowed = [line["limits"]["links"] for line in crossing]
        labelled["what the links allow for cached samples"] = axis.plot(
            hosts, allowed, color=TEXT, linewidth=1.4, linestyle=(0, (5, 2)), zorder=3)[0]
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(matplotlib.ticker.LogLocator(10, (1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.tick_params(axis="y", which="minor", length=0)
        axis.set_xlim(0.6, max(line["hosts"] for line in figures["lines"]) + 0.4)
    axes[0][1].set_ylabel("samples/s")
    figure.suptitle(f"Samples of {figures['record_bytes'] // 1024} KiB delivered, {link_text(figures)}", x=0.01,
                    ha="left", fontsize=12.5)
    figure.legend(labelled.values(), labelled.keys(), loc="lower center", bbox_to_anchor=(0.5, -0.08), ncol=3,
                  handletextpad=0.5, columnspacing=1.8)
    figure.tight_layout(w_pad=2.5)
    return save(figure, folder, "scaling_rates")


def plot_bytes(figures, folder):
    figure, axes = panels(figures, 3.6)
    width = 0.34
    labelled = {}
    for rows, axis in axes:
        lines = lines_of(figures, rows, "cached")
        hosts = [line["hosts"] for line in lines]
        for shift, color, label, values in (
                (-width / 2, "#b9cfdc", "forecast of penstock plan", [line["forecast_bytes"] for line in lines]),
                (width / 2, COLORS["cached"], "sent", [line["sent_bytes"]["median"] for line in lines])):
            labelled[label] = axis.bar([host + shift for host in hosts], [value / 2**20 for value in values], width,
                                       color=color, zorder=2)
        middle = [line["sent_bytes"]["median"] / 2**20 for line in lines]
        spread = [[value - line["sent_bytes"]["least"] / 2**20 for value, line in zip(middle, lines)],
                  [line["sent_bytes"]["most"] / 2**20 - value for value, line in zip(middle, lines)]]
        labelled["least and most of one host"] = axis.errorbar(
            [host + width / 2 for host in hosts], middle, yerr=spread, fmt="none", ecolor=TEXT, capsize=3,
            linewidth=1, zorder=3)
        for line, value in zip(lines, middle):
            if line["forecast_error"] is not None:
                top = max(line["sent_bytes"]["most"], line["forecast_bytes"]) / 2**20
                axis.annotate(f"{line['forecast_error']:+.1%}", (line["hosts"], top), xytext=(0, 5),
                              textcoords="offset points", ha="center", fontsize=9)
            else:
                axis.annotate("0", (line["hosts"], value), xytext=(0, 4), textcoords="offset points", ha="center",
                              fontsize=9)
    axes[0][1].set_ylabel("MiB sent by a host in an epoch")
    figure.suptitle("From memory: bytes that cross the network, and their forecast", x=0.06, ha="left", y=1.04,
                    fontsize=12.5)
    figure.legend(labelled.values(), labelled.keys(), loc="lower center", bbox_to_anchor=(0.5, -0.08), ncol=3)
    figure.tight_layout(w_pad=2.5)
    return save(figure, folder, "scaling_bytes")


def plot(figures, folder):
    """Writes all pictures as SVG and PNG; returns their paths."""
    with plt.rc_context(STYLE):
        return plot_rates(figures, folder) + plot_bytes(figures, folder)


def main():
    path = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else path.parent
    for written in plot(json.loads(path.read_text(encoding="utf-8")), folder):
        print(written)


if __name__ == "__main__":
    main()
