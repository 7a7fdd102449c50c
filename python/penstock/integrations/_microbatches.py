"""What programs of language models share: microbatches of a step's batch, and a state that is only told between two steps."""

import json

from penstock import Invalid
from penstock.torch import Loader


class Microbatches:
    """Batches of all epochs of a run, cut into `rows` samples each. Connects at the first one, with the state that was loaded by
    then. `make`: a dict of tensors of a batch of penstock.torch, with one row a sample; `check`: is given the loader's info."""

    def __init__(self, rows, make, check, **connect):
        self.loader = Loader(all_valid=True, **connect)
        self._rows, self._make, self._check = rows, make, check
        self._state, self._left = "", 0

    def __iter__(self):
        self._check(self.loader.info)
        for epoch in self.loader.epochs():
            for batch in epoch:
                count, fields = batch.sample_count, self._make(batch)
                del batch
                if count % self._rows:
                    raise Invalid(
                        f"a batch has {count} samples on this rank, and the program takes {self._rows} at once: batch.global_size "
                        f"has to be a multiple of {self._rows} samples for each of {self.loader.info.group_count} groups of ranks"
                    )
                for first in range(0, count, self._rows):
                    self._left = count - first - self._rows
                    yield {name: of[first:first + self._rows] for name, of in fields.items()}

    def state(self):
        """A text: the same on all ranks, and for any number of them. Empty before the first batch."""
        if self.loader._loader is None:
            return self._state
        if self._left:
            raise Invalid(
                f"a state within a batch of the run, {self._left} samples before its end: save behind all microbatches of a "
                "step. batch.global_size has to be the samples of one step of the optimizer, or divide it"
            )
        return json.dumps(self.loader.state_dict())

    def load(self, state):
        if state:
            self._state = state
            self.loader.load_state_dict(json.loads(state))
