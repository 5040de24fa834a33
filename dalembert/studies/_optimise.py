"""8 · studies: `optimise`: the best values of a machine's numbers, under constraints, by gradients through its
motion."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule
from dalembert.stabilise import State, consistent_state
from dalembert.studies._design import bounds_of, names_of
from dalembert.studies._evaluate import TOGETHER, Asked
from dalembert.studies._machine import Machine, Task
from dalembert.studies._optimum import Evaluation, Optimum, multipliers_of
from dalembert.studies._quantities import Bound, Quantity, quantity
from dalembert.studies._vary import refuse_client, refuse_counts, refuse_seed
from dalembert.systems import AbstractSystem

METHODS = ("slsqp", "trust-constr", "adam", "global")
TOLERANCE = 1e-9
"""Change of the scaled objective below which a search by gradients ends."""
KEPT = 1e-6
"""Violation of a constraint, as a share of its size, up to which it counts as kept."""
WORSE = 10.0
"""A design that has no numbers counts as worse than the worst that has by this many times the range seen."""
BETTER = 1e-4
"""Share by which a design of the history must be better than the end of a search: less may be what it violates."""
EXPLAINED = 3
"""Refused designs whose reason is looked for: that costs a run of each."""
PARTS = 8
"""Steps on the way from one design's start to another's."""
JUMP = 0.3
"""Distance, in machine sizes or radians, between neighbouring poses on that way above which the assembly changed."""


def optimise(
    model: Model | AbstractSystem,
    vary: Mapping[str, Any],
    *,
    minimise: Quantity | float | None = None,
    maximise: Quantity | float | None = None,
    subject_to: Sequence[Bound] | Bound = (),
    t_end: float | None = None,
    t0: float = 0.0,
    samples: Any = 201,
    driven: bool = False,
    state: State | tuple | None = None,
    hold: Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
    rule: AbstractReactionRule | str | None = None,
    through: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    start: Mapping[str, Any] | None = None,
    method: str = "slsqp",
    starts: int = 1,
    seed: int = 0,
    max_iterations: int = 200,
    client: Any = None,
    **options: Any,
) -> Optimum:
    """The values of some of a machine's numbers for which a quantity is least, under constraints.

    **Arguments**

    - `model`: a model or a system. `vary`: what may change and its bounds, {"rocker.mass": (0.5, 2.0)}: parameters by
      name, vectors whole ("B.point_j": (least, most) for all components or a pair for each) or by component
      ("B.point_j.x"), centres of mass ("rocker.centre.x", seen from where the model has it).
    - `minimise` or `maximise`: a quantity of `da.studies`: `final("tip.y")`, `peak("pin.Fx", "pin.Fy")`, `rms`, `mean`,
      `integral`, `deviation`, `resting`, `frequency`, sums and products of them.
    - `subject_to`: constraints, [peak("pin.Fx", "pin.Fy") <= 80.0, frequency(1) >= 2.0, mean("gap").equals(0.1)].
      That a machine can be assembled and reaches the end of its motion is always one.
    - `t_end`, `t0`, `samples`, `state`, `inputs`, `rule`: of the motion, as for `da.simulate`; `options` are `rtol`,
      `integrator`, …. `driven`: drivers determine the motion, it is not integrated (`da.kinematics`). `hold`:
      coordinates of bodies ("crank.angle") that keep their start whatever closes the joints.
    - `through`: a function from the variables' values by name to parameters by name (with `jax.numpy`); the names in
      `vary` are then your own.
    - `start`: where to begin, by name (default: the values of the model, moved into the bounds; with `through` the
      middle).
    - `method`: "slsqp", "trust-constr" (both of SciPy), "adam" (of optax, no constraints), or "global" (differential
      evolution over batches, then "slsqp"). `starts`: begin from so many designs, the others Sobol' points
      (`seed`). `max_iterations`: the most steps of the method.
    - `client`: a `dask.distributed.Client`; batches and starts are then shared among its workers.

    **Returns** an `Optimum`. Designs that cannot be assembled, stop, pass a singular position or close in another
    assembly are refused during the search; `remarks` names them.

        >>> import dalembert as da
        >>> from dalembert.studies import optimise, resting
        >>> model = da.Model("balance", gravity=(0, -9.81))
        >>> bar = model.body("bar", mass=2.0, inertia=0.1, position=(0.5, 0), angle=0.0)
        >>> pin = model.revolute("pin", model.ground, bar, at=(0, 0))
        >>> spring = model.joint_spring("spring", "pin", stiffness=30.0)
        >>> best = optimise(model, {"spring.stiffness": (10.0, 200.0)}, minimise=(resting("pin.angle") + 0.1) ** 2)
        >>> round(best["spring.stiffness"], 2)
        97.61

        [Kraft 1988 (SLSQP); Byrd, Hribar, Nocedal 1999 (trust-constr); Storn, Price 1997 (differential evolution).]
    """
    began = time.perf_counter()
    if method not in METHODS:
        raise DalembertError(f"method={method!r} is unknown; use {', '.join(map(repr, METHODS))}.")
    if (minimise is None) == (maximise is None):
        raise DalembertError("Give minimise= or maximise=, one of them.")
    objective = quantity(minimise if maximise is None else maximise)
    if not isinstance(subject_to, Bound | list | tuple):
        raise DalembertError(f"subject_to= is a constraint, or a list of them (q <= 3.0); got {subject_to!r}.")
    constraints = (subject_to,) if isinstance(subject_to, Bound) else tuple(subject_to)
    for c in constraints:
        if not isinstance(c, Bound):
            raise DalembertError(f"subject_to: {c!r} is no constraint; compare a quantity with a number: q <= 3.0.")
    refuse_counts(starts=starts, max_iterations=max_iterations)
    refuse_seed(seed)
    refuse_client(client)
    hold = (hold,) if isinstance(hold, str) else tuple(hold)
    task = Task(t_end, t0, samples, driven, state, hold, inputs or {}, rule, options)
    machine = Machine(model, names_of(vary, '{"crank.mass": (0.5, 2.0)}'), task, through)
    search = Search(machine, bounds_of(machine.design, vary), objective, constraints, -1.0 if minimise is None else 1.0)
    if method == "adam" and constraints:
        raise DalembertError("method='adam' keeps bounds but no other constraints; use 'slsqp' or 'trust-constr'.")
    first = search.first(start)
    if method == "global":
        first, message = _by_evolution(search, first, seed, max_iterations, client)
        found, ending = _by_scipy(search, first, "slsqp", max_iterations)
        return search.optimum(found, f"{message} Then {ending[0].lower()}{ending[1:]}", method, began)
    found, message = best_of(search, first, method, starts, seed, max_iterations)
    return search.optimum(found, message, method, began)


def best_of(
    search: Search, first: np.ndarray, method: str, starts: int, seed: int, most: int
) -> tuple[np.ndarray, str]:
    """The best of several searches: from the first design, and from Sobol' points."""
    begins = [first, *_points(search, starts - 1, seed)] if starts > 1 else [first]
    runs = []
    for x in begins:
        search.elsewhere()
        if search.at(x) is None:
            search.refuse(x)
            continue
        runs.append((_by_adam if method == "adam" else _by_scipy)(search, x, method, most))
    if not runs:
        raise DalembertError(
            f"'{search.machine.system.name}' has no motion at the design{'s' if starts > 1 else ''} to begin with: "
            f"{search.asked.reason(begins[0])} Give another start=, or narrower bounds."
        )
    return min(runs, key=lambda run: search.merit(run[0]))


class Look(NamedTuple):
    """A design: the objective (to be minimised), the constraints' rows (≤ 0 and = 0), all scaled, with derivatives by
    the scaled variables."""

    f: float
    df: np.ndarray
    unequal: np.ndarray
    d_unequal: np.ndarray
    equal: np.ndarray
    d_equal: np.ndarray


class Search:
    """What all methods share: scaled variables in [0, 1], scaled objective and constraints, the history, what was
    refused."""

    def __init__(
        self,
        machine: Machine,
        bounds: np.ndarray,
        objective: Quantity,
        constraints: tuple[Bound, ...],
        sign: float,
        asked: Asked | None = None,
    ):
        """`sign`: 1 to minimise, −1 to maximise; `asked`: what another search for the same has compiled."""
        self.machine, self.design, self.bounds = machine, machine.design, bounds
        self.objective, self.constraints, self.sign = objective, constraints, sign
        # a largest value that is bounded from above, or minimised, is stated at each of the instants: smooth
        self.minimax = sign > 0 and objective.several
        wide = [self.minimax, *(c.quantity.several and np.isinf(c.least) for c in constraints)]
        if asked is None or asked.spread != tuple(wide):
            asked = Asked(machine, [objective, *(c.quantity for c in constraints)], wide)
        self.asked = asked
        self.history: list[Evaluation] = []
        self.refused: dict[str, str] = {}
        self._refused: set[bytes] = set()
        self.squared = sign > 0 and objective.root
        self.steepest = 0.0
        self.scale: float | None = None
        self.sizes: np.ndarray | None = None
        self._last: tuple[np.ndarray, State] | None = None  # the design and start from which assemblies are followed
        self._known: dict[bytes, bool] = {}

    def elsewhere(self) -> None:
        """Begin anew: the next design is not reached from the last one."""
        self._last, self._known = None, {}

    @property
    def width(self) -> np.ndarray:
        return self.bounds[:, 1] - self.bounds[:, 0]

    def of(self, z: np.ndarray) -> np.ndarray:
        return self.bounds[:, 0] + np.clip(z, 0.0, 1.0) * self.width

    def to(self, x: np.ndarray) -> np.ndarray:
        return (np.asarray(x) - self.bounds[:, 0]) / self.width

    def first(self, start: Mapping[str, Any] | None) -> np.ndarray:
        """Where to begin."""
        own = self.design.start
        given = np.full(len(own), np.nan) if start is None else self.design.given(start, "start")
        middle = self.bounds.mean(axis=1)
        x = np.where(np.isfinite(given), given, np.where(np.isfinite(own), own, middle))
        return np.clip(x, self.bounds[:, 0], self.bounds[:, 1])

    # ---- one design ------------------------------------------------------------------------------------------

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Numbers and derivatives of a design, None if it is refused; remembered in the history."""
        found = self.asked.slopes(x)
        if found is None or not self._same_assembly(x):
            return None
        key = np.asarray(x, float).tobytes()
        if not self.history or self.history[-1].x.tobytes() != key:
            values = [float(np.max(p)) for p in self.asked.parts(found[0])]
            self.history.append(Evaluation(np.array(x, float), values[0], tuple(values[1:])))
        return found

    def _same_assembly(self, x: np.ndarray) -> bool:
        """Whether the start of a design is in the assembly of the one before: the way from there has no jump."""
        x = np.asarray(x, float)
        key = x.tobytes()
        if key not in self._known:
            here = self.machine.closed(x)
            assert here is not None
            if self._last is None or np.array_equal(self._last[0], x):
                self._known[key] = True
            else:
                self._known[key] = self._leads(self._last[0], self._last[1], x, here)
            if self._known[key]:
                self._last = (x, here)
        return self._known[key]

    def _leads(self, x0: np.ndarray, from_: State, x1: np.ndarray, to: State) -> bool:
        system, t0 = self.machine.system, self.machine.task.t0
        if not system.m_holonomic:
            return True
        scale = np.asarray(system.coordinate_scale())
        q = np.asarray(from_.q)
        try:
            for s in np.linspace(0, 1, PARTS + 1)[1:]:  # the numbers change, the pose goes along
                changed = system.replace(self.machine.values(x0 + s * (x1 - x0)))
                new = np.asarray(consistent_state(changed, (q, np.zeros(system.n)), t=t0).q)
                if np.max(np.abs(new - q) / scale) > JUMP:
                    return False
                q = new
            for s in np.linspace(0, 1, PARTS + 1)[1:]:  # then the pose, along what is free
                guess = q + (np.asarray(to.q) - q) * (1 / PARTS / (1 - s + 1 / PARTS))
                new = np.asarray(consistent_state(changed, (guess, np.zeros(system.n)), t=t0).q)
                if np.max(np.abs(new - q) / scale) > max(JUMP, 3 * np.max(np.abs(guess - q) / scale)):
                    return False
                q = new
        except DalembertError:
            return False
        return bool(np.max(np.abs(q - np.asarray(to.q)) / scale) < JUMP / PARTS)

    def look(self, z: np.ndarray) -> Look | None:
        """A design as a method of optimisation sees it."""
        found = self.at(self.of(z))
        if found is None:
            return None
        y, J = found
        parts = self.asked.parts(y)
        slopes = self.asked.parts(J.T)
        f, df = float(np.max(parts[0])), slopes[0][:, np.argmax(parts[0])]
        if self.squared:  # smooth at zero
            f, df = f**2, 2 * f * df
        if self.scale is None:
            self.scale = abs(f) or 1.0
            limits = [abs(c.most if np.isfinite(c.most) else c.least) for c in self.constraints]
            sizes = [float(np.max(np.abs(p))) for p in parts[1:]]
            self.sizes = np.array([a or b or 1.0 for a, b in zip(limits, sizes, strict=True)])
        assert self.sizes is not None
        unequal, d_unequal, equal, d_equal = [], [], [], []
        for c, p, s, size in zip(self.constraints, parts[1:], slopes[1:], self.sizes, strict=True):
            s = s * self.width[:, None] / size
            if c.least == c.most:
                equal.append((p - c.most) / size)
                d_equal.append(s)
            elif np.isfinite(c.most):
                unequal.append((p - c.most) / size)
                d_unequal.append(s)
            else:
                unequal.append((c.least - p) / size)
                d_unequal.append(-s)
        self.steepest = max(self.steepest, float(np.linalg.norm(df * self.width)) / self.scale)
        n = len(z)
        stack = lambda rows: np.concatenate(rows) if rows else np.zeros(0)  # noqa: E731
        wide = lambda rows: np.concatenate(rows, axis=1).T if rows else np.zeros((0, n))  # noqa: E731
        if self.minimax:
            self.tops, self.d_tops = parts[0] / self.scale, (slopes[0] * self.width[:, None] / self.scale).T
        return Look(
            self.sign * f / self.scale, self.sign * df * self.width / self.scale,
            stack(unequal), wide(d_unequal), stack(equal), wide(d_equal),
        )  # fmt: skip

    def violation(self, values: Sequence[float]) -> float:
        """The largest violation of a constraint, as a share of its size."""
        sizes = self.sizes if self.sizes is not None else np.ones(len(self.constraints))
        found = [c.violation(v) / s for c, v, s in zip(self.constraints, values, sizes, strict=True)]
        return max(found, default=0.0)

    def merit(self, x: np.ndarray) -> tuple[float, float]:
        """Designs in order: kept constraints first, then the objective."""
        found = self.asked.slopes(x)
        if found is None:
            return (np.inf, np.inf)
        values = [float(np.max(p)) for p in self.asked.parts(found[0])]
        off = self.violation(values[1:])
        return (off if off > KEPT else 0.0, self.sign * values[0])

    def refuse(self, x: np.ndarray) -> None:
        """Remember why a design was refused: of the first few, each reason once, with its first design."""
        key = np.asarray(x, float).tobytes()
        if key in self._refused or len(self._refused) >= EXPLAINED:
            self._refused.add(key)
            return
        self._refused.add(key)
        found = self.asked.slopes(x)
        reason = self.asked.reason(x) if found is None else OTHER_ASSEMBLY
        self.refused.setdefault(reason, ", ".join(f"{n} = {v:.6g}" for n, v in self.design.named(x).items()))

    def optimum(self, x: np.ndarray, message: str, method: str, began: float) -> Optimum:
        """The answer."""
        kept = [e for e in self.history if self.violation(e.constraints) <= KEPT]
        own, missed = self.merit(x), []
        if kept:  # a line search may end beside the best that it saw
            best = min(kept, key=lambda e: self.sign * e.objective)
            if own[0] > 0 or self.sign * best.objective < own[1] - BETTER * abs(own[1]):
                x = best.x
        elif own[0] > 0:
            best = min(self.history, key=lambda e: self.violation(e.constraints))
            x = best.x if self.violation(best.constraints) < own[0] else x
            missed = [INFEASIBLE]
        self.elsewhere()  # the answer may be of another start, in another assembly than the last
        look = self.look(self.to(x))
        assert look is not None and self.sizes is not None and self.scale is not None
        found = self.asked.slopes(x)
        assert found is not None
        values = [float(np.max(p)) for p in self.asked.parts(found[0])]
        multipliers, optimality = multipliers_of(self, x, found)
        remarks = [f"Refused while searching, first at {where}: {why}" for why, where in self.refused.items()]
        if len(self._refused) > 1:
            remarks.append(f"{len(self._refused)} designs were refused in all.")
        return Optimum(
            machine=self.machine, bounds=self.bounds, x=np.asarray(x), objective=self.objective,
            maximised=self.sign < 0, value=values[0], constraints=self.constraints, values=tuple(values[1:]),
            sizes=self.sizes, multipliers=multipliers, optimality=optimality, history=tuple(self.history),
            message=message, method=method, remarks=(*missed, *self.asked.remarks, *remarks),
            wall_s=time.perf_counter() - began,
        )  # fmt: skip


INFEASIBLE = (
    "No design that was looked at keeps all constraints; this one misses them least. If they contradict one another, "
    "or the bounds, there is none; else begin elsewhere (start=, starts=, method='global')."
)
OTHER_ASSEMBLY = "Its joints close in another assembly than those of the design before: the branch changes on the way."


# ---- by gradients ----------------------------------------------------------------------------------------------------


def _by_scipy(search: Search, x0: np.ndarray, method: str, most: int) -> tuple[np.ndarray, str]:
    """SLSQP or trust-constr; with a largest value to be minimised, its bound is one more variable."""
    from scipy.optimize import minimize

    n, top = len(x0), search.minimax
    begin = search.look(search.to(x0))
    assert begin is not None
    worst, last = [begin.f], [begin]

    def look(z) -> Look | None:
        found = search.look(z[:n])
        if found is None:
            search.refuse(search.of(z[:n]))
        else:
            worst.append(found.f)
            last[0] = found
        return found

    def objective(z) -> float:
        found = look(z)
        if found is None:  # the line search turns back
            return max(worst) + WORSE * max(max(worst) - min(worst), abs(begin.f), 1e-3)
        return float(z[n]) if top else found.f

    def slope(z) -> np.ndarray:
        found = look(z) or last[0]
        return np.append(np.zeros(n), 1.0) if top else found.df

    def tops(z) -> tuple[np.ndarray, np.ndarray]:
        look(z)
        return search.tops - z[n], np.concatenate([search.d_tops, -np.ones((len(search.tops), 1))], axis=1)

    def wide(J) -> np.ndarray:
        return np.concatenate([J, np.zeros((len(J), 1))], axis=1) if top else J

    constraints: list[dict] = []
    if len(begin.unequal):
        constraints.append({
            "type": "ineq", "fun": lambda z: -(look(z) or last[0]).unequal,
            "jac": lambda z: -wide((look(z) or last[0]).d_unequal),
        })  # fmt: skip
    if len(begin.equal):
        constraints.append({
            "type": "eq", "fun": lambda z: (look(z) or last[0]).equal,
            "jac": lambda z: wide((look(z) or last[0]).d_equal),
        })  # fmt: skip
    if top:
        constraints.append({"type": "ineq", "fun": lambda z: -tops(z)[0], "jac": lambda z: -tops(z)[1]})
    z0 = search.to(x0)
    limits = [(0.0, 1.0)] * n
    if top:
        z0, limits = np.append(z0, begin.f), [*limits, (None, None)]
    if method == "slsqp":
        result = minimize(
            objective, z0, jac=slope, method="SLSQP", bounds=limits, constraints=constraints,
            options={"maxiter": most, "ftol": TOLERANCE**1.5},
        )  # fmt: skip
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "delta_grad == 0.0")  # what is linear is found all the same
            result = minimize(
                objective, z0, jac=slope, method="trust-constr", bounds=limits, constraints=_as_objects(constraints),
                options={"maxiter": most, "gtol": TOLERANCE, "xtol": TOLERANCE},
            )  # fmt: skip
    return search.of(np.asarray(result.x)[:n]), f"{result.message} ({result.nit} iterations)"


def _as_objects(constraints: list[dict]) -> list:
    from scipy.optimize import NonlinearConstraint

    return [NonlinearConstraint(c["fun"], 0.0, 0.0 if c["type"] == "eq" else np.inf, jac=c["jac"]) for c in constraints]


def _by_adam(search: Search, x0: np.ndarray, method: str, most: int) -> tuple[np.ndarray, str]:
    """Adam of optax on the scaled variables, clipped to the bounds; a refused step is halved."""
    try:
        import optax
    except ImportError:
        raise DalembertError(
            "method='adam' needs optax; install it with: pip install 'dalembert[studies]'. 'slsqp' needs nothing."
        ) from None
    rule = optax.adam(optax.cosine_decay_schedule(0.05, most))
    z = search.to(x0)
    look = search.look(z)
    assert look is not None
    best, state = (look.f, z), rule.init(z)
    for _ in range(most):
        step, state = rule.update(look.df, state)
        step = np.asarray(step)
        for _ in range(20):
            new = np.clip(z + step, 0.0, 1.0)
            found = search.look(new)
            if found is not None:
                break
            search.refuse(search.of(new))
            step = 0.5 * step
        else:
            return search.of(best[1]), "Adam ended: no way on from a refused design."
        z, look = new, found
        best = min(best, (look.f, z), key=lambda b: b[0])
    return search.of(best[1]), f"Adam took {most} steps."


# ---- global ----------------------------------------------------------------------------------------------------------


def _points(search: Search, count: int, seed: int) -> list[np.ndarray]:
    """Sobol' points of the design space."""
    from scipy.stats import qmc

    if count < 1:
        return []
    drawn = qmc.Sobol(len(search.bounds), rng=seed).random_base2(int(np.ceil(np.log2(max(count, 1)))))
    return [search.of(z) for z in drawn[:count]]


def _by_evolution(search: Search, x0: np.ndarray, seed: int, most: int, client) -> tuple[np.ndarray, str]:
    """Differential evolution; violated constraints come first (Deb's rule, as a penalty), refused designs last."""
    from scipy.optimize import differential_evolution

    search.sizes = np.array([abs(c.most if np.isfinite(c.most) else c.least) or 1.0 for c in search.constraints])

    def cost(Z) -> np.ndarray:
        X = np.array([search.of(z) for z in Z.T])
        rows = batch_of(search.asked, X, client)
        parts = search.asked.parts(rows)
        values = np.stack([np.max(p, axis=1) for p in parts], axis=1)
        off = np.array([search.violation(v[1:]) if np.all(np.isfinite(v)) else np.inf for v in values])
        f = search.sign * values[:, 0]
        with np.errstate(invalid="ignore"):
            kept = np.where(off > KEPT, FAR + off, np.arctan(f / size) / np.pi)
        return np.where(np.isfinite(values).all(axis=1), kept, np.inf)

    begin = search.asked.values(x0)
    size = 1.0 if begin is None else abs(float(np.max(search.asked.parts(begin)[0]))) or 1.0
    n = len(search.bounds)
    result = differential_evolution(
        cost, [(0.0, 1.0)] * n, vectorized=True, rng=seed, polish=False, maxiter=most, popsize=max(4, 32 // n),
        x0=search.to(x0), updating="deferred", tol=1e-4, init="sobol",
    )  # fmt: skip
    found = search.of(result.x)
    if search.asked.slopes(found) is None:
        raise DalembertError(
            f"No design within the bounds has a motion: {search.asked.reason(found)} Give other bounds."
        )
    return found, f"Differential evolution looked at {result.nfev} designs."


FAR = 10.0
"""Cost of a design that violates a constraint, before the violation; others cost less than one."""


def batch_of(asked: Asked, X: np.ndarray, client=None) -> np.ndarray:
    """The numbers for many designs, by this process or by the workers of a Dask cluster."""
    if client is None:
        return asked.batch(X)
    parts = [X[k : k + TOGETHER] for k in range(0, len(X), TOGETHER)]
    return np.concatenate(client.gather([client.submit(_there, asked.recipe, part, pure=False) for part in parts]))


_MADE: dict[str, Asked] = {}


def _there(recipe, X: np.ndarray) -> np.ndarray:
    """On a worker: the same numbers; what was compiled for a recipe is kept."""
    key, machine, quantities, spread = recipe
    if key not in _MADE:
        _MADE.clear()
        _MADE[key] = Asked(Machine(*machine), quantities, spread)
    return _MADE[key].batch(X)
