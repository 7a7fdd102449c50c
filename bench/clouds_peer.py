"""zarr-python with icechunk: reads all of an array over S3, and prints the seconds. clouds_peer.py URL: of the server."""

import sys
import time

import icechunk
import zarr

AT_ONCE = 200


def main():
    zarr.config.set({"async.concurrency": AT_ONCE})
    storage = icechunk.s3_storage(bucket="bench", prefix="bench/repository", endpoint_url=sys.argv[1], allow_http=True,
                                  force_path_style=True, region="us-east-1", from_env=True)
    array = zarr.open_group(icechunk.Repository.open(storage).readonly_session("main").store, mode="r")["base_frames"]
    slab = AT_ONCE * array.chunks[0]
    start = time.monotonic()
    for first in range(0, array.shape[0], slab):
        array[first : first + slab]
    print(time.monotonic() - start)


if __name__ == "__main__":
    main()
