"""penstock import lerobot: a small dataset of LeRobot's layout, written by pyarrow and ffmpeg, and what is wrong with such datasets.

test_import_lerobot.py --penstock PROGRAM
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    if zarr.__version__.startswith(("2.", "3.0.")):
        raise ImportError(f"zarr-python is {zarr.__version__}, not 3.1 or later")
    if not shutil.which("ffmpeg"):
        raise ImportError("there is no program ffmpeg")
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
PROGRAM = None
LENGTHS, FILES, RATE, HEIGHT, WIDTH = (5, 9, 1, 6), (0, 0, 1, 1), 10, 16, 32  # of each episode: frames, and which file
CAMERA = "observation.images.top"
FEATURES = {
    CAMERA: {"dtype": "video", "shape": [HEIGHT, WIDTH, 3]},
    "observation.state": {"dtype": "float32", "shape": [2]},
    "next.reward": {"dtype": "float32", "shape": [1]},
    **{name: {"dtype": "int64", "shape": [1]} for name in ("frame_index", "episode_index", "index", "task_index")},
    "timestamp": {"dtype": "float32", "shape": [1]},
}


def write_video(path, pictures):
    """Without loss: pictures are grey."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{WIDTH}x{HEIGHT}", "-r", str(RATE), "-i", "-",
                    "-c:v", "ffv1", str(path)], input=pictures.tobytes(), check=True)


def write_table(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def write(folder):
    """The pictures and the states."""
    rng, count = np.random.default_rng(0), sum(LENGTHS)
    ends = np.cumsum(LENGTHS)
    pictures, states = rng.integers(0, 256, (count, HEIGHT, WIDTH), "u1"), rng.random((count, 2), "f4")
    episode = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    frame = np.concatenate([np.arange(length) for length in LENGTHS])
    for number in range(2):
        rows = np.flatnonzero(np.take(FILES, episode) == number)
        write_table(folder / f"data/chunk-000/file-00{number}.parquet", {
            "observation.state": pa.array(states[rows].tolist(), pa.list_(pa.float32())), "next.reward": rows.astype("f4"),
            "frame_index": frame[rows], "episode_index": episode[rows], "index": rows, "task_index": episode[rows] % 2,
            "timestamp": (frame[rows] / RATE).astype("f4")})
        write_video(folder / f"videos/{CAMERA}/chunk-000/file-00{number}.mkv", pictures[rows])
    first = [ends[i] - LENGTHS[i] - (ends[1] if FILES[i] else 0) for i in range(len(LENGTHS))]
    write_table(folder / "meta/episodes/chunk-000/file-000.parquet", {
        "episode_index": np.arange(len(LENGTHS)), "length": np.array(LENGTHS), f"videos/{CAMERA}/chunk_index": np.zeros(len(LENGTHS), int),
        f"videos/{CAMERA}/file_index": np.array(FILES), f"videos/{CAMERA}/from_timestamp": np.array(first) / RATE})
    write_table(folder / "meta/tasks.parquet", {"task_index": [0, 1], "__index_level_0__": ["push", "zürück"]})
    info = {"codebase_version": "v3.0", "fps": RATE, "total_frames": count, "features": FEATURES,
            "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mkv"}
    (folder / "meta/info.json").write_text(json.dumps(info), encoding="utf-8")
    return pictures, states


class Import(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="penstock-test-lerobot-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "robot"
        self.target = pathlib.Path(temporary.name) / "robot.zarr"
        self.pictures, self.states = write(self.folder)

    def run_import(self, *options):
        command = [str(PROGRAM), "import", "lerobot", str(self.folder), str(self.target), "--processes", "1", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "PYTHONPATH": str(PYTHON), "PENSTOCK_PYTHON": sys.executable})

    def refuse(self, message, *options):
        told = self.run_import(*options)
        self.assertEqual(told.returncode, 4, told.stderr)
        self.assertIn(message, told.stderr)
        self.assertEqual(len(told.stderr.strip().splitlines()), 1, told.stderr)
        self.assertFalse(self.target.exists())

    def change_table(self, name, change):
        path = self.folder / name
        pq.write_table(change(pq.read_table(path)), path)

    def test_all_is_there(self):
        told = self.run_import("--chunk-rows", "4")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn(f"{CAMERA}: {{array: {CAMERA}, mean: 0, std: 255}}", told.stdout)
        group = zarr.open_group(self.target, mode="r")
        np.testing.assert_array_equal(group[CAMERA][:], np.repeat(self.pictures[:, None], 3, axis=1))
        self.assertEqual(group[CAMERA].chunks, (4, 3, HEIGHT, WIDTH))
        np.testing.assert_array_equal(group["observation.state"][:], self.states)
        np.testing.assert_array_equal(group["next.reward"][:], np.arange(sum(LENGTHS)))
        np.testing.assert_array_equal(group["meta/episode_ends"][:], np.cumsum(LENGTHS))
        self.assertEqual([bytes(text).rstrip(b"\0").decode() for text in group["meta/tasks"][:]], ["push", "zürück"])

    def test_goes_on_after_a_video_that_was_missing(self):
        path = self.folder / f"videos/{CAMERA}/chunk-000/file-001.mkv"
        path.rename(path.with_suffix(".away"))
        self.refuse("file-001.mkv: no video that FFmpeg reads:", "--chunk-rows", "4")
        self.refuse("begun from another dataset or with other options: remove the folder")
        path.with_suffix(".away").rename(path)
        self.test_all_is_there()

    def test_videos_of_other_lengths(self):
        path = self.folder / f"videos/{CAMERA}/chunk-000/file-001.mkv"
        write_video(path, self.pictures[14:20])
        self.refuse("file-001.mkv: 6 frames, and meta/episodes says 7: the dataset is not whole")
        write_video(path, self.pictures[12:20])
        self.refuse("file-001.mkv: more than the 7 frames that meta/episodes says")

    def test_episodes_that_do_not_fit(self):
        name = f"videos/{CAMERA}/from_timestamp"

        def shift(table):
            return table.set_column(table.column_names.index(name), name, pa.array([0, 0.7, 0, 0.1]))

        self.change_table("meta/episodes/chunk-000/file-000.parquet", shift)
        self.refuse("the episode of frame 5 begins with the video's frame 7, and the one before ends with 5")
        self.change_table("meta/episodes/chunk-000/file-000.parquet", lambda table: table.drop_columns([name]))
        self.refuse(f"no column '{name}', which tells where episodes are")

    def test_a_missing_column(self):
        self.change_table("data/chunk-000/file-000.parquet", lambda table: table.drop_columns(["next.reward"]))
        self.refuse("no column 'next.reward'; there are observation.state, frame_index")

    def test_rows_that_are_missing(self):
        self.change_table("data/chunk-000/file-001.parquet", lambda table: table.slice(1))
        self.refuse("data: 20 rows, and meta/episodes says 21: the dataset is not whole")

    def test_rows_in_another_order(self):
        self.change_table("data/chunk-000/file-001.parquet", lambda table: table.take([1, 0, *range(2, 7)]))
        self.refuse("data: at row 14 column 'episode_index' is not what meta/episodes says")

    def test_lists_of_another_length(self):
        def shorten(table):
            lists = table["observation.state"].to_pylist()
            lists[3] = lists[3][:1]
            return table.set_column(0, "observation.state", pa.array(lists, pa.list_(pa.float32())))

        self.change_table("data/chunk-000/file-000.parquet", shorten)
        self.refuse("row 3: column 'observation.state' has a list of 1 items, not 2")

    def test_other_versions_and_pictures(self):
        path = self.folder / "meta/info.json"
        info = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**info, "codebase_version": "v2.1"}), encoding="utf-8")
        self.refuse("a LeRobot dataset of version v2.1, and v3.0 is read: convert it by python -m")
        path.write_text(json.dumps({**info, "features": {**FEATURES, CAMERA: {"dtype": "image", "shape": [1, 1, 3]}}}), encoding="utf-8")
        self.refuse(f"feature '{CAMERA}' is of pictures within Parquet, which are not read")
        path.write_text(json.dumps({**info, "features": {**FEATURES, CAMERA: {"dtype": "video", "shape": [8, 8, 3]}}}), encoding="utf-8")
        self.refuse(f"pictures of {WIDTH} x {HEIGHT} pixels, and meta/info.json says 8 x 8 with 3 colours")
        path.unlink()
        self.refuse("No such file or directory: name the folder of a LeRobot dataset")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    known, rest = parser.parse_known_args()
    PROGRAM = known.penstock
    unittest.main(argv=[sys.argv[0], *rest])
