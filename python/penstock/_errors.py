"""One exception class for each status of libpenstock. penstock.Error is the base of all."""


class Error(Exception):
    """The service, or the connection to the service, failed. The text says what, where and why."""

    status = None


class Invalid(Error, ValueError):
    """An argument or environment variable makes no sense, or all slots are leased."""

    status = 1


class NotFound(Error):
    """No service answers in the run directory."""

    status = 2


class InputOutput(Error, OSError):
    """A system call failed."""

    status = 3


class Corrupt(Error):
    """The dataset is damaged. The text names array and chunk."""

    status = 4


class Unsupported(Error):
    """Service and library are of different releases."""

    status = 5


class OutOfMemory(Error, MemoryError):
    """Memory does not suffice. The text names sizes."""

    status = 6


class Protocol(Error):
    """The other side sent nonsense."""

    status = 7


class Refused(Error):
    """The service refused this trainer: its rank, world size or user."""

    status = 8


class Timeout(Error, TimeoutError):
    """No batch, or no connection, came in time."""

    status = 9


class Ended(Error):
    """All epochs are consumed."""

    status = 10


class Lost(Error, ConnectionError):
    """The service went away."""

    status = 11


class Interrupted(Error):
    """The service was stopped by a signal."""

    status = 12


class MPIFailed(Error):
    """The service failed in MPI."""

    status = 13


OK = 0
_CLASSES = {
    cls.status: cls
    for cls in (
        Invalid,
        NotFound,
        InputOutput,
        Corrupt,
        Unsupported,
        OutOfMemory,
        Protocol,
        Refused,
        Timeout,
        Ended,
        Lost,
        Interrupted,
        MPIFailed,
    )
}


def error_for(status, message):
    """The exception for a status other than OK."""
    return _CLASSES.get(status, Error)(message)
