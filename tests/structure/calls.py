"""Folders call those that docs/design.md lists them with, and no other.

    python calls.py SOURCE_DIRECTORY BUILD_DIRECTORY NM

Reads the table under "## Folders", and the symbols of each folder's objects: what one leaves undefined and another one
defines is a call (or a variable) from the first to the second.
"""

import pathlib
import re
import subprocess
import sys


def listed(design):
    """Folder -> folders in its third column."""
    table = design.read_text(encoding="utf-8").split("## Folders", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (\w+)/? \|.*\|([^|]*)\|$", table, re.MULTILINE)
    return {name: set(links.split()) for name, links in rows if name != "folder"}


def objects(build, folder):
    """The objects of that folder's own sources: of a library, or of a program."""
    base = build / folder if folder == "mpi" else build / "src" / folder
    return [path for path in base.glob("CMakeFiles/*.dir/**/*.o") if "/trainer/" not in str(path)]


def symbols(nm, paths):
    """Defined and undefined global names."""
    done = subprocess.run([nm, "--extern-only", "--format=posix", *paths], capture_output=True, text=True, check=True)
    defined, undefined = set(), set()
    for name, kind in re.findall(r"^(\S+) (\w)(?: |$)", done.stdout, re.MULTILINE):
        (undefined if kind == "U" else defined).add(name)
    return defined, undefined


def main():
    source, build, nm = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    table = listed(source / "docs" / "design.md")
    folders = {path.name for path in (source / "src").iterdir() if path.is_dir()} - {"include"} | {"mpi"}
    wrong = [f"docs/design.md lists {set(table)}, there are {folders}"] if set(table) != folders else []
    known = {folder: symbols(nm, objects(build, folder)) for folder in folders if objects(build, folder)}
    calls = 0
    for caller, (_, undefined) in known.items():
        for callee, (defined, _) in known.items():
            names = undefined & defined if caller != callee else set()
            calls += len(names)
            if names and callee not in table.get(caller, ()) | {"base"}:
                wrong.append(f"{caller} uses {callee}, which it is not listed with: {', '.join(sorted(names))}")
    print(*wrong, f"{calls} names of {len(known)} folders are used by other folders", sep="\n")
    return 1 if wrong or calls < 100 else 0


sys.exit(main())
