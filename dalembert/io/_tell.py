"""edge · files: how a `Robot` becomes a `Model`, by the model's ordinary methods.

A link with mass is a body; one without is a frame (a marker) of the body it is fixed to. Joints that stand on one link,
or on either side of a link without mass, act as one joint of the library where there is such a joint.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np

from dalembert.io._robot import Actuator, Combined, Joint, Link, Motion, Pose, Robot, combined, listed
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

LIGHT = 1e-11
"""Mass of a link that stands between two joints on one body, where no joint moves as both do, as a share of the body's:
enters the equations of the robot at that size, and leaves its reactions some digits."""


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
    """Groups links that are fixed to each other, joins joints, and adds all of it to the model in order."""

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
        self.above = {j.child: j for j in robot.joints}
        self.below: dict[str, list[Joint]] = {}
        for j in robot.joints:
            self.below.setdefault(j.parent, []).append(j)
        self.roots = [name for name in robot.links if name not in self.above]
        self.size = self._reach()
        if robot.lumps:
            self._lump()
        self._drop_massless()
        if not self.strict:
            self._part_rows()
        order = self._order()
        self._place(order)
        groups = self._groups(order)
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

    # ---- links with a broken inertia -------------------------------------------------------------------------

    def _lump(self) -> None:
        """A link whose inertia no rigid body has, fixed to one with mass: the two are one body, and it is a frame.

        Where that is not a possible body, all links that are fixed to each other there are one body.
        """
        links = self.robot.links
        groups: dict[str, list[str]] = {}
        for name in links:
            groups.setdefault(self._top(name), []).append(name)
        for group in groups.values():
            heavy = [n for n in group if links[n].mass > 0 or np.any(links[n].inertia)]
            broken = [n for n in heavy if not _physical(links[n])]
            sound = [n for n in heavy if n not in broken]
            if broken and not sound:
                for name in broken:
                    if links[name].mass == 0:
                        text = f"Link '{name}': it has an inertia and no mass; give it a mass, or leave <inertial> out."
                        self.complaints.add(links[name].element, text)
                continue
            lumped: dict[str, list[str]] = {}
            for name in broken:
                lumped.setdefault(self._host(name, sound), []).append(name)
            if not all(_physical(self._with(host, names)) for host, names in lumped.items()):
                host = max(sound, key=lambda n: links[n].mass)
                lumped = {host: [n for n in heavy if n != host]}
            for host, names in lumped.items():
                self._lump_with(host, names, broken)

    def _lump_with(self, host: str, names: list[str], broken: list[str]) -> None:
        links, whole = self.robot.links, self._with(host, names)
        odd = [n for n in names if n in broken]
        if not _physical(whole):
            moments = np.linalg.eigvalsh(whole.inertia)
            text = (
                f"Link '{odd[0]}': its inertia is not that of a rigid body, and together with link '{host}', to which "
                f"it is fixed, the principal moments are {moments}: no rigid body has these, either; correct them."
            )
            self.complaints.add(links[odd[0]].element, text)
            return
        links[host] = whole
        for name in names:
            links[name] = replace(links[name], mass=0.0, centre=np.zeros(3), inertia=np.zeros((3, 3)))
        self.robot.remarks.append(
            f"No rigid body has the inertia of {listed(odd)}: {listed(names)} and '{host}', to which it is fixed, are "
            f"one body, '{host}', with the inertia of all."
        )

    def _top(self, name: str) -> str:
        """The topmost link that a link is fixed to."""
        while name in self.above and not self.above[name].motions:
            name = self.above[name].parent
        return name

    def _host(self, name: str, sound: list[str]) -> str:
        """The nearest of some links above a link, or else the first of them."""
        while name in self.above and not self.above[name].motions:
            name = self.above[name].parent
            if name in sound:
                return name
        return sound[0]

    def _with(self, host: str, names: list[str]) -> Link:
        links = self.robot.links
        mass, centre, inertia = _together([(links[n], self._fixed_pose(n, host)) for n in (host, *names)])
        return replace(links[host], mass=mass, centre=centre, inertia=inertia)

    def _fixed_pose(self, name: str, host: str) -> Pose:
        """A link's pose in another one that it is fixed to."""

        def from_top(link: str) -> Pose:
            pose = Pose()
            while link in self.above and not self.above[link].motions:
                pose, link = self.above[link].pose @ pose, self.above[link].parent
            return pose

        return from_top(host).inverse @ from_top(name)

    # ---- links without mass ----------------------------------------------------------------------------------

    def _reach(self) -> float:
        lengths = [float(np.linalg.norm(j.pose.p)) for j in self.robot.joints]
        return max(1e-3, *lengths, 0.0) if lengths else 1.0

    def _drop_massless(self) -> None:
        """A link without mass that moves, with one joint below it: its joints act as one."""
        robot = self.robot
        in_loops = {name for loop in robot.loops for name in (loop.first[0], loop.second[0])}
        while True:
            found = next((name for name in robot.links if self._between(name, in_loops)), None)
            if found is None:
                return
            upper, lower = self.above[found], self.below[found][0]
            back = lower.pose.inverse
            motions = [m.moved(back) for m in upper.motions] + lower.motions
            both = Joint(lower.name, upper.parent, lower.child, upper.pose @ lower.pose, motions, lower.element)
            robot.joints = [both if j is lower else j for j in robot.joints if j is not upper]
            self.above[lower.child] = both
            self.below[upper.parent] = [both if j is upper else j for j in self.below[upper.parent]]
            del self.above[found], self.below[found]
            link = robot.links.pop(found)
            lost = " (its visual shapes are left out)" if link.pictures else ""
            how = "are taken to be on one body" if combined(motions, self.size) is None else "act as one"
            names = listed(m.name for m in motions)
            robot.remarks.append(f"Link '{found}' has no mass: joints {names} {how}, without it{lost}.")

    def _between(self, name: str, in_loops: set[str]) -> bool:
        link, below = self.robot.links[name], self.below.get(name, [])
        return (
            link.mass == 0
            and name in self.above
            and bool(self.above[name].motions)
            and len(below) == 1
            and bool(below[0].motions)
            and not link.frames
            and name not in in_loops
        )

    # ---- joints on one body that act together as no joint ------------------------------------------------------

    def _part_rows(self) -> None:
        """Joints on one body that no joint of the library replaces: a light link between them."""
        for joint in list(self.robot.joints):
            while combined(joint.motions, self.size) is None and (count := self._leading(joint)):
                joint = self._parted(joint, count)

    def _leading(self, joint: Joint) -> int:
        """How many of its first motions are one joint; 0 where they are none, or nothing with mass is below."""
        if self._fixed_to(joint.child)[0] == 0:
            return 0
        counts = range(len(joint.motions) - 1, 0, -1)
        found = ((k, combined(joint.motions[:k], self.size)) for k in counts)
        return next((k for k, one in found if one is not None and one.joint is not None), 0)

    def _parted(self, joint: Joint, count: int) -> Joint:
        """The joint with its motions from `count` on; those before it carry a new link."""
        robot, child = self.robot, joint.child
        upper, lower = joint.motions[:count], joint.motions[count:]
        mass, moment = self._fixed_to(child)
        away = float(np.linalg.norm(upper[-1].point - lower[0].point))
        link = next(n for k in itertools.count(1) if (n := f"{child}_between{k}") not in robot.links)
        inertia = LIGHT * max(moment, mass * away**2, 1e-6 * mass * self.size**2) * np.eye(3)
        robot.links[link] = Link(link, joint.element, LIGHT * mass, lower[0].point, inertia)
        above = Joint(joint.name, joint.parent, link, joint.pose, upper, joint.element)
        below = Joint(f"{joint.name}_{link}", link, child, Pose(), lower, joint.element)
        robot.joints = [x for j in robot.joints for x in ((above, below) if j is joint else (j,))]
        self.above |= {link: above, child: below}
        self.below[joint.parent] = [above if j is joint else j for j in self.below[joint.parent]]
        self.below[link] = [below]
        robot.remarks.append(
            f"No joint here moves as {listed(m.name for m in joint.motions)} on link '{child}' do together: between "
            f"{listed(m.name for m in upper)} and {listed(m.name for m in lower)} stands body '{link}', with {LIGHT:g} "
            "of its mass. Reactions of these joints have fewer digits; strict=True refuses such a file."
        )
        return below

    def _fixed_to(self, name: str) -> tuple[float, float]:
        """Mass and largest moment of inertia of the links that move with one."""
        mass, moment, waiting = 0.0, 0.0, [name]
        while waiting:
            here = waiting.pop()
            link = self.robot.links[here]
            mass, moment = mass + link.mass, max(moment, float(np.max(np.linalg.eigvalsh(link.inertia))))
            waiting += [j.child for j in self.below.get(here, []) if not j.motions]
        return mass, moment

    def _order(self) -> list[str]:
        """Links, parents before children, in the file's order."""
        order, waiting = [], list(reversed(self.roots))
        while waiting:
            name = waiting.pop()
            order.append(name)
            waiting += [j.child for j in reversed(self.below.get(name, []))]
        return order

    def _groups(self, order: list[str]) -> dict[str, str]:
        """For each link the topmost link that it is fixed to; complains about groups that move without mass."""
        top: dict[str, str] = {}
        for name in order:
            joint = self.above.get(name)
            top[name] = name if joint is None or joint.motions else top[joint.parent]
        heavy = {top[name] for name in order if self.robot.links[name].mass > 0}
        for name in order:
            if top[name] != name or name in heavy:
                continue
            joint, element = self.above.get(name), self.robot.links[name].element
            if joint is not None:
                text = f"Link '{name}' moves by joint '{joint.name}' and has no mass; give it an inertia or fix it."
                self.complaints.add(element, text)
            elif self.robot.free_base:
                self.complaints.add(element, f"Link '{name}' is to be free and has no mass; give it an inertia.")
        return top

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


def _physical(link: Link) -> bool:
    """Whether a rigid body can have its inertia (as required by `Model.body`)."""
    if link.mass <= 0:
        return False
    moments = np.linalg.eigvalsh(0.5 * (link.inertia + link.inertia.T))
    return bool(moments[0] > 0 and moments[2] <= (moments[0] + moments[1]) * (1 + 1e-9))


def _together(parts: list[tuple[Link, Pose]]) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia of links at their poses, as one body."""
    mass = sum(link.mass for link, _ in parts)
    centre = sum((link.mass * pose.point(link.centre) for link, pose in parts), np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for link, pose in parts:
        r = pose.point(link.centre) - centre
        inertia += pose.R @ link.inertia @ pose.R.T + link.mass * (r @ r * np.eye(3) - np.outer(r, r))
    return mass, centre, 0.5 * (inertia + inertia.T)


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
