"""Icechunk repositories of other versions must decode to what icechunk 2.3.0 reads of them.

    PENSTOCK_CORPORA=FOLDER python test_icechunk_corpora.py --dump PATH/dump_array

Takes ic/ of FOLDER/catalogues.tar.zst: repositories of formats 1 and 2, migrated and expired ones, with split
manifests, read in place at each branch, tag and snapshot. icechunk_digests.txt has, for each array, the first 16 digits
of the SHA-256 of its items, or `virtual`: its chunks lie in a bucket that no configuration allows, and are refused by
name. Without PENSTOCK_CORPORA, the archive or zstd it exits 77 (skipped).
"""

import argparse
import hashlib
import pathlib
import sys
import tempfile

from corpora import unpack
from dumping import Dump

ARCHIVE = "catalogues.tar.zst"
DIGESTS = pathlib.Path(__file__).with_name("icechunk_digests.txt")


def what_is_wrong(dump, folder):
    read = refused = 0
    for line in DIGESTS.read_text(encoding="utf-8").splitlines():
        repository, reference, array, digest = line.split("\t")
        items, message = dump.read(f"icechunk://{folder}/ic/{repository}{reference}", array)
        if items is None:
            refused += 1
            if digest != "virtual" or "set store.virtual" not in message:
                yield f"{repository}{reference} {array}: {message}"
        else:
            read += 1
            if hashlib.sha256(items).hexdigest()[:16] != digest:
                yield f"{repository}{reference} {array}: other items than icechunk's"
    print(f"{read} arrays read, {refused} of virtual chunks refused by name")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-icechunk-") as folder:
        unpack(ARCHIVE, folder)
        with Dump(arguments.dump) as dump:
            wrong = list(what_is_wrong(dump, folder))
    for line in wrong:
        print(f"wrong: {line}")
    print(f"Icechunk's corpora: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
