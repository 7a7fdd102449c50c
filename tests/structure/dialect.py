"""One dialect in all C files, where clang-format has no say.

    python dialect.py SOURCE_DIRECTORY --check
    python dialect.py SOURCE_DIRECTORY | xargs -r clang-format -i

A status is compared: `if (status != STATUS_OK)`, `return status == STATUS_OK && is_open;`, and neither `if (status)` nor `!status`. A block
begins with its declarations, and no blank line is behind them. With --check, fails on each line that is otherwise; without, rewrites
the files, which changes no meaning, and prints their names.

Reads text as clang-format writes it. A status is what the function, or a struct, declares to be one, or what a function returns that
is declared to return one. Macros are not looked at.
"""

import bisect
import pathlib
import re
import sys

FOLDERS = ("src", "mpi", "tests", "bench")
OK = {"status": "STATUS_OK", "penstock_status": "PENSTOCK_OK"}
OTHER = {"answer": None, "dialing": "penstock_status"}  # whose member `status` is no enum status: HTTP's, and that of a client under test

NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|^[ \t]*#(?:[^\n\\]|\\.)*', re.DOTALL | re.MULTILINE)
TYPED = re.compile(r"\benum (status|penstock_status) (\w+)")
UNTYPED = re.compile(r"\b(?!return |goto |else |enum |status |penstock_status )\w+ \**(\w+)(?= =|;|,|\))")
MORE = re.compile(r",\s*(\w+)(?= =|;|,)")
RETURNS = re.compile(r"^(?:MUST_USE |PENSTOCK_API |static )*enum (status|penstock_status)\s+(\w+)\(", re.MULTILINE)
OPERATOR = re.compile(r"(?:[=!<>]=|[-+*/%^<>~]|(?<!&)&|(?<!\|)\|)\Z")
STATIC = re.compile(r"^static [\w *]*?\b(\w+)\(", re.MULTILINE)
NAME = re.compile(r"\b[a-z]\w*")
MEMBER = re.compile(r"^ +enum (status|penstock_status) (\w+);", re.MULTILINE)
BODY = re.compile(r"^\{$.*?^\}", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"\{| +(?:.*(?:\)|\belse|\bdo|:) )?\{")
KEYWORD = re.compile(r"(?:return|goto|case|else|default|sizeof|break|continue|if|for|while|do|switch)\b")
DECLARATION = re.compile(r"_Static_assert\(|_Alignas\(|\(void\)\w+;|(?:enum|struct|union) \{|\w+ \**(?:\(\*)?\w")


def masked(text):
    """The text with blanks for comments and macros, and quotes for strings: each character stays at its place."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", found[0][0] if found[0][0] in "\"'" else " ", found[0]), text)


# Blank lines


def end_of_statement(lines, at):
    """The line behind the statement that begins at this one."""
    depth = 0
    while at < len(lines):
        depth += sum(lines[at].count(c) for c in "({[") - sum(lines[at].count(c) for c in ")}]")
        at += 1
        if depth <= 0 and lines[at - 1].rstrip().endswith((";", "}")):
            break
    return at


def blank_lines(text, code):
    """Lines that are blank behind the declarations that a block begins with."""
    lines, code = text.split("\n"), code.split("\n")
    for at in [at + 1 for at, line in enumerate(code) if line.rstrip().endswith("{") and BLOCK.fullmatch(line.rstrip())]:
        declared, blank = 0, []
        while at < len(code):
            if not lines[at].strip():
                blank += [at] if declared else []
            elif code[at].strip():
                if KEYWORD.match(code[at].strip()) or not DECLARATION.match(code[at].strip()):
                    break
                yield from blank
                blank, declared, at = [], declared + 1, end_of_statement(code, at) - 1
            at += 1
        if at < len(code) and code[at].strip() != "}":
            yield from blank


# Statuses


def statuses(code):
    """Name -> type, of the variables that are statuses in this part of a file."""
    found = {}
    for match in TYPED.finditer(code):
        found[match[2]] = match[1]
        end = code.find(";", match.end())
        depth = 0
        for at in range(match.end(), end):
            depth += (code[at] in "({[") - (code[at] in ")}]")
            more = MORE.match(code, at) if depth == 0 else None
            found.update({more[1]: match[1]} if more else {})
            if depth < 0:
                break
    others = {match[1] for match in UNTYPED.finditer(code)} if found else ()
    return {name: kind for name, kind in found.items() if name not in others}


def matching(code, at):
    """The place behind the bracket that closes the one here; or of the one that opens the one here."""
    step, depth = (1, 0) if code[at] in "([" else (-1, 0)
    while True:
        depth += (code[at] in "([") - (code[at] in ")]")
        at += step
        if depth == 0:
            return at if step > 0 else at + 1


def start_of(code, at):
    """Where the expression begins whose last name is here: `a[i].b->c` of c."""
    while code[at - 1] == "." or code[at - 2:at] == "->":
        at -= 1 if code[at - 1] == "." else 2
        while code[at - 1] in ")]":
            at = matching(code, at - 1)
        while code[at - 1].isalnum() or code[at - 1] == "_":
            at -= 1
    return at


def is_truth(before, after):
    """Whether what is between these is taken for true or false: `if (` and `)`, say."""
    joined = after.startswith(("&&", "||")) or (after.startswith("?") and not after[1:].lstrip().startswith(":"))
    if OPERATOR.search(before):
        return False
    if before.endswith(("&&", "||")):
        return joined or after[:1] in ");,:}]"
    if re.search(r"\b(?:if|while) \(\Z", before):
        return joined or after.startswith(")")
    return joined and not before.endswith("!")


def comparison(code, start, end, ok):
    """(start, end, text) of the comparison instead of the expression there; None: it is not taken for true or false."""
    before, after = code[max(0, start - 200):start].rstrip(), code[end:end + 40].lstrip()
    if before.endswith((")", "(void)!")):  # a cast, or a status that is not looked at
        return None
    if before.endswith("!"):
        binds = OPERATOR.search(before[:-1].rstrip()) or re.match(r"[=!<>]=|[-+*/%^<>]|&(?!&)|\|(?!\|)", after)
        return code.rindex("!", 0, start), end, f"({{}} == {ok})" if binds else f"{{}} == {ok}"
    if is_truth(before, after) or (after.startswith(";") and re.search(r"\bfor \([^;{}]*;\Z", before)):
        return start, end, f"{{}} != {ok}"
    return None


def bare(code, body, known, members, functions):
    """Statuses that a function takes for true or false."""
    for match in NAME.finditer(code, *body):
        name, end = match[0], match.end()
        if name not in known and name not in members and name not in functions:
            continue
        start = start_of(code, match.start())
        if code[end:end + 1] == "(":
            kind, end = functions.get(name), matching(code, end)
        else:
            *owners, _ = re.findall(r"\w+", code[start:end])
            kind = OTHER.get(owners[-1], members.get(name)) if owners else known.get(name)
        if kind is None or code[end:end + 2].startswith(("[", ".", "->")):
            continue
        if code[end:end + 3] == " = " and code[start - 1] == "(":
            start, end = start - 1, matching(code, start - 1)
        found = comparison(code, start, end, OK[kind])
        if found:
            yield (*found, start)


def edits(text, members, functions):
    """(start, end, what is to be there, what is wrong) of a file, from its end to its beginning."""
    code, starts = masked(text), [0, *(found.end() for found in re.finditer("\n", text))]
    functions = functions | dict.fromkeys(STATIC.findall(code)) | {name: kind for kind, name in RETURNS.findall(code)}
    found, last = [], 0
    for body in BODY.finditer(code):
        known = statuses(code[max(code.rfind("\n\n", 0, body.start()), last):body.end()])
        for start, end, pattern, of in bare(code, body.span(), known, members, functions):
            found.append((start, end, pattern.format(text[of:end]), f"'{' '.join(text[start:end].split())}' is a status: compare it"))
        last = body.end()
    found += [(starts[line], starts[line + 1], "", "a blank line behind declarations") for line in blank_lines(text, code)]
    return sorted(found, reverse=True), starts


def read(source):
    """Path -> text; and what all files know: members, and functions, that are statuses."""
    paths = [path for folder in FOLDERS for path in sorted((source / folder).glob("**/*.[ch]"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    members, functions = {"status": "status"}, {}
    for text in texts.values():
        members.update((name, kind) for kind, name in MEMBER.findall(text) if name != "status")
        functions.update((found[2], found[1]) for found in RETURNS.finditer(text) if not found[0].startswith("static"))
    return texts, members, functions


def check(source):
    """What is wrong, and how many files there are."""
    texts, members, functions = read(source)
    wrong = []
    for path, text in texts.items():
        found, starts = edits(text, members, functions)
        wrong += [f"{path.relative_to(source)}:{bisect.bisect(starts, start)}: {what}" for start, _, _, what in reversed(found)]
    return wrong, len(texts)


def rewrite(source):
    """Files that were not as they should be, and now are."""
    texts, members, functions = read(source)
    for path, text in texts.items():
        found, _ = edits(text, members, functions)
        for start, end, there, _ in found:
            text = text[:start] + there + text[end:]
        if found:
            path.write_text(text, encoding="utf-8")
            yield path


def main():
    source = pathlib.Path(sys.argv[1])
    if "--check" not in sys.argv[2:]:
        print(*rewrite(source), sep="\n")
        return 0
    wrong, count = check(source)
    print(*wrong, f"{count} files", sep="\n")
    return 1 if wrong or count < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
