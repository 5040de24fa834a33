"""mechanisms · linkages in the plane with many bars, and one with a curve. SI units."""

from __future__ import annotations

import math

import numpy as np

from dalembert.mechanisms._planar import rod
from dalembert.mechanisms._registry import register
from dalembert.model import Model


@register("moving-pendulum", "a physical pendulum whose pivot slides on a level line (Blajer 1995)")
def moving_pendulum(mass: float = 2.0, inertia: float = 0.3, rho: float = 0.5, angle: float = 0.3) -> Model:
    """The example of Blajer (1995), section 6: x₂ = ρ sin x₃. The numbers are ours; the paper gives none."""
    model = Model("moving-pendulum", gravity=(0, -9.81))
    position = (0.0, rho * math.sin(angle))
    body = model.body("body", mass=mass, inertia=inertia, position=position, angle=angle, velocity=(0.4, 0.0))
    pivot = (position[0] - rho * math.cos(angle), 0.0)
    model.point_on_line("pivot", model.ground, body, at=pivot, axis=(1, 0))
    return model


# Jansen's "holy numbers", after T. Jansen, The Great Pretender (2007), in units of his own; here centimetres
JANSEN = {
    "a": 38.0, "b": 41.5, "c": 39.3, "d": 40.1, "e": 55.8, "f": 39.4, "g": 36.7, "h": 65.7, "i": 49.0, "j": 50.0,
    "k": 61.9, "l": 7.8, "m": 15.0,
}  # fmt: skip


def _meet(p, r: float, q, s: float, side: float) -> np.ndarray:
    """The point at distance r from p and s from q, to the left of p → q for side = 1."""
    p, q = np.asarray(p, float), np.asarray(q, float)
    d = q - p
    length = float(np.hypot(*d))
    x = (length**2 + r**2 - s**2) / (2 * length)
    y = math.sqrt(r**2 - x**2)
    e = d / length
    return p + x * e + side * y * np.array([-e[1], e[0]])


def jansen_points(crank: float) -> dict[str, np.ndarray]:
    """The joints of the leg at a crank angle, in metres; the foot points down, the leg lies left of the crank."""
    n = {k: 0.01 * x for k, x in JANSEN.items()}
    O, Z = np.zeros(2), np.array([-n["a"], -n["l"]])
    X = n["m"] * np.array([math.cos(crank), math.sin(crank)])
    Y = _meet(Z, n["b"], X, n["j"], 1.0)  # above
    U = _meet(Z, n["d"], Y, n["e"], 1.0)  # left
    V = _meet(Z, n["c"], X, n["k"], -1.0)  # below
    W = _meet(V, n["g"], U, n["f"], 1.0)
    foot = _meet(V, n["i"], W, n["h"], 1.0)
    return {"O": O, "Z": Z, "X": X, "Y": Y, "U": U, "V": V, "W": W, "foot": foot}


def _bar(model: Model, name: str, p, q, density: float, **motion):
    return rod(model, name, p, q, density * float(np.hypot(*(np.asarray(q) - np.asarray(p)))), **motion)


def _triangle(model: Model, name: str, corners, density: float, rates):
    """A ternary link: three uniform bars welded at the corners; `rates` are the velocities of the first two corners."""
    corners = [np.asarray(p, float) for p in corners]
    bars = [(corners[k], corners[(k + 1) % 3]) for k in range(3)]
    masses = [density * float(np.hypot(*(b - a))) for a, b in bars]
    mass = sum(masses)
    centre = np.sum([m * (a + b) / 2 for m, (a, b) in zip(masses, bars, strict=True)], axis=0) / mass
    inertia = sum(
        m * (float((b - a) @ (b - a)) / 12 + float(((a + b) / 2 - centre) @ ((a + b) / 2 - centre)))
        for m, (a, b) in zip(masses, bars, strict=True)
    )
    return model.body(name, mass=mass, inertia=inertia, position=centre, **_motion(corners, rates, centre))


def _motion(points, rates, centre) -> dict:
    """The velocity of a link's centre and its angular velocity, from two of its points and their velocities."""
    p, q, u, w = (np.asarray(x, float) for x in (*points[:2], *rates[:2]))
    d, e = q - p, w - u
    turning = float(d[0] * e[1] - d[1] * e[0]) / float(d @ d)
    out = np.asarray(centre, float) - p
    return {"velocity": u + turning * np.array([-out[1], out[0]]), "angular_velocity": turning}


@register("jansen-leg", "a leg of Jansen's walking linkage: seven links, ten hinges, one degree of freedom")
def jansen_leg(crank: float = 0.3, speed: float = 10.0, density: float = 1.0, flywheel: float = 0.05) -> Model:
    """Links are uniform rods of `density` kg/m; the crank carries a `flywheel` (kg m²) and turns at `speed` rad/s."""
    model = Model("jansen-leg", gravity=(0, -9.81))
    P = jansen_points(crank)
    wheel = model.body("crank", mass=1.0, inertia=flywheel, position=(0, 0), angle=crank, angular_velocity=speed)
    step = 1e-5  # of the crank, to either side: the velocities of the joints to 1e-9
    before, after = jansen_points(crank - step), jansen_points(crank + step)
    rate = {name: speed * (after[name] - before[name]) / (2 * step) for name in P}

    def link(name, p, q):
        motion = _motion((P[p], P[q]), (rate[p], rate[q]), (P[p] + P[q]) / 2)
        return _bar(model, name, P[p], P[q], density, **motion)

    def ternary(name, *corners):
        return _triangle(model, name, [P[c] for c in corners], density, [rate[c] for c in corners])

    upper_rod, lower_rod, shoulder = link("j", "X", "Y"), link("k", "X", "V"), ternary("bde", "Z", "Y", "U")
    link_c, link_f, shin = link("c", "Z", "V"), link("f", "U", "W"), ternary("ghi", "V", "W", "foot")
    hinges = [
        ("O", model.ground, wheel, "O"), ("X1", wheel, upper_rod, "X"), ("X2", wheel, lower_rod, "X"),
        ("Z1", model.ground, shoulder, "Z"), ("Z2", model.ground, link_c, "Z"), ("Y", upper_rod, shoulder, "Y"),
        ("U", shoulder, link_f, "U"), ("V1", lower_rod, link_c, "V"), ("V2", link_c, shin, "V"),
        ("W", link_f, shin, "W"),
    ]  # fmt: skip
    for name, i, j, point in hinges:
        model.revolute(name, i, j, at=P[point])
    return model


@register("peaucellier", "the exact straight-line linkage of Peaucellier and Lipkin")
def peaucellier(long: float = 1.0, short: float = 0.4, crank: float = 0.35, angle: float = 0.5, density: float = 1.0):
    """Two long bars from a fixed point, a rhombus of four short ones, a crank through the fixed point's circle.

    The far corner of the rhombus moves on a straight line: |near| · |far| = long² − short² is an inversion, and the
    near corner's circle passes through the inversion's centre. One degree of freedom, no redundant row.

    It hangs along x.
    """
    model = Model("peaucellier", gravity=(9.81, 0))
    O, A = np.zeros(2), np.array([crank, 0.0])
    near = A + crank * np.array([math.cos(angle), math.sin(angle)])
    away = near / float(np.hypot(*near))
    far = away * (long**2 - short**2) / float(np.hypot(*near))
    left, right = _meet(O, long, near, short, 1.0), _meet(O, long, near, short, -1.0)
    spans = {
        "crank": (A, near), "long1": (O, left), "long2": (O, right), "near1": (near, left), "near2": (near, right),
        "far1": (far, left), "far2": (far, right),
    }  # fmt: skip
    b = {name: _bar(model, name, p, q, density) for name, (p, q) in spans.items()}
    hinges = [
        ("A", model.ground, b["crank"], A), ("O1", model.ground, b["long1"], O), ("O2", model.ground, b["long2"], O),
        ("N1", b["crank"], b["near1"], near), ("N2", b["crank"], b["near2"], near),
        ("L1", b["long1"], b["near1"], left),
        ("L2", b["long1"], b["far1"], left), ("R1", b["long2"], b["near2"], right),
        ("R2", b["long2"], b["far2"], right),
        ("F", b["far1"], b["far2"], far),
    ]  # fmt: skip
    for name, i, j, point in hinges:
        model.revolute(name, i, j, at=point)
    return model


@register("groove-cam", "a turning groove moves a slider, with two rests a turn: coupling by a curve")
def groove_cam(radius: float = 0.3, lift: float = 0.1, speed: float = 4.0) -> Model:
    """A closed groove in a driven disc holds the pin of a slider: a Geneva drive's rests without its impacts.

    The groove's radius goes from `radius` − lift/2 to radius + lift/2 and back by two smooth steps, with rests between.
    """
    model = Model("groove-cam", gravity=(0, -9.81))
    disc = model.body("disc", mass=5.0, inertia=0.25, position=(0, 0), angular_velocity=speed)
    angles = np.linspace(0, 2 * math.pi, 72, endpoint=False)
    s = np.clip(np.mod(angles, math.pi) / (math.pi / 2) - 0.5, 0, 1)
    step = s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)  # its first three derivatives vanish at both ends
    reach = radius - lift / 2 + lift * np.where(angles < math.pi, step, 1 - step)
    points = reach[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    slider = model.body("slider", mass=1.0, inertia=0.01, position=points[0] + (0.2, 0.0))
    model.revolute("axle", model.ground, disc, at=(0, 0))
    model.prismatic("guide", model.ground, slider, at=slider.position, axis=(1, 0))
    model.point_on_curve("groove", disc, slider, points=points, at=points[0], closed=True)
    model.driver("drive", "axle", {"polynomial": [0.0, speed]})
    return model
