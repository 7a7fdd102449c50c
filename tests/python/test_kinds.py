"""penstock inspect: what it says of stores that people have, and the configuration that --write makes of each, which `penstock plan` takes.

    python test_kinds.py --penstock PATH/penstock

What runs deliver with these configurations is compared in tests/mpi/test_kinds.py.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import zarr

    import kind_stores
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if zarr.__version__.startswith("2."):
    print(f"skipped: zarr {zarr.__version__}: zarr 3 writes the stores")
    sys.exit(77)

PENSTOCK = None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-test-kinds-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def tool(self, *arguments):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        return subprocess.run([PENSTOCK, *arguments], capture_output=True, text=True, timeout=60, env=clean, cwd=self.folder)

    def good(self, *arguments):
        got = self.tool(*arguments)
        self.assertEqual(got.returncode, 0, f"{arguments}: {got.stderr}")
        return got.stdout

    def refuse(self, code, message, *arguments):
        got = self.tool(*arguments)
        self.assertEqual((got.returncode, got.stdout), (code, ""), arguments)
        self.assertIn(message, got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1, got.stderr)

    def write(self, store, kind, *arguments):
        """The plan of the configuration that is written for the store, and its text; inspect says which kind it is."""
        report = json.loads(self.good("inspect", store, "--json", *arguments))
        self.assertEqual(report["kind"], kind, report["about"])
        told = self.good("inspect", store, "--write", "run.yaml", *arguments)
        self.assertIn("next: penstock plan -c run.yaml", told)
        self.assertIn(report["about"], " ".join(told.split()))
        path = self.folder / "run.yaml"
        text = path.read_text()
        plan = self.good("plan", "-c", "run.yaml")
        path.unlink()
        return plan, text


class Kinds(Case):
    def test_anemoi(self):
        for zarr_format in 2, 3:
            kind_stores.anemoi(self.folder / "a.zarr", zarr_format)
            plan, text = self.write("a.zarr", "anemoi")
            self.assertIn("data float32 (3, 3, 1, 40), from float32, 3 steps from -1 to 1", plan)
            self.assertIn("at 15 of 20 frames", plan)
            self.assertIn("\n      mean: mean ", text)
            (self.folder / "some.yaml").write_text(text.replace("# slice: {variable: [\"2t\", msl]}", "slice: {variable: [\"2t\", msl]}"))
            self.assertIn("data float32 (3, 2, 1, 40)", self.good("plan", "-c", "some.yaml"))
        kind_stores.anemoi(self.folder / "b.zarr", 2, constant=True)
        plan, text = self.write("b.zarr", "anemoi")
        self.assertIn("# mean: mean ", text)
        self.assertIn("refused: ", text)
        kind_stores.anemoi(self.folder / "c.zarr", 2, dates=2)
        self.assertNotIn("steps: \"", self.write("c.zarr", "anemoi")[1])

    def test_anndata(self):
        for zarr_format in 2, 3:
            kind_stores.anndata(self.folder / "dense.zarr", zarr_format, "dense")
            plan, text = self.write("dense.zarr", "AnnData")
            self.assertIn("X float32 (12)", plan)
            self.assertIn("n_genes int64", plan)
            self.assertIn("kind int8", plan)
            self.assertIn("# log: {array: layers/log}", text)
            kind_stores.anndata(self.folder / "csr.zarr", zarr_format, "csr_matrix")
            plan, text = self.write("csr.zarr", "AnnData")
            self.assertIn("X.offsets int64", plan)
            # What the comments tell to write is right, too.
            deliver = text.split("or deliver: ")[1].split(", rows")[0]
            (self.folder / "dense.yaml").write_text(text.replace("deliver: csr", f"deliver: {deliver}"))
            self.assertIn("X float32 (12)", self.good("plan", "-c", "dense.yaml"))
        kind_stores.anndata(self.folder / "csc.zarr", 3, "csc_matrix")
        kind_stores.put(zarr.open_group(str(self.folder / "csc.zarr" / "obs")), "log", kind_stores.np.arange(30))
        plan, text = self.write("csc.zarr", "AnnData")
        self.assertIn("obs_log int64", plan)
        self.assertIn("log float32 (12)", plan)
        self.assertIn("adata.X.tocsr()", text)

    def test_a_group(self):
        root = zarr.open_group(str(self.folder / "all.zarr"), mode="w", zarr_format=3)
        root.create_group("tables")
        kind_stores.anndata(self.folder / "all.zarr" / "tables" / "a b", 3, "csr_matrix")
        plan, text = self.write("all.zarr", "AnnData", "--set", "dataset.group=/tables/a b/")
        self.assertIn("X.offsets int64", plan)
        self.assertIn("  group: \"/tables/a b/\"\n", text)

    def test_replay(self):
        for with_action in True, False:
            kind_stores.replay(self.folder / "r.zarr", 2, with_action)
            plan, text = self.write("r.zarr", "replay buffer")
            predicted = "action float32 (16, 2)" if with_action else "robot0_eef_pos float32 (16, 3)"
            self.assertIn(predicted, plan)
            self.assertIn("camera0_rgb uint8 (2, 6, 6, 3)", plan)
            self.assertIn("at 76 of 90 frames, in 2 episodes", plan)
        # Pictures alone: nothing is predicted, and no step lies behind.
        shutil.rmtree(self.folder / "r.zarr" / "data" / "robot0_eef_pos")
        self.assertIn("at 90 of 90 frames", self.write("r.zarr", "replay buffer")[0])

    def test_xarray(self):
        for zarr_format in 2, 3:
            kind_stores.xarrays(self.folder / "x.zarr", zarr_format)
            plan, text = self.write("x.zarr", "xarray")
            self.assertIn("t2m float32 (4, 5), from int16 * 0.01 + 273.15", plan)
            self.assertNotIn("lat float", plan)
            (self.folder / "more.yaml").write_text(text.replace("  # constants", "  constants").replace("\n# samples", "\nsamples").replace("global_size: 16", "global_size: 4"))
            plan = self.good("plan", "-c", "more.yaml")
            self.assertIn("at 12 of 24 frames", plan)
        # What cf refuses is left out, with the reason.
        kind_stores.xarrays(self.folder / "y.zarr", 3, valid_min=0)
        plan, text = self.write("y.zarr", "xarray")
        self.assertIn("cf: true is refused: ", text)
        self.assertIn("valid_min", text)

    def test_arrays(self):
        kind_stores.arrays(self.folder / "p,1.zarr", 3)
        plan, text = self.write("p,1.zarr", "arrays")
        self.assertIn("text: {array: text, index: to_text}", text)
        self.assertIn("latents float32 (8)", plan)

    def test_lerobot(self):
        kind_stores.lerobot(self.folder / "robot")
        for more in (), ("--write", "run.yaml"):
            self.refuse(1, "it looks like a LeRobot dataset: 'penstock import lerobot'", "inspect", "robot", *more)
        self.assertFalse((self.folder / "run.yaml").exists())


    def test_spatialdata(self):
        for zarr_format in 2, 3:
            kind_stores.spatialdata(self.folder / "s.zarr", zarr_format)
            plan, text = self.write("s.zarr", "SpatialData")
            self.assertIn("images tissue; labels none. Points", " ".join(text.replace("# ", "").split()))
            self.assertIn("  group: tables/table\n", text)
            self.assertIn("X.offsets int64", plan)
            kind_stores.spatialdata(self.folder / "i.zarr", zarr_format, tables=False)
            self.assertIn("image uint8 (64, 64)", self.write("i.zarr", "SpatialData")[0])

    def test_ome(self):
        for zarr_format in 2, 3:
            kind_stores.ome(self.folder / "o.zarr", zarr_format)
            plan, text = self.write("o.zarr", "OME-Zarr")
            self.assertIn("image uint16 (2, 5, 32, 48)", plan)
            self.assertIn("cells int32 (5, 32, 48)", plan)
            self.assertIn("2: t 3, c 2, z 5 (1 micrometer), y 8 (2 micrometer), x 12 (2 micrometer)", text)
            # Large planes are cut, at the same place as labels.
            kind_stores.ome(self.folder / "large.zarr", zarr_format, shape=(1, 1, 2, 512, 520))
            plan, text = self.write("large.zarr", "OME-Zarr")
            self.assertEqual(text.count("crop: {y: 256, x: 256, at: random}"), 2)
            self.assertIn("cells int32 (1, 256, 256)", plan)
            kind_stores.plate(self.folder / "p.zarr", zarr_format)
            plan, text = self.write("p.zarr", "OME-Zarr images")
            self.assertIn("4 samples of", plan)
            self.assertIn("    - p.zarr/B/1/1\n", text)
            # Images of other sizes are no stores of one dataset.
            kind_stores.plate(self.folder / "q.zarr", zarr_format, (32, 48, 32, 32))
            plan, text = self.write("q.zarr", "OME-Zarr images")
            self.assertIn("1 sample of", plan)
            self.assertIn("  group: A/1/0\n", text)
            root = zarr.open_group(str(self.folder / "raw.zarr"), mode="w", zarr_format=zarr_format)
            kind_stores.attributes(root, **{"bioformats2raw.layout": 3})
            for series in "01":
                kind_stores.image(root.create_group(series), "zyx", kind_stores.np.ones((4, 16, 16), "u1"))
            self.assertIn("8 samples of", self.write("raw.zarr", "OME-Zarr images")[0])
            self.assertIn("4 samples of", self.write("raw.zarr", "OME-Zarr", "--set", "dataset.group=1")[0])


class Multiscale(Case):
    def plan(self, level, *arguments, store="o.zarr", groups=()):
        options = [f"dataset.uri={store}", f"dataset.multiscale={level}", "batch.global_size=1", "batch.last=partial", *arguments]
        return ["plan", *(f"--set={option}" for option in options)]

    def test_levels(self):
        for zarr_format in 2, 3:
            kind_stores.ome(self.folder / "o.zarr", zarr_format, paths=["full", "half", "quarter"])
            for level, sides in (("0", "32, 48"), ("2", "8, 12"), ("y=1", "16, 24"), ("x=1.3", "16, 24"), ("x=1.5", "8, 12"), ("y=1e9", "8, 12"), ("y=0.001", "32, 48")):
                plan = self.good(*self.plan(level))
                self.assertIn(f"cells int32 (5, {sides})", plan)
                self.assertIn(f"image uint16 (2, 5, {sides})", plan)
            # Names of axes go wherever axes do. An array stays an array.
            kind_stores.put(zarr.open_group(str(self.folder / "o.zarr"), zarr_format=zarr_format), "when", kind_stores.np.arange(1, 6))
            fields = ["dataset.sample_axis=z", "dataset.fields.i=/", "dataset.fields.i.slice.c=1", "dataset.fields.i.crop.y=4", "dataset.fields.i.crop.at=random",
                      "dataset.fields.n=labels/cells", "dataset.fields.n.slice.t=:2", "dataset.fields.when=when", "dataset.fields.when.sample_axis=0"]
            plan = self.good(*self.plan("1", *fields))
            for field in "i uint16 (3, 4, 24)", "n int32 (2, 16, 24)", "when int64", "5 samples":
                self.assertIn(field, plan)
            # Images of the store of a field, and in a group.
            kind_stores.put(zarr.open_group(str(self.folder / "x.zarr"), mode="w", zarr_format=zarr_format), "x", kind_stores.np.arange(1, 4))
            more = ["dataset.fields.x=x", "dataset.fields.i=labels/cells", f"dataset.fields.i.store={self.folder}/o.zarr"]
            self.assertIn("i int32 (5, 8, 12)", self.good(*self.plan("2", *more, store="x.zarr")))
            self.assertIn("image int32 (5, 16, 24)", self.good(*self.plan("1", "dataset.group=labels/cells")))

    def test_other_commands(self):
        """inspect and stats have the fields that a run has by default."""
        kind_stores.ome(self.folder / "o.zarr", 2)
        options = ["--set=dataset.multiscale=1", "--set=dataset.sample_axis=z"]
        told = self.good("inspect", "o.zarr", *options)
        self.assertIn("field image                uint16 [3, 2, 16, 24]", told)
        self.assertIn("next: penstock plan --set dataset.uri=o.zarr --set dataset.multiscale=1 --set dataset.sample_axis=z", told)
        for fields, names in (("image", {"image"}), ("cells", {"cells"}), (None, {"image", "cells"})):
            self.good("stats", "--set=dataset.uri=o.zarr", *options, "-o", f"stats-{fields}", "--quantiles", "none", *(["--fields", fields] if fields else []))
            self.assertEqual(set(zarr.open_group(str(self.folder / f"stats-{fields}"), mode="r").group_keys()), names)

    def test_refused(self):
        kind_stores.ome(self.folder / "o.zarr", 3)
        listed = "its levels are 0: t 3, c 2, z 5 (1 micrometer), y 32 (0.5 micrometer), x 48 (0.5 micrometer); 1: t 3,"
        for level in "3", "999999999", "q=1":
            self.refuse(1, f"'o.zarr': dataset.multiscale: image '/' has no level '{level}'; {listed}", *self.plan(level))
        self.refuse(1, f"field 'a': dataset.multiscale: image 'labels/cells' has no level '7'; its levels are 0: t 3, z 5",
                    *self.plan("7", "dataset.fields.a=labels/cells"))
        for level in "one", "-1", "y=", "y=0", "y=nan", "=1", "y=1x", "1.0", "99999999999":
            self.refuse(4, f"dataset.multiscale '{level}' is neither the number of a level (0) nor a scale along an axis (y=0.5)", *self.plan(level))
        self.refuse(1, "'labels' is no image of OME-Zarr, whose attribute multiscales lists levels: its images are its groups", *self.plan("0", "dataset.group=labels"))
        self.refuse(1, "'nope' is no image of OME-Zarr", *self.plan("0", "dataset.fields.a=nope"))
        self.refuse(1, "there is no array 'nope'", *self.plan("0", "dataset.fields.a=nope", "dataset.fields.b=/"))
        self.refuse(4, "remove it, and leave unwanted fields out of dataset.fields", *self.plan("0", "dataset.exclude=cells"))
        kind_stores.plate(self.folder / "p.zarr", 3)
        self.refuse(1, "it is a plate: its images are WELL/FIELD, such as A/1/0", *self.plan("0", store="p.zarr"))
        self.refuse(1, "it is a well: its images are its fields", *self.plan("0", "dataset.group=A/1", store="p.zarr"))

    def test_bad_attributes(self):
        path = self.folder / "o.zarr"
        kind_stores.ome(path, 2, labels=())
        group = zarr.open_group(str(path), zarr_format=2)
        good = kind_stores.multiscale("tczyx", [[1.0] * 5], ["0"])[0]

        def refuse(message, **changes):
            kind_stores.attributes(group, multiscales=[{**good, **changes}])
            self.refuse(4 if "levels" in message or "axes" in message or "path" in message else 1, message, *self.plan("0"))
            self.assertEqual(self.tool("inspect", "o.zarr").returncode, 0)

        refuse("group '/', attribute multiscales has 0 levels: 1 to 32 are read", datasets=[])
        refuse("attribute multiscales has 0 levels", datasets=None)
        refuse("attribute multiscales: level 0 has no path", datasets=[5])
        refuse("attribute multiscales has 9 axes: 1 to 8 are read", axes=[{"name": "a"}] * 9)
        refuse("attribute '../x' is not a path", datasets=[{"path": "../x"}])
        refuse("attribute multiscales: the path of level 0 is not valid", datasets=[{"path": "0\n"}])
        refuse("attribute multiscales: the path of level 0 is not valid", datasets=[{"path": "x" * 600}])
        refuse("array '0' has 5 axes, and the attribute multiscales of its image names 3", axes=["z", "y", "x"])
        refuse("there is no array 'gone'", datasets=[{"path": "gone"}])
        # Axes of 0.3 are names; before there were none, and scales say nothing.
        for axes in ["t", "c", "z", "y", "x"], None, [{"name": "t"}, {}, 7, {"name": "y" * 99}, {"name": "x", "unit": 3}]:
            kind_stores.attributes(group, multiscales=[{"axes": axes, "datasets": [{"path": "0"}]}])
            self.good(*self.plan("0", "dataset.sample_axis=t"))
        self.refuse(1, "has no level 'x=1'", *self.plan("x=1"))
        # The image's names count, whatever its arrays have.
        group["0"].attrs["_ARRAY_DIMENSIONS"] = ["dim_0", "dim_1", "z", "y", "t"]
        kind_stores.attributes(group, multiscales=[good])
        self.assertIn("3 samples of", self.good(*self.plan("0", "dataset.sample_axis=t")))
        kind_stores.attributes(group, multiscales=[{"axes": [{"name": "t"}, {}, {}, {}, {"name": "x"}], "datasets": [{"path": "0"}]}])
        self.assertIn("5 samples of", self.good(*self.plan("0", "dataset.sample_axis=z")))
        # Names of labels lead nowhere else, and are no longer than those of fields.
        inside = group.create_group("labels")
        kind_stores.image(inside.create_group("n" * 70), "tczyx", kind_stores.np.ones((3, 2, 5, 4, 4), "u1"), 1)
        kind_stores.attributes(inside, labels=["n" * 70])
        self.refuse(4, "has 70 bytes; the limit is 63", *self.plan("0"))
        for name in "../../x", "..", "a//b":
            kind_stores.attributes(inside, labels=[name])
            self.refuse(4, f"'labels/{name}' is not a path", *self.plan("0"))
            self.assertNotIn(f"labels/{name}", self.write("o.zarr", "OME-Zarr")[1])
        kind_stores.attributes(group, multiscales="no")
        self.refuse(1, "'/' is no image of OME-Zarr", *self.plan("0"))


class Files(Case):
    def test_other_folders(self):
        """A relative uri is that of the current folder, wherever the file is."""
        kind_stores.arrays(self.folder / "p.zarr", 3)
        (self.folder / "conf").mkdir()
        (self.folder / "-x.yaml").touch()
        for path in "conf/run.yaml", "./run.yaml", str(self.folder / "whole.yaml"):
            self.good("inspect", "p.zarr", "--write", path)
            self.assertIn("20 samples", self.good("plan", "-c", path))

    def test_no_file_is_replaced(self):
        kind_stores.arrays(self.folder / "p.zarr", 3)
        path = self.folder / "run.yaml"
        path.write_text("mine")
        self.refuse(4, "'run.yaml' is there already", "inspect", "p.zarr", "--write", "run.yaml")
        self.assertEqual(path.read_text(), "mine")
        self.refuse(1, "'no/run.yaml': No such file or directory", "inspect", "p.zarr", "--write", "no/run.yaml")

    def test_settings(self):
        kind_stores.arrays(self.folder / "p.zarr", 3)
        _, text = self.write("p.zarr", "arrays", "--set", "store.retries=5", "--set", "store.ca_file=/a b")
        self.assertIn("store:\n  retries: \"5\"\n  ca_file: \"/a b\"\n", text)
        self.refuse(4, "leave out --set order.seed=3", "inspect", "p.zarr", "--write", "run.yaml", "--set", "order.seed=3")
        (self.folder / "mine.yaml").write_text("dataset: {uri: p.zarr}")
        self.refuse(4, "'mine.yaml' is one", "inspect", "p.zarr", "--write", "run.yaml", "-c", "mine.yaml")

    def test_nothing_known(self):
        for number, name in enumerate(("empty", "group.zarr", "mixed.zarr")):
            (self.folder / name).mkdir()
        zarr.open_group(str(self.folder / "group.zarr"), mode="w", zarr_format=3)
        group = zarr.open_group(str(self.folder / "mixed.zarr"), mode="w", zarr_format=3)
        kind_stores.put(group, "a", kind_stores.np.ones((4, 6), "f4"))
        kind_stores.put(group, "b", kind_stores.np.ones((6, 4), "f4"))
        write = ("--write", "run.yaml")
        self.refuse(1, "'nowhere'", "inspect", "nowhere", *write)
        self.refuse(1, "'empty': no Zarr array or group there", "inspect", "empty", *write)
        self.refuse(4, "--write: 'group.zarr': there are no arrays with samples", "inspect", "group.zarr", *write)
        self.refuse(4, "--write: 'mixed.zarr': which arrays hold the samples is ambiguous", "inspect", "mixed.zarr", *write)
        report = json.loads(self.good("inspect", "group.zarr", "--json"))
        self.assertIsNone(report["kind"])
        # Recognised, but what is in it cannot be read.
        kind_stores.anndata(self.folder / "bad.zarr", 2, "dense")
        path = self.folder / "bad.zarr" / "X" / ".zarray"
        path.write_text(path.read_text().replace('"<f4"', '"<f5"'))
        self.assertNotIn("\n    X: ", self.write("bad.zarr", "AnnData")[1])
        (self.folder / "bad.zarr" / ".zattrs").write_text("{")
        self.assertEqual(self.tool("inspect", "bad.zarr").returncode, 0)
        self.assertFalse((self.folder / "run.yaml").exists())


def main():
    global PENSTOCK
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    options, rest = parser.parse_known_args()
    PENSTOCK = os.path.abspath(options.penstock)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
