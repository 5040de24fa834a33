"""02 · A door on two hinges: the motion is unique, the hinge reactions are not, and the package says so."""

import warnings

import dalembert as da

model = da.mechanism("door-two-hinges", swing=0.0)
print(da.check(model))

with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    solution = da.simulate(model, 1.0, samples=11)
    top, bottom = solution.reactions("top"), solution.reactions("bottom")
print("warning:", heard[0].message)

weight = float((top["force"] + bottom["force"]).sel(axis="z")[0])
print(f"both hinges together carry {weight:.2f} N: that much the rigid body decides")
print(f"the top one alone {float(top['force'].sel(axis='z')[0]):.2f} N, by the rule: {top.attrs['rule']}")
