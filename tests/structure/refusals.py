"""structure.includes, structure.calls and structure.graph refuse what they are there to refuse: small trees that are wrong in one way each.

    python refusals.py NM COMPILER
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import calls
import graph
import includes
import tree

TABLE = """# Design

## Folders

| folder | what | uses |
|---|---|---|
| base | text ([how](a.md)), and `sizes` | |
| store | bytes by key | base |
| client | chunks | base store |
| client/tool | knows penstock.h alone | |
| mpi/ | the program | client |

## Another

| folder | what | uses |
| other | is no folder | base |
"""
FILES = {
    "docs/design.md": TABLE,
    "src/include/penstock.h": "",
    "src/base/text.h": "",
    "src/base/text.c": '#include "base/text.h"\nint text_size(void) { return 1; }\n',
    "src/store/store.h": '#include "base/text.h"\n',
    "src/store/store.c": '#include "store/store.h"\nint text_size(void); int store_get(void) { return text_size(); }\n',
    "src/client/array.h": '  #  include "store/store.h"\n',
    "src/client/array.c": '#include "client/array.h"\n#include "base/text.h"\n#include "penstock.h"\n',
    "src/client/tool/main.c": '#include "penstock.h"\n#include "tool/part.h"\n',
    "src/client/tool/part.h": "",
    "mpi/main.c": '#include "client/array.h"\n#include "near.h"\n',
    "mpi/near.h": "",
}


class MadeUp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def refused(self, *words):
        wrong, _ = includes.check(self.root)
        self.assertEqual(1, len(wrong), wrong)
        for word in words:
            self.assertIn(word, wrong[0])


class Includes(MadeUp):
    def test_as_it_should_be(self):
        self.assertEqual(([], 4), includes.check(self.root))
        self.assertEqual("text, and sizes", tree.described(self.root)["base"])

    def test_arrow_that_is_not_listed(self):
        self.write("src/store/zip.c", '#include "base/text.h"\n#include "client/array.h"\n')
        wrong, _ = includes.check(self.root)
        self.assertIn('store is not listed with client in docs/design.md: src/store/zip.c includes "src/client/array.h"', wrong)

    def test_trainer_that_knows_more_than_the_public_header(self):
        self.write("src/client/tool/main.c", '#include "base/text.h"\n')
        self.refused("client/tool is not listed with base", "src/client/tool/main.c")

    def test_arrow_that_is_listed_and_not_there(self):
        self.write("docs/design.md", TABLE.replace("| the program | client |", "| the program | client store |"))
        self.refused("mpi with store", "includes nothing")

    def test_folder_that_is_not_listed(self):
        self.write("src/more/more.c", "")
        self.refused("more")

    def test_folder_that_is_gone(self):
        self.write("docs/design.md", TABLE.replace("| mpi/ |", "| codec | packing | |\n| mpi/ |"))
        self.refused("codec")

    def test_header_that_is_not_there(self):
        self.write("src/store/store.c", '#include "store/gone.h"\n')
        self.refused("src/store/store.c", "store/gone.h")

    def test_circle_of_files_of_different_folders(self):
        self.write("docs/design.md", TABLE.replace("| base | text ([how](a.md)), and `sizes` | |", "| base | text | store |"))
        self.write("src/base/text.c", '#include "store/store.h"\n')
        wrong, _ = includes.check(self.root)
        self.assertEqual(["docs/design.md lists a circle: base, store",
                          "files of different folders include each other: base/text, store/store"], wrong)

    def test_circle_within_a_folder_is_its_own_affair(self):
        self.write("src/store/zip.h", '#include "store/store.h"\n')
        self.write("src/store/store.c", '#include "store/zip.h"\n')
        self.assertEqual([], includes.check(self.root)[0])


class Graph(MadeUp):
    def test_picture_of_another_tree(self):
        old = graph.folders(self.root)
        self.assertEqual([], graph.outdated(old, graph.folders(self.root)))
        self.write("src/store/zip.c", '#include "client/array.h"\n')
        self.write("src/more/more.c", "")
        self.write("docs/design.md", TABLE.replace("| mpi/ |", "| more | it | store |\n| mpi/ |").replace("base store", "base"))
        self.write("src/client/array.h", "")
        wrong = "\n".join(graph.outdated(old, graph.folders(self.root)))
        for word in ("lacks: more", "lacks: store includes client", "no more: client includes store", "--target graph"):
            self.assertIn(word, wrong)

    def test_boxes_do_not_overlap(self):
        arrows = {name: set("abcdefgh"[index + 1:]) for index, name in enumerate("abcdefgh")} | {"x": {"h"}, "y": {"x", "a"}}
        _, _, _, corners = graph.drawn(arrows, lambda node: (50, 20), 5, 30)
        for one, (x, y) in corners.items():
            for two, (left, top) in corners.items():
                self.assertTrue(one == two or y != top or abs(x - left) >= 55, (one, two))
                self.assertTrue(two not in arrows[one] or y < top, (one, two))


class Calls(MadeUp):
    def compiled(self, *paths):
        """Objects where a build has them, and what calls.wrong() says of them."""
        for name in paths:
            target = self.root / "build" / pathlib.Path(name).parent / "CMakeFiles/x.dir" / f"{pathlib.Path(name).name}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([COMPILER, "-c", self.root / name, f"-I{self.root / 'src'}", "-o", target], check=True)
        return calls.check(self.root, self.root / "build", NM)

    def test_down_and_up(self):
        self.assertIn("no objects of mpi", self.compiled("src/base/text.c", "src/store/store.c")[0])
        self.assertEqual(1, calls.check(self.root, self.root / "build", NM)[1])
        self.write("src/base/text.c", "int store_get(void); int text_size(void) { return store_get(); }\n")
        self.assertIn("base uses store, which it is not listed with: store_get", self.compiled("src/base/text.c")[0])

    def test_object_of_a_source_that_is_gone(self):
        self.write("src/base/old.c", "int store_get(void); int old(void) { return store_get(); }\n")
        self.compiled("src/base/text.c", "src/store/store.c", "src/base/old.c")
        (self.root / "src/base/old.c").unlink()
        self.assertNotIn("base uses store", "".join(calls.check(self.root, self.root / "build", NM)[0]))


if __name__ == "__main__":
    NM, COMPILER = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
