"""edge · files: how a `Robot` becomes a `Model`, by the model's ordinary methods.

A link with mass is a body; one without is a frame (a marker) of the body it is fixed to. Joints that stand on one link,
or on either side of a link without mass, act as one joint of the library where there is such a joint.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from dalembert.io._links import Links
from dalembert.io._robot import Actuator, Combined, Joint, Motion, Pose, Robot, combined, listed
from dalembert.io._xml import Complaints, Element
from dalembert.model import (
    ELEMENTS,
    Body,
    Cause,
    Generic,
    Model,
    OrientationLock,
    PinSlot,
    Planar,
    Spherical,
    Universal,
    axis_angle,
    quaternion_of,
)


def model_of(robot: Robot, complaints: Complaints, stops: float | None = None, *, strict: bool = False) -> Model:
    """The model of a robot; every mistake goes to `complaints`, every loss to the robot's remarks.

    `stops` is the stiffness of end stops at the limits of joints; without it limits are information. `strict` refuses
    joints on one body that act together as no joint of the library, instead of a light link between them.
    """
    builder = _Builder(robot, complaints, stops, strict)
    model = builder.build()
    if not complaints.found:
        for mistake in model.mistakes():
            element = None if mistake.element is None else builder.elements.get(mistake.element.name)
            nothing = "no link has a mass; give those that move an inertia (URDF: <inertial>)."
            complaints.add(element, nothing if mistake.cause is Cause.EMPTY else str(mistake))
    return model


class _Builder:
    """Adds the links and joints of a robot to the model in order."""

    def __init__(self, robot: Robot, complaints: Complaints, stops: float | None, strict: bool):
        self.robot, self.complaints, self.stops, self.strict = robot, complaints, stops, strict
        self.model = Model(_clean_name(robot.name) or "robot", space="space", gravity=robot.gravity)
        self.taken: set[str] = {"ground"}
        self.elements: dict[str, Element | None] = {}
        self.renamed: list[str] = []
        self.massless: list[str] = []
        self.needless: list[str] = []  # fixed joints of links without mass
        self.body: dict[str, Body] = {}  # of each link
        self.at: dict[str, Pose] = {}  # of each link, in the world, at the start
        self.twist: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # angular, and linear at the world's origin
        # of each motion: the joint, which coordinate where it has several (as an argument), and the sign
        self.coordinate: dict[str, tuple[str, dict[str, Any], float] | None] = {}

    def build(self) -> Model:
        robot = self.robot
        links = Links(robot, self.complaints)
        links.simplify(part=not self.strict)
        self.above, self.size = links.above, links.size
        order = links.order()
        self._place(order)
        groups = links.groups(order)
        if self.complaints.found:
            return self.model
        names = {name: self._name(name, robot.links[name].element, "link") for name in order}
        for name in order:
            if robot.links[name].mass > 0:
                self._add_body(name, names[name])
        self._bodies_of_links(order, groups)
        self._add_frames(order, names)
        for name in order:
            if name in self.above:
                self._add_joint(self.above[name])
            elif robot.links[name].mass > 0 and not robot.free_base and self.body[name] is not self.model.ground:
                self._weld_root(name)
        self._add_loops()
        self._add_ties()
        for actuator in robot.actuators:
            self._add_actuator(actuator)
        for name in order:
            self._add_pictures(name)
        if self.massless:
            robot.remarks.append(f"Links without mass are frames of their bodies: {', '.join(self.massless)}.")
        if self.needless:
            robot.remarks.append(f"Joints that fix such frames, and so are not needed: {listed(self.needless)}.")
        if self.renamed:
            why = "names are unique in a model, have no dots and do not end in [1]"
            robot.remarks.append(f"Renamed, as {why}: {', '.join(self.renamed)}.")
        return self.model

    # ---- names -----------------------------------------------------------------------------------------------

    def _name(self, wanted: str, element: Element | None, what: str = "", *, own: bool = True) -> str:
        """A name that is free; `own`: the user gave it, so that a change is reported."""
        clean = _clean_name(wanted) or what
        name = clean
        if name in self.taken and own:
            name = f"{clean}_{what}"
        for k in itertools.count(2):
            if name not in self.taken:
                break
            name = f"{clean}_{k}"
        if own and name != wanted:
            self.renamed.append(f"{what} '{wanted}' → '{name}'")
        self.taken.add(name)
        self.elements[name] = element
        return name

    # ---- the start -------------------------------------------------------------------------------------------

    def _place(self, order: list[str]) -> None:
        """Poses and twists of all links at the start."""
        for name in order:
            joint = self.above.get(name)
            if joint is None:
                self.at[name], self.twist[name] = Pose(), (np.zeros(3), np.zeros(3))
                continue
            pose = self.at[joint.parent] @ joint.pose
            w, v = self.twist[joint.parent]
            for m in joint.motions:
                pose, dw, dv = _moved(pose, m)
                w, v = w + dw, v + dv
            if any(m.kind == "free" for m in joint.motions):
                w, v = dw, dv  # its pose and rates are those in the world
            self.at[name], self.twist[name] = pose, (w, v)

    # ---- elements --------------------------------------------------------------------------------------------

    def _add_body(self, link_name: str, name: str) -> None:
        link, pose = self.robot.links[link_name], self.at[link_name]
        w, v = self.twist[link_name]
        centre = pose.point(link.centre)
        moving: dict[str, Any] = {}
        if np.any(v) or np.any(w):
            moving = {"velocity": _tidy(v + np.cross(w, centre)), "angular_velocity": _tidy(pose.R.T @ w)}
        turned = {} if np.array_equal(pose.R, np.eye(3)) else {"quaternion": _tidy(quaternion_of(pose.R))}
        inertia = link.inertia
        diagonal = np.array_equal(inertia, np.diag(np.diag(inertia)))
        self.body[link_name] = self.model.body(
            name,
            mass=link.mass,
            inertia=np.diag(inertia) if diagonal else 0.5 * (inertia + inertia.T),
            position=_tidy(centre, self.size),
            **turned,
            **moving,
        )
        if link.lift:
            lift = self._name(f"{name}_lift", link.element, own=False)
            self.model.force(lift, name, _tidy(-link.lift * link.mass * np.asarray(self.robot.gravity)))

    def _bodies_of_links(self, order: list[str], top: dict[str, str]) -> None:
        """The body that stands for each link without mass, and welds among links with mass."""
        first: dict[str, Body] = {}
        for name in order:
            if name in self.body:
                first.setdefault(top[name], self.body[name])
        for name in order:
            if name not in self.body:
                joint = self.above.get(name)
                if joint is not None and not joint.motions:
                    self.body[name] = self.body[joint.parent]
                elif joint is None and not self.robot.free_base:
                    self.body[name] = self.model.ground
                else:
                    self.body[name] = first[top[name]]

    def _add_frames(self, order: list[str], names: dict[str, str]) -> None:
        for name in order:
            link, body, at = self.robot.links[name], self.body[name], self.at[name]
            if link.mass == 0 and not (name == "world" and body is self.model.ground):
                self.massless.append(f"'{name}' (on '{body.name}')")
                self._marker(names[name], body, at, link.element)
            for frame, pose in link.frames:
                self._marker(self._name(frame, link.element, "frame"), body, at @ pose, link.element)

    def _marker(self, name: str, body: Body, pose: Pose, element: Element | None) -> str:
        self.elements[name] = element
        turned = {} if np.array_equal(pose.R, np.eye(3)) else {"rotation": _tidy(pose.R)}
        self.model.marker(name, body, at=_tidy(pose.p, self.size), **turned)
        return name

    def _pair(self, name: str, ends: list[tuple[Body, Pose]], element: Element | None) -> list[str]:
        """Markers NAME_i and NAME_j at two places in the world, each a body and a pose."""
        free = [self._name(f"{name}_{word}", None, own=False) for word in "ij"]
        return [self._marker(marker, *end, element=element) for marker, end in zip(free, ends, strict=True)]

    def _weld_root(self, name: str) -> None:
        weld = self._name(f"{name}_to_ground", self.robot.links[name].element, own=False)
        self.model.weld(weld, self.model.ground, self.body[name])
        self.robot.remarks.append(f"Nothing carries link '{name}': it is welded to the ground (joint '{weld}').")

    def _add_joint(self, joint: Joint) -> None:
        i, j = self.body[joint.parent], self.body[joint.child]
        if not joint.motions:
            if j is i:  # a link without mass: a frame
                self.needless.append(joint.name)
                return
            self.model.weld(self._name(joint.name, joint.element, "joint"), i, j)
            return
        found = combined(joint.motions, self.size)
        if found is None:
            names = listed(m.name for m in joint.motions)
            kinds = ", then ".join(m.kind for m in joint.motions)
            why = ""
            if kinds == "turn, then turn" and abs(joint.motions[0].axis @ joint.motions[1].axis) > 1 - 1e-9:
                why = " (two parallel axes: between them would be a link without mass)"
            self.complaints.add(
                joint.element,
                f"Link '{joint.child}': joints {names} ({kinds}) act together as no joint that there is here{why}; "
                "put links with mass between them, however light.",
            )
            return
        several = len(joint.motions) > 1
        wanted = "_".join(dict.fromkeys(m.name for m in joint.motions)) if several else joint.motions[0].name
        for m in joint.motions:
            self.coordinate[m.name] = None
        if found.joint is None:
            self._add_free(joint, j)
            return
        name = self._name(wanted, joint.element, "joint", own=len({m.name for m in joint.motions}) == 1)
        self._add_combined(name, found, joint, i, j)
        only = len([c for c in found.coordinates if c]) == 1
        for m, which in zip(joint.motions, found.coordinates, strict=True):
            if which is not None:
                self.coordinate[m.name] = (name, {} if only else {"coordinate": which[0]}, which[1])
            self._add_motion(m, name, found)
        if len({m.name for m in joint.motions}) > 1:
            free = [
                f"'{m.name}' is {'-' if w[1] < 0 else ''}{w[0]}"
                for m, w in zip(joint.motions, found.coordinates, strict=True)
                if w
            ]
            coordinates = f" ({', '.join(free)})" if free else ""
            names = listed(m.name for m in joint.motions)
            self.robot.remarks.append(f"Joints {names} are one {found.joint.type} joint, '{name}'{coordinates}.")

    def _add_combined(self, name: str, found: Combined, joint: Joint, i: Body, j: Body) -> None:
        """By a point and axes where its coordinates are zero at the start, else by two markers."""
        zero = self.at[joint.parent] @ joint.pose @ found.frame
        now = self.at[joint.child] @ found.frame
        moved = any(
            not np.array_equal(m.start.R, np.eye(3)) if isinstance(m.start, Pose) else m.start for m in joint.motions
        )
        model, R, made = self.model, _tidy(now.R), found.joint
        assert made is not None
        if moved or found.swapped:
            ends = [(i, zero), (j, now)]
            held = {"held": list(found.held)} if found.held else {}
            model.add(made(name, *self._pair(name, ends[::-1] if found.swapped else ends, joint.element), **held))
            return
        at, x, y, z = _tidy(now.p, self.size), R[:, 0], R[:, 1], R[:, 2]
        ways: dict[type, dict[str, Any]] = {
            Universal: {"axis_i": x, "axis_j": y},
            Planar: {"normal": z, "x": x},
            PinSlot: {"slot": x, "axis": z},
            Generic: {"held": list(found.held), "axis": z, "x": x},
            Spherical: {},
            OrientationLock: {},
        }
        if made is OrientationLock and not np.array_equal(R, np.eye(3)):  # its axes are those of markers
            model.add(made(name, *self._pair(name, [(i, now), (j, now)], None)))
            return
        placed: dict[str, Any] = {"at": at} | ways.get(made, {"axis": z})
        model.add(made(name, i, j, **placed))

    def _add_free(self, joint: Joint, body: Body) -> None:
        names = listed(m.name for m in joint.motions)
        self.robot.remarks.append(f"Joint {names}: body '{body.name}' is free; it needs no joint here.")
        for m in joint.motions:
            if m.kind == "free" and not (m.stiffness or m.friction or m.armature):
                if m.damping:
                    at = _tidy(self.at[joint.child].p, self.size)
                    air = self._name(f"{m.name}_damping", m.element, own=False)
                    self.model.drag(air, body, linear=m.damping, angular=m.damping, at=at)
            elif m.acts:
                self.complaints.add(
                    m.element, f"Joint '{m.name}': a free body with stiffness, friction or armature is not known here."
                )

    def _add_motion(self, m: Motion, joint: str, found: Combined) -> None:
        """Springs, damping, friction and limits on one coordinate."""
        where = self.coordinate[m.name]
        if where is None:
            self._add_on_ball(m, joint, alone=m.kind == "ball")
            return
        (_, which, sign), model = where, self.model
        if m.stiffness or m.damping:
            name = self._name(f"{m.name}_spring" if m.stiffness else f"{m.name}_damping", m.element, own=False)
            spring: dict[str, Any] = {"stiffness": m.stiffness, "free": sign * m.rest} if m.stiffness else {}
            model.joint_spring(name, joint, **spring, damping=m.damping, **which)
        if m.friction:
            model.friction(self._name(f"{m.name}_friction", m.element, own=False), joint, coulomb=m.friction, **which)
        if m.armature:
            model.armature(self._name(f"{m.name}_armature", m.element, own=False), joint, m.armature, **which)
        if m.limit:
            limit: dict[str, Any] = dict(m.limit)
            if sign < 0:
                low, high = limit.pop("lower", None), limit.pop("upper", None)
                limit |= {k: -x for k, x in (("lower", high), ("upper", low)) if x is not None}
            name = self._name(f"{m.name}_limit", m.element, own=False)
            model.limit(name, joint, **limit, **which)
            ends = {k: limit[k] for k in ("lower", "upper") if k in limit}
            if self.stops is not None and ends:
                stop = self._name(f"{m.name}_stop", m.element, own=False)
                model.stop(stop, joint, stiffness=self.stops, **ends, **which)

    def _add_on_ball(self, m: Motion, joint: str, *, alone: bool) -> None:
        """A ball has no coordinate: its spring is a bushing, equal about all axes, its damping -d (ω_j - ω_i)."""
        if m.limit:
            self.robot.remarks.append(f"Joint '{m.name}': its range is left out; a ball has no coordinate here.")
        if m.friction or (m.acts and not alone):
            what = "friction" if m.friction else "spring, damping or armature"
            text = f"Joint '{m.name}': {what} on a motion that is part of a ball joint is not known here."
            self.complaints.add(m.element, text)
            return
        made = self.model.constraints[joint]
        if m.stiffness:
            ends = [(e.body, Pose(e.start_rotation, e.start_position)) for e in made.markers]
            pair = self._pair(f"{joint}_spring", ends, m.element)
            stiffness = [0.0] * 3 + [m.stiffness] * 3
            self.model.bushing(self._name(f"{m.name}_spring", m.element, own=False), *pair, stiffness=stiffness)
        if m.damping:
            damping = self._name(f"{m.name}_damping", m.element, own=False)
            self.model.joint_spring(damping, joint, damping=m.damping)
        if m.armature:
            self.model.armature(self._name(f"{m.name}_armature", m.element, own=False), joint, m.armature)

    def _add_loops(self) -> None:
        for loop in self.robot.loops:
            name = self._name(loop.name, loop.element, "loop")
            ends = [
                (self.model.ground, pose) if link == "" else (self.body[link], self.at[link] @ pose)
                for link, pose in (loop.first, loop.second)
            ]
            length = {} if loop.length is None else {"length": loop.length}
            self.model.add(ELEMENTS[loop.kind](name, *self._pair(name, ends, loop.element), **length))
            self.model.closing = (*self.model.closing, name)  # the robot's own joints form the tree

    def _add_ties(self) -> None:
        for tie in self.robot.ties:
            joints = [name for name in (tie.joint, tie.other) if name is not None]
            ends = [end for name in joints if (end := self.coordinate.get(name)) is not None]
            if len(ends) < len(joints):
                names = listed(joints)
                text = f"'{tie.name}' ties joints {names}, of which one has no coordinate of its own here."
                self.complaints.add(tie.element, text)
                continue
            name = self._name(tie.name, tie.element, "tie")
            (joint, which, sign), *more = ends
            if not more or tie.factor == 0.0:
                self.model.driver(name, joint, sign * tie.offset, **which)
                continue
            other, other_which, other_sign = more[0]
            terms = [{"joint": joint, **which, "factor": sign}]
            terms.append({"joint": other, **other_which, "factor": -tie.factor * other_sign})
            self.model.coupling(name, terms, constant=tie.offset)

    def _add_actuator(self, a: Actuator) -> None:
        where = self.coordinate.get(a.joint)
        if where is None:
            text = f"Left out, <actuator> '{a.name}': joint '{a.joint}' has no coordinate of its own here."
            self.robot.remarks.append(text)
            return
        joint, which, sign = where
        model, gear, (b0, b1, b2) = self.model, sign * a.gear, a.bias
        name = self._name(a.name, a.element, "actuator")
        if not (b0 or b1 or b2):
            model.motor(name, joint, torque=a.control, gear=gear * a.gain, **which)
        elif b1 and not b0 and a.gain == -b1:  # held at a position: stiffness against control/gear
            reference = _shifted(a.control, 1.0 / gear, -sign * a.reference)
            # the file's damping is of the joint's rate alone: a control that moves has no rate there
            held = isinstance(a.control, float)
            damping: dict[str, Any] = {"damping": -(gear**2) * b2} if held and b2 else {}
            model.pd_control(name, joint, reference, stiffness=gear**2 * a.gain, **damping, **which)
            if b2 and not held:
                rubbing = self._name(f"{name}_damping", a.element, own=False)
                model.joint_spring(rubbing, joint, damping=-(gear**2) * b2, **which)
        elif not b1:  # a speed, or a constant force beside the control
            numbers = {"gear": gear, "gain": a.gain, "constant": b0, "slope": b2}
            law = "gear*(gain*{} + constant + slope*gear*rate)"
            if isinstance(a.control, float):
                model.joint_force(
                    name, joint, law.format("control"), parameters=numbers | {"control": a.control}, **which
                )
            elif isinstance(a.control, str):
                model.joint_force(name, joint, law.format(f"({a.control})"), parameters=numbers, **which)
            else:
                model.motor(name, joint, torque=a.control, gear=gear * a.gain, **which)
                rest = self._name(f"{name}_rest", a.element, own=False)
                model.joint_force(rest, joint, law.format("0"), parameters=numbers, **which)
        else:
            self.taken.discard(name)
            text = f"Left out, <actuator> '{a.name}': its law is no torque, position or speed."
            self.robot.remarks.append(text)

    def _add_pictures(self, link_name: str) -> None:
        body = self.body[link_name]
        for picture in self.robot.links[link_name].pictures:
            pose = self.at[link_name] @ picture.pose
            p, R = _tidy(body.local_point(pose.p), self.size), body.local_rotation(pose.R)
            where: dict[str, Any] = {"position": p} if np.any(p) else {}
            where |= {} if np.allclose(R, np.eye(3), atol=1e-15) else {"quaternion": _tidy(quaternion_of(R))}
            given = {"size": picture.size, "file": picture.file, "scale": picture.scale, "colour": picture.colour}
            name = self._name(picture.name, self.robot.links[link_name].element, "shape", own=False)
            self.model.shape(name, body, picture.kind, **{k: x for k, x in given.items() if x}, **where)


def _shifted(control: Any, factor: float, offset: float) -> Any:
    """factor · control + offset, of a number, a formula or a function."""
    if isinstance(control, float):
        return factor * control + offset
    if isinstance(control, str):
        return f"{factor!r}*({control}) + ({offset!r})"
    return lambda t: factor * control(t) + offset


def _moved(pose: Pose, m: Motion) -> tuple[Pose, np.ndarray, np.ndarray]:
    """A child's pose after a motion, and the twist that its rate adds (angular, linear at the world's origin)."""
    axis, at = pose.R @ m.axis, pose.point(m.point)
    zero = np.zeros(3)
    if m.kind == "free":
        pose = m.start if isinstance(m.start, Pose) else pose
        v, w = np.zeros((2, 3)) if np.ndim(m.rate) == 0 else (np.asarray(m.rate)[:3], pose.R @ np.asarray(m.rate)[3:])
        return pose, w, v - np.cross(w, pose.p)
    if m.kind == "slide":
        moved = Pose(pose.R, pose.p + m.start * axis) if m.start else pose
        return moved, zero, m.rate * axis
    if m.kind == "ball":
        turned = m.start.R if isinstance(m.start, Pose) else np.eye(3)
        pose = Pose(pose.R @ turned, at - pose.R @ turned @ m.point)
        w = zero if np.ndim(m.rate) == 0 else pose.R @ np.asarray(m.rate)
        return pose, w, np.cross(at, w)
    if m.start:
        R = axis_angle(axis, m.start) @ pose.R
        pose = Pose(R, at - R @ m.point)
    w = m.rate * axis
    return pose, w, np.cross(at, w)


def _clean_name(name: str) -> str:
    """As names are here: printable, without dots, at most 90 characters, and not "hand[1]", a row of joint hand."""
    text = "".join(c if c.isprintable() else "_" for c in name).replace(".", "_").strip()
    return re.sub(r"\[(\d+)\]$", r"_\1", text[:90].strip())


def _tidy(values, size: float = 1.0) -> np.ndarray:
    """With zeros instead of round-off, where it is below the accuracy of the other numbers."""
    array = np.array(values, float)
    array[np.abs(array) < 1e-15 * max(size, float(np.max(np.abs(array), initial=0.0)))] = 0.0
    return array
