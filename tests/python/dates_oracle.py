"""Random coordinates in all calendars, and which samples ranges of dates leave, by brute force. Shares no code with src/.

A frame is at a date, which is a tuple (year, month, day, hour, minute, second) here. What a text names is the first numbers of such a
tuple: a frame is in "2015-06" if its first two numbers are (2015, 6). No seconds are counted but to write the stores.
"""

import itertools
import json

import numpy as np
import zarr

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
