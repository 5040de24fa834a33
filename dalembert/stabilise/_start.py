"""5b· keeping the constraints: `consistent_state`, a start that meets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import AssemblyError, DalembertError, Status
from dalembert._typing import Array, Coordinates, HolonomicRows, Rows, Scalar, is_traced
from dalembert.equations import ROUNDED, Equations, assemble_known, residuals, softened
from dalembert.linalg import BlockMass, BlockRows, factorise
from dalembert.model import Model
from dalembert.stabilise._contradicting import guarded, left_null, nan_in_reverse, stuck
from dalembert.stabilise._reach import out_of_reach
from dalembert.systems import AbstractSystem, State, build, compiled_quickly, in_double, require_float64

EXACT = 1e-9
"""Gap, relative to the machine's size, up to which rows count as closed unless a tolerance is stated."""
NEARLY = 1e-4
"""Largest gap that may come from rounded numbers of a loop; a tolerance may then be stated."""


def row_sizes(system: AbstractSystem, equations: Equations) -> Rows:
    """The size of each row: its change under a displacement of the machine's own size; Φ/size is dimensionless.

    In joint coordinates that of bodies: a row that the tree's joints nearly satisfy changes little with
    them, but its gap is one between bodies.
    """
    nb, d = equations.mass.blocks.shape[:2]
    scale = system.scale().reshape(nb, d)
    squares = equations.rows.weighted_square(scale[:, :, None] ** 2 * jnp.eye(d))
    own = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return (
        own if equations.share is None else own / jnp.where((squares > 0) & (equations.share > 0), equations.share, 1.0)
    )


class Assembled(NamedTuple):
    """A state with its residuals: relative ones of the holonomic rows, and of all rows in velocity.

    `gaps` are the relative residuals of the holonomic rows before, and `moved` is how far the farthest coordinate
    went to close them, in machine sizes (or radians).
    """

    state: State
    position: HolonomicRows
    velocity: Rows
    sizes: Rows
    gaps: HolonomicRows
    moved: Scalar


def consistent_state(
    system: AbstractSystem | Model,
    state: State | tuple | None = None,
    *,
    t: Scalar = 0.0,
    hold: Sequence[str | int] = (),
    tolerance: float = EXACT,
) -> State:
    """Positions and velocities that meet the constraints, nearest to a rough guess in the mass metric.

    **Arguments**

    - `system`: a system, or a model.
    - `state`: the guess (q, v); None, or None in place of q or v, stands for the model's start.
    - `t`: the time, which moves drivers.
    - `hold`: bodies ("crank") or single coordinates ("crank.x", "crank.y", "crank.z", "crank.angle" in the plane,
      "crank.rotation" in space) that must not move.
    - `tolerance`: the gap that may be left, relative to the machine's size.

    **Returns** the `State` (q, v). Raises `AssemblyError`, with the names of the joints that stay open, if the
    constraints cannot be met.

        >>> import dalembert as da
        >>> q, v = da.stabilise.consistent_state(da.mechanism("four-bar"), hold=["crank.angle"])
        >>> q.shape
        (9,)

    [Kövecses, Piedbœuf 2003, configuration correction and velocity filter.]

    Differentiable: the derivative is that of the exact projection. Along a change of parameters under which redundant
    joints contradict each other (one of two hinges moved) there is none: forward derivatives are NaN, and reverse ones
    by a parameter that cannot change at all, with those that are changed beside it, without a contradiction. Where it
    can (both hinges are moved), reverse derivatives hold for sums of changes that agree; by one of them alone they are
    larger than any real one, by 1e7.
    """
    system = build(system) if isinstance(system, Model) else system
    q, v = (None, None) if state is None else state
    return State(*map(jnp.asarray, assembled(system, q, v, t=t, hold=hold, tolerance=tolerance).state))


def assembled(
    system: AbstractSystem, q=None, v=None, *, t: Scalar = 0.0, hold: Sequence[str | int] = (), tolerance: float = EXACT
) -> Assembled:
    """`consistent_state` with the residuals that are left and the sizes of the rows."""
    require_float64()
    q = system.q0 if q is None else in_double(f"q of system '{system.name}'", q)
    if system.control.size and q.shape == system.split(system.q0)[0].shape:  # controllers begin at their own start
        q = jnp.concatenate([q, system.split(system.q0)[1]])
    v = system.v0 if v is None else in_double(f"v of system '{system.name}'", v)
    _check_shapes(system, q, v)
    _check_finite(system, q, v)
    t = t if is_traced(t) else np.asarray(t, float)
    free = _free_mask(system, hold)
    found, met = (None, False) if is_traced(system, t, q, v) or not system.m else _as_given(system, t, q, v)
    if found is None or is_traced(met) or not met:
        found = _consistent(system, t, q, v, free)
    if not is_traced(found.position):
        _refuse_open(system, found, tolerance, lambda: out_of_reach(system, float(t), q, v))
    return found


def closed_near(system: AbstractSystem, q, v, t: Scalar, free: np.ndarray | None = None) -> Assembled:
    """`assembled` without complaint: the caller looks at the residuals. `free` has 0 for velocities that are held, 1
    for others: where those that are held leave nothing free the state is a smooth function of all
    numbers, with its derivatives, however far the guess is from it."""
    free = np.ones(system.n) if free is None else free
    if is_traced(system, q, v, t):
        return _consistent(system, jnp.asarray(t, float), q, v, free)
    return _consistent(system, np.asarray(t, float), np.asarray(q), np.asarray(v), free)


def correction_sentence(system: AbstractSystem, found: Assembled) -> str:
    """How far a start violated its constraints, and at which joints."""
    gaps = np.asarray(found.gaps)
    worst = by_owner(system, gaps, 0.1 * np.max(np.abs(gaps), initial=0.0))
    names = ", ".join(f"'{n}' by {g:.1e}" for n, g in list(worst.items())[:4])
    return (
        f"the start was moved by {float(found.moved):.1e} of the machine's size to close its joints; "
        f"open before: {names or 'none'}."
    )


CHANGED = 1e-3
"""Warn if projection changes a start velocity by more than this fraction of the largest."""


def velocity_change(system: AbstractSystem, given, v) -> tuple[float, str]:
    """How much projection changed a given start velocity, as a fraction of the largest, as text."""
    given, v = np.asarray(given), np.asarray(v)
    if not np.any((given != 0) & (v != given)):  # at rest, or as given: nothing to compute
        return 0.0, ""
    scale = np.asarray(system.scale())
    change = np.where(given == 0, 0.0, np.abs(v - given) / scale)
    k = int(np.argmax(change))
    label = system.velocity_label(k)
    name = label if label == str(k) else f"'{label}'"
    return float(change[k] / np.max(np.abs(given) / scale)), (
        f"the start velocities were changed to what the joints allow: {name} from {given[k]:.4g} to {v[k]:.4g}. Give "
        f"those of all bodies, or hold this one: state=da.stabilise.consistent_state(system, hold=[{name}])."
    )


def _check_shapes(system: AbstractSystem, q, v) -> None:
    for name, given, wanted in (("q", q, system.q0.shape), ("v", v, system.v0.shape)):
        if given.shape != wanted:
            raise DalembertError(f"{name} of system '{system.name}' must have shape {wanted}, got {given.shape}.")


def _check_finite(system: AbstractSystem, q, v) -> None:
    for name, given in (("q", q), ("v", v)):
        if not is_traced(given) and len(wrong := np.flatnonzero(~np.isfinite(given))):
            k = int(wrong[0])
            raise AssemblyError(f"{name}[{k}] of system '{system.name}' is {float(given[k])}: no start can have it.")


def nearest(system, t, q, v, free) -> Assembled:
    """The nearest state that meets the constraints, as a function of JAX."""
    if system.m == 0:
        none = jnp.zeros(0)
        return Assembled(State(system.retract(q, jnp.zeros(system.n)), v), none, none, none, none, jnp.zeros(()))
    found = q
    if system.m_holonomic:
        found = _newton(*jax.lax.stop_gradient((system, t, q, v, free)))
    return _finish(system, t, q, jax.lax.stop_gradient(found), v, free)


_consistent = compiled_quickly(nearest)


@compiled_quickly
def _as_given(system, t, q, v) -> tuple[Assembled, Array | bool]:
    """A state as it is, and whether it meets the constraints to rounding, so that `nearest` would not correct it. Most
    machines are given so, and this is compiled in a fraction of the time of `nearest`."""
    given, q = q, system.retract(q, jnp.zeros(system.n))
    equations = assemble_known(system, t, q, v)
    sizes = row_sizes(system, equations)
    Phi = equations.Phi / sizes[: system.m_holonomic]
    moved = jnp.max(jnp.abs(q - given) / system.coordinate_scale(), initial=0.0)
    found = Assembled(State(q, v), Phi, equations.phi / sizes, sizes, Phi, moved)
    return found, equations.violation(system.scale()) <= ROUNDED


FALLS, STALE = 0.9, 12
"""A Newton step counts as progress if the residual falls below this share of the least so far; the iteration ends after
so many steps without progress. From a rough start the residual may rise for some steps before it falls."""


def _newton(system, t, q, v, free) -> Coordinates:
    """Damped Gauss–Newton in the mass metric from a rough guess; not differentiated."""

    def step(carry):
        q, kept, least, stale, _, k = carry
        equations, saddle = _directions(system, t, q, v, free, system.m_holonomic, False)
        gap = equations.violations(system.scale())[0]
        delta = saddle.leading(system.m_holonomic).correct(-equations.Phi[:, None])[:, 0]
        delta = free * jnp.where(gap > ROUNDED, delta, 0.0)
        sizes = row_sizes(system, equations)[: system.m_holonomic]
        # the best of a few damped steps: a rough guess may overshoot
        trials = jax.vmap(lambda a: system.retract(q, a * delta))(jnp.array([1.0, 0.5, 0.2, 0.05]))
        errors = jax.vmap(lambda q: jnp.linalg.norm(system.position_residual(t, q) / sizes))(trials)
        # the full step unless another is clearly better: with contradictory rows all are equally good
        best = jnp.where(errors[0] <= (1 + 1e-6) * jnp.min(errors), 0, jnp.argmin(errors))
        # with contradictory rows the residual only fluctuates: keep the first of the smallest
        better = errors[best] < FALLS * least
        kept, least = (jnp.where(better, x, y) for x, y in ((trials[best], kept), (errors[best], least)))
        stale = jnp.where(better, 0, stale + 1)
        return trials[best], kept, least, stale, jnp.max(jnp.abs(delta / system.scale()), initial=0.0), k + 1

    def going(carry):
        _, _, least, stale, move, k = carry
        return (k < 60) & (least > 1e-15) & (move > 1e-15) & (stale < STALE)

    zero = jnp.zeros((), int)
    return jax.lax.while_loop(going, step, (q, q, jnp.asarray(jnp.inf), zero, jnp.ones(()), zero))[1]


@eqx.filter_custom_jvp
def _finish(system, t, q, q_found, v, free) -> Assembled:
    """One last correction through which derivatives flow, then the velocity filter at the corrected position."""
    return _corrected(system, t, q, q_found, v, free)[0]


def _corrected(system, t, q, q_found, v, free) -> tuple[Assembled, Array | None, tuple[HolonomicRows, Rows]]:
    """`_finish`, with C at its end (of small systems) and the residuals Φ and φ that the two corrections take out."""
    start, h, small = q, system.m_holonomic, system.klu is None
    q = q_found + (q - jax.lax.stop_gradient(q))

    def correct(state, velocities):  # positions, then velocities: in a loop, so that rows are compiled once
        q, v = state
        equations, saddle = _directions(system, t, q, v, free, h, velocities)
        gap = jnp.where(velocities, equations.phi, jnp.zeros(system.m).at[:h].set(equations.Phi))
        delta = saddle.solve(None, -gap)[0]
        open_q, open_v = equations.violations(system.scale())
        dq = free * _unless_rounding(jnp.where(velocities, 0.0, delta), open_q)
        dv = free * _unless_rounding(jnp.where(velocities, delta, 0.0), open_v)
        rows = (equations.Phi, equations.phi, row_sizes(system, equations), equations.C if small else None)
        return (system.retract(q, dq), v + dv), rows

    passes = jnp.array([False, True] if h else [True])
    (q, v), (Phi_before, phi_before, sizes, C) = jax.lax.scan(correct, (q, v), passes)
    Phi, phi = residuals(system, t, q, v)
    sizes = sizes[-1]
    before = system.position_residual(t, start) / sizes[:h]
    moved = jnp.max(jnp.abs(q - start) / system.coordinate_scale(), initial=0.0)
    found = Assembled(State(q, v), Phi / sizes[:h], phi / sizes, sizes, before, moved)
    return found, None if C is None else C[-1], (Phi_before[0], phi_before[-1])


@_finish.def_jvp
def _finish_jvp(primals, tangents):
    """The derivative of `_finish` where there is one.

    A change of parameters under which redundant constraints contradict each other has none: C δq = −∂Φ/∂p δp has no
    solution. Forward derivatives are then NaN. Reverse ones do not know the direction of the change: they are NaN for a
    parameter that no consistent change moves (`stuck`); else a reverse derivative is right, to 1e-9, for each
    consistent sum of parameters, and of the order of `POISON` for others.
    """
    tangents = (_without_stuck(primals, tangents[0]), *tangents[1:])
    (found, C, before), (d_found, _, d_before) = eqx.filter_jvp(_corrected, primals, tangents)
    system, free = primals[0], primals[5]
    if C is None:  # null vectors of large systems are not computed here
        return found, d_found
    d_state = d_found.state
    if d_state.q is None or d_state.v is None:  # nothing that positions depend on changes
        return found, d_found
    C, sizes, h = C * free, found.sizes, system.m_holonomic
    # changes of Φ before its correction, of φ before its own, and of all that is given: what rounding is measured by
    positions, velocities = (jnp.zeros(len(b)) if d is None else d for b, d in zip(before, d_before, strict=True))
    given = [jnp.ravel(x) for x in jax.tree_util.tree_leaves(tangents) if eqx.is_inexact_array(x)]
    given = [x / jnp.minimum(jnp.min(system.scale()), 1.0) for x in given]
    nulls = [jax.lax.stop_gradient(left_null(system, C[:m], sizes[:m])) for m in (h, system.m)]
    rows = [positions / sizes[:h], velocities / sizes]
    state = State(*guarded(nulls, [d_state.q, d_state.v], rows, jnp.concatenate(given)))
    return found, eqx.tree_at(lambda f: f.state, d_found, state)


def _without_stuck(primals, change):
    """A change of the system, whose reverse derivatives are NaN for parameters that no consistent change moves."""
    system, t, _, q, v, free = jax.lax.stop_gradient(primals)
    if not system.asked or system.klu is not None or not system.m_holonomic:
        return change
    slots = system.numbered_slots()
    asked = [slots[k] for k in system.asked if k < len(slots)]
    moved = [x for x in asked if any(_differentiated(slot, change) for slot in x)]
    if not moved:
        return change
    equations = assemble_known(system, t, q, v)
    h, sizes = system.m_holonomic, row_sizes(system, equations)[: system.m_holonomic]
    null = left_null(system, equations.C[:h] * free, sizes)
    for slots_of_one, fixed in zip(moved, stuck(system, t, q, null, sizes, moved), strict=True):
        for slot in slots_of_one:
            if _differentiated(slot, change):
                change = slot.set(change, nan_in_reverse(fixed, slot.get(change)))
    return change


def _differentiated(slot, change) -> bool:
    try:
        return slot.get(change) is not None
    except (TypeError, AttributeError, ValueError):  # there is no change of this array
        return False


def _unless_rounding(correction, gap):
    """A correction with its derivative; its value is zero where the violation is round-off."""
    return correction - jnp.where(gap > ROUNDED, 0.0, jax.lax.stop_gradient(correction))


def _directions(system, t, q, v, free, m: int, rest: Array | bool):
    """The equations and their saddle-point problem in the first m rows; with the `rest`, if so."""
    equations = assemble_known(system, t, q, v)
    rows = equations.rows
    if m < system.m:
        rows = BlockRows(rows.pattern, jnp.where((rows.pattern.rows < m) | rest, rows.data, 0.0))
    # a loop that does not quite close must not be corrected along directions due to its own gap
    mass, shift = _held_mass(equations.mass, free), softened(equations.violation(system.scale()))
    return equations, factorise(mass, rows, equations.klu, equations.share, shift=shift)


def _held_mass(mass: BlockMass, free: Float[Array, " n"]) -> BlockMass:
    """Held coordinates as infinitely heavy: their rows and columns of M⁻¹ vanish."""
    nb, d = mass.blocks.shape[:2]
    f = free.reshape(nb, d)
    keep = f[:, :, None] * f[:, None, :]
    # for a full block the inverse of the free part is not the free part of the inverse: make held ones heavy
    heavy = mass.blocks + 1e9 * jnp.max(jnp.abs(mass.blocks), initial=0.0) * (1 - f)[:, :, None] * jnp.eye(d)
    L = jnp.linalg.cholesky(heavy)
    inverse = jax.scipy.linalg.cho_solve((L, True), jnp.broadcast_to(jnp.eye(d), heavy.shape)) * keep
    return BlockMass(heavy, jnp.where(jnp.all(f == 1), mass.inverse, inverse))


def _free_mask(system: AbstractSystem, hold: Sequence[str | int]) -> np.ndarray:
    """1 for coordinates that may move, 0 for held ones, on the index of v."""
    free = np.ones(system.n)
    if isinstance(hold, str):
        hold = (hold,)
    for item in hold:
        free[system.velocities_named(item)] = 0
    return free


def _refuse_open(system: AbstractSystem, found: Assembled, tolerance: float, drivers: Callable[[], str]) -> None:
    pairs = ((found.position, "close"), (found.velocity, "move as its velocities say"))
    for residual, word in ((np.asarray(x), word) for x, word in pairs):
        if residual.size == 0 or np.max(np.abs(residual)) <= tolerance:
            continue
        if not np.all(np.isfinite(residual)):
            raise AssemblyError(f"{Status.not_assembled.message} A residual is not a finite number.")
        cause = drivers() if word == "close" else ""
        open_joints = open_rows(system, residual, tolerance, word)
        raise AssemblyError(f"{Status.not_assembled.message} {cause}{open_joints}{_cure(system, residual)}")


def _cure(system: AbstractSystem, residual: np.ndarray) -> str:
    """Advice for a gap so small that it may come from rounded numbers."""
    gap = float(np.max(np.abs(residual)))
    if gap > NEARLY or system.m == 0:
        return ""
    enough = 10.0 ** np.ceil(np.log10(2 * gap))
    return (
        f" If this gap of {gap:.1e} is rounding in the numbers of a redundant loop, say tolerance={enough:.0e} (in "
        "simulate and check; --tolerance on the command line), or free the directions that check then suggests."
    )


def by_owner(system: AbstractSystem, residual: np.ndarray, above: float) -> dict[str, float]:
    """Whose rows have a residual above a bound, and the largest of each; the worst first."""
    worst: dict[str, float] = {}
    for row in np.flatnonzero(np.abs(residual) > above):
        name = system.owner_of(int(row)).name
        worst[name] = max(worst.get(name, 0.0), abs(float(residual[row])))
    return dict(sorted(worst.items(), key=lambda item: -item[1]))


def open_rows(system: AbstractSystem, residual: np.ndarray, tolerance: float, word: str = "close") -> str:
    """A message with the owners of the worst rows."""
    ranked = list(by_owner(system, residual, tolerance).items())[:4]
    names = ", ".join(f"'{name}' ({value:.1e} of the machine's size)" for name, value in ranked)
    return f"These cannot {word}: {names}. Check their points, lengths and drivers, or give a better start."
