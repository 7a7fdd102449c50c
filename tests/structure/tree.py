"""The tree as docs/inside/design.md lists it, and as the sources are: folders, files, and what each file includes.

A folder is a directory of src/ with C files, or mpi/. A module is a file without its suffix: ring.c and ring.h are one,
since they are one noun. src/include has the public header, which every folder may include.
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


def folder_of(path):
    """The folder of a file below the root: src/read/pool.c is in read, src/client/trainer/main.c in client/trainer."""
    parts = path.parent.parts
    return "/".join(parts[1:] if parts[0] == "src" else parts)


def module_of(path):
    return f"{folder_of(path)}/{path.stem}"


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


def folders(source):
    """Names of the folders that there are."""
    return {folder_of(path) for path in files(source)[0]} - {PUBLIC}


def module_arrows(tree):
    """Module -> the other modules that its files include."""
    arrows = {module_of(path): set() for path in tree}
    for path, targets in tree.items():
        arrows[module_of(path)] |= {module_of(target) for target in targets} - {module_of(path)}
    return arrows


def folder_arrows(tree):
    """(folder, folder) -> the first include that makes this arrow, for a message."""
    arrows = {}
    for path, targets in tree.items():
        for target in targets:
            pair = folder_of(path), folder_of(target)
            if pair[0] != pair[1] and PUBLIC not in pair:
                arrows.setdefault(pair, f'{path} includes "{target}"')
    return arrows


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
