"""Fields of other stores than the dataset's: what is refused, what the fingerprint covers, and xarray's reindex() and align() of the two stores.

    python test_field_stores.py --penstock PATH/penstock
"""

import argparse
import json
import os
import pathlib
import re
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

PENSTOCK = None
UNITS = "hours since 2015-01-01"


def hours(*numbers):
    return np.array(numbers, "i8")


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-test-stores-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def put(self, store, times, name="x", **attributes):
        """A store of an array with an item for each time; without times of eight."""
        group = zarr.open_group(str(self.folder / store), mode="w", zarr_format=3)
        count = 8 if times is None else len(times)
        if times is not None:
            group.create_array("time", data=times, dimension_names=["time"], attributes=attributes)
        group.create_array(name, data=np.arange(1, count + 1, dtype="f4"), chunks=(8,), dimension_names=["time"])

    def tool(self, fields, *arguments, uri="a.zarr", command="plan", **sections):
        """`fields`: beside the dataset's own x."""
        path = self.folder / "run.yaml"
        path.write_text(json.dumps({"dataset": {"uri": uri, "fields": {"x": "x"} | fields}, "batch": {"global_size": 1, "last": "partial"},
                                    "order": {"epochs": 1}, "errors": {"missing_chunk": "fill"}} | sections))
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        return subprocess.run([PENSTOCK, command, "-c", str(path), *arguments], capture_output=True, text=True, timeout=60, env=clean, cwd="/")

    def plan(self, fields, *arguments, **more):
        got = self.tool(fields, *arguments, **more)
        self.assertEqual(got.returncode, 0, got.stderr)
        return got.stdout

    def frames(self, fields, **more):
        return sorted(int(line.split()[3]) for line in self.plan(fields, "--order", **more).splitlines())


class Messages(Case):
    def refuse(self, fields, *messages, **more):
        got = self.tool(fields, **more)
        self.assertNotEqual(got.returncode, 0, messages)
        for message in messages:
            self.assertIn(message.replace("{}", f"{self.folder}/"), got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1, got.stderr)

    def aligned(self, **more):
        return {"s": {"store": "b.zarr", "array": "x", "align": "time"} | more}

    def test_mistakes(self):
        self.put("a.zarr", hours(*range(0, 48, 6)), units=UNITS)
        self.refuse({"s": {"store": "no.zarr", "array": "x"}}, "store '{}no.zarr': no such directory")
        self.refuse({"s": {"store": "ftp://b/x", "array": "x"}}, "ftp stores are not supported")
        self.refuse({"s": {"store": "https://me:hidden@host/x", "array": "x"}}, "s.store: a uri with a user, a password or a signature in it")
        self.refuse({"s": {"store": ""}}, "dataset.fields.s.store: the value is empty")
        (self.folder / "empty").mkdir()
        self.refuse({"s": {"store": "empty", "array": "x"}}, "'{}empty': no Zarr array or group there")
        self.put("b.zarr", None)
        self.refuse({"s": {"store": "b.zarr"}}, "field 's': there is no array 's' in the store '{}b.zarr'; there are 'x'")
        self.refuse({"s": {"array": "b.zarr::x"}}, "STORE::ARRAY is for mean, std, scale and offset alone: set store: STORE and array: ARRAY")
        self.refuse(self.aligned(), "dataset.fields.s.align: there is no array 'time' in the store '{}b.zarr'")
        self.refuse(self.aligned(align="when"), "field 's': there is no array 'when'; there are 'time', 'x'")
        self.refuse(self.aligned(index="time"), "index and align are both set")
        self.refuse({"x": {"store": "b.zarr"}}, "all fields have a store of their own")
        self.put("b.zarr", hours(0, 6, 6), units=UNITS)
        self.refuse(self.aligned(), "array 'time' of the store '{}b.zarr': item 2 is 2015-01-01 06:00, after 2015-01-01 06:00: the coordinate")
        self.put("b.zarr", hours(0, 6), units=UNITS, calendar="noleap")
        self.refuse(self.aligned(), "array 'time' of the store '{}a.zarr': it cannot be compared with 'b.zarr/time', which is of another kind or calendar")
        self.put("b.zarr", np.array([0.0, 6.0]))
        self.refuse(self.aligned(), "it cannot be compared with 'b.zarr/time'")
        self.put("b.zarr", hours(1, 7), units=UNITS)
        self.refuse(self.aligned(), "no sample")
        self.refuse(self.aligned(method="nearest"), "array 'x' takes 8 B, and joined arrays are held whole: raise dataset.hold_limit",
                    dataset={"uri": "a.zarr", "hold_limit": "4", "fields": {"x": "x"} | self.aligned(method="nearest")})
        self.refuse({"s": {"store": "b.zarr", "array": "x"}}, "'s' (array 'b.zarr/x') has 2, 'x' (array 'a.zarr/x') has 8",
                    "a field with a store of its own has an item for each frame of dataset.uri, or finds them by align")

    def test_several_stores(self):
        """An item for each frame is for one store. Items that are found are those of all stores."""
        self.put("a.zarr", hours(0, 6), units=UNITS)
        self.put("c.zarr", hours(12, 18, 24), units=UNITS)
        self.put("b.zarr", hours(6, 9, 12, 18, 20, *range(100, 135)), units=UNITS)
        uri = ["a.zarr", "c.zarr"]
        self.refuse({"s": {"store": "b.zarr", "array": "x"}}, "field 's': store: item i is that of frame i, which takes one store in dataset.uri, and there are 2",
                    uri=uri)
        told = self.plan(self.aligned(), uri=uri)
        self.assertIn(f"held in memory, of the store '{self.folder}/b.zarr', aligned by 'a.zarr/time': 3 of 5 frames have one", told)
        self.assertEqual(self.frames(self.aligned(), uri=uri), [1, 2, 3])
        self.assertRegex(told, r"held arrays +256 B")  # 40 items once, and five numbers of items

    def test_missing_dates(self):
        """As anemoi writes them: the coordinate is `dates`, and the group says which have no values."""
        self.put("a.zarr", hours(*range(0, 48, 6)), units=UNITS)
        group = zarr.open_group(str(self.folder / "b.zarr"), mode="w", zarr_format=2)
        group.create_array("dates", data=np.datetime64("2015-01-01", "s") + np.arange(8) * np.timedelta64(21600, "s"))
        group.create_array("data", data=np.arange(8, dtype="f4"))
        for fields in ({"s": {"store": "b.zarr", "array": "data", "align": "time"}}, {"s": {"store": "b.zarr", "array": "data"}}):
            group.attrs.pop("missing_dates", None)
            self.assertEqual(self.frames(fields), list(range(8)))
            group.attrs["missing_dates"] = ["2015-01-01T12:00:00", "2015-01-02T00:00:00"]
            self.assertEqual(self.frames(fields), [0, 1, 3, 5, 6, 7])
            self.assertEqual(self.frames(fields, samples={"missing": ["2015-01-01"]}), [4, 5, 6, 7])
        group.attrs["missing_dates"] = ["2015-01-05"]
        self.refuse(fields, "store '{}b.zarr': attribute missing_dates: no frame has the date 2015-01-05")

    def test_ragged_fields(self):
        self.put("a.zarr", hours(*range(8)), units=UNITS)
        group = zarr.open_group(str(self.folder / "b.zarr"), mode="w")
        group.create_array("starts", data=np.arange(9))
        group.create_array("tokens", data=np.arange(8, dtype="i4"))
        tokens = {"store": "b.zarr", "ragged": {"offsets": "starts", "values": "tokens"}}
        self.assertIn(f"read row by row, in pages, of the store '{self.folder}/b.zarr'", self.plan({"t": tokens}))
        self.refuse({"t": tokens | {"align": "time"}}, "field 't': align is not for ragged fields")
        self.put("c.zarr", hours(*range(8)), units=UNITS)
        self.refuse({"t": tokens}, "field 't': store: item i is that of frame i", uri=["a.zarr", "c.zarr"])
        group.create_array("starts", data=np.arange(8), overwrite=True)
        self.refuse({"t": tokens}, "'t' (array 'b.zarr/starts') has 7", "offsets have one item more")


class Fingerprint(Case):
    def said(self, fields):
        return re.search(r"fingerprint (\w+)", self.plan(fields))[1], self.frames(fields)

    def test_what_it_covers(self):
        """Another place changes nothing; which stores fields share, and which items frames have, do."""
        self.put("a.zarr", hours(*range(0, 48, 6)), units=UNITS)
        for name in ("b.zarr", "c.zarr", "z.zarr"):
            self.put(name, hours(*range(0, 48, 6)), units=UNITS)

        def fields(first, second):
            align = {"array": "x", "align": "time"}
            return {"s": align | {"store": first}, "t": {"store": second, "array": "x"}}
        one = self.said(fields("b.zarr", "c.zarr"))
        self.assertEqual(self.said(fields("z.zarr", "b.zarr")), one)
        self.assertNotEqual(self.said(fields("b.zarr", "b.zarr")), one)
        own = {"s": {"array": "x", "align": "time"}, "t": {"array": "x"}}
        self.assertNotEqual(self.said(own), one)
        near = {"s": {"store": "b.zarr", "array": "x", "align": "time", "method": "nearest"}}
        before = self.said(near)
        self.put("b.zarr", hours(*range(0, 24, 3)), units=UNITS)  # frames have other items
        self.assertNotEqual(self.said(near)[0], before[0])
        self.assertEqual(self.said(near)[1], before[1])


class XArray(Case):
    def test_reindex_and_align(self):
        """What frames have is what reindex() finds in the other store; samples are at what both stores have."""
        try:
            import xarray as xr
        except ImportError as error:
            self.skipTest(str(error))
        rng = np.random.default_rng(1)
        start = np.datetime64("2015-11-20", "ns")
        times = start + np.cumsum(rng.integers(1, 9, 60)) * np.timedelta64(1, "h")
        days = np.unique(np.concatenate([start + np.arange(1, 12) * np.timedelta64(24, "h"), times[::7]]))
        main = xr.Dataset({"x": ("time", np.arange(60.0))}, coords={"time": times})
        main.x.encoding["chunks"] = (5,)
        other = xr.Dataset({"sst": (("time", "lat"), rng.random((len(days), 2)))}, coords={"time": days})
        main.to_zarr(self.folder / "a.zarr", mode="w", zarr_format=2)
        for part, place in ((main.isel(time=slice(0, 25)), "a1.zarr"), (main.isel(time=slice(25, None)), "a2.zarr")):
            part.to_zarr(self.folder / place, mode="w", zarr_format=2)  # with units of its own
        other.to_zarr(self.folder / "sst.zarr", mode="w", zarr_format=3, consolidated=False)
        for ours, theirs in (("exact", None), ("previous", "pad"), ("nearest", "nearest")):
            fields = {"s": {"store": "sst.zarr", "array": "sst", "align": "time", "method": ours}}
            found = other.assign(number=("time", np.arange(len(days)))).number.reindex(time=times, method=theirs).values
            has = np.flatnonzero(~np.isnan(found)).tolist()
            for uri in ("a.zarr", ["a1.zarr", "a2.zarr"]):
                self.assertEqual(self.frames(fields, uri=uri), has)
                for t in has[::5]:
                    told = self.tool(fields, "--index", str(t), uri=uri, command="samples")
                    self.assertIn(f"array sst.zarr/sst, item {int(found[t])} at the anchor", told.stdout, told.stderr)
        both = xr.align(main, other, join="inner")[0].x.values.astype(int).tolist()
        self.assertEqual(self.frames({"s": {"store": "sst.zarr", "array": "sst", "align": "time"}}), both)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    options = parser.parse_args()
    PENSTOCK = os.path.abspath(options.penstock)
    parts = ["Messages", "Fingerprint", *["XArray"] * bool(os.environ.get("PENSTOCK_TEST_LONG"))]
    unittest.main(argv=[*sys.argv[:1], *parts])
