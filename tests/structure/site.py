"""The pages are a site: MkDocs builds it, docs/README.md lists each page, and each link within docs leads somewhere.

    python site.py SOURCE_DIRECTORY
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    source = pathlib.Path(sys.argv[1])
    if not importlib.util.find_spec("mkdocs"):
        print(f"skipped: {sys.executable} has no mkdocs: pip install 'mkdocs<2'")
        return 77
    with tempfile.TemporaryDirectory(prefix="penstock-site-") as site:
        outcome = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", source / "mkdocs.yml", "--site-dir", site],
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, stderr=subprocess.STDOUT, check=False)
        pages = len([*pathlib.Path(site).glob("*/*.html")])
        searched = (pathlib.Path(site) / "search" / "search_index.json").exists()
        print(f"{pages} pages, {'with' if searched else 'without'} search")
        return 1 if outcome.returncode or pages < 20 or not searched else 0


sys.exit(main())
