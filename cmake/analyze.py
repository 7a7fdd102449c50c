#!/usr/bin/env python3
"""gcc -fanalyzer over every C file of a compilation database: analyze.py GCC BUILD JOBS FOLDER...

Takes the commands as they are, with that compiler and without output. Prints what it warns of; exits 1 if it
does. It follows paths through whole functions, and takes some minutes.
"""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def command_of(entry, compiler):
    words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = os.devnull
    # Without optimisation gcc 12 takes what memcpy() copies from a number of another type for uninitialised.
    # Leaks are for clang-tidy and LeakSanitizer: gcc takes whatever is returned through a pointer for one.
    return [compiler, *words[1:], "-O2", "-fanalyzer", "-Wno-analyzer-malloc-leak", "-Werror",
            "-fdiagnostics-color=never"]


def analyze(entry, compiler):
    return subprocess.run(command_of(entry, compiler), cwd=entry["directory"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    compiler, build, jobs, *folders = sys.argv[1:]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file)}
    wanted = [entries[path] for path in sorted(entries)
              if any(path.startswith(os.path.abspath(folder) + os.sep) for folder in folders)]
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        outcomes = pool.map(lambda entry: analyze(entry, compiler), wanted)
        findings = [outcome.stdout for outcome in outcomes if outcome.returncode != 0]
    print("\n".join(findings) or f"{len(wanted)} files, nothing found")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
