"""libpenstock.so through ctypes: the paths where it is looked for, and the structs and functions of penstock.h."""

import ctypes
import os
import pathlib
import shutil
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p

MESSAGE_BYTES = 1024
MAX_RANK = 8
MAX_FIELDS = 64
MAX_CUTS = 2
MAX_AXES = 8
STATE_BYTES = 320


class Options(Structure):
    _fields_ = [
        ("run_dir", c_char_p),
        ("rank", c_int32),
        ("world_size", c_int32),
        ("timeout_ms", c_int64),
        ("state", c_char_p),
        ("wait_for_release", c_int32),
        ("name", c_char_p),
        ("coordinates", c_char_p),
    ]


class CStats(Structure):
    _fields_ = [
        ("batches", c_uint64),
        ("samples", c_uint64),
        ("bytes", c_uint64),
        ("waits", c_uint64),
        ("wait_ns", c_uint64),
        ("reconnects", c_uint64),
        ("ready", c_uint32),
        ("leased", c_uint32),
    ]


class Ring(Structure):
    _fields_ = [("base", c_void_p), ("bytes", c_uint64), ("generation", c_uint64)]


RING_FUNCTION = CFUNCTYPE(None, c_void_p, POINTER(Ring))


class RingWatch(Structure):
    _fields_ = [("attached", RING_FUNCTION), ("detaching", RING_FUNCTION), ("user", c_void_p)]


class CCut(Structure):
    _fields_ = [
        ("axis", c_uint32),
        ("whole", c_uint64),
        ("begin", c_uint64),
        ("second", c_uint64),
        ("is_torch_chunk", c_uint32),
        ("over_count", c_uint32),
        ("over", c_uint32 * MAX_AXES),
    ]


class CAxis(Structure):
    _fields_ = [("name", c_char_p), ("size", c_uint32), ("coordinate", c_uint32), ("divides", c_uint32)]


class CField(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", c_uint64 * MAX_RANK),
        ("item_bytes", c_uint64),
        ("sample_bytes", c_uint64),
        ("attributes", c_char_p),
        ("most_items", c_uint64),
        ("steps", c_uint64),
        ("offsets_field", c_uint32),
        ("is_padded", c_uint32),
        ("cut_count", c_uint32),
        ("cuts", CCut * MAX_CUTS),
    ]


class CConstant(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", c_uint64 * MAX_RANK),
        ("item_bytes", c_uint64),
        ("bytes", c_uint64),
        ("data", c_void_p),
        ("attributes", c_char_p),
    ]


class CInfo(Structure):
    _fields_ = [
        ("fields", POINTER(CField)),
        ("field_count", c_uint32),
        ("slot_count", c_uint32),
        ("batch_size", c_uint32),
        ("rank", c_uint32),
        ("world_size", c_uint32),
        ("global_batch_size", c_uint64),
        ("dataset_samples", c_uint64),
        ("steps_per_epoch", c_uint64),
        ("epochs", c_uint64),
        ("start_epoch", c_uint64),
        ("start_step", c_uint64),
        ("seed", c_uint64),
        ("fingerprint", c_uint64),
        ("order_id", c_uint64),
        ("constants", POINTER(CConstant)),
        ("constant_count", c_uint32),
        ("group", c_uint32),
        ("group_count", c_uint32),
        ("is_shared", c_uint32),
        ("axis_count", c_uint32),
        ("axes", CAxis * MAX_AXES),
    ]


class CBatch(Structure):
    _fields_ = [
        ("epoch", c_uint64),
        ("step", c_uint64),
        ("sample_count", c_uint32),
        ("slot", c_uint32),
        ("first_position", c_uint64),
        ("indices", c_void_p),
        ("keys", c_void_p),
        ("valid", c_void_p),
        ("data", c_void_p * MAX_FIELDS),
        ("bound", c_uint64),
        ("steps", c_uint32 * MAX_FIELDS),
    ]


_FUNCTIONS = {
    "penstock_connect_begin": (c_int, [POINTER(Options), POINTER(c_void_p), c_char_p]),
    "penstock_connect_continue": (c_int, [c_void_p, c_int64, POINTER(c_int32), c_char_p]),
    "penstock_describe": (POINTER(CInfo), [c_void_p]),
    "penstock_next": (c_int, [c_void_p, POINTER(CBatch), c_int64]),
    "penstock_skip": (c_int, [c_void_p, c_uint64, c_uint64]),
    "penstock_give": (c_int, [c_void_p, POINTER(CBatch), c_int, c_int32, POINTER(c_uint64), c_void_p]),
    "penstock_release": (c_int, [c_void_p, POINTER(CBatch)]),
    "penstock_trained": (c_int, [c_void_p, c_uint64, c_uint64]),
    "penstock_state": (c_int, [c_void_p, c_char_p, c_size_t]),
    "penstock_stats": (None, [c_void_p, POINTER(CStats), c_size_t]),
    "penstock_watch_rings": (c_int, [c_void_p, POINTER(RingWatch)]),
    "penstock_last_error": (c_char_p, [c_void_p]),
    "penstock_status_text": (c_char_p, [c_int]),
    "penstock_dtype_name": (c_char_p, [c_int]),
    "penstock_version": (c_char_p, []),
    "penstock_leave": (None, [c_void_p]),
    "penstock_fail": (None, [c_void_p, c_char_p]),
    "penstock_close": (None, [c_void_p]),
}

_FILE = "libpenstock.so.0"
_PROGRAMS = ("penstock-reader", "penstock-trainer")

_loaded = None


def _below(prefix):
    """Paths of the library in a prefix or a build tree: lib, lib64, or Debian's lib/<multiarch>."""
    multiarch = sorted(str(path) for path in prefix.glob(f"lib/*-linux-*/{_FILE}"))
    return [str(prefix / "lib" / _FILE), str(prefix / "lib64" / _FILE)] + multiarch


def _candidates():
    """Paths to try, in order. PENSTOCK_LIBRARY, if set, is the only one. Else: this package and its
    build tree, the prefixes of the programs in PATH, and the library that the system's loader finds."""
    given = os.environ.get("PENSTOCK_LIBRARY")
    if given:
        return [given]
    here = pathlib.Path(__file__).resolve().parent
    paths = [str(here / "libpenstock.so")] + _below(here.parent.parent / "build" / "release")
    for program in filter(None, map(shutil.which, _PROGRAMS)):
        paths += _below(pathlib.Path(program).resolve().parent.parent)
    return list(dict.fromkeys(paths)) + [_FILE]


def load():
    """The library, loaded once. An ImportError lists the paths that were tried."""
    global _loaded
    if _loaded is not None:
        return _loaded
    tried = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))  # starts with the path
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        _loaded = library
        return library
    raise ImportError(
        "libpenstock.so was not found: set PENSTOCK_LIBRARY to its path, LD_LIBRARY_PATH to its "
        "folder, or PATH to that of penstock-reader. ('cmake --workflow --preset release' builds "
        "it.) Tried:\n  " + "\n  ".join(tried)
    )


def library_path():
    """The path or name from which libpenstock was loaded."""
    return load()._name


def library_version():
    """The release of the loaded libpenstock, e.g. '0.1.0'."""
    return load().penstock_version().decode()
