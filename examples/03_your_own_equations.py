"""03 · Your own M, h and constraints: a bead on a wire y = x²/2, pulled by a spring, with named parameters."""

import jax.numpy as jnp

import dalembert as da


def mass(t, q, p):
    return p["m"] * jnp.eye(2)


def force(t, q, v, p):
    return jnp.array([0.0, -9.81]) * p["m"] - p["k"] * q


def wire(t, q, p):
    return jnp.stack([q[1] - 0.5 * q[0] ** 2])


def potential(t, q, p):
    return 9.81 * p["m"] * q[1] + 0.5 * p["k"] * q @ q


system = da.FunctionSystem(
    mass,
    force,
    position=wire,
    potential=potential,
    q0=[1.0, 0.5],
    parameters={"m": 0.2, "k": 3.0},
    joints={"wire": 1},
    name="bead on a wire",
)
solution = da.simulate(system, 5.0)
print(solution.status.message)
print(f"energy drift {solution.energy_drift:.1e}, violation {solution.violation['position']:.1e}")

stiffer = da.simulate(system.replace({"k": 30.0}), 5.0)  # no recompilation
print(f"compiling for the second run took {stiffer.stats['compile_s']:.2f} s")
