"""edge · files: the links of a robot as a tree, and the changes that make each of them a body or a frame of one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from dalembert.io._robot import Joint, Link, Pose, Robot, combined, listed
from dalembert.io._xml import Complaints

LIGHT = 1e-11
"""Mass of a link that stands between two joints on one body, where no joint moves as both do, as a share of the body's:
enters the equations of the robot at that size, and leaves its reactions some digits."""


class Links:
    """The links of a robot with the joints above and below each; links that cannot be bodies are joined with others,
    and the robot changed."""

    def __init__(self, robot: Robot, complaints: Complaints):
        self.robot, self.complaints = robot, complaints
        self.above = {j.child: j for j in robot.joints}
        self.below: dict[str, list[Joint]] = {}
        for j in robot.joints:
            self.below.setdefault(j.parent, []).append(j)
        self.roots = [name for name in robot.links if name not in self.above]
        lengths = [float(np.linalg.norm(j.pose.p)) for j in robot.joints]
        self.size = max(1e-3, *lengths, 0.0) if lengths else 1.0

    def simplify(self, *, part: bool) -> None:
        """All changes; `part`: also light links between joints on one body that act together as no joint."""
        if self.robot.lumps:
            self._lump()
        self._drop_massless()
        if part:
            self._part_rows()

    def order(self) -> list[str]:
        """Links, parents before children, in the file's order."""
        order, waiting = [], list(reversed(self.roots))
        while waiting:
            name = waiting.pop()
            order.append(name)
            waiting += [j.child for j in reversed(self.below.get(name, []))]
        return order

    def groups(self, order: list[str]) -> dict[str, str]:
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
