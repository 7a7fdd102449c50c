"""Arrays written by zarrs (Rust) must decode to their oracle: the same array with the codec `bytes` alone.

    PENSTOCK_CORPORA=FOLDER python test_zarrs_snapshot.py --dump PATH/dump_array

Takes FOLDER/zarrs_snapshot_v3.tar.zst: one array in each folder <data type>/<kind>/<codec>/<hash>. Each is
either equal to its oracle, or refused with a message that names what is not supported; arrays of data types
that have no oracle we read count as refused, too. Prints how many of each, and fails if any is wrong, or fewer
are read than were. Without PENSTOCK_CORPORA, the archive or zstd it exits 77 (skipped).
"""

import argparse
import collections
import json
import pathlib
import re
import sys
import tempfile

from corpora import unpack
from dumping import Dump

ARCHIVE = "zarrs_snapshot_v3.tar.zst"
LEAST_READ = 200

# What an array of ours may be refused for, by name.
REFUSED = re.compile(r"data type '|codec '|not supported|only \S+ are")

# Codecs that do not keep what they are given: their arrays only have to be read.
LOSSY = {"bitround", "numcodecs.fixedscaleoffset", "numcodecs.bitround", "numcodecs.quantize"}


def arrays_of(folder):
    """(path of the array, name of its variant, what tells its oracle from others, codecs)"""
    for path in sorted(folder.rglob("zarr.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        variant = path.parent.relative_to(folder).parts
        key = json.dumps([variant[:-3], document["data_type"], document["fill_value"], document["shape"]])
        codecs = [codec if isinstance(codec, str) else codec["name"] for codec in document["codecs"]]
        yield path.parent, "/".join(variant[-4:-1]), key, codecs


def compare(dump, folder):
    arrays = list(arrays_of(folder))
    oracles = {}
    for path, _, key, codecs in arrays:
        if codecs == ["bytes"]:
            oracles[key] = dump.read(path)[0]
    counts, wrong, reasons = collections.Counter(), [], collections.Counter()
    for path, name, key, codecs in arrays:
        items, message = dump.read(path)
        if items is None:
            named = REFUSED.search(message)
            counts["refused by name" if named else "wrong"] += 1
            reasons[re.sub(r"^.*?: (array '': )?", "", message)] += 1
            if not named:
                wrong.append(f"{name}: {message}")
        elif LOSSY & set(codecs):
            counts["read, lossy"] += 1
        elif items != oracles.get(key):
            counts["wrong"] += 1
            wrong.append(f"{name}: differs from its oracle ({path.name})")
        else:
            counts["read"] += 1
    return counts, wrong, reasons


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-zarrs-") as folder:
        unpack(ARCHIVE, folder)
        with Dump(arguments.dump) as dump:
            counts, wrong, reasons = compare(dump, pathlib.Path(folder))
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}")
    for line in wrong:
        print(f"wrong: {line}")
    print(f"zarrs_snapshot_v3: {counts['read']} read and equal, {counts['read, lossy']} read, of a codec that "
          f"loses digits, {counts['refused by name']} refused by name, {counts['wrong']} wrong")
    return 1 if counts["wrong"] or counts["read"] < LEAST_READ else 0


if __name__ == "__main__":
    sys.exit(main())
