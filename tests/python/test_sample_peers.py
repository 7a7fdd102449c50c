"""The brute-force model of samples beside packages that know windows: robomimic, LeRobot and xbatcher, sample by sample.

    python test_sample_peers.py [robomimic] [lerobot] [xbatcher]

Jobs are compared with the model (tests/mpi/test_samples.py); here the model is compared with rules that others have written. Episodes
have 1 to 40 frames, and empty ones among them where a package can have such. Packages that are not installed are skipped with the
reason; without any of them the exit code is 77.
"""

import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "mpi"))
from samples_oracle import Samples  # noqa: E402

LENGTHS = [5, 1, 0, 22, 16, 0, 15, 40, 1, 2]
BEFORE, AFTER = 1, 14  # steps before and after the anchor
STEPS = BEFORE + 1 + AFTER


def make_model(lengths, before, after, fill="edge"):
    numbers = np.random.default_rng(3)
    store = {"ends": np.cumsum(lengths), "state": numbers.random((sum(lengths), 5), dtype="f4"),
             "action": numbers.random((sum(lengths), 2), dtype="f4")}
    fields = {name: {"array": name, "steps": f"{-BEFORE}:{AFTER + 1}"} for name in ("state", "action")}
    samples = {"episodes": {"ends": "ends"}, "pad": {"before": before, "after": after}, "fill": fill}
    return store, Samples([store], samples, fields)


def same(sample, field, values, valid):
    np.testing.assert_array_equal(sample[field], np.asarray(values), err_msg=field)
    if valid is not None:
        np.testing.assert_array_equal(sample[f"{field}.valid"], np.asarray(valid).reshape(-1), err_msg=f"{field}.valid")


def slices(lengths):
    ends = np.cumsum(lengths)
    return [(int(end - length), int(end)) for length, end in zip(lengths, ends)]


# --- robomimic: edges are repeated on both sides, or windows that are not whole are left out ------------------------


def open_robomimic(path, pad):
    from robomimic.utils.dataset import SequenceDataset

    return SequenceDataset(path, ("state",), ("actions",), frame_stack=BEFORE + 1, seq_length=AFTER + 1, pad_frame_stack=pad,
                           pad_seq_length=pad, get_pad_mask=True, hdf5_cache_mode=None, load_next_obs=False)


def write_robomimic(path, store, lengths):
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        for number, (first, end) in enumerate(pair for pair in slices(lengths) if pair[0] < pair[1]):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = end - first
            demo["actions"] = store["action"][first:end]
            demo["obs/state"] = store["state"][first:end]


def check_robomimic(folder):
    from robomimic.utils import obs_utils

    obs_utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["state"]}})
    for pad, lengths in ((True, LENGTHS), (False, [length for length in LENGTHS if length >= STEPS])):
        store, model = make_model(lengths, BEFORE if pad else 0, AFTER if pad else 0)
        path = os.path.join(folder, f"{pad}.hdf5")
        write_robomimic(path, store, lengths)
        dataset, anchors = open_robomimic(path, pad), model.anchors()
        assert len(dataset) == len(anchors), (len(dataset), len(anchors))
        for number, anchor in enumerate(anchors):
            theirs, sample = dataset[number], model.sample(anchor)
            valid = theirs["pad_mask"] if pad else None
            same(sample, "action", theirs["actions"], valid)
            same(sample, "state", theirs["obs"]["state"], valid)
        yield f"padded: {pad}", len(anchors)


# --- LeRobot: edges are repeated, and its masks are the inverse; its sampler leaves out an episode's last frames ------


def check_lerobot(folder):
    os.environ["HF_HUB_OFFLINE"] = "1"
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.datasets.sampler import EpisodeAwareSampler

    lengths = [length for length in LENGTHS if length > 0]  # it refuses others
    store, model = make_model(lengths, BEFORE, AFTER)
    rate, root = 10, os.path.join(folder, "lerobot")
    features = {name: {"dtype": "float32", "shape": store[name].shape[1:], "names": None} for name in ("state", "action")}
    written = LeRobotDataset.create("penstock/samples", rate, features, root=root, use_videos=False)
    for first, end in slices(lengths):
        for frame in range(first, end):
            written.add_frame({"task": "push", "state": store["state"][frame], "action": store["action"][frame]})
        written.save_episode()
    written.finalize()
    offsets = [(step - BEFORE) / rate for step in range(STEPS)]
    dataset = LeRobotDataset("penstock/samples", root=root, delta_timestamps={"state": offsets, "action": offsets})
    anchors = model.anchors()
    assert anchors == list(range(len(dataset))), len(dataset)
    for anchor in anchors:
        theirs, sample = dataset[anchor], model.sample(anchor)
        for field in ("state", "action"):
            same(sample, field, theirs[field], ~theirs[f"{field}_is_pad"])
    yield "padded", len(anchors)
    for dropped in (0, 7, 14):
        _, model = make_model(lengths, BEFORE, AFTER - dropped)
        firsts, ends = zip(*slices(lengths))
        sampler = EpisodeAwareSampler(list(firsts), list(ends), drop_n_last_frames=dropped, shuffle=False)
        assert sorted(sampler) == model.anchors(), dropped
        yield f"last {dropped} frames left out", len(sampler)


# --- xbatcher: whole windows of one episode ---------------------------------------------------------------------------


def check_xbatcher(folder):
    import xarray
    import xbatcher

    del folder
    store, model = make_model(LENGTHS, 0, 0)
    anchors = iter(model.anchors())
    count = 0
    for first, end in slices(LENGTHS):
        if end - first < STEPS:
            continue
        arrays = xarray.Dataset({"state": (("frame", "number"), store["state"][first:end]),
                                 "action": (("frame", "target"), store["action"][first:end])})
        sizes = dict(arrays.sizes) | {"frame": STEPS}  # axes that are not named become one with the windows
        for window in xbatcher.BatchGenerator(arrays, sizes, {"frame": STEPS - 1}):
            sample = model.sample(next(anchors))
            same(sample, "state", window["state"].values, None)
            same(sample, "action", window["action"].values, None)
            count += 1
    assert next(anchors, None) is None
    yield "whole windows", count


CHECKS = {"robomimic": check_robomimic, "lerobot": check_lerobot, "xbatcher": check_xbatcher}


def main():
    done = 0
    for name in sys.argv[1:] or CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                for what, count in CHECKS[name](folder):
                    assert count > 0, what
                    print(f"{name}, {what}: {count} samples are the same", flush=True)
                    done += 1
            except ImportError as reason:
                print(f"{name}: skipped: {reason}")
    sys.exit(0 if done else 77)


if __name__ == "__main__":
    main()
