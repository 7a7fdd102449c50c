"""Links in the documents lead somewhere, the tests that they name are there, and docs/inside/testing.md has every family of tests.

    python docs.py SOURCE_DIRECTORY BUILD_DIRECTORY CTEST
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

NAMES = r"\b((?:unit|mpi|cli|python|fuzz|chaos|cluster|matrix|conformance|structure|install)\.[a-z_0-9]+(?:\.\w+)?)\b"
FILES = (".conf", ".md", ".py", ".c", ".h", ".sh", ".cmake")


def anchor(heading):
    """As GitHub names it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(source, document, text):
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, mark = link.partition("#")
        target = pathlib.Path(os.path.normpath(document.parent / file)) if file else document
        if link.startswith("http"):
            continue
        if not target.exists():
            yield f"{document.relative_to(source)}: there is no '{link}'"
        elif mark and mark not in map(anchor, re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)):
            yield f"{document.relative_to(source)}: '{link}' names no heading"


def missing_tests(known, functions, text):
    for name in sorted(set(re.findall(NAMES, text))):
        if not name.endswith(FILES) and not any(test.startswith(name) for test in known):
            yield f"there is no test {name}"
    for name in sorted(set(re.findall(r"`(test_\w+)\*?`", text))):
        if name not in functions:
            yield f"there is no {name}"


def missing_families(families, text):
    """A family is the first word of its tests' names; its row of the table begins with it."""
    for family in sorted(families):
        if f"\n| `{family}` |" not in text:
            yield f"docs/inside/testing.md has no row for the tests {family}.*"


def missing_functions(source, text):
    """Rows of tables that end in a file and its functions: `| ... | src/x/y.c | `f()`, `g()` |`."""
    for file, cell in re.findall(r"\| ([\w/]+\.(?:c|py)) \| ([^|]*) \|$", text, re.MULTILINE):
        path = source / file
        code = path.read_text(encoding="utf-8") if path.exists() else ""
        for name in re.findall(r"`(\w+)\(\)`", cell):
            if not re.search(rf"^(?:[a-z].*\b| *def ){name}\(", code, re.MULTILINE):
                yield f"there is no {name}() in {file}"


def main():
    source, build, ctest = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    listed = subprocess.run([ctest, "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    known = re.findall(r"Test +#\d+: (\S+)", listed)
    functions = "".join(path.read_text(encoding="utf-8") for path in source.glob("tests/**/*.py"))
    documents = [*source.glob("*.md"), *source.glob("docs/**/*.md")]
    texts = {document: document.read_text(encoding="utf-8") for document in documents}
    wrong = [line for document, text in texts.items() for line in broken_links(source, document, text)]
    wrong += missing_tests(known, functions, "".join(texts.values()))
    wrong += missing_functions(source, "".join(texts.values()))
    families = collections.Counter(name.partition(".")[0] for name in known)
    wrong += missing_families(families, texts[source / "docs" / "inside" / "testing.md"])
    counts = ", ".join(f"{count} {family}" for family, count in sorted(families.items()))
    print(*wrong, f"{len(documents)} documents, {len(known)} tests: {counts}", sep="\n")
    return 1 if wrong or len(documents) < 10 or len(known) < 50 else 0


sys.exit(main())
