"""Folders call those that docs/inside/design.md lists them with, and no other.

    python calls.py SOURCE_DIRECTORY BUILD_DIRECTORY NM

Looks at the symbols of each folder's objects: what one leaves undefined and another one defines is a call (or a variable) from
the first to the second.
"""

import pathlib
import re
import subprocess
import sys

import tree


def objects(source, build, folder):
    """The objects of that folder's own sources: of a library, or of a program."""
    top, _, nested = folder.partition("/")
    sources = pathlib.Path(top) if top == "mpi" else pathlib.Path("src", top)
    for path in (build / sources).glob(f"CMakeFiles/*.dir/{nested or '.'}/*.o"):
        if (source / sources / nested / path.stem).exists():  # an older build's are left there
            yield path


def symbols(nm, paths):
    """Defined and undefined global names, but for the public interface's, which are for all."""
    done = subprocess.run([nm, "--extern-only", "--format=posix", *paths], capture_output=True, text=True, check=True)
    defined, undefined = set(), set()
    for name, kind in re.findall(r"^(?!penstock_)(\S+) (\w)(?: |$)", done.stdout, re.MULTILINE):
        (undefined if kind == "U" else defined).add(name)
    return defined, undefined


def check(source, build, nm):
    """What is wrong, and how many names are used across folders."""
    table = tree.listed(source)
    paths = {folder: [*objects(source, build, folder)] for folder in sorted(tree.folders(source))}
    known = {folder: symbols(nm, paths[folder]) for folder in paths if paths[folder]}
    wrong = [f"no objects of {folder}" for folder in paths if not paths[folder]]
    calls = 0
    for caller, (_, undefined) in known.items():
        for callee, (defined, _) in known.items():
            names = undefined & defined if caller != callee else set()
            calls += len(names)
            if names and callee not in table.get(caller, ()):
                wrong.append(f"{caller} uses {callee}, which it is not listed with: {', '.join(sorted(names))}")
    return wrong, calls


def main():
    wrong, calls = check(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    print(*wrong, f"{calls} names are used by other folders", sep="\n")
    return 1 if wrong or calls < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
