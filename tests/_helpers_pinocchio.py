"""A model as Pinocchio sees it: the same markers, masses and joints, and how its coordinates and velocities read there.

Built from the model's own numbers, not from the tree that is tested; only which joint carries which body is taken over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

import dalembert as da
from dalembert.model import axis_angle
from dalembert.systems import TreeSystem
from dalembert.systems._build_tree import spanning_tree

X, Y, Z = np.eye(3)
QUARTER = np.array([[0.0, -1.0], [1.0, 0.0]])


@dataclass
class Twin:
    """The Pinocchio model of a tree system."""

    source: da.Model
    system: TreeSystem
    model: pin.Model
    joints: list  # (joint's name here, number there, kind, reversed)
    seats: dict  # body -> (number of its joint, pose of the body's frame in that joint's)

    def state(self, q, u):
        """q and v there, T with v = T(q) u, and Ṫ u."""
        model, tree = self.model, self.system.tree
        q, u = np.asarray(q), np.asarray(u)
        q_pin, T, rate = pin.neutral(model), np.zeros((model.nv, len(u))), np.zeros(model.nv)
        for name, number, kind, reverse in self.joints:
            links = [k for k, owner in enumerate(tree.joints) if owner == name]
            here_q = slice(tree.q_start[links[0]], tree.q_start[links[-1] + 1])
            here_v = slice(tree.v_start[links[0]], tree.v_start[links[-1] + 1])
            joint = model.joints[number]
            there_q = slice(joint.idx_q, joint.idx_q + joint.nq)
            there_v = slice(joint.idx_v, joint.idx_v + joint.nv)
            q_pin[there_q], T[there_v, here_v], rate[there_v] = _translated(kind, reverse, q[here_q], u[here_v])
        return q_pin, T @ u, T, rate

    def equations(self, q, u):
        """M, h and u̇ of the free tree in joint coordinates: M = TᵀM̂T, h = −Tᵀ(n̂ + M̂ Ṫu), v̂̇ = T u̇ + Ṫu."""
        q, v, T, rate = self.state(q, u)
        data = self.model.createData()
        M = pin.crba(self.model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        n = pin.nonLinearEffects(self.model, data, q, v)
        vdot = pin.aba(self.model, data, q, v, np.zeros(self.model.nv))
        return T.T @ M @ T, -T.T @ (n + M @ rate), np.linalg.solve(T, vdot - rate)

    def closed(self, q, u, joint: str, kind):
        """u̇ with one more joint between two bodies: `CONTACT_3D` holds a point, `CONTACT_6D` a frame."""
        q, v, T, rate = self.state(q, u)
        ends = []
        for marker in self.source.constraints[joint].markers:
            number, seat = self.seats[marker.body.name]
            ends += [number, seat * pin.SE3(marker.rotation, marker.position)]
        models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        models.append(pin.RigidConstraintModel(kind, self.model, *ends, pin.ReferenceFrame.LOCAL))
        datas.append(models[0].createData())
        data = self.model.createData()
        pin.initConstraintDynamics(self.model, data, models, datas)
        settings = pin.ProximalSettings(1e-14, 1e-10, 30)
        vdot = pin.constraintDynamics(self.model, data, q, v, np.zeros(self.model.nv), models, datas, settings)
        return np.linalg.solve(T, vdot - rate)


def twin(model: da.Model, system, cut=()) -> Twin:
    """The same tree in Pinocchio."""
    made = pin.Model()
    made.gravity.linear = np.asarray(model.gravity)
    seats, joints = {"ground": (0, pin.SE3.Identity())}, []
    carriers = spanning_tree(model, cut)
    for k, name in enumerate(_depth_first(carriers)):
        body, (parent, joint) = model.bodies[name], carriers[name]
        number, seat = seats[parent]
        if joint is None:
            near, far, kind, reverse = pin.SE3.Identity(), pin.SE3.Identity(), "free", False
        else:
            kind, reverse = joint.type, joint.markers[1].body.name == parent
            near, far = (pin.SE3(m.rotation, m.position) for m in (joint.markers[::-1] if reverse else joint.markers))
        if kind == "weld":
            seats[name] = number, seat * near * far.inverse()
        else:
            # hinges and sliders along any axis: the frame is turned so that theirs is none of x, y, z
            A = axis_angle((1.0, 2.0, 3.0), 1.0 + k) if kind in ("revolute", "prismatic", "screw") else np.eye(3)
            turned = pin.SE3(A, np.zeros(3))
            pitch = 0.0 if joint is None else joint.numbers.get("pitch", 0.0)
            axis = A.T @ (Z if not reverse else -Z)
            number = made.addJoint(number, _joint(kind, reverse, axis, float(pitch)), seat * near * turned, name)
            seats[name] = number, (far * turned).inverse()
            joints.append((name if joint is None else joint.name, number, kind, reverse))
        inertia = pin.Inertia(body.mass, np.zeros(3), body.inertia)
        made.appendBodyToJoint(seats[name][0], inertia, seats[name][1])
    return Twin(model, system, made, joints, seats)


def _depth_first(carriers) -> list[str]:
    """Bodies such that all that hangs on one follows it at once: Pinocchio's mass matrix counts on that."""
    out: list[str] = []

    def visit(parent: str) -> None:
        for name, (carrier, _) in carriers.items():
            if carrier == parent:
                out.append(name)
                visit(name)

    visit("ground")
    return out


def _joint(kind: str, reverse: bool, axis, pitch: float):
    def composite(*parts):
        out = pin.JointModelComposite()
        for part in parts[::-1] if reverse else parts:
            out.addJoint(part)
        return out

    make = {
        "revolute": lambda: pin.JointModelRevoluteUnaligned(axis),
        "prismatic": lambda: pin.JointModelPrismaticUnaligned(axis),
        "screw": lambda: pin.JointModelHelicalUnaligned(axis, pitch / (2 * np.pi)),
        "cylindrical": lambda: composite(pin.JointModelPZ(), pin.JointModelRZ()),
        "pin_slot": lambda: composite(pin.JointModelPX(), pin.JointModelRZ()),
        "universal": lambda: pin.JointModelUniversal(*((Y, X) if reverse else (X, Y))),
        "spherical": pin.JointModelSpherical,
        "planar": pin.JointModelPlanar,
        "free": pin.JointModelFreeFlyer,
    }
    return make[kind]()


def _translated(kind: str, reverse: bool, q, u):
    """Coordinates there, T and Ṫu of one joint."""
    n = len(u)
    if kind == "spherical":
        return np.roll(q, -1), np.eye(3), np.zeros(3)
    if kind == "free":  # there the linear velocity is along the body's axes
        R = pin.Quaternion(q[3], *q[4:]).toRotationMatrix()
        T = np.eye(6)
        T[:3, :3] = R.T
        return np.append(q[:3], np.roll(q[3:], -1)), T, np.append(-np.cross(u[3:], R.T @ u[:3]), np.zeros(3))
    if kind == "planar" and not reverse:  # there the velocities are along the moving axes
        c, s = np.cos(q[2]), np.sin(q[2])
        R, T = np.array([[c, -s], [s, c]]), np.eye(3)
        T[:2, :2] = R.T
        return np.array([*q[:2], c, s]), T, np.append(-u[2] * QUARTER @ R.T @ u[:2], 0.0)
    if kind == "planar":  # named from the far body: turn first, then y, then x, each the other way
        c, s = np.cos(q[0]), np.sin(q[0])
        back, swap = np.array([[c, s], [-s, c]]), np.array([[0.0, 1.0], [1.0, 0.0]])
        p, rate = swap @ q[1:], swap @ u[1:]
        T = np.zeros((3, 3))
        T[:2, 0], T[:2, 1:], T[2, 0] = QUARTER @ p, -swap, -1.0
        return np.array([*(-back @ p), c, -s]), T, np.append(u[0] * QUARTER @ rate, 0.0)
    along_axis = kind in ("revolute", "prismatic", "screw")  # their axis is turned round already
    way = -1.0 if reverse and not along_axis else 1.0
    return way * q, way * np.eye(n), np.zeros(n)
