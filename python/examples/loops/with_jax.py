"""JAX with Flax and Optax: global arrays over all processes' devices.

    penstock-run -c run.yaml -- python3 with_jax.py
"""

import os

import flax.linen
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import penstock
import penstock.jax

jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
                           int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
sharding = NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))
model = flax.linen.Dense(4, kernel_init=flax.linen.initializers.zeros)
params = model.init(jax.random.key(0), jnp.zeros((1, 512)))
optimizer = optax.sgd(0.1)
state = optimizer.init(params)


@jax.jit
def train_step(params, state, batch):
    def loss(params):
        target = batch["latents"].astype("float32").mean((1, 3, 4))
        return jnp.mean((model.apply(params, batch["text"].astype("float32")) - target) ** 2)

    updates, state = optimizer.update(jax.grad(loss)(params), state)
    return optax.apply_updates(params, updates), state


samples = {}
with penstock.connect(wait_for_release=True) as loader:
    for epoch in loader.epochs():
        for batch in penstock.jax.batches(epoch, sharding):
            params, state = train_step(params, state, batch)
            samples[epoch] = samples.get(epoch, 0) + batch.sample_count
for epoch, count in samples.items():
    if epoch.complete:  # the run was not told to stop
        print(f"epoch {epoch.number} rank {jax.process_index()}: {count} samples", flush=True)
if jax.process_index() == 0:
    print(f"weights {sum(float((p ** 2).sum()) for p in jax.tree.leaves(params)):.4e}", flush=True)
