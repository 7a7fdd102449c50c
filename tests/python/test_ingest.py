"""penstock ingest video: frames are those of ffmpeg's command line; bad videos; parts, kills and resumes; embeddings; floats.

test_ingest.py --penstock PROGRAM [unittest arguments]
"""

import argparse
import csv
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = FOLDER = None
WIDTH, HEIGHT, SIZE, SECONDS, FPS = 192, 112, 64, 1.5, 4
FRAMES = int(SECONDS * FPS)
FLAGS = "bicubic+accurate_rnd+full_chroma_int+bitexact"

# What each video tries: source, options of the encoder, the file's ending. 29.97 frames a second: no moment is between ticks by chance.
SOURCE = f"testsrc2=size={WIDTH}x{HEIGHT}:rate=30000/1001:duration=4"
VIDEOS = {
    "h264": (SOURCE, "-c:v libx264 -preset veryfast -bf 3 -g 24 -pix_fmt yuv420p", "mp4"),
    "h264_open": (SOURCE, "-c:v libx264 -preset veryfast -bf 3 -g 20 -x264-params open-gop=1 -pix_fmt yuv420p", "mkv"),
    "ts": (SOURCE, "-c:v libx264 -preset veryfast -bf 2 -g 30 -pix_fmt yuv420p", "ts"),
    "hevc": (SOURCE, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=20:bframes=3 -pix_fmt yuv420p", "mp4"),
    "vp9": (SOURCE, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 200k -g 25 -auto-alt-ref 1 -lag-in-frames 8", "webm"),
    "av1": (SOURCE, "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 30", "mkv"),
    "mpeg4": (SOURCE, "-c:v mpeg4 -bf 2 -q:v 5 -g 15", "avi"),
    "mpeg4_mp4": (SOURCE, "-c:v mpeg4 -bf 2 -q:v 5 -g 15", "mp4"),
    "variable": (SOURCE + ",select='lt(mod(n,30),11)+not(mod(n,7))'", "-fps_mode vfr -c:v libx264 -preset veryfast -bf 2", "mp4"),
    "ten_bit": (SOURCE, "-c:v libx264 -preset veryfast -pix_fmt yuv420p10le", "mp4"),
    "full_range": (SOURCE, "-c:v mjpeg -pix_fmt yuvj422p", "mkv"),
    "hd_colours": (SOURCE, "-c:v libx264 -preset veryfast -pix_fmt yuv444p -colorspace bt709 -color_range tv", "mp4"),
    "intra_refresh": (SOURCE, "-c:v libx264 -preset veryfast -x264-params intra-refresh=1:keyint=30 -pix_fmt yuv420p", "mp4"),
    "silent": (SOURCE, "-an -c:v libx264 -preset veryfast", "mov"),
}


def ffmpeg(*arguments):
    done = subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-y", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def has_encoder(options):
    name = options.split("-c:v ")[1].split()[0]
    return subprocess.run(["ffmpeg", "-hide_banner", "-h", f"encoder={name}"], capture_output=True, text=True).stdout.startswith("Encoder")


def make_videos(folder):
    """The videos of VIDEOS, and the first one turned."""
    for name, (source, options, ending) in VIDEOS.items():
        if has_encoder(options):
            ffmpeg("-f", "lavfi", "-i", source, *options.split(), folder / f"{name}.{ending}")
    options = subprocess.run(["ffmpeg", "-h", "full"], capture_output=True, text=True, check=True).stdout
    for turn in (90, 180, 270): # FFmpeg 6 and later, or earlier
        before, behind = [], ["-metadata:s:v:0", f"rotate={turn}"]
        if "display_rotation" in options:
            before, behind = ["-display_rotation", f"{turn}"], []
        ffmpeg(*before, "-i", folder / "h264.mp4", "-c", "copy", *behind, folder / f"turned{turn}.mp4")
    return sorted(path.name for path in folder.iterdir())


def penstock(*arguments, env=(), **options):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI_", "SLURM_"))}
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=clean | dict(env), timeout=240, **options)


def ingest(source, destination, *arguments, **options):
    usual = {"--codec": "none", "--size": SIZE, "--seconds": SECONDS, "--fps": FPS}
    own = [word for name, value in usual.items() if name not in arguments for word in (name, value)]
    return penstock("ingest", "video", source, destination, *own, *arguments, **options)


def read(dataset, path, dtype):
    """An array of a dataset without codecs, whose first axis alone has several chunks."""
    document = json.loads((dataset / path / "zarr.json").read_text())
    shape, chunk = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
    within = [-1] if path == "video_name" else chunk[1:] # texts are rows of code points
    parts = [np.fromfile(dataset / path / "c" / "/".join([str(i)] + ["0"] * (len(shape) - 1)), dtype).reshape(chunk[:1] + within)
             for i in range(-(-shape[0] // chunk[0]))]
    return np.concatenate(parts)[:shape[0]]


def digest_of(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("digest ")][0]


def decoded(path):
    """All frames as ffmpeg's command line scales them, and their times in seconds from the first."""
    shown = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "frame=best_effort_timestamp", "-show_entries",
                            "stream=time_base", "-of", "json", str(path)], capture_output=True, text=True, check=True)
    report = json.loads(shown.stdout)
    ticks = [frame.get("best_effort_timestamp") for frame in report["frames"]]
    numerator, denominator = map(int, report["streams"][0]["time_base"].split("/"))
    turned = path.name.startswith(("turned90", "turned270"))
    long_side = round(SIZE * WIDTH / HEIGHT)
    width, height = (SIZE, long_side) if turned else (long_side, SIZE)
    raw = subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-i", str(path), "-fps_mode", "passthrough", "-vf",
                          f"scale={width}:{height}:flags={FLAGS},format=rgb24", "-f", "rawvideo", "-"], stdout=subprocess.PIPE, check=True)
    frames = np.frombuffer(raw.stdout, np.uint8).reshape(-1, height, width, 3)
    assert len(frames) == len(ticks), (path, len(frames), len(ticks))
    timed = [i for i, tick in enumerate(ticks) if tick is not None] # AVI's last frames may have no times
    ticks = np.array([ticks[i] for i in timed])
    return frames[timed], ticks - ticks[0], numerator / denominator


def expected(video, start, count=FRAMES, fps=FPS):
    """The frames of a segment that starts there, before they are cut."""
    frames, ticks, tick = video
    moments = [round(start / tick) + round(k / fps / tick) for k in range(count)]
    return frames[[int(np.searchsorted(ticks, moment, "right")) - 1 for moment in moments]]


def crops(wide, narrow):
    """Where `narrow` lies in `wide`, in all frames."""
    down, across = wide.shape[1] - SIZE + 1, wide.shape[2] - SIZE + 1
    return [(y, x) for y in range(down) for x in range(across) if np.array_equal(wide[:, y:y + SIZE, x:x + SIZE], narrow)]


def preload(folder, name, source):
    """The environment in which a program finds these C functions before FFmpeg's."""
    (folder / f"{name}.c").write_text(source)
    library = folder / f"{name}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / f"{name}.c"], check=True)
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = FOLDER
        cls.videos = FOLDER / "videos"
        if not cls.videos.exists():
            cls.videos.mkdir()
            make_videos(cls.videos)
        cls.names = sorted(os.listdir(cls.videos))

    def scratch(self, name):
        path = self.folder / f"{self.id().rsplit('.', 1)[1]}.{name}"
        shutil.rmtree(path, ignore_errors=True)
        return path

    def whole(self, *arguments, **options):
        done = ingest(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done


class Frames(Case):
    def test_are_those_of_ffmpeg(self):
        dataset = self.scratch("zarr")
        done = self.whole(self.videos, dataset, "--segments", 2, "--seed", 5)
        self.assertNotIn("left out", done.stderr)
        frames, starts = read(dataset, "base_frames", np.uint8), read(dataset, "segment_start", np.float64)
        to_video = read(dataset, "segment_to_video", np.int64)
        self.assertGreaterEqual(len(self.names), 10)
        self.assertEqual(to_video.tolist(), [v for v in range(len(self.names)) for _ in range(2)])
        self.assertTrue(read(dataset, "segment_valid", np.uint8).all())
        self.assertEqual(frames.shape[1:], (FRAMES, SIZE, SIZE, 3))
        places = set()
        for v, name in enumerate(self.names):
            video = decoded(self.videos / name)
            for segment in np.flatnonzero(to_video == v):
                with self.subTest(video=name, segment=segment):
                    found = crops(expected(video, starts[segment]), frames[segment])
                    self.assertEqual(len(found), 1)
                    places.update(found)
                    self.assertGreater(len({frame.tobytes() for frame in frames[segment]}), FRAMES // 2)
        self.assertGreater(len(places), len(self.names) // 2) # crops are random
        durations = read(dataset, "video_duration", np.float64)
        np.testing.assert_allclose(durations, 4, atol=0.3)
        names = read(dataset, "video_name", np.uint32)
        self.assertEqual(["".join(map(chr, name[name > 0])) for name in names], self.names)

    def test_segments_share_the_decoder(self):
        """Segments that overlap and segments one behind the other, within a keyframe's frames and across keyframes."""
        for name, options, segments in (("b_frames", "-bf 8 -g 100", 18), ("long", "-bf 0 -g 90", 18), ("short", "-bf 0 -g 25", 9),
                                        ("idr", "-bf 3 -g 13 -keyint_min 13", 18), ("open", "-bf 3 -g 20 -x264-params open-gop=1", 18)):
            with self.subTest(video=name):
                path, dataset = self.folder / f"{name}.mp4", self.scratch(f"{name}.zarr")
                source = f"testsrc2=size={WIDTH}x{HEIGHT}:rate=30000/1001:duration=8"
                ffmpeg("-f", "lavfi", "-i", source, "-c:v", "libx264", "-preset", "veryfast", "-b_strategy", 0, *options.split(), path)
                listed = self.folder / f"{name}.txt"
                listed.write_text(f"{path}\n")
                self.whole(listed, dataset, "--segments", segments, "--seconds", 0.4, "--fps", 15, "--threads", 1)
                frames, starts = read(dataset, "base_frames", np.uint8), read(dataset, "segment_start", np.float64)
                self.assertEqual(len(frames), segments)
                video = decoded(path)
                for segment, start in enumerate(starts):
                    self.assertEqual(len(crops(expected(video, start, 6, 15), frames[segment])), 1, f"segment {segment} at {start} s")

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_no_packet_is_decoded_twice(self):
        """Overlapping segments, several of each keyframe: each packet goes to the decoder once, and a few more to try the decoder."""
        count = self.folder / "count"
        counting = preload(self.folder, "counting", f"""
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <stdio.h>
            static int count;
            int avcodec_send_packet(void *decoder, const void *packet)
            {{
                static int (*send)(void *, const void *);
                send = send ? send : (int (*)(void *, const void *))dlsym(RTLD_NEXT, "avcodec_send_packet");
                count += packet != NULL;
                return send(decoder, packet);
            }}
            __attribute__((destructor)) static void tell(void)
            {{
                FILE *file = fopen("{count}", "w");
                fprintf(file, "%d", count);
                fclose(file);
            }}
            """)
        for name, options in (("one_key", "-bf 2 -g 240"), ("idr_keys", "-bf 2 -g 24 -keyint_min 24")):
            video, listed = self.folder / f"{name}.mp4", self.folder / f"{name}.txt"
            ffmpeg("-f", "lavfi", "-i", SOURCE, "-c:v", "libx264", "-preset", "veryfast", *options.split(), video)
            listed.write_text(f"{video}\n")
            self.whole(listed, self.scratch(f"{name}.zarr"), "--segments", 4, "--seconds", 1, "--fps", 10, "--threads", 1, env=counting)
            self.assertGreater(int(count.read_text()), 90)
            self.assertLessEqual(int(count.read_text()), 120 + 8, name)

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_decoder_begins_anew_where_a_file_cannot_seek(self):
        """Without seeking, the file is opened again for each pass."""
        no_seek = preload(self.folder, "no_seek", "int av_seek_frame(void) { return -1; }\n")
        video, listed = self.folder / "one_keyframe.avi", self.folder / "one_keyframe.txt"
        ffmpeg("-f", "lavfi", "-i", SOURCE, "-c:v", "mpeg4", "-q:v", 5, "-g", 200, "-sc_threshold", 10**9, video)
        listed.write_text(f"{video}\n")
        digests = []
        for name, env in (("seeks", {}), ("no_seek", no_seek)):
            made = self.whole(listed, self.scratch(f"{name}.zarr"), "--segments", 6, "--seconds", 0.4, "--fps", 5, "--threads", 1, env=env)
            digests.append(digest_of(made.stdout))
        self.assertEqual(*digests)

    def test_starts_are_spread_and_follow_the_seed(self):
        starts = []
        for seed in (1, 1, 2):
            dataset = self.scratch(f"{seed}.{len(starts)}.zarr")
            listed = self.folder / "one.txt"
            listed.write_text("videos/h264.mp4\n")
            self.whole(listed, dataset, "--segments", 2, "--seed", seed)
            starts.append(read(dataset, "segment_start", np.float64).tolist())
        self.assertEqual(starts[0], starts[1])
        self.assertNotEqual(starts[0], starts[2])
        for first, second in starts:
            self.assertLessEqual(0, first)
            self.assertLess(first, second)
            self.assertLessEqual(second, 4 - SECONDS + 0.1)

    def test_floats_are_normalised(self):
        plain, listed = self.scratch("plain.zarr"), self.folder / "two.txt"
        listed.write_text("# a comment\nvideos/h264.mp4\n\nvideos/hevc.mp4\n")
        self.whole(listed, plain)
        frames = read(plain, "base_frames", np.uint8)
        mean, std = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.25, 2])
        for name, dtype in (("float16", np.float16), ("float32", np.float32), ("bfloat16", np.uint16)):
            dataset = self.scratch(f"{name}.zarr")
            self.whole(listed, dataset, "--dtype", name, "--layout", "tchw", "--mean", "0.1,0.2,0.3", "--std", "0.5,0.25,2")
            values = np.moveaxis((frames / 255 - mean) / std, -1, 2)
            got = read(dataset, "base_frames", dtype)
            self.assertEqual(got.shape[1:], (FRAMES, 3, SIZE, SIZE))
            if name == "bfloat16":
                bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
                np.testing.assert_array_equal(got, ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16))
            else:
                np.testing.assert_array_equal(got, values.astype(dtype))


class Bad(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        mixed = cls.mixed = cls.folder / "mixed"
        mixed.mkdir()
        shutil.copy(cls.videos / "h264.mp4", mixed / "b_good.mp4")
        shutil.copy(cls.videos / "vp9.webm", mixed / "m_good.webm")
        ffmpeg("-f", "lavfi", "-i", "sine=duration=4", mixed / "sound.m4a")
        ffmpeg("-f", "lavfi", "-i", SOURCE.replace("duration=4", "duration=1"), "-c:v", "libx264", mixed / "short.mp4")
        ffmpeg("-i", mixed / "b_good.mp4", "-c", "copy", "-movflags", "+faststart", mixed / "front.mp4")
        whole = (mixed / "front.mp4").read_bytes()
        (mixed / "front.mp4").unlink()
        (mixed / "cut.mp4").write_bytes(whole[:len(whole) * 6 // 10])
        (mixed / "cut_index.mp4").write_bytes((mixed / "b_good.mp4").read_bytes()[:20000])
        (mixed / "empty.mp4").write_bytes(b"")
        (mixed / "text.mp4").write_text("this is not a video\n" * 100)
        cls.reasons = {"cut.mp4": "the file ends early", "cut_index.mp4": "not a video", "empty.mp4": "the file is empty",
                       "short.mp4": "and a segment 1.50 s", "sound.m4a": "there is no video stream",
                       "text.mp4": "not a video"}

    def test_are_left_out_by_name(self):
        dataset, report = self.scratch("zarr"), self.folder / "report.json"
        rows = self.folder / "rows.npy"
        embeddings = np.arange(8 * 3, dtype=np.float16).reshape(8, 3)
        np.save(rows, embeddings)
        done = self.whole(self.mixed, dataset, "--report", report, "--text", rows)
        self.assertIn("4 segments of 2 videos; 6 of 8 videos left out", done.stdout)
        told = json.loads(report.read_text())
        self.assertEqual({pathlib.Path(bad["path"]).name for bad in told["bad_videos"]}, set(self.reasons))
        for bad in told["bad_videos"]:
            self.assertIn(self.reasons[pathlib.Path(bad["path"]).name], bad["reason"])
            self.assertIn(f"'{bad['path']}': {bad['reason']}", done.stderr)
        self.assertEqual(told["digest"], digest_of(done.stdout))
        self.assertEqual(read(dataset, "segment_to_video", np.int64).tolist(), [0, 0, 4, 4])
        np.testing.assert_array_equal(read(dataset, "text_emb", np.float16), embeddings)
        self.assertEqual([duration > 0 for duration in read(dataset, "video_duration", np.float64)],
                         [name not in self.reasons for name in sorted(os.listdir(self.mixed))])
        self.assertEqual([name for name in os.listdir(dataset) if name.startswith(".")], [])
        self.assertEqual(penstock("verify", dataset).returncode, 0)

    def test_paths_that_are_no_files_and_streams_without_times(self):
        folder = self.scratch("videos")
        folder.mkdir()
        os.mkfifo(folder / "pipe.mp4")
        (folder / "loop.mp4").symlink_to("loop.mp4")
        ffmpeg("-f", "lavfi", "-i", SOURCE, "-c:v", "libx264", "-preset", "veryfast", "-bf", 2, folder / "raw.h264")
        for name, reason in (("pipe.mp4", "this is a device or a pipe, and not a file"), ("loop.mp4", "Too many levels of symbolic links"),
                             ("raw.h264", "no frame has a time, as in streams without a container"), (".", "this is a folder, and not a file")):
            listed = folder / "list.txt"
            listed.write_text(f"{name}\n{self.videos / 'h264.mp4'}\n")
            done = self.whole(listed, self.scratch("zarr"), "--segments", 1)
            self.assertIn("1 of 2 videos left out", done.stdout)
            self.assertIn(reason, done.stderr)
        ffmpeg("-r", 30, "-i", folder / "raw.h264", folder / "raw.mp4") # what the message says
        listed.write_text("raw.mp4\n")
        self.whole(listed, self.scratch("zarr"), "--segments", 1)

    def test_are_an_error_by_option(self):
        dataset = self.scratch("zarr")
        done = ingest(self.mixed, dataset, "--bad", "error")
        self.assertEqual(done.returncode, 4)
        self.assertIn("cut.mp4': the file ends early", done.stderr)
        self.assertIn("6 of 8 videos cannot be used", done.stderr)
        self.assertFalse(dataset.exists())

    def test_damage_within_makes_a_segment_invalid(self):
        videos, dataset = self.scratch("videos"), self.scratch("zarr")
        videos.mkdir()
        ffmpeg("-f", "lavfi", "-i", SOURCE, "-c:v", "libx264", "-preset", "veryfast", "-g", "30", "-bf", "0", videos / "a.mp4")
        packets = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size", "-of", "csv=p=0",
                                  str(videos / "a.mp4")], capture_output=True, text=True, check=True).stdout.split()
        whole = bytearray((videos / "a.mp4").read_bytes())
        for packet in packets[75:]: # behind all of the first segment, and within the second
            size, position = map(int, packet.split(",")[:2])
            whole[position + 5:position + size] = b"\xa5" * (size - 5)
        (videos / "a.mp4").write_bytes(whole)
        done = self.whole(videos, dataset, "--segments", 2, "--report", self.folder / "damage.json")
        self.assertEqual(read(dataset, "segment_valid", np.uint8).tolist(), [1, 0])
        frames = read(dataset, "base_frames", np.uint8)
        self.assertTrue(frames[0].any())
        self.assertFalse(frames[1].any())
        self.assertIn("segment 1 is not valid", done.stderr)
        self.assertEqual(json.loads((self.folder / "damage.json").read_text())["bad_segments"][0]["segment"], 1)
        done = ingest(videos, self.scratch("error.zarr"), "--segments", 2, "--bad", "error")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("segment 1", done.stderr)

    def test_segments_near_damage_are_right_or_not_valid(self):
        """Also where a frame refers to a damaged one that is shown after it, and where others of the same pass have damaged frames."""
        videos = self.scratch("videos")
        videos.mkdir()
        path = videos / "a.mp4"
        ffmpeg("-f", "lavfi", "-i", SOURCE, "-c:v", "libx264", "-preset", "veryfast", "-g", 24, "-bf", 3, "-b_strategy", 0, path)
        video, whole = decoded(path), path.read_bytes()
        packets = [tuple(map(int, line.split(",")[:2])) for line in subprocess.run(
            ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size", "-of", "csv=p=0", str(path)],
            capture_output=True, text=True, check=True).stdout.split()]
        spoiled = 0
        for packet in range(29, 60, 4): # P frames
            size, position = packets[packet]
            path.write_bytes(whole[:position + size // 2] + bytes(size - size // 2) + whole[position + size:])
            valid = []
            for threads in (1, 3):
                dataset = self.scratch(f"{threads}.zarr")
                self.whole(videos, dataset, "--segments", 9, "--seconds", 0.4, "--fps", 15, "--threads", threads)
                frames, starts = read(dataset, "base_frames", np.uint8), read(dataset, "segment_start", np.float64)
                valid.append(read(dataset, "segment_valid", np.uint8).tolist())
                for segment in np.flatnonzero(valid[-1]):
                    self.assertEqual(len(crops(expected(video, starts[segment], 6, 15), frames[segment])), 1, (packet, segment, threads))
            self.assertEqual(*valid)
            self.assertGreater(sum(valid[0]), 5)
            spoiled += valid[0].count(0)
        self.assertGreater(spoiled, 0)

    def damaged(self, folder):
        """Copies of small videos of six containers: cut short, or with some bytes changed, most of them where the header is."""
        made = {"mkv": "-c:v mpeg4", "mp4": "-c:v mpeg4", "gif": "-c:v gif", "webm": "-c:v libvpx -deadline realtime -cpu-used 8",
                "avi": "-c:v mpeg4", "ts": "-c:v mpeg2video"}
        chance = random.Random(5)
        for ending, options in made.items():
            if not has_encoder(options):
                continue
            path = folder / f"whole.{ending}"
            ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25:duration=1", *options.split(), path)
            whole = path.read_bytes()
            path.unlink()
            for number in range(40):
                if number % 4 == 0:
                    data = whole[:chance.randrange(1, len(whole))] if number % 8 else whole[:1 + 24 * number]
                else:
                    data, end = bytearray(whole), len(whole) if number % 4 == 1 else min(2000, len(whole))
                    for _ in range(1 << chance.randrange(6)):
                        data[chance.randrange(end)] = chance.choice((0, 0xff, chance.randrange(256)))
                (folder / f"{number:02}.{ending}").write_bytes(data)
        (folder / "header.mkv").write_bytes((self.mkv_header(folder))[:60])

    def mkv_header(self, folder):
        path = folder / "header.mkv"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25:duration=1", "-c:v", "mpeg4", path)
        return path.read_bytes()

    def test_damage_is_about_the_video(self):
        """Whatever FFmpeg makes of damaged files: the others are ingested, and each is named with a reason."""
        videos, report = self.scratch("videos"), self.folder / "damaged.json"
        videos.mkdir()
        self.damaged(videos)
        shutil.copy(self.videos / "h264.mp4", videos)
        done = self.whole(videos, self.scratch("zarr"), "--segments", 1, "--seconds", 0.5, "--size", 16, "--report", report)
        told = json.loads(report.read_text())
        self.assertGreater(len(told["bad_videos"]), 40)
        self.assertLess(len(told["bad_videos"]), told["videos"] - 20)
        for bad in told["bad_videos"]:
            self.assertRegex(bad["reason"], "^[^:]+(: .+)?$")
            self.assertNotRegex(bad["reason"], "not permitted|Cannot allocate|Input/output", bad["path"])

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_a_file_that_cannot_be_read_ends_the_work(self):
        """read() fails at some place of a file: that is no reason to leave the video out, wherever the place is."""
        listed, path = self.folder / "unreadable.txt", self.folder / "unreadable.ts"
        shutil.copy(self.videos / "ts.ts", path)
        listed.write_text(f"{path}\n{self.videos / 'h264.mp4'}\n")
        for place in (0, 40000, path.stat().st_size - 100):
            failing = preload(self.folder, f"failing{place}", f"""
                #define _GNU_SOURCE
                #include <dlfcn.h>
                #include <errno.h>
                #include <stdio.h>
                #include <string.h>
                #include <unistd.h>
                ssize_t read(int fd, void *data, size_t size)
                {{
                    static ssize_t (*next)(int, void *, size_t);
                    char name[64], path[4096] = "";
                    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
                    if (readlink(name, path, sizeof path - 1) > 0 && strstr(path, "unreadable.ts") &&
                        lseek(fd, 0, SEEK_CUR) + (off_t)size > {place})
                        return errno = EIO, -1;
                    next = next ? next : (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
                    return next(fd, data, size);
                }}
                """)
            done = ingest(listed, self.scratch("zarr"), env=failing)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("unreadable.ts': read: Input/output error", done.stderr)
        self.whole(listed, self.scratch("zarr"))

    def test_frames_that_are_too_narrow(self):
        """Scaled to the wanted short side such a frame would be thousands of times as long: left out, within the promised memory."""
        videos = self.scratch("videos")
        videos.mkdir()
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=4096x2:rate=25:duration=2", "-c:v", "ffv1", videos / "narrow.mkv")
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=1024x64:rate=25:duration=2", "-c:v", "ffv1", videos / "wide.mkv")
        done = self.whole(videos, self.scratch("zarr"), "--size", 224, "--threads", 1, "--seconds", 1)
        self.assertIn("frames are shown as 4096 x 2 pixels; sides may differ by a factor of 32 at most", done.stderr)
        self.assertIn("1 of 2 videos left out", done.stdout)

    def test_numbers_out_of_range_are_refused(self):
        for option, value in (("--fps", "4294967297"), ("--fps", "nan"), ("--seconds", "1e300"), ("--seconds", "1e-300"), ("--mean", "nan"),
                              ("--std", "inf"), ("--mean", "1,2,x"), ("--std", "1e-60"), ("--size", "4294967552"), ("--level", "4294967297")):
            done = ingest(self.videos, self.scratch("zarr"), option, value)
            self.assertEqual(done.returncode, 4, (option, value, done.stderr))
            self.assertIn(f"{option} '{value}': ", done.stderr)
        done = ingest(self.videos, self.scratch("zarr"), "--seconds", 1e6, "--fps", 1e4)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("a segment of 1000000 seconds with 10000 frames a second has 10000000000 frames: 1000000 at most", done.stderr)

    def test_codec_that_ffmpeg_lacks(self):
        videos, dataset = self.scratch("videos"), self.scratch("zarr")
        videos.mkdir()
        whole = bytearray((self.videos / "h264.mp4").read_bytes())
        at = whole.index(b"avc1", whole.index(b"stsd"))
        whole[at:at + 4] = b"zzz9"
        (videos / "a.mp4").write_bytes(whole)
        done = ingest(videos, dataset)
        self.assertEqual(done.returncode, 4)
        self.assertIn("a.mp4': this FFmpeg has no decoder for the codec 'zzz9'", done.stderr)
        self.assertFalse(dataset.exists())

    def test_no_room_and_then_room(self):
        """What cannot be written is named, the dataset has no metadata, and the same command goes on."""
        listed, dataset = self.folder / "room.txt", self.scratch("zarr")
        listed.write_text("videos/h264.mp4\nvideos/silent.mov\n")

        def no_room(): # SIGXFSZ, which Python ignores, is not given back its default
            resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))

        done = ingest(listed, dataset, preexec_fn=no_room, restore_signals=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"write '.*zarr/base_frames/c/.*File too large")
        self.assertFalse((dataset / "zarr.json").exists())
        done = self.whole(listed, dataset)
        self.assertIn("were there already", done.stdout)
        self.assertEqual(penstock("verify", dataset, "--digest").returncode, 0)

    def test_lists_that_cannot_be_used(self):
        listed, dataset = self.folder / "list.csv", self.scratch("zarr")
        cases = (("name\nx\n", "names no column 'path'"), ("path\n", "lists no videos"), ("path\nmissing.mp4\n", "No such file"))
        for text, message in cases:
            listed.write_text(text)
            done = ingest(listed, dataset)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse(dataset.exists())
        self.assertIn("open the list of videos", ingest(self.folder / "nowhere.txt", dataset).stderr)
        with open(listed, "w", newline="") as file:
            csv.writer(file).writerows([["name", "path"], ['a "name", with a comma', "videos/h264.mp4"], ["é", "videos/ts.ts"]])
        rows = self.folder / "rows.csv"
        for text, message in (("1,2\n", "1 rows, and the list has 2 videos"), ("1,2\n3,4\n5,6\n", "3 rows"), ("1,2\n3\n", "line 2 has 1 numbers"),
                              ("a,b\n1,2\n3,x\n", "line 3 is not a row of numbers")):
            rows.write_text(text)
            self.assertIn(message, ingest(listed, dataset, "--text", rows).stderr)
        rows.write_text("a,b\n1,2\n3,4.5\n")
        self.whole(listed, dataset, "--text", rows)
        self.assertEqual(read(dataset, "text_emb", np.float32).tolist(), [[1, 2], [3, 4.5]])
        names = ["".join(map(chr, name[name > 0])) for name in read(dataset, "video_name", np.uint32)]
        self.assertEqual(names, ['a "name", with a comma', "é"])


class Parts(Case):
    def setUp(self):
        self.reference = self.scratch("reference.zarr")
        done = self.whole(self.videos, self.reference, "--segments", 2, "--shard", 3, "--threads", 1)
        self.digest = digest_of(done.stdout)

    def parts(self, dataset, count):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI_", "SLURM_"))}
        command = [PROGRAM, "ingest", "video", str(self.videos), str(dataset), "--codec", "none", "--size", str(SIZE), "--seconds", str(SECONDS),
                   "--fps", str(FPS), "--segments", "2", "--shard", "3", "--threads", "1"]
        return [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                 env=clean | {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(count)})
                for rank in range(count)]

    def same(self, dataset):
        done = subprocess.run(["diff", "-r", self.reference, dataset], capture_output=True, text=True)
        self.assertEqual(done.stdout, "")
        self.assertIn(self.digest, penstock("verify", dataset, "--digest").stdout)

    def test_give_the_same(self):
        for count in (2, 4):
            dataset = self.scratch(f"{count}.zarr")
            running = self.parts(dataset, count)
            outputs = [process.communicate(timeout=240) for process in running]
            self.assertEqual([process.returncode for process in running], [0] * count, outputs)
            self.assertIn(self.digest, "".join(output for output, _ in outputs))
            self.same(dataset)

    def test_killed_and_resumed_give_the_same(self):
        dataset = self.scratch("zarr")
        for delay in (0.05, 0.3, 0.8):
            running = self.parts(dataset, 2)
            time.sleep(delay)
            for process in running:
                os.killpg(process.pid, signal.SIGKILL)
            for process in running:
                process.communicate()
        for rank in range(2): # one after the other, as the same two parts
            clean = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
            self.whole(self.videos, dataset, "--segments", 2, "--shard", 3, env=clean)
        self.same(dataset)

    def test_other_options_are_refused(self):
        dataset = self.scratch("zarr")
        running = self.parts(dataset, 2)
        running[1].kill()
        running[0].communicate()
        running[1].communicate()
        self.assertTrue((dataset / ".penstock-ingest").is_dir())
        done = ingest(self.videos, dataset, "--segments", 2, "--shard", 3, "--seed", 7)
        self.assertEqual(done.returncode, 4)
        self.assertIn("the beginning of another ingest", done.stderr)
        self.assertIn("is not empty", ingest(self.videos, self.videos).stderr)


def main():
    global PROGRAM, FOLDER
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAM = str(pathlib.Path(arguments.penstock).resolve())
    if not shutil.which("ffmpeg") or not shutil.which("ffprobe"):
        print("skipped: there is no ffmpeg, which makes the videos")
        sys.exit(77)
    if "built without FFmpeg" in penstock("ingest", "video", "/nowhere", "/nowhere").stderr:
        print("skipped: penstock was built without FFmpeg's libraries")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="penstock-test-ingest-") as folder:
        FOLDER = pathlib.Path(folder)
        unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
