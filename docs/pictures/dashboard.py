#!/usr/bin/env python3
"""Draws docs/pictures/dashboard.png: the panels of launch/grafana/penstock.json, as Prometheus answers their queries of a real run.
Grafana is not asked: this script draws.

    docs/pictures/dashboard.py BUILD    BUILD/bin has the programs. Takes prometheus, mpirun and chromium.
"""
import html
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
WATCHED_S, STEP_S, RATE = 40, 1, "8s"
COLORS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#b877d9", "#5794f2", "#ff9830")
CELL, ROW, GAP = 40, 26, 6  # pixels of a unit of the dashboard's grid


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def start_run(build, folder):
    """Two readers and four trainers; the dataset does not fit into memory."""
    subprocess.run([build / "bin/penstock", "synth", folder / "latents.zarr", "--samples", "1500"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    settings = {"dataset.uri": "latents.zarr", "batch.global_size": 64, "order.epochs": 1000, "delivery.trainers": 4,
                "delivery.run_dir": folder / "run", "readers.threads": 1, "readers.memory_limit": "90MiB",
                "order.window_rows": 64, "metrics.listen": "127.0.0.1:0"}
    command = ["mpirun", "--oversubscribe", "-np", "2", build / "bin/penstock-reader", "--quiet"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    return subprocess.Popen([*map(str, command), "--", build / "bin/penstock-trainer", "--compute-ms", "50"], cwd=folder,
                            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


def start_prometheus(folder, address):
    (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: penstock, file_sd_configs: [{{files: ["{folder}/run/reader-*.json"]}}]}}]
""", encoding="ascii")
    return subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--web.listen-address={address}",
                             f"--storage.tsdb.path={folder}/tsdb", "--log.level=error"])


def ask(address, expression, end):
    query = expression.replace("$__rate_interval", RATE).replace('"$job"', '".*"')
    words = urllib.parse.urlencode({"query": query, "start": end - WATCHED_S, "end": end, "step": STEP_S})
    with urllib.request.urlopen(f"http://{address}/api/v1/query_range?{words}", timeout=20) as answer:
        return json.load(answer)["data"]["result"]


def legend(pattern, labels):
    for name, value in labels.items():
        pattern = pattern.replace("{{" + name + "}}", value)
    return pattern


def series_of(address, panel, end):
    """[(name, [(time, value)])]"""
    return [(legend(target["legendFormat"], found["metric"]),
             [(float(at), float(value)) for at, value in found["values"] if value not in ("NaN", "+Inf")])
            for target in panel["targets"] for found in ask(address, target["expr"], end)]


def number(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.0f}%"
    if unit == "Bps":
        return f"{value / 2**20:.0f} MiB/s"
    if unit == "s":
        return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.0f} s"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def draw_stat(series, unit, width, height):
    values = series[0][1] if series else []
    shown = number(values[-1][1], unit) if values else "no data"
    return f'<text x="{width / 2}" y="{height / 2 + 22}" class="stat">{html.escape(shown)}</text>'


def draw_lines(series, unit, width, height, end):
    left, right, top, bottom = 64, 8, 32, 34
    most = max((value for _, points in series for _, value in points), default=0) or 1
    out = ""
    for part in (0, 0.5, 1):
        y = height - bottom - part * (height - top - bottom)
        out += f'<line x1="{left}" x2="{width - right}" y1="{y}" y2="{y}" class="grid"/>'
        out += f'<text x="{left - 5}" y="{y + 4}" class="axis">{number(part * most, unit)}</text>'
    x_legend = 10
    for place, (name, points) in enumerate(series):
        color = COLORS[place % len(COLORS)]
        line = " ".join(f"{left + (at - end + WATCHED_S) / WATCHED_S * (width - left - right):.1f},"
                        f"{height - bottom - value / most * (height - top - bottom):.1f}" for at, value in points)
        out += f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        out += f'<text x="{x_legend}" y="{height - 10}" style="fill:{color};font-size:10px">{html.escape(name)}</text>'
        x_legend += 10 + 5.4 * len(name)
    return out


def draw(panels, answers, end):
    body, bottom = "", 0
    for panel, series in zip(panels, answers):
        place, unit = panel["gridPos"], panel["fieldConfig"]["defaults"].get("unit", "short")
        width, height = place["w"] * CELL - GAP, place["h"] * ROW - GAP
        inside = draw_stat(series, unit, width, height) if panel["type"] == "stat" else draw_lines(series, unit, width, height, end)
        body += f"""<g transform="translate({place['x'] * CELL + GAP},{place['y'] * ROW + GAP})">
            <rect width="{width}" height="{height}" rx="3" fill="#1f2227"/>
            <text x="10" y="18" class="title">{html.escape(panel['title'])}</text>{inside}</g>"""
        bottom = max(bottom, (place["y"] + place["h"]) * ROW + GAP)
    return bottom, f"""<style>body {{margin:0; background:#111217}} text {{font-family:sans-serif; font-size:11px; fill:#ccd}}
        .title {{font-size:12px; font-weight:bold}} .stat {{font-size:30px; text-anchor:middle; fill:#7eb26d}}
        .axis {{text-anchor:end; fill:#889}} .grid {{stroke:#333842}}</style>
        <svg width="{24 * CELL + GAP}" height="{bottom}">{body}</svg>"""


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    panels = json.loads((ROOT / "launch/grafana/penstock.json").read_text(encoding="utf-8"))["panels"]
    with tempfile.TemporaryDirectory() as name:
        folder, address = pathlib.Path(name), free_address()
        run = start_run(build, folder)
        while len(list(folder.glob("run/reader-*.json"))) < 2:
            if run.poll() is not None:
                sys.exit("the run has ended")
            time.sleep(0.1)
        prometheus = start_prometheus(folder, address)  # which watches a folder that is there at the start
        try:
            time.sleep(WATCHED_S + 10)
            end = int(time.time())
            answers = [series_of(address, panel, end) for panel in panels]
            if not any(answers):
                sys.exit("Prometheus has no data")
        finally:
            for process in (run, prometheus):
                process.terminate()
                process.wait()
    height, page = draw(panels, answers, end)
    with Browser(24 * CELL + GAP, height) as browser:
        browser.show(page)
        browser.save(ROOT / "docs/pictures/dashboard.png", 48)


if __name__ == "__main__":
    main()
