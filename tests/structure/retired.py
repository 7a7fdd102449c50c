"""Words that Penstock does not use, and what it says instead. structure.words finds them.

A word is retired where it had two meanings, or another one than the reader's field gives it. The table of words that are
used is in docs/inside/words.md.
"""

import re


class Word:
    """A word in names and in prose: "domain" is in domain_count, domains and "NUMA domains".

    `only` is a pattern of the paths that are looked at, where the word has its meaning elsewhere. `but` are patterns of
    paths where the word has another, foreign meaning, with that meaning.
    """

    def __init__(self, word, instead, only="", but=None):
        self.word, self.instead, self.only, self.but = word, instead, only, but or {}

    def pattern(self):
        return re.compile(rf"(?<![A-Za-z]){self.word.replace(' ', SPACE)}s?(?![A-Za-z])", re.IGNORECASE)

    def text_of(self, path, text):
        return text


class Name(Word):
    """A name in C and Python, by a regular expression of all of it. Comments and strings are not looked at."""

    def pattern(self):
        return re.compile(rf"\b(?:{self.word})\b")

    def text_of(self, path, text):
        if path.endswith((".c", ".h")):
            return COMMENTS_AND_STRINGS.sub(blank, text)
        return text if path.endswith(".py") else ""


SPACE = r"[\s*#/]+"
COMMENTS_AND_STRINGS = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def part(word):
    """Names of which it is a part: slot_count, ret_slot, MOST_SLOTS."""
    return rf"(?:\w+_)?(?i:{word}s?)(?:_\w+)?"


WORDS = (
    # A slot is a trainer's.
    Word("slot", "window row, fetch buffer, call, line, entry or bucket; a slot is what a trainer's ring has",
         only=r"^src/(base|codec|dataset|read|store|scan|workshop/making|topology|zarr)/|^mpi/(windows/windows|rounds/pace|ranks/masks|loop/stop)",
         but={r"^src/base/counters\.h$": "a trainer's, in what metrics say"}),
    Name(r"plan_slot\w*|table_slot\w*|window_slots?", "window_row, table_entry"),

    # Parts of a step, of a chunk, of a dataset.
    Name(r"parts_per_step|part_of_step", "stripes_per_step"),
    Name(r"(?:store|codec|zarr)_\w*parts?|zarr_part_\w+|(?:\w+_)?(?:get|decode|field|chunk|store)_parts?|part_(?:samples|rows)|\w*MAX_PARTS",
         "range (of a value), partial (decode), store (one of several), property (of a field)", only=r"^(?:src|mpi|tests/unit)/"),

    # A window is rows.
    Word("window", "concurrency limit; a window is rows that are shuffled together", only=r"^src/store/",
         but={r"^src/store/(remote|credentials)/azure\.|^src/store/(uri\.c|store\.h)$": "a part of Azure's hosts, core.windows.net"}),
    Name(r"SEND_WINDOW", "messages under way"),

    # Places.
    Name(part("place"), "cursor (of a trainer), location (in a window), row position, extent, placement, index", only=r"^(?:src|mpi)/",
         but={r"^mpi/": "MPI_IN_PLACE"}),
    Word("plan_place", "plan_location"),
    Word("plan_seat", "plan_recipient"),
    Word("kept_place", "cursor_file"),
    Word("place_page", "cursor_page"),
    Name(r"(?:session|loader|server_trainer|job|end|given|stop|released)_place", "..._cursor"),
    Word("PENSTOCK_PLACE", "PENSTOCK_CURSORS"),
    Word("span_place", "span_index"),
    Word("zip_place", "zip_extent"),
    Word("in place of", "instead of"),
    Name(r"exchange_in_place|\w*_IN_PLACE_BYTES", "exchange_zero_copy"),
    Name(r"row_cursor|cursor_seek", "row_walk: a cursor is where a trainer goes on"),

    # A report is what --report writes.
    Name(r"stop_report\w*|report_kind", "stop_event"),
    Name(r"bad_report\w*", "bad_list"),
    Name(r"service_report", "service_summary"),
    Name(part("report"), "pace_sample, stop_event, inspection, bad_list", only=r"^src/(?:plan|run|read|dataset)/|^src/cli/inspect|^mpi/(?:rounds/pace|loop/stop|ranks/masks)"),

    # A session is a stretch of delivery; a trainer has a loader.
    Name(r"session_(?:open|next|release|close|leave|fail|place|header|batch)|struct session", "loader_...", only=r"^(?:src|python)/"),

    # Messages, connections, leases.
    Name(r"message_(?:hello|welcome|wait|goodbye|fail|type|send|receive|wish)|MESSAGE_\w+", "protocol_..., PROTOCOL_...", only=r"^src/delivery/"),
    Name(r"link|links?_(?:terms|done|hang_up)|ret_link", "connection", only=r"^src/delivery/"),
    Name(r"struct message", "mask_entry", only=r"^mpi/ranks/masks"),
    Name(r"struct use", "attached_ring"),
    Word("tenant", "lease", but={r"(azure\.[ch]|test_clouds\.py|cloud_servers\.py|clouds\.md)$": "whose identities Azure's login knows"}),
    Name(r"held(?:_\w+)?|\w+_held|[A-Z_]*HELD", "leased (a slot), kept (a row); held is an array that each node has whole",
         only=r"^src/(?:delivery|read|store)/"),

    Name(part("kept"), "a row alone is kept, in its home's memory", only=r"^src/delivery/"),

    # Nodes and shares.
    Word("domain", "NUMA node (numa, struct numa_node)", but={
        r"^src/topology/(?:gpus|placement)\.c$": "a PCI address's",
        r"plan/permutation|plan_permutation": "a function's",
        r"physicsnemo": "what PhysicsNeMo's domain parallelism divides",
    }),
    Name(r"plan_share\w*", "plan_local_batch"),
    Name(r"placement_share", "placement_group"),
    Name(r"placement_home|topology_home", "placement_memory; a home is a reader that keeps a row"),
    Name(r"wanting|wants_\w+|WANTED_BY_\w+", "near (a row's near reader)", only=r"^(?:src/plan|tests/unit)/"),
    Word("rank 0's directory", "home table"),
    Word("directory of kept rows", "home table"),

    # A tail is a ring's, a page is memory.
    Name(part("tail"), "trailer (of a sample), suffix (of a value)", only=r"^(?:src/(?:run|plan|dataset|store/kind)|mpi)/"),
    Name(r"metrics_page\w*", "metrics_file"),
    Name(r"report_page", "report_html"),

    # Metadata is a dataset's.
    Name(r"metadata_credentials", "credentials_ask_endpoint"),
)
