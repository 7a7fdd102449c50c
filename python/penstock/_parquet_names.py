"""Which paths of arrays the names of columns become, and the fields of a configuration that has them."""

import json
import re
import unicodedata
from dataclasses import dataclass

from ._parquet_source import BadSource

SEGMENT_BYTES = 255  # of a file's name
PATH_BYTES = 511  # of an array's path, as Penstock reads it
FIELD_BYTES = 63  # of the name of a field
YAML_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def written(name):
    """The name as it is written in a list."""
    return re.sub(r"([\\,=])", r"\\\1", name)


@dataclass(frozen=True)
class Output:
    """An array that there will be, and the option that gives it another name."""

    path: str
    whose: str
    rename: str

    @staticmethod
    def of(path, column, role=""):
        return Output(path, f"column {column.name!r}{role}", f"--rename '{written(column.name)}=NAME'")


def outputs_of(source, options):
    """All arrays that the columns become."""
    outputs = []
    for c in source.columns.values():
        is_item = options.window and c.name not in (options.window, *options.per_window)
        path = f"{options.group}/{c.path}" if is_item else c.path
        if c.ragged:
            outputs += [Output.of(f"{path}/values", c), Output.of(f"{path}/offsets", c, " (its offsets)")]
        else:
            outputs.append(Output.of(path, c))
    if options.window:
        outputs.append(Output(f"{options.group}/offsets", "the offsets of windows", "--group NAME"))
    return outputs


def _unfit(path):
    """Why there can be no array with this path, or None."""
    for part in path.split("/"):
        if not part:
            return "a part of it is empty"
        if part.startswith(".") or part == "zarr.json":
            return f"{part!r} is no name for an array or a group"
        if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in part):
            return "it has a control character or the end of a line"
        if len(part.encode(errors="replace")) > SEGMENT_BYTES:
            return f"names of files have {SEGMENT_BYTES} bytes at most"
    return f"paths of arrays have {PATH_BYTES} bytes at most" if len(path.encode()) > PATH_BYTES else None


def check_paths(outputs, fold=str):
    """Refuses paths that cannot be, and two arrays of which one would take the other's place. fold(path) is what a file system compares."""
    owners = {}
    for output in outputs:
        if why := _unfit(output.path):
            raise BadSource(f"{output.whose} would be array {output.path!r}, and {why}: {output.rename} gives another name")
        other = owners.setdefault(fold(output.path), output)
        if other is not output:
            which = f"array {other.path!r}" if other.path == output.path else f"{other.path!r} and {output.path!r}, which are one name here"
            raise BadSource(f"{other.whose} and {output.whose} would both be {which}: {output.rename} gives the second another name")
    for output in outputs:
        parts = output.path.split("/")
        for end in range(1, len(parts)):
            if parent := owners.get(fold("/".join(parts[:end]))):
                raise BadSource(
                    f"{output.whose} would be array {output.path!r} within array {parent.path!r} of {parent.whose}, and no array has arrays "
                    f"within: {parent.rename} gives the latter another name"
                )


def folded(path):
    """Of file systems for which 'a' and 'A' are one name."""
    return unicodedata.normalize("NFC", path).casefold()


def _word(text):
    """A word of YAML that means this text."""
    return text if re.fullmatch(r"[A-Za-z_/.][\w./-]*", text, re.ASCII) and text.lower() not in YAML_WORDS else json.dumps(text, ensure_ascii=False)


def _field(path):
    """A field's name for what lies at `path`."""
    return _word(path if len(path.encode()) <= FIELD_BYTES else path.encode()[-FIELD_BYTES:].decode(errors="ignore"))


def _ragged(path, columns):
    what = f"values: {_word(columns[0])}" if len(columns) == 1 else f"columns: [{', '.join(map(_word, columns))}]"
    return f"    {_field(path)}: {{ragged: {{offsets: {_word(path + '/offsets')}, {what}}}}}"


def fields_of(source, options):
    """The configuration's fields, for the user to copy."""
    lines, items = [], []
    for c in source.columns.values():
        if options.window and c.name not in (options.window, *options.per_window):
            items.append(f"{options.group}/{c.path}")
        elif c.ragged:
            lines.append(_ragged(c.path, [f"{c.path}/values"]))
        else:
            lines.append(f"    {_field(c.path)}: {{array: {_word(c.path)}}}")
    if items:
        lines.append(_ragged(options.group, items))
    return "\n".join(["dataset:", f"  uri: {_word(options.destination)}", "  fields:", *lines])
