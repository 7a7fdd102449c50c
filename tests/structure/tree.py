"""The tree as docs/inside/design.md and the folders' READMEs list it, and as the sources are: folders, rooms, files, includes.

A folder is what a row of the table in docs/inside/design.md names: a directory below src/, or mpi/. Each is a library or a
program. A room is a directory in a folder. A module is a file without its suffix: ring.c and ring.h are one, since they are one
noun. src/include has the public header, which every folder may include.

The README.md of a folder with rooms lists them, upper ones first: `| room | what is in it |`. `.` are the folder's own files.
"""

import pathlib
import re

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
PUBLIC = "include"


def rows(source):
    """(folder, what it is, what it uses): the table under "## Folders" of docs/inside/design.md."""
    design = (source / "docs" / "inside" / "design.md").read_text(encoding="utf-8")
    table = design.split("## Folders", 1)[1].split("\n## ", 1)[0]
    for name, what, uses in re.findall(r"^\| ([\w/]+) \| (.*) \|([^|]*)\|$", table, re.MULTILINE):
        if name != "folder":
            yield name.rstrip("/"), what, uses


def listed(source):
    """Folder -> folders that it is listed with."""
    return {name: set(uses.split()) for name, _, uses in rows(source)}


def described(source):
    """Folder -> what it is, without marks, and without links in parentheses."""
    return {name: re.sub(r" \(\[[^]]*\]\([^)]*\)\)|`", "", what) for name, what, _ in rows(source)}


def place_of(path):
    """The directory of a file below the root, without src/: src/read/pool.c is in read, mpi/job/job.c in mpi/job."""
    parts = path.parent.parts
    return "/".join(parts[1:] if parts[0] == "src" else parts)


def module_of(path):
    return f"{place_of(path)}/{path.stem}"


def included(source, path, name):
    """What `#include "name"` in that file means, relative to the root; None: nothing of ours."""
    own = [path.parent, *path.parent.parents[:-1]]
    for folder in (*own, pathlib.Path("src"), pathlib.Path("src/include")):
        if (source / folder / name).is_file():
            return folder / name
    return None


def files(source):
    """File -> the files that it includes, as paths below the root; and messages on those that are not there."""
    paths = sorted(path.relative_to(source) for top in ("src", "mpi") for path in (source / top).glob("**/*.[ch]"))
    tree, wrong = {}, []
    for path in paths:
        names = INCLUDE.findall((source / path).read_text(encoding="utf-8"))
        found = [included(source, path, name) for name in names]
        wrong += [f'{path}: there is no "{name}"' for name, what in zip(names, found) if what is None]
        tree[path] = [what for what in found if what is not None]
    return tree, wrong


class Folders:
    """Which folder and which room a place is in."""

    def __init__(self, source):
        self.source, self.names = source, set(listed(source))
        self.places = {place_of(path) for path in files(source)[0]} - {PUBLIC}

    def folder_of(self, place):
        """The longest name in the table that the place begins with; of a place that is not listed, its first directory."""
        parts = place.split("/")
        heads = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((head for head in heads if head in self.names), parts[0])

    def room_of(self, place):
        """`.`: a folder's own files."""
        return place[len(self.folder_of(place)) + 1:] or "."

    def folders(self):
        """Names of the folders that there are."""
        return {self.folder_of(place) for place in self.places}

    def rooms(self, folder):
        """Names of the rooms that there are, the folder's own files included."""
        return {self.room_of(place) for place in self.places if self.folder_of(place) == folder}

    def readme(self, folder):
        """(room, what is in it) of a folder's README.md, in order."""
        path = self.source / ("" if folder == "mpi" else "src") / folder / "README.md"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return [(name.rstrip("/"), what) for name, what in re.findall(r"^\| `?([\w./]+)`? \| (.*) \|$", text, re.MULTILINE)
                if name != "room"]


def module_arrows(tree):
    """Module -> the other modules that its files include."""
    arrows = {module_of(path): set() for path in tree}
    for path, targets in tree.items():
        arrows[module_of(path)] |= {module_of(target) for target in targets} - {module_of(path)}
    return arrows


def place_arrows(tree):
    """(place, place) -> the first include that makes this arrow, for a message."""
    arrows = {}
    for path, targets in tree.items():
        for target in targets:
            pair = place_of(path), place_of(target)
            if pair[0] != pair[1] and PUBLIC not in pair:
                arrows.setdefault(pair, f'{path} includes "{target}"')
    return arrows


def folder_arrows(folders, tree):
    """(folder, folder) -> the first include that makes this arrow."""
    arrows = {}
    for pair, example in place_arrows(tree).items():
        pair = tuple(folders.folder_of(place) for place in pair)
        if pair[0] != pair[1]:
            arrows.setdefault(pair, example)
    return arrows


def room_arrows(folders, tree, folder):
    """(room, room) within a folder -> the first include that makes this arrow. All rooms may include a folder's own headers."""
    return {(folders.room_of(start), folders.room_of(end)): example for (start, end), example in place_arrows(tree).items()
            if folders.folder_of(start) == folders.folder_of(end) == folder and folders.room_of(end) != "."}


def circles(arrows):
    """Sets of nodes that reach each other, of two and more: Tarjan's strongly connected components."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(arrows.get(node, ())):
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            circle = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            found.extend([circle] if len(circle) > 1 else [])

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found
