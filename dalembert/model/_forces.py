"""1 · model: applied forces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dalembert._results import DalembertError
from dalembert.model._checks import OF_MARKERS, Timed, with_parameters
from dalembert.model._elements import Constraint, Force
from dalembert.model._formulas import FrameFormulas
from dalembert.model._frames import Marker, frame_on_axis
from dalembert.model._functions import Function, Shape, names_in, parse
from dalembert.model._gears import Gears
from dalembert.model._kinds import BEARINGS, RULES
from dalembert.model._statements import (
    Coordinate,
    Formula,
    JointName,
    Loads,
    Matrix,
    Motion,
    Motions,
    Name,
    Number,
    Parameters,
    Place,
    Places,
    Positive,
    Rule,
    Vector,
    element,
)

Along = Literal["world", "body"]


class Forces(Gears):
    """The part of `Model` that adds applied forces."""

    # ---- on bodies ---------------------------------------------------------------------------------------

    @element("forces")
    def force(
        self,
        name: Name,
        body: Place,
        force: Motions,
        *,
        at: Vector | None = None,
        frame: Along = "world",
        parameters: Parameters | None = None,
    ) -> Force:
        """A force on `body` at the body-fixed point that is at `at` at the start: a vector or a function of time.

        `frame` says whether its components are along the "world" axes or turn with the "body".
        """
        return self._load("force", name, body, force, self.dimension, at, frame, parameters)

    @element("forces")
    def torque(
        self, name: Name, body: Place, torque: Motions, *, frame: Along = "world", parameters: Parameters | None = None
    ) -> Force:
        """A torque on `body`: a vector (in the plane a number) or a function of time."""
        size = 1 if self.dimension == 2 else 3
        return self._load("torque", name, body, torque, size, None, frame, parameters)

    @element("forces")
    def central_gravity(self, name: Name, mu: Positive, *, at: Vector | None = None) -> Force:
        """Every body is attracted to the fixed point `at` (default: the origin) by mass · mu / distance²."""
        who = f"Force '{name}'"
        numbers = {
            "mu": np.asarray(self._number(f"{who}: mu", mu, positive=True)),
            "centre": np.zeros(self.dimension) if at is None else self._vector(f"{who}: at", at, self.dimension),
        }
        return self._force(name, "central_gravity", (), numbers)

    @element("forces")
    def drag(
        self,
        name: Name,
        body: Place,
        *,
        linear: Number = 0.0,
        quadratic: Number = 0.0,
        angular: Number = 0.0,
        at: Vector | None = None,
        wind: Vector | None = None,
    ) -> Force:
        """Resistance −(linear + quadratic |u|) u at `at`, u the velocity against `wind`; torque −angular · ω."""
        who = f"Force '{name}'"
        b = self._body(who, body)
        words = {"linear": linear, "quadratic": quadratic, "angular": angular}
        numbers = {k: np.asarray(self._number(f"{who}: {k}", x, negative=False)) for k, x in words.items()}
        numbers["wind"] = (
            np.zeros(self.dimension) if wind is None else self._vector(f"{who}: wind", wind, self.dimension)
        )
        point = b.position if at is None else self._vector(f"{who}: at", at, self.dimension)
        return self._force(name, "drag", (self._fixed(b, point, b.rotation),), numbers)

    @element("forces")
    def force_law(self, name: Name, bodies: Places, law: Loads, *, parameters: Parameters | None = None) -> Force:
        """Your own law(t, frames) or law(t, frames, p): for each body (force, torque), world axes, at its centre.

        Or, for each body, {force: [...], torque: ...} with formulas of t, the parameters and the bodies' `body.x`,
        `body.vx`, … as in `pfaffian`.
        """
        who = f"Force '{name}'"
        found = self._bodies(who, bodies)
        numbers = self._parameters(who, parameters)
        if callable(law):
            function = with_parameters(law, parameters)
        else:
            function = self._load_formulas(who, law, [b.name for b in found], numbers)
        return self._force(name, "law", tuple(self._centre(b) for b in found), numbers, (function,))

    # ---- between two points ------------------------------------------------------------------------------

    @element("forces")
    def spring_damper(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at_i: Vector | None = None,
        at_j: Vector | None = None,
        stiffness: Number = 0.0,
        damping: Number = 0.0,
        length: Number | None = None,
        pull: Formula | None = None,
        parameters: Parameters | None = None,
    ) -> Force:
        """A spring-damper(-actuator) along the line between a point of i and a point of j.

        It pulls with stiffness · (length − free length) + damping · rate, and with `pull` besides: a number, a
        formula of `t`, `length`, `rate` and the parameters, or a function pull(t, length, rate[, p]). `length` is the
        free length; default: the distance at the start.
        """
        who = f"Force '{name}'"
        mi, mj = self._point_markers(who, i, j, at_i, at_j)
        apart = float(np.linalg.norm(mj.start_position - mi.start_position))
        if apart <= 0:
            self._wrong(f"{who}: at_i and at_j are the same point; a line needs a direction.")
        numbers = {
            "stiffness": np.asarray(self._number(f"{who}: stiffness", stiffness)),
            "damping": np.asarray(self._number(f"{who}: damping", damping)),
            "length": np.asarray(self._number(f"{who}: length", apart if length is None else length)),
        }
        functions = ()
        if pull is not None:
            own, function = self._formula(f"{who}: pull", pull, ("length", "rate"), parameters)
            self._without_own(who, own, numbers)
            numbers, functions = own | numbers, (function,)
        return self._force(name, "spring_damper", (mi, mj), numbers, functions)

    @element("forces")
    def bushing(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        stiffness: Matrix,
        damping: Matrix | None = None,
        at: Vector | None = None,
        axis: Vector | None = None,
        x: Vector | None = None,
    ) -> Force:
        """Elastic and viscous holding in all relative directions: (x, y, z, rx, ry, rz), in the plane (x, y, angle).

        `stiffness` and `damping` are 6×6 (in the plane 3×3) matrices along marker i's axes, or their diagonals.
        Rotations are the rotation vector of j against i; in space a run ends where they pass half a turn.
        """
        who, size = f"Force '{name}'", 3 if self.space == "plane" else 6
        numbers = {
            "stiffness": self._stiffness(f"{who}: stiffness", stiffness, size),
            "damping": self._stiffness(f"{who}: damping", damping, size),
            "rest": np.zeros(size),
        }
        return self._force(name, "bushing", self._force_markers(who, i, j, at, axis, x), numbers)

    @element("forces")
    def beam(
        self,
        name: Name,
        i: Place,
        j: Place,
        *,
        at_i: Vector | None = None,
        at_j: Vector | None = None,
        E: Positive,
        area: Positive,
        I: Positive | None = None,
        I_y: Positive | None = None,
        I_z: Positive | None = None,
        G: Positive | None = None,
        J: Positive | None = None,
        damping: Number = 0.0,
        y: Vector | None = None,
    ) -> Force:
        """A massless straight Bernoulli beam from `at_i` of i to `at_j` of j, unloaded at the start; small deflections.

        In the plane: `I`. In space: `I_y`, `I_z` about the section's axes (`y` sets the first), `G` and `J` for
        twist. `damping` is a time: damping matrix = damping · stiffness matrix.
        """
        who, d = f"Force '{name}'", self.dimension
        bi, bj = self._body(who, i), self._body(who, j)
        a = bi.position if at_i is None else self._vector(f"{who}: at_i", at_i, d)
        b = bj.position if at_j is None else self._vector(f"{who}: at_j", at_j, d)
        L = float(np.linalg.norm(b - a))
        if L <= 0:
            self._wrong(f"{who}: at_i and at_j are the same point; a beam needs a length.")
            b, L = a + np.eye(d)[0], 1.0
        frame = self._beam_frame(who, (b - a) / L, y)
        wanted = {"E": E, "area": area} | ({"I": I} if d == 2 else {"I_y": I_y, "I_z": I_z, "G": G, "J": J})
        n = {}
        for word, value in wanted.items():
            if value is None:
                self._wrong(f"{who}: {word} is missing; a beam in {self.space} needs {', '.join(wanted)}.")
            n[word] = self._number(f"{who}: {word}", 1.0 if value is None else value, positive=True)
        K = _plane_beam(n["E"], n["area"], n["I"], L) if d == 2 else _space_beam(n, L)
        tau = self._number(f"{who}: damping", damping, negative=False)
        rest = np.zeros(len(K))
        rest[0] = L
        numbers = {"stiffness": K, "damping": tau * K, "rest": rest}
        return self._force(name, "bushing", (self._fixed(bi, a, frame), self._fixed(bj, b, frame)), numbers)

    # ---- on a joint coordinate ---------------------------------------------------------------------------

    @element("forces")
    def joint_spring(
        self,
        name: Name,
        joint: JointName,
        *,
        stiffness: Number = 0.0,
        damping: Number = 0.0,
        free: Number = 0.0,
        coordinate: Coordinate | None = None,
    ) -> Force:
        """A torsional (on a sliding joint: linear) spring-damper on a joint coordinate; `free` is its rest value.

        On a spherical joint it acts alike about all axes: −stiffness · the rotation vector of j against i − damping ·
        the relative angular velocity. In space turns are not counted: a run ends where the spring is wound past half a
        turn.
        """
        who = f"Force '{name}'"
        words = {"stiffness": stiffness, "damping": damping, "free": free}
        numbers = {k: np.asarray(self._number(f"{who}: {k}", x)) for k, x in words.items()}
        if self._is_ball(joint, coordinate) and free != 0:
            self._wrong(f"{who}: on a spherical joint free must be 0; place its markers where the spring rests.")
        return self._on_coordinate("joint_spring", name, joint, coordinate, numbers, ball=True)

    @element("forces")
    def armature(
        self,
        name: Name,
        joint: JointName,
        inertia: Positive,
        *,
        coordinate: Coordinate | None = None,
    ) -> Force:
        """Inertia on a joint coordinate a, as a rotor's seen through its gear: ½ · inertia · ȧ² of kinetic energy.

        For a rotor of moment J and ratio n it is n²J (on a sliding joint a mass, in kg). The rotor's own weight and its
        gyroscopic torque are not in it; `motor(rotor_inertia=…)` is a rotor that is a body. On a spherical joint it is
        alike about all axes. It couples the two bodies of the joint in M, which is then a full matrix in absolute
        coordinates; in joint coordinates it stands on the diagonal.
        """
        numbers = {"inertia": np.asarray(self._number(f"Force '{name}': inertia", inertia, positive=True))}
        return self._on_coordinate("armature", name, joint, coordinate, numbers, ball=True)

    @element("forces")
    def joint_force(
        self,
        name: Name,
        joint: JointName,
        effort: Formula,
        *,
        coordinate: Coordinate | None = None,
        parameters: Parameters | None = None,
    ) -> Force:
        """An actuator on a joint coordinate: a force (on an angle: torque) that pushes it towards larger values.

        `effort` is a number, a formula of `t`, `value`, `rate` and the parameters, or effort(t, value, rate[, p]). In
        space an angle is in (−π, π], and a run ends where it leaves that range, unless the effort repeats with it.
        """
        numbers, function = self._formula(f"Force '{name}': effort", effort, ("value", "rate"), parameters)
        return self._on_coordinate("joint_force", name, joint, coordinate, numbers, (function,))

    @element("forces")
    def stop(
        self,
        name: Name,
        joint: JointName,
        *,
        stiffness: Positive,
        lower: Number | None = None,
        upper: Number | None = None,
        damping: Number = 0.0,
        exponent: Number = 1.5,
        depth: Positive | None = None,
        coordinate: Coordinate | None = None,
    ) -> Force:
        """Smooth end stops: stiffness · δ^exponent + damping · δ̇ beyond `lower` or `upper`, δ the overrun.

        The damping grows from zero to its full value over an overrun of `depth` (default: 1e-3 of the range). In space
        an angle is in (−π, π], and a run ends where it leaves that range.
        """
        who = f"Force '{name}'"
        low = -np.inf if lower is None else self._number(f"{who}: lower", lower)
        high = np.inf if upper is None else self._number(f"{who}: upper", upper)
        if lower is None and upper is None:
            self._wrong(f"{who}: give lower=, upper= or both.")
        if low >= high:
            self._wrong(f"{who}: lower={low:g} must be less than upper={high:g}.")
        span = high - low if np.isfinite(high - low) and high > low else 1.0
        exponent = self._number(f"{who}: exponent", exponent)
        if exponent < 1:
            self._wrong(f"{who}: exponent must be at least 1, not {exponent:g}.")
        numbers = {
            "stiffness": np.asarray(self._number(f"{who}: stiffness", stiffness, positive=True)),
            "damping": np.asarray(self._number(f"{who}: damping", damping, negative=False)),
            "exponent": np.asarray(exponent),
            "depth": np.asarray(self._number(f"{who}: depth", 1e-3 * span if depth is None else depth, positive=True)),
        }
        numbers |= {k: np.asarray(x) for k, x in (("lower", low), ("upper", high)) if np.isfinite(x)}
        return self._on_coordinate("stop", name, joint, coordinate, numbers)

    @element("forces")
    def friction(
        self,
        name: Name,
        joint: JointName,
        *,
        normal: Motion = 1.0,
        coulomb: Number = 0.0,
        static: Number | None = None,
        stribeck_speed: Positive | None = None,
        transition_speed: Positive = 1e-3,
        viscous: Number = 0.0,
        radius: Positive = 1.0,
        coordinate: Coordinate | None = None,
    ) -> Force:
        """Friction on a joint coordinate with a given `normal` load (a number or a function of time).

        −[μ(v) · normal · radius · tanh(v/transition_speed) + viscous · v], with Stribeck's
        μ = coulomb + (static − coulomb) exp(−(v/stribeck_speed)²). The sign is regularised: it creeps at rest.
        """
        who = f"Force '{name}'"
        load, function = self._motion(f"{who}: normal", normal, None, "normal_")
        numbers = load | self._stribeck(who, coulomb, static, stribeck_speed, transition_speed, viscous)
        numbers["radius"] = np.asarray(self._number(f"{who}: radius", radius, positive=True))
        return self._on_coordinate("friction", name, joint, coordinate, numbers, (function,))

    @element("forces")
    def bearing_friction(
        self,
        name: Name,
        joint: JointName,
        *,
        coulomb: Number,
        static: Number | None = None,
        stribeck_speed: Positive | None = None,
        transition_speed: Positive = 1e-3,
        viscous: Number = 0.0,
        radius: Positive | None = None,
        length: Positive | None = None,
        coordinate: Coordinate | None = None,
        rule: Rule | None = None,
    ) -> Force:
        """Friction on a joint coordinate by the joint's own load N, which depends on the motion and on the friction.

        −[μ(v) · N · radius · tanh(v/transition_speed) + viscous · v], μ as in `friction`. N is the reaction across the
        joint's axis (of a ball: all of it, and v is the relative angular velocity). With `length`, a bearing borne at
        its two ends, centred on marker j: N = |F/2 + M/length| + |F/2 − M/length|. An angle or a ball needs the
        `radius` of its bearing; a slider has none. Each coordinate of a joint has its own friction, at full load.

        Where the rigid-body model does not determine N (redundant constraints) this is refused, unless `rule`, or
        `simulate(…, rule=…)`, names a rule that picks it: "weighted", "minimum_norm", "penalty_limit", "eliminated".
        """
        who = f"Force '{name}'"
        numbers = self._stribeck(who, coulomb, static, stribeck_speed, transition_speed, viscous)
        if rule is not None and rule not in RULES:
            self._wrong(f"{who}: rule={rule!r} is unknown; use one of {', '.join(RULES)}.")
        found = self._joint_of(who, joint)
        loaded = None if found is None else BEARINGS.get((self.space, found.kind))
        if found is not None and loaded is None:
            kinds = ", ".join(kind for space, kind in BEARINGS if space == self.space)
            self._wrong(
                f"{who}: joint '{found.name}' ({found.kind.split(':')[0]}) has no bearing whose load could rub; "
                f"these have: {kinds}. For any other, give the load to friction(normal=…)."
            )
        ball = found is not None and found.kind == "spherical"
        which = "ball" if ball or found is None or loaded is None else self._coordinate_of(who, found, coordinate)
        if found is None or loaded is None or which is None:
            return self._force(name, "bearing_friction:weld:angle", (), numbers)
        turning = ball or which.startswith("angle")
        if turning == (radius is None):
            self._wrong(
                f"{who}: radius is missing; the friction torque of a turning joint is μ · load · radius."
                if turning
                else f"{who}: a sliding joint rubs with μ · load; it has no radius."
            )
        numbers["radius"] = np.asarray(1.0 if radius is None else self._number(f"{who}: radius", radius, positive=True))
        if length is not None:
            if not loaded[1]:
                self._wrong(f"{who}: joint '{found.name}' carries no torque that a bearing's length would bear.")
            numbers["length"] = np.asarray(self._number(f"{who}: length", length, positive=True))
        kind = f"bearing_friction:{found.kind}:{which}"
        return self._force(name, kind, found.markers, numbers, joint=found.name, rule=rule)

    @element("forces")
    def pd_control(
        self,
        name: Name,
        joint: JointName,
        reference: Motion,
        *,
        stiffness: Number,
        damping: Number = 0.0,
        limit: Positive | None = None,
        coordinate: Coordinate | None = None,
    ) -> Force:
        """Control a joint coordinate a: effort stiffness · (r − a) + damping · (ṙ − ȧ), r = reference(t).

        Angles follow through full turns; in space r − a must stay within half a turn. With `limit` the effort saturates
        smoothly, as limit · tanh(effort/limit).
        """
        who = f"Force '{name}'"
        target, function = self._motion(f"{who}: reference", reference, None, "reference_")
        numbers = target | {
            "stiffness": np.asarray(self._number(f"{who}: stiffness", stiffness)),
            "damping": np.asarray(self._number(f"{who}: damping", damping)),
        }
        if limit is not None:
            numbers["limit"] = np.asarray(self._number(f"{who}: limit", limit, positive=True))
        return self._on_coordinate("pd_control", name, joint, coordinate, numbers, (function,))

    @element("forces")
    def motor(
        self,
        name: Name,
        joint: JointName,
        *,
        torque: Motion | None = None,
        voltage: Motion | None = None,
        torque_constant: Positive | None = None,
        resistance: Positive | None = None,
        gear: Number = 1.0,
        rotor_inertia: Positive | None = None,
        rotor_mass: Positive | None = None,
        coordinate: Coordinate | None = None,
    ) -> Force:
        """A motor on a joint coordinate: shaft torque times `gear` (motor turns for one unit of the coordinate).

        Either `torque`(t) at the shaft, or `voltage`(t) with `torque_constant` k and `resistance` R:
        k/R · (U − k · gear · rate). With `rotor_inertia` a rotor is added, borne by body i about the joint's axis and
        geared to the coordinate: body '<name>_rotor' with `rotor_mass` (needed unless body i is ground), joints
        '<name>_bearing' and '<name>_gear'.
        """
        who = f"Force '{name}'"
        ratio = self._number(f"{who}: gear", gear)
        numbers = {"gear": np.asarray(ratio)}
        if (torque is None) == (voltage is None):
            self._wrong(f"{who}: give either torque= or voltage= (with torque_constant= and resistance=).")
        if voltage is None:
            own, function = self._motion(f"{who}: torque", 0.0 if torque is None else torque, None, "torque_")
            numbers |= own | {"slope": np.asarray(0.0), "gain": np.asarray(1.0)}
        else:
            own, function = self._motion(f"{who}: voltage", voltage, None, "voltage_")
            if torque_constant is None or resistance is None:
                self._wrong(f"{who}: voltage= needs torque_constant= and resistance=.")
            k = self._number(
                f"{who}: torque_constant", 1.0 if torque_constant is None else torque_constant, positive=True
            )
            R = self._number(f"{who}: resistance", 1.0 if resistance is None else resistance, positive=True)
            numbers |= own | {"slope": np.asarray(k * k / R), "gain": np.asarray(k / R)}
        made = self._on_coordinate("motor", name, joint, coordinate, numbers, (function,))
        if rotor_inertia is not None:
            self._rotor(name, joint, coordinate, ratio, rotor_inertia, rotor_mass)
        return made

    # ---- helpers -----------------------------------------------------------------------------------------

    def _force(self, name, kind, markers, numbers=None, functions=(), **more) -> Force:
        made = Force(name, kind, tuple(markers), dict(numbers or {}), tuple(functions), **more)
        self._without_own(f"Force '{name}'", made.numbers, OF_MARKERS)
        self._register(self.forces, name, made, "Force")
        return made

    def _is_ball(self, joint, coordinate) -> bool:
        """Whether a law is to act about all axes of a spherical joint, which has no coordinate."""
        found = self.constraints.get(getattr(joint, "name", joint)) if coordinate is None else None
        return found is not None and found.kind == "spherical"

    def _on_coordinate(self, kind, name, joint, coordinate, numbers, functions=(), *, ball: bool = False) -> Force:
        if ball and self._is_ball(joint, coordinate):
            found = self.constraints[getattr(joint, "name", joint)]
            return self._force(name, f"{kind}:spherical:ball", found.markers, numbers, functions)
        target = self._target(f"Force '{name}'", joint, coordinate)
        if target is None:
            return self._force(name, f"{kind}:weld:angle", (), numbers, functions)
        found, which = target
        return self._force(name, f"{kind}:{found.kind.replace(':', '/')}:{which}", found.markers, numbers, functions)

    def _stribeck(self, who, coulomb, static, stribeck_speed, transition_speed, viscous) -> dict[str, np.ndarray]:
        """The numbers of Stribeck's law."""
        mu = self._number(f"{who}: coulomb", coulomb, negative=False)
        mu_static = mu if static is None else self._number(f"{who}: static", static, negative=False)
        v_t = self._number(f"{who}: transition_speed", transition_speed, positive=True)
        v_s = (
            10 * v_t
            if stribeck_speed is None
            else self._number(f"{who}: stribeck_speed", stribeck_speed, positive=True)
        )
        return {
            "coulomb": np.asarray(mu),
            "static": np.asarray(mu_static),
            "stribeck_speed": np.asarray(v_s),
            "transition_speed": np.asarray(v_t),
            "viscous": np.asarray(self._number(f"{who}: viscous", viscous, negative=False)),
        }

    def _load(self, kind, name, body, value, size, at, frame, parameters) -> Force:
        who = f"Force '{name}'"
        b = self._body(who, body)
        if frame not in ("world", "body"):
            self._wrong(f"{who}: frame={frame!r} is unknown; use 'world' or 'body'.")
            frame = "world"
        point = b.position if at is None else self._vector(f"{who}: at", at, self.dimension)
        numbers, function = self._motions(f"{who}: {kind}", value, size, parameters)
        return self._force(name, f"{kind}:{frame}", (self._fixed(b, point, b.rotation),), numbers, (function,))

    def _formula(self, what: str, value, variables: tuple[str, ...], parameters):
        """Numbers and a function (t, *variables, p) from a number, a formula of the variables, or a JAX function."""
        who = what.split(":")[0]
        numbers = self._parameters(who, parameters)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"effort": np.asarray(self._number(what, value))}, _constant_effort
        if isinstance(value, Function | dict):
            own, function = self._motion(what, value)
            return own, OfTime(function)
        if callable(value):
            return numbers, with_parameters(value, parameters)
        try:
            tree = parse(value, numbers)
            if taken := numbers.keys() & set(variables):
                raise DalembertError(
                    f"parameter '{min(taken)}': the formula calls a variable by this word; choose another."
                )
            unknown = sorted(names_in(tree) - {"t", *variables} - set(numbers))
            if unknown:
                allowed = ", ".join(("t", *variables, *numbers))
                raise DalembertError(f"expression '{value}': '{unknown[0]}' is unknown; it may use {allowed}.")
        except DalembertError as error:
            self._wrong(f"{what}: {error}")
            return {"effort": np.asarray(0.0)}, _constant_effort
        return numbers, Timed(Shape("expression", tree=tree, names=tuple(numbers)), "", variables)

    def _load_formulas(self, who: str, law, bodies, numbers):
        d = self.dimension
        size = d + (1 if d == 2 else 3)
        texts: list = []
        given = law if isinstance(law, list | tuple) else [law]
        if len(given) != len(bodies) or not all(isinstance(x, Mapping) for x in given):
            self._wrong(f"{who}: law must be a function, or for each body a mapping with force and torque formulas.")
            return with_parameters(lambda t, frames: [(np.zeros(d), np.zeros(size - d))] * len(bodies), None)
        for share in given:
            force = share.get("force", [0] * d)
            torque = share.get("torque", [0] * (size - d))
            torque = [torque] if isinstance(torque, str | int | float) else torque
            if set(share) - {"force", "torque"} or len(force) != d or len(torque) != size - d:
                self._wrong(
                    f"{who}: law: each body has force ({d} formulas) and torque ({size - d}), not {dict(share)!r}."
                )
                force, torque = [0] * d, [0] * (size - d)
            texts += [*force, *torque]
        try:
            formulas = FrameFormulas.read(texts, self.space, bodies, numbers, True)
        except DalembertError as error:
            self._wrong(f"{who}: law: {error}")
            formulas = FrameFormulas.read(["0"] * len(texts), self.space, bodies, {}, True)
        return Shares(formulas, d, size)

    def _force_markers(self, who, i, j, at, axis, x) -> tuple[Marker, Marker]:
        pair = self._by_markers(who, i, j)
        if pair is not None:
            return pair
        bi, bj = self._body(who, i), self._body(who, j)
        if at is None:
            self._wrong(f"{who}: say where it is: at=(...), a point in the start configuration.")
        point = bj.position if at is None else self._vector(f"{who}: at", at, self.dimension)
        frame = None if axis is None else self._axis_frame(who, axis, x)
        return self._fixed(bi, point, frame), self._fixed(bj, point, frame)

    def _beam_frame(self, who: str, along, y) -> np.ndarray:
        if self.dimension == 2:
            return np.array([[along[0], -along[1]], [along[1], along[0]]])
        across = np.eye(3)[int(np.argmin(np.abs(along)))] if y is None else self._axis(f"{who}: y", y)
        if abs(across @ along) > 1 - 1e-9:
            self._wrong(f"{who}: y is parallel to the beam; it must point across it.")
            across = np.eye(3)[int(np.argmin(np.abs(along)))]
        R = frame_on_axis(along, across)  # columns: y, z, x of the beam
        return np.column_stack([R[:, 2], R[:, 0], R[:, 1]])

    def _rotor(self, name, joint, coordinate, ratio, inertia, mass) -> None:
        who = f"Force '{name}'"
        target = self._target(who, joint, coordinate)
        if target is None:
            return
        found, which = target
        housing = found.markers[0]
        if mass is None and not housing.body.is_ground:
            self._wrong(f"{who}: give rotor_mass=: body '{housing.body.name}' moves and carries the rotor with it.")
        J = self._number(f"{who}: rotor_inertia", inertia, positive=True)
        # on ground a balanced rotor's mass does not matter
        m = J if mass is None else self._number(f"{who}: rotor_mass", mass, positive=True)
        point, frame = housing.start_position, housing.start_rotation
        # it starts with the speed of the joint: else the joint would have to accelerate it at once
        velocity, spin = _start_motion(housing)
        turning = ratio * _start_rate(found, which)
        if self.space == "plane":
            moving = {"velocity": velocity, "angular_velocity": spin + turning}
            rotor = self.body(f"{name}_rotor", mass=m, inertia=J, position=point, **moving)
            self.revolute(f"{name}_bearing", housing.body, rotor, at=point)
        else:
            moving = {"velocity": velocity, "angular_velocity": frame.T @ spin + [0.0, 0.0, turning]}
            shape = {"inertia": (J / 2, J / 2, J), "rotation": frame}
            rotor = self.body(f"{name}_rotor", mass=m, position=point, **shape, **moving)
            self.revolute(f"{name}_bearing", housing.body, rotor, at=point, axis=frame[:, 2])
        self.coupling(f"{name}_gear", [(f"{name}_bearing", 1.0), (found.name, which, -ratio)])


@dataclass(frozen=True)
class Shares:
    """Formulas for all bodies, split into (force, torque) per body."""

    formulas: FrameFormulas
    d: int
    size: int

    def __call__(self, t, frames, p):
        flat, d, size = self.formulas(t, frames, p), self.d, self.size
        return [(flat[k : k + d], flat[k + d : k + size]) for k in range(0, len(self.formulas.trees), size)]


def _start_motion(marker: Marker):
    """Velocity of a marker's point and angular velocity (a number in the plane), world axes, as given at the start."""
    b = marker.body
    r = b.rotation @ marker.position
    if len(r) == 2:
        w = float(b.angular_velocity[0])
        return b.velocity + w * np.array([-r[1], r[0]]), w
    w = b.rotation @ b.angular_velocity
    return b.velocity + np.cross(w, r), w


def _start_rate(joint: Constraint, which: str) -> float:
    """The rate of a joint coordinate at the start, for the joints whose markers coincide there; else 0."""
    mi, mj = joint.markers
    if joint.kind in ("revolute_spherical_rod", "constant_velocity"):
        return 0.0
    (vi, wi), (vj, wj) = _start_motion(mi), _start_motion(mj)
    plane = len(vi) == 2
    if plane and which == "angle":
        return float(wj - wi)
    last = 0 if plane or joint.kind == "pin_slot" else 2
    axes = {"displacement": last, "x": 0, "y": 1, "z": 2, "angle": 2}
    axes |= {"angle_i": 0, "angle_j": 1, "angle_x": 0, "angle_y": 1, "angle_z": 2}
    along = mi.start_rotation[:, axes[which]]
    if which.startswith("angle"):
        return float(along @ (wj - wi))
    d = mj.start_position - mi.start_position
    transport = wi * np.array([-d[1], d[0]]) if plane else np.cross(wi, d)
    return float(along @ (vj - vi - transport))


def _constant_effort(t, *values_and_p):
    return values_and_p[-1]["effort"]


@dataclass(frozen=True)
class OfTime:
    """A function (t, p) where one of (t, variables, p) is expected."""

    function: Callable

    def __call__(self, t, *values_and_p):
        return self.function(t, values_and_p[-1])


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


# pyright: reportArgumentType=false, reportReturnType=false
