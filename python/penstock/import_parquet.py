"""penstock import parquet: Parquet files become a Zarr dataset for training.

A row is a sample, or all rows that follow one another with the same key are (--window KEY). Columns of numbers become arrays, and columns
of lists and strings become ragged ones: GROUP/offsets says where each sample's items begin in the other arrays of the group.

The source's blocks of rows are divided into parts, which processes write one by one. A part writes whole chunks: a chunk belongs to the
part that has its first item. All is written to DST.importing, with a journal:

    DST.importing/.journal/plan     what is made of what
    DST.importing/.journal/done.P   part P is written: a checksum of each array's part

After an interruption the same command checks the parts that are done, and writes the others. At the end the journal goes, and the folder
becomes DST: so DST is whole as soon as it is there.
"""

import concurrent.futures
import ctypes
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
import warnings
import zlib
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace

import numpy as np
import zarr
import zarr.codecs

from ._parquet_arrays import check_window, offsets_of, scan_block, targets_of
from ._parquet_cast import convert
from ._parquet_names import check_paths, fields_of, folded, outputs_of
from ._parquet_options import EXIT_FINAL, parse
from ._parquet_source import BadSource, BadValue, Source, items_of, place, row_of

EXIT_FAILED = 1  # the same command may go on; EXIT_FINAL: it would fail again
PART_BYTES = 64 << 20
RUN_CHUNKS = 16  # written, read back and compared together
KILLED = "a process was killed (out of memory?): the same command goes on, with fewer --processes if memory is short"


class Failed(Exception):
    """The message says what failed, and what to do."""

    code = EXIT_FINAL


class FailedForNow(Failed):
    code = EXIT_FAILED


def _codec(options, dtype):
    if options.codec == "none":
        return None
    if options.codec == "zstd":
        return zarr.codecs.ZstdCodec(level=options.level)
    name = options.codec.removeprefix("blosc-")
    return zarr.codecs.BloscCodec(cname=name, clevel=options.level, shuffle="shuffle" if np.dtype(dtype).itemsize > 1 else "noshuffle")


def _create(folder, target, options):
    zarr.create_array(
        store=folder,
        name=target.path,
        shape=target.shape,
        chunks=(target.chunk, *(max(1, n) for n in target.shape[1:])),
        dtype=target.dtype,
        compressors=_codec(options, target.dtype),
        fill_value=0,
        attributes=target.attributes or {},
        overwrite=True,
    )


class Stretch:
    """A part's chunks of one array: those that begin in [first, end) of axis 0."""

    def __init__(self, array, target, first, end, verify):
        length, chunk = target.shape[0], target.chunk
        self.array, self.target, self.verify = array, target, verify
        self.at = self.begin = min(-(-first // chunk) * chunk, length)
        self.end = min(-(-end // chunk) * chunk, length)
        self.waiting, self.waiting_items, self.checksum = [], 0, 0

    def is_full(self):
        return self.at + self.waiting_items >= self.end

    def take(self, values, first):
        """Items from `first` on, which follow those taken before, or come too early."""
        skip = max(0, self.at + self.waiting_items - first)
        values = values[skip : max(skip, self.end - first)]
        if len(values):
            self.waiting.append(values)
            self.waiting_items += len(values)
        run = self.target.chunk * RUN_CHUNKS
        if self.waiting_items >= run or (self.is_full() and self.waiting):
            self._write(self.waiting_items if self.is_full() else self.waiting_items // run * run)

    def _write(self, count):
        values = np.concatenate(self.waiting)
        now, later = values[:count], values[count:]
        self.array[self.at : self.at + count] = now
        if self.verify and self.array[self.at : self.at + count].tobytes() != now.tobytes():
            raise FailedForNow(
                f"{self.target.path}: items {self.at} to {self.at + count} read otherwise than they were written: is the disk sound?"
            )
        self.checksum = zlib.crc32(now, self.checksum)
        self.at += count
        self.waiting, self.waiting_items = ([later], len(later)) if len(later) else ([], 0)

    def check(self):
        """The checksum of what is there."""
        checksum = 0
        run = self.target.chunk * RUN_CHUNKS
        for at in range(self.begin, self.end, run):
            checksum = zlib.crc32(np.ascontiguousarray(self.array[at : min(at + run, self.end)]), checksum)
        return checksum


def _first_items(source, scans_items, targets, block_index):
    """Where a block begins along axis 0 of each target."""
    return [scans_items[t.column.name][block_index] if t.by_items else source.blocks[block_index].first_row for t in targets]


@dataclass(frozen=True)
class Part:
    number: int
    begin: int  # blocks
    end: int


def _quiet_zarr():
    zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})


def _items(block, array, target):
    """A block's items of one column, as the target's dtype."""
    column = target.column

    def where(item):
        return f"{place(block, row_of(array, column, item))}, column {column.name!r}"

    return convert(items_of(array, column), target.dtype, where)


def do_part(job):
    """Writes a part, or checks one that is done. Returns its number and its checksums; None: what is there is not what was written."""
    source, part, targets, firsts, folder, verify, done = job
    _quiet_zarr()
    group = {t.path: zarr.open_array(os.path.join(folder, t.path), mode="r+") for t in targets}
    last = len(source.blocks)
    stretches = [
        Stretch(group[t.path], t, firsts[i][part.begin], t.shape[0] if part.end == last else firsts[i][part.end], verify)
        for i, t in enumerate(targets)
    ]
    if done is not None:
        return part.number, done if all(s.check() == done[s.target.path] for s in stretches) else None
    index = part.begin
    while index < last and (wanting := [(i, s) for i, s in enumerate(stretches) if not s.is_full()]):
        block = source.blocks[index]
        arrays = source.read(block, sorted({s.target.column.name for _, s in wanting}))
        for i, s in wanting:
            s.take(_items(block, arrays[s.target.column.name], s.target), firsts[i][index])
        index += 1
    return part.number, {s.target.path: s.checksum for s in stretches}


def divide(source, process_count):
    """Parts of about equal bytes, several for each process."""
    total = sum(b.stored_bytes for b in source.blocks)
    most = max(1, min(PART_BYTES, total // (4 * process_count)))
    parts, begin, size = [], 0, 0
    for i, block in enumerate(source.blocks):
        size += block.stored_bytes
        if size >= most or i + 1 == len(source.blocks):
            parts.append(Part(len(parts), begin, i + 1))
            begin, size = i + 1, 0
    return parts


class Progress:
    """A line that is drawn anew on a terminal, or a line every ten seconds."""

    def __init__(self, what, total):
        self.what, self.total, self.done = what, total, 0
        self.began = self.drawn = time.monotonic()
        self.is_terminal = sys.stderr.isatty()

    def add(self, count):
        self.done += count
        now = time.monotonic()
        if now - self.began < 1 or now - self.drawn < (0.2 if self.is_terminal else 10):
            return
        self.drawn = now
        left = (now - self.began) / max(self.done, 1) * (self.total - self.done)
        text = f"{self.what}: {100 * self.done // max(self.total, 1)}%, {self.done / (now - self.began):,.0f} rows/s, {left:.0f} s left"
        print(f"\r{text}\x1b[K" if self.is_terminal else text, end="" if self.is_terminal else "\n", file=sys.stderr, flush=True)

    def end(self):
        if self.is_terminal and self.drawn > self.began:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _each(pool, function, jobs, rows, what):
    """The results of all jobs, in their order."""
    progress = Progress(what, sum(rows))
    futures = [pool.submit(function, job) for job in jobs]
    rows_of = dict(zip(futures, rows))
    try:
        for future in concurrent.futures.as_completed(futures):
            yield future.result()
            progress.add(rows_of[future])
    except BrokenProcessPool as error:
        raise FailedForNow(KILLED) from error
    finally:
        for future in futures:
            future.cancel()
        progress.end()


def _plan_text(source, options, targets):
    arrays = [[t.path, t.dtype, list(t.shape), t.chunk] for t in targets]
    return json.dumps(
        {"source": source.identity(), "window": options.window, "codec": options.codec, "level": options.level, "arrays": arrays}, indent=1
    )


def _check_case(folder, outputs):
    """Of a folder just made: refuses what is one name to a file system that makes no difference between 'a' and 'A'."""
    if os.path.exists(os.path.join(folder, ".JOURNAL")):
        try:
            check_paths(outputs, folded)
        except BadSource:
            shutil.rmtree(folder)
            raise


def _begin(folder, destination, plan, targets, outputs, options):
    """Makes the folder, or finds it as an earlier call has left it: then {part: checksums}."""
    journal = os.path.join(folder, ".journal")
    if os.path.exists(os.path.join(journal, "plan")):
        with open(os.path.join(journal, "plan"), encoding="utf-8") as file:
            if file.read() != plan:
                raise Failed(
                    f"{folder}: begun from other files or with other options: remove the folder, or name another destination than {destination}"
                )
        done = {}
        for name in os.listdir(journal):
            if re.fullmatch(r"done\.\d+", name):  # a part's, written whole
                with open(os.path.join(journal, name), encoding="utf-8") as file:
                    done[int(name[5:])] = json.load(file)
        return done
    if os.path.exists(folder):
        shutil.rmtree(folder)
    os.makedirs(journal)
    _check_case(folder, outputs)
    for target in targets:
        _create(folder, target, options)
    _write_whole(os.path.join(journal, "plan"), plan)
    return {}


def _write_whole(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def _write_parts(pool, source, parts, targets, firsts, folder, options, done):
    todo = [(part, done.get(part.number)) for part in parts]
    while todo:
        jobs = [(source, part, targets, firsts, folder, not options.no_verify, checksums) for part, checksums in todo]
        rows = [sum(b.rows for b in source.blocks[part.begin : part.end]) for part, _ in todo]
        again = []
        for number, checksums in _each(pool, do_part, jobs, rows, "writing"):
            if checksums is None:
                again.append((parts[number], None))
            else:
                _write_whole(os.path.join(folder, ".journal", f"done.{number}"), json.dumps(checksums))
        todo = again


def _check_casts(source, casts):
    for name in casts:
        if source.column(name, "--cast").text:
            raise BadSource(f"--cast {name!r}: the column has strings")


def _cast_index(source, target, values, casts, counts):
    """An array of what windows have, cast."""
    column = target.column
    if not column or column.name not in casts:
        return target, values

    def where(window):
        return f"{source.place(int(counts[:window].sum()))}, column {column.name!r}"

    dtype = casts[column.name]
    return replace(target, dtype=dtype), convert(values, dtype, where)


def _scan(pool, source, options):
    ragged = any(c.ragged for c in source.columns.values())
    if not options.window and not ragged:
        return [{}] * len(source.blocks)
    jobs = [(source, block, options.window, options.per_window) for block in source.blocks]
    progress = Progress("looking at lengths", source.row_count)
    scans = []
    try:
        for block, scan in zip(source.blocks, pool.map(scan_block, jobs)):
            scans.append(scan)
            progress.add(block.rows)
    except BrokenProcessPool as error:
        raise FailedForNow(KILLED) from error
    finally:
        progress.end()
    return scans


def _firsts(source, targets, scans):
    """[target][block]: where each block begins along axis 0."""
    rows = [b.first_row for b in source.blocks]
    items = {}
    for t in targets:
        if t.by_items and t.column.name not in items:
            items[t.column.name] = offsets_of([int(scan[t.column.name].sum()) for scan in scans])[:-1].tolist()
    return [items[t.column.name] if t.by_items else rows for t in targets]


def _stored_bytes(folder):
    return sum(os.path.getsize(os.path.join(f, name)) for f, _, names in os.walk(folder) for name in names)


def _pool(processes):
    """One process needs no other one."""
    if processes == 1:
        return concurrent.futures.ThreadPoolExecutor(1)
    return concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _end_with_parent)


def _end_with_parent():
    """The kernel ends this process when its parent is killed; Ctrl-C is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _write(source, outputs, folder, destination, options):
    """Writes what processes write. Returns what the parent has still to write, the number of samples, of parts, and of those that were there."""
    with _pool(options.processes) as pool:
        scans = _scan(pool, source, options)
        targets, indices, counts = targets_of(source, options, scans)
        targets = [replace(t, dtype=options.cast.get(t.column.name, t.dtype)) for t in targets]
        indices = [_cast_index(source, t, values, options.cast, counts) for t, values in indices]
        firsts = _firsts(source, targets, scans)
        parts = divide(source, options.processes)
        done = _begin(folder, destination, _plan_text(source, options, targets), targets, outputs, options)
        bad = None
        try:
            _write_parts(pool, source, parts, targets, firsts, folder, options, done)
        except BadValue as error:
            bad = error
    if bad:  # other options are another plan
        shutil.rmtree(folder)
        raise bad
    return indices, source.row_count if counts is None else len(counts), len(parts), len(done)


def run(options, tell=True):
    """`options` of parse(); tell: what there is now, and its fields."""
    warnings.filterwarnings("ignore", message="Consolidated metadata")  # Penstock reads it
    began = time.monotonic()
    destination = options.destination.rstrip("/")
    if not destination:
        raise Failed(f"DST is {options.destination!r}: name a folder that does not exist yet")
    if os.path.exists(destination):
        raise Failed(f"{destination}: exists already: name another destination, or remove it")
    source = Source(options.files, options.columns, options.exclude, options.rename, getattr(options, "lengths", None))
    if options.window:
        check_window(source, options)
    _check_casts(source, options.cast)
    outputs = outputs_of(source, options)
    check_paths(outputs)
    folder = destination + ".importing"
    indices, samples, parts, done = _write(source, outputs, folder, destination, options)
    for target, values in indices:
        _create(folder, target, options)
        zarr.open_array(os.path.join(folder, target.path), mode="r+")[...] = values
    zarr.open_group(folder, mode="a")
    shutil.rmtree(os.path.join(folder, ".journal"))
    zarr.consolidate_metadata(folder)
    os.rename(folder, destination)
    if not tell:
        return
    source_bytes = sum(os.path.getsize(p) for p in source.files)
    print(
        f"{samples:,} sample{'s' if samples != 1 else ''} of {source.row_count:,} rows in {len(source.files)} file{'s' if len(source.files) > 1 else ''}: "
        f"{source_bytes / 1e6:,.1f} MB of Parquet, {_stored_bytes(destination) / 1e6:,.1f} MB of Zarr, {time.monotonic() - began:.1f} s"
        + (f"; {done} of {parts} parts were there" if done else "")
    )
    print(fields_of(source, options))


def main(arguments=None):
    return guarded("penstock import parquet", run, parse(arguments))


def guarded(name, work, options):
    """The exit code of work(options); a failure is told on standard error."""

    def say(message, code):
        print(f"{name}: {message}", file=sys.stderr)
        return code

    try:
        work(options)
    except BadSource as error:
        return say(error, EXIT_FINAL)
    except Failed as error:
        return say(error, error.code)
    except KeyboardInterrupt:
        return say("interrupted: the same command goes on", EXIT_FAILED)
    except OSError as error:
        return say(f"{error}: the same command goes on once the cause is gone", EXIT_FAILED)
    except MemoryError:
        return say("out of memory: the same command goes on, with fewer --processes", EXIT_FAILED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
