"""32 · A rule of your own that picks reactions: least squares, where one joint counts less than the others."""

import warnings

import equinox as eqx
import jax.numpy as jnp

import dalembert as da
from dalembert.reactions import AbstractQuadraticRule


class Preferring(AbstractQuadraticRule):
    """The λ of least λᵀAλ with Cᵀλ = r, A the unit matrix; the rows of one joint count `share` of that."""

    joint: str = eqx.field(static=True)
    share: float = 0.1

    def compliance(self, system, equations):
        own = jnp.zeros(system.m).at[jnp.array(system.owner_named(self.joint).rows)].set(1.0)
        return jnp.diag(1.0 - (1.0 - self.share) * own)

    def describe(self, system):
        return f"least squares, '{self.joint}' at {self.share:g}"

    def names(self):
        return (self.joint,)

    def renamed(self, to):
        return Preferring(to(self.joint), self.share)


warnings.simplefilter("ignore", da.errors.RedundancyWarning)
solution = da.simulate(da.mechanism("door-two-hinges", swing=0.0), 0.1, samples=2)
for rule in ("minimum_norm", Preferring("top"), Preferring("bottom")):
    top = solution.reactions("top", rule=rule)
    print(f"{top.attrs['rule']}: the top hinge carries {float(top['force'].sel(axis='z')[0]):.2f} N")
