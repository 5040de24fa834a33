"""7 · analysis: `equilibrium`: where a machine rests, whether it stays there, and what its joints bear."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, EquilibriumError
from dalembert._typing import Array, Scalar, is_traced
from dalembert.analysis._equilibrium import Equilibrium, LoadCases
from dalembert.analysis._free import motion_of
from dalembert.analysis._rest import FAR, START, Rest, Settled, Spring, balance, relaxed, settled, sizes, stiff
from dalembert.analysis._trim import brought, held_by, named, trimmed
from dalembert.equations import assemble_known
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, Known, PossibleSet, one_sided_limits, rule_of
from dalembert.simulation import contact_remarks
from dalembert.stabilise import State, consistent_state, row_sizes
from dalembert.systems import AbstractSystem, build, compiled_quickly

AT_REST = 1e-9
"""Force that may be left in an equilibrium, as a share of the machine's own forces."""
KINDS = ("stable", "nearest")


def equilibrium(
    model: Model | AbstractSystem,
    state: State | tuple | None = None,
    *,
    t: Scalar = 0.0,
    find: str = "stable",
    hold: Mapping[str, Any] | Sequence[str] = (),
    unknown: Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    rule: AbstractReactionRule | str | None = None,
) -> Any:
    """Where a machine rests under its loads and springs, with its drivers held; whether it stays there; reactions.

    From the start the machine goes where its forces push it, by steps of Newton's method in the mass metric, until
    they balance. A start that is in equilibrium is returned as it is, also if it is unstable. Dense and on the host:
    for n velocities about (n/100)³ × 50 ms a step.

    **Arguments**

    - `model`: a model or a system. `state`: where to begin, (q, v) of which v is not used; default the model's start.
    - `t`: the time at which drivers and loads are held.
    - `find`: "stable" goes downhill; "nearest" takes the equilibrium of any kind that Newton's method leads to.
    - `hold`: numbers that are held, with their values {"elbow.angle": 0.3}, or by name alone as they are at the start:
      joint coordinates and positions that are measured (`model.measure`). The efforts that hold them are the answer's
      `efforts`.
    - `unknown`: parameters or inputs that are to hold it instead (["motor.value"]), as many numbers as are held: they
      are found so that no effort is needed (trim). Their values are the answer's `unknown`.
    - `inputs`: what the model's inputs are, {"u": 3.0}.
    - `cases`: load cases, each with the parameters that differ, {"empty": {}, "full": {"load.value": (0, -500)}}.
    - `rule`: picks reactions that are not unique.

    **Returns** an `Equilibrium`, or with `cases` a `LoadCases`: a mapping of them. Raises `EquilibriumError` with the
    reason where none is found.

    Under jit, vmap and grad the search is Newton's method alone; look at `residual` and `step` then. Derivatives are
    those of the equilibrium (implicit differentiation).

        >>> import dalembert as da
        >>> model = da.Model("pendulum", gravity=(0, -9.81))
        >>> bob = model.body("bob", mass=2.0, inertia=0.1, position=(0.6, -0.8))
        >>> pin = model.revolute("pin", model.ground, bob, at=(0, 0))
        >>> rest = da.equilibrium(model)
        >>> rest.stable, [round(float(x), 6) + 0.0 for x in rest.reactions("pin")["force"].values]
        (True, [0.0, 19.62])
        >>> held = da.equilibrium(model, hold=["pin.angle"])
        >>> round(float(held.efforts["pin.angle"]), 4)
        11.772
    """
    system = at_rest(build(model) if isinstance(model, Model) else model, find, inputs)
    options = {"t": t, "find": find, "hold": hold, "unknown": unknown, "rule": rule}
    if cases is None:
        return _equilibrium(system, state, **options)
    if not isinstance(cases, Mapping) or not cases:
        raise DalembertError("cases= are load cases by name: {'empty': {}, 'full': {'load.value': (0, -500)}}.")
    found = {}
    for name, values in cases.items():
        try:
            found[str(name)] = _equilibrium(system.replace(values), state, **options)
        except EquilibriumError as error:
            raise EquilibriumError(f"Load case '{name}': {error}", error.q) from None
        except DalembertError as error:
            raise DalembertError(f"Load case '{name}': {error}") from None
    return LoadCases(system.name, found)


def at_rest(system: AbstractSystem, find: str, inputs: Mapping[str, Any] | None = None) -> AbstractSystem:
    """The system with its inputs; what cannot be asked is refused."""
    if find not in KINDS:
        raise DalembertError(f"find={find!r} is unknown; use 'stable' or 'nearest'.")
    if system.control.size:
        raise DalembertError(
            f"'{system.name}' has controllers with states of their own ({', '.join(system.control.labels[:4])}), which "
            "must stand still as well. Leave the controller out and let unknown= find the input that holds the "
            "machine: that is where an integrating controller comes to. Controllers without states can stay."
        )
    return system.with_inputs(inputs) if inputs else system


def _equilibrium(system: AbstractSystem, state, *, t, find, hold, unknown, rule) -> Equilibrium:
    traced = is_traced(system, state, t, hold, jax.lax.neg(np.ones(())))  # inside a jit all is traced
    t = jnp.asarray(t, float) if traced else np.asarray(t, float)
    q = None if state is None else state[0]
    q = consistent_state(system, (q, jnp.zeros(system.n)), t=t).q
    q = q if traced else np.asarray(q)
    remarks = () if traced else remarks_on(system, t, q)
    names, held = held_by(system, t, q, hold)
    rest = Rest(system, t, held)
    if held is not None:
        q = brought(rest, q, names)
    stable = find == "stable"
    parameters: dict[str, Any] = {}
    if len(unknown):
        rest, found, parameters = trimmed(rest, q, names, unknown, stable, find_rest)
        way, names = "Newton's method", {}  # no effort is left
    elif traced:
        found, way = settled(rest, START, q, stable), "Newton's method"
    else:
        found, way = find_rest(rest, q, stable)
    lam, efforts = found.lam[: system.m], named(names, found.lam[system.m :])
    numbers = (found.residual, found.step, found.moved, found.steps, found.freedoms)
    made = Equilibrium(
        rest.system, t, found.q, lam, *numbers, efforts, parameters, rest.held, rule_of(rule), way, remarks
    )
    if traced:
        return made
    return dataclasses.replace(made, remarks=(*remarks, *_found_remarks(made)))


def find_rest(rest: Rest, q: Array, stable: bool) -> tuple[Settled, str]:
    """The equilibrium, and how it was found: by Newton's method alone, or after dynamic relaxation."""
    found = settled(rest, START, q, stable)
    if good(found):
        return found, "the start" if found.moved < 1e-9 else "Newton's method"
    if np.all(np.isfinite(found.q)) and not unresisted(rest, found)[0]:
        let_go = relaxed(rest, START, q)
        again = settled(rest, START, let_go, stable)
        if good(again):
            moved = np.max(np.abs(again.q - q) / sizes(rest, START, q)[3])
            return again._replace(moved=moved), "dynamic relaxation, since Newton's method alone did not find it"
    raise EquilibriumError(_why(rest, found), found.q)


def good(found: Settled) -> bool:
    """Whether it is an equilibrium."""
    return bool(found.residual <= AT_REST and found.step <= 1e-5 and np.all(np.isfinite(found.q)))


# ---- its verdict in words -------------------------------------------------------------------------------------------


def remarks_on(system: AbstractSystem, t, q: Array) -> tuple[str, ...]:
    """What must be known of the search; refuses machines that cannot be at rest."""
    e = assemble_known(system, t, q, np.zeros(system.n))
    speeds = np.abs(np.asarray(e.phi)) / np.asarray(_row_sizes(system, e)) if system.m else np.zeros(0)
    h, out = system.m_holonomic, []
    going = [o for o in system.owners if any(speeds[r] > 1e-12 for r in o.rows if r >= h)]
    if going:
        names = ", ".join(f"'{o.name}'" for o in going)
        raise DalembertError(
            f"'{system.name}' cannot be at rest: {names} prescribe{'s' if len(going) == 1 else ''} a speed at "
            f"t = {float(t):g} s. Give a time at which nothing is driven, or hold the position with a driver instead."
        )
    driven = [o.name for o in system.owners if any(speeds[r] > 1e-12 for r in o.rows if r < h)]
    if driven:
        out.append(f"held where they are at t = {float(t):g} s: {', '.join(repr(n) for n in driven)}")
    if h < system.m:
        extra = e.dependence().rank - e.dependence(slice(h)).rank
        if extra:
            names = ", ".join(repr(o.name) for o in system.owners if any(r >= h for r in o.rows))
            out.append(
                f"{names}: rows on velocities alone leave equilibria a continuum of {extra} "
                f"dimension{'s' if extra > 1 else ''}; this is the one that the machine reaches from its start without "
                "breaking them"
            )
    bodies = system.bodies
    if bodies is not None and bodies.rubbing:
        names = ", ".join(repr(n) for n in bodies.rubbing)
        out.append(
            f"without the friction {names}: with dry friction a machine also rests wherever what is left of the loads "
            "is less than the friction can hold"
        )
    return tuple(out)


@compiled_quickly
def _row_sizes(system: AbstractSystem, equations):
    return row_sizes(system, equations)


def _found_remarks(found: Equilibrium) -> tuple[str, ...]:
    """What is noticed in the equilibrium itself."""
    out = []
    here = found.instant
    if here.generic.dependence.rank > here.dependence.rank:
        out.append(
            "this pose is singular: reactions that depend on each other here are open, and whether it is stable is "
            "decided by the motions that the joints allow to first order"
        )
    pulls = contact_remarks(found.system, float(found.t), found.q, np.asarray(found.lam))
    if not pulls and one_sided_limits(here.machine):  # else what slips
        pulls = tuple(f"{x.text}: the machine does not rest so" for x in PossibleSet.at(here.loaded, Known()).empty())
    return (*out, *pulls)


def _why(rest: Rest, found: Settled) -> str:
    """Why there is no equilibrium."""
    system, q = rest.system, np.asarray(found.q)
    head = f"No equilibrium was found for '{system.name}'"
    if not np.all(np.isfinite(q)) or not np.isfinite(found.residual):
        return f"{head}: forces or positions are not finite numbers on the way there. Begin elsewhere (state=)."
    unheld, acceleration = unresisted(rest, found)
    body, doing = _leading(system, q, acceleration)
    if unheld:
        return (
            f"{head}: nothing resists {body} {doing}. Hold it with a joint, a driver or a spring, or name in hold= "
            "what is to be held."
        )
    return (
        f"{head}: after {int(found.steps)} steps of Newton's method and dynamic relaxation {body} is still {doing}, "
        f"with a force of {found.residual:.1e} of the machine's own. Begin nearer to it (state=), raise the load step "
        "by step (da.quasistatic), or let find='nearest' take an unstable one."
    )


def unresisted(rest: Rest, found: Settled) -> tuple[bool, np.ndarray]:
    """Whether what is left of the forces meets no stiffness, and the accelerations that it makes."""
    q = np.asarray(found.q)
    at = balance(rest, START, q)
    own, reach = sizes(rest, START, q)[:2]
    spring = Spring(np, at, stiff(rest, START, q, at.lam), own, reach)
    soft = (spring.vectors * spring.soft) @ (spring.vectors.T @ at.left)
    far = found.moved > 0.1 * FAR
    none = bool(far or np.linalg.norm(soft) > 0.5 * np.linalg.norm(at.left))
    return none, np.asarray(at.displacement(soft if none and not far else at.left))


def _leading(system: AbstractSystem, q: np.ndarray, acceleration: np.ndarray) -> tuple[str, str]:
    """The body that accelerates most, and what it does, in words."""
    motion = np.asarray(system.push_forward(jnp.asarray(q), jnp.asarray(acceleration)))
    bodies = system.bodies
    if bodies is None:
        k = int(np.argmax(np.abs(acceleration) / np.asarray(system.scale())))
        return system.velocity_in_words(k), "moving"
    parts = motion_of(bodies, motion)
    size = float(bodies.size)
    lead = max(parts.bodies, key=lambda b: max(b.turns, b.moves / size))
    own = motion.reshape(len(bodies.body_names), -1)[bodies.body_names.index(lead.name)]
    d, gravity = bodies.kinematics.d, np.asarray(bodies.gravity)
    moves, turns = own[:d], own[d:]
    if np.linalg.norm(turns) > np.linalg.norm(moves) / size:
        return f"body '{lead.name}'", "turning"
    down = moves @ gravity > 0.9 * np.linalg.norm(moves) * np.linalg.norm(gravity) > 0
    return f"body '{lead.name}'", "falling" if down else "moving"
