"""Pinocchio in its Python form: a tree of hinges, loops closed by `CONTACT_3D`, RK4 written in Python.

Fair settings: the proximal solver at its best (μ = 1e-8; 1e-6 with two iterations where rows are dependent, as its
loop never meets its tolerance there); `constraintDynamics` with a Baumgarte stabiliser scaled to the step and without,
and `lcaba`, its algorithm for closed loops. Large machines are left out: their step is dense and the loop in Python.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from problems import Problem, Samples, tree_of

VERSION = pin.__version__

LADDERS = {
    "four-bar": (5e-2, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4),
    "bricard": (5e-2, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3),
    "andrews": (2e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6),
}


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Step sizes by algorithm, coarse to fine."""
    if problem.name not in LADDERS:
        return {}
    return dict.fromkeys(("plain", "Baumgarte", "lcaba"), LADDERS[problem.name])


class Simulation:
    """One machine at one step size."""

    def __init__(self, problem: Problem, kind: str, h: float):
        self.problem, self.tree, self.h = problem, tree_of(problem.model), h
        self.model = _model(self.tree)
        self.data = self.model.createData()
        gain = 0.1 / h if kind == "Baumgarte" else 0.0
        self.contacts = self._close(gain)
        self.contact_data = pin.StdVec_RigidConstraintData()
        for contact in self.contacts:
            self.contact_data.append(contact.createData())
        redundant = not self.tree.planar
        self.proximal = pin.ProximalSettings(1e-14, 1e-6 if redundant else 1e-8, 2 if redundant else 20)
        pin.initConstraintDynamics(self.model, self.data, self.contacts, self.contact_data)
        self.dynamics = pin.constraintDynamics
        if kind == "lcaba":
            pin.computeJointMinimalOrdering(self.model, self.data, self.contacts)
            self.dynamics = pin.lcaba
        self.torque = np.zeros(self.model.nv)
        for link, value in self.tree.torques:
            self.torque[link] = value
        self.steps = round(problem.period / h)

    def _close(self, gain: float):
        contacts = pin.StdVec_RigidConstraintModel()
        for closure in self.tree.closures:
            for at_a, at_b in self.tree.closing_points(closure):
                a, b = pin.SE3(np.eye(3), at_a), pin.SE3(np.eye(3), at_b)
                # link k hangs on joint k + 1; joint 0 is ground
                ends = closure.a + 1, a, closure.b + 1, b
                contact = pin.RigidConstraintModel(
                    pin.ContactType.CONTACT_3D, self.model, *ends, pin.ReferenceFrame.LOCAL
                )
                contact.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(gain**2, 2 * gain))
                contacts.append(contact)
        return contacts

    def reset(self) -> None:
        pass

    def acceleration(self, q, v):
        torque = self._torque(q) if self.tree.springs else self.torque
        return self.dynamics(
            self.model, self.data, q, v, torque, self.contacts, self.contact_data, self.proximal
        ).copy()

    def _torque(self, q):
        """Springs act on links hinged to ground, so a spring's torque is that of its force about the hinge."""
        torque = self.torque.copy()
        for s in self.tree.springs:
            c, si = np.cos(q[s.link]), np.sin(q[s.link])
            x, y = c * s.at[0] - si * s.at[1], si * s.at[0] + c * s.at[1]
            hinge = self.tree.links[s.link].hinge
            dx, dy = hinge[0] + x - s.anchor[0], hinge[1] + y - s.anchor[1]
            length = np.hypot(dx, dy)
            pull = -s.stiffness * (length - s.length) / length
            torque[s.link] += pull * (x * dy - y * dx)
        return torque

    def run(self) -> None:
        q, v, h, f = np.zeros(self.model.nq), self.tree.rates, self.h, self.acceleration
        rows = [q]
        for _ in range(len(self.problem.times) - 1):
            for _ in range(self.steps):
                a1 = f(q, v)
                v2 = v + 0.5 * h * a1
                a2 = f(q + 0.5 * h * v, v2)
                v3 = v + 0.5 * h * a2
                a3 = f(q + 0.5 * h * v2, v3)
                v4 = v + h * a3
                a4 = f(q + h * v3, v4)
                q = q + h / 6 * (v + 2 * (v2 + v3) + v4)
                v = v + h / 6 * (a1 + 2 * (a2 + a3) + a4)
            rows.append(q)
        self.angles = np.array(rows)

    def samples(self) -> Samples:
        return self.tree.samples(self.angles, self.problem)


def _model(tree):
    joints = (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ)
    model = pin.Model()
    model.gravity.linear = tree.gravity
    for k, link in enumerate(tree.links):
        # every hinge of these machines turns about a world axis at the start
        kind = joints[int(np.argmax(np.abs(link.axis)))]
        joint = model.addJoint(link.parent + 1, kind(), pin.SE3(np.eye(3), link.hinge), f"hinge{k}")
        model.appendBodyToJoint(joint, pin.Inertia(link.mass, link.centre, link.inertia), pin.SE3.Identity())
    return model
