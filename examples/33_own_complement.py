"""33 · A complement of your own: E is random, as long as [Cᵀ E] is regular. No result may depend on it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.complements import AbstractComplement, Completion


class RandomDirections(AbstractComplement):
    """E of normally distributed columns, by a seed; D and X from [C; Eᵀ]⁻¹ = [X D]."""

    seed: int = eqx.field(static=True, default=0)

    def supplement(self, C, mass):
        rank, n = C.shape
        return jax.random.normal(jax.random.key(self.seed), (n, n - rank))

    def complete(self, C, mass, choice, local=None):
        rows = choice.pick(C)
        inverse = jnp.linalg.inv(jnp.concatenate([rows, choice.E.T]))
        return Completion(inverse[:, len(rows) :], inverse[:, : len(rows)])

    def holds_E(self, choice):
        return True


system = da.build(da.mechanism("four-bar"))
usual = da.simulate(system, 1.0, samples=3)
for seed in (1, 2):
    method = da.formulations.NullSpace(RandomDirections(seed))
    run = da.simulate(system, 1.0, samples=3, formulation=method)
    print(f"seed {seed}: differs from the default method by {np.max(np.abs(run.q - usual.q)):.0e}")
