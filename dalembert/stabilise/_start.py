"""5b· keeping the constraints: `consistent_state`, a start that meets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert._results import AssemblyError, DalembertError, Status
from dalembert._typing import Coordinates, Rows, Scalar, is_traced
from dalembert.equations import ROUNDED, Equations, assemble, residuals, softened
from dalembert.linalg import BlockMass, factorise
from dalembert.stabilise._base import State
from dalembert.systems import AbsoluteSystem, AbstractSystem, compiled, in_double, require_float64


def row_sizes(system: AbstractSystem, equations: Equations) -> Rows:
    """The size of each row: its change under a displacement of the machine's own size; Φ/size is dimensionless."""
    nb, d = equations.mass.blocks.shape[:2]
    scale = system.scale().reshape(nb, d)
    squares = equations.rows.weighted_square(scale[:, :, None] ** 2 * jnp.eye(d))
    return jnp.sqrt(jnp.where(squares > 0, squares, 1.0))


class Assembled(NamedTuple):
    """A state with what is left open: relative residuals of the holonomic rows and of all rows in velocity.

    `gaps` are the relative residuals of the holonomic rows before, and `moved` is how far the farthest coordinate
    went to close them, in machine sizes (or radians).
    """

    state: State
    position: Rows
    velocity: Rows
    sizes: Rows
    gaps: Rows
    moved: Scalar


def consistent_state(
    system: AbstractSystem,
    q=None,
    v=None,
    *,
    t: float = 0.0,
    hold: Sequence[str] = (),
    tolerance: float = 1e-9,
) -> State:
    """Positions and velocities that meet the constraints, nearest to a rough guess in the mass metric.

    `hold` names bodies ("crank") or single coordinates ("crank.x", "crank.y", "crank.z", "crank.angle" in the
    plane, "crank.rotation" in space) that must not move. Raises `AssemblyError`, with the names of the
    joints that stay open, if the constraints cannot be met; `tolerance` is relative to the machine's size.
    Differentiable: the derivative is that of the exact projection.
    """
    return assembled(system, q, v, t=t, hold=hold, tolerance=tolerance).state


def assembled(system: AbstractSystem, q=None, v=None, *, t=0.0, hold=(), tolerance=1e-9) -> Assembled:
    """`consistent_state` with the residuals that are left and the sizes of the rows."""
    require_float64()
    q = system.q0 if q is None else in_double(f"q of system '{system.name}'", q)
    v = system.v0 if v is None else in_double(f"v of system '{system.name}'", v)
    _check_shapes(system, q, v)
    t = t if is_traced(t) else np.asarray(t, float)
    found = _consistent(system, t, q, v, _free_mask(system, hold))
    if not is_traced(found.position):
        _refuse_open(system, np.asarray(found.position), np.asarray(found.velocity), tolerance)
    return found


def correction_sentence(system: AbstractSystem, found: Assembled) -> str:
    """How far a start was off its constraints, and at which joints."""
    gaps = np.asarray(found.gaps)
    worst: dict[str, float] = {}
    for row in np.flatnonzero(np.abs(gaps) > 0.1 * np.max(np.abs(gaps), initial=0.0)):
        name = system.owner_of(int(row)).name
        worst[name] = max(worst.get(name, 0.0), abs(float(gaps[row])))
    names = ", ".join(f"'{n}' by {g:.1e}" for n, g in sorted(worst.items(), key=lambda item: -item[1])[:4])
    return (
        f"the start was moved by {float(found.moved):.1e} of the machine's size to close its joints; "
        f"open before: {names or 'none'}."
    )


CHANGED = 1e-3
"""A start velocity that had to change by more than this share of the largest was meant otherwise: it is told."""


def velocity_change(system: AbstractSystem, given, v) -> tuple[float, str]:
    """How much a start velocity that was given had to change to fit the joints, as a share of the largest; in words."""
    given, v = np.asarray(given), np.asarray(v)
    if not np.any((given != 0) & (v != given)):  # at rest, or as given: nothing to compute
        return 0.0, ""
    scale = np.asarray(system.scale())
    change = np.where(given == 0, 0.0, np.abs(v - given) / scale)
    k = int(np.argmax(change))
    name = f"{k}"
    if isinstance(system, AbsoluteSystem):
        d, of = system.kinematics.d, k % system.dv
        which = "xyz"[of] if of < d else "angle" if d == 2 else "rotation"
        name = f"'{system.body_names[k // system.dv]}.{which}'"
    return float(change[k] / np.max(np.abs(given) / scale)), (
        f"the start velocities were changed to what the joints allow: {name} from {given[k]:.4g} to {v[k]:.4g}. Give "
        f"those of all bodies, or hold this one: state=da.consistent_state(system, hold=[{name}])."
    )


def _check_shapes(system: AbstractSystem, q, v) -> None:
    for name, given, wanted in (("q", q, system.q0.shape), ("v", v, system.v0.shape)):
        if given.shape != wanted:
            raise DalembertError(f"{name} of system '{system.name}' must have shape {wanted}, got {given.shape}.")


@compiled
def _consistent(system, t, q, v, free) -> Assembled:
    if system.m == 0:
        none = jnp.zeros(0)
        return Assembled(State(system.retract(q, jnp.zeros(system.n)), v), none, none, none, none, jnp.zeros(()))
    found = q
    if system.m_holonomic:
        found = _newton(*jax.lax.stop_gradient((system, t, q, v, free)))
    return _finish(system, t, q, jax.lax.stop_gradient(found), v, free)


def _newton(system, t, q, v, free) -> Coordinates:
    """Damped Gauss–Newton in the mass metric from a rough guess; not differentiated."""

    def step(carry):
        q, _, _, k = carry
        equations, saddle = _directions(system, t, q, v, free)
        gap = equations.violations(system.scale())[0]
        delta = saddle.leading(system.m_holonomic).correct(-equations.Phi[:, None])[:, 0]
        delta = free * jnp.where(gap > ROUNDED, delta, 0.0)
        sizes = row_sizes(system, equations)[: system.m_holonomic]
        # of a few damped steps the best: a rough guess may overshoot
        trials = jax.vmap(lambda a: system.retract(q, a * delta))(jnp.array([1.0, 0.5, 0.2, 0.05]))
        errors = jax.vmap(lambda q: jnp.linalg.norm(system.position_residual(t, q) / sizes))(trials)
        best = jnp.argmin(errors)
        return trials[best], errors[best], jnp.max(jnp.abs(delta / system.scale()), initial=0.0), k + 1

    def going(carry):
        _, error, move, k = carry
        return (k < 60) & (error > 1e-15) & (move > 1e-15)

    one = jnp.ones(())
    return jax.lax.while_loop(going, step, (q, one, one, jnp.zeros((), int)))[0]


def _finish(system, t, q, q_found, v, free) -> Assembled:
    """One last correction through which derivatives flow, then the velocity filter at the corrected position."""
    start = q
    q = q_found + (q - jax.lax.stop_gradient(q))
    equations, saddle = _directions(system, t, q, v, free)
    dq = saddle.leading(system.m_holonomic).solve(None, -equations.Phi)[0]
    q = system.retract(q, free * _unless_rounding(dq, equations.violations(system.scale())[0]))
    equations, saddle = _directions(system, t, q, v, free)
    Phi, phi = equations.Phi, equations.phi
    for _ in range(2):
        dv = saddle.solve(None, -phi)[0]
        v = v + free * _unless_rounding(dv, equations.violations(system.scale(), (Phi, phi, v))[1])
        Phi, phi = residuals(system, t, q, v)
    sizes = row_sizes(system, equations)
    before = system.position_residual(t, start) / sizes[: system.m_holonomic]
    moved = jnp.max(jnp.abs(q - start) / system.coordinate_scale(), initial=0.0)
    return Assembled(State(q, v), Phi / sizes[: system.m_holonomic], phi / sizes, sizes, before, moved)


def _unless_rounding(correction, gap):
    """A correction with its derivative, and without its value where nothing but rounding is open."""
    return correction - jnp.where(gap > ROUNDED, 0.0, jax.lax.stop_gradient(correction))


def _directions(system, t, q, v, free):
    equations = assemble(system, t, q, v)
    mass, shift = _held_mass(equations.mass, free), softened(equations.violation(system.scale()))
    return equations, factorise(mass, equations.rows, equations.klu, equations.felt, shift)


def _held_mass(mass: BlockMass, free: Float[Array, " n"]) -> BlockMass:
    """Held coordinates as infinitely heavy: their rows and columns of M⁻¹ vanish."""
    nb, d = mass.blocks.shape[:2]
    f = free.reshape(nb, d)
    keep = f[:, :, None] * f[:, None, :]
    # for a full block the inverse of the free part is not the free part of the inverse: make held ones heavy
    heavy = mass.blocks + 1e9 * jnp.max(jnp.abs(mass.blocks), initial=0.0) * (1 - f)[:, :, None] * jnp.eye(d)
    inverse = jnp.linalg.inv(heavy) * keep
    return BlockMass(heavy, jnp.where(jnp.all(f == 1), mass.inverse, inverse))


def _free_mask(system: AbstractSystem, hold: Sequence[str]) -> np.ndarray:
    """1 for coordinates that may move, 0 for held ones, on the index of v."""
    free = np.ones(system.n)
    if isinstance(hold, str):
        hold = (hold,)
    for item in hold:
        if not isinstance(system, AbsoluteSystem):
            if not isinstance(item, int) or not 0 <= item < system.n:
                raise DalembertError(
                    f"hold={item!r}: for a FunctionSystem name velocities by index 0 … {system.n - 1}."
                )
            free[item] = 0
            continue
        body, _, which = str(item).partition(".")
        if body not in system.body_names:
            raise DalembertError(f"hold: there is no body '{body}'; the bodies are {', '.join(system.body_names)}.")
        d = system.kinematics.d
        places = {"": slice(0, system.dv), "position": slice(0, d)}
        places |= {axis: slice(k, k + 1) for k, axis in enumerate("xyz"[:d])}
        places |= {"angle": slice(2, 3)} if d == 2 else {"rotation": slice(3, 6)}
        if which not in places:
            raise DalembertError(f"hold: '{item}' is unknown; after '{body}.' use one of {[p for p in places if p]}.")
        start = system.body_names.index(body) * system.dv
        free[start : start + system.dv][places[which]] = 0
    return free


def _refuse_open(system: AbstractSystem, position: np.ndarray, velocity: np.ndarray, tolerance: float) -> None:
    for residual, word in ((position, "close"), (velocity, "move as its velocities say")):
        if residual.size == 0 or np.max(np.abs(residual)) <= tolerance:
            continue
        if not np.all(np.isfinite(residual)):
            raise AssemblyError(f"{Status.not_assembled.sentence} A residual is not a finite number.")
        raise AssemblyError(f"{Status.not_assembled.sentence} {open_rows(system, residual, tolerance, word)}")


def open_rows(system: AbstractSystem, residual: np.ndarray, tolerance: float, word: str = "close") -> str:
    """A sentence with the owners of the worst rows."""
    worst: dict[str, float] = {}
    for row in np.flatnonzero(np.abs(residual) > tolerance):
        name = system.owner_of(int(row)).name
        worst[name] = max(worst.get(name, 0.0), abs(float(residual[row])))
    ranked = sorted(worst.items(), key=lambda item: -item[1])[:4]
    names = ", ".join(f"'{name}' ({value:.1e} of the machine's size)" for name, value in ranked)
    return f"These cannot {word}: {names}. Check their points, lengths and drivers, or give a better start."
