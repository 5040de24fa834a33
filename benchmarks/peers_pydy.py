"""PyDy: Kane's equations by SymPy, the right-hand side written out in C and compiled, integrated by SciPy.

Machines of the plane in the absolute angles of their links; loops are configuration constraints, the angle of the
first link is the independent coordinate. Fair settings: the compiled form (Cython), the linear equations eliminated
symbolically where SymPy can do that in seconds (small machines) and by NumPy otherwise; DOP853 and LSODA of SciPy.
Nothing stabilises the constraints: the error shows how far they drift. Without a C compiler, or without Cython, PyDy
writes the right-hand side in NumPy (`lambdify`), and its name in the tables says so.
"""

from __future__ import annotations

import shutil
import sysconfig
import time
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import sympy as sp
import sympy.physics.mechanics as me
from problems import Problem, Samples, Tree, tree_of
from pydy.codegen.ode_function_generators import generate_ode_function
from scipy.integrate import solve_ivp

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
COMPILED = shutil.which(COMPILER) is not None and find_spec("Cython") is not None
VERSION = version("pydy") + ("" if COMPILED else " (NumPy: no C compiler or no Cython here)")
SMALL = 5
"""Links up to which the linear equations are eliminated symbolically; with seven it takes minutes."""
PROBLEMS = ("four-bar", "andrews")
RTOLS = tuple(10.0**-k for k in range(4, 13))
gravity = sp.Symbol("g")  # compiled functions of PyDy 0.9 need a constant
_made: dict[str, _Equations] = {}


def ladders(problem: Problem) -> dict[str, tuple[float, ...]]:
    """Tolerances by integrator, coarse to fine; machines in space and large ones are left out."""
    return dict.fromkeys(("DOP853", "LSODA"), RTOLS) if problem.name in PROBLEMS else {}


class Simulation:
    """One machine at one tolerance; derived and compiled once."""

    def __init__(self, problem: Problem, kind: str, rtol: float):
        self.problem, self.kind, self.rtol = problem, kind, rtol
        if problem.name not in _made:
            begin = time.perf_counter()
            _made[problem.name] = _Equations(tree_of(problem.model))
            print(f"PyDy: {problem.name} derived and compiled in {time.perf_counter() - begin:.0f} s", flush=True)
        self.equations = _made[problem.name]

    def reset(self) -> None:
        pass

    def run(self) -> None:
        times = self.problem.times
        with np.errstate(all="ignore"):  # a run that diverges shows in its error
            self.solution = solve_ivp(
                self.equations.rhs, (times[0], times[-1]), self.equations.start, self.kind, t_eval=times,
                rtol=self.rtol, atol=self.rtol,
            )  # fmt: skip

    def samples(self) -> Samples:
        return self.equations.tree.samples(self.equations.angles(self.solution.y.T), self.problem)


class _Equations:
    """The right-hand side of a machine; its state has turned angles and their rates, independent ones first."""

    def __init__(self, tree: Tree):
        self.tree = tree
        turns = np.zeros(len(tree))  # rates of turn in the world
        for k, link in enumerate(tree.links):
            turns[k] = link.rate + (turns[link.parent] if link.parent >= 0 else 0.0)
        kane = _kane(tree)
        small = len(tree) <= SMALL
        function = generate_ode_function(
            kane.forcing_full, list(kane.q), list(kane.u), constants=[gravity], mass_matrix=kane.mass_matrix_full,
            generator="cython" if COMPILED else "lambdify", linear_sys_solver="sympy" if small else "numpy",
            constants_arg_type="array", time_first=True,
        )  # fmt: skip
        constants = np.array([-tree.gravity[1]])
        # one buffer is returned each time, and the integrator keeps what it is given
        self.rhs = lambda t, y: function(t, y, constants).copy()
        self.start = np.concatenate([np.zeros(len(tree)), turns])

    def angles(self, states: np.ndarray) -> np.ndarray:
        """Joint angles, from the angles by which links have turned."""
        turned = states[:, : len(self.tree)]
        parents = [link.parent for link in self.tree.links]
        return turned - np.where(np.array(parents) >= 0, turned[:, parents], 0.0)


def _kane(tree: Tree) -> me.KanesMethod:
    n = len(tree)
    q, u = me.dynamicsymbols(f"q:{n}"), me.dynamicsymbols(f"u:{n}")
    world, origin = me.ReferenceFrame("N"), me.Point("O")
    origin.set_vel(world, 0)
    frames, hinges, bodies, loads = [], [], [], []

    def vector(frame, at):
        return float(at[0]) * frame.x + float(at[1]) * frame.y

    def point(name, link, at):
        """A point of a link (−1: ground)."""
        frame, hinge = (world, origin) if link < 0 else (frames[link], hinges[link])
        here = hinge.locatenew(name, vector(frame, at))
        here.v2pt_theory(hinge, world, frame)
        return here

    for k, link in enumerate(tree.links):
        hinges.append(point(f"H{k}", link.parent, link.hinge))
        frame = world.orientnew(f"A{k}", "Axis", [q[k], world.z])
        frame.set_ang_vel(world, u[k] * world.z)
        frames.append(frame)
        centre = point(f"C{k}", k, link.centre)
        inertia = me.inertia(frame, 0, 0, float(link.inertia[2, 2])), centre
        bodies.append(me.RigidBody(f"B{k}", centre, frame, link.mass, inertia))
        if np.any(tree.gravity):
            loads.append((centre, -link.mass * gravity * world.y))
    loads += [(frames[link], value * world.z) for link, value in tree.torques]
    for k, spring in enumerate(tree.springs):
        hook = point(f"S{k}", spring.link, spring.at)
        r = hook.pos_from(origin) - vector(world, spring.anchor)
        x, y = r.dot(world.x), r.dot(world.y)
        length = sp.sqrt(x**2 + y**2)
        loads.append((hook, -spring.stiffness * (length - spring.length) / length * (x * world.x + y * world.y)))
    gaps = []
    for k, closure in enumerate(tree.closures):
        a, b = point(f"a{k}", closure.a, closure.at_a), point(f"b{k}", closure.b, closure.at_b)
        gaps += [a.pos_from(b).dot(world.x), a.pos_from(b).dot(world.y)]
    t = me.dynamicsymbols._t
    rates = {qk.diff(t): uk for qk, uk in zip(q, u, strict=True)}
    kane = me.KanesMethod(
        world, q[:1], u[:1], kd_eqs=[uk - qk.diff(t) for qk, uk in zip(q, u, strict=True)],
        q_dependent=q[1:], u_dependent=u[1:], configuration_constraints=gaps,
        velocity_constraints=[gap.diff(t).subs(rates) for gap in gaps],
    )  # fmt: skip
    kane.kanes_equations(bodies, loads)
    return kane
