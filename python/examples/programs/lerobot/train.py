"""LeRobot's diffusion policy, tiny, on two processes, fed by LeRobot's own loader or by Penstock. The step is that of lerobot-train.

    data.py data && cd data
    torchrun --nproc-per-node 2 ../train.py . --loader own
    penstock-run -c run.yaml -- python3 ../train.py . --loader penstock
"""

import argparse
import json
import os
import pathlib
import signal
import sys

os.environ.update(HF_HUB_OFFLINE="1", ACCELERATE_USE_CPU="1")
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import told  # noqa: E402
import torch  # noqa: E402
import vision  # noqa: E402, F401, I001
from accelerate import Accelerator  # noqa: E402
from lerobot.configs.types import FeatureType  # noqa: E402
from lerobot.datasets.factory import resolve_delta_timestamps  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset, LeRobotDatasetMetadata  # noqa: E402
from lerobot.datasets.sampler import EpisodeAwareSampler  # noqa: E402
from lerobot.datasets.utils import dataset_to_policy_features  # noqa: E402
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig  # noqa: E402
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy  # noqa: E402
from lerobot.policies.factory import make_pre_post_processors  # noqa: E402
from lerobot.utils.train_utils import load_training_state, save_training_state  # noqa: E402

NAME, BATCH, EPOCHS = "penstock/robot", 16, 2  # epochs as in run.yaml
STATE = "loader.json"  # beside LeRobot's training state
RECORDED = ("index", "frame_index", "episode_index", "timestamp", "observation.images.top", "observation.state", "action",
            "observation.images.top_is_pad", "observation.state_is_pad", "action_is_pad")


def tiny(metadata):
    features = dataset_to_policy_features(metadata.features)
    outputs = {name: feature for name, feature in features.items() if feature.type is FeatureType.ACTION}
    return DiffusionConfig(
        input_features={name: feature for name, feature in features.items() if name not in outputs}, output_features=outputs, device="cpu",
        down_dims=(16, 32), diffusion_step_embed_dim=16, spatial_softmax_num_keypoints=4, crop_shape=(16, 16), push_to_hub=False)


class Own:
    """lerobot-train's loader."""

    def __init__(self, root, deltas, accelerator, config, workers):
        dataset = LeRobotDataset(NAME, root=root, delta_timestamps=deltas)
        episodes = dataset.meta.episodes
        sampler = EpisodeAwareSampler(episodes["dataset_from_index"], episodes["dataset_to_index"],
                                      drop_n_last_frames=config.drop_n_last_frames, shuffle=True)
        self.loader = accelerator.prepare(torch.utils.data.DataLoader(
            dataset, num_workers=workers, batch_size=BATCH, sampler=sampler, prefetch_factor=2 if workers else None))

    def epochs(self):
        for _ in range(EPOCHS):
            yield self.loader

    def state_dict(self):
        """Nothing: lerobot-train saves no position."""
        return {}

    def load_state_dict(self, _):
        pass

    def close(self):
        pass


def loader_of(arguments, metadata, deltas, accelerator, config):
    if arguments.loader == "own":
        return Own(arguments.folder / "robot", deltas, accelerator, config, arguments.workers)
    from penstock.integrations.lerobot import Loader
    return Loader(metadata, deltas)


def train_step(policy, batch, optimizer, accelerator):
    loss, _ = policy.forward(batch)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(policy.parameters(), 10)
    optimizer.step()
    optimizer.zero_grad()


def save(folder, step, optimizer, loader):
    save_training_state(folder, step, optimizer)
    (folder / STATE).write_text(json.dumps(loader.state_dict()), encoding="ascii")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--loader", choices=("own", "penstock"), required=True)
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--idle", action="store_true", help="take all batches, and train nothing")
    parser.add_argument("--workers", type=int, default=4, help="of LeRobot's loader; its default is 4")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="a folder to save in, before --kill-at")
    parser.add_argument("--kill-at", type=int, help="the step that a process dies in")
    parser.add_argument("--resume", type=pathlib.Path, help="a folder of --checkpoint")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator()
    metadata = LeRobotDatasetMetadata(NAME, root=arguments.folder / "robot")
    config = tiny(metadata)
    deltas = resolve_delta_timestamps(config, metadata)
    policy = DiffusionPolicy(config)
    preprocessor, _ = make_pre_post_processors(config, dataset_stats=metadata.stats)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)
    loader = loader_of(arguments, metadata, deltas, accelerator, config)
    step = 0
    if arguments.resume:
        step, optimizer, _ = load_training_state(arguments.resume, optimizer, None)
        loader.load_state_dict(json.loads((arguments.resume / STATE).read_text(encoding="ascii")))
    policy, optimizer = accelerator.prepare(policy, optimizer)
    policy.train()
    tell = told.Told()
    for epoch in loader.epochs():
        for batch in epoch:
            tell.batch(step, *(batch[name] for name in RECORDED))
            if step == arguments.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if not arguments.idle:
                train_step(policy, preprocessor(batch), optimizer, accelerator)
            step += 1
            if arguments.checkpoint and step + 1 == arguments.kill_at:
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    save(arguments.checkpoint, step, optimizer.optimizer, loader)
                accelerator.wait_for_everyone()
            if step >= arguments.steps:
                break
        if step >= arguments.steps:
            break
    tell.end()
    loader.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
