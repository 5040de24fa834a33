"""1 · model: what prescribes motion: drivers, couplings, and the user's own rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction

import numpy as np

from dalembert.model._arguments import (
    Coordinate,
    Formulas,
    JointName,
    Motion,
    Motions,
    Number,
    Parameters,
    Place,
    Places,
    Terms,
    Vector,
    Whole,
)
from dalembert.model._element import AbstractJoint
from dalembert.model._functions import FormulaError
from dalembert.model._laws import FrameFormulas, Prefixed, is_input, with_parameters
from dalembert.model._placed import Constraint, Look, Term
from dalembert.model._placing import Placing

# ---- rheonomic: a coordinate, a point, a frame, a distance, a speed --------------------------------------------------


class AbstractDriver(AbstractJoint, abstract=True):
    """Prescribes a motion in time."""

    title = "Driver"
    drives = True


class AbstractCoordinateDriver(AbstractDriver, abstract=True):
    """Prescribes a coordinate of a joint, or its rate."""

    has_effort = True

    joint: JointName = field(kw_only=False)

    def look_of(self, placed, space):
        assert placed.target is not None
        rail = placed.target.element.look(space)
        symbol = "drive" if placed.is_angle else ""
        return Look(symbol, rail=rail.rail, slot=rail.slot, sides=(), foot=False, holds=False)

    def _placed(self, on: Placing, key: str) -> Constraint:
        numbers, function = on.motion(key, parameters=True)
        target = on.target()
        if target is None:
            return on.constraint((), numbers, (function,))
        joint, which = target
        return on.constraint(joint.markers, numbers, (function,), target=joint, coordinate=which)


class Driver(AbstractCoordinateDriver):
    """Prescribe a joint coordinate: coordinate = motion(t), or motion(t, p) with named `parameters`.

    `motion` is a number, a function of time (see `da.functions`), a formula, or any JAX function. Angles are
    followed through full turns.
    """

    motion: Motion = field(kw_only=False)
    coordinate: Coordinate | None = None
    parameters: Parameters | None = None

    def place(self, on):
        return self._placed(on, "motion")


class SpeedDriver(AbstractCoordinateDriver):
    """Prescribe the rate of a joint coordinate (a nonholonomic row): its value is left to the start."""

    speed: Motion = field(kw_only=False)
    coordinate: Coordinate | None = None
    parameters: Parameters | None = None

    def place(self, on):
        return self._placed(on, "speed")


class PointDriver(AbstractDriver):
    """Prescribe the motion of a point of j: its components from `at`, along marker i's axes, are motion(t)."""

    drawn_as = Look("collar")

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    motion: Motions = field(kw_only=False)
    at: Vector | None = None
    parameters: Parameters | None = None

    def place(self, on):
        numbers, function = on.motions("motion", on.dimension, parameters=True)
        return on.constraint(_driven_markers(on), numbers, (function,))


class FrameDriver(AbstractDriver):
    """Prescribe the motion of a frame of j: its origin from `at` is motion(t), its turn is rotation(t).

    `rotation` is an angle in the plane; in space a rotation vector (axis times angle), both along marker i's axes.
    """

    drawn_as = Look("collar")

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    motion: Motions = field(kw_only=False)
    rotation: Motions = field(kw_only=False)
    at: Vector | None = None

    def place(self, on):
        numbers, function = on.motions("motion", on.dimension)
        turns, turning = on.motions("rotation", 1 if on.dimension == 2 else 3)
        parts = (("motion_", numbers), ("rotation_", turns))
        both = {k if is_input(k) else f"{word}{k}": x for word, own in parts for k, x in own.items()}
        functions = (Prefixed(function, "motion_"), Prefixed(turning, "rotation_"))
        return on.constraint(_driven_markers(on), both, functions)


def _driven_markers(on: Placing):
    pair = on.pair()
    if pair is not None:
        return pair
    bi, bj = on.body("i"), on.body("j")
    point = on.vector("at", default=bj.position)
    return on.fixed(bi, point), on.fixed(bj, point)


class DistanceDriver(AbstractDriver):
    """Prescribe the distance between a point of i and a point of j: length(t), always greater than zero."""

    has_effort = True

    drawn_as = Look("collar", between="rod")

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    length: Motion = field(kw_only=False)
    at_i: Vector | None = None
    at_j: Vector | None = None
    parameters: Parameters | None = None

    def place(self, on):
        numbers, function = on.motion("length", parameters=True)
        mi, mj = on.point_markers()
        if np.linalg.norm(mj.start_position - mi.start_position) <= 0:
            on.wrong("at_i and at_j are the same point; a distance needs a direction.", "at_i", "at_j")
        return on.constraint((mi, mj), numbers, (function,))


# ---- couplings -----------------------------------------------------------------------------------------------------


class AbstractCoupling(AbstractJoint, abstract=True):
    """Σ factor · coordinate = constant over several joints: rows over the bodies of all of them."""

    title = "Coupling"
    assumption = (
        "tied by their coordinates alone, without the force of teeth or a belt, which the bearings would bear; gear, "
        "rack_and_pinion and belt have it"
    )
    drawn_as = Look("", sides=())


class Coupling(AbstractCoupling):
    """Σ factor · coordinate = constant, over the coordinates of two or more joints.

    A term is (joint, factor), (joint, coordinate, factor) or {joint, coordinate, factor}. `constant` is what the
    start configuration gives, unless stated. In space angles are known up to full turns; the row is closed modulo
    what full turns of rational factors add up to, and becomes a row on speeds where the factors are not rational.
    """

    terms: Terms = field(kw_only=False)
    constant: Number | None = None

    def place(self, on):
        given = list(self.terms) if isinstance(self.terms, Sequence) and not isinstance(self.terms, str) else []
        return _coupled(on, [(("terms", k), *_term(on, k, term)) for k, term in enumerate(given)], self.constant)


class GearRatio(AbstractCoupling):
    """The angle of `other` is −angle of `joint` / ratio, and nothing else: a pair of gears without its tooth force.

    For gears of any axes, coaxial and bevel ones too. It transmits torque alone: the bearings come without the
    tooth force (`gear` has it). Negative for wheels that turn alike.
    """

    joint: JointName = field(kw_only=False)
    other: JointName = field(kw_only=False)
    ratio: Number

    def place(self, on):
        return _coupled(on, [(("joint",), self.joint, None, 1.0), (("other",), self.other, None, self.ratio)], None)


def _term(on: Placing, k: int, term) -> tuple:
    if isinstance(term, Mapping) and {"joint", "factor"} <= set(term) <= {"joint", "coordinate", "factor"}:
        return term["joint"], term.get("coordinate"), term["factor"]
    if isinstance(term, list | tuple) and len(term) in (2, 3):
        return (term[0], None, term[1]) if len(term) == 2 else tuple(term)
    on.wrong(f"a term is (joint, factor) or (joint, coordinate, factor), not {term!r}.", ("terms", k))
    return "", None, 1.0


def _coupled(on: Placing, given: list[tuple], constant) -> Constraint:
    """Rows over the distinct bodies of all terms; each term knows which of them are its i and j."""
    found = []
    for path, joint, coordinate, factor in given:
        target = on.target(_inside(on, path, "joint", 0), joint, coordinate, _inside(on, path, "coordinate", 1))
        at = ("ratio",) if path == ("other",) else _inside(on, path, "factor", -1)
        value = _factor(on, at, joint, factor)
        if target is not None:
            found.append((*target, value))
    if len(given) < 2:
        on.wrong("give at least two terms, each a joint and its factor.", "terms")
    if any(factor == 0.0 for *_, factor in found):
        on.wrong("a factor is zero; leave that joint out.", "terms", "ratio")
    if len(found) < 2:
        return on.constraint(())
    bodies = {m.body.name: m.body for joint, _, _ in found for m in joint.markers}
    order = sorted(bodies.values(), key=lambda b: not b.is_ground)  # ground, if any, first
    slots = {b.name: k for k, b in enumerate(order)}
    terms = []
    for joint, which, _ in found:
        i, j = (slots[m.body.name] for m in joint.markers)
        terms.append(Term(joint, which, (i, j)))
    angles = [f for joint, which, f in found if on.free(joint, which).is_angle]
    turns = 0.0 if on.space == "plane" else turn_sum(angles)
    numbers = {"factors": np.array([factor for *_, factor in found]), "turns": 0.0 if turns is None else turns}
    if constant is not None:
        numbers["constant"] = on.number("constant")
    return on.constraint([on.centre(b) for b in order], numbers, terms=tuple(terms), speeds=turns is None)


def _inside(on: Placing, path: tuple, key: str, index: int) -> tuple:
    """Where a part of a term stands: under its key, or in its list."""
    if path[0] != "terms":
        return path
    term = on.given("terms")[path[1]]
    if isinstance(term, Mapping):
        return (*path, key)
    return (*path, index % len(term)) if isinstance(term, Sequence) and term else path


def _factor(on: Placing, path: tuple, joint, value) -> float:
    name = getattr(joint, "name", joint)
    try:
        found = float(value)
        good = bool(np.isfinite(found)) and not isinstance(value, bool | str)
    except (TypeError, ValueError):
        found, good = 1.0, False
    if not good:
        on.wrong(f"factor of '{name}' must be a number, not {value!r}.", path)
        return 1.0
    return found


def turn_sum(factors: list[float]) -> float | None:
    """The smallest amount by which full turns of angles change Σ factor · angle; None if there is none.

    For rational factor ratios this is 2π times their greatest common divisor (teeth of gears); for others full turns
    add up to anything.
    """
    if not factors:
        return 0.0
    first = factors[0]
    ratios = [Fraction(f / first).limit_denominator(1000) for f in factors]
    if any(abs(float(r) - f / first) > 1e-12 * max(1.0, abs(f / first)) for r, f in zip(ratios, factors, strict=True)):
        return None
    denominator = math.lcm(*(r.denominator for r in ratios))
    common = math.gcd(*(abs(r.numerator) * (denominator // r.denominator) for r in ratios))
    return 2 * math.pi * abs(first) * common / denominator


# ---- the user's own rows -------------------------------------------------------------------------------------------


class AbstractOwnRows(AbstractJoint, abstract=True):
    """Rows that are a person's own functions of bodies."""

    title = "Rows"
    own_rows = True
    drawn_as = Look("", sides=(), holds=False)

    bodies: Places = field(kw_only=False)
    residual: Formulas = field(kw_only=False)
    size: Whole = 1
    parameters: Parameters | None = None

    def _placed(self, on: Placing, *, velocities: bool) -> Constraint:
        found, size = on.bodies(), self.size
        if not found:
            on.wrong("name the bodies whose coordinates enter the rows.", "bodies")
        numbers = on.parameters()
        if callable(self.residual):
            function = with_parameters(self.residual, self.parameters)
        else:
            texts = [self.residual] if isinstance(self.residual, str) else self.residual
            count = len(texts) if isinstance(texts, Sequence) else 1
            try:
                function = FrameFormulas.read(texts, on.space, [b.name for b in found], numbers, velocities, on.inputs)
                numbers |= {k: np.zeros(3) for k in function.inputs}
                if size not in (1, count):
                    raise FormulaError(f"these are {count} formulas, but size is {size!r}; leave it out.")
            except FormulaError as error:
                on.formula_mistake("residual", error, " must be a function or formulas")
                function = with_parameters(lambda t, frames: np.zeros(count), None)
            size = count
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            on.wrong(f"size must be a positive whole number, not {size!r}.", "size")
            size = 1
        return on.constraint([on.centre(b) for b in found], numbers, (function,), size=size)


class Holonomic(AbstractOwnRows):
    """Your own rows g(t, frames) = 0, or g(t, frames, p) with named `parameters`.

    `frames` has one entry per body: `.p` position of the centre of mass, `.R` rotation, `.point(s)` the world
    position of a body-fixed point. Return `size` numbers. Write it with jax.numpy; or give formulas of t, the
    parameters and `body.x`, `body.y`, `body.z`, in the plane `body.angle`.
    """

    def place(self, on):
        return self._placed(on, velocities=False)


class Pfaffian(AbstractOwnRows):
    """Your own rows A v + b = 0, as a function linear in the velocities: residual(t, frames) (or (t, frames, p)).

    Besides what `holonomic` gives, each frame has `.v` (velocity of the centre of mass, world), `.w`
    (angular velocity, world axes; a number in the plane) and `.point_velocity(s)`. In formulas: `body.vx`,
    `body.vy`, `body.vz`, `body.wx`, `body.wy`, `body.wz`, in the plane `body.w`.
    """

    def place(self, on):
        return self._placed(on, velocities=True)
