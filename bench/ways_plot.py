#!/usr/bin/env python3
"""Draws what bench/ways.py has measured; takes Matplotlib (Debian: python3-matplotlib).

    ways_plot.py WAYS_JSON [FOLDER]
"""
import scaling_plot
from scaling_plot import plt

BARS = (("send", "all sent", "#d1642a"), ("each", "each reads for itself", "#8a8a8a"),
        ("auto", "as chosen", "#0b6fa4"))


def label(case):
    local = ", local" if case["placement"] == "local" else ""
    return f"{case['hosts']} hosts, {case['store']},\nrows of {case['rows']}, {case['ratio']}x{local}"


def plot(cases, folder):
    plt.rcParams.update(scaling_plot.STYLE)
    figure, axis = plt.subplots(figsize=(8, 1.2 + 0.62 * len(cases)))
    for at, case in enumerate(cases):
        for bar, (key, name, color) in enumerate(BARS):
            axis.barh(at + (bar - 1) * 0.26, case.get(key, 0) / 1000, 0.24, color=color, label=name if at == 0 else None)
        axis.plot([case["bound"] / 1000] * 2, [at - 0.4, at + 0.4], color=scaling_plot.TEXT, linewidth=1.5,
                  label="bound of the best mixture" if at == 0 else None)
    axis.set_yticks(range(len(cases)), [label(case) for case in cases], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("thousand samples/s of all hosts, later epochs")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    return scaling_plot.save(figure, folder, "ways")


if __name__ == "__main__":
    scaling_plot.main(plot)
