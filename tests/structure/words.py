"""One word, one thing: docs/inside/words.md's table of words is the code's, and words that are not used are nowhere.

    python words.py SOURCE_DIRECTORY

Each row of the table has words, their meaning, and the names that they have in src/ and mpi/: structs and their
members, enums and their constants, functions, and options. Fails on a name that is defined nowhere, on a word that has two rows,
on a word of retired.py in a file that is not one of its exceptions, and on an exception that nothing needs.
"""

import pathlib
import re
import sys

import retired

FOLDERS = ("src", "mpi", "python", "docs", "tests", "bench", "launch", "configs", "packaging")
FILES = ("README.md", "CONTRIBUTING.md", "launch/penstock-run")
SUFFIXES = {".c", ".h", ".py", ".md", ".sh", ".txt", ".cmake", ".yaml", ".sbatch"}
NOT_READ = ("tests/structure/retired.py", "tests/structure/refusals.py")  # name retired words


def rows(source):
    """Rows of the table of docs/inside/words.md: words, meaning, names in the code."""
    table = (source / "docs" / "inside" / "words.md").read_text(encoding="utf-8")
    for words, meaning, names in re.findall(r"^\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", table, re.MULTILINE):
        if words != "word":
            yield words.split(", "), meaning, re.findall(r"`([^`]*)`", names)


def code(path):
    """A C file without its comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def definitions(source):
    """What src/ and mpi/ define, as the table names it: `struct plan`, `plan.seed`, `plan_init()`, `PLAN_PAD`, `order.seed`."""
    texts = [code(path) for top in ("src", "mpi") for path in (source / top).glob("**/*.[ch]")]
    found = set()
    for text in texts:
        found.update(f"{kind} {name}" for kind, name in re.findall(r"\b(struct|enum) (\w+) \{", text))
        found.update(f"{name}()" for name in re.findall(r"^(?![ \t#}]|return\b)[\w \t*()]*?\b(\w+)\([^;{]*[;{]", text, re.MULTILINE))
        for name, members in re.findall(r"\bstruct (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            found.update(f"{name}.{member}" for member in re.findall(r"\b(\w+)(?=\s*[;,[)])", members))
        for constants in re.findall(r"\benum(?: \w+)? \{([^}]*)\}", text):
            found.update(re.findall(r"\b([A-Z][A-Z0-9_]+)\b", constants))
        found.update(re.findall(r"^#define (\w+)", text, re.MULTILINE))
    options = (source / "src/config/config.h").read_text(encoding="utf-8")
    return found | set(re.findall(r'^ *X\("([\w.]+)"', options, re.MULTILINE))


def wrong_rows(table, defined):
    seen = set()
    for words, meaning, names in table:
        yield from (f"docs/inside/words.md has the word '{word}' twice" for word in words if word in seen)
        seen.update(words)
        if not meaning.strip():
            yield f"docs/inside/words.md says nothing of '{words[0]}'"
        if not names:
            yield f"docs/inside/words.md: '{words[0]}' has no name in the code"
        yield from (f"docs/inside/words.md: '{words[0]}' is `{name}`, which src/ and mpi/ do not define" for name in names if name not in defined)


def texts(source):
    """Path below the root -> text, of all that people read."""
    paths = [source / name for name in FILES]
    for folder in FOLDERS:
        paths += [path for path in sorted((source / folder).glob("**/*")) if path.suffix in SUFFIXES and path.is_file()]
    names = {path.relative_to(source).as_posix(): path for path in paths if path.is_file()}
    return {name: path.read_text(encoding="utf-8") for name, path in names.items() if name not in NOT_READ}


def wrong_words(files, words):
    for word in words:
        pattern, needed = word.pattern(), set()
        for path, text in files.items():
            if not re.search(word.only, path):
                continue
            text = word.text_of(path, text)
            for match in pattern.finditer(text):
                exception = next((allowed for allowed in word.but if re.search(allowed, path)), None)
                needed.add(exception)
                if exception is None:
                    line = text.count("\n", 0, match.start()) + 1
                    yield f"{path}:{line}: '{' '.join(match[0].split())}' is not used: {word.instead}"
        yield from (f"retired.py: nothing in {allowed} needs the exception for '{word.word}'" for allowed in word.but if allowed not in needed)


def check(source, words=retired.WORDS):
    """What is wrong, and how many rows there are."""
    table = [*rows(source)]
    return [*wrong_rows(table, definitions(source)), *wrong_words(texts(source), words)], len(table)


def main():
    wrong, count = check(pathlib.Path(sys.argv[1]))
    print(*wrong, f"{count} rows of words, {len(retired.WORDS)} that are not used", sep="\n")
    return 1 if wrong or count < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
