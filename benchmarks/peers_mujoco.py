"""MuJoCo: a tree of hinges, loops closed by `connect` between sites; the loop over the steps is in C.

Fair settings: constraints as stiff as MuJoCo allows (time constant of two steps, impedance 0.9999), contacts off;
with its default, soft constraints it never gets below an error of 1e-3. RK4 for smooth problems; `implicitfast` is
the better one where the problem passes singular positions. On the four-bar other tolerances, solvers, matrices and
fewer iterations saved at most 3 % of the time at the same error.
"""

from __future__ import annotations

import mujoco
import numpy as np
from problems import Problem, Samples, Tree, tree_of

VERSION = mujoco.__version__
# a run that fails shows in its error; no log file is wanted for it
mujoco.set_mju_user_warning(lambda message: None)
IMPEDANCE = "0.9999 0.9999 0.001 0.5 2"

LADDERS = {
    "four-bar": (5e-2, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4),
    "bricard": (5e-2, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4),
    "andrews": (2e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6),
    "n-four-bar-40": (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4),
    "n-four-bar-100": (1e-2, 5e-3, 2e-3, 1e-3, 5e-4),
}


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Step sizes by integrator, coarse to fine."""
    kinds = ("implicitfast", "RK4") if problem.is_large else ("RK4",)
    return dict.fromkeys(kinds, LADDERS[problem.name])


class Simulation:
    """One machine at one step size."""

    def __init__(self, problem: Problem, kind: str, h: float):
        self.problem, self.tree = problem, tree_of(problem.model)
        self.model = mujoco.MjModel.from_xml_string(xml_of(self.tree, kind, h))
        self.data = mujoco.MjData(self.model)
        self.steps = round(problem.period / h)

    def reset(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qvel[:] = self.tree.rates
        for link, value in self.tree.torques:
            self.data.qfrc_applied[link] = value

    def run(self) -> None:
        rows = [self.data.qpos.copy()]
        for _ in range(len(self.problem.times) - 1):
            mujoco.mj_step(self.model, self.data, nstep=self.steps)
            rows.append(self.data.qpos.copy())
        self.angles = np.array(rows)

    def samples(self) -> Samples:
        return self.tree.samples(self.angles, self.problem)


def xml_of(tree: Tree, kind: str, h: float) -> str:
    sites: dict[int, list[str]] = {k: [] for k in range(-1, len(tree))}
    connects, tendons = [], []

    def site(link: int, name: str, at) -> str:
        sites[link].append(f'<site name="{name}" pos="{_row(at)}"/>')
        return name

    for k, closure in enumerate(tree.closures):
        for i, (at_a, at_b) in enumerate(tree.closing_points(closure)):
            ends = site(closure.a, f"a{k}_{i}", at_a), site(closure.b, f"b{k}_{i}", at_b)
            connects.append(f'<connect site1="{ends[0]}" site2="{ends[1]}" solref="{2 * h!r} 1" solimp="{IMPEDANCE}"/>')
    for k, spring in enumerate(tree.springs):
        ends = site(spring.link, f"hook{k}", spring.at), site(-1, f"anchor{k}", spring.anchor)
        tendons.append(
            f'<spatial springlength="{spring.length!r}" stiffness="{spring.stiffness!r}">'
            f'<site site="{ends[0]}"/><site site="{ends[1]}"/></spatial>'
        )
    bodies = "".join(_body(tree, k, sites) for k, link in enumerate(tree.links) if link.parent < 0)
    return f"""<mujoco><compiler angle="radian" boundmass="0" boundinertia="0"/>
<option timestep="{h!r}" integrator="{kind}" gravity="{_row(tree.gravity)}" tolerance="1e-15" iterations="100">
<flag contact="disable" autoreset="disable"/></option><size memory="512M"/>
<worldbody>{"".join(sites[-1])}{bodies}</worldbody>
<equality>{"".join(connects)}</equality><tendon>{"".join(tendons)}</tendon></mujoco>"""


def _body(tree: Tree, k: int, sites) -> str:
    link = tree.links[k]
    I = link.inertia
    full = _row([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])
    below = "".join(_body(tree, j, sites) for j, other in enumerate(tree.links) if other.parent == k)
    return (
        f'<body pos="{_row(link.hinge)}"><joint type="hinge" axis="{_row(link.axis)}"/>'
        f'<inertial pos="{_row(link.centre)}" mass="{link.mass!r}" fullinertia="{full}"/>'
        f"{''.join(sites[k])}{below}</body>"
    )


def _row(values) -> str:
    return " ".join(repr(float(x)) for x in values)
