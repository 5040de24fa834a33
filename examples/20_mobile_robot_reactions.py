"""20 · The mobile robot of Wojtyra and Fraczek: three ways to drop its redundant rows, and what they agree on."""

import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import dalembert as da

warnings.simplefilter("ignore", da.errors.RedundancyWarning)  # that B and W3 are open is the subject here
system = da.build(da.mechanism("mobile-robot"))
print(da.check(system))

# rows 6 and 21, 18 and 21, 19 and 21 of the paper (section 4.4), which counts from 1
variants = [("C[1]", "W4"), ("W1", "W4"), ("W2", "W4")]
runs = [da.simulate(system, 20.0, rule=da.reactions.RowElimination(rows), rtol=1e-10) for rows in variants]
apart = max(float(np.max(np.abs(np.asarray(run.q) - np.asarray(runs[0].q)))) for run in runs)
print(f"the three motions differ by {apart:.0e} m")

figure, axes = plt.subplots(3, 2, figsize=(10, 9), constrained_layout=True)
t = runs[0].t
platform = runs[0].dataset["position"].sel(body="body1")
axes[0, 0].plot(t, runs[0].dataset["coordinate"].sel(joint_coordinate="H.displacement"))
axes[0, 0].set(title="displacement in joint H", xlabel="t (s)", ylabel="d (m)")
axes[0, 1].plot(platform.sel(axis="x"), platform.sel(axis="y"))
axes[0, 1].set(title="path of the platform", xlabel="x (m)", ylabel="y (m)")
panels = [(axes[1, 0], "B", "y"), (axes[1, 1], "D", "y"), (axes[2, 0], "W3", "y"), (axes[2, 1], "W5", "y")]
for panel, joint, axis in panels:
    for rows, run in zip(variants, runs, strict=True):
        found = run.reactions(joint, frame="joint")
        panel.plot(t, found["force"].sel(axis=axis), label=f"without {', '.join(rows)}")
    sure = "unique" if found.attrs["rule"] == "unique" else "not unique"
    spread = max(
        float(np.max(np.abs(run.reactions(joint)["force"] - runs[0].reactions(joint)["force"]))) for run in runs
    )
    print(f"{joint}: {sure}; the three runs differ by {spread:.1e} N")
    panel.set(title=f"reaction of {joint}: {sure}", xlabel="t (s)", ylabel=f"F{axis} (N)")
    panel.legend(fontsize=7)
figure.savefig("mobile_robot.png", dpi=120)
print("picture: mobile_robot.png")
