"""Links in the documents lead somewhere, and the tests that they name are there.

    python docs.py SOURCE_DIRECTORY BUILD_DIRECTORY CTEST
"""

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


def main():
    source, build, ctest = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    listed = subprocess.run([ctest, "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    known = re.findall(r"Test +#\d+: (\S+)", listed)
    functions = "".join(path.read_text(encoding="utf-8") for path in source.glob("tests/**/*.py"))
    documents = [*source.glob("*.md"), *source.glob("docs/*.md")]
    texts = {document: document.read_text(encoding="utf-8") for document in documents}
    wrong = [line for document, text in texts.items() for line in broken_links(source, document, text)]
    wrong += missing_tests(known, functions, "".join(texts.values()))
    print(*wrong, f"{len(documents)} documents, {len(known)} tests", sep="\n")
    return 1 if wrong or len(documents) < 10 or len(known) < 50 else 0


sys.exit(main())
