"""edge · files: MJCF, MuJoCo's XML, by MuJoCo's own compiler: from what it has compiled to a robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.io._mjcf_source import Source, mujoco_module
from dalembert.io._robot import Actuator, Joint, Link, Loop, Motion, Picture, Pose, Robot, Tie, listed, pose_of
from dalembert.io._xml import LARGEST_NUMBER, Complaints, Element, need_extra

FREE, BALL, SLIDE, HINGE = range(4)  # mjtJoint


def read_mjcf(
    root: Element,
    complaints: Complaints,
    *,
    keyframe: str | None = None,
    controls: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Robot:
    """A robot from the root element of an MJCF file; every mistake goes to `complaints`.

    `controls` are the inputs of actuators, by name; `strict` refuses meshes that cannot be read even where they are
    pictures only.
    """
    need_extra("mujoco", "Reading MJCF")
    source = Source(root, complaints, strict)
    if complaints.found:
        return Robot("")
    compiled = source.compile()
    if compiled is None:
        return Robot("")
    return _Compiled(compiled, source, complaints).robot(keyframe, dict(controls or {}))


class _Compiled:
    """A compiled model as a `Robot`."""

    def __init__(self, m: Any, source: Source, complaints: Complaints):
        mujoco = mujoco_module()
        self.m, self.source, self.complaints = m, source, complaints
        self.kind = mujoco.mjtObj
        self.flags = {k.removeprefix("mjDSBL_"): bool(m.opt.disableflags & int(x))
                      for k, x in mujoco.mjtDisableBit.__members__.items()}  # fmt: skip
        for word in ("SPRING", "DAMPER"):  # one flag for both in older versions
            self.flags.setdefault(word, self.flags.get("PASSIVE", False))
        self.geoms = mujoco.mjtGeom
        self.mujoco = mujoco
        self.equalities = mujoco.mjtEq
        self.name_of = lambda kind, k: mujoco.mj_id2name(m, kind, k) or ""
        self.remarks: list[str] = []

    def robot(self, keyframe: str | None, controls: dict[str, Any]) -> Robot:
        m = self.m
        self._need_finite()
        self._need_closed_meshes()
        if self.complaints.found:
            return Robot("")
        gravity = np.zeros(3) if self.flags["GRAVITY"] else m.opt.gravity
        name = self.source.root.attributes.get("model", "").strip() or self.source.root.path.stem
        x, y, z = (float(g) for g in gravity)
        robot = Robot(name, (x, y, z), remarks=self.remarks)
        self.q, self.v = self._start(keyframe)
        self.bodies = self._names(self.kind.mjOBJ_BODY, m.nbody, "body")
        self.joints = self._names(self.kind.mjOBJ_JOINT, m.njnt, "joint")
        for b, body in enumerate(self.bodies):
            robot.links[body] = self._link(b, body)
            if b:
                robot.joints.append(self._joint(b, body))
        self._pictures(robot)
        self._equalities(robot)
        self._actuators(robot, keyframe, controls)
        self._remark_left_out(robot)
        return robot

    def _names(self, kind, count: int, word: str) -> list[str]:
        given = [self.name_of(kind, k) for k in range(count)]
        taken, out = {n for n in given if n}, []
        for k, name in enumerate(given):
            made = name or f"{word}_{k}"
            while not name and made in taken:
                made += "_"
            taken.add(made)
            out.append(made)
        return out

    def _need_finite(self) -> None:
        m = self.m
        tables = (
            "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia", "body_gravcomp", "jnt_pos",
            "jnt_axis", "jnt_stiffness", "jnt_range", "dof_damping", "dof_armature", "dof_frictionloss", "eq_data",
            "qpos0", "qpos_spring", "key_qpos", "key_qvel", "geom_size", "geom_pos", "geom_rgba", "site_pos",
        )  # fmt: skip
        for table in tables:
            values = np.asarray(getattr(m, table), float)
            if not np.all(np.isfinite(values)) or np.max(np.abs(values), initial=0.0) > LARGEST_NUMBER:
                what = table.replace("_", ": ", 1)
                self.complaints.add(
                    self.source.root, f"some {what} is not finite, or too large; numbers are in SI units."
                )
        if not np.all(np.isfinite(m.opt.gravity)) or np.max(np.abs(m.opt.gravity)) > LARGEST_NUMBER:
            self.complaints.add(self.source.root, "gravity must be finite numbers.")

    def _start(self, keyframe: str | None) -> tuple[np.ndarray, np.ndarray]:
        m = self.m
        keys = [self.name_of(self.kind.mjOBJ_KEY, k) for k in range(m.nkey)]
        if keyframe is None:
            if keys:
                named = listed(k or f"number {n + 1}" for n, k in enumerate(keys))
                self.remarks.append(f"It starts from qpos0; there are also keyframes: {named} (keyframe=).")
            return np.array(m.qpos0), np.zeros(m.nv)
        if keyframe not in keys:
            raise DalembertError(f"there is no keyframe '{keyframe}'; there are {listed(keys) or 'none'}.")
        k = keys.index(keyframe)
        return np.array(m.key_qpos[k]), np.array(m.key_qvel[k])

    # ---- bodies ----------------------------------------------------------------------------------------------

    def _link(self, b: int, name: str) -> Link:
        m = self.m
        R = pose_of(np.zeros(3), m.body_iquat[b]).R
        moments = np.diag(m.body_inertia[b])
        straight = np.array_equal(m.body_iquat[b], [1.0, 0.0, 0.0, 0.0])
        inertia = moments if straight else R @ moments @ R.T
        link = Link(name, self.source.element_of("body", name), lift=float(m.body_gravcomp[b]))
        if b and m.body_mass[b] > 0:
            link.mass, link.centre, link.inertia = float(m.body_mass[b]), np.array(m.body_ipos[b]), inertia
        for s in range(m.nsite):
            if m.site_bodyid[s] == b:
                site = self.name_of(self.kind.mjOBJ_SITE, s)
                if site:
                    link.frames.append((site, pose_of(m.site_pos[s], m.site_quat[s])))
                else:
                    self.source.left_out["<site> without a name"].append("")
        if m.body_mocapid[b] >= 0:
            self.remarks.append(f"Body '{name}' is moved from outside (mocap) in MuJoCo; here it stands still.")
        return link

    def _joint(self, b: int, body: str) -> Joint:
        m = self.m
        first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
        motions = [self._motion(k) for k in range(first, first + count)]
        pose = pose_of(m.body_pos[b], m.body_quat[b])
        element = self.source.element_of("body", body)
        return Joint(f"{body}_fixed", self.bodies[m.body_parentid[b]], body, pose, motions, element)

    def _motion(self, k: int) -> Motion:
        m, name = self.m, self.joints[k]
        at, dof, kind = int(m.jnt_qposadr[k]), int(m.jnt_dofadr[k]), int(m.jnt_type[k])
        size = {FREE: 6, BALL: 3}.get(kind, 1)
        element = self.source.element_of("joint", name) or self.source.element_of("freejoint", name)
        made = Motion(name, {FREE: "free", BALL: "ball", SLIDE: "slide", HINGE: "turn"}[kind], element=element)
        if kind != FREE:
            made.axis, made.point = np.array(m.jnt_axis[k]), np.array(m.jnt_pos[k])
        if kind == FREE:
            made.start = pose_of(self.q[at : at + 3], self.q[at + 3 : at + 7])
        elif kind == BALL:
            made.start = pose_of(np.zeros(3), self.q[at : at + 4])
        else:
            made.start = float(self.q[at] - m.qpos0[at])
            made.rest = float(m.qpos_spring[at] - m.qpos0[at])
            if m.qpos0[at]:
                self.remarks.append(f"Joint '{name}' counts from its reference: {m.qpos0[at]:g} there is 0 here.")
        made.rate = self.v[dof : dof + size].copy() if size > 1 else float(self.v[dof])
        if not self.flags["SPRING"]:
            made.stiffness = float(m.jnt_stiffness[k])
        if not self.flags["DAMPER"]:
            made.damping = float(m.dof_damping[dof])
        if not self.flags["FRICTIONLOSS"] and not self.flags["CONSTRAINT"]:
            made.friction = float(m.dof_frictionloss[dof])
        made.armature = float(m.dof_armature[dof])
        if m.jnt_limited[k]:
            low, high = (float(x) for x in m.jnt_range[k])
            made.limit = {"lower": low - m.qpos0[at], "upper": high - m.qpos0[at]} if size == 1 else {"upper": high}
        for word, table, row in (("stiffnesspoly", "jnt_stiffnesspoly", k), ("dampingpoly", "dof_dampingpoly", dof)):
            if np.any(getattr(m, table, np.zeros((m.nv + 1, 1)))[row]):  # older versions do not have them
                self.complaints.add(element, f"Joint '{name}': {word}: springs and dampers are linear here.")
        return made

    # ---- pictures --------------------------------------------------------------------------------------------

    def _pictures(self, robot: Robot) -> None:
        m, G = self.m, self.geoms
        for g in range(m.ngeom):
            body = self.bodies[m.geom_bodyid[g]]
            kind, size = int(m.geom_type[g]), [float(x) for x in m.geom_size[g]]
            pose = pose_of(m.geom_pos[g], m.geom_quat[g])
            colour = m.mat_rgba[m.geom_matid[g]] if m.geom_matid[g] >= 0 else m.geom_rgba[g]
            name = self.name_of(self.kind.mjOBJ_GEOM, g) or f"{body}_geom{g}"
            picture = Picture(name, "", pose, colour=tuple(float(x) for x in np.clip(colour, 0, 1)))
            sizes = {
                int(G.mjGEOM_SPHERE): ("sphere", size[:1]),
                int(G.mjGEOM_CAPSULE): ("capsule", [size[0], 2 * size[1]]),
                int(G.mjGEOM_CYLINDER): ("cylinder", [size[0], 2 * size[1]]),
                int(G.mjGEOM_ELLIPSOID): ("ellipsoid", size),
                int(G.mjGEOM_BOX): ("box", [2 * x for x in size]),
                int(G.mjGEOM_PLANE): ("plane", [2 * x if x > 0 else 10.0 for x in size[:2]]),
                int(G.mjGEOM_MESH): ("mesh", []),
            }  # fmt: skip
            if kind not in sizes:
                self.source.left_out["<geom> of a kind unknown here"].append(name)
                continue
            picture.kind, numbers = sizes[kind]
            picture.size = tuple(numbers)
            if picture.kind == "mesh" and not self._mesh(picture, int(m.geom_dataid[g])):
                continue
            robot.links[body].pictures.append(picture)
        touching = {int(m.geom_bodyid[g]) for g in range(m.ngeom) if m.geom_contype[g] or m.geom_conaffinity[g]}
        if len(touching) > 1 and not self.flags["CONTACT"]:
            self.remarks.append("Contact is left out: bodies pass through each other, geoms are pictures.")

    def _mesh(self, picture: Picture, k: int) -> bool:
        """A mesh's numbers are those of its file: the compiler moved them to its centre and main axes."""
        m = self.m
        name = self.name_of(self.kind.mjOBJ_MESH, k)
        if name not in self.source.meshes:
            self.source.left_out["<mesh> that is no file"].append(name)
            return False
        picture.pose = picture.pose @ pose_of(m.mesh_pos[k], m.mesh_quat[k]).inverse
        picture.file = self.source.meshes[name]
        scale = tuple(float(x) for x in m.mesh_scale[k])
        picture.scale = None if scale == (1.0, 1.0, 1.0) else scale
        return True

    # ---- constraints -----------------------------------------------------------------------------------------

    def _equalities(self, robot: Robot) -> None:
        m, E = self.m, self.equalities
        for k in range(m.neq):
            kind = int(m.eq_type[k])
            word = {int(E.mjEQ_CONNECT): "connect", int(E.mjEQ_WELD): "weld", int(E.mjEQ_JOINT): "joint"}.get(kind, "?")
            given = self.name_of(self.kind.mjOBJ_EQUALITY, k)
            name = given or f"{word}_{k + 1}"
            element = self.source.element_of(word, given) if given else None
            if not m.eq_active0[k] or self.flags["EQUALITY"] or self.flags["CONSTRAINT"]:
                self.remarks.append(f"Equality '{name}' is switched off in the file, and left out.")
                continue
            data = np.array(m.eq_data[k])
            if word == "joint":
                self._tie(robot, k, name, data, element)
                continue
            ends = self._ends(k, word, data)
            if word == "weld" and data[10] == 0:
                self.complaints.add(
                    element, f"Equality '{name}': a weld with torquescale 0 is not known here; use connect."
                )
            robot.loops.append(Loop(name, {"connect": "spherical", "weld": "weld"}[word], *ends, None, element))

    def _ends(self, k: int, word: str, data: np.ndarray) -> tuple[tuple[str, Pose], tuple[str, Pose]]:
        m = self.m
        first, second = int(m.eq_obj1id[k]), int(m.eq_obj2id[k])
        if int(m.eq_objtype[k]) == int(self.kind.mjOBJ_SITE):
            sites = [(self.bodies[m.site_bodyid[s]], pose_of(m.site_pos[s], m.site_quat[s])) for s in (first, second)]
            return sites[0], sites[1]
        one, two = self.bodies[first], self.bodies[second]
        if word == "connect":
            return (one, Pose(np.eye(3), data[:3])), (two, Pose(np.eye(3), data[3:6]))
        return (one, pose_of(data[3:6], data[6:10])), (two, Pose())

    def _tie(self, robot: Robot, k: int, name: str, data: np.ndarray, element: Element | None) -> None:
        first, second = int(self.m.eq_obj1id[k]), int(self.m.eq_obj2id[k])
        if second >= 0 and np.any(data[2:5]):
            text = f"Equality '{name}': polycoef: joints are tied by straight lines here (the last three must be 0)."
            self.complaints.add(element, text)
        other = self.joints[second] if second >= 0 else None
        robot.ties.append(Tie(name, self.joints[first], other, float(data[1]), float(data[0]), element))

    def _actuators(self, robot: Robot, keyframe: str | None, controls: dict[str, Any]) -> None:
        """Drives of joints, linear in control, value and rate; others stay named as left out."""
        m = self.m
        count = getattr(m, "nactuator", m.nu)
        names = self._names(self.kind.mjOBJ_ACTUATOR, count, "actuator")
        for name, value in controls.items():
            if name not in names:
                hint = did_you_mean(name, names)
                raise DalembertError(
                    f"controls: there is no actuator '{name}'; there are {listed(names) or 'none'}.{hint}"
                )
            if isinstance(value, bool) or not (callable(value) or isinstance(value, str | int | float)):
                raise DalembertError(
                    f"controls: '{name}' must be a number, a formula of t or a function, not {value!r}."
                )
        elements = [e for section in self.source.root.all("actuator") for e in section.children]
        keys = [self.name_of(self.kind.mjOBJ_KEY, k) for k in range(m.nkey)]
        given = np.zeros(m.nu) if keyframe is None else np.array(m.key_ctrl[keys.index(keyframe)])
        idle, odd = [], []
        for k, name in enumerate(names):
            element = elements[k] if len(elements) == count else None
            if not self._drives_a_joint(k) or self.flags["ACTUATION"]:
                if name in controls:
                    raise DalembertError(
                        f"controls: actuator '{name}' is left out: only those that drive a joint are not."
                    )
                continue
            control = controls.get(name, float(given[k]))
            control = float(control) if isinstance(control, int | float) else control
            if m.actuator_ctrllimited[k]:
                low, high = (float(x) for x in m.actuator_ctrlrange[k])
                if isinstance(control, float):
                    control = min(max(control, low), high)
                else:
                    odd.append(f"{name} (ctrlrange)")
            if m.actuator_forcelimited[k]:
                odd.append(f"{name} (forcerange)")
            joint = int(m.actuator_trnid[k, 0])
            gear, bias = float(m.actuator_gear[k, 0]), m.actuator_biasprm[k]
            affine = int(m.actuator_biastype[k]) == int(self.mujoco.mjtBias.mjBIAS_AFFINE)
            b0, b1, b2 = (float(bias[i]) if affine else 0.0 for i in range(3))
            zero = float(m.qpos0[m.jnt_qposadr[joint]])
            kind = element.tag if element is not None else "general"
            robot.actuators.append(
                Actuator(
                    name, kind, self.joints[joint], gear, float(m.actuator_gainprm[k, 0]), (b0, b1, b2), control, zero,
                    element,
                )
            )  # fmt: skip
            if element is not None:
                left = self.source.left_out[f"<actuator> {element.tag}"]
                left.remove(element.attributes.get("name", ""))
                if not left:
                    del self.source.left_out[f"<actuator> {element.tag}"]
            if name not in controls:
                idle.append(f"{name} ({control:g})")
        if robot.actuators:
            inputs = f" Inputs that were not given (controls=): {listed(idle)}." if idle else ""
            taken = listed(a.name for a in robot.actuators)
            self.remarks.append(f"Taken over, {len(robot.actuators)} <actuator>: {taken}.{inputs}")
        if odd:
            self.remarks.append(f"Ranges of actuators are left out: {listed(odd)}.")

    def _drives_a_joint(self, k: int) -> bool:
        """Whether an actuator acts on a hinge or a slide, without a state, linear in control, value and rate."""
        m, mj = self.m, self.mujoco
        if int(m.actuator_trntype[k]) not in (int(mj.mjtTrn.mjTRN_JOINT), int(mj.mjtTrn.mjTRN_JOINTINPARENT)):
            return False
        if int(m.jnt_type[m.actuator_trnid[k, 0]]) not in (SLIDE, HINGE):
            return False
        straight = (int(mj.mjtBias.mjBIAS_NONE), int(mj.mjtBias.mjBIAS_AFFINE))
        own = [
            getattr(m, f"actuator_{word}", np.zeros((m.nu + 1, 1)))[k]
            for word in ("armature", "damping", "dampingpoly")
        ]
        return (
            int(m.actuator_dyntype[k]) == int(mj.mjtDyn.mjDYN_NONE)
            and int(m.actuator_gaintype[k]) == int(mj.mjtGain.mjGAIN_FIXED)
            and int(m.actuator_biastype[k]) in straight
            and not any(np.any(x) for x in own)
        )

    def _need_closed_meshes(self) -> None:
        """A mesh with holes has no volume: a body must not get its mass by one."""
        m = self.m
        gaps = {k: gap for k in range(m.nmesh) if (gap := self._gap(k))}
        if not gaps:
            return
        mujoco = self.mujoco
        spec = mujoco.MjSpec.from_string(self.source.text(), assets=self.source.files)
        whole = (mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX, mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
        solid = {x.name for x in spec.meshes if x.inertia not in whole}
        low, high = spec.compiler.inertiagrouprange
        always = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
        for geom in spec.geoms:
            body = geom.parent
            k = mujoco.mj_name2id(m, self.kind.mjOBJ_MESH, geom.meshname) if geom.meshname else -1
            if k not in gaps or geom.meshname not in solid or not low <= geom.group <= high or body.name == "world":
                continue
            light = geom.mass == 0 or (np.isnan(geom.mass) and geom.density == 0)
            if light or (body.explicitinertial and not always) or int(geom.type) != int(self.geoms.mjGEOM_MESH):
                continue
            file = self.source.meshes.get(geom.meshname, "")
            text = (
                f"Mesh '{geom.meshname}'{f' ({file})' if file else ''} is not closed: {gaps[k]} of its edges have a "
                f"face on one side only, so it has no volume to give body '{body.name}' a mass; close it, or give the "
                'body an <inertial>, or the mesh inertia="convex" or "shell".'
            )
            self.complaints.add(self.source.element_of("mesh", geom.meshname), text)

    def _gap(self, k: int) -> int:
        """Edges of a mesh that an odd number of faces share: none where it is closed, whichever way its faces turn."""
        m = self.m
        first, count = int(m.mesh_vertadr[k]), int(m.mesh_vertnum[k])
        points = np.asarray(m.mesh_vert)[first : first + count]
        same = np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)  # corners of one place are one
        faces = same[np.asarray(m.mesh_face)[int(m.mesh_faceadr[k]) : int(m.mesh_faceadr[k] + m.mesh_facenum[k])]]
        edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
        edges = edges[edges[:, 0] != edges[:, 1]]
        return int(np.count_nonzero(np.unique(np.sort(edges, axis=1), axis=0, return_counts=True)[1] % 2))

    # ---- the rest --------------------------------------------------------------------------------------------

    def _remark_left_out(self, robot: Robot) -> None:
        m = self.m
        remarks = self.remarks
        remarks += self.source.warnings
        for what, names in self.source.left_out.items():
            named = listed(n for n in names if n)
            remarks.append(f"Left out, {len(names)} {what}{': ' + named if named else ''}.")
        for word, kind in (("body", "BODY"), ("geom", "GEOM"), ("site", "SITE")):
            count = getattr(m, f"n{word}")
            there = [self.name_of(getattr(self.kind, f"mjOBJ_{kind}"), k) for k in range(count)]
            declared = [e.attributes["name"] for e in self.source.lines if e.tag == word and "name" in e.attributes]
            gone = [name for name in declared if not any(n.startswith(name) for n in there)]  # copies get longer names
            if gone:
                remarks.append(f"The compiler dropped or merged each <{word}> named {listed(gone)}.")
        if m.opt.density or m.opt.viscosity:
            remarks.append("Forces of a fluid (density, viscosity, wind) are left out.")
        frictional = [mo.name for j in robot.joints for mo in j.motions if mo.friction]
        if frictional:
            remarks.append(f"Friction of joints {listed(frictional)} is smooth through rest, and creeps there.")
        if any(mo.limit for j in robot.joints for mo in j.motions):
            remarks.append("Limits of joints are kept as information and not enforced, unless by stops.")
        if robot.loops or robot.ties:
            remarks.append("Equalities are exact here, not springs as in MuJoCo (solref, solimp).")
        if np.any(m.jnt_actfrclimited):
            remarks.append("Ranges of actuator forces on joints (actuatorfrcrange) are left out.")
