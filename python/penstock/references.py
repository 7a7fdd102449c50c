"""python3 -m penstock.references IN OUT: references of kerchunk or VirtualiZarr from Parquet to JSON, which penstock reads.

IN is their folder: `.zmetadata` has the arrays' metadata, and how many chunks a file ARRAY/refs.N.parq has. OUT appears whole or not at
all. Takes pyarrow (pip install 'penstock-loader[parquet]').

Source: fsspec/implementations/reference.py, LazyReferenceMapper.
"""

import argparse
import base64
import itertools
import json
import os
import sys

EXIT_FINAL = 4


class Damaged(Exception):
    """The message says what is wrong."""


def _rows(path):
    """Each chunk as (url, offset, size, bytes); the first and the last may be None."""
    import pyarrow.parquet

    columns = pyarrow.parquet.read_table(path, columns=["path", "offset", "size", "raw"]).to_pydict()
    return zip(columns["path"], columns["offset"], columns["size"], columns["raw"])


def _chunk_keys(array):
    """The names of an array's chunks, in order: the last axis changes first."""
    if not array["shape"]:
        return iter(["0"])
    counts = [-(-length // chunk) for length, chunk in zip(array["shape"], array["chunks"])]
    separator = array.get("dimension_separator", ".")
    return (separator.join(map(str, index)) for index in itertools.product(*map(range, counts)))


def _reference(url, offset, size, raw):
    """None: there is no such chunk."""
    if raw is not None:
        return "base64:" + base64.b64encode(raw).decode("ascii")
    if url is None:
        return None
    return [url, offset, size] if size else [url]


def _references(folder, metadata, record_size):
    for name, document in metadata.items():
        yield name, document
    for name, array in metadata.items():
        if os.path.basename(name) != ".zarray":
            continue
        path = os.path.dirname(name)
        keys = _chunk_keys(array)
        for record in itertools.count():
            some = list(itertools.islice(keys, record_size))
            if not some:
                break
            file = os.path.join(folder, path, f"refs.{record}.parq")
            if not os.path.exists(file):
                continue  # no chunk of these
            for key, row in zip(some, _rows(file)):
                reference = _reference(*row)
                if reference is not None:
                    yield f"{path}/{key}" if path else key, reference


def convert(folder, target):
    """Returns how many references there are, metadata included."""
    with open(os.path.join(folder, ".zmetadata"), encoding="utf-8") as file:
        document = json.load(file)
    if not isinstance(document.get("metadata"), dict) or not isinstance(document.get("record_size"), int) or document["record_size"] < 1:
        raise Damaged(f"'{folder}/.zmetadata' has no 'metadata' and 'record_size': these are no references as Parquet")
    count = 0
    temporary = f"{target}.writing"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write('{"version": 1, "refs": {')
            for name, reference in _references(folder, document["metadata"], document["record_size"]):
                file.write(f"{',' if count else ''}\n{json.dumps(name)}: {json.dumps(reference)}")
                count += 1
            file.write("\n}}\n")
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    return count


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m penstock.references", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="IN", help="the folder with .zmetadata")
    parser.add_argument("target", metavar="OUT", help="the file of JSON")
    options = parser.parse_args(arguments)
    try:
        count = convert(options.folder, options.target)
    except ImportError as error:
        return _say(f"{error}: pip install 'penstock-loader[parquet]'")
    except (Damaged, OSError, ValueError, KeyError, TypeError) as error:  # pyarrow's are ValueErrors
        return _say(f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, TypeError)) else error)
    print(f"{count:,} references: reference://{os.path.abspath(options.target)}")
    return 0


def _say(message):
    print(f"penstock.references: {message}", file=sys.stderr)
    return EXIT_FINAL


if __name__ == "__main__":
    sys.exit(main())
