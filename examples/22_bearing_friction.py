"""22 · A door that rubs in its hinges: refused while the hinge loads are open, then run under a rule that says them."""

import warnings

import numpy as np

import dalembert as da

warnings.simplefilter("ignore", da.errors.RedundancyWarning)  # the rule is named below
model = da.mechanism("door-two-hinges", swing=2.0)
for hinge in ("top", "bottom"):
    model.bearing_friction(f"{hinge}_rubs", hinge, coulomb=0.3, radius=0.02)
try:
    da.simulate(model, 1.0)
except da.errors.DalembertError as refused:
    print(f"refused: {refused}")

# the hinges' own stiffness decides how they share the load
stiffness = {"F": 1e7, "M": 1e3}
solution = da.simulate(
    model, 1.0, rule=da.reactions.Weighted({"top": stiffness, "bottom": stiffness}), rtol=1e-6, samples=21
)
print(f"rule: {solution.rule.describe(solution.system)}")
for hinge in ("top", "bottom"):
    force = solution.reactions(hinge, frame="joint")["force"].values
    print(f"{hinge}: load across the axis {np.hypot(force[0, 0], force[0, 1]):.2f} N at the start")
speed = solution.dataset["angular_velocity"].sel(body="leaf", axis="z")
print(f"after 1 s the door turns at {float(speed[-1]):.3f} rad/s instead of 2")
print(f"friction took {-float(solution.energy['work'][-1]):.3f} J; the balance closes to {solution.energy_drift:.0e}")
