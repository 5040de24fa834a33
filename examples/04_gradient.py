"""04 · A gradient through a whole motion: how the end position of a four-bar depends on a mass and a length."""

import jax
import jax.numpy as jnp

import dalembert as da

system = da.build(da.mechanism("four-bar"))


def coupler_end(knobs):
    """Where the coupler's centre is after half a second; the start is assembled anew for each linkage."""
    values = {"crank.mass": knobs[0], "B.point_j": jnp.stack([knobs[1], 0.0])}
    solution = da.simulate(system.replace(values), 0.5, rtol=1e-9, samples=2, max_steps=512)
    return solution.q[-1, 3]


value, gradient = jax.jit(jax.value_and_grad(coupler_end))(jnp.array([1.0, -1.0]))
print(f"x = {value:.6f} m, dx/dmass = {gradient[0]:.6f} m/kg, dx/dlength = {gradient[1]:.6f} m/m")
