"""7 · analysis: what a motion may be given as: a run, recorded numbers, or formulas of time; as t, q, v and v̇ that meet
the constraints.

Recorded numbers are differentiated on the constraint manifold: positions are closed first, a spline of degree five goes
through the closed ones, v and v̇ are the parts of its derivatives that the coordinates allow (q̇ = N v), and what is
left of C v + b and C v̇ − Γ is taken out in the mass metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.analysis._formulas import DEGREE, Motion, by_formulas
from dalembert.equations import assemble, assemble_known
from dalembert.simulation import Solution, project_all
from dalembert.stabilise import Projection, row_sizes
from dalembert.systems import AbstractSystem, compiled_for_each

ON = 1e-4
"""How far recorded numbers may be off the constraints, in machine sizes, or as a share of the speed or acceleration."""


def motion_of(system: AbstractSystem, motion: Any, *, t0, t_end, samples, tolerance: float | None) -> Motion:
    """A motion in the coordinates of a system, from whatever it is given as."""
    formulas = isinstance(motion, Mapping) and not hasattr(motion, "data_vars")
    if not formulas and (t_end is not None or samples is not None or t0 is not None):
        raise DalembertError("t0=, t_end= and samples= are for a motion by formulas; this one has its own times.")
    if isinstance(motion, Solution):
        return _of_run(system, motion)
    if formulas:
        return by_formulas(system, motion, 0.0 if t0 is None else t0, t_end, samples)
    tolerance = ON if tolerance is None else tolerance
    motion = getattr(motion, "dataset", motion)
    if hasattr(motion, "data_vars"):
        return _recorded(system, _in_dataset(system, motion), tolerance)
    if not isinstance(motion, tuple | list) or hasattr(motion, "_fields") or not 2 <= len(motion) <= 4:
        raise DalembertError(
            "A motion is a Solution (da.simulate, da.kinematics), a dataset, arrays (times, q[, v, vdot]), or names "
            "with formulas of t; for one instant give a state and vdot."
        )
    return _recorded(system, (*motion, *[None] * (4 - len(motion))), tolerance)


# ---- a run -----------------------------------------------------------------------------------------------------------


def _accelerations(system, formulation, t, q, v):
    return formulation.solve(assemble(system, t, q, v)).vdot


_accelerations_all = compiled_for_each(_accelerations, 3)


def _lifted(system, q, v, vdot):
    return *system.lift(q, v), system.lift_rate(q, v, vdot)


_lifted_all = compiled_for_each(_lifted, 3)


def _layout(system: AbstractSystem) -> tuple[str, ...]:
    """What the velocities of a system are, in order."""
    return tuple(system.velocity_label(k) for k in range(system.n))


def _of_run(system: AbstractSystem, run: Solution) -> Motion:
    if run.t.ndim != 1:
        raise DalembertError("This motion is a batch; give one run of it, motion[k].")
    own, t, q, v = run.system, run.t, run.q, run.v
    vdot = _accelerations_all(own, run.formulation, t, q, v)
    labels, plain = own.control.labels, own.split(q)[0]
    if _layout(own) != _layout(system):
        if _layout(own.machine) != _layout(system):
            there = own.machine.bodies is not None and system.bodies is not None
            other = there and own.machine.bodies.body_names == system.machine.bodies.body_names  # pyright: ignore[reportOptionalMemberAccess]
            why = (
                f"is in {own.coordinates} coordinates, '{system.name}' in {system.coordinates} ones; build it as the "
                "run was"
                if other
                else f"is one of '{own.name}', whose bodies or coordinates are others than those of '{system.name}'"
            )
            raise DalembertError(f"This motion {why}.")
        q, v, vdot = _lifted_all(own, q, v, vdot)
        plain = own.machine.split(q)[0]
    if not system.control.size:
        return Motion(t, plain, v, vdot, {})
    if labels != system.control.labels:
        raise DalembertError(
            f"'{system.name}' has states of controllers ({', '.join(system.control.labels[:4])}) that this motion does "
            "not hold."
        )
    return Motion(t, q, v, vdot, {})


# ---- recorded numbers ------------------------------------------------------------------------------------------------


def _in_dataset(system: AbstractSystem, data) -> tuple:
    """Times, q, v and v̇ (None where they are missing) of labelled data, in the coordinates of the system."""
    bodies = system.bodies
    if "time" not in data or "run" in data.dims:
        raise DalembertError("A dataset of a motion has times, `time`, and is that of one run.")
    t = data["time"].values
    if bodies is None or bodies is not system:
        if "q" not in data:
            raise DalembertError(
                f"This dataset has no coordinates q of '{system.name}' ({system.coordinates}); build the system in "
                "absolute coordinates, or give arrays (times, q)."
            )
        return t, *(data[k].values if k in data else None for k in ("q", "v", "vdot"))
    turning = "angle" if bodies.kinematics.d == 2 else "quaternion"
    there = [str(b) for b in data["body"].values] if "body" in data else []
    missing = [b for b in bodies.body_names if b not in there]
    if missing or "position" not in data or turning not in data:
        what = f"body '{missing[0]}'" if missing else f"'{turning}'" if "position" in data else "'position'"
        raise DalembertError(f"This dataset has no {what}, which a motion of '{system.name}' needs.")
    data = data.sel(body=list(bodies.body_names))
    turns = "angular_velocity", "angular_acceleration"
    out = [t, _joined(data, "position", turning)]
    for moving, turn in zip(("velocity", "acceleration"), turns, strict=True):
        out.append(_joined(data, moving, turn) if moving in data and turn in data else None)
    return tuple(out)


def _joined(data, first: str, second: str) -> np.ndarray:
    """Two variables of all bodies, side by side, as one row for each time."""
    a, b = (data[k].transpose("time", "body", ...).values for k in (first, second))
    b = b[..., None] if b.ndim == 2 else b
    return np.concatenate([a, b], axis=2).reshape(len(a), -1)


def _rates(system, q, first, second):
    """v and v̇ of a curve with these derivatives: the part that q̇ = N v allows."""
    N = jax.jacfwd(lambda v: system.qdot(q, v))(jnp.zeros(system.n))
    v = jnp.linalg.solve(N.T @ N, N.T @ first)
    bend = jax.jvp(lambda q: system.qdot(q, v), (q,), (first,))[1]
    return v, jnp.linalg.solve(N.T @ N, N.T @ (second - bend))


_rates_all = compiled_for_each(_rates, 3)


def _gaps(system, t, q, v, vdot):
    """How far a state is off its rows, each over its size, and v̇ with what it is off taken out."""
    at = assemble_known(system, t, q, v)
    sizes = row_sizes(system, at)
    right = vdot
    if system.m:
        factor = at.factorise()
        for _ in range(3):  # one correction is not refined
            right = right - factor.correct((at.rows.mv(right) - at.Gamma)[:, None])[:, 0]
    return at.Phi / sizes[: len(at.Phi)], at.phi / sizes, right


_gaps_all = compiled_for_each(_gaps, 4)


def _recorded(system: AbstractSystem, numbers: tuple, tolerance: float) -> Motion:
    t, q, v, vdot = numbers
    if is_traced(t, q, v, vdot, system):
        if v is None or vdot is None:
            raise DalembertError("Under jit, vmap and grad a recorded motion needs v and vdot: (times, q, v, vdot).")
        t, q, v, vdot = (jnp.asarray(x, float) for x in numbers)
        return Motion(t, q, v, vdot, {})
    t, q, v, vdot = _checked(system, t, q, v, vdot)
    scale = np.asarray(system.scale())
    stabilisation = Projection()
    still = np.zeros((len(t), system.n))
    closed = np.asarray(project_all(system, stabilisation, t, q, still if v is None else v)[0])
    _refuse(system, "positions", np.asarray(_gaps_all(system, t, q, still, still)[0]), t, 1.0, tolerance)
    moved = {"position": float(np.max(np.abs(closed - q) / np.asarray(system.coordinate_scale()), initial=0.0))}
    curve = _spline(t, closed) if len(t) > DEGREE else None
    if curve is None and (v is None or vdot is None):
        raise DalembertError(
            f"A spline of degree {DEGREE} needs at least {DEGREE + 1} times, this motion has {len(t)}; give more, or v "
            "and vdot."
        )
    along = None
    if curve is not None:
        along = [np.asarray(x) for x in _rates_all(system, closed, curve.derivative(1)(t), curve.derivative(2)(t))]
    speeds = along[0] if v is None else v  # pyright: ignore[reportOptionalSubscript]
    fast = max(float(np.max(np.abs(speeds) / scale, initial=0.0)), 1e-300)
    if v is not None and along is not None:
        off = np.abs(v - along[0]) / scale
        if np.max(off) > max(tolerance, 1e-2) * fast:  # the spline itself errs between few times
            k, which = np.unravel_index(np.argmax(off), off.shape)
            raise DalembertError(
                f"This motion is not possible: at t = {t[k]:.6g} s v of {system.velocity_in_words(int(which))} is not "
                "the rate of q."
            )
    _refuse(system, "velocities", np.asarray(_gaps_all(system, t, closed, speeds, still)[1]), t, fast, tolerance)
    good = np.asarray(project_all(system, stabilisation, t, closed, speeds)[1])
    moved["velocity"] = float(np.max(np.abs(good - speeds) / scale, initial=0.0)) / fast
    if vdot is None:
        vdot = along[1] if v is None else _spline(t, good).derivative(1)(t)  # pyright: ignore[reportOptionalSubscript]
    right = np.asarray(_gaps_all(system, t, closed, good, vdot)[2])
    size = max(float(np.max(np.abs(vdot) / scale, initial=0.0)), fast**2, 1e-300)
    moved["acceleration"] = float(np.max(np.abs(right - vdot) / scale, initial=0.0)) / size
    if moved["acceleration"] > max(tolerance, 1e-2):
        k = int(np.argmax(np.max(np.abs(right - vdot) / scale, axis=1)))
        raise DalembertError(
            f"The constraints of '{system.name}' do not allow these accelerations: they are off by "
            f"{moved['acceleration']:.1e} of their size at t = {t[k]:.6g} s. Give closer times, or vdot."
        )
    return Motion(t, closed, good, right, moved)


def _spline(t, values):
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(t, values, k=DEGREE)


def _checked(system: AbstractSystem, t, q, v, vdot) -> tuple:
    """Recorded numbers as arrays of the right shape; quaternions continuous in sign."""
    try:
        t, q = np.asarray(t, float), np.asarray(q, float)
        v, vdot = (None if x is None else np.asarray(x, float) for x in (v, vdot))
    except (TypeError, ValueError):
        raise DalembertError("Recorded times, q, v and vdot must be arrays of numbers.") from None
    if t.ndim != 1 or not np.all(np.diff(t) > 0) or not len(t):
        raise DalembertError("The times of a recorded motion must rise.")
    if system.control.size:
        raise DalembertError(
            f"'{system.name}' has controllers with states ({', '.join(system.control.labels[:4])}), which recorded "
            "numbers do not hold; give a Solution of it, or remove the controllers."
        )
    for name, x, width in (("q", q, system.q0.shape[0]), ("v", v, system.n), ("vdot", vdot, system.n)):
        if x is not None and x.shape != (len(t), width):
            raise DalembertError(
                f"{name} of a motion of '{system.name}' has shape ({len(t)}, {width}), times first; got {x.shape}."
            )
        if x is not None and not np.all(np.isfinite(x)):
            raise DalembertError(f"{name} of this motion is not finite everywhere.")
    bodies = system.bodies
    if bodies is not None and bodies is system and bodies.kinematics.d == 3:
        table = q.reshape(len(q), -1, 7).copy()
        turns = table[..., 3:]
        same = np.sum(turns[1:] * turns[:-1], axis=-1) >= 0
        turns[1:] *= np.cumprod(np.where(same, 1.0, -1.0), axis=0)[..., None]
        q = table.reshape(q.shape)
    return t, q, v, vdot


def _refuse(system: AbstractSystem, what: str, gaps: np.ndarray, t, size: float, tolerance: float) -> None:
    """Refuse numbers that are off the rows, with the joint, the time and how far."""
    off = np.max(np.abs(gaps), axis=0, initial=0.0) / size
    if not len(off) or np.max(off) <= tolerance:
        return
    row = int(np.argmax(off))
    when = t[int(np.argmax(np.abs(gaps[:, row])))]
    owner = system.owner_of(row).name
    more = "" if what == "positions" else " (or its times are too far apart for a spline: give v)"
    of = "of the machine's size" if what == "positions" else "of the largest speed"
    raise DalembertError(
        f"This motion is not on the constraints: its {what} miss the rows of '{owner}' by {off[row]:.1e} {of} at "
        f"t = {when:.6g} s{more}. Correct the data, or allow more with tolerance=."
    )
