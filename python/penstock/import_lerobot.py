"""penstock import lerobot: a LeRobot dataset (v3) becomes a Zarr dataset for training.

Columns of data/ become arrays, by import_parquet. A video becomes an array of pictures [frames, 3, height, width]: those that ffmpeg
decodes. Beside them come meta/episode_ends and meta/tasks.

DST.importing/.videos/done.N says that the pictures of feature N are written. After an interruption the same command decodes the others. At the end the
folder becomes DST: so DST is whole as soon as it is there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
import zarr.codecs

from . import import_parquet
from ._parquet_names import _word
from ._parquet_options import EXIT_FINAL, _Parser, _positive
from ._parquet_source import BadSource, find_files

VERSION = "v3.0"
COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
TASK_BYTES = 1024


@dataclass(frozen=True)
class Video:
    """A file, and the frames of the dataset that it has, one episode after another: (its first frame in the file, first, end)."""

    path: str
    episodes: tuple


def _json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise BadSource(
            f"{path}: {getattr(error, 'strerror', None) or error}: name the folder of a LeRobot dataset, which has meta and data"
        ) from error


def _columns(paths, names, what):
    """{name: NumPy array} of Parquet files."""
    parts = []
    for path in find_files(paths):
        try:
            found = pq.read_schema(path).names
            for name in names:
                if name not in found:
                    raise BadSource(
                        f"{path}: no column '{name}', which tells {what}: the dataset is not whole, or not of LeRobot {VERSION}"
                    )
            parts.append(pq.read_table(path, columns=list(names)))
        except (pa.ArrowException, OSError) as error:
            raise BadSource(f"{path}: not a Parquet file that pyarrow can read: {error}") from error
    table = pa.concat_tables(parts)
    for name in names:
        if table[name].null_count:
            raise BadSource(f"{paths[0]}: column '{name}' has nulls, and tells {what}: the dataset is not whole")
    return {name: table[name].to_numpy() for name in names}


class Robot:
    """What the files in meta say."""

    def __init__(self, folder):
        self.folder = folder
        info = _json(self._path("meta/info.json"))
        version = info.get("codebase_version")
        if version != VERSION:
            raise BadSource(
                f"{folder}: a LeRobot dataset of version {version}, and {VERSION} is read: convert it by "
                f"python -m lerobot.datasets.v30.convert_dataset_v21_to_v30"
            )
        self.rate, self.features = info["fps"], info["features"]
        self.video_path = info.get("video_path")
        for name, feature in self.features.items():
            if feature["dtype"] == "image":
                raise BadSource(
                    f"{folder}: feature '{name}' is of pictures within Parquet, which are not read: record the dataset with videos"
                )
        self.videos = [name for name, feature in self.features.items() if feature["dtype"] == "video"]
        self.columns = [name for name in self.features if name not in self.videos]
        self._read_episodes(info)
        self.tasks = self._tasks()

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _read_episodes(self, info):
        places = [f"videos/{name}/{what}" for name in self.videos for what in ("chunk_index", "file_index", "from_timestamp")]
        told = _columns([self._path("meta/episodes")], ["episode_index", "length", *places], "where episodes are")
        order = np.argsort(told["episode_index"], kind="stable")
        self.told = {name: values[order] for name, values in told.items()}
        if self.told["episode_index"].tolist() != list(range(len(order))):
            raise BadSource(
                f"{self._path('meta/episodes')}: episodes are not those from 0 to {len(order) - 1}, each once: the dataset is not whole"
            )
        self.ends = np.cumsum(self.told["length"]).astype("i8")
        if len(order) == 0 or self.ends[-1] != info.get("total_frames"):
            raise BadSource(
                f"{self._path('meta/episodes')}: the episodes have {self.ends[-1] if len(order) else 0} frames, and meta/info.json says "
                f"{info.get('total_frames')}: the dataset is not whole"
            )

    def _tasks(self):
        """uint8 [tasks, bytes]: texts, with zeros behind them."""
        path = self._path("meta/tasks.parquet")
        try:
            table = pq.read_table(path)
            texts = next(name for name in table.column_names if name != "task_index")
            told = sorted(zip(table["task_index"].to_pylist(), table[texts].to_pylist()))
        except (pa.ArrowException, OSError, KeyError, StopIteration) as error:
            raise BadSource(f"{path}: no table of task_index and task: {error}") from error
        found = [text.encode() for _, text in told]
        if [number for number, _ in told] != list(range(len(told))) or max(map(len, found), default=0) > TASK_BYTES:
            raise BadSource(f"{path}: tasks are not those from 0 to {len(told) - 1}, each once and of {TASK_BYTES} bytes at most")
        width = max(map(len, found), default=0)
        return np.array([list(text.ljust(max(1, width), b"\0")) for text in found], "u1").reshape(len(found), -1)

    def files_of(self, name):
        """The Videos of a feature, in the order of frames."""
        chunks, numbers, begins = (self.told[f"videos/{name}/{what}"] for what in ("chunk_index", "file_index", "from_timestamp"))
        files = {}
        for episode, (chunk, number, begin) in enumerate(zip(chunks.tolist(), numbers.tolist(), begins.tolist())):
            path = self._path(self.video_path.format(video_key=name, chunk_index=chunk, file_index=number))
            end = int(self.ends[episode])
            files.setdefault(path, []).append((round(begin * self.rate), end - int(self.told["length"][episode]), end))
        return [Video(path, tuple(sorted(episodes))) for path, episodes in files.items()]

    def check_rows(self, group):
        """The frames that were imported are those of the episodes, in their order."""
        wanted = np.repeat(np.arange(len(self.ends)), self.told["length"])
        count = group["index"].shape[0]
        if count != len(wanted):
            raise BadSource(f"{self._path('data')}: {count} rows, and meta/episodes says {len(wanted)}: the dataset is not whole")
        for name, of in (("episode_index", wanted), ("index", np.arange(count))):
            bad = np.flatnonzero(group[name][:] != of)
            if len(bad):
                raise BadSource(
                    f"{self._path('data')}: at row {bad[0]} column '{name}' is not what meta/episodes says: the dataset is not whole"
                )
        if group["task_index"][:].max() >= len(self.tasks):
            raise BadSource(
                f"{self._path('data')}: frames have more tasks than the {len(self.tasks)} of meta/tasks.parquet: the dataset is not whole"
            )


def _run_ffmpeg(words, **more):
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **more)
    except OSError as error:
        raise BadSource(f"{words[0]} does not start: {error}: put FFmpeg's programs in PATH (apt-get install ffmpeg)") from error


def _check_size(path, shape):
    """Of what ffmpeg is going to give; `shape`: height, width, colours."""
    with _run_ffmpeg(
        ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height", "-of", "csv=p=0", path],
        stderr=subprocess.STDOUT,
    ) as probe:
        said = probe.stdout.read().decode(errors="replace").strip()
    if probe.returncode != 0 or not said:
        raise BadSource(f"{path}: no video that FFmpeg reads: {' '.join(said.split()) or 'it has no pictures'}")
    wanted = f"{shape[1]},{shape[0]}"
    if said.rstrip(",") != wanted or shape[2] != 3:
        raise BadSource(
            f"{path}: pictures of {said.replace(',', ' x ')} pixels, and meta/info.json says {wanted.replace(',', ' x ')} with {shape[2]} colours"
        )


def decoded(video, shape, most):
    """Pictures uint8 [up to `most`, 3, height, width] with the frame of the dataset that the first one is, in the file's order."""
    _check_size(video.path, shape)
    count = max(first - begin + end for first, begin, end in video.episodes)
    size = int(np.prod(shape))
    words = [
        "ffmpeg",
        "-v",
        "error",
        "-nostdin",
        "-i",
        video.path,
        "-map",
        "0:v:0",
        "-fps_mode",
        "passthrough",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    with tempfile.TemporaryFile() as said, _run_ffmpeg(words, stderr=said) as ffmpeg:
        try:
            at = 0
            for first, begin, end in video.episodes:
                if at != first:
                    raise BadSource(
                        f"{video.path}: the episode of frame {begin} begins with the video's frame {first}, and the one before ends with "
                        f"{at}: meta/episodes does not fit the video"
                    )
                while begin < end:
                    pixels = ffmpeg.stdout.read(min(most, end - begin) * size)
                    whole = len(pixels) // size
                    if whole == 0:
                        said.seek(0)
                        why = " ".join(said.read(1000).decode(errors="replace").split())
                        raise BadSource(
                            f"{video.path}: {at} frames, and meta/episodes says {count}{': ' + why if why else ''}: the dataset is not whole"
                        )
                    pictures = np.frombuffer(pixels, "u1", whole * size).reshape(whole, *shape)
                    yield begin, pictures.transpose(0, 3, 1, 2)
                    begin, at = begin + whole, at + whole
            if ffmpeg.stdout.read(1):
                raise BadSource(f"{video.path}: more than the {count} frames that meta/episodes says: the dataset is not whole")
        finally:
            ffmpeg.kill()


def _write_video(folder, robot, name, options):
    """Whole chunks are written, read back and compared."""
    shape, count = tuple(robot.features[name]["shape"]), int(robot.ends[-1])
    chunk = min(options.chunk_rows or 8, count)
    array = zarr.create_array(
        store=folder,
        name=name,
        shape=(count, shape[2], *shape[:2]),
        chunks=(chunk, shape[2], *shape[:2]),
        dtype="u1",
        fill_value=0,
        compressors=zarr.codecs.BloscCodec(cname="zstd", clevel=3, shuffle="noshuffle"),
        overwrite=True,
    )
    run = chunk * max(1, import_parquet.PART_BYTES // 4 // (chunk * int(np.prod(shape))))
    waiting, waiting_count, at = [], 0, 0
    progress = import_parquet.Progress(f"decoding {name}", count)
    for video in robot.files_of(name):
        for begin, pictures in decoded(video, shape, run):
            if begin != at + waiting_count:
                raise BadSource(
                    f"{video.path}: frame {begin} follows frame {at + waiting_count - 1}: episodes are not in the order of their videos"
                )
            waiting, waiting_count = [*waiting, pictures], waiting_count + len(pictures)
            if waiting_count >= run or begin + len(pictures) == count:
                now = np.concatenate(waiting)
                end = count if at + waiting_count == count else at + waiting_count // chunk * chunk
                array[at:end] = now[: end - at]
                if not np.array_equal(array[at:end], now[: end - at]):
                    raise import_parquet.FailedForNow(
                        f"{name}: frames {at} to {end} read otherwise than they were written: is the disk sound?"
                    )
                progress.add(end - at)
                waiting, waiting_count, at = [now[end - at :]], len(now) - (end - at), end
    progress.end()


def _fields(robot, destination):
    fields = [
        f"    {_word(name)}: {{array: {_word(name)}{', mean: 0, std: 255' if name in robot.videos else ''}}}"
        for name in robot.features
    ]
    return "\n".join(
        [
            "dataset:",
            f"  uri: {_word(destination)}",
            "  constants: [meta/tasks]",
            "  fields:",
            *fields,
            "samples: {episodes: {ends: meta/episode_ends}}",
        ]
    )


def _shapes(robot):
    """{column: length} of those whose rows are lists of one length."""
    return {name: robot.features[name]["shape"][0] for name in robot.columns if robot.features[name]["shape"] not in ([], [1])}


def _import_columns(robot, folder, options):
    """By import_parquet, which makes a journal of its own."""
    words = [robot._path("data"), folder, *[word for name in robot.columns for word in ("--columns", name.replace(",", "\\,"))]]
    words += ["--processes", str(options.processes)] if options.processes else []
    wanted = import_parquet.parse(words)
    wanted.lengths = _shapes(robot)
    import_parquet.run(wanted, tell=False)


def _begin(robot, folder, options):
    """Has the columns in the folder, unless an earlier call did that. Returns the journal."""
    journal = os.path.join(folder, ".videos")
    path = os.path.join(journal, "plan")
    plan = json.dumps([os.path.abspath(robot.folder), os.stat(robot._path("meta/info.json")).st_mtime_ns, options.chunk_rows])
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() != plan:
                raise import_parquet.Failed(
                    f"{folder}: begun from another dataset or with other options: remove the folder, or name another destination"
                )
        return journal
    shutil.rmtree(folder, ignore_errors=True)
    _import_columns(robot, folder, options)
    try:
        robot.check_rows(zarr.open_group(folder, mode="a"))
    except BadSource:
        shutil.rmtree(folder)
        raise
    os.makedirs(journal)
    import_parquet._write_whole(path, plan)
    return journal


def run(options):
    warnings.filterwarnings("ignore", message="Consolidated metadata")  # Penstock reads it
    began = time.monotonic()
    destination = options.destination.rstrip("/")
    if not destination or os.path.exists(destination):
        raise import_parquet.Failed(f"DST is {options.destination!r}: name a folder that does not exist yet")
    robot = Robot(options.source)
    folder = destination + ".importing"
    journal = _begin(robot, folder, options)
    for name in robot.videos:
        done = os.path.join(journal, f"done.{name}")
        if not os.path.exists(done):
            _write_video(folder, robot, name, options)
            import_parquet._write_whole(done, "")
    for name, values in (("meta/episode_ends", robot.ends), ("meta/tasks", robot.tasks)):
        zarr.create_array(store=folder, name=name, data=values, overwrite=True)
    shutil.rmtree(journal)
    zarr.consolidate_metadata(folder)
    os.rename(folder, destination)
    print(
        f"{robot.ends[-1]:,} frames of {len(robot.ends)} episodes, {len(robot.videos)} videos of each: "
        f"{import_parquet._stored_bytes(robot.folder) / 1e6:,.1f} MB of LeRobot, {import_parquet._stored_bytes(destination) / 1e6:,.1f} MB of Zarr, "
        f"{time.monotonic() - began:.1f} s"
    )
    print(_fields(robot, options.destination))


def parse(arguments):
    parser = _Parser(
        prog="penstock import lerobot",
        description="Write a LeRobot dataset (v3: Parquet and MP4) as a Zarr dataset for training: each column an array, each camera an array of "
        "pictures [frames, 3, height, width] in uint8, as ffmpeg decodes them, and meta/episode_ends and meta/tasks.",
        epilog="After an interruption the same command goes on. DST is there once it is whole. At the end the fields are printed for the run's "
        "configuration. Exit code: 0 done; 1 failed, and the same command can go on; 4 failed, and will fail again.\n",
    )
    parser.add_argument("source", metavar="FOLDER", help="of the dataset, which has meta, data and videos")
    parser.add_argument("destination", metavar="DST", help="folder of the Zarr dataset, which does not exist yet")
    parser.add_argument("--chunk-rows", metavar="N", type=_positive, help="pictures of a chunk (8)")
    parser.add_argument("--processes", metavar="N", type=_positive, help="for columns (one per CPU)")
    return parser.parse_args(arguments)


def main(arguments=None):
    return import_parquet.guarded("penstock import lerobot", run, parse(arguments))


if __name__ == "__main__":
    sys.exit(main())
