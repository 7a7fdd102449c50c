#!/usr/bin/env python3
"""man.py VERSION OUTPUT COMPONENT=PROGRAM... client=HEADER: manual pages of programs, from what they print with --help, and of libpenstock,
from penstock.h. Nothing is written twice, so that pages cannot say what programs do not.

Writes OUTPUT/COMPONENT/man1/PROGRAM.1, a page for each subcommand that `penstock --help` lists, and OUTPUT/client/man3: libpenstock.3,
and the name of each function, which leads there.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys

SECTIONS = {"Examples": "EXAMPLES", "Exit code": "EXIT STATUS", "Commands": "COMMANDS",
            "Options of the configuration (section.key, default, meaning)": "CONFIGURATION"}
OTHERS = {"penstock": ["penstock-run", "penstock-reader", "penstock-trainer"],
          "penstock-run": ["penstock", "penstock-reader", "penstock-trainer"],
          "penstock-reader": ["penstock-run", "penstock", "penstock-trainer"],
          "penstock-trainer": ["penstock-reader", "penstock-run", "libpenstock"]}


def escaped(text):
    """Text as roff has it: no line is a request, hyphens are those of options, and nothing is taken for an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    text = text.replace("…", "...").replace("·", "\\(md")
    return re.sub(r"^([.])", r"\\&\1", text, flags=re.MULTILINE)


def filled(text):
    """A paragraph: a sentence starts a line, and a long one goes on in the next."""
    lines = []
    for sentence in re.split(r"(?<=[.;:]) (?=\S)", " ".join(text.split())):
        line = ""
        for word in sentence.split(" "):
            if line and len(line) + len(word) > 76:
                lines.append(line)
                line = ""
            line = f"{line} {word}".lstrip()
        lines.append(line)
    return "\n".join(escaped(line) for line in lines if line)


def verbatim(lines):
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    body = "\n".join(escaped(line[indent:].rstrip()) or ".sp" for line in lines)
    return f".PP\n.RS 4\n.nf\n{body}\n.fi\n.RE"


def tagged(tag, text):
    return f".TP\n.B {quoted(tag)}\n{filled(text) or '.br'}"


def quoted(text):
    return '"' + escaped(text).replace('"', '""') + '"'


def page(name, section, version, what, body):
    """`body`: roff from the synopsis on."""
    body = re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", body, flags=re.MULTILINE)  # headings start a paragraph
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc) if seconds else datetime.datetime.now()
    return (f'.TH {name.upper()} {section} "{now:%Y-%m-%d}" "Penstock {version}" "Penstock"\n.SH NAME\n'
            f'{escaped(name)} \\- {escaped(what)}\n{body}\n')


# --- programs ------------------------------------------------------------------------------------

def help_of(command):
    env = dict(os.environ, ARGP_HELP_FMT="rmargin=4000", LC_ALL="C")  # argp breaks lines, examples too
    return subprocess.run([*command, "--help"], env=env, check=True, capture_output=True, text=True).stdout


def is_heading(line):
    return bool(re.match(r" ?[A-Z-].*:$", line)) and not line.startswith("  ")


def blocks(text):
    """(heading, lines) of a help text: what is before the first heading has the heading None."""
    found = [(None, [])]
    after_blank = True
    for line in text.splitlines():
        if after_blank and is_heading(line) or line == "Exit code:":
            found.append((line.strip().rstrip(":"), []))
        else:
            found[-1][1].append(line)
        after_blank = not line.strip()
    return found


def first_and_rest(lines):
    """Lines of a paragraph up to the first empty one, and those after."""
    lines = "\n".join(lines).strip("\n").split("\n\n", 1)
    return lines[0], lines[1].splitlines() if len(lines) > 1 else []


def row(line):
    """(tag, text) of a line that starts an option or a row of a table; None: it starts none."""
    match = (re.match(r" +(--\S+ [A-Z]+) ([a-z].*)$", line)  # a name that fills its column
             or re.match(r" {1,8}(-\S*(?: ?[^ \s]+)*?)(?: {2,}(\S.*))?$", line)
             or re.match(r"  (\S+(?: \S+)*?) {2,}(\S.*)$", line))
    return (match.group(1), match.group(2) or "") if match else None


def listed(lines):
    """Options, rows of tables, and paragraphs between them."""
    out, entry, paragraph = [], None, []

    def flush():
        nonlocal entry, paragraph
        if entry:
            out.append(tagged(*entry))
        if paragraph:
            out.append(".PP\n" + filled(" ".join(paragraph)))
        entry, paragraph = None, []

    for line in lines:
        started = row(line)
        if not line.strip():
            flush()
        elif started:
            flush()
            entry = started
        elif entry and line.startswith("   "):
            entry = (entry[0], f"{entry[1]} {line.strip()}")
        else:
            if entry:
                flush()
            paragraph.append(line)
    flush()
    return "\n".join(out)


def described(lines):
    """Paragraphs; what is indented by two or more is an example."""
    out = []
    for part in "\n".join(lines).strip("\n").split("\n\n"):
        own = part.splitlines()
        if own and all(line.startswith("  ") for line in own):
            out.append(verbatim(own))
        elif part.strip():
            out.append(".PP\n" + filled(part))
    return "\n".join(out)


def configured(lines):
    out = []
    for line in filter(str.strip, lines):
        name, meaning, default = re.match(r"  (\S+) +(.*) \[(.*)\]$|", line).groups()
        if not name:
            name, meaning, default = (*re.match(r"  (\S+) +(.*)$", line).groups(), "")
        out.append(tagged(name, meaning + (f". Default: {default}" if default else "")))
    return "\n".join(out)


def program_page(command, name, version, subcommands=()):
    parts = blocks(help_of(command))
    usage, rest = first_and_rest(parts[0][1])
    usage, *about = usage.splitlines()
    what, other = first_and_rest(about + ([""] if about else []) + rest)
    options = [line for line in other if row(line)]
    split = other.index(options[0]) if options else len(other)
    description, own = other[:split], other[split:]
    first = re.split(r"(?<=\.) (?=[A-Z])", " ".join(what.split()), maxsplit=1)[0].rstrip(".")
    body = [".SH SYNOPSIS", f".B {quoted(usage[len('Usage: '):])}", ".SH DESCRIPTION", filled(what), described(description)]
    if own or any(heading not in SECTIONS and any(map(row, lines)) for heading, lines in parts[1:]):
        body += [".SH OPTIONS", listed(own)]
    late = []
    for heading, lines in parts[1:]:
        section = SECTIONS.get(heading)
        target = late if section else body
        target.append(f".SH {section}" if section else f".SS {quoted(heading)}")
        if section == "CONFIGURATION":
            target.append(configured(lines))
        elif section == "EXAMPLES":
            target.append(described([line if line.strip() == "" or line.startswith("  ") else "  " + line for line in lines
                                     if not is_trailer(line)]))
            target += [".PP\n" + filled(line) for line in lines if is_trailer(line)]
        else:
            target.append(listed(lines) if any(map(row, lines)) else described(lines))
    see = [f".BR {escaped(other)} ({'3' if other.startswith('lib') else '1'})" for other in
           (*OTHERS.get(name, ["penstock", "penstock-run"]), *subcommands)]
    body += late + [".SH SEE ALSO", " ,\n".join(see)]
    return page(name, 1, version, first[0].lower() + first[1:], "\n".join(filter(None, body)))


def is_trailer(line):
    """A sentence behind the examples, which starts at the margin."""
    return bool(re.match(r"(Exit code: |'penstock )", line))


def program_pages(component, program, version, output):
    folder = output / component / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    name = pathlib.Path(program).name
    commands = [line.split()[0] for heading, lines in blocks(help_of([program])) if heading == "Commands"
                for line in lines if row(line)]
    for command in commands:
        own = f"{name}-{command}"
        (folder / f"{own}.1").write_text(program_page([program, command], own, version), encoding="utf-8")
    pages = [f"{name}-{command}" for command in commands]
    (folder / f"{name}.1").write_text(program_page([program], name, version, pages), encoding="utf-8")


# --- libpenstock ---------------------------------------------------------------------------------

def prose(comment):
    """A comment's paragraphs; what is indented by two or more is verbatim."""
    lines = [re.sub(r"^ ?\* ?", "", line.rstrip()) for line in comment.strip().splitlines()]
    out, taken = [], []
    for line in [*lines, ""]:
        kind = "code" if line.startswith("  ") else "text"
        if taken and (not line.strip() or taken[-1][0] != kind):
            same = [text for _, text in taken]
            out.append(verbatim(same) if taken[0][0] == "code" else ".PP\n" + filled(" ".join(same)))
            taken = []
        if line.strip():
            taken.append((kind, line))
    return "\n".join(out)


def declarations(text):
    """(comment, declaration) of structs, enums and functions."""
    text = text[text.index('extern "C" {'):]
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return re.findall(r"/\*((?:(?!\*/).)*)\*/\s*((?:struct|enum|PENSTOCK_API)[^;{]*(?:\{.*?\n\})?;)", text, re.DOTALL)


def header_pages(headers, version, output):
    """One page of all: the first header says what the library is."""
    folder = output / "client" / "man3"
    folder.mkdir(parents=True, exist_ok=True)
    texts = [pathlib.Path(header).read_text(encoding="utf-8") for header in headers]
    story = re.match(r"/\*(.*?)\*/", texts[0], re.DOTALL).group(1)
    types, functions = [], []
    for comment, declaration in (found for text in texts for found in declarations(text)):
        declaration = re.sub(r"\s*/\*.*?\*/", "", declaration, flags=re.DOTALL) if "PENSTOCK_API" in declaration else declaration
        name = re.search(r"\b(penstock_\w+)\(", declaration) if "PENSTOCK_API" in declaration else None
        shown = re.sub(r"PENSTOCK_API\s+", "", declaration)
        shown = re.sub(r"\n\s{8,}(?=\S)", "\n    ", shown) if name else shown
        if name:
            functions.append((name.group(1), comment, shown))
        else:
            kind = re.match(r"((?:struct|enum) \w+|enum)", shown).group(1)
            types.append((kind, comment, shown))
    first, _, story = story.partition("\n")
    body = [".SH SYNOPSIS", ".B #include <penstock.h>", ".PP", "cc ... $(pkg\\-config \\-\\-cflags \\-\\-libs penstock)",
            ".SH DESCRIPTION", prose(story), ".SH FUNCTIONS"]
    for name, comment, shown in functions:
        body += [f".SS {name}", verbatim(shown.splitlines()), prose(comment)]
    body += [".SH TYPES"]
    for kind, comment, shown in types:
        body += [f".SS {quoted(kind)}", prose(comment), verbatim(shown.splitlines())]
    body += [".SH SEE ALSO", ".BR penstock\\-trainer (1) ,\n.BR penstock\\-run (1)"]
    (folder / "libpenstock.3").write_text(page("libpenstock", 3, version, first.split(": ", 1)[1].rstrip(".").split(",")[0], "\n".join(body)),
                                          encoding="utf-8")
    for name, _, _ in functions:
        (folder / f"{name}.3").write_text(".so man3/libpenstock.3\n", encoding="utf-8")


def main():
    version, output, *sources = sys.argv[1:]
    header_pages([source.partition("=")[2] for source in sources if source.startswith("client=")], version, pathlib.Path(output))
    for source in sources:
        component, _, path = source.partition("=")
        if component != "client":
            program_pages(component, path, version, pathlib.Path(output))


if __name__ == "__main__":
    main()
