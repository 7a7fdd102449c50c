"""PyAV and zarr-python in a pool of processes: the segments of a dataset that penstock ingest video wrote, once more.

    ingest_peers.py VIDEOS DATASET DESTINATION WORKERS

Each process opens a video, seeks to the keyframe before each segment, decodes to the segment's last frame, scales and cuts the frames, and
writes the segment as a chunk with the same codec. Prints segments/s, without the time in which processes start.
"""

import json
import multiprocessing
import pathlib
import sys
import time

import av
import numpy as np
import zarr

FPS, FRAMES, SIZE = 4, 20, 256


def frames_of(container, stream, start):
    """The frames that are shown at start, start + 1 / FPS, ..."""
    first = stream.start_time or 0
    moments = [first + round(start / stream.time_base) + round(k / FPS / stream.time_base) for k in range(FRAMES)]
    container.seek(moments[0], stream=stream, backward=True)
    found, last = [], None
    for frame in container.decode(stream):
        while len(found) < FRAMES and frame.pts > moments[len(found)] and last is not None:
            found.append(last)
        last = frame
        if len(found) == FRAMES or frame.pts >= moments[-1]:
            break
    return found + [last] * (FRAMES - len(found))


def picture(frame):
    scale = SIZE / min(frame.width, frame.height)
    image = frame.to_ndarray(format="rgb24", width=round(frame.width * scale), height=round(frame.height * scale), interpolation="BICUBIC")
    top, left = (image.shape[0] - SIZE) // 2, (image.shape[1] - SIZE) // 2
    return image[top:top + SIZE, left:left + SIZE]


def start(destination, barrier):
    global array
    array = zarr.open_array(destination, mode="r+")
    barrier.wait()


def write_video(job):
    path, segments = job
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for number, begin in segments:
            pictures = {}
            frames = frames_of(container, stream, begin)
            array[number] = np.stack([pictures.setdefault(frame.pts, picture(frame)) for frame in frames])
    return len(segments)


def main():
    videos, dataset, destination, workers = sys.argv[1:]
    group = zarr.open_group(dataset, mode="r")
    starts, to_video = group["segment_start"][:], group["segment_to_video"][:]
    array = zarr.create_array(destination, shape=group["base_frames"].shape, chunks=group["base_frames"].chunks, dtype="uint8",
                              compressors=zarr.codecs.ZstdCodec(level=1))
    paths = sorted(path for path in pathlib.Path(videos).iterdir() if not path.name.startswith("."))
    jobs = [(str(path), [(int(i), float(starts[i])) for i in np.flatnonzero(to_video == v)]) for v, path in enumerate(paths)]
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(int(workers) + 1)
    with context.Pool(int(workers), start, (destination, barrier)) as pool:
        result = pool.imap_unordered(write_video, jobs)
        barrier.wait()
        begin = time.perf_counter()
        count = sum(result)
        seconds = time.perf_counter() - begin
    assert array.shape[0] == count
    print(json.dumps({"segments": count / seconds}))


if __name__ == "__main__":
    main()
