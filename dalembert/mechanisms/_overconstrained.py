"""mechanisms · with more constraints than their motion needs. SI units; gravity 9.81 m/s² downwards."""

from __future__ import annotations

import functools
import math

import numpy as np

from dalembert.mechanisms._planar import rod
from dalembert.mechanisms._registry import register
from dalembert.mechanisms._spatial import bar, cuboid_inertia
from dalembert.model import Model, axis_angle


@register("table", "a table that slides on four legs: 1 redundant row")
def table(half=(0.6, 0.4), height: float = 0.7, mass: float = 20.0, off_centre=(0.15, 0.05), speed: float = 0.2):
    """A table on four feet that stay on the floor z = 0 and slide on it without friction, turning slowly.

    `half`: half the distance between the legs along x and y; `off_centre`: where the centre of mass is between them.
    Which leg carries how much depends on their stiffness; each pair of opposite legs and the sums are determined.
    """
    model = Model("table", space="space", gravity=(0, 0, -9.81))
    inertia = cuboid_inertia(mass, (2 * half[0], 2 * half[1], 0.05))
    centre = np.array([*off_centre, height])
    motion = {"velocity": (speed, 0, 0), "angular_velocity": (0, 0, speed)}
    top = model.body("top", mass=mass, inertia=inertia, position=centre, **motion)
    for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        foot = (x * half[0], y * half[1], 0.0)
        model.point_in_plane(f"leg{k + 1}", model.ground, top, at=foot, normal=(0, 0, 1))
    return model


@register("parallelogram", "N parallel cranks under one coupler, in the plane: N − 2 redundant rows")
def parallelogram(cranks: int = 3, length: float = 1.0, angle: float = -math.pi / 3) -> Model:
    """Equal cranks hung from the ground at x = 0, 1, 2 …, all pinned to one coupler; released at rest."""
    model = Model(f"parallelogram-{cranks}", gravity=(0, -9.81))
    return _parallelogram(model, cranks, length * np.array([math.cos(angle), math.sin(angle)]), rod)


@register("parallelogram-in-space", "the same of spatial revolutes: 4N − 5 redundant rows")
def parallelogram_in_space(cranks: int = 3, length: float = 1.0, angle: float = -math.pi / 3) -> Model:
    """The cranks of `parallelogram` as bars on revolutes about y, moving in the plane x–z."""
    model = Model(f"parallelogram-in-space-{cranks}", space="space", gravity=(0, 0, -9.81))
    arm = length * np.array([math.cos(angle), 0, math.sin(angle)])
    return _parallelogram(model, cranks, arm, functools.partial(bar, width=0.05), axis=(0, 1, 0))


def _parallelogram(model: Model, cranks: int, arm: np.ndarray, link, **hinge) -> Model:
    """The cranks, along `arm`, and their coupler; `link` makes a body between two points."""
    feet = [k * np.eye(len(arm))[0] for k in range(cranks)]
    hung = [link(model, f"crank{k + 1}", foot, foot + arm, mass=1.0) for k, foot in enumerate(feet)]
    coupler = link(model, "coupler", feet[0] + arm, feet[-1] + arm, mass=2.0)
    for k, (crank, foot) in enumerate(zip(hung, feet, strict=True)):
        model.revolute(f"foot{k + 1}", model.ground, crank, at=foot, **hinge)
        model.revolute(f"pin{k + 1}", crank, coupler, at=foot + arm, **hinge)
    return model


def bennett_points(a: float, alpha: float, beta: float, theta: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Joint points and axes of Bennett's linkage: opposite links are equal, a/sin α = b/sin β, no offsets.

    θ is the angle at the first joint; that at the second follows from tan ½θ tan ½θ₂ = sin ½(β+α)/sin ½(β−α).
    """
    b = a * math.sin(beta) / math.sin(alpha)
    ratio = math.sin((beta + alpha) / 2) / math.sin((beta - alpha) / 2)
    second = 2 * math.atan2(ratio, math.tan(theta / 2))
    R, p = np.eye(3), np.zeros(3)
    points, axes = [], []
    for angle, length, twist in ((theta, a, alpha), (second, b, beta), (-theta, a, alpha), (-second, b, beta)):
        points.append(p)
        axes.append(R[:, 2])
        R = R @ axis_angle((0, 0, 1), angle)
        p = p + length * R[:, 0]
        R = R @ axis_angle((1, 0, 0), twist)
    return points, axes


@register("bennett", "Bennett's loop of four skew revolutes: 3 redundant rows")
def bennett(a: float = 1.0, alpha: float = math.pi / 6, beta: float = 4 * math.pi / 9, theta: float = 2.2) -> Model:
    """Three moving bars on four revolutes with skew axes; it moves only because a/sin α = b/sin β. At rest at first."""
    model = Model("bennett", space="space", gravity=(0, 0, -9.81))
    points, axes = bennett_points(a, alpha, beta, theta)
    links = [bar(model, f"link{k + 1}", points[k], points[(k + 1) % 4], 1.0, 0.05) for k in range(3)]
    around = [model.ground, *links, model.ground]
    for k in range(4):
        model.revolute(f"R{k + 1}", around[k], around[k + 1], at=points[k], axis=axes[k])
    return model


@register("spatial-slider-crank", "a driven slider-crank of spatial revolutes: 3 redundant rows")
def spatial_slider_crank(
    crank: float = 0.5, length: float = 1.2, speed: float = 2 * math.pi, driven: bool = True
) -> Model:
    """Crank, rod and slider in the plane x–z on revolutes about y and a prismatic guide along x."""
    model = Model("spatial-slider-crank", space="space", gravity=(0, 0, -9.81))
    start = math.pi / 4
    knee = np.array([crank * math.cos(start), 0, crank * math.sin(start)])
    end = np.array([knee[0] + math.sqrt(length**2 - knee[2] ** 2), 0, 0])
    arm = bar(model, "crank", (0, 0, 0), knee, 1.0, 0.05)
    link = bar(model, "rod", knee, end, 1.5, 0.05)
    slider = model.body("slider", mass=2.0, inertia=(0.02, 0.02, 0.02), position=end)
    model.revolute("main", model.ground, arm, at=(0, 0, 0), axis=(0, 1, 0))
    model.revolute("big_end", arm, link, at=knee, axis=(0, 1, 0))
    model.revolute("small_end", link, slider, at=end, axis=(0, 1, 0))
    model.prismatic("guide", model.ground, slider, at=end, axis=(1, 0, 0))
    if driven:
        model.driver("motor", "main", "speed*t", parameters={"speed": speed})
    return model


@register("double-cardan", "two shafts joined by an intermediate one with two Hooke joints: 1 redundant row")
def double_cardan(bend: float = math.pi / 6, length: float = 1.0, speed: float = 3.0) -> Model:
    """Input and output shaft in bearings, both bent by `bend` against the intermediate shaft along x (a Z); spinning.

    The distance between the two crosses is held by the bearings and by the intermediate shaft: the axial force is open.
    """
    model = Model("double-cardan", space="space", gravity=(0, 0, -9.81))
    along = np.array([math.cos(bend), 0, math.sin(bend)])
    first, second = np.zeros(3), np.array([length, 0, 0])
    still = np.zeros(3)  # each shaft turns about itself; as the crosses stand, the middle one by cos(bend) slower
    shafts = [
        bar(model, "input", first - 0.5 * along, first, 2.0, 0.1, speed * along, still),
        bar(model, "middle", first, second, 1.0, 0.1, (speed * along[0], 0, 0), still),
        bar(model, "output", second, second + 0.5 * along, 2.0, 0.1, speed * along, still),
    ]
    y, z = (0, 1, 0), (0, 0, 1)
    model.revolute("bearing_in", model.ground, shafts[0], at=first - 0.5 * along, axis=along)
    model.universal("cross_in", shafts[0], shafts[1], at=first, axis_i=y, axis_j=z)
    model.universal("cross_out", shafts[1], shafts[2], at=second, axis_i=z, axis_j=y)
    model.revolute("bearing_out", model.ground, shafts[2], at=second + 0.5 * along, axis=along)
    return model


@register("scott-russell", "Scott-Russell's straight-line linkage with both ends guided: 1 redundant row")
def scott_russell(length: float = 1.0, angle: float = 0.7) -> Model:
    """A rod of 2 `length` with one end guided along x, its middle on a crank about the origin, the other end along y.

    The crank alone makes the far end move along y exactly; guiding it there as well is redundant.
    """
    model = Model("scott-russell", gravity=(0, -9.81))
    middle = length * np.array([math.cos(angle), math.sin(angle)])
    near, far = np.array([2 * middle[0], 0.0]), np.array([0.0, 2 * middle[1]])
    crank = rod(model, "crank", (0, 0), middle, 1.0)
    link = rod(model, "rod", near, far, 2.0)
    model.revolute("centre", model.ground, crank, at=(0, 0))
    model.revolute("middle", crank, link, at=middle)
    for word, point, axis in (("x", near, (1, 0)), ("y", far, (0, 1))):
        slider = model.body(f"slider_{word}", mass=0.5, inertia=0.005, position=point)
        model.revolute(f"pin_{word}", link, slider, at=point)
        model.prismatic(f"guide_{word}", model.ground, slider, at=point, axis=axis)
    return model


# speed of a wheel's point along its rolling direction (along_x, along_y in the platform), less what its motor gives it
DRIVEN_WHEEL = """
(cos(platform.angle)*along_x - sin(platform.angle)*along_y)*platform.vx
+ (sin(platform.angle)*along_x + cos(platform.angle)*along_y)*platform.vy
+ platform.w*(along_y*at_x - along_x*at_y)
- along_x*(speed*(2 + sin(t)) - 0.5*sin(0.5*t)*at_y) - along_y*(speed*cos(0.7*t) + 0.5*sin(0.5*t)*at_x)
"""


@register("omni-robot", "a platform on four driven omnidirectional wheels where three would do: 1 redundant row")
def omni_robot(wheels: int = 4, radius: float = 0.3, speed: float = 0.2) -> Model:
    """A platform in the plane; each wheel prescribes the speed of its point along its own direction, nothing across.

    The motors agree: their speeds come from one motion of the platform. Three wheels determine it.
    """
    model = Model("omni-robot")
    platform = model.body("platform", mass=20.0, inertia=0.8, position=(0, 0), velocity=(2 * speed, speed))
    for k in range(wheels):
        a = 2 * math.pi * k / wheels + 0.3
        numbers = {"at_x": radius * math.cos(a), "at_y": radius * math.sin(a)}
        numbers |= {"along_x": -math.sin(a), "along_y": math.cos(a), "speed": speed}
        model.pfaffian(f"wheel{k + 1}", [platform], " ".join(DRIVEN_WHEEL.split()), parameters=numbers)
    return model
