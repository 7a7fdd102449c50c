"""The report as a page: its figures are those of the JSON of the same run, and names cannot break out of it."""

import html.parser
import json
import os
import re
import unittest

from job import JobTest

VOID = ("meta", "line")


class Page(html.parser.HTMLParser):
    """Elements that nest as they should; cells of tables by the table's id; charts; texts by id."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.charts, self.tags, self.ids, self.title = [], {}, {}, set(), {}, ""
        self.feed(text)
        self.close()
        if self.open:
            raise AssertionError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        if tag == "table":
            self.rows = self.tables[attrs["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "svg":
            self.chart = self.charts[attrs["id"]] = {**attrs, "points": [], "rects": []}
        elif tag == "data" and "td" in self.open:
            self.rows[-1][-1] = float(attrs["value"])
        if "id" in attrs:
            self.ids[attrs["id"]] = attrs.get("value", "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        if tag == "polyline":
            self.chart["points"] = [tuple(map(float, pair.split(","))) for pair in attrs["points"].split()]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing, line {self.getpos()[0]}")

    def handle_data(self, data):
        if self.open[-1:] == ["title"] and "svg" not in self.open:
            self.title += data
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] = data
        if self.open[-1:] == ["span"] and "order" in self.ids and not self.ids["order"]:
            self.ids["order"] = data

    def table(self, name):
        head, *rows = self.tables[name]
        return [dict(zip(head, row)) for row in rows]


class Report(JobTest):
    def observe(self, readers, trainers, settings):
        """Page and JSON of one run, and the page's text."""
        paths = [os.path.join(self.folder, name) for name in ("report.json", "report.html")]
        self.digests(readers, trainers, settings, ["--compute-ms", "5"],
                     ["--report", paths[0], "--report", paths[1]])
        with open(paths[0], encoding="ascii") as file:
            report = json.load(file)
        with open(paths[1], encoding="utf-8") as file:
            text = file.read()
        return Page(text), report, text

    def test_has_the_figures_of_the_json(self):
        uri = self.synth("demo.zarr", 600)
        for readers in (1, 2):
            page, report, text = self.observe(readers, 2, {
                "dataset.uri": uri, "batch.global_size": 12, "order.epochs": 3, "readers.threads": 1})
            self.assertEqual(page.ids["order"], report["order_id"])
            self.assertEqual(int(page.ids["samples"]), 3 * 600)
            self.look_at_epochs(page.table("epochs"), report["epochs"])
            self.look_at_readers(page.table("readers"), report["readers"])
            self.look_at_throughput(page.charts["throughput"], report)
            self.look_at_turns(report)
            self.assertEqual({"blocked", "rows", "kept"} - page.charts.keys(), set())
            self.assertEqual("exchange" in page.charts, readers > 1)
            self.assertNotIn("script", page.tags)
            self.assertEqual(set(re.findall(r"https?:[^\"' ]*", text)), {"http://www.w3.org/2000/svg"})
            self.assertNotRegex(text, r"nan|inf\b|url\(|@import|src=|href=")

    def look_at_epochs(self, rows, epochs):
        self.assertEqual(len(rows), len(epochs))
        for row, epoch in zip(rows, epochs):
            for column, value in (("epoch", "epoch"), ("steps", "steps"), ("samples", "samples"), ("rows read", "rows_read"),
                                  ("store", "stored_bytes"), ("kept rows", "memory_bytes"), ("disk cache", "disk_bytes"),
                                  ("sent", "sent_bytes"), ("foreseen", "foreseen_sent_bytes"), ("seconds", "seconds"), ("bounded by", "bound_by")):
                self.assertEqual(row[column], epoch[value], column)

    def look_at_readers(self, rows, readers):
        self.assertEqual(len(rows), len(readers))
        for row, reader in zip(rows, readers):
            metrics = reader["metrics"]
            self.assertEqual(row["node"], reader["node"])
            for column, name in (("samples", "samples_delivered_total"), ("store", "store_read_bytes_total"),
                                 ("sent", "exchange_sent_bytes_total"), ("rows kept", "cached_rows")):
                self.assertEqual(row[column], metrics[name], column)

    def look_at_turns(self, report):
        """A reader turns more often than it publishes rounds."""
        for i, epoch in enumerate(report["epochs"]):
            turns = [reader["epochs"][i]["turns"] for reader in report["readers"]]
            self.assertEqual(epoch["turns"], [sum(bins) for bins in zip(*turns)])
            self.assertGreater(sum(epoch["turns"]), 2 * len(turns))

    def look_at_throughput(self, chart, report):
        """The area below the line is what was delivered."""
        rates = [(float(chart["data-base"]) - y) / float(chart["data-height"]) * float(chart["data-top"])
                 for _, y in chart["points"]]
        self.assertGreater(len(rates), 2)
        delivered = sum(rates) / len(rates) * float(chart["data-seconds"])
        self.assertAlmostEqual(delivered, sum(epoch["samples"] for epoch in report["epochs"]), delta=20)

    def test_escapes_names(self):
        name = "a<script>alert(1)</script>&lt;'\"\x1b[31m.zarr".replace("/", "-")
        os.rename(self.synth("escaped.zarr", 60), os.path.join(self.datasets, name))
        page, _, text = self.observe(1, 1, {"dataset.uri": os.path.join(self.datasets, name), "batch.global_size": 12})
        self.assertNotIn("script", page.tags)
        self.assertNotIn("\x1b", text)
        self.assertIn(name.replace("\x1b", "\\x1b"), page.title)


if __name__ == "__main__":
    unittest.main()
