"""21 · A table on four legs: the rigid body leaves one load open, the stiffness of the legs decides it."""

import warnings

import dalembert as da

warnings.simplefilter("ignore", da.errors.RedundancyWarning)
model = da.mechanism("table", speed=0.0)
print(da.check(model))
solution = da.simulate(model, 0.1, samples=3)


def loads(rule):
    names = [f"leg{k}" for k in (1, 2, 3, 4)]
    values = [float(solution.reactions(name, rule=rule)["force"].sel(axis="z")[0]) for name in names]
    return "  ".join(f"{v:6.2f}" for v in values) + " N"


soft = {"leg1": {"Fz": 1e4}, "leg2": {"Fz": 1e5}, "leg3": {"Fz": 1e5}, "leg4": {"Fz": 1e5}}
print("equally stiff legs     ", loads(da.reactions.Weighted({f"leg{k}": {"Fz": 1e5} for k in (1, 2, 3, 4)})))
print("leg 1 ten times softer ", loads(da.reactions.Weighted(soft)))
print("leg 4 left out         ", loads(da.reactions.RowElimination(("leg4",))))
