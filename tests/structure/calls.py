"""Folders and rooms call those that are listed below them, and no other.

    python calls.py SOURCE_DIRECTORY BUILD_DIRECTORY NM

Looks at the symbols of each place's objects: what one leaves undefined and another one defines is a call (or a variable) from the
first to the second. docs/inside/design.md lists folders, and the README.md of a folder its rooms, upper ones first.
"""

import pathlib
import re
import subprocess
import sys

import tree


def objects(source, build):
    """Place -> the objects of its sources, of a library or of a program."""
    found = {}
    for top in ("src", "mpi"):
        for path in (build / top).glob("**/CMakeFiles/*.dir/**/*.o"):
            parts = path.relative_to(build).parts
            split = parts.index("CMakeFiles")
            file = pathlib.Path(*parts[:split], *parts[split + 2:]).with_suffix("")
            if (source / file).exists():  # an older build's are left there
                found.setdefault(tree.place_of(file), []).append(path)
    return found


def symbols(nm, paths):
    """Defined and undefined global names, but for the public interface's, which are for all."""
    done = subprocess.run([nm, "--extern-only", "--format=posix", *paths], capture_output=True, text=True, check=True)
    defined, undefined = set(), set()
    for name, kind in re.findall(r"^(?!penstock_)(\S+) (\w)(?: |$)", done.stdout, re.MULTILINE):
        (undefined if kind == "U" else defined).add(name)
    return defined, undefined - defined


def wrong_call(folders, table, caller, callee, names):
    """The message, or None."""
    start, end = folders.folder_of(caller), folders.folder_of(callee)
    names = ", ".join(sorted(names))
    if start != end:
        return None if end in table.get(start, ()) else f"{start} uses {end}, which it is not listed with: {names}"
    order = [name for name, _ in folders.readme(start)]
    above, below = folders.room_of(caller), folders.room_of(callee)
    if above in order and below in order and order.index(above) > order.index(below):
        return f"in {start}, {above} uses {below}, which is above it: {names}"
    return None


def check(source, build, nm):
    """What is wrong, and how many names are used across folders and rooms."""
    table, folders, paths = tree.listed(source), tree.Folders(source), objects(source, build)
    known = {place: symbols(nm, paths[place]) for place in sorted(paths)}
    there = {folders.folder_of(place) for place in known}
    wrong = [f"no objects of {folder}" for folder in sorted(folders.folders() - there)]
    calls = 0
    for caller, (_, undefined) in known.items():
        for callee, (defined, _) in known.items():
            names = undefined & defined if caller != callee else set()
            calls += len(names)
            message = wrong_call(folders, table, caller, callee, names) if names else None
            wrong += [message] if message else []
    return wrong, calls


def main():
    wrong, calls = check(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    print(*wrong, f"{calls} names are used by other folders and rooms", sep="\n")
    return 1 if wrong or calls < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
