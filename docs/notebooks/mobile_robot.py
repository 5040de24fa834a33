# %% [markdown]
# # The robot of Wojtyra and Frączek
# Seven bodies, four knife edges under the platform and one under the trolley: two redundant rows, one of them
# nonholonomic.

# %%
import warnings

import numpy as np

import dalembert as da

warnings.simplefilter("ignore", da.errors.RedundancyWarning)  # that B, C and four edges are open is the subject here
system = da.build(da.mechanism("mobile-robot"))
found = da.check(system)
print(found)

# %% [markdown]
# ## The same by hand
# B_X = C_XᵀQ_X of equation (27) is zero where the reaction is unique.

# %%
from dalembert.analysis import b_matrices  # noqa: E402

C = np.asarray(da.assemble(system, 0.0, system.q0, system.v0).C)
for name, B in b_matrices(C, {owner.name: owner.rows for owner in system.owners}).items():
    print(f"{name:6s} {'unique' if np.max(np.abs(B)) < 1e-9 else 'not unique'}")

# %% [markdown]
# ## Two rows dropped, in two ways
# Section 4.4: the motion is the same, W5 is the same, W3 is not.

# %%
one, two = (
    da.simulate(system, 4.0, rule=da.reactions.RowElimination(rows), samples=41)
    for rows in (("C[1]", "W4"), ("W1", "W4"))
)
print(f"the two motions differ by {float(np.max(np.abs(np.asarray(one.q) - np.asarray(two.q)))):.0e} m")
for joint in ("W5", "W3"):
    gap = np.abs(one.reactions(joint)["force"] - two.reactions(joint)["force"])
    print(f"{joint}: the two runs differ by {float(gap.max()):.0e} N")

# %%
one.animate("mobile_robot.html")
