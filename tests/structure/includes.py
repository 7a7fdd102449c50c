"""Folders and rooms include headers of those that are listed below them, and of no other.

    python includes.py SOURCE_DIRECTORY

Fails on an include from one folder to another that the table of docs/inside/design.md does not list, on a listed arrow that no
include makes, on folders that the table lists in a circle, on a circle of files of different folders; and within a folder on an
include from one room to another above it, as the folder's README.md lists them, and on rooms that are not listed so.
"""

import pathlib
import sys

import tree


def not_listed(table, arrows):
    return [f"{caller} is not listed with {callee} in docs/inside/design.md: {example}"
            for (caller, callee), example in sorted(arrows.items()) if callee not in table.get(caller, ())]


def not_there(table, arrows):
    return [f"docs/inside/design.md lists {caller} with {callee}, of which it includes nothing"
            for caller in sorted(table) for callee in sorted(table[caller]) if (caller, callee) not in arrows]


def circles(table, modules, folders):
    yield from (f"docs/inside/design.md lists a circle: {', '.join(sorted(circle))}" for circle in tree.circles(table))
    for circle in tree.circles(modules):
        if len({folders.folder_of(module.rsplit("/", 1)[0]) for module in circle}) > 1:
            yield f"files of different folders include each other: {', '.join(sorted(circle))}"


def wrong_rooms(folders, files, folder):
    listed = [name for name, _ in folders.readme(folder)]
    there = folders.rooms(folder)
    if there != {"."} and set(listed) != there:
        yield f"the README.md of {folder} lists the rooms {sorted(listed)}, there are {sorted(there)}"
        return
    for (start, end), example in sorted(tree.room_arrows(folders, files, folder).items()):
        if listed.index(start) > listed.index(end):
            yield f"in {folder}, {start} is below {end}: {example}"


def check(source):
    """What is wrong, and how many arrows there are."""
    table, folders, (files, wrong) = tree.listed(source), tree.Folders(source), tree.files(source)
    arrows = tree.folder_arrows(folders, files)
    if set(table) != folders.folders():
        wrong.append(f"docs/inside/design.md lists {sorted(table)}, there are {sorted(folders.folders())}")
    wrong += not_listed(table, arrows) + not_there(table, arrows) + [*circles(table, tree.module_arrows(files), folders)]
    for folder in sorted(folders.folders()):
        wrong += wrong_rooms(folders, files, folder)
    return wrong, len(arrows)


def main():
    wrong, arrows = check(pathlib.Path(sys.argv[1]))
    print(*wrong, f"{arrows} arrows between folders", sep="\n")
    return 1 if wrong or arrows < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
