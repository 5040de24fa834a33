"""edge · files: URDF, the robots' XML: every element and attribute is imported, named in a remark, or refused.

What has no part in the motion (pictures, elements and attributes of other programs) is left out with a remark; what has
is refused, and so is what looks like a misspelt part of it. A strict reading refuses both.

As the format says (wiki.ros.org/urdf/XML): links form a tree from one root, which is fixed to the ground here unless it
is to be free; a joint's origin is the child's frame at zero, its axis is in that frame; a mimic joint follows another's
value. The format has no loops; `<loop_joint>` (or `<constraint>`) closes one, and so does a side file NAME.loops.yaml:

    <loop_joint name="close" type="revolute">
      <link1 link="a" xyz="0.3 0 0" rpy="0 0 0"/> <link2 link="b" xyz="0.2 0 0" rpy="0 0 0"/> <axis xyz="0 0 1"/>
    </loop_joint>
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.io._disk import beside
from dalembert.io._robot import Joint, Link, Loop, Motion, Picture, Pose, Robot, Tie, listed, rpy
from dalembert.io._xml import Complaints, Element, Reader
from dalembert.model import frame_on_axis

FOREIGN = ("transmission", "gazebo", "sensor", "ros2_control", "mujoco", "plugin", "contact", "self_collision_checking")
MOVES = ("link", "joint", "inertial", "mass", "inertia", "parent", "child", "axis", "dynamics", "limit", "mimic")
"""Elements that define how the machine moves: an unknown element around one of them is not left out."""
MISSPELT = 0.8  # likeness (difflib's ratio) above which a word counts as a misspelt known one
JOINTS = ("fixed", "revolute", "continuous", "prismatic", "floating", "planar")
LOOPS = {
    "fixed": "weld", "revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic",
    "cylindrical": "cylindrical", "spherical": "spherical", "ball": "spherical", "universal": "universal",
    "planar": "planar", "distance": "distance",
}  # fmt: skip
"""The types of loop joints, and the joints they are."""


def read_urdf(
    root: Element, complaints: Complaints, *, start: Mapping[str, float] | None = None, strict: bool = False
) -> Robot:
    """A robot from the root element of a URDF; every mistake goes to `complaints`.

    `strict` refuses what has no part in the motion as well, instead of leaving it out with a remark.
    """
    return _Urdf(complaints, strict).robot(root, dict(start or {}))


class _Urdf(Reader):
    def __init__(self, complaints: Complaints, strict: bool):
        super().__init__(complaints)
        self.strict = strict
        self.pictures: list[str] = []  # what is wrong with pictures, which are left out
        self.left_out: defaultdict[str, list[str]] = defaultdict(list)
        self.colours: dict[str, tuple[float, ...]] = {}
        self.prefixes: tuple[str, ...] = ()
        self.missing: list[str] = []  # meshes that are not in the folder

    def robot(self, root: Element, start: dict[str, float]) -> Robot:
        name = self.text("Robot", root, "name")
        robot = Robot(name, lumps=not self.strict)
        if any(e.tag.startswith("xacro:") or "${" in "".join(e.attributes.values()) for e in root.walk()):
            self.wrong(
                root, "this is a xacro text, a program that writes a URDF; run xacro on it and read what it writes."
            )
            return robot
        self.prefixes = tuple(k.removeprefix("xmlns:") + ":" for k in root.attributes if k.startswith("xmlns:"))
        self._look("Robot", root, "name version", "link* joint* material* loop_joint* constraint*")
        for e in root.all("material"):
            with self._picture():
                self._material("Robot", e, defines=True)
        for link in root.all("link"):  # colours may be defined anywhere before they are used
            for visual in link.all("visual"):
                for e in visual.all("material"):
                    self._material("Robot", e, defines=True, quiet=True)
        for e in root.all("link"):
            self._link(robot, e)
        if not robot.links and not self.complaints.found:
            self.wrong(root, "there is no link; add one.")
        for e in root.all("joint"):
            self._joint(robot, e)
        strict, self.strict = self.strict, True  # loops are this package's own elements
        for e in root.children:
            if e.tag in ("loop_joint", "constraint"):
                self._loop(robot, e)
        self.strict = strict
        if not self.complaints.found:
            self._tree(robot, root)
        if not self.complaints.found:
            self._start(robot, root, start)
        self._remarks(robot)
        return robot

    def _look(self, who: str, e: Element, attributes: str, children: str, name: str = "") -> None:
        """As `look`, but children for other programs (known ones, or of a name space that the file declares) are left
        out, under a name or their own."""
        foreign = [c for c in e.children if c.tag in FOREIGN or (self.prefixes and c.tag.startswith(self.prefixes))]
        for child in foreign:
            own = child.attributes.get("name") or child.attributes.get("reference") or ""
            self.left_out[child.tag].append(name or own)
        self.look(who, e, attributes, " ".join([children, *(f"{tag}*" for tag in sorted({c.tag for c in foreign}))]))

    def unknown(self, who: str, element: Element, key: str | None, known: list[str], text: str) -> None:
        """For other programs, unless it looks like something that is supported here, or contains it."""
        word = element.tag if key is None else key
        like = difflib.get_close_matches(word[:100].lower(), known, n=1, cutoff=MISSPELT)
        holds = key is None and any(e.tag in MOVES for e in element.walk())
        if self.strict or like or holds:
            self.wrong(element, text)
            return
        what = word if key is None else f"{element.tag}> {word}"
        self.left_out[what].append(_named(who))

    @contextmanager
    def _picture(self) -> Iterator[None]:
        """Mistakes inside concern a picture: named in a remark, unless the reading is strict."""
        before, strict = len(self.complaints.found), self.strict
        try:
            yield
        finally:
            if not strict:
                wrong = self.complaints.found[before:]
                self.pictures += [f"line {c.line}: {c.text}" for c in wrong]
                del self.complaints.found[before:]

    def _remarks(self, robot: Robot) -> None:
        if self.pictures:
            more = f" (and {len(self.pictures) - 3} more)" if len(self.pictures) > 3 else ""
            text = " ".join(self.pictures[:3])
            robot.remarks.append(f"Left out, as they are pictures only, {len(self.pictures)}: {text}{more}")
        robot.remarks.append("Gravity is (0, 0, -9.81): a URDF does not say.")
        for tag, names in self.left_out.items():
            text = listed(n for n in names if n)
            what = f"<{tag}" if ">" in tag and "<" not in tag else f"<{tag}>"  # <limit> current: an attribute
            robot.remarks.append(f"Left out, {len(names)} {what}{': ' + text if text else ''}.")
        if self.missing:
            robot.remarks.append(f"Meshes that are not in the folder, kept by name: {listed(self.missing)}.")
        if any(m.limit for j in robot.joints for m in j.motions):
            robot.remarks.append("Limits of joints are kept as information and not enforced, unless by stops.")
        frictional = [m.name for j in robot.joints for m in j.motions if m.friction]
        if frictional:
            robot.remarks.append(f"Friction of joints {listed(frictional)} is smooth through rest, and creeps there.")

    # ---- links -----------------------------------------------------------------------------------------------

    def _link(self, robot: Robot, e: Element) -> None:
        name = self.text("Link", e, "name")
        who = f"Link '{name}'"
        self._look(who, e, "name type", "inertial visual* collision*", name)
        if name in robot.links:
            self.wrong(e, f"{who}: this name is taken by another link; rename one.")
            return
        link = Link(name, e)
        inertial = self.one(who, e, "inertial")
        if inertial is not None:
            self._inertial(who, link, inertial)
        for k, visual in enumerate(e.all("visual")):
            with self._picture():
                self._visual(who, link, visual, k)
        for collision in e.all("collision"):
            with self._picture():
                self._guard_files(who, collision)
            self.left_out["collision"].append(name)
        robot.links[name] = link

    def _inertial(self, who: str, link: Link, e: Element) -> None:
        self.look(who, e, "", "origin mass inertia")
        pose = self._origin(who, e)
        mass, inertia = self.one(who, e, "mass", needed=True), self.one(who, e, "inertia", needed=True)
        if mass is None or inertia is None:
            return
        self.look(who, mass, "value")
        self.look(who, inertia, "ixx ixy ixz iyy iyz izz")
        link.mass = self.number(who, mass, "value")
        xx, xy, xz, yy, yz, zz = (self.number(who, inertia, f"i{k}") for k in ("xx", "xy", "xz", "yy", "yz", "zz"))
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if link.mass < 0:
            self.wrong(mass, f"{who}: mass must not be negative, not {link.mass:g}.")
        if link.mass == 0 and np.any(tensor) and self.strict:
            self.wrong(mass, f"{who}: it has an inertia and no mass; give it a mass, or leave <inertial> out.")
        same = np.array_equal(pose.R, np.eye(3))
        link.centre, link.inertia = pose.p, tensor if same else pose.R @ tensor @ pose.R.T

    def _visual(self, who: str, link: Link, e: Element, number: int) -> None:
        self.look(who, e, "name", "origin geometry material verbose")
        pose = self._origin(who, e)
        geometry = self.one(who, e, "geometry", needed=True)
        material = self.one(who, e, "material")
        colour = None
        if material is not None:
            with self._picture():  # a shape without its colour is kept
                colour = self._material(who, material)
        if geometry is None:
            return
        before = len(self.complaints.found)
        self.look(who, geometry, "", "box sphere cylinder capsule mesh")
        if len(geometry.children) != 1:
            self.wrong(geometry, f"{who}: <geometry> holds one of box, sphere, cylinder, capsule, mesh.")
            return
        shape = geometry.children[0]
        name = e.attributes.get("name", "").strip() or f"{link.name}_visual{number + 1 if number else ''}"
        picture = Picture(name, shape.tag, pose, colour=colour)
        if shape.tag == "mesh":
            self.look(who, shape, "filename scale")
            self._mesh(who, shape, picture)
        else:
            words = {"box": "size", "sphere": "radius", "cylinder": "radius length", "capsule": "radius length"}
            keys = words.get(shape.tag, "")
            self.look(who, shape, keys)
            sizes = [x for k in keys.split() for x in self.numbers(who, shape, k, 3 if k == "size" else 1)]
            if any(x < 0 for x in sizes):
                self.wrong(shape, f"{who}: <{shape.tag}>: sizes must not be negative.")
            if any(x == 0 for x in sizes):  # nothing to see
                self.left_out[f"{shape.tag} of size zero"].append(link.name)
                return
            picture.size = tuple(sizes)
        if len(self.complaints.found) == before:
            link.pictures.append(picture)

    def _mesh(self, who: str, e: Element, picture: Picture) -> None:
        name = self.text(who, e, "filename")
        picture.scale = tuple(self.numbers(who, e, "scale", 3, [1.0, 1.0, 1.0]))
        if 0.0 in (picture.scale or ()):
            self.wrong(e, f"{who}: <mesh>: scale must not be zero.")
        picture.scale = None if picture.scale == (1.0, 1.0, 1.0) else picture.scale
        found = self._beside(who, e, name) if name else None
        if found is not None:
            picture.file, there = found
            self.missing += [] if there else [picture.file]

    def _material(
        self, who: str, e: Element, *, defines: bool = False, quiet: bool = False
    ) -> tuple[float, ...] | None:
        """The colour of a material; one that is defined is remembered by its name."""
        name = e.attributes.get("name", "").strip()
        found = e.all("color")
        if quiet and not (name and found):
            return None
        texture = e.all("texture")
        if not quiet:
            self.look(who, e, "name", "color texture")
            if texture:
                self.left_out["texture"].append(name)
                self.look(who, texture[0], "filename")
                self._beside(who, texture[0], self.text(who, texture[0], "filename") or "texture")
        if found:
            if not quiet:
                self.look(who, found[0], "rgba")
            before = len(self.complaints.found)
            rgba = tuple(self.numbers(who, found[0], "rgba", 4))
            if any(not 0 <= x <= 1 for x in rgba):
                self.wrong(found[0], f"{who}: <color>: rgba must be numbers from 0 to 1.")
            broken = len(self.complaints.found) > before
            if quiet:
                del self.complaints.found[before:]  # reported where the link is read
            if broken:
                return None
            if name and defines:
                self.colours.setdefault(name, rgba)
            return rgba
        if name in self.colours:
            return self.colours[name]
        if not texture and not (defines and name):
            known = did_you_mean(name, self.colours)
            self.wrong(e, f"{who}: there is no material '{name}' with a colour.{known}")
        return None

    def _guard_files(self, who: str, e: Element) -> None:
        """Files that an element names which is left out: nothing leads out of the folder."""
        for inner in e.walk():
            if name := inner.attributes.get("filename"):
                self._beside(who, inner, name)

    def _beside(self, who: str, e: Element, name: str) -> tuple[str, bool] | None:
        """A file that an element names (`beside`); None after a complaint where it may not."""
        try:
            return beside(e.path.parent, name)
        except DalembertError as error:
            self.wrong(e, f"{who}: <{e.tag}>: {error}")
            return None

    def _origin(self, who: str, e: Element, tag: str = "origin") -> Pose:
        found = self.one(who, e, tag)
        if found is None:
            return Pose()
        self.look(who, found, "xyz rpy")
        return self._pose(who, found)

    def _pose(self, who: str, e: Element) -> Pose:
        p = self.numbers(who, e, "xyz", 3, [0.0, 0.0, 0.0])
        return Pose(rpy(self.numbers(who, e, "rpy", 3, [0.0, 0.0, 0.0])), np.array(p))

    def _axis(self, who: str, e: Element, default: tuple[float, ...]) -> np.ndarray:
        found = self.one(who, e, "axis")
        if found is None:
            return np.array(default)
        self.look(who, found, "xyz")
        axis = np.array(self.numbers(who, found, "xyz", 3))
        length = np.linalg.norm(axis)
        if length < 1e-12:
            self.wrong(found, f"{who}: <axis> has no direction (zero vector).")
            return np.array(default)
        return axis / length

    # ---- joints ----------------------------------------------------------------------------------------------

    def _joint(self, robot: Robot, e: Element) -> None:
        name = self.text("Joint", e, "name")
        who, kind = f"Joint '{name}'", self.text(f"Joint '{name}'", e, "type")
        known = "origin parent child axis calibration dynamics limit mimic safety_controller"
        self._look(who, e, "name type", known, name)
        if kind and kind not in JOINTS:
            self.wrong(
                e, f"{who}: type '{kind}' is unknown; known are {', '.join(JOINTS)}.{did_you_mean(kind, JOINTS)}"
            )
            kind = "fixed"
        if any(j.name == name for j in robot.joints):
            self.wrong(e, f"{who}: this name is taken by another joint; rename one.")
            return
        ends = []
        for tag in ("parent", "child"):
            end = self.one(who, e, tag, needed=True)
            if end is not None:
                ends.append(self._end(robot, who, end, "link"))
        for tag in ("calibration", "safety_controller"):
            if e.all(tag):
                self.look(who, e.all(tag)[0], "rising falling reference_position soft_lower_limit soft_upper_limit "
                          "k_position k_velocity")  # fmt: skip
                self.left_out[tag].append(name)
        motions = self._motions(who, e, name, kind)
        if len(ends) == 2 and all(ends):
            robot.joints.append(Joint(name, ends[0], ends[1], self._origin(who, e), motions, e))
        mimic = self.one(who, e, "mimic")
        if mimic is not None:
            self._mimic(robot, who, mimic, name, kind)

    def _end(self, robot: Robot, who: str, e: Element, attributes: str) -> str:
        """The link that an element names."""
        self.look(who, e, attributes)
        link = self.text(who, e, "link")
        if link and link not in robot.links:
            self.wrong(e, f"{who}: there is no link '{link}'.{did_you_mean(link, robot.links)}")
        return link

    def _motions(self, who: str, e: Element, name: str, kind: str) -> list[Motion]:
        # exporters write an axis of zeros where it means nothing
        axis = np.zeros(3) if kind in ("fixed", "floating") else self._axis(who, e, (1.0, 0.0, 0.0))
        limit, dynamics = self._limit(who, e, kind), self._dynamics(who, e)
        meaningless = {"fixed": ("axis", "limit", "dynamics"), "floating": ("axis", "limit", "dynamics"),
                       "planar": ("limit", "dynamics")}.get(kind, ())  # fmt: skip
        for tag in meaningless:
            if e.all(tag):
                self.left_out[f"{tag}> of a <joint of type {kind}"].append(name)
        if kind in ("revolute", "continuous", "prismatic"):
            way = "slide" if kind == "prismatic" else "turn"
            return [Motion(name, way, axis, limit=limit, element=e, **dynamics)]
        if kind == "planar":
            x, y, z = frame_on_axis(axis).T
            return [Motion(name, "slide", x), Motion(name, "slide", y), Motion(name, "turn", z, element=e)]
        if kind == "floating":
            return [Motion(name, "free", element=e)]
        return []

    def _limit(self, who: str, e: Element, kind: str) -> dict[str, float]:
        found = self.one(who, e, "limit")
        if found is None:
            if kind in ("revolute", "prismatic"):
                other = ", or the type continuous" if kind == "revolute" else ""
                self.wrong(e, f"{who}: a {kind} joint needs a <limit>{other}.")
            return {}
        self.look(who, found, "lower upper effort velocity")
        lower, upper = (self.number(who, found, k, 0.0) for k in ("lower", "upper"))
        needed = None if kind in ("revolute", "prismatic") else 0.0
        limit = {
            k: self.number(who, found, k, needed)
            for k in ("effort", "velocity")
            if k in found.attributes or needed is None
        }
        if kind in ("revolute", "prismatic"):
            if lower > upper:
                self.wrong(found, f"{who}: <limit>: lower ({lower:g}) is greater than upper ({upper:g}).")
            limit = {"lower": lower, "upper": upper} | limit
        elif kind == "continuous" and {"lower", "upper"} & set(found.attributes):
            self.left_out["limit> lower, upper of a <joint of type continuous"].append(_named(who))
        if any(limit.get(k, 0.0) < 0 for k in ("effort", "velocity")):
            self.wrong(found, f"{who}: <limit>: effort and velocity must not be negative.")
        return limit

    def _dynamics(self, who: str, e: Element) -> dict[str, Any]:
        found = self.one(who, e, "dynamics")
        if found is None:
            return {}
        self.look(who, found, "damping friction")
        given = {k: self.number(who, found, k, 0.0) for k in ("damping", "friction")}
        if min(given.values()) < 0:
            self.wrong(found, f"{who}: <dynamics>: damping and friction must not be negative.")
        return given

    def _mimic(self, robot: Robot, who: str, e: Element, name: str, kind: str) -> None:
        self.look(who, e, "joint multiplier offset")
        other = self.text(who, e, "joint")
        factor, offset = self.number(who, e, "multiplier", 1.0), self.number(who, e, "offset", 0.0)
        if kind == "fixed" and not self.strict:
            self.left_out["mimic> of a <joint of type fixed"].append(name)
        elif kind not in ("revolute", "continuous", "prismatic"):
            self.wrong(e, f"{who}: a {kind} joint cannot mimic another.")
        elif other:
            robot.ties.append(Tie(f"{name}_mimic", name, other, factor, offset, e))

    # ---- loops -----------------------------------------------------------------------------------------------

    def _loop(self, robot: Robot, e: Element) -> None:
        name = self.text("Loop", e, "name")
        who, kind = f"Loop '{name}'", self.text(f"Loop '{name}'", e, "type")
        self.look(who, e, "name type length", "link1 link2 axis")
        if kind and kind not in LOOPS:
            self.wrong(e, f"{who}: type '{kind}' is unknown; known are {', '.join(LOOPS)}.{did_you_mean(kind, LOOPS)}")
            return
        if any(loop.name == name for loop in robot.loops) or any(j.name == name for j in robot.joints):
            self.wrong(e, f"{who}: this name is taken; rename it.")
        z = self._axis(
            who, e, (0.0, 0.0, 1.0) if kind in ("spherical", "ball", "universal", "distance") else (1.0, 0, 0)
        )
        ends = []
        for tag in ("link1", "link2"):
            end = self.one(who, e, tag, needed=True)
            if end is None:
                continue
            link = self._end(robot, who, end, "link xyz rpy")
            pose = self._pose(who, end)
            turned = kind not in ("universal", "spherical", "ball", "distance", "fixed")
            ends.append((link, pose @ Pose(frame_on_axis(z)) if turned else pose))
        length = self.number(who, e, "length") if "length" in e.attributes else None
        if length is not None and (kind != "distance" or length <= 0):
            self.wrong(e, f"{who}: length is for the type distance, and greater than zero.")
        if len(ends) == 2:
            robot.loops.append(Loop(name, LOOPS.get(kind, "weld"), ends[0], ends[1], length, e))

    # ---- all of it -------------------------------------------------------------------------------------------

    def _tree(self, robot: Robot, root: Element) -> None:
        """Each link has one parent at most, there is one root, and it reaches every link."""
        above: dict[str, Joint] = {}
        for j in robot.joints:
            if j.parent == j.child:
                self.wrong(j.element, f"Joint '{j.name}' connects link '{j.child}' to itself.")
            elif j.child in above:
                first = above[j.child].name
                text = (
                    f"Joint '{j.name}': link '{j.child}' is the child of joint '{first}' already; use a <loop_joint>."
                )
                self.wrong(j.element, text)
            else:
                above[j.child] = j
        if self.complaints.found:
            return
        roots = [name for name in robot.links if name not in above]
        if len(roots) > 1:
            text = f"links {listed(roots)} have no parent: a robot has one root; join them by joints."
            self.wrong(robot.links[roots[1]].element or root, text)
            return
        reached = set(roots)
        for _ in robot.links:
            reached |= {j.child for j in robot.joints if j.parent in reached}
        lost = [name for name in robot.links if name not in reached]
        if lost:
            text = f"links {listed(lost)} hang on each other in a circle; close it by a <loop_joint> instead."
            self.wrong(robot.links[lost[0]].element or root, text)

    def _start(self, robot: Robot, root: Element, start: dict[str, float]) -> None:
        """The joints' values at the start: zero, as requested, or as mimic joints follow."""
        motions = {
            m.name: m for j in robot.joints for m in j.motions if m.kind in ("turn", "slide") and len(j.motions) == 1
        }
        for name, value in start.items():
            if name not in motions:
                self.wrong(root, f"start: there is no turning or sliding joint '{name}'.{did_you_mean(name, motions)}")
                continue
            motions[name].start = float(value)
        following = {tie.joint: tie for tie in robot.ties}
        for tie in robot.ties:
            if tie.other not in motions:
                hint = did_you_mean(str(tie.other), motions)
                self.wrong(tie.element, f"Joint '{tie.joint}': there is no joint '{tie.other}' to mimic.{hint}")
                return
            if tie.joint in start:
                self.wrong(root, f"start: joint '{tie.joint}' follows '{tie.other}'; give the start of that one.")
            chain, here = [tie], tie
            while here.other in following and len(chain) <= len(robot.ties):
                here = following[str(here.other)]
                chain.append(here)
            if len(chain) > len(robot.ties):
                self.wrong(tie.element, f"Joint '{tie.joint}': joints mimic each other in a circle.")
                return
            for link in reversed(chain):
                motions[link.joint].start = link.factor * motions[str(link.other)].start + link.offset


def _named(who: str) -> str:
    """The name in "Link 'name'"."""
    return who.split("'")[1] if "'" in who else ""
