#!/usr/bin/env python3
"""Draws what bench/cluster_peers.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    cluster_peers_plot.py CLUSTER_PEERS_JSON [FOLDER]
"""
from scaling_plot import STYLE, TEXT, main, plt, save

NAMES = {"penstock": "Penstock", "penstock-fixed": "Penstock,\nplacement fixed", "insitubatch-own": "insitubatch,\nown share",
         "streaming": "MosaicML\nStreaming", "zarrs": "zarr-python\nwith zarrs"}
# Of epochs 1, 2 and 3.
COLORS = {"Penstock": ("#b9cfdc", "#5b9cc0", "#0b6fa4"),
          "others, a trainer gets samples of the whole dataset": ("#ecd0bf", "#e09a6e", "#d1642a"),
          "others, a trainer gets the same share in each epoch": ("#dcdcdc", "#acacac", "#7a7a7a")}
WIDTH = 0.27


def colors_of(figures, name):
    ours, others, keeping = COLORS.values()
    if name.startswith("penstock"):
        return ours
    return keeping if name in figures["keeps_share"] else others


def draw_rates(figures, axis, lines):
    for place, (name, line) in enumerate(lines.items()):
        for epoch, rate in enumerate(line["samples_per_s"]):
            color = colors_of(figures, name)[epoch]
            spread = [[rate - line["least"][epoch]], [line["most"][epoch] - rate]]
            axis.bar(place + (epoch - 1) * WIDTH, rate, WIDTH * 0.94, color=color, zorder=2, yerr=spread,
                     error_kw={"ecolor": TEXT, "capsize": 2, "linewidth": 0.9})
            axis.annotate(f"{rate:,.0f}", (place + (epoch - 1) * WIDTH, line["most"][epoch]), xytext=(0, 4),
                          textcoords="offset points", ha="center", fontsize=7.5, rotation=90, va="bottom")
    axis.set_yscale("log")
    axis.set_ylim(200, max(max(line["most"]) for line in lines.values()) * 2.4)
    axis.set_yticks([200, 500, 1000, 2000, 5000, 10000, 20000], ["200", "500", "1,000", "2,000", "5,000", "10,000", "20,000"])
    axis.minorticks_off()
    axis.set_ylabel("samples/s")
    axis.set_title("epochs 1, 2 and 3, one after another", pad=10)


def draw_bytes(figures, axis, lines):
    size = figures["stored_bytes"]["dataset"]
    for place, (name, line) in enumerate(lines.items()):
        below = 0
        for epoch, count in enumerate(line["store_bytes"]):
            axis.bar(place, count / size, 0.6, bottom=below,
                     color=colors_of(figures, name)[epoch], zorder=2)
            below += count / size
        axis.annotate(f"{below:.2f}", (place, below), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9)
    axis.set_ylabel("size of the dataset = 1")
    axis.set_title("bytes from the store, all epochs", pad=10)


def plot(figures, folder):
    kind = list(figures["stores"])[-1]
    lines = figures["stores"][kind]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 1, figsize=(1.45 * len(lines) + 1, 7.6), height_ratios=(3, 2))
        draw_rates(figures, axes[0], lines)
        draw_bytes(figures, axes[1], lines)
        for axis in axes:
            axis.set_xticks(range(len(lines)), [NAMES.get(name, name) for name in lines])
            axis.grid(axis="y", color="#e8e8e8", linewidth=0.8)
            axis.set_axisbelow(True)
            axis.tick_params(axis="x", length=0)
        rate = figures["rate"].replace("gbit", " Gbit/s")
        figure.suptitle(f"{figures['hosts']} hosts, one {kind.upper()} store behind a link of {rate}", x=0.01, ha="left",
                        fontsize=12.5)
        used = {colors_of(figures, name) for name in lines}
        shown = {label: colors[1] for label, colors in COLORS.items() if colors in used}
        figure.legend([plt.Rectangle((0, 0), 1, 1, color=color) for color in shown.values()], shown.keys(),
                      loc="lower center", bbox_to_anchor=(0.5, -0.05), ncol=3)
        figure.tight_layout(h_pad=2)
        return save(figure, folder, "cluster_peers")


if __name__ == "__main__":
    main(plot)
