"""The command line of penstock import parquet.

A list A,B or A=X,B=Y has a comma, an equals sign or a backslash of a name behind a backslash. An option with such a list may come again:
the lists add up, and what is named twice is refused. Any other option with a value comes once.
"""

import argparse
import os
import re

from ._parquet_cast import DTYPES

EXIT_FINAL = 4
LEVELS = {"blosc-zstd": (0, 9), "blosc-lz4": (0, 9), "zstd": (-131072, 22)}


def _split(text, separator, most=None):
    """At each separator, or the first `most`, that no backslash is in front of."""
    pieces = [""]
    for token in re.findall(r"\\.|.", text, re.DOTALL):
        if token == separator and (most is None or len(pieces) <= most):
            pieces.append("")
        else:
            pieces[-1] += token
    return pieces


def _plain(text):
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _add(option, found, name):
    if name in found:
        raise argparse.ArgumentError(option, f"column {name!r} is named twice: name it once")


class Names(argparse.Action):
    """A,B: a list of names."""

    def __call__(self, parser, namespace, text, option_string=None):
        found = list(getattr(namespace, self.dest) or [])
        for part in _split(text, ","):
            if part:
                _add(self, found, _plain(part))
                found.append(_plain(part))
        setattr(namespace, self.dest, found)


class Pairs(argparse.Action):
    """A=X,B=Y: {name: value}. `const` has the values that there are, if not all are."""

    def __call__(self, parser, namespace, text, option_string=None):
        found = dict(getattr(namespace, self.dest) or {})
        for part in (p for p in _split(text, ",") if p):
            name, *value = map(_plain, _split(part, "=", 1))
            if not value or (self.const and value[0] not in self.const):
                raise argparse.ArgumentError(self, f"'{part}': write {self.metavar.split(',')[0].replace('A=', 'COLUMN=')}, such as {self.metavar.split(',')[1]}")
            _add(self, found, name)
            found[name] = value[0]
        setattr(namespace, self.dest, found)


class Once(argparse.Action):
    """A value, or as many as `nargs` says, that is given once."""

    def __call__(self, parser, namespace, values, option_string=None):
        given = namespace.__dict__.setdefault("_given", set())
        if option_string and self.dest in given:
            raise argparse.ArgumentError(self, "given twice: give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(EXIT_FINAL, f"{self.prog}: {message}\nTry '{self.prog} --help'.\n")


def _positive(text):
    if not re.fullmatch(r"[0-9]+", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': not a whole number from 1 on")
    return int(text)


def _check_level(parser, options):
    if options.level is not None and options.codec == "none":
        parser.error(f"--level {options.level}: --codec none has no level")
    low, high = LEVELS.get(options.codec, (0, 9))
    if options.level is None:
        options.level = 3
    if not low <= options.level <= high:
        parser.error(f"--level {options.level}: {options.codec} has levels from {low} to {high}")


def parse(arguments):
    parser = _Parser(
        prog="penstock import parquet",
        description="Write Parquet files as a Zarr dataset for training. A row is a sample, or, with --window KEY, all rows that follow one another "
        "with the same KEY are. Columns of numbers become arrays; lists, strings and the rows of windows become ragged arrays with offsets.",
        epilog="After an interruption the same command goes on. DST is there once it is whole. At the end the fields are printed for the run's "
        "configuration. An option whose value is a list may come again, and the lists add up; the others come once. In a list a comma, an equals "
        "sign or a backslash of a name has a backslash in front. Exit code: 0 done; 1 failed, and the same command can go on; 4 failed, and will fail again.\n",
    )
    parser.register("action", None, Once)
    parser.add_argument("files", nargs="+", metavar="FILE", help="Parquet file, or folder of files (Hive folders key=value become columns)")
    parser.add_argument("destination", metavar="DST", help="folder of the Zarr dataset, which does not exist yet")
    parser.add_argument("--window", metavar="KEY", help="column: rows with the same value, one after another, are one sample")
    parser.add_argument(
        "--per-window", metavar="A,B", action=Names, default=[], help="columns that have one value in a window, such as labels"
    )
    parser.add_argument(
        "--group", metavar="NAME", default="items", help="with --window: the group for offsets and columns of items (items)"
    )
    parser.add_argument("--columns", metavar="A,B", action=Names, help="only these columns (all)")
    parser.add_argument("--exclude", metavar="A,B", action=Names, default=[], help="not these columns")
    parser.add_argument(
        "--cast",
        metavar="A=DTYPE,...",
        action=Pairs,
        const=DTYPES,
        default={},
        help="store columns as other dtypes. A value that is another one after the cast is an error: one out of range, a fraction or NaN as a "
        "whole number, a whole number that a float has not. Between floats values are rounded, and one that would become infinite is an error",
    )
    parser.add_argument(
        "--rename", metavar="A=NAME,...", action=Pairs, default={}, help="other names for the arrays of columns; the other options have A"
    )
    parser.add_argument("--chunk-rows", metavar="N", type=_positive, help="rows of a chunk (about 1 MiB)")
    parser.add_argument("--chunk-items", metavar="N", type=_positive, help="items of a chunk of a ragged array (about 1 MiB)")
    parser.add_argument("--codec", choices=["blosc-zstd", "blosc-lz4", "zstd", "none"], default="blosc-zstd", help="(blosc-zstd)")
    parser.add_argument("--level", metavar="N", type=int, help="the codec's level (3)")
    parser.add_argument("--processes", metavar="N", type=_positive, default=len(os.sched_getaffinity(0)), help="(one per CPU)")
    parser.add_argument("--no-verify", action="store_true", help="do not read written chunks back")
    options = parser.parse_args(arguments)
    _check_level(parser, options)
    if options.per_window and not options.window:
        parser.error("--per-window goes with --window")
    return options
