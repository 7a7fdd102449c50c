"""structure.includes, structure.calls, structure.graph, structure.words and structure.dialect refuse what they are there to refuse: small trees that are wrong in one way each.

    python refusals.py NM COMPILER
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import calls
import dialect
import graph
import includes
import retired
import tree
import words

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
    "docs/inside/design.md": TABLE,
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
        self.write("src/store/zip/zip.c", '#include "base/text.h"\n#include "client/array.h"\n')
        wrong, _ = includes.check(self.root)
        self.assertIn('store is not listed with client in docs/inside/design.md: src/store/zip/zip.c includes "src/client/array.h"', wrong)

    def test_trainer_that_knows_more_than_the_public_header(self):
        self.write("src/client/tool/main.c", '#include "base/text.h"\n')
        self.refused("client/tool is not listed with base", "src/client/tool/main.c")

    def test_arrow_that_is_listed_and_not_there(self):
        self.write("docs/inside/design.md", TABLE.replace("| the program | client |", "| the program | client store |"))
        self.refused("mpi with store", "includes nothing")

    def test_folder_that_is_not_listed(self):
        self.write("src/more/more.c", "")
        self.refused("more")

    def test_folder_that_is_gone(self):
        self.write("docs/inside/design.md", TABLE.replace("| mpi/ |", "| codec | packing | |\n| mpi/ |"))
        self.refused("codec")

    def test_header_that_is_not_there(self):
        self.write("src/store/store.c", '#include "store/gone.h"\n')
        self.refused("src/store/store.c", "store/gone.h")

    def test_circle_of_files_of_different_folders(self):
        self.write("docs/inside/design.md", TABLE.replace("| base | text ([how](a.md)), and `sizes` | |", "| base | text | store |"))
        self.write("src/base/text.c", '#include "store/store.h"\n')
        wrong, _ = includes.check(self.root)
        self.assertEqual(["docs/inside/design.md lists a circle: base, store",
                          "files of different folders include each other: base/text, store/store"], wrong)

    def rooms(self, *names):
        self.write("src/store/README.md", "# store\n\n| room | what is in it |\n|---|---|\n" +
                   "".join(f"| {name} | of stores |\n" for name in names))
        self.write("src/store/zip/zip.c", '#include "store/disk/disk.h"\n#include "store/store.h"\n#include "base/text.h"\n')
        self.write("src/store/disk/disk.h", "")

    def test_rooms(self):
        self.rooms(".", "zip", "disk")
        self.assertEqual([], includes.check(self.root)[0])

    def test_room_that_includes_one_above_it(self):
        self.rooms(".", "disk", "zip")
        self.refused("in store, zip is below disk", "src/store/zip/zip.c")

    def test_room_that_is_not_listed(self):
        self.rooms(".", "zip")
        self.refused("README.md of store", "disk")

    def test_circle_within_a_folder_is_its_own_affair(self):
        self.write("src/store/zip.h", '#include "store/store.h"\n')
        self.write("src/store/store.c", '#include "store/zip.h"\n')
        self.assertEqual([], includes.check(self.root)[0])


class Graph(MadeUp):
    def test_picture_of_another_tree(self):
        old = graph.folders(self.root)
        self.assertEqual([], graph.outdated(old, graph.folders(self.root)))
        self.write("src/store/zip/zip.c", '#include "client/array.h"\n')
        self.write("src/more/more.c", "")
        self.write("src/client/array.h", "")
        wrong = "\n".join(graph.outdated(old, graph.folders(self.root)))
        for word in ("lacks: more", "lacks: store includes client", "no more: client includes store", "--target graph"):
            self.assertIn(word, wrong)

    def test_same_sources_same_pictures(self):
        pictures = []
        for seed in ("1", "2", "3"):
            subprocess.run([sys.executable, "-B", graph.__file__, self.root], env=os.environ | {"PYTHONHASHSEED": seed},
                           stdout=subprocess.DEVNULL, check=True)
            folder = self.root / "docs" / "inside" / "architecture"
            pictures.append([(folder / name).read_text(encoding="utf-8") for name in ("folders.svg", "rooms.svg", "files.svg")])
        self.assertEqual(pictures[0], pictures[1])
        self.assertEqual(pictures[0], pictures[2])

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

    def test_rooms_down_and_up(self):
        self.write("src/store/README.md", "| room | what is in it |\n|---|---|\n| . | all |\n| zip | one |\n")
        self.write("src/store/zip/zip.c", "int store_get(void); int zip_get(void) { return store_get(); }\n")
        self.assertIn("in store, zip uses ., which is above it: store_get", self.compiled("src/store/store.c", "src/store/zip/zip.c")[0])

    def test_object_of_a_source_that_is_gone(self):
        self.write("src/base/old.c", "int store_get(void); int old(void) { return store_get(); }\n")
        self.compiled("src/base/text.c", "src/store/store.c", "src/base/old.c")
        (self.root / "src/base/old.c").unlink()
        self.assertNotIn("base uses store", "".join(calls.check(self.root, self.root / "build", NM)[0]))


WORDS = """# Design

## Words

| word | meaning | in the code |
|---|---|---|
| text | characters | `struct text`, `text.length`, `text_bytes()` |
| ring, slot | shared memory, and a part of it | `RING_SLOTS`, `enum ring_state`, `ring.slots` |

## Rules
"""
WORDS_FILES = {
    "docs/inside/words.md": WORDS,
    "src/base/text.h": "struct text {\n    char *data, *other;\n    int length;\n};\nint text_bytes(const struct text *text);\n",
    "src/client/ring.c": "enum ring_state { RING_FULL };\nenum { RING_SLOTS = 4 };\n",
    "src/config/config.h": '#define TABLE(X) \\\n    X("ring.slots", slots)\n',
}
# What each row of names was, before it had a word of its own, and where.
OLD = {
    "src/read/fetch_stage.c": ("int32_t slot;", "held_rows"),
    "src/store/http/http_pace.h": ("uint32_t window; /* requests */", "/* the window grows */"),
    "src/plan/rounds/round.h": ("uint32_t parts_per_step;",),
    "src/store/store.h": ("store_get_part()", "store_part()", "PLAN_MAX_PARTS"),
    "src/codec/codec.h": ("codec_decode_part(chain)",),
    "src/zarr/chunk/chunk.h": ("zarr_part_stored_bytes()", "struct chunk_part {", "uint64_t first_place;"),
    "src/dataset/dataset.h": ("struct field_part {", "struct row_cursor {", "part_samples"),
    "src/config/config.c": ("config_field_parts",),
    "src/plan/order/plan.h": ("struct plan_place {", "plan_seat_of()", "struct plan_share {", "plan_slot_samples()"),
    "src/topology/topology.h": ("placement_share", "topology_home()", "uint32_t domain_count;", "/* a NUMA\n * domain */"),
    "src/delivery/client/loader.h": ("session_open()", "struct session;", "loader_place()", "struct link *link;", "struct tenant", "struct use",
                            "message_hello", "MESSAGE_FAIL", "all_held", "kept", "/* in place of it */", "kept_place_note()"),
    "src/delivery/server/server.h": ("server_trainer_place()", "struct place_page page;"),
    "mpi/rounds/exchange.h": ("exchange_in_place", "ROUND_IN_PLACE_BYTES"),
    "mpi/windows/span.h": ("struct span_place {",),
    "mpi/rounds/pace.c": ("struct report {", "take_reports()"),
    "mpi/loop/stop.h": ("stop_report_error()", "enum report_kind {"),
    "mpi/ranks/masks.c": ("bad_report_add()", "struct message {"),
    "mpi/loop/service.h": ("struct service_report {",),
    "src/cli/inspect/inspect.h": ("struct report {",),
    "docs/run/reliability.md": ("`PENSTOCK_PLACES`", "rank 0's directory", "NUMA domains"),
    "tests/mpi/test_random.py": ("# the directory of kept rows", "plan_share = 1"),
}


class Words(MadeUp):
    def setUp(self):
        super().setUp()
        for name, text in WORDS_FILES.items():
            self.write(name, text)
        self.retired = [retired.Word("old word", "new"), retired.Name("old_name", "new", only=r"^src/")]

    def wrong(self):
        return words.check(self.root, self.retired)[0]

    def refused(self, *parts):
        wrong = self.wrong()
        self.assertEqual(1, len(wrong), wrong)
        for part in parts:
            self.assertIn(part, wrong[0])

    def test_as_it_should_be(self):
        self.assertEqual(([], 2), words.check(self.root, self.retired))

    def test_name_that_is_not_defined(self):
        for name in ("struct text", "text.length", "text_bytes()", "RING_SLOTS", "enum ring_state", "ring.slots"):
            self.write("docs/inside/words.md", WORDS.replace(f"`{name}`", f"`{name.replace('t', 'tt').replace('r', 'rr').replace('R', 'RR')}`"))
            self.refused("do not define")

    def test_name_that_is_only_called(self):
        self.write("src/base/text.h", "struct text {\n    int length;\n};\nint f(void) {\n    text_bytes();\n}\n")
        self.refused("`text_bytes()`")

    def test_word_that_is_there_twice(self):
        self.write("docs/inside/words.md", WORDS.replace("| ring, slot |", "| ring, text |"))
        self.refused("'text' twice")

    def test_word_without_a_name(self):
        self.write("docs/inside/words.md", WORDS.replace("| `RING_SLOTS`, `enum ring_state`, `ring.slots` |", "| nowhere |"))
        self.refused("'ring' has no name")

    def test_word_without_a_meaning(self):
        self.write("docs/inside/words.md", WORDS.replace("| characters |", "|  |"))
        self.refused("nothing of 'text'")

    def test_word_that_is_not_used(self):
        for name, text in (("docs/a.md", "two\nold\nwords"), ("src/base/text.c", "/* an\n * old\n * word */"), ("README.md", "Old words"),
                           ("tests/unit/test_text.c", "/* old word */"), ("src/base/text.c", "int old_name;")):
            self.write(name, text)
            self.refused(name + ":", "is not used: new")
            self.write(name, "")

    def test_name_that_is_a_word_elsewhere(self):
        self.write("src/base/text.c", '/* old_name */ const char *text = "old_name";\n')
        self.write("tests/unit/test_text.c", "int old_name;\n")
        self.write("docs/a.md", "old_name, coldwords")
        self.assertEqual([], self.wrong())

    def test_exception(self):
        self.retired = [retired.Word("old word", "new", but={r"^docs/a": "its own"})]
        self.write("docs/a.md", "old word")
        self.assertEqual([], self.wrong())
        self.write("docs/b.md", "old word")
        self.refused("docs/b.md:1:")

    def test_exception_that_nothing_needs(self):
        self.retired = [retired.Word("old word", "new", but={r"^docs/a": "its own"})]
        self.refused("nothing in ^docs/a")

    def test_every_name_of_before(self):
        for path, names in OLD.items():
            for name in names:
                wrong = [line for line in words.wrong_words({path: name + "\n"}, retired.WORDS) if "is not used" in line]
                self.assertTrue(wrong, f"{path}: {name}")


HEADER = """enum status get(int key);
struct link {
    enum status last;

    int fd;
};
"""
FUNCTION = """static int use(struct link *link)
{
%s
    return 0;
}
"""
# What is refused in a function's body, and what stands there instead.
REFUSED = {
    "    enum status status = get(1);\n    if (status)\n        return 1;":
        "    enum status status = get(1);\n    if (status != STATUS_OK)\n        return 1;",
    "    enum status a = get(1), b = get(2);\n    return !a && b;":
        "    enum status a = get(1), b = get(2);\n    return a == STATUS_OK && b != STATUS_OK;",
    "    while (get(1) || link->fd)\n        link++;":
        "    while (get(1) != STATUS_OK || link->fd)\n        link++;",
    "    return !link[1].last == (link->fd > 0);":
        "    return (link[1].last == STATUS_OK) == (link->fd > 0);",
    "    return link->last ? \"\" : \"it\";":
        "    return link->last != STATUS_OK ? \"\" : \"it\";",
    "    enum status status;\n    if ((status = get(1)))\n        link++;":
        "    enum status status;\n    if ((status = get(1)) != STATUS_OK)\n        link++;",
    "    enum penstock_status got = 0;\n    for (; !got;)\n        got = 1;":
        "    enum penstock_status got = 0;\n    for (; got == PENSTOCK_OK;)\n        got = 1;",
    "    int a = 1; /* one */\n\n    const char *b[] = {\n        \"two\",\n    };\n\n    use(b);":
        "    int a = 1; /* one */\n    const char *b[] = {\n        \"two\",\n    };\n    use(b);",
    "    for (;;) {\n        struct link *next = link + 1;\n\n        use(next);\n    }":
        "    for (;;) {\n        struct link *next = link + 1;\n        use(next);\n    }",
}
ALLOWED = (
    "    enum status status = get(1);\n    (void)!get(2);\n    return status == STATUS_OK && use(status) && (int)status == 1 && status != get(3);",
    "    FILE *status = fopen(link, \"r\");\n    if (status)\n        return !link->answer.status;",
    "    int a = 1;\n    use(a);\n\n    int b = 2;\n    /* if (!status) */",
    "#define GET(key) \\\n    if (get(key)) \\\n        return 1",
)


class Dialect(MadeUp):
    def written(self, body):
        self.write("src/base/text.h", HEADER)
        self.write("src/base/text.c", FUNCTION % body)
        return dialect.check(self.root)[0]

    def test_what_is_refused_and_rewritten(self):
        for before, after in REFUSED.items():
            wrong = self.written(before)
            self.assertTrue(wrong and all(line.startswith("src/base/text.c:") for line in wrong), (before, wrong))
            self.assertEqual([self.root / "src/base/text.c"], [*dialect.rewrite(self.root)])
            self.assertEqual(FUNCTION % after, (self.root / "src/base/text.c").read_text(encoding="utf-8"))
            self.assertEqual([], dialect.check(self.root)[0])

    def test_line(self):
        self.assertEqual(["src/base/text.c:4: 'status' is a status: compare it", "src/base/text.c:5: a blank line behind declarations"],
                         self.written("    int all = 3;\n    enum status status = 0, other = status ? 1 : 2;\n\n    return 2;"))

    def test_what_is_allowed(self):
        for body in ALLOWED:
            self.assertEqual([], self.written(body), body)


if __name__ == "__main__":
    NM, COMPILER = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
