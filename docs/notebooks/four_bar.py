# %% [markdown]
# # A four-bar
# A crank-rocker of three uniform rods swings under gravity.

# %%
import jax
import numpy as np

import dalembert as da

model = da.mechanism("four-bar")
system = da.build(model)
print(da.check(system))

# %% [markdown]
# ## Motion
# Defaults for everything: the proximal form, Dormand–Prince 8, corrections after each step.

# %%
solution = da.simulate(system, 2.0)
print(solution.status.message)
print(
    f"{solution.stats['steps']} steps, constraints open by {solution.violation['position']:.0e} of the machine's size"
)
solution.plot("four_bar.png")
solution.animate("four_bar.html")

# %% [markdown]
# ## Reactions
# Force on the coupler in pin B, along the world's axes. `unique` says that the rigid-body model determines it.

# %%
pin = solution.reactions("B")
size = np.sqrt((pin["force"] ** 2).sum("axis"))
print(f"pin B: up to {float(size.max()):.2f} N, {pin.attrs['rule']}")

# %% [markdown]
# ## A parameter by its name
# `replace` gives another system without compiling again; it works under `jax.grad`, too.

# %%
heavy = da.simulate(system.replace({"crank.mass": 2.0}), 2.0).reactions("B")
size = np.sqrt((heavy["force"] ** 2).sum("axis"))
print(f"with a crank of 2 kg: up to {float(size.max()):.2f} N")


# %%
def crank_acceleration(mass):
    """Angular acceleration of the crank at the start."""
    changed = system.replace({"crank.mass": mass})
    return da.formulations.Proximal().solve(da.assemble(changed, 0.0, changed.q0, changed.v0)).vdot[2]


value, slope = jax.value_and_grad(crank_acceleration)(1.0)
step = 1e-5
differences = (crank_acceleration(1.0 + step) - crank_acceleration(1.0 - step)) / (2 * step)
print(f"acceleration of the crank {value:.4f} rad/s², per kg of its mass {slope:.4f}; by differences {differences:.4f}")
