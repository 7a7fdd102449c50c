"""KeyboardInterrupt at a chosen place of the package, as a signal's handler would raise it."""

import os
import sys

import penstock

PACKAGE = os.path.dirname(penstock.__file__)


def _is_swallowed(frame):
    """Python only prints what is raised in a finalizer, or while it closes a generator's expression."""
    while frame is not None and frame.f_code.co_name not in ("give_back", "<genexpr>"):
        frame = frame.f_back
    return frame is not None


def call(function, place):
    """function(), with KeyboardInterrupt at the place of that number, if there are so many. Places are where Python
    handles signals: a function's start, and behind a call of C."""
    left = place

    def profile(frame, event, _):
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE) and not _is_swallowed(frame):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        return function()
    finally:
        sys.setprofile(None)


def steps_in_spite_of_interrupts(iterator):
    """Steps of the batches that an iterator gives, each with an interrupt at one place more; and how many places."""
    steps, place, interrupted = [], 0, True
    while interrupted:
        place, interrupted = place + 1, False
        try:
            steps.append(call(iterator.__next__, place).step)
        except KeyboardInterrupt:
            interrupted = True
            steps.append(next(iterator).step)
    return steps, place
