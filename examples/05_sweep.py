"""05 · A sweep: 64 four-bars with different cranks, simulated together by vmap in one compiled program."""

import jax
import jax.numpy as jnp

import dalembert as da

system = da.build(da.mechanism("four-bar"))
masses = jnp.linspace(0.2, 3.0, 64)


def lowest_point(mass):
    solution = da.simulate(system.replace({"crank.mass": mass}), 2.0, rtol=1e-7, integrator="tsit5", samples=101)
    return solution.q[:, 4].min()


lowest = jax.jit(jax.vmap(lowest_point))(masses)
best = int(jnp.argmin(lowest))
print(f"the coupler comes lowest, to y = {lowest[best]:.4f} m, with a crank of {masses[best]:.2f} kg")
