"""7 · analysis: inverse dynamics of a whole motion: the efforts of named actuators, and gravity compensation.

At each instant τ of the actuators, B = ∂h/∂τ, is asked for with P_aᵀ(M v̇ − h − B τ) = 0 [Kövecses, Piedbœuf 2003,
eqs. 26–28]. In the mass metric, M = L Lᵀ, with Π = I − Ĉ⁺Ĉ of the unit rows Ĉ = S C L⁻ᵀ and efforts over their typical
sizes, τ = H x,

    A x = y,   A = Π L⁻¹B H,   y = Π L⁻¹(M v̇ − h)

and x = A⁺y: of all efforts that make the motion those with the least Σ(τ/size)², and where none does those whose
accelerations are nearest to the motion's in the mass metric (Gauss). An effort is unique where A⁺A − I has nothing in
its row. Equations (7b.1)–(7b.5): docs/theory/inverse_dynamics.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError
from dalembert._typing import Array, Coordinates, Rows, Scalar, Velocities, is_traced
from dalembert.analysis._actuation import actuated_system, inputs_of, measured_by, refuse_friction
from dalembert.analysis._efforts import InverseDynamics
from dalembert.analysis._motions import Motion, motion_of
from dalembert.analysis._split import Effort, instant_efforts
from dalembert.analysis._targets import listed
from dalembert.equations import assemble_known
from dalembert.linalg import dense_of_blocks, mass_root, pseudo_inverse
from dalembert.model import Model
from dalembert.simulation import Prepared, Solution
from dalembert.stabilise import row_sizes
from dalembert.systems import AbstractSystem, State, build, compiled_for_each, compiled_quickly

TOLERANCE = 1e-8
"""Singular values below this share of the actuators' own effect count as zero."""
ON_ROWS = 1e-6
"""How far a run may be off the rows of the actuated machine, relative to its size, its speed and its acceleration."""
STRAIGHT = 1e-9
"""What may be left of a force's change with its input that is not in proportion to it."""


@overload
def inverse_dynamics(
    system: AbstractSystem | Model, motion: State | tuple | None, vdot: Any, *, actuators: Any = None,
    metric: Any = None, t: float = 0.0, tolerance: float | None = None,
) -> Effort: ...  # fmt: skip


@overload
def inverse_dynamics(
    system: AbstractSystem | Model | Prepared, motion: Any, *, actuators: Sequence[str] | str | None = None,
    metric: Any = None, limits: Mapping[str, float] | None = None, release: Sequence[str] | bool = (),
    t0: float | None = None, t_end: float | None = None, samples: Any = None, tolerance: float | None = None,
) -> InverseDynamics: ...  # fmt: skip


def inverse_dynamics(
    system,
    motion,
    vdot=None,
    *,
    actuators=None,
    metric=None,
    limits=None,
    release=(),
    t=0.0,
    t0=None,
    t_end=None,
    samples=None,
    tolerance=None,
):
    """The efforts that make a machine move in a given way: of named actuators along a motion, or at one instant.

    **Arguments**

    - `system`: a model, a system, or a prepared machine.
    - `motion`: what it shall do. A `Solution` of `da.simulate` or `da.kinematics`; a dataset or arrays
      `(times, q[, v, vdot])` of a recorded motion, which is brought onto the constraints and differentiated by splines;
      or names with formulas of t, as the targets of `da.solve_pose`: `{"hip.angle": "0.3*sin(t)", "foot.x": …}` with
      `t_end`, `t0` and `samples` (a number of times, default 201, or the times). Times and values are a spline.
    - `actuators`: names of inputs (`model.input`), drivers, actuators on joints (`joint_force`, `motor`, `pd_control`),
      along lines (`spring_damper`), or joint coordinates ("elbow.angle"). The effort takes the place of the driver or
      of the actuator's own law. Default: all drivers, or else all inputs.
    - `limits`: with more actuators than freedoms, the largest effort of each: of all efforts that make the motion those
      with the least Σ(effort/limit)². `metric`: the same with τᵀR τ. Default: the least Σ effort² (minimum norm).
    - `release`: drivers that only state the motion and exert no force (True: all that are no actuators).
    - `tolerance`: how far recorded numbers may be off the constraints (default 1e-4 of the machine's size).

    **Returns** an `InverseDynamics`: `dataset` (efforts with units by name over time), `peak`, `rms`, `power`,
    `energy`, `unique` (which efforts the rule picked), `missing_by_coordinate` (what too few actuators cannot follow;
    an `ActuationWarning` is given then), `plot()`, `as_inputs()` and `forward()`: the motion again. A motion that is
    not on the constraints is refused with the joint. Works under jit, vmap and with derivatives by parameters for a
    `Solution` and for arrays.

        >>> import dalembert as da
        >>> model = da.mechanism("double-pendulum")
        >>> asked = {"shoulder": "0.3*sin(2*t)", "elbow": "0.2*t"}
        >>> found = da.inverse_dynamics(model, asked, actuators=["shoulder", "elbow"], t_end=1.0)
        >>> found.followed, found.names, found.units["elbow.angle"]
        (True, ('shoulder.angle', 'elbow.angle'), 'N m')

    **At one instant**, with `vdot`, the accelerations asked for: `motion` is the state (q, v), None the system's own
    start, at time `t`; `actuators` are names, or columns B of n rows (default: a force on each velocity). Returns an
    `Effort`: τ, the force B τ, and the constraint force beside it. An acceleration that the constraints do not allow,
    or that the actuators cannot make, is refused with the reason. P_aᵀ(M v̇ − h − B τ) = 0 [Kövecses, Piedbœuf 2003,
    eqs. 26–28], in the redundant coordinates.

        >>> import numpy as np
        >>> system = da.build(da.mechanism("four-bar"))
        >>> state = da.stabilise.consistent_state(system)
        >>> free = da.formulations.Projector().solve(da.assemble(system, 0.0, *state))
        >>> bool(np.all(np.abs(da.inverse_dynamics(system, state, free.vdot).effort) < 1e-9))
        True

    Equations (7b.1)–(7b.5): docs/theory/inverse_dynamics.md.
    """
    if vdot is None:
        if t != 0.0:
            raise DalembertError("t= is the time of one instant; a motion has its own times (t0=, t_end= of formulas).")
        return _along(system, motion, actuators, metric, limits, release, (t0, t_end, samples), tolerance)
    if any(x is not None for x in (limits, t0, t_end, samples)):
        raise DalembertError("limits=, t0=, t_end= and samples= are for a whole motion; with vdot it is one instant.")
    tolerance = 1e-9 if tolerance is None else tolerance
    by_name = isinstance(actuators, list | tuple) and any(isinstance(x, str) for x in actuators)
    if isinstance(actuators, str) or by_name:
        system = system.system if isinstance(system, Prepared) else system
        machine, found = actuated_system(build(system) if isinstance(system, Model) else system, actuators, release)
        q, v = (None, None) if motion is None else motion
        q, v = machine.q0 if q is None else q, machine.v0 if v is None else v
        system = machine.with_inputs({a.input: 0.0 for a in found})
        actuators = np.asarray(_columns(system, inputs_of(system, found), np.asarray(t, float), q, v))
        motion = q, v
    return instant_efforts(system, motion, vdot, actuators, metric, t, tolerance)


@compiled_quickly
def _columns(system, which, t, q, v):
    """B: how the force changes with each input."""
    names = [system.control.sources[k].name for k in which]

    def force(tau):
        return assemble_known(system.with_inputs({n: tau[k] for k, n in enumerate(names)}), t, q, v).h

    return jax.jacfwd(force)(jnp.zeros(len(which)))


def _along(
    system: AbstractSystem | Model | Prepared,
    motion: Any,
    actuators: Sequence[str] | str | None,
    metric: Any,
    limits: Mapping[str, float] | None,
    release: Sequence[str] | bool,
    times: tuple,
    tolerance: float | None,
) -> InverseDynamics:
    """The efforts of actuators along a motion."""
    if isinstance(system, Prepared):
        system = system.system
    given = _laid_out(system, motion)
    machine, found = actuated_system(given, actuators, release)
    refuse_friction(machine)
    half, rule = measured_by(machine, found, metric, limits)
    t0, t_end, samples = times
    path = motion_of(machine, motion, t0=t0, t_end=t_end, samples=samples, tolerance=tolerance)
    which = inputs_of(machine, found)
    traced = is_traced(machine, path, jax.lax.neg(np.ones(())))
    if not traced:
        refuse_bent(machine, found, which, path)
    at: Instant = efforts_all(machine, which, half, path.t, path.q, path.v, path.vdot)
    if not traced:
        at = Instant(*(np.asarray(x) for x in at))
        _refuse_off(machine, path, at)
        refuse_fixed(given, machine, at)
    limited = None if limits is None else tuple(float(limits[a.name]) for a in found)
    out = InverseDynamics(
        system=machine,
        t=path.t,
        q=path.q,
        v=path.v,
        vdot=path.vdot,
        effort=at.effort,
        loose=at.loose,
        speed=at.speed,
        missing=at.missing,
        left=at.left,
        able=at.able,
        freedoms=at.freedoms,
        actuators=found,
        rule=rule,
        limits=limited,
        moved=tuple(path.moved.items()),
    )
    if not traced and not out.followed:
        out.warn()
    return out


# ---- at an instant --------------------------------------------------------------------------------------------------


class Instant(NamedTuple):
    """The answer at an instant; see `InverseDynamics`."""

    effort: Float[Array, " actuators"]
    loose: Float[Array, " actuators"]  # how much of each is in the null space of the actuators: 0 where it is unique
    speed: Float[Array, " actuators"]  # Bᵀv: what the effort works on
    missing: Velocities  # accelerations that are asked for and cannot be made
    left: Array  # their size over that of the forces, in the mass metric
    able: Array  # how many freedoms the actuators move
    freedoms: Array
    position: Array  # how far the state is off its rows, level by level
    velocity: Rows
    acceleration: Rows


def efforts_at(
    system: AbstractSystem,
    which: tuple[int, ...],
    half: Float[Array, "actuators actuators"],
    t: Scalar,
    q: Coordinates,
    v: Velocities,
    vdot: Velocities,
) -> Instant:
    """The efforts at an instant, as a function of JAX: `which` inputs of the system they are, and H, by which they are
    measured. Works under jit, vmap and with derivatives."""

    def equations(tau):
        names = [system.control.sources[k].name for k in which]
        given = {name: tau[k] for k, name in enumerate(names)}
        return assemble_known(system.with_inputs(given) if given else system, t, q, v)

    # inputs that are given as numbers of a program, not on the host: names and files stay out of it
    zero = jnp.zeros(len(which)) + 0.0 * jnp.sum(v)
    at = equations(zero)
    B = jax.jacfwd(lambda tau: equations(tau).h)(zero)
    W = dense_of_blocks(mass_root(at.mass)[1])  # L⁻¹
    rows = at.C @ W.T
    squares = jnp.sum(rows**2, axis=1)
    size = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    share = 1.0 if at.share is None else at.share
    rows = rows * (share / size)[:, None]
    allowed = jnp.eye(system.n)
    if system.m:
        allowed = allowed - pseudo_inverse(rows, TOLERANCE * jax.lax.stop_gradient(jnp.linalg.norm(rows))) @ rows
    asked, loads = W @ at.mass.mv(vdot), W @ at.h
    direct = W @ B @ half
    A, y = allowed @ direct, allowed @ (asked - loads)
    tiny = jnp.finfo(float).tiny
    # the effect of an actuator across the constraints sets the scale: below it, it does not move the machine
    least = TOLERANCE * jax.lax.stop_gradient(jnp.linalg.norm(direct))
    inverse = pseudo_inverse(A, least) if which else jnp.zeros((0, system.n))
    x = inverse @ y
    seen = inverse @ A
    left = y - A @ x
    total = jnp.linalg.norm(asked) + jnp.linalg.norm(loads)
    # how far the state is off
    scale = system.scale()
    sizes = row_sizes(system, at)
    fast = jnp.max(jnp.abs(v) / scale, initial=0.0)
    off = (at.rows.mv(vdot) - at.Gamma) / sizes
    typical = jnp.max(jnp.abs(vdot) / scale, initial=0.0) + jnp.max(jnp.abs(at.mass.solve(at.h)) / scale, initial=0.0)
    return Instant(
        effort=half @ x,
        loose=1.0 - jnp.diagonal(seen),
        speed=B.T @ v,
        missing=W.T @ left,
        left=jnp.linalg.norm(left) / jnp.maximum(total, tiny),
        able=jnp.trace(seen),
        freedoms=jnp.trace(allowed),
        position=at.Phi / sizes[: len(at.Phi)],
        velocity=at.phi / sizes / (1.0 + fast),
        acceleration=off / jnp.maximum(typical + fast**2 + jnp.max(jnp.abs(at.Gamma / sizes), initial=0.0), tiny),
    )


efforts_all = compiled_for_each(efforts_at, 4)


def _laid_out(system: AbstractSystem | Model, motion: Any) -> AbstractSystem:
    """The system of a model, in the coordinates of the run where the motion is one."""
    if not isinstance(system, Model):
        return system
    origin = motion.system.bodies.origin if isinstance(motion, Solution) and motion.system.bodies is not None else None
    if origin is None:
        return build(system)
    return build(system, coordinates=origin.coordinates, cut=origin.cut)


# ---- what is refused -------------------------------------------------------------------------------------------------


@compiled_quickly
def _differences(system, which, t, q, v):
    """How h and the rows change with each input by one, and what of h is not in proportion to it."""
    names = [system.control.sources[k].name for k in which]

    def at(tau):
        found = assemble_known(system.with_inputs({n: tau[k] for k, n in enumerate(names)}), t, q, v)
        return found.h, (found.Phi, found.phi, found.Gamma, found.mass.blocks)

    zero = jnp.zeros(len(which)) + 0.0 * jnp.sum(v)
    h, rows = at(zero)

    def one(e):
        full, other = at(e)
        slope = jax.jvp(lambda tau: at(tau)[0], (zero,), (e,))[1]
        moved = [jnp.max(jnp.abs(a - b), initial=0.0) for a, b in zip(other, rows, strict=True)]
        bent = jnp.max(jnp.abs(full - h - slope)) / jnp.maximum(
            jnp.max(jnp.abs(full - h)) + jnp.max(jnp.abs(slope)) + 1e-7 * jnp.max(jnp.abs(h)), 1e-300
        )
        return bent, jnp.max(jnp.stack(moved)), jnp.max(jnp.abs(slope))

    return jax.lax.map(one, jnp.eye(len(which)) + 0.0 * jnp.sum(v))


def refuse_bent(system: AbstractSystem, actuators, which, path: Motion) -> None:
    """Refuse inputs that are not forces in proportion: those of drivers, and those that a formula bends."""
    if not which:
        raise DalembertError("Name at least one actuator.")
    k = len(path.t) // 2
    bent, rows, slope = (np.asarray(x) for x in _differences(system, which, *(np.asarray(x)[k] for x in path[:3])))
    for a, curved, moves, force in zip(actuators, bent, rows, slope, strict=True):
        if moves > 0:
            raise DalembertError(
                f"Input '{a.name}' of '{system.name}' prescribes a motion, or changes a mass: it is no effort. Name "
                "the driver that follows it."
            )
        if curved > STRAIGHT:
            raise DalembertError(
                f"The forces of '{system.name}' are not in proportion to input '{a.name}'; name the force that uses "
                "it, or make its formula linear in it."
            )
        if force == 0:
            raise DalembertError(f"Input '{a.name}' of '{system.name}' has no force: no element uses it.")


def _refuse_off(system: AbstractSystem, path: Motion, at: Instant) -> None:
    """Refuse a motion that is not one of this machine, with the joint and the time."""
    for level, gaps in (("positions", at.position), ("velocities", at.velocity), ("accelerations", at.acceleration)):
        off = np.abs(gaps)
        if off.size and not np.max(off) <= ON_ROWS:
            k, row = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            raise DalembertError(
                f"This motion is not on the constraints of '{system.name}': at t = {float(path.t[k]):.6g} s its "
                f"{level} miss the rows of '{system.owner_of(int(row)).name}' by {off[k, row]:.1e}, relative to the "
                "machine."
            )


def refuse_fixed(given: AbstractSystem, system: AbstractSystem, at: Instant) -> None:
    if np.max(at.freedoms) > 0.5:
        return
    drivers = [o.name for o in system.owners if o.drives]
    by = f" while {listed(drivers[:6])} drive{'s' if len(drivers) == 1 else ''} it" if drivers else ""
    advice = (
        f"name drivers as actuators, or leave those out that only state the motion: release={drivers[:6]!r}"
        if drivers
        else "its joints alone hold it, and no effort is needed"
    )
    raise DalembertError(f"'{given.name}' has no freedom{by}, so no actuator can move it; {advice}.")
