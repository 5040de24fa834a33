"""1 · model: forces on bodies, and between points of two bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from dalembert.model._arguments import (
    Along,
    Formula,
    Loads,
    Matrix,
    Motions,
    Number,
    Parameters,
    Place,
    Places,
    Positive,
    Varying,
    Vector,
)
from dalembert.model._element import AbstractForce
from dalembert.model._frames import Marker, frame_on_axis
from dalembert.model._functions import FormulaError
from dalembert.model._laws import FrameFormulas, Shares, is_input, with_parameters
from dalembert.model._placed import Force, Look
from dalembert.model._placing import Placing

# ---- on bodies -----------------------------------------------------------------------------------------------------


class PointForce(AbstractForce):
    """A force on `body` at the body-fixed point that is at `at` at the start: a vector or a function of time.

    `frame` says whether its components are along the "world" axes or turn with the "body".
    """

    type = "force"

    body: Place = field(kw_only=False)
    force: Motions = field(kw_only=False)
    at: Vector | None = None
    frame: Along = "world"
    parameters: Parameters | None = None

    def look(self, space):
        return Look("arrow" if self.frame == "body" else "mark", sides=())

    def place(self, on):
        return _load(on, "force", on.dimension, lambda b: on.vector("at", default=b.position))


class Torque(AbstractForce):
    """A torque on `body`: a vector (in the plane a number) or a function of time."""

    body: Place = field(kw_only=False)
    torque: Motions = field(kw_only=False)
    frame: Along = "world"
    parameters: Parameters | None = None

    def place(self, on):
        return _load(on, "torque", 1 if on.dimension == 2 else 3, lambda b: b.position)


def _load(on: Placing, key: str, size: int, point) -> Force:
    b, frame = on.body("body"), on.given("frame")
    if frame not in ("world", "body"):
        on.wrong(f"{on.arg('frame')}{frame!r} is unknown; use 'world' or 'body'.", "frame")
    at = point(b)
    numbers, function = on.motions(key, size, parameters=True)
    return on.force((on.fixed(b, at, b.rotation),), numbers, (function,))


class CentralGravity(AbstractForce):
    """Every body is attracted to the fixed point `at` (default: the origin) by mass · mu / distance²."""

    has_power = False

    on_every_body = True

    mu: Positive = field(kw_only=False)
    at: Vector | None = None

    def place(self, on):
        return on.force((), {"mu": on.positive("mu"), "centre": on.vector("at")})


class Drag(AbstractForce):
    """Resistance −(linear + quadratic |u|) u at `at`, u the velocity against `wind`; torque −angular · ω."""

    body: Place = field(kw_only=False)
    linear: Number = 0.0
    quadratic: Number = 0.0
    angular: Number = 0.0
    at: Vector | None = None
    wind: Vector | None = None

    def place(self, on):
        b = on.body("body")
        numbers = {k: on.number(k, negative=False) for k in ("linear", "quadratic", "angular")}
        numbers |= {"wind": on.vector("wind")}
        return on.force((on.fixed(b, on.vector("at", default=b.position), b.rotation),), numbers)


class ForceLaw(AbstractForce):
    """Your own law(t, frames) or law(t, frames, p): for each body (force, torque), world axes, at its centre.

    Or, for each body, {force: [...], torque: ...} with formulas of t, the parameters and the bodies' `body.x`,
    `body.vx`, … as in `pfaffian`.
    """

    bodies: Places = field(kw_only=False)
    law: Loads = field(kw_only=False)
    parameters: Parameters | None = None

    def place(self, on):
        found, numbers = on.bodies(), on.parameters()
        if callable(self.law):
            function = with_parameters(self.law, self.parameters)
        else:
            function = _load_formulas(on, [b.name for b in found], numbers)
        return on.force(tuple(on.centre(b) for b in found), numbers, (function,))


def _load_formulas(on: Placing, bodies, numbers):
    d, law = on.dimension, on.given("law")
    size = d + (1 if d == 2 else 3)
    texts: list = []
    given = law if isinstance(law, list | tuple) else [law]
    if len(given) != len(bodies) or not all(isinstance(x, Mapping) for x in given):
        on.wrong("law must be a function, or for each body a mapping with force and torque formulas.", "law")
        return with_parameters(lambda t, frames: [(np.zeros(d), np.zeros(size - d))] * len(bodies), None)
    for k, share in enumerate(given):
        force = share.get("force", [0] * d)
        torque = share.get("torque", [0] * (size - d))
        torque = [torque] if isinstance(torque, str | int | float) else torque
        if set(share) - {"force", "torque"} or len(force) != d or len(torque) != size - d:
            text = f"law: each body has force ({d} formulas) and torque ({size - d}), not {dict(share)!r}."
            on.wrong(text, "law", ("law", k))
            force, torque = [0] * d, [0] * (size - d)
        texts += [*force, *torque]
    try:
        formulas = FrameFormulas.read(texts, on.space, bodies, numbers, True, on.inputs)
        numbers |= {k: np.zeros(3) for k in formulas.inputs}
    except FormulaError as error:
        on.formula_mistake("law", error)
        formulas = FrameFormulas.read(["0"] * len(texts), on.space, bodies, {}, True, {})
    return Shares(formulas, d, size)


# ---- between two points --------------------------------------------------------------------------------------------


class SpringDamper(AbstractForce):
    """A spring-damper(-actuator) along the line between a point of i and a point of j.

    It pulls with stiffness · (length − free length) + damping · rate, and with `pull` besides: a number, a
    formula of `t`, `length`, `rate` and the parameters, or a function pull(t, length, rate[, p]). `length` is the
    free length; default: the distance at the start. Stiffness and free length are numbers, functions of time or
    inputs; a spring that so changes is an actuator: it stores no energy, its power counts as work.
    """

    has_effort = True

    drawn_as = Look(between="spring")

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    at_i: Vector | None = None
    at_j: Vector | None = None
    stiffness: Varying = 0.0
    damping: Number = 0.0
    length: Varying | None = None
    pull: Formula | None = None
    parameters: Parameters | None = None

    def place(self, on):
        mi, mj = on.point_markers()
        apart = float(np.linalg.norm(mj.start_position - mi.start_position))
        if apart <= 0:
            on.wrong("at_i and at_j are the same point; a line needs a direction.", "at_i", "at_j")
        stiffness, spring = on.varying("stiffness")
        length, rest = on.varying("length", apart)
        numbers, pull = stiffness | {"damping": on.number("damping")} | length, None
        if self.pull is not None:
            own, pull = on.formula("pull", ("length", "rate"))
            on.without_own({k: x for k, x in own.items() if not is_input(k)}, numbers)
            numbers = own | numbers
        functions = (pull, spring, rest)
        return on.force((mi, mj), numbers, functions if any(functions) else ())


class Bushing(AbstractForce):
    """Elastic and viscous holding in all relative directions: (x, y, z, rx, ry, rz), in the plane (x, y, angle).

    `stiffness` and `damping` are 6×6 (in the plane 3×3) matrices along marker i's axes, or their diagonals.
    Rotations are the rotation vector of j against i; in space a run ends where they pass half a turn.
    """

    drawn_as = Look("bushing")

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    stiffness: Matrix
    damping: Matrix | None = None
    at: Vector | None = None
    axis: Vector | None = None
    x: Vector | None = None

    def place(self, on):
        size = 3 if on.space == "plane" else 6
        numbers = {k: on.stiffness(k, size) for k in ("stiffness", "damping")} | {"rest": np.zeros(size)}
        return on.force(_bushing_markers(on), numbers)


def _bushing_markers(on: Placing) -> tuple[Marker, Marker]:
    pair = on.pair()
    if pair is not None:
        return pair
    bi, bj = on.body("i"), on.body("j")
    if on.given("at") is None:
        on.wrong(f"say where it is: {on.arg('at', '...')}, a point in the start configuration.", "at")
    point = on.vector("at", default=bj.position)
    frame = None if on.given("axis") is None else on.axis_frame("axis", "x")
    return on.fixed(bi, point, frame), on.fixed(bj, point, frame)


class Beam(AbstractForce):
    """A massless straight Bernoulli beam from `at_i` of i to `at_j` of j, unloaded at the start; small deflections.

    In the plane: `I`. In space: `I_y`, `I_z` about the section's axes (`y` sets the first), `G` and `J` for
    twist. `damping` is a time: damping matrix = damping · stiffness matrix.
    """

    drawn_as = Look("bushing", between="rod")

    i: Place = field(kw_only=False)
    j: Place = field(kw_only=False)
    at_i: Vector | None = None
    at_j: Vector | None = None
    E: Positive
    area: Positive
    I: Positive | None = None
    I_y: Positive | None = None
    I_z: Positive | None = None
    G: Positive | None = None
    J: Positive | None = None
    damping: Number = 0.0
    y: Vector | None = None

    def place(self, on):
        d = on.dimension
        bi, bj = on.body("i"), on.body("j")
        a, b = on.vector("at_i", default=bi.position), on.vector("at_j", default=bj.position)
        L = float(np.linalg.norm(b - a))
        if L <= 0:
            on.wrong("at_i and at_j are the same point; a beam needs a length.", "at_i", "at_j")
            b, L = a + np.eye(d)[0], 1.0
        frame = _beam_frame(on, (b - a) / L)
        wanted = ("E", "area", "I") if d == 2 else ("E", "area", "I_y", "I_z", "G", "J")
        n = {}
        for word in wanted:
            if on.given(word) is None:
                on.wrong(f"{word} is missing; a beam in {on.space} needs {', '.join(wanted)}.", word)
            n[word] = on.positive(word, 1.0)
        K = _plane_beam(n["E"], n["area"], n["I"], L) if d == 2 else _space_beam(n, L)
        tau = on.number("damping", negative=False)
        rest = np.zeros(len(K))
        rest[0] = L
        numbers = {"stiffness": K, "damping": tau * K, "rest": rest}
        return on.force((on.fixed(bi, a, frame), on.fixed(bj, b, frame)), numbers)


def _beam_frame(on: Placing, along) -> np.ndarray:
    if on.dimension == 2:
        return np.array([[along[0], -along[1]], [along[1], along[0]]])
    across = np.eye(3)[int(np.argmin(np.abs(along)))] if on.given("y") is None else on.axis("y")
    if abs(across @ along) > 1 - 1e-9:
        on.wrong("y is parallel to the beam; it must point across it.", "y")
        across = np.eye(3)[int(np.argmin(np.abs(along)))]
    R = frame_on_axis(along, across)  # columns: y, z, x of the beam
    return np.column_stack([R[:, 2], R[:, 0], R[:, 1]])


def _plane_beam(E: float, A: float, I: float, L: float) -> np.ndarray:
    """Stiffness of the free end (x, y, angle) of a clamped Bernoulli beam."""
    K = np.diag([E * A / L, 12 * E * I / L**3, 4 * E * I / L])
    K[1, 2] = K[2, 1] = -6 * E * I / L**2
    return K


def _space_beam(n: dict[str, float], L: float) -> np.ndarray:
    """The same in space (x, y, z, rx, ry, rz), x along the beam."""
    E, Iy, Iz = n["E"], n["I_y"], n["I_z"]
    K = np.diag(
        [E * n["area"] / L, 12 * E * Iz / L**3, 12 * E * Iy / L**3, n["G"] * n["J"] / L, 4 * E * Iy / L, 4 * E * Iz / L]
    )
    K[1, 5] = K[5, 1] = -6 * E * Iz / L**2
    K[2, 4] = K[4, 2] = 6 * E * Iy / L**2
    return K
