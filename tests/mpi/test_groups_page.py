"""docs/use/groups.md as it stands: its configuration, program and commands, and what else the page says of a program."""

import importlib.util
import os
import re
import sys
import unittest

import page
from job import JobTest

if not importlib.util.find_spec("numpy"):
    print(f"skipped: {sys.executable} has no numpy")
    sys.exit(77)

WEATHER = """# weather.yaml
dataset:
  uri: weather.zarr
  constants: [latitude]
  cuts: {{lat: {{over: sp, split: {split}}}, lon: {{over: tp}}}}
  fields:
    x: {{array: data, steps: [0], {cut}}}
batch: {{global_size: 4}}
delivery: {{trainers: 8, mesh: [dp: 1, sp: 4, tp: 2], data: [dp]}}
"""
LATITUDES = """# latitudes.py
import penstock

with penstock.connect() as loader:
    field, = loader.info.fields
    for batch in next(iter(loader.epochs())):
        try:
            batch["x"] += 1
            wrote = batch["x"].size > 0
        except ValueError:
            wrote = False
        batch.copy_out()
        batch["x"] += 1
    with open(f"rank.{loader.info.rank}", "w") as file:
        print(batch["x"].shape, LATITUDES.tolist(), wrote, file=file)
"""
COORDINATES = """# coordinates.py
import os
import penstock

rank = int(os.environ["RANK"])
with CONNECT as loader:
    print(f"is {loader.info.rank}", flush=True)
    for epoch in loader.epochs():
        for batch in epoch:
            pass
"""


class Page(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = page.read_page("groups.md")

    def follow(self, files, command):
        return page.follow(self, "".join(f"```x\n{text}```\n" for text in files) + f"```sh\n{command}\n```\n", self.folder)

    def snippet(self, pattern):
        """Words of the page."""
        return re.search(pattern, self.page)[0]

    def test_program(self):
        output = page.follow(self, self.page, self.folder)
        found = re.findall(r"(\w+) {'pp': (\d), 'dp': (\d), 'cp': (\d)}: \(512,\) of \(1024,\), \[ *(\d+) +(\d+)\]", output)
        ends = {"0": ("0", "1023"), "1": ("256", "767")}
        self.assertEqual(sorted(found), sorted((name, pp, dp, cp, *ends[cp]) for name, pp in (("tokens", "0"), ("labels", "1"))
                                               for dp in "01" for cp in "01"), output)
        self.assertIn("rank 1 is pp 0, dp 0, cp 1", self.page)

    def test_space(self):
        """A cut along two axes, given by names; the splits of the page's table; constants; and who may write."""
        cut, line = self.snippet(r"cut: {latitude[^}]*}"), self.snippet(r'loader\.constants\["latitude"\][^`]*')
        latitudes = LATITUDES.replace("LATITUDES", line)
        for split, sizes in (("even", (2, 1, 1, 1)), ("chunk", (2, 2, 1, 0)), (self.snippet(r"\[1, 1, 1, 2\]"), (1, 1, 1, 2))):
            with self.subTest(split=split):
                self.follow((WEATHER.format(split=split, cut=cut), latitudes),
                            "penstock synth weather.zarr --layout weather --samples 8 --shape 3,5,6 --overwrite\n"
                            "penstock-run -q -c weather.yaml -- python3 latitudes.py")
                whole = [72.0, 36.0, 0.0, -36.0, -72.0]
                for rank in range(8):
                    count, first = sizes[rank // 2], sum(sizes[:rank // 2])
                    with open(os.path.join(self.folder, f"rank.{rank}"), encoding="utf-8") as file:
                        self.assertEqual(file.read(), f"(4, 1, 3, {count}, 3) {whole[first:first + count]} False\n")

    def test_coordinates(self):
        """A program whose second axis is the fastest."""
        run_yaml = re.search(r"^```yaml\n(.*?)^```$", self.page, re.MULTILINE | re.DOTALL)[1]
        call = self.snippet(r"penstock\.connect\(coordinates=[^`]*\)")
        told = call.replace('"pp": 0, "dp": 1, "cp": 0', '"pp": rank // 4, "dp": rank % 2, "cp": rank // 2 % 2')
        self.assertNotEqual(told, call)
        program = COORDINATES.replace("CONNECT", told)
        output = self.follow((run_yaml, program), "penstock synth tokens.zarr --layout tokens --samples 100001\n"
                             "penstock-run -q -c run.yaml -- python3 coordinates.py")
        self.assertEqual(sorted(re.findall(r"is (\d)", output)), list("01234567"), output)

    def test_picture(self):
        """It shows what its program draws."""
        pictures = os.path.join(page.ROOT, "docs", "pictures")
        spec = importlib.util.spec_from_file_location("groups_picture", os.path.join(pictures, "groups.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with open(os.path.join(pictures, "groups.svg"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "\n".join(module.draw()) + "\n")


if __name__ == "__main__":
    unittest.main()
