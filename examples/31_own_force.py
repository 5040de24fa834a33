"""31 · A force of your own: two magnets that attract each other by strength / distance²."""

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

import dalembert as da


@dataclass(frozen=True)
class Attraction:
    """The law, (t, frames, p) → (force, torque) for each body; with a potential its energy is stored, not work."""

    def __call__(self, t, frames, p):
        i, j = frames
        d = j.p - i.p
        pull = p["strength"] * d / jnp.sum(d**2) ** 1.5
        none = jnp.zeros(1 if len(d) == 2 else 3)
        return [(pull, none), (-pull, none)]

    def potential(self, t, frames, p):
        d = frames[1].p - frames[0].p
        return -p["strength"] / jnp.sqrt(jnp.sum(d**2))


class Magnets(da.model.AbstractForce):
    """Magnets at a point of i and a point of j (default: their centres), of a `strength` in N m²."""

    i: da.model.Place = field(kw_only=False)
    j: da.model.Place = field(kw_only=False)
    strength: da.model.Positive
    at_i: da.model.Vector | None = None
    at_j: da.model.Vector | None = None

    def place(self, on):
        return on.force(on.point_markers(), {"strength": np.asarray(on.positive("strength"))})

    def law_in(self, space):
        return Attraction()

    def look(self, space):
        return da.model.Look(between="spring")


model = da.Model("magnets", space="plane")
rod = model.body("rod", mass=1.0, inertia=0.1, position=(0.5, 0.0))
model.revolute("pin", model.ground, rod, at=(0, 0))
model.add(Magnets("pair", model.ground, rod, strength=2.0, at_i=(1.0, 1.0), at_j=(1.0, 0.0)))
solution = da.simulate(model, 5.0)
print(f"energy drift {solution.energy_drift:.1e}")
weaker = da.simulate(da.build(model).replace({"pair.strength": 1.0}), 5.0)
angles = float(solution.q[-1, 2]), float(weaker.q[-1, 2])
print("after 5 s the rod is at {:.4f} rad, with magnets half as strong at {:.4f}".format(*angles))
