"""Ranges of dates in samples.split, samples.missing and samples.where, by brute force: random coordinates in all calendars, against the
order that `penstock plan --order` prints; fields that are aligned; and xarray's sel() and reindex().

    python test_dates.py --penstock PATH/penstock [--runs 200] [--seed 7]
"""

import argparse
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

from dates_oracle import DAY, World  # noqa: E402

PENSTOCK, RUNS, SEED = None, int(os.environ.get("PENSTOCK_TEST_RUNS", "70")), 1


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
        self.refuse("it cannot be compared with 'a.zarr/time', which is of another kind or calendar", "2015-01:", "a.zarr", "b.zarr")

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
                 ({"align": "time"}, (hours(0, 6, 12), {}), "array 'time' of the store '{a}': it cannot be compared with 'sst/when'"),
                 ({"align": "time"}, (hours(0, 6, 12), {"units": units, "calendar": "noleap"}), "it cannot be compared with 'sst/when'"),
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
