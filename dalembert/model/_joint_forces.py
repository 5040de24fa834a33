"""1 · model: forces on a joint coordinate: springs, stops, friction, actuators and motors."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from dalembert.model._arguments import (
    RULES,
    Coordinate,
    Formula,
    Motion,
    Number,
    Parameters,
    Positive,
    Rule,
    Varying,
)
from dalembert.model._bodies import BodyEntry
from dalembert.model._drivers import Coupling
from dalembert.model._element import AbstractForce, OnJoint
from dalembert.model._frames import Marker
from dalembert.model._joints import Revolute
from dalembert.model._measurements import MeasuredPosition
from dalembert.model._placed import Constraint, Force
from dalembert.model._placing import Placing


def _on_coordinate(on: Placing, numbers, functions=(), *, ball: bool = False, rule: str | None = None) -> Force:
    """A force on the joint's coordinate; with `ball` about all axes of a joint that is one."""
    if ball and (found := _ball(on)) is not None:
        return on.force(found.markers, numbers, functions, target=found)
    target = on.target()
    if target is None:
        return on.force((), numbers, functions)
    found, which = target
    return on.force(found.markers, numbers, functions, target=found, coordinate=which, rule=rule)


def _ball(on: Placing) -> Constraint | None:
    """The joint, if it is a ball, which has no coordinate, and none is asked for."""
    joint = on.given("joint")
    found = on.model.constraints.get(getattr(joint, "name", joint)) if on.given("coordinate") is None else None
    bearing = None if found is None else found.element.bearing(on.space)
    return found if bearing is not None and bearing.ball else None


class JointSpring(OnJoint):
    """A torsional (on a sliding joint: linear) spring-damper on a joint coordinate; `free` is its rest value.

    `stiffness` and `free` are numbers, functions of time or inputs; a spring that so changes is an actuator: it stores
    no energy, its power counts as work. On a spherical joint it acts alike about all axes: −stiffness · the rotation
    vector of j against i − damping · the relative angular velocity. In space turns are not counted: a run ends where
    the spring is wound past half a turn.
    """

    has_effort = True

    stiffness: Varying = 0.0
    damping: Number = 0.0
    free: Varying = 0.0
    coordinate: Coordinate | None = None

    def place(self, on):
        stiffness, spring = on.varying("stiffness")
        free, rest = on.varying("free")
        if _ball(on) is not None and (rest is not None or self.free != 0):
            on.wrong("on a spherical joint free must be 0; place its markers where the spring rests.", "free")
        numbers, functions = stiffness | {"damping": on.number("damping")} | free, (spring, rest)
        return _on_coordinate(on, numbers, functions if any(functions) else (), ball=True)


class Armature(OnJoint):
    """Inertia on a joint coordinate a, as a rotor's seen through its gear: ½ · inertia · ȧ² of kinetic energy.

    For a rotor of moment J and ratio n it is n²J (on a sliding joint a mass, in kg). The rotor's own weight and its
    gyroscopic torque are not in it; `motor(rotor_inertia=…)` is a rotor that is a body. On a spherical joint it is
    alike about all axes. It couples the two bodies of the joint in M, which is then a full matrix in absolute
    coordinates; in joint coordinates it stands on the diagonal.
    """

    has_power = False

    inertia: Positive = field(kw_only=False)
    coordinate: Coordinate | None = None

    def place(self, on):
        return _on_coordinate(on, {"inertia": on.positive("inertia")}, ball=True)


class JointForce(OnJoint):
    """An actuator on a joint coordinate: a force (on an angle: torque) that pushes it towards larger values.

    `effort` is a number, a formula of `t`, `value`, `rate` and the parameters, or effort(t, value, rate[, p]). In
    space an angle is in (−π, π], and a run ends where it leaves that range, unless the effort repeats with it.
    """

    has_effort = True

    effort: Formula = field(kw_only=False)
    coordinate: Coordinate | None = None
    parameters: Parameters | None = None

    def place(self, on):
        numbers, function = on.formula("effort", ("value", "rate"))
        return _on_coordinate(on, numbers, (function,))


class Stop(OnJoint):
    """Smooth end stops: stiffness · δ^exponent + damping · δ̇ beyond `lower` or `upper`, δ the overrun.

    The damping grows from zero to its full value over an overrun of `depth` (default: 1e-3 of the range). In space
    an angle is in (−π, π], and a run ends where it leaves that range.
    """

    has_effort = True

    stiffness: Positive
    lower: Number | None = None
    upper: Number | None = None
    damping: Number = 0.0
    exponent: Number = 1.5
    depth: Positive | None = None
    coordinate: Coordinate | None = None

    def place(self, on):
        return _on_coordinate(on, _stop_numbers(on, self))


class MeasuredStop(AbstractForce, abstract=True):
    """Smooth stops of a measured position, made by a limit of it."""

    has_effort = True

    measured: MeasuredPosition
    stiffness: Positive
    lower: Number | None = None
    upper: Number | None = None
    damping: Number = 0.0
    exponent: Number = 1.5
    depth: Positive | None = None

    def place(self, on):
        markers = self.measured.measurement.markers
        return on.force(markers, _stop_numbers(on, self), is_angle=self.measured.is_angle)


def _stop_numbers(on: Placing, stop: Stop | MeasuredStop) -> dict[str, float]:
    """The numbers of smooth stops, checked."""
    low, high = on.number("lower", default=0.0), on.number("upper", default=0.0)
    low, high = -np.inf if stop.lower is None else low, np.inf if stop.upper is None else high
    if stop.lower is None and stop.upper is None:
        on.wrong(f"give {on.arg('lower')}, {on.arg('upper')} or both.", "lower", "upper")
    if low >= high:
        on.wrong(f"lower={low:g} must be less than upper={high:g}.", "lower")
    span = high - low if np.isfinite(high - low) and high > low else 1.0
    exponent = on.number("exponent")
    if exponent < 1:
        on.wrong(f"exponent must be at least 1, not {exponent:g}.", "exponent")
    numbers = {
        "stiffness": on.positive("stiffness"),
        "damping": on.number("damping", negative=False),
        "exponent": exponent,
        "depth": on.positive("depth", 1e-3 * span),
    }
    return numbers | {k: x for k, x in (("lower", low), ("upper", high)) if np.isfinite(x)}


class Friction(OnJoint):
    """Friction on a joint coordinate with a given `normal` load (a number or a function of time).

    −[μ(v) · normal · radius · tanh(v/transition_speed) + viscous · v], with Stribeck's
    μ = coulomb + (static − coulomb) exp(−(v/stribeck_speed)²). The sign is regularised: it creeps at rest.
    """

    has_effort = True

    normal: Motion = 1.0
    coulomb: Number = 0.0
    static: Number | None = None
    stribeck_speed: Positive | None = None
    transition_speed: Positive = 1e-3
    viscous: Number = 0.0
    radius: Positive = 1.0
    coordinate: Coordinate | None = None

    def place(self, on):
        load, function = on.motion("normal", prefix="normal_")
        numbers = load | _stribeck(on)
        numbers["radius"] = on.positive("radius")
        return _on_coordinate(on, numbers, (function,))


def _stribeck(on: Placing) -> dict[str, float]:
    """The numbers of Stribeck's law."""
    mu = on.number("coulomb", negative=False)
    v_t = on.positive("transition_speed")
    return {
        "coulomb": mu,
        "static": on.number("static", default=mu, negative=False),
        "stribeck_speed": on.positive("stribeck_speed", 10 * v_t),
        "transition_speed": v_t,
        "viscous": on.number("viscous", negative=False),
    }


class BearingFriction(OnJoint):
    """Friction on a joint coordinate by the joint's own load N, which depends on the motion and on the friction.

    −[μ(v) · N · radius · tanh(v/transition_speed) + viscous · v], μ as in `friction`. N is the reaction across the
    joint's axis (of a ball: all of it, and v is the relative angular velocity). With `length`, a bearing borne at
    its two ends, centred on marker j: N = |F/2 + M/length| + |F/2 − M/length|. An angle or a ball needs the
    `radius` of its bearing; a slider has none. Each coordinate of a joint has its own friction, at full load.

    Where the rigid-body model does not determine N (redundant constraints) this is refused, unless `rule`, or
    `simulate(…, rule=…)`, names a rule that picks it: "weighted", "minimum_norm", "penalty_limit", "eliminated".
    """

    has_power = False

    coulomb: Number
    static: Number | None = None
    stribeck_speed: Positive | None = None
    transition_speed: Positive = 1e-3
    viscous: Number = 0.0
    radius: Positive | None = None
    length: Positive | None = None
    coordinate: Coordinate | None = None
    rule: Rule | None = None

    def place(self, on):
        return _by_load(self, on, _stribeck(on), ball=True)


class DryFriction(OnJoint):
    """Dry friction on a joint coordinate that sticks: Coulomb's set-valued law.

    While the coordinate slips at the speed v: −sign(v) · μ(v) · N · radius − viscous · v, with μ = `coulomb`, or, with
    a `stribeck_speed`, coulomb + (static − coulomb) exp(−(v/stribeck_speed)²). While it sticks it is held, without
    creep, by any effort up to `static` · N · radius. N is the `normal` load, a number or a function of time; without
    one it is the joint's own load, as in `bearing_friction`: an angle then needs the `radius` of its bearing, and
    `length` is that of a bearing borne at its two ends.

    `simulate` finds when it sticks and slips (`solution.phases`). An effort or a load that the rigid-body model does
    not determine is refused, unless `rule`, or `simulate(…, rule=…)`, names one that picks it. Not under jit, vmap,
    grad and in batches: `friction` and `bearing_friction` are regularised laws that work there.
    """

    has_power = False

    coulomb: Number
    static: Number | None = None
    normal: Motion | None = None
    stribeck_speed: Positive | None = None
    viscous: Number = 0.0
    radius: Positive | None = None
    length: Positive | None = None
    coordinate: Coordinate | None = None
    rule: Rule | None = None

    def place(self, on):
        mu = on.number("coulomb", negative=False)
        numbers = {"coulomb": mu, "static": on.number("static", default=mu, negative=False)}
        numbers["viscous"] = on.number("viscous", negative=False)
        if numbers["static"] < mu:
            on.wrong(f"static={numbers['static']:g} must not be less than coulomb={mu:g}.", "static")
        if self.stribeck_speed is not None:
            numbers["stribeck_speed"] = on.positive("stribeck_speed")
        if self.normal is None:
            return _by_load(self, on, numbers, ball=False)
        if self.length is not None:
            on.wrong(f"{on.arg('length')} belongs to a joint's own load; leave out {on.arg('normal')}.", "length")
        load, function = on.motion("normal", prefix="normal_")
        numbers |= load | {"radius": on.positive("radius", 1.0)}
        return _sticking(self, on, numbers, function)


class Brake(OnJoint):
    """A brake on a joint coordinate: it holds up to its `capacity`, a force (on an angle: torque), and slips beyond it.

    `capacity` is a number or a function of time, by an input too; zero releases it. While it slips it drags with
    `sliding` · capacity. It is dry friction that sticks (`dry_friction`), and holds without creep.
    """

    has_power = False

    capacity: Motion = field(kw_only=False)
    sliding: Number = 1.0
    coordinate: Coordinate | None = None
    rule: Rule | None = None

    def place(self, on):
        load, function = on.motion("capacity", prefix="normal_")
        share = on.number("sliding", negative=False)
        if share > 1:
            on.wrong(f"sliding={share:g} is the share of the capacity while it slips; it must not exceed 1.", "sliding")
        numbers = load | {"coulomb": share, "static": 1.0, "viscous": 0.0, "radius": 1.0}
        return _sticking(self, on, numbers, function)


def _sticking(element: DryFriction | Brake, on: Placing, numbers, function) -> Force:
    """A force that may hold a coordinate, by a load that is given."""
    _check_rule(element, on)
    return _on_coordinate(on, numbers | {"side": 0.0}, (function,), rule=element.rule)


def _check_rule(element, on: Placing) -> None:
    if element.rule is not None and element.rule not in RULES:
        on.wrong(f"rule={element.rule!r} is unknown; use one of {', '.join(RULES)}.", "rule")


def _by_load(element, on: Placing, numbers, *, ball: bool) -> Force:
    """Friction by the joint's own load; `ball`: a ball may have it."""
    _check_rule(element, on)
    found = on.joint()
    bearing = None if found is None else found.element.bearing(on.space)
    if found is not None and (bearing is None or (bearing.ball and not ball)):
        on.wrong(
            f"joint '{found.name}' ({found.type}) has no bearing whose load could rub; "
            f"these have: {', '.join(on.model.bearing_types())}. For any other, give the load to "
            "friction(normal=…); in a class of your own define bearing."
            if bearing is None
            else f"joint '{found.name}' ({found.type}) turns about all axes and has no coordinate that could stick; "
            "bearing_friction is a regularised law for it.",
            "joint",
        )
        return on.force((), numbers)
    if found is None or bearing is None:
        return on.force((), numbers)
    which = "" if bearing.ball else on.coordinate(found, element.coordinate)
    if which is None:
        return on.force((), numbers)
    turning = bearing.ball or on.free(found, which).is_angle
    if turning == (element.radius is None):
        on.wrong(
            "radius is missing; the friction torque of a turning joint is μ · load · radius."
            if turning
            else "a sliding joint rubs with μ · load; it has no radius.",
            "radius",
        )
    numbers["radius"] = on.positive("radius", 1.0)
    if element.length is not None:
        if not bearing.torques:
            on.wrong(f"joint '{found.name}' carries no torque that a bearing's length would bear.", "length")
        numbers["length"] = on.positive("length")
    if not ball:
        numbers["side"] = 0.0
    return on.force(found.markers, numbers, target=found, coordinate=which, rule=element.rule)


class PDControl(OnJoint):
    """Control a joint coordinate a: effort stiffness · (r − a) + damping · (ṙ − ȧ), r = reference(t).

    Angles follow through full turns; in space r − a must stay within half a turn. With `limit` the effort saturates
    smoothly, as limit · tanh(effort/limit).
    """

    has_effort = True

    type = "pd_control"

    reference: Motion = field(kw_only=False)
    stiffness: Number
    damping: Number = 0.0
    limit: Positive | None = None
    coordinate: Coordinate | None = None

    def place(self, on):
        target, function = on.motion("reference", prefix="reference_")
        numbers = target | {k: on.number(k) for k in ("stiffness", "damping")}
        if self.limit is not None:
            numbers["limit"] = on.positive("limit")
        return _on_coordinate(on, numbers, (function,))


class Motor(OnJoint):
    """A motor on a joint coordinate: shaft torque times `gear` (motor turns for one unit of the coordinate).

    Either `torque`(t) at the shaft, or `voltage`(t) with `torque_constant` k and `resistance` R:
    k/R · (U − k · gear · rate). With `rotor_inertia` a rotor is added, borne by body i about the joint's axis and
    geared to the coordinate: body '<name>_rotor' with `rotor_mass` (needed unless body i is ground), joints
    '<name>_bearing' and '<name>_gear'.
    """

    has_effort = True

    torque: Motion | None = None
    voltage: Motion | None = None
    torque_constant: Positive | None = None
    resistance: Positive | None = None
    gear: Number = 1.0
    rotor_inertia: Positive | None = None
    rotor_mass: Positive | None = None
    coordinate: Coordinate | None = None

    def place(self, on):
        ratio = on.number("gear")
        numbers = {"gear": ratio}
        if (self.torque is None) == (self.voltage is None):
            torque, voltage, constant, resistance = map(on.arg, ("torque", "voltage", "torque_constant", "resistance"))
            on.wrong(f"give either {torque} or {voltage} (with {constant} and {resistance}).", "torque", "voltage")
        if self.voltage is None:
            own, function = on.motion("torque", default=0.0, prefix="torque_")
            numbers |= own | {"slope": 0.0, "gain": 1.0}
        else:
            own, function = on.motion("voltage", prefix="voltage_")
            if self.torque_constant is None or self.resistance is None:
                text = f"{on.arg('voltage')} needs {on.arg('torque_constant')} and {on.arg('resistance')}."
                on.wrong(text, "voltage")
            k, R = on.positive("torque_constant", 1.0), on.positive("resistance", 1.0)
            numbers |= own | {"slope": k * k / R, "gain": k / R}
        made = _on_coordinate(on, numbers, (function,))
        if self.rotor_inertia is not None and made.target is not None:
            self._add_rotor(on, made.target, made.coordinate, ratio)
        return made

    def _add_rotor(self, on: Placing, joint: Constraint, which: str, ratio: float) -> None:
        housing = joint.markers[0]
        if self.rotor_mass is None and not housing.body.is_ground:
            text = f"give {on.arg('rotor_mass')}: body '{housing.body.name}' moves and carries the rotor with it."
            on.wrong(text, "rotor_mass")
        J = on.positive("rotor_inertia")
        m = on.positive("rotor_mass", J)  # on ground a balanced rotor's mass does not matter
        point, frame = housing.start_position, housing.start_rotation
        # it starts with the speed of the joint: else the joint would have to accelerate it at once
        velocity, spin = _start_motion(housing)
        turning = ratio * _start_rate(joint, on.space, which)
        rotor, bearing = f"{self.name}_rotor", f"{self.name}_bearing"
        if on.space == "plane":
            moving = {"velocity": velocity, "angular_velocity": spin + turning}
            on.model.add(BodyEntry(rotor, mass=m, inertia=J, position=point, **moving))
            on.model.add(Revolute(bearing, housing.body, rotor, at=point))
        else:
            moving = {"velocity": velocity, "angular_velocity": frame.T @ spin + [0.0, 0.0, turning]}
            shape = {"inertia": (J / 2, J / 2, J), "rotation": frame}
            on.model.add(BodyEntry(rotor, mass=m, position=point, **shape, **moving))
            on.model.add(Revolute(bearing, housing.body, rotor, at=point, axis=frame[:, 2]))
        on.model.add(RotorGear(f"{self.name}_gear", [(bearing, 1.0), (joint.name, which, -ratio)]))


class RotorGear(Coupling, abstract=True):
    """What gears a motor's rotor to its joint: comes with the motor, and its bearing is the motor's own."""

    type = "coupling"
    assumption = ""


def _start_motion(marker: Marker):
    """Velocity of a marker's point and angular velocity (a number in the plane), world axes, as given at the start."""
    b = marker.body
    r = b.rotation @ marker.position
    if len(r) == 2:
        w = float(b.angular_velocity[0])
        return b.velocity + w * np.array([-r[1], r[0]]), w
    w = b.rotation @ b.angular_velocity
    return b.velocity + np.cross(w, r), w


def _start_rate(joint: Constraint, space: str, which: str) -> float:
    """The rate of a joint coordinate at the start, for the joints whose markers coincide there; else 0."""
    coordinate = joint.element.coordinates(space)[which]
    if coordinate.axis is None:
        return 0.0
    mi, mj = joint.markers
    (vi, wi), (vj, wj) = _start_motion(mi), _start_motion(mj)
    if space == "plane" and coordinate.is_angle:
        return float(wj - wi)
    along = mi.start_rotation[:, coordinate.axis]
    if coordinate.is_angle:
        return float(along @ (wj - wi))
    d = mj.start_position - mi.start_position
    transport = wi * np.array([-d[1], d[0]]) if space == "plane" else np.cross(wi, d)
    return float(along @ (vj - vi - transport))
