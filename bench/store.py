#!/usr/bin/env python3
"""Serves a folder as an object store, until its standard input ends: over HTTP, and as S3 does with GetObject and
HeadObject, where a bucket is a folder. Signatures are not looked at.

    store.py FOLDER ADDRESS     prints the URL
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "mpi"))

import servers  # noqa: E402


def main():
    if not servers.nginx_program():
        sys.exit("there is no nginx")
    server = servers.Nginx(pathlib.Path(sys.argv[1]).resolve(), address=sys.argv[2])
    try:
        print(server.url, flush=True)
        sys.stdin.read()
    finally:
        server.close()


if __name__ == "__main__":
    main()
