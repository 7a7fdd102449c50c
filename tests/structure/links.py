"""A call to a folder that one is not above does not link, and CMake links what docs/inside/design.md lists.

    python links.py SOURCE_DIRECTORY BUILD_DIRECTORY CMAKE FOLDER=TARGET,TARGET...

Builds calls_store.c into zarr, which may call store; into base, which is below store; and into plan, which is beside it. Then
compares the targets that CMake links to each folder with the table.
"""

import os
import pathlib
import re
import subprocess
import sys

import tree


def build(directory, cmake, target):
    return subprocess.run([cmake, "--build", directory, "--target", target], text=True,
                          env=os.environ | {"LC_ALL": "C"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def tries(directory, cmake):
    """Wrong of the three tries."""
    down = build(directory, cmake, "penstock-try-zarr")
    if down.returncode:
        yield f"zarr calls store, and does not link:\n{down.stdout}"
    for folder in ("base", "plan"):
        done = build(directory, cmake, f"penstock-try-{folder}")
        if done.returncode == 0:
            yield f"{folder} calls store, and it links"
        elif not re.search("undefined .*store_settings_default", done.stdout):
            yield f"{folder} calls store, and something else is wrong with it:\n{done.stdout}"


def linked(words):
    """base=, store=penstock-options,penstock-base -> {base: {}, store: {base}}."""
    pairs = (word.split("=", 1) for word in words)
    linked_names = {folder: [name for name in names.split(",") if name.startswith("penstock-")] for folder, names in pairs}
    folder_of = {f"penstock-{folder.replace('/', '-')}": folder for folder in linked_names}
    return {folder: {folder_of[name] for name in names if name in folder_of} for folder, names in linked_names.items()}


def differences(table, links):
    for folder in sorted(table | links):
        if table.get(folder) != links.get(folder):
            yield (f"{folder} links {sorted(links.get(folder, ()))}; "
                   f"docs/inside/design.md lists it with {sorted(table.get(folder, ()))}")


def main():
    source, directory, cmake, *words = sys.argv[1:]
    links = linked(words)
    wrong = [*differences(tree.listed(pathlib.Path(source)), links), *tries(directory, cmake)]
    print(*wrong, f"{len(words)} folders", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
