#!/usr/bin/env python3
"""Draws what bench/windows.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    windows_plot.py WINDOWS_JSON [FOLDER]
"""
import scaling_plot
from scaling_plot import plt

COLORS = {"limit": "#c9c9c9", "decoding and copies\nat once": "#e4d3b0", "Penstock": "#0b6fa4", "robomimic": "#8a8a8a",
          "xbatcher": "#b08f8f", "LeRobot": "#d1642a"}
TITLES = {"rows8": "8 frames a chunk", "rows64": "64 frames a chunk"}


def bars(rates, temperature):
    """Names and samples/s of one epoch, from the top down."""
    found = [("limit", rates[f"limit_{temperature}"])]
    if temperature == "cold":
        found.append(("decoding and copies\nat once", rates["limit_both"]))
    found.append(("Penstock", rates[temperature]))
    peers = {name: pair[temperature == "warm"] for name, pair in rates["peers"].items()}
    return found + [({"lerobot": "LeRobot"}.get(name, name), peers[name]) for name in sorted(peers, key=peers.get, reverse=True)]


def plot(measured, folder):
    plt.rcParams.update(scaling_plot.STYLE)
    figure, axes = plt.subplots(2, len(measured), figsize=(9, 5), sharex=True, squeeze=False)
    for column, (name, rates) in enumerate(measured.items()):
        for line, (temperature, title) in enumerate((("cold", "first epoch"), ("warm", "second epoch, from memory"))):
            axis, shown = axes[line][column], bars(rates, temperature)
            for at, (label, rate) in enumerate(shown):
                axis.barh(at, rate / 1000, 0.7, color=COLORS.get(label, "#8a8a8a"))
                axis.text(rate / 1000, at, f" {rate:,.0f}", va="center", fontsize=7, color=scaling_plot.TEXT)
            axis.set_yticks(range(len(shown)), [label for label, _ in shown], fontsize=8)
            axis.invert_yaxis()
            axis.set_title(f"{TITLES.get(name, name)}: {title}", fontsize=9, loc="left")
            axis.margins(x=0.18)
    for axis in axes[-1]:
        axis.set_xlabel("thousand samples/s")
    figure.tight_layout()
    return scaling_plot.save(figure, folder, "windows")


if __name__ == "__main__":
    scaling_plot.main(plot)
