"""07 · Canadarm2 holds on to the floating station at both ends: joint coordinates with one cut loop, and its drift.

After Kövecses and Piedbœuf (2003), figures 3 to 6: the same fixed steps without any correction, and with one velocity
filter and two corrections of position after each step.
"""

from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import dalembert as da

system = da.build(da.mechanism("canadarm2"), coordinates="joint", cut=["tip"])
print(f"{system.n} velocities, {system.m} rows: {system.n - system.m} degrees of freedom")

ways = {
    "no correction": da.stabilise.NoStabilisation(),
    "one filter, two corrections": da.stabilise.Projection(corrections=2, frozen=False),
}
figure, panels = plt.subplots(3, 2, figsize=(9, 8), sharex=True, constrained_layout=True)
for column, (words, stabilisation) in enumerate(ways.items()):
    solution = da.simulate(system, 80.0, stabilisation=stabilisation, integrator="bosh3", dt=0.2, samples=161)
    t, q, v = solution.t, solution.q, solution.v
    tip = np.asarray(jax.vmap(system.position_residual)(t, q))  # Φ, world axes, m
    rate = np.asarray(jax.vmap(lambda t, q, v: da.assemble(system, t, q, v).phi)(t, q, v))  # C v + b, m/s
    print(f"{words}: the tip is off by at most {np.max(np.abs(tip)):.1e} m and {np.max(np.abs(rate)):.1e} m/s")
    panels[0, column].plot(
        t, np.degrees(q[:, 7:] - q[0, 7:]), label=[n.split(".")[0] for n in system.coordinate_names[7:]]
    )
    panels[1, column].plot(t, tip, label=("x", "y", "z"))
    panels[2, column].plot(t, rate, label=("x", "y", "z"))
    panels[0, column].set(title=words, ylabel="turn of the joints (deg)")
    panels[1, column].set(ylabel="violation of position (m)")
    panels[2, column].set(ylabel="violation of velocity (m/s)", xlabel="t (s)")
panels[0, 0].legend(fontsize=6, ncols=2)
panels[1, 0].legend(fontsize=7)

out = Path("out")
out.mkdir(exist_ok=True)
figure.savefig(out / "canadarm2.png", dpi=80)
print(f"picture: {out / 'canadarm2.png'}")
