"""01 · Describe a mechanism, simulate it, read a reaction, save and plot.

A crank-rocker of three uniform rods swings under gravity. Lengths in metres, masses in kilograms.
"""

import math

import dalembert as da

model = da.Model("my four-bar", space="plane", gravity=(0, -9.81))


def rod(name, start, end, mass):
    """A uniform rod between two points: centre, angle and inertia follow."""
    (x0, y0), (x1, y1) = start, end
    length = math.hypot(x1 - x0, y1 - y0)
    return model.body(
        name,
        mass=mass,
        inertia=mass * length**2 / 12,
        position=((x0 + x1) / 2, (y0 + y1) / 2),
        angle=math.atan2(y1 - y0, x1 - x0),
    )


A, B, C, D = (0, 0), (0.5, 0.866), (2.25, 1.8), (2.0, 0)
crank, coupler, rocker = rod("crank", A, B, 1.0), rod("coupler", B, C, 2.0), rod("rocker", D, C, 1.5)
model.revolute("A", model.ground, crank, at=A)
model.revolute("B", crank, coupler, at=B)
model.revolute("C", coupler, rocker, at=C)
model.revolute("D", model.ground, rocker, at=D)

print(da.check(model))
solution = da.simulate(model, 5.0)
print(solution.status.message, f"{solution.stats['steps']} steps, violation {solution.violation['position']:.1e}")

pin = solution.reactions("B")  # on the coupler, in world axes
print(f"largest force in pin B: {float((pin['force'] ** 2).sum('axis').max() ** 0.5):.1f} N ({pin.attrs['rule']})")

solution.to_netcdf("four_bar.nc")
solution.plot("four_bar.png")
solution.plot("reactions", joint="B", path="pin_B.png")
solution.animate("four_bar.html")  # one page that plays, offline; .gif and .mp4 for slides
