"""torchtitan: a dataloader of tokens for its trainer, as its configuration names one.

The service delivers one field, tokens, int32 [sequence + 1]: see configs/packed-documents.yaml. Iterates over all
epochs. torchtitan saves and loads the state with its checkpoints. Where ranks share a model, write delivery: {mesh:
[pp: 2, dp_replicate: 1, dp_shard: 4, cp: 2, tp: 2], data: [dp_replicate, dp_shard]}: torchtitan cuts along cp itself.
"""

from dataclasses import dataclass

from torchtitan.components.dataloader import BaseDataLoader, DataloaderExhaustedError

import penstock.torch


class PenstockDataLoader(BaseDataLoader):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        run_dir: str | None = None

    def __init__(self, config, **_):  # who this process is among all: from the environment, as the service counts
        self.loader = penstock.torch.Loader(run_dir=config.run_dir)

    def __iter__(self):
        for epoch in self.loader.epochs():
            for batch in epoch:
                tokens = batch["tokens"].long()
                yield {"input": tokens[:, :-1]}, tokens[:, 1:]
        raise DataloaderExhaustedError

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)


if __name__ == "__main__":
    data = PenstockDataLoader(PenstockDataLoader.Config())
    try:
        for number, (inputs, labels) in enumerate(data, 1):
            assert (inputs["input"][:, 1:] == labels[:, :-1]).all()
    except DataloaderExhaustedError:
        print(f"{number} batches of {tuple(labels.shape)}, then {data.state_dict()['epoch']} epochs are over", flush=True)
    data.loader.close()
