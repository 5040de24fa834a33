"""1 · model: what prescribes motion: drivers, couplings, and the user's own rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalembert._results import DalembertError
from dalembert.model._checks import under, with_parameters
from dalembert.model._elements import Constraint
from dalembert.model._formulas import FrameFormulas
from dalembert.model._joints import Joints
from dalembert.model._statements import (
    Coordinate,
    Formulas,
    JointName,
    Motion,
    Motions,
    Name,
    Number,
    Parameters,
    Place,
    Places,
    Terms,
    Vector,
    Whole,
    element,
)


class Drivers(Joints):
    """The part of `Model` that adds drivers, couplings and the user's own rows."""

    # ---- rheonomic: a coordinate, a point, a frame, a distance, a speed -------------------------------------

    @element("joints")
    def driver(
        self,
        name: Name,
        joint: JointName,
        motion: Motion,
        *,
        coordinate: Coordinate | None = None,
        parameters: Parameters | None = None,
    ) -> Constraint:
        """Prescribe a joint coordinate: coordinate = motion(t), or motion(t, p) with named `parameters`.

        `motion` is a number, a function of time (see `da.functions`), a formula, or any JAX function. Angles are
        followed through full turns.
        """
        return self._coordinate_driver("driver", name, joint, motion, coordinate, parameters)

    @element("joints")
    def speed_driver(
        self,
        name: Name,
        joint: JointName,
        speed: Motion,
        *,
        coordinate: Coordinate | None = None,
        parameters: Parameters | None = None,
    ) -> Constraint:
        """Prescribe the rate of a joint coordinate (a nonholonomic row): its value is left to the start."""
        return self._coordinate_driver("speed_driver", name, joint, speed, coordinate, parameters)

    @element("joints")
    def point_driver(
        self,
        name: Name,
        i: Place,
        j: Place,
        motion: Motions,
        *,
        at: Vector | None = None,
        parameters: Parameters | None = None,
    ) -> Constraint:
        """Prescribe the motion of a point of j: its components from `at`, along marker i's axes, are motion(t)."""
        who, d = f"Driver '{name}'", self.dimension
        numbers, function = self._motions(f"{who}: motion", motion, d, parameters)
        mi, mj = self._driven_markers(who, i, j, at)
        return self._constraint(name, "point_driver", (mi, mj), numbers, (function,), drives=name)

    @element("joints")
    def frame_driver(
        self,
        name: Name,
        i: Place,
        j: Place,
        motion: Motions,
        rotation: Motions,
        *,
        at: Vector | None = None,
    ) -> Constraint:
        """Prescribe the motion of a frame of j: its origin from `at` is motion(t), its turn is rotation(t).

        `rotation` is an angle in the plane; in space a rotation vector (axis times angle), both along marker i's axes.
        """
        who, d = f"Driver '{name}'", self.dimension
        numbers, function = self._motions(f"{who}: motion", motion, d)
        turns, turning = self._motions(f"{who}: rotation", rotation, 1 if d == 2 else 3)
        both = {f"motion_{k}": x for k, x in numbers.items()} | {f"rotation_{k}": x for k, x in turns.items()}
        functions = (Prefixed(function, "motion_"), Prefixed(turning, "rotation_"))
        mi, mj = self._driven_markers(who, i, j, at)
        return self._constraint(name, "frame_driver", (mi, mj), both, functions, drives=name)

    @element("joints")
    def distance_driver(
        self,
        name: Name,
        i: Place,
        j: Place,
        length: Motion,
        *,
        at_i: Vector | None = None,
        at_j: Vector | None = None,
        parameters: Parameters | None = None,
    ) -> Constraint:
        """Prescribe the distance between a point of i and a point of j: length(t), always greater than zero."""
        who = f"Driver '{name}'"
        numbers, function = self._motion(f"{who}: length", length, parameters)
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        if np.linalg.norm(mj.start_position - mi.start_position) <= 0:
            self._wrong(f"{who}: at_i and at_j are the same point; a distance needs a direction.")
        return self._constraint(name, "distance_driver", (mi, mj), numbers, (function,), drives=name)

    # ---- couplings -----------------------------------------------------------------------------------------

    @element("joints")
    def coupling(self, name: Name, terms: Terms, *, constant: Number | None = None) -> Constraint:
        """Σ factor · coordinate = constant, over the coordinates of two or more joints.

        A term is (joint, factor), (joint, coordinate, factor) or {joint, coordinate, factor}. `constant` is what the
        start configuration gives, unless stated. In space angles are known up to full turns; the row is closed modulo
        what full turns of rational factors add up to, and becomes a row on speeds where the factors are not rational.
        """
        who = f"Coupling '{name}'"
        found = []
        given = list(terms) if isinstance(terms, Sequence) and not isinstance(terms, str) else []
        for term in given:
            joint, coordinate, factor = self._term(who, term)
            target = self._target(who, joint, coordinate)
            factor = self._number(f"{who}: factor of '{joint}'", factor)
            if target is not None:
                found.append((*target, factor))
        if len(given) < 2:
            self._wrong(f"{who}: give at least two terms, each a joint and its factor.")
        if any(factor == 0.0 for *_, factor in found):
            self._wrong(f"{who}: a factor is zero; leave that joint out.")
        if len(found) < 2:
            return self._constraint(name, "coupling:", (), {}, size=(1, 0), drives=None)
        return self._coupled(name, found, constant)

    @element("joints")
    def gear_ratio(self, name: Name, joint: JointName, other: JointName, *, ratio: Number) -> Constraint:
        """The angle of `other` is −angle of `joint` / ratio, and nothing else: a pair of gears without its tooth force.

        For gears of any axes, coaxial and bevel ones too. It transmits torque alone: the bearings come without the
        tooth force (`gear` has it). Negative for wheels that turn alike.
        """
        return self.coupling(name, [(joint, 1.0), (other, ratio)])

    # ---- the user's own rows -------------------------------------------------------------------------------

    @element("joints")
    def holonomic(
        self,
        name: Name,
        bodies: Places,
        residual: Formulas,
        *,
        size: Whole = 1,
        parameters: Parameters | None = None,
    ) -> Constraint:
        """Your own rows g(t, frames) = 0, or g(t, frames, p) with named `parameters`.

        `frames` has one entry per body: `.p` position of the centre of mass, `.R` rotation, `.point(s)` the world
        position of a body-fixed point. Return `size` numbers. Write it with jax.numpy; or give formulas of t, the
        parameters and `body.x`, `body.y`, `body.z`, in the plane `body.angle`.
        """
        return self._user_rows("holonomic", name, bodies, residual, size, parameters)

    @element("joints")
    def pfaffian(
        self,
        name: Name,
        bodies: Places,
        residual: Formulas,
        *,
        size: Whole = 1,
        parameters: Parameters | None = None,
    ) -> Constraint:
        """Your own rows A v + b = 0, as a function linear in the velocities: residual(t, frames) (or (t, frames, p)).

        Besides what `holonomic` gives, each frame has `.v` (velocity of the centre of mass, world), `.w`
        (angular velocity, world axes; a number in the plane) and `.point_velocity(s)`. In formulas: `body.vx`,
        `body.vy`, `body.vz`, `body.wx`, `body.wy`, `body.wz`, in the plane `body.w`.
        """
        return self._user_rows("pfaffian", name, bodies, residual, size, parameters)

    # ---- helpers -------------------------------------------------------------------------------------------

    def _coordinate_driver(self, kind, name, joint, motion, coordinate, parameters) -> Constraint:
        who = f"Driver '{name}'"
        word = "speed" if kind == "speed_driver" else "motion"
        numbers, function = self._motion(f"{who}: {word}", motion, parameters)
        target = self._target(who, joint, coordinate)
        if target is None:
            return self._constraint(name, f"{kind}:weld:angle", (), numbers, (function,), drives=str(joint))
        made, which = target
        return self._constraint(
            name, f"{kind}:{made.kind.replace(':', '/')}:{which}", made.markers, numbers, (function,), drives=made.name
        )

    def _driven_markers(self, who, i, j, at):
        pair = self._by_markers(who, i, j)
        if pair is not None:
            return pair
        bi, bj = self._body(who, i), self._body(who, j)
        point = bj.position if at is None else self._vector(f"{who}: at", at, self.dimension)
        return self._fixed(bi, point), self._fixed(bj, point)

    def _term(self, who: str, term) -> tuple:
        if isinstance(term, Mapping) and {"joint", "factor"} <= set(term) <= {"joint", "coordinate", "factor"}:
            return term["joint"], term.get("coordinate"), term["factor"]
        if isinstance(term, list | tuple) and len(term) in (2, 3):
            return (term[0], None, term[1]) if len(term) == 2 else tuple(term)
        self._wrong(f"{who}: a term is (joint, factor) or (joint, coordinate, factor), not {term!r}.")
        return "", None, 1.0

    def _coupled(self, name, found, constant) -> Constraint:
        """Rows over the distinct bodies of all terms; each term knows which of them are its i and j."""
        bodies = {m.body.name: m.body for joint, _, _ in found for m in joint.markers}
        order = sorted(bodies.values(), key=lambda b: not b.is_ground)  # ground, if any, first
        slots = {b.name: k for k, b in enumerate(order)}
        numbers: dict[str, np.ndarray] = {"factors": np.array([factor for *_, factor in found])}
        kinds = []
        for joint, which, _ in found:
            pair = tuple(slots[m.body.name] for m in joint.markers)
            kinds.append((joint.kind, which, pair))
        angles = [f for _, which, f in found if which.startswith("angle")]
        turns = 0.0 if self.space == "plane" else turn_sum(angles)
        numbers["turns"] = np.asarray(0.0 if turns is None else turns)
        if constant is not None:
            numbers["constant"] = np.asarray(self._number(f"Coupling '{name}': constant", constant))
        speeds = turns is None
        made = Constraint(
            name,
            "coupling:" + ("speeds" if speeds else "positions"),
            tuple(self._centre(b) for b in order),
            numbers,
            (tuple(kinds),),
            (0, 1) if speeds else (1, 0),
            None,
            coupled=tuple(joint.markers for joint, _, _ in found),
        )
        self._register(self.constraints, name, made, "Coupling")
        return made

    def _user_rows(self, kind, name, bodies, residual, size, parameters) -> Constraint:
        who = f"Rows '{name}'"
        found = self._bodies(who, bodies)
        if not found:
            self._wrong(f"{who}: name the bodies whose coordinates enter the rows.")
        numbers = self._parameters(who, parameters)
        if callable(residual):
            function = with_parameters(residual, parameters)
        else:
            texts = [residual] if isinstance(residual, str) else residual
            count = len(texts) if isinstance(texts, Sequence) else 1
            try:
                function = FrameFormulas.read(texts, self.space, [b.name for b in found], numbers, kind == "pfaffian")
                if size not in (1, count):
                    raise DalembertError(f"these are {count} formulas, but size is {size!r}; leave it out.")
            except DalembertError as error:
                self._wrong(f"{who}: residual must be a function or formulas: {error}")
                function = with_parameters(lambda t, frames: np.zeros(count), None)
            size = count
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            self._wrong(f"{who}: size must be a positive whole number, not {size!r}.")
            size = 1
        rows = (size, 0) if kind == "holonomic" else (0, size)
        return self._constraint(name, kind, [self._centre(b) for b in found], numbers, (function,), rows)


@dataclass(frozen=True)
class Prefixed:
    """A function (t, p) whose numbers stand in p under a prefix."""

    function: Callable
    prefix: str

    def __call__(self, t, p):
        return self.function(t, under(self.prefix, p))


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
