"""Files include headers of the folders that docs/inside/design.md lists theirs with, and of no other.

    python includes.py SOURCE_DIRECTORY

Fails on an include from one folder to another that the table does not list, on a listed arrow that no include makes, on
folders that the table lists in a circle, and on a circle of files of different folders.
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


def circles(table, modules):
    yield from (f"docs/inside/design.md lists a circle: {', '.join(sorted(circle))}" for circle in tree.circles(table))
    for circle in tree.circles(modules):
        if len({module.rsplit("/", 1)[0] for module in circle}) > 1:
            yield f"files of different folders include each other: {', '.join(sorted(circle))}"


def check(source):
    """What is wrong, and how many arrows there are."""
    table, (files, wrong) = tree.listed(source), tree.files(source)
    arrows = tree.folder_arrows(files)
    if set(table) != tree.folders(source):
        wrong.append(f"docs/inside/design.md lists {sorted(table)}, there are {sorted(tree.folders(source))}")
    wrong += not_listed(table, arrows) + not_there(table, arrows) + [*circles(table, tree.module_arrows(files))]
    return wrong, len(arrows)


def main():
    wrong, arrows = check(pathlib.Path(sys.argv[1]))
    print(*wrong, f"{arrows} arrows between folders", sep="\n")
    return 1 if wrong or arrows < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
