#!/usr/bin/env python3
"""Segments of videos: penstock ingest video beside FFmpeg's decoder alone, and beside PyAV and zarr-python in a process pool.

    bench/run.sh ingest [OPTION...]

The videos are H.264 of 1280 x 720 pixels at 30 frames a second, made by ffmpeg with x264's own settings (preset medium, a keyframe every 250
frames or where the scene changes), and in the page cache; --folder names others. Each has --segments segments of 5 s
with 20 frames of 256 x 256 pixels, written as Zarr v3 with zstd, level 1, into a file system in memory.

  limit     FFmpeg's decoder on the same segments, from the keyframe to the last frame, one decoder a thread; nothing is scaled or written
  penstock  penstock ingest video --no-verify, with the time of starting and planning
  peer      bench/ingest_peers.py: the same segments with PyAV and zarr-python

Rounds make each measurement once, one after another; figures are medians. The last line is one JSON object: segments/s, null where the
peer could not be measured.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

import environments
from commands import Failed, run, say

BENCH = pathlib.Path(__file__).resolve().parent
CANNOT = 77


def make_videos(arguments):
    if arguments.folder:
        arguments.videos = sum(not path.name.startswith(".") for path in arguments.folder.iterdir())
        return arguments.folder
    folder = arguments.work / f"videos-{arguments.videos}-{arguments.seconds}-medium"
    if folder.exists():
        return folder
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for number in range(arguments.videos):
        say(f"making video {number + 1} of {arguments.videos}")
        source = f"testsrc2=size=1280x720:rate=30:duration={arguments.seconds},noise=alls=6:allf=t:all_seed={number}"
        run(["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264",
             "-pix_fmt", "yuv420p", part / f"{number:04}.mp4"], 600)
    part.rename(folder)
    return folder


def fresh(arguments, name):
    path = arguments.scratch / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def limit(arguments, videos):
    folder = fresh(arguments, "plan")
    folder.mkdir(parents=True)
    return json.loads(run([arguments.build / "bin/penstock-bench-ingest", videos, folder, arguments.segments, arguments.threads], 600))["segments"]


def penstock(arguments, videos, destination):
    """Segments/s, with starting and planning."""
    begin = time.perf_counter()
    told = run([arguments.build / "bin/penstock", "ingest", "video", videos, destination, "--segments", arguments.segments, "--no-verify",
         "--threads", arguments.threads], 600)
    seconds = time.perf_counter() - begin
    return int(re.search(r"^([\d,]+) segments? of", told, re.MULTILINE)[1].replace(",", "")) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--environments", type=pathlib.Path, help="where the peer is installed (environments in --work)")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where datasets are written (/dev/shm)")
    parser.add_argument("--folder", type=pathlib.Path, help="of videos, instead of those that ffmpeg makes")
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=30, help="length of a video (30)")
    parser.add_argument("--segments", type=int, default=6, help="segments of a video (6)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads, and processes of the peer (one a CPU)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    arguments = parser.parse_args()
    if not shutil.which("ffmpeg") or not (arguments.build / "bin/penstock-bench-ingest").exists():
        print("ingest: there is no ffmpeg, or penstock was built without FFmpeg's libraries")
        sys.exit(CANNOT)
    arguments.scratch = pathlib.Path(tempfile.mkdtemp(prefix="penstock-bench-ingest-", dir=arguments.scratch))
    videos = make_videos(arguments)
    pythons, missing = environments.prepare_all(arguments.environments or arguments.work / "environments", {"pyav": "pyav"}, arguments.peers)
    found = {"limit": [], "penstock": [], "peer": []}
    try:
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            found["limit"].append(limit(arguments, videos))
            dataset = fresh(arguments, "penstock.zarr")
            found["penstock"].append(penstock(arguments, videos, dataset))
            if "pyav" in pythons:
                command = [pythons["pyav"], BENCH / "ingest_peers.py", videos, dataset, fresh(arguments, "peer.zarr"), arguments.threads]
                found["peer"].append(json.loads(run(command, 600).splitlines()[-1])["segments"])
    finally:
        shutil.rmtree(arguments.scratch, ignore_errors=True)
    print(f"\n{'segments/s':24} {'median':>8} {'min':>8} {'max':>8}")
    for name, values in found.items():
        if values:
            print(f"{name:24} {statistics.median(values):8.2f} {min(values):8.2f} {max(values):8.2f}")
    for reason in missing.values():
        print(f"peer: {reason}")
    print(json.dumps({name: round(statistics.median(values), 2) if values else None for name, values in found.items()}))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"ingest: {failed}")
