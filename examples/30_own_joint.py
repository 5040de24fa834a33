"""30 · A joint of your own: a point of one body stays on an ellipse of another."""

import jax.numpy as jnp
import numpy as np

import dalembert as da


def on_ellipse(t, i, j, p):
    """One row, a length: how far the point of j is outside the ellipse, along marker i's axes."""
    d = i.R.T @ (j.p - i.p)
    return ((jnp.sqrt((d[0] / p["a"]) ** 2 + (d[1] / p["b"]) ** 2) - 1.0) * p["b"])[None]


class PointOnEllipse(da.model.Joint):
    """The point `at_j` of j stays on an ellipse of i with centre `at_i` and half axes `a`, `b` along i's axes."""

    spaces = ("plane",)

    a: da.model.Positive
    b: da.model.Positive
    at_i: da.model.Vector | None = None
    at_j: da.model.Vector | None = None

    def markers(self, on):
        return on.point_markers()

    def numbers(self, on):
        return {"a": np.asarray(on.positive("a")), "b": np.asarray(on.positive("b"))}

    def rows_in(self, space):
        return da.systems.JointRows(holonomic=1, position=on_ellipse)

    def look(self, space):
        return da.model.Look("curve", sides=(1,), foot=False)


model = da.Model("ellipse", space="plane", gravity=(0, -9.81))
bead = model.body("bead", mass=1.0, inertia=0.01, position=(2.0, 0.0))
model.add(PointOnEllipse("rim", model.ground, bead, a=2.0, b=1.0, at_i=(0, 0)))
print(da.check(model))
solution = da.simulate(model, 2.0)
x, y = np.asarray(solution.q[:, :2]).T
print(f"stays on the ellipse to {np.max(np.abs((x / 2) ** 2 + y**2 - 1)):.1e}")
print(f"energy drift {solution.energy_drift:.1e}")
