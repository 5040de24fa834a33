"""Exudyn: redundant coordinates, implicit index-3 generalised-α (its default family), its fast build.

Fair settings: spectral radius 0.9; full Newton with its dense solver for small machines, modified Newton with the
sparse solver for large ones. Bricard has a dependent row: its default solver refuses it, Eigen's dense one with
`ignoreSingularJacobian` runs. Its trapezoidal rule (index 2) is tried on the small plane machines.
"""

from __future__ import annotations

import sys

sys.exudynFast = True  # no range checks; must be set before the import
import exudyn as exu  # noqa: E402
import exudyn.utilities as eu  # noqa: E402
import numpy as np  # noqa: E402
from problems import Problem, Samples, tree_of  # noqa: E402

VERSION = exu.__version__
exu.config.printToConsole = False
exu.special.solver.timeout = 120

LADDERS = {
    "four-bar": (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5),
    "bricard": (2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4),
    "andrews": (1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6, 5e-7),
    "n-four-bar-40": (2e-2, 1e-2, 5e-3, 2e-3, 1e-3),
    "n-four-bar-100": (2e-2, 1e-2, 5e-3, 2e-3),
}


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Step sizes by method, coarse to fine."""
    if problem.is_large:
        kinds = ("generalised-α, modified Newton", "generalised-α, full Newton")
    else:
        kinds = ("generalised-α", "trapezoidal") if problem.name in ("four-bar", "andrews") else ("generalised-α",)
    return dict.fromkeys(kinds, LADDERS[problem.name])


class Simulation:
    """One machine at one step size."""

    def __init__(self, problem: Problem, kind: str, h: float):
        self.problem, self.model, self.tree = problem, problem.model, tree_of(problem.model)
        self.container = exu.SystemContainer()
        self.mbs = self.container.AddSystem()
        self.ground = self.mbs.AddObject(eu.ObjectGround())
        self.objects = {"ground": self.ground}
        self.nodes = {}
        build = _plane if self.tree.planar else _space
        self.sensors = build(self)
        self.mbs.Assemble()
        self.settings = self._settings(kind, h)
        types = exu.DynamicSolverType
        self.solver = types.TrapezoidalIndex2 if kind == "trapezoidal" else types.GeneralizedAlpha

    def _settings(self, kind: str, h: float):
        s = exu.SimulationSettings()
        s.timeIntegration.numberOfSteps = round(self.problem.t1 / h)
        s.timeIntegration.endTime = self.problem.t1
        s.timeIntegration.verboseMode = 0
        s.timeIntegration.generalizedAlpha.spectralRadius = 0.9
        s.timeIntegration.newton.useModifiedNewton = "modified" in kind or not self.tree.planar
        s.solution.file.write = False
        s.solution.sensors.writePeriod = self.problem.period
        solvers = exu.LinearSolverType
        s.linearSolver.solverType = solvers.EXUdense if self.tree.planar else solvers.EigenDense
        if self.problem.is_large:
            s.linearSolver.solverType = solvers.EigenSparse
            s.linearSolver.reuseAnalyzedPattern = True
        s.linearSolver.ignoreSingularJacobian = not self.tree.planar
        return s

    def reset(self) -> None:
        pass

    def run(self) -> None:
        self.mbs.SolveDynamic(self.settings, solverType=self.solver)

    def samples(self) -> Samples:
        data = [np.array(self.mbs.GetSensorStoredData(s)) for s in self.sensors]
        point = data[0][:, 1:4]
        return Samples(point, np.stack([d[:, 3] for d in data[1:]], axis=1) if len(data) > 1 else None)


def _plane(sim: Simulation) -> list[int]:
    mbs, model = sim.mbs, sim.model
    for body in model.bodies.values():
        angle = float(np.arctan2(body.rotation[1, 0], body.rotation[0, 0]))
        spin = float(np.ravel(body.angular_velocity)[0])
        node = mbs.AddNode(
            eu.NodeRigidBody2D(referenceCoordinates=[*body.position, angle], initialVelocities=[*body.velocity, spin])
        )
        inertia = float(np.ravel(body.inertia)[0])
        sim.nodes[body.name] = node
        sim.objects[body.name] = mbs.AddObject(
            eu.RigidBody2D(nodeNumber=node, physicsMass=body.mass, physicsInertia=inertia)
        )
        _weigh(sim, body.name)

    def at(marker):
        local = [*marker.position, 0.0]
        return mbs.AddMarker(eu.MarkerBodyPosition(bodyNumber=sim.objects[marker.body.name], localPosition=local))

    for joint in model.constraints.values():
        mbs.AddObject(eu.RevoluteJoint2D(markerNumbers=[at(m) for m in joint.markers]))
    order = {link: name for name, link in zip(model.bodies, sim.tree.body_order, strict=True)}
    for link, value in sim.tree.torques:
        marker = mbs.AddMarker(eu.MarkerBodyRigid(bodyNumber=sim.objects[order[link]]))
        mbs.AddLoad(eu.LoadTorqueVector(markerNumber=marker, loadVector=[0, 0, value]))
    for force in model.forces.values():
        if force.type == "spring_damper":
            numbers = {
                "stiffness": float(force.numbers["stiffness"]),
                "referenceLength": float(force.numbers["length"]),
            }
            mbs.AddObject(eu.SpringDamper(markerNumbers=[at(m) for m in force.markers], **numbers))
    watched = list(model.bodies) if "turned" in sim.problem.levels else []
    kind = exu.OutputVariableType.Coordinates
    return [_point_sensor(sim)] + [
        mbs.AddSensor(eu.SensorNode(nodeNumber=sim.nodes[name], storeInternal=True, outputVariableType=kind))
        for name in watched
    ]


def _space(sim: Simulation) -> list[int]:
    mbs = sim.mbs
    for body in sim.model.bodies.values():
        inertia = eu.RigidBodyInertia(mass=body.mass, com=[0, 0, 0], inertiaTensor=np.asarray(body.inertia))
        result = mbs.CreateRigidBody(
            inertia=inertia,
            referencePosition=list(body.position),
            referenceRotationMatrix=body.rotation,
            returnDict=True,
        )
        sim.nodes[body.name], sim.objects[body.name] = result["nodeNumber"], result["bodyNumber"]
        _weigh(sim, body.name)
    for joint in sim.model.constraints.values():
        markers, frames = [], []
        for m in joint.markers:
            local = list(m.position)
            markers.append(mbs.AddMarker(eu.MarkerBodyRigid(bodyNumber=sim.objects[m.body.name], localPosition=local)))
            frames.append(m.rotation)
        mbs.AddObject(
            eu.GenericJoint(
                markerNumbers=markers,
                constrainedAxes=[1, 1, 1, 1, 1, 0],
                rotationMarker0=frames[0],
                rotationMarker1=frames[1],
            )
        )
    return [_point_sensor(sim)]


def _weigh(sim: Simulation, name: str) -> None:
    if np.any(sim.tree.gravity):
        marker = sim.mbs.AddMarker(eu.MarkerBodyMass(bodyNumber=sim.objects[name]))
        sim.mbs.AddLoad(eu.LoadMassProportional(markerNumber=marker, loadVector=list(sim.tree.gravity)))


def _point_sensor(sim: Simulation) -> int:
    body = sim.model.bodies[sim.problem.body]
    local = body.local_point(sim.problem.point[: len(body.position)])
    return sim.mbs.AddSensor(
        eu.SensorBody(
            bodyNumber=sim.objects[body.name],
            localPosition=[*local, *[0.0] * (3 - len(local))],
            storeInternal=True,
            outputVariableType=exu.OutputVariableType.Position,
        )
    )
