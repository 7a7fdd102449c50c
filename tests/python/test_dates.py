"""Ranges of dates in samples.split, samples.missing and samples.where, by brute force: random coordinates in all calendars, against the
order that `penstock plan --order` prints; and xarray's sel(), where there is an xarray.

    python test_dates.py --penstock PATH/penstock [--runs 200] [--seed 7]

A frame is at a date, which is a tuple (year, month, day, hour, minute, second) here. What a text names is the first numbers of such a
tuple: a frame is in "2015-06" if its first two numbers are (2015, 6). No seconds are counted but to write the stores.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if zarr.__version__.startswith("2."):
    print(f"skipped: zarr {zarr.__version__}: zarr 3 writes the stores")
    sys.exit(77)

PENSTOCK, RUNS, SEED = None, int(os.environ.get("PENSTOCK_TEST_RUNS", "70")), 1
DAY = 86400
UNITS = {"days": DAY, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001}


def length_of(calendar, year, month):
    gregorian = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    leap = {"noleap": False, "all_leap": True, "julian": year % 4 == 0,
            "standard": gregorian if year > 1582 else year % 4 == 0}.get(calendar, gregorian)
    return 30 if calendar == "360_day" else 28 + leap if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def days(calendar, first, last):
    """All days of the years, one after another."""
    for year, month in itertools.product(range(first, last + 1), range(1, 13)):
        for day in range(1, length_of(calendar, year, month) + 1):
            if not (calendar == "standard" and (year, month) == (1582, 10) and 4 < day < 15):
                yield year, month, day


def text_of(date, space=False):
    """The numbers as ISO 8601 has them."""
    marks = ["", "-", "-", " " if space else "T", ":", ":"]
    return "".join(f"{mark}{number:02d}" if i else f"{number:04d}" for i, (mark, number) in enumerate(zip(marks, date)))


class Dates:
    """A calendar: frames' dates, and the numbers that a store has for them."""

    def __init__(self, rng):
        self.rng = rng
        self.calendar = rng.choice(("standard", "standard", "proleptic_gregorian", "noleap", "360_day", "julian", "all_leap"))
        first = 1581 if self.calendar in ("standard", "julian") and rng.random() < 0.2 else rng.choice((1969, 1979, 1999, 2015))
        self.days = list(days(self.calendar, first, first + 3))
        self.step = rng.choice((1, 60, 3600, 3600, 6 * 3600, 6 * 3600, DAY, DAY, 5 * DAY))
        self.even = rng.random() < 0.6

    def seconds(self, count, at):
        """Of frames: never falling, from the first day of the calendar on."""
        step = self.step
        gaps = [step] * count if self.even else [self.rng.choice((0, step, step, 3 * step, DAY, 7 * step)) for _ in range(count)]
        found = np.cumsum([at, *gaps[1:]])
        return [int(s) for s in found if s < len(self.days) * DAY]

    def date(self, seconds):
        return (*self.days[seconds // DAY], seconds % DAY // 3600, seconds % 3600 // 60, seconds % 60)

    def array(self, seconds):
        """As a store has them: items, and attributes."""
        rng = self.rng
        if self.calendar == "proleptic_gregorian" and rng.random() < 0.7:
            values = np.array([np.datetime64(text_of(self.date(s))) for s in seconds])
            unit = rng.choice(["s", "ms", "us", "ns"] + ["D"] * all(s % DAY == 0 for s in seconds) + ["h"] * all(s % 3600 == 0 for s in seconds))
            return values.astype(f"datetime64[{unit}]"), {}
        origin = rng.randrange(min(400, len(self.days)))
        unit = rng.choice([unit for unit, length in UNITS.items() if all(s % length == 0 for s in seconds)])
        numbers = [(s - origin * DAY) / UNITS[unit] for s in seconds]
        kind = rng.choice(("i8", "i8", "i4" if max(map(abs, numbers)) < 2**31 else "f8", "f8"))
        if kind == "f8" and rng.random() < 0.5:
            unit = "days"
            numbers = [(s - origin * DAY) / DAY for s in seconds]
        year, month, day = self.days[origin]
        since = rng.choice((f"{year:04d}-{month:02d}-{day:02d}", f"{year}-{month}-{day} 00:00:0.0", f"{year:04d}-{month:02d}-{day:02d}T00:00:00Z"))
        return np.array(numbers, kind), {"units": f"{unit} since {since}", "calendar": self.calendar}

    def value(self, date):
        return text_of(date, self.rng.random() < 0.1)

    def shorten(self, date):
        return date[:self.rng.choice((1, 2, 2, 3, 3, 4, 5, 6))]

    def nearby(self, seconds):
        """A date near a frame's, which no frame need have."""
        moved = self.rng.choice(seconds) + self.rng.choice((*[0] * 9, self.step // 2, -self.step, 40 * DAY))
        return self.shorten(self.date(min(max(moved, 0), len(self.days) * DAY - 1)))


class Numbers:
    """A coordinate that is no time."""

    def __init__(self, rng):
        self.rng, self.kind = rng, rng.choice(("i4", "i8", "u1", "f4", "f8"))
        self.scale = 1 if self.kind[0] != "f" else rng.choice((0.25, 0.1))
        self.even = rng.random() < 0.7

    def seconds(self, count, at):
        found = np.cumsum([at % 50, *([1] * (count - 1) if self.even else [self.rng.choice((0, 1, 2, 5)) for _ in range(count - 1)])])
        found = found - (0 if self.kind == "u1" else 30)
        return [int(n) for n in found if n < 250]

    def date(self, number):
        return (np.dtype(self.kind).type(number * self.scale),)

    def array(self, numbers):
        return np.array([self.date(n)[0] for n in numbers], self.kind), {"units": "m"} if self.rng.random() < 0.5 else {}

    def value(self, date):
        return repr(date[0].item())

    def nearby(self, numbers):
        near = self.rng.choice(numbers) + self.rng.choice((0, 0, 0, 0, 1, -1, 9))
        if self.kind[0] == "f" or self.rng.random() < 0.8:
            return self.date(max(near, 0) if self.kind == "u1" else near)
        return (np.float64(near + 0.5),)


class World:
    """A dataset and its configuration; `refused` are the messages that may refuse it."""

    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder
        self.axis = Numbers(rng) if rng.random() < 0.15 else Dates(rng)
        self.is_named = isinstance(self.axis, Numbers) or rng.random() < 0.3
        self.array = rng.choice(("time", "valid", "g/when")) if self.is_named else rng.choice(("time", "time", "dates"))
        self.make_stores()
        self.dates = [self.axis.date(s) for store in self.stores for s in store]
        self.first = np.concatenate(([0], np.cumsum([len(store) for store in self.stores]))).tolist()
        self.frames = self.first[-1]
        self.steps = rng.choice((None, None, "0:2", "-1:3"))
        self.samples, self.refused = {}, []
        self.blocked, self.wanted = np.zeros(self.frames, bool), np.ones(self.frames, bool)
        if rng.random() < 0.3:
            self.samples["continuous"] = True
        self.make_split()
        for key in ("missing", "where"):
            if rng.random() < 0.25:
                self.make_list(key)

    def make_stores(self):
        """Stores that go on, or that begin anew."""
        rng, at, self.stores = self.rng, self.rng.randrange(0, 200 * DAY, self.rng.choice((1800, DAY))), []
        for _ in range(rng.choice((1, 1, 2, 3))):
            store = self.axis.seconds(rng.choice((1, 7, 30, 90)), at)
            if store:
                self.stores.append(store)
                at = store[-1] + rng.choice((0, 1, 5)) * getattr(self.axis, "step", 1) if rng.random() < 0.7 else at
        if not self.stores:
            self.stores = [self.axis.seconds(1, 0)]

    def series(self):
        """[first, end) of frames whose dates do not fall from store to store."""
        begins = [f for f in self.first[:-1] if f == 0 or self.dates[f] < self.dates[f - 1]]
        return list(zip(begins, [*begins[1:], self.frames]))

    # Ranges

    def make_range(self, may_be_one):
        """(text, low, high): ends are the first numbers of dates, or None."""
        rng, frames = self.rng, [s for store in self.stores for s in store]
        low, high = self.axis.nearby(frames), self.axis.nearby(frames)
        if rng.random() < 0.96:
            low, high = min(low, high), max(low, high)
        kind = rng.choice(("both", "both", "both", "low", "high", "one") if may_be_one else ("both", "both", "low", "high"))
        if kind == "low":
            high = None
        elif kind == "high":
            low = None
        elif kind == "one":
            high = low
        text = self.axis.value(low) if kind == "one" else f"{self.axis.value(low) if low else ''}:{self.axis.value(high) if high else ''}"
        if self.is_named:
            return f"{self.array}={text}", low, high
        if "-" not in text:  # years alone would be numbers of frames
            return self.make_range(may_be_one)
        return text, low, high

    def is_in(self, date, low, high):
        return (low is None or date[:len(low)] >= low) and (high is None or date[:len(high)] <= high)

    def find(self, option, low, high):
        """The frames in a range. Why it is refused is noted."""
        found = [t for t in range(self.frames) if self.is_in(self.dates[t], low, high)]
        ends = [end for end in (low, high) if end is not None]
        if low is not None and high is not None and self.is_reversed(low, high):
            self.refuse(f"{option}: .*ends before it begins")
        elif any(all(date[:len(end)] > end for date in self.dates) for end in ends):
            self.refuse(f"{option}: .*before the first frame")
        elif any(all(date[:len(end)] < end for date in self.dates) for end in ends):
            self.refuse(f"{option}: .*after the last frame")
        elif not found:
            self.refuse(f"{option}: .*has no frame")
        return found

    def is_reversed(self, low, high):
        """Nothing at all is in the range: all that the high end names lies before the low end."""
        if isinstance(self.axis, Numbers):
            whole = self.axis.kind[0] != "f"
            return np.floor(high[0]) + 1 <= np.ceil(low[0]) > np.ceil(high[0]) if whole else high[0] < low[0]
        return high[:len(low)] < low[:len(high)] or (len(high) > len(low) and high < low + (0,) * 6 and
                                                     high < (low + (1, 1, 0, 0, 0)[len(low) - 1:])[:len(high)])

    def refuse(self, why):
        self.refused.append(why)

    def make_list(self, key):
        ranges = [self.make_range(True) for _ in range(self.rng.choice((1, 1, 1, 2, 3)))]
        if key == "where":
            self.wanted[:] = False
        for _, low, high in ranges:
            found = self.find(f"samples.{key}", low, high)
            if key == "where":
                self.wanted[found] = True
            else:
                self.blocked[found] = True
        texts = [text for text, _, _ in ranges]
        self.samples[key] = texts[0] if len(texts) == 1 else texts if self.rng.random() < 0.5 else ",".join(texts)

    def make_split(self):
        rng, split = self.rng, self.rng.choice(("none", "range", "range", "parts"))
        if split == "none":
            return
        count = 1 if split == "range" else rng.choice((1, 2, 3))
        ranges = [self.make_range(rng.random() < 0.3) for _ in range(count)]
        gap, wanted, owner = rng.choice((0, 0, 1, 4)), rng.randrange(count), {}
        option = f"samples.split_{split}"
        found = [self.find(option, low, high) for _, low, high in ranges]
        if not self.refused and len({t for part in found for t in part}) < sum(map(len, found)):
            self.refuse("both have frame")
        kept = set(found[wanted])
        for first, end in self.series():
            begin = next((t for t in range(first, end) if t in kept), end)
            if begin > first:
                kept -= set(range(begin, min(begin + gap, end)))
        if not kept:
            self.refuse("has no frame behind a gap")
        self.blocked[[t for t in range(self.frames) if t not in kept]] = True
        names = ["train", "val", "test"][:count]
        self.samples["split"] = {"range": ranges[0][0]} if split == "range" else {
            "part": names[wanted], "parts": {name: text for name, (text, _, _) in zip(names, ranges)}}
        if gap:
            self.samples["split"]["gap"] = gap

    # What there is, and what is expected

    def write(self):
        for i, store in enumerate(self.stores):
            group = zarr.create_group(store=str(self.folder / f"{i}.zarr"), zarr_format=3)
            values, attributes = self.axis.array(store)
            options = {"dimension_names": ["time"]}
            array = group.create_array(self.array, shape=values.shape, chunks=(self.rng.choice((1, 16, 500)),), dtype=values.dtype,
                                       fill_value=np.datetime64("NaT") if values.dtype.kind == "M" else 0, attributes=attributes, **options)
            array[:] = values
            group.create_array("x", data=np.arange(len(store), dtype="f4"), chunks=(8,), **options)
            if self.rng.random() < 0.3:
                zarr.consolidate_metadata(group.store)
        field = {"array": "x"} | ({"steps": self.steps} if self.steps else {})
        config = {"dataset": {"uri": [str(self.folder / f"{i}.zarr") for i in range(len(self.stores))], "fields": {"x": field}},
                  "samples": self.samples, "batch": {"global_size": 1, "last": "partial"}, "order": {"epochs": 1},
                  "errors": {"missing_chunk": "fill"}}
        (self.folder / "run.yaml").write_text(json.dumps(config))

    def anchors(self):
        low, high = (0, 1) if not self.steps else map(int, self.steps.split(":"))
        episodes = [(0, self.frames)] if self.samples.get("continuous") else list(zip(self.first, self.first[1:]))
        return [t for first, end in episodes for t in range(first, end)
                if t + low >= first and t + high <= end and not self.blocked[t + low:t + high].any() and self.wanted[t]]


def plan(config, *arguments):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    return subprocess.run([PENSTOCK, "plan", "-c", str(config), *arguments], capture_output=True, text=True, timeout=60, env=clean)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-test-dates-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def put(self, store, times, name="time", axis="time", **attributes):
        """A store of a frame for each time."""
        group = zarr.open_group(str(self.folder / store), mode="w", zarr_format=3)
        if times is not None:
            array = group.create_array(name, shape=times.shape, chunks=times.shape, dtype=times.dtype, attributes=attributes,
                                       dimension_names=[axis] if axis else None,
                                       fill_value=np.datetime64("NaT") if times.dtype.kind == "M" else 0)
            array[:] = times
        count = len(times) if times is not None else 8
        group.create_array("x", data=np.arange(count, dtype="f4"), chunks=(8,), dimension_names=[axis] if axis else None)

    def plan(self, samples, *stores, order=False):
        path = self.folder / "run.yaml"
        path.write_text(json.dumps({
            "dataset": {"uri": [str(self.folder / store) for store in stores or ("a.zarr",)], "fields": {"x": "x"}}, "samples": samples,
            "batch": {"global_size": 1, "last": "partial"}, "order": {"epochs": 1}, "errors": {"missing_chunk": "fill"}}))
        return plan(path, *["--order"] * order)

    def frames(self, samples, *stores):
        got = self.plan(samples, *stores, order=True)
        self.assertEqual(got.returncode, 0, f"{got.stderr} {samples}")
        return sorted(int(line.split()[3]) for line in got.stdout.splitlines())


def hours(*numbers):
    return np.array(numbers, "i8")


class Messages(Case):
    def refuse(self, message, samples, *stores):
        got = self.plan(samples if isinstance(samples, dict) else {"split": {"range": samples}}, *stores)
        self.assertNotEqual(got.returncode, 0, samples)
        self.assertIn(message, got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1, got.stderr)

    def test_mistakes(self):
        days = np.arange("2015-01-01", "2015-03-01", dtype="datetime64[D]")
        units = "hours since 2015-01-01"
        self.put("a.zarr", days)
        for text, message in {
                "2015-13:2016": "samples.split_range: '2015-13:2016' is not a range of dates such as \"2015-01:2016-06-30T18\"",
                "2015-01-01T18:00": "no frame: frame 0 is at 2015-01-01, and frame 1 at 2015-01-02",
                "2015-02-29:": "array 'time' of the store '{a}': '2015-02-29' is no date of its calendar",
                "2016-01:": "'2016-01:' begins after the last frame, which is at 2015-02-28: an end may be left out",
                ":2014-12": "':2014-12' ends before the first frame, which is at 2015-01-01",
                "2015-02:2015-01": "'2015-02:2015-01' ends before it begins",
                "when=2015:2016": "samples.split_range: there is no array 'when' in the store '{a}'",
                "x=2015-01:": "array 'x' of the store '{a}': it has no dates (neither datetime64, nor units such as 'hours since 1900-01-01'), "
                              "but '2015-01' is no number"}.items():
            self.refuse(message.replace("{a}", str(self.folder / "a.zarr")), text)
        self.refuse("samples.missing: '2015-1' is neither a date nor a range of dates", {"missing": ["2015-01-01", "2015-1"]})
        self.refuse("samples.missing: '2015-01-01' and 'time=2015-01-02' are by two arrays", {"missing": ["2015-01-01", "time=2015-01-02"]})
        self.refuse("samples.missing: there is no array 'bad' in the store", {"missing": "bad"})
        self.refuse("part 'a' is a share and part 'b' a range", {"split": {"part": "a", "parts": {"a": 0.5, "b": "2015-01"}}})
        self.refuse("samples.split_by is 'sample', which is for shares", {"split": {"part": "a", "by": "sample", "parts": {"a": "2015-01"}}})
        self.refuse("samples.split_parts: parts 'a' and 'b' both have frame 9, at 2015-01-10",
                    {"split": {"part": "a", "parts": {"a": ":2015-01-15", "b": "2015-01-10:"}}})
        self.refuse("samples.split_range has no frame behind a gap of 99 frames", {"split": {"range": "2015-02:", "gap": 99}})
        falling, wrong = days.copy(), days.copy()
        falling[7], wrong[3] = falling[5], np.datetime64("NaT")
        self.put("a.zarr", falling)
        self.refuse("item 7 is 2015-01-06, after 2015-01-07: ranges need a coordinate that never falls", "2015-02:")
        self.put("a.zarr", wrong)
        self.refuse("item 3 is no time: ranges need one for each frame", "2015-02:")
        self.put("a.zarr", hours(0, 24, 48), units=units, calendar="none")
        self.refuse(f"its dates cannot be read, of units '{units}' in the calendar 'none': write numbers of frames, or another array", "2015-01:")
        self.put("a.zarr", hours(0, 24, 48), units=units + " 00:00 +2:00")
        self.refuse("its dates cannot be read", "2015-01:")
        self.put("a.zarr", hours(0, 1), units="months since 2015-01-01")
        self.refuse("of units 'months since 2015-01-01' in the calendar 'standard'", "2015-01:")
        self.put("a.zarr", hours(0, 1), units=units, scale_factor=2.0)
        self.refuse("its items are scaled", "2015-01:")
        self.put("a.zarr", np.arange(12).reshape(6, 2), axis=None, units=units)
        self.refuse("there is no array of times along the sample axis: it has one for each frame", "2015-01:")
        self.put("a.zarr", None)
        self.refuse("there is no array of times along the sample axis 'time'", "2015-01:")
        self.put("a.zarr", hours(0, 1), units=units)
        self.put("b.zarr", hours(0, 1), units=units, calendar="noleap")
        self.refuse("it cannot be compared with that of the store before, which is of another kind or calendar", "2015-01:", "a.zarr", "b.zarr")

    def align(self, field, samples=None, **more):
        group = zarr.open_group(str(self.folder / "a.zarr"))
        if "sst" not in group:
            group.create_array("sst/x", data=np.arange(3, dtype="f4"), dimension_names=["when"])
            group.create_array("sst/bare", data=np.arange(3, dtype="f4"))
        path = self.folder / "align.yaml"
        path.write_text(json.dumps({"dataset": {"uri": str(self.folder / "a.zarr"), "fields": {"x": "x", "s": {"array": "sst/x"} | field}} | more,
                                    "samples": samples or {}, "batch": {"global_size": 1}, "errors": {"missing_chunk": "fill"}}))
        return plan(path)

    def own(self, values, **attributes):
        zarr.open_group(str(self.folder / "a.zarr")).create_array("sst/when", data=values, dimension_names=["when"], attributes=attributes,
                                                                  overwrite=True)

    def test_aligned_fields(self):
        units = "hours since 2015-01-01"
        self.put("a.zarr", hours(0, 6, 12, 18), units=units)
        cases = [({"align": "when"}, None, "field 's': there is no array 'when'"),
                 ({"method": "nearest"}, None, "dataset.fields.s.method is set without align"),
                 ({"align": "time", "method": "next"}, None, "'next' is not a choice; it takes exact, nearest or previous"),
                 ({"align": "time", "index": "time"}, None, "index and align are both set"),
                 ({"array": "sst/bare", "align": "time"}, None, "the sample axis of the array 'sst/bare' has no name"),
                 ({"align": "time"}, None, "dataset.fields.s.align: there is no array 'sst/when' in the store"),
                 ({"align": "time"}, (hours(0, 2, 2), {"units": units}), "item 2 is 2015-01-01 02:00, after 2015-01-01 02:00: the coordinate of a field "
                                                                         "that is aligned has to rise"),
                 ({"align": "time"}, (hours(0, 6), {"units": units}), "array 'sst/when' of the store '{a}': the array has 2 items"),
                 ({"align": "time"}, (hours(0, 6, 12), {}), "array 'time' of the store '{a}': it cannot be compared with that of"),
                 ({"align": "time"}, (hours(0, 6, 12), {"units": units, "calendar": "noleap"}), "it cannot be compared with that of"),
                 ({"align": "time"}, (hours(1, 2, 3), {"units": units}), "no sample")]
        for field, values, message in cases:
            if values:
                self.own(values[0], **values[1])
            got = self.align(field)
            self.assertNotEqual(got.returncode, 0, message)
            self.assertIn(message.replace("{a}", str(self.folder / "a.zarr")), got.stderr)
            self.assertEqual(got.stderr.count("\n"), 1, got.stderr)
        self.own(hours(0, 1, 10), units="hours since 2015-01-01 06:00")
        for method, count in (("exact", 1), ("previous", 3), ("nearest", 4)):
            self.assertIn(f"held in memory, aligned by 'time': {count} of 4 frames have one", self.align({"align": "time", "method": method}).stdout)
        self.assertIn("array 'sst/x' takes 12 B, and joined arrays are held whole", self.align({"align": "time"}, hold_limit="0").stderr)

    def test_stores_one_after_another(self):
        """Units may differ; a store that begins anew is a series of its own, of which the gap is, too."""
        self.put("a.zarr", hours(*range(0, 240, 24)), units="hours since 2015-01-01")
        self.put("b.zarr", hours(*range(10)), units="days since 2015-01-11")
        self.assertEqual(self.frames({"split": {"range": "2015-01-08:2015-01-13", "gap": 2}}, "a.zarr", "b.zarr"), [9, 10, 11, 12])
        self.assertEqual(self.frames({"split": {"range": "2015-01-03:2015-01-13", "gap": 1}}, "b.zarr", "a.zarr"), [0, 1, 2, *range(13, 20)])
        told = self.plan({"split": {"range": "2015-01-03:2015-01-13"}, "missing": ["2015-01-02", "2015-01-20"]}, "b.zarr", "a.zarr").stdout
        self.assertIn("missing    2015-01-02: 1 episode, 1 of 20 frames, 11 to 11, 2015-01-02 to 2015-01-02\n           2015-01-20: 1 episode", told)
        self.assertIn("split      range: 2 episodes, 11 of 20 frames, 0 to 19 in 2 runs, 2015-01-11 to 2015-01-10", told)
        told = self.plan({"split": {"range": "2015-01-01:2015-01-20"}}, "b.zarr", "a.zarr").stdout
        self.assertIn("20 of 20 frames, 0 to 19 in 2 runs", told)

    def test_fractions_of_days(self):
        """Minutes as fractions of days are these minutes."""
        self.put("a.zarr", np.arange(400) / 1440, units="days since 1970-01-01", calendar="noleap")
        wanted = range(0, 400, 3)
        self.assertEqual(self.frames({"where": [f"1970-01-01T{minute // 60:02d}:{minute % 60:02d}" for minute in wanted]}), list(wanted))

    def test_names_of_arrays_stay(self):
        """Numbers of frames, and arrays whose names look a little like dates."""
        self.put("a.zarr", np.arange("2015", "2025", dtype="datetime64[Y]").astype("datetime64[s]"))
        self.assertEqual(self.frames({"split": {"range": "2:4"}}), [2, 3])
        self.assertEqual(self.frames({"split": {"range": "time=2016:2017"}}), [1, 2])
        self.assertEqual(self.frames({"missing": ["2016-01-01", "2018-01:"]}), [0, 2])
        group = zarr.open_group(str(self.folder / "a.zarr"))
        for name in ("2015", "2015-01", "a=b"):
            group.create_array(name, data=np.arange(10) == 4)
        for name in ("2015", "/2015-01", "a=b"):
            self.assertEqual(self.frames({"where": name}), [4])


class XArray(Case):
    """In the long runs alone: xarray takes seconds to load."""

    def test_sel(self):
        """What sel(time=slice(low, high)) gives, of a store that xarray has written."""
        try:
            import xarray as xr
        except ImportError as error:
            self.skipTest(str(error))
        rng = random.Random(SEED)
        for zarr_format, step in ((2, 6 * 3600), (3, DAY)):
            times = np.datetime64("2015-11-20", "s") + np.arange(400) * step
            data = xr.Dataset({"x": ("time", np.arange(400.0))}, coords={"time": times.astype("datetime64[ns]")})
            data.to_zarr(self.folder / "a.zarr", mode="w", zarr_format=zarr_format, consolidated=zarr_format == 2)
            for _ in range(12):
                low, high = sorted(str(np.datetime64(times[rng.randrange(400)], rng.choice("MDhms"))) for _ in range(2))
                expected = data.x.sel(time=slice(low, high)).values.astype(int).tolist()
                if expected:
                    self.assertEqual(self.frames({"split": {"range": f"{low}:{high}"}}), expected, f"{low}:{high}")
            for text in ("2016-01", "2015-12-03"):
                self.assertEqual(self.frames({"where": text}), np.atleast_1d(data.x.sel(time=text).values).astype(int).tolist())


    def test_reindex(self):
        """Which item a frame has is what reindex(method=...) finds."""
        try:
            import xarray as xr
        except ImportError as error:
            self.skipTest(str(error))
        rng = np.random.default_rng(SEED)
        start = np.datetime64("2015-11-20", "ns")
        times = start + np.cumsum(rng.integers(1, 9, 60)) * np.timedelta64(1, "h")
        own = start + np.cumsum(rng.integers(3, 30, 25)) * np.timedelta64(1, "h")
        slow = xr.Dataset({"x": ("when", np.arange(25.0))}, coords={"when": own})
        xr.Dataset({"x": ("time", np.arange(60.0))}, coords={"time": times}).to_zarr(self.folder / "a.zarr", mode="w", zarr_format=2)
        slow.to_zarr(self.folder / "a.zarr", group="slow", mode="a", zarr_format=2)
        for ours, theirs in (("exact", None), ("previous", "pad"), ("nearest", "nearest")):
            found = slow.x.reindex(when=times, method=theirs).values
            for t in np.flatnonzero(~np.isnan(found)):
                told = subprocess.run([PENSTOCK, "samples", "-s", f"dataset.uri={self.folder / 'a.zarr'}", "-s", "dataset.fields.x=x",
                                       "-s", "dataset.fields.s=slow/x", "-s", "dataset.fields.s.align=time", "-s", f"dataset.fields.s.method={ours}",
                                       "-s", "batch.global_size=1", "--index", str(t)], capture_output=True, text=True, timeout=60)
                self.assertIn(f", item {int(found[t])} at the anchor", told.stdout, told.stderr)


class Oracle(Case):
    def try_world(self, number):
        folder = self.folder / str(number)
        folder.mkdir()
        world = World(random.Random(SEED * 1000003 + number), folder)
        told = f"{world.samples} {world.array} {world.axis.__dict__ | {'days': None}} {world.stores}"
        world.write()
        got = plan(folder / "run.yaml", "--order")
        if world.refused:
            self.assertNotEqual(got.returncode, 0, told)
            self.assertRegex(got.stderr, "|".join(world.refused), told)
            return "refused"
        expected = world.anchors()
        if not expected:
            self.assertNotEqual(got.returncode, 0, told)
            return "empty"
        self.assertEqual(got.returncode, 0, f"{got.stderr} {told}")
        self.assertEqual(sorted(int(line.split()[3]) for line in got.stdout.splitlines()), expected, told)
        return "equal"

    def test_random_configurations(self):
        counts = {"equal": 0, "refused": 0, "empty": 0}
        for number in range(RUNS):
            with self.subTest(seed=SEED, run=number):
                counts[self.try_world(number)] += 1
        print(counts)
        self.assertGreater(counts["equal"], RUNS // 4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    PENSTOCK, RUNS, SEED = os.path.abspath(options.penstock), options.runs, options.seed
    unittest.main(argv=[*sys.argv[:1], "Messages", "Oracle", *["XArray"] * (RUNS > 1000)])
