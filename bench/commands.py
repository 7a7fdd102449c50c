"""Starts commands for the benchmarks, and says why one failed. Only the standard library."""
import re
import subprocess
import sys


class Failed(Exception):
    """A program that failed or took too long; the text says why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def reason_of(output):
    """The last exception of a Python program that its output names, else the last line."""
    lines = output.strip().splitlines() or ["no reason given"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception|Invalid): ", line)), lines[-1])


def run(command, timeout, **options):
    """Standard output of a program."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, check=False,
                              **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {timeout:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"exit code {done.returncode}: {reason_of(done.stdout + done.stderr)}")
    return done.stdout
