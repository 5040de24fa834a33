"""7 · analysis: `linearise`: small motions about an equilibrium or a steady motion as ẋ = A x + B u, y = C x + D u."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import is_traced
from dalembert.analysis._equilibrium import Equilibrium
from dalembert.analysis._linear_model import Channels, Linearisation, on_bodies
from dalembert.analysis._modes import peeled
from dalembert.analysis._state_space import Asked, Minimal
from dalembert.analysis._steady import Neighbourhood, steadiness, unsteady_channels
from dalembert.equations import assemble
from dalembert.formulations import Proximal
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, Instant, MinimumNorm, RequireUnique, decide_loads, rule_of
from dalembert.results import unique_channels
from dalembert.simulation import slipping
from dalembert.stabilise import State, consistent_state
from dalembert.systems import AbstractSystem, Known, build, compiled_quickly


def linearise(
    system: AbstractSystem | Model,
    at: State | tuple | Equilibrium | None = None,
    *,
    inputs: Sequence[str] | Mapping[str, Any] = (),
    outputs: Sequence[str] = (),
    open: bool | Sequence[str] = False,
    rule: AbstractReactionRule | str | None = None,
    t: float = 0.0,
    anywhere: bool = False,
) -> Linearisation:
    """The linear equations of small motions about an equilibrium or a steady motion, its modes and its responses.

    **Arguments**

    - `system`: a model or a system. `at`: where, a state (q, v), an `Equilibrium` (then of its own system), or None:
      the model's start, closed. `t`: when.
    - `inputs`: names of the model's inputs ("u"), or of joint coordinates and measured positions ("pin.angle",
      "tip.x"), along which a force or torque acts. With values, {"u": 3.0}: inputs of the model about these. What is
      added to an input that a controller sets is an input as well.
    - `outputs`: measured numbers as `model.measure` names them ("tip.position", "load.Fy"), joint coordinates
      ("pin.angle", "pin.angle_rate", "pin.angle_acceleration"), states of controllers, inputs. What the model leaves
      open of reactions is picked by `rule` (default: the minimum norm), and `output_rules` says so.
    - `open`: controllers (names, or True for all) whose outputs are held as they are. Sampled ones must be.
    - `anywhere`: linearise also where the state is neither; the result states it.

    **Returns** a `Linearisation`: `A`, `B`, `C`, `D` in minimal coordinates, `modes`, `eigenvalues`, `bode()`,
    `animate(k, path)`, `to_control()`, `replace(parameters)`. Continuous controllers add their states.

    Displacements are followed in frames that go with each body but do not spin with it: δṙ = δv, δθ̇ = δω,
    δω̇ = ∂ω̇ + ω × δω (components in the body's axes at this instant). So a steady motion in which bodies only spin
    about axes of symmetry (the wheels of a bicycle) has constant coefficients, and its eigenvalues are those
    of the motion. Where the machine turns as a whole (a conical pendulum, a disc rolling in a circle), v̇ = Ω × v, the
    frames turn with Ω; a displacement that stays where it is then shows as ±iΩ. Dense: one Jacobian of the
    accelerations. In joint coordinates with ball joints or free bodies, displacements are those of the bodies.

    A state that accelerates, or whose motion is not steady, has no meaningful eigenvalues: it is refused, with the name
    of what accelerates.

        >>> import dalembert as da
        >>> model = da.Model("pendulum", gravity=(0, -9.81))
        >>> bob = model.body("bob", mass=2.0, inertia=0.1, position=(0, -1))
        >>> pin = model.revolute("pin", model.ground, bob, at=(0, 0))
        >>> lin = da.linearise(model, inputs=["pin.angle"], outputs=["pin.angle"])
        >>> print(f"{lin.modes[0].frequency:.6f} Hz")
        0.486474 Hz
        >>> print(f"{lin.frequency_response([0.0]).values.real.item():.6f} rad/(N m)")
        0.050968 rad/(N m)
    """
    if isinstance(at, Equilibrium):
        system, at, t = _of_rest(at)
    elif isinstance(system, Model):
        system = build(system)
    if is_traced(system, at, t):
        raise DalembertError(
            f"'{system.name}' cannot be linearised under jit, vmap or grad: its sizes depend on numbers. Call "
            "lin = da.linearise(…) outside, and lin.replace({'mount.stiffness': k}) inside."
        )
    if isinstance(inputs, Mapping):
        system = system.with_inputs({k: x for k, x in inputs.items() if x is not None})
    q, v = consistent_state(system, at, t=t)
    given = None if at is None else at[1]
    if names := slipping(system, t, State(q, system.v0 if given is None else given)):
        raise DalembertError(
            f"'{system.name}' cannot be linearised here: contact '{names[0]}' slips at these velocities, and as a row "
            "it sticks. Give a state in which it rests; da.equilibrium finds one."
        )
    system = decide_loads(system, (q, v), t=t)
    system, states = _opened(system, open, t, q, v)
    whole, start = system, State(np.asarray(q), np.asarray(v))
    if system.displaces_bodies:
        q, v = system.lift(jnp.asarray(q), jnp.asarray(v))
        system = system.machine
    first = Instant(system, t, State(q, v))
    if first.dependence.rank < first.generic.dependence.rank:
        raise DalembertError(
            f"'{system.name}' cannot be linearised here: this is a singular position, where its motion may branch. "
            "Give a state beside it."
        )
    if system.machine.sided:
        first = first.loaded
        system = first.system
    channels = _named(system, inputs, outputs, states, rule, first)
    here = Neighbourhood(system, channels.asked, float(t), np.asarray(q), np.asarray(v))
    _refuse_drivers(here, channels)
    turning, remark = steadiness(here)
    for turn in here.turns() if remark else ():  # what turns about an axis through its bodies accelerates nothing
        again = steadiness(here, turn)
        if not again[1]:
            turning, remark = again
            break
    if remark and not anywhere:
        raise DalembertError(
            f"'{system.name}' cannot be linearised here: {remark} Give a state of equilibrium (da.equilibrium finds "
            "one) or of steady motion, or say anywhere=True to linearise at this instant all the same."
        )
    if not remark:
        _refuse_unsteady(here, turning, channels)
    turned = None if turning is None else here.turned(turning)
    minimal = Minimal.of(first, here.found, turned)
    if turned is None and not np.any(here.v) and all(minimal.counts) and minimal.holonomic == minimal.rows:
        # of a machine at rest coordinates in which the rounding of stiff parts does not reach soft ones
        bodies, load = on_bodies(minimal, here.found, np.asarray(system.scale()))
        minimal = minimal.rotated(peeled(bodies, load)[1])
    return Linearisation(
        system=whole, start=start, t=float(t), steady=not remark, remark=remark, turning=turning,
        channels=channels, minimal=minimal, found=here.found, instant=first,
    )  # fmt: skip


def _of_rest(rest: Equilibrium) -> tuple[AbstractSystem, State, float]:
    """System, state and time of an equilibrium that needs no efforts."""
    if is_traced(rest):
        raise DalembertError("An equilibrium that is being traced cannot be linearised; find it outside jit and grad.")
    if any(np.any(np.asarray(x)) for x in rest.efforts.values()):
        names = ", ".join(f"'{n}'" for n in rest.efforts)
        raise DalembertError(
            f"'{rest.name}' rests only because efforts hold {names}: as soon as it moves they are not known. Hold them "
            "with drivers or springs in the model, or let unknown= find the inputs that hold them."
        )
    return rest.system, rest.state, float(rest.t)


def _opened(system: AbstractSystem, open, t, q, v) -> tuple[AbstractSystem, tuple[int, ...]]:
    """The system with some controllers' outputs held, and which numbers at the end of q are states all the same."""
    control = system.control
    names = [c.name for c in control.controllers]
    wanted = names if open is True else [open] if isinstance(open, str) else [] if open is False else list(open)
    for name in wanted:
        if name not in names:
            there = f"it has {', '.join(names)}" if names else "it has none"
            raise DalembertError(
                f"open: '{system.name}' has no controller '{name}'; {there}.{did_you_mean(str(name), names)}"
            )
    closed = [c for c in control.controllers if c.name not in wanted]
    if sampled := [c.name for c in closed if c.sampled]:
        raise DalembertError(
            f"'{system.name}' cannot be linearised: controller '{sampled[0]}' is sampled, so that its motion "
            f"has no constant coefficients. Say open=['{sampled[0]}'] to hold its outputs (the machine without it), or "
            "state it as a continuous controller."
        )
    states = []
    for k, c in enumerate(control.controllers):
        if c.name not in wanted:
            states += range(control.place_of(k), control.place_of(k) + c.size)
    if not wanted:
        return system, tuple(states)
    which = [k for k, name in enumerate(names) if name in wanted]
    return system.with_control(control.opened(which, _inputs_now(system, t, q, v))), tuple(states)


def _inputs_now(system: AbstractSystem, t, q, v) -> np.ndarray:
    """The values of all inputs; sampled controllers act at once."""
    if system.control.sampled:
        vdot = None
        if system.tick_needs_accelerations:
            vdot = Proximal().solve(assemble(system, t, q, v)).vdot
        q = system.tick(t, q, v, vdot, first=True)
    return np.asarray(_inputs(system, np.asarray(t, float), np.asarray(q), np.asarray(v)))


@compiled_quickly
def _inputs(system: AbstractSystem, t, q, v):
    return system.control.jets(Known(system, t, q, v))[:, 0]


# ---- inputs and outputs by name --------------------------------------------------------------------------------------


def _named(system: AbstractSystem, inputs, outputs, states, rule, instant: Instant) -> Channels:
    """Inputs and outputs by number, with their names, units and rules."""
    sources = [x.name for x in system.control.sources]
    own, efforts, labels = [], [], []
    for item in [inputs] if isinstance(inputs, str) else inputs:
        if item in sources:
            own.append(sources.index(item))
            labels.append((str(item), system.control.sources[own[-1]].unit, len(own) - 1, True))
            continue
        for k in _effort(system, item, sources):
            efforts.append(k)
            seen = system.channel(k)
            labels.append((f"effort along {seen.name}", "N m" if seen.unit == "rad" else "N", len(efforts) - 1, False))
    numbers = []
    for item in [outputs] if isinstance(outputs, str) else outputs:
        numbers += system.channels_named(item)
    seen = [system.channel(k) for k in numbers]
    redundancy = instant.among_joints.redundancy if system.machine.m else 0
    chosen = rule_of(rule)
    if redundancy == 0 or chosen is None or isinstance(chosen, RequireUnique):
        chosen = MinimumNorm()
    chosen = chosen.prepare(system.machine, instant.on_bodies) if redundancy else None
    transmitted = any(x.level == 3 for x in seen)
    words = ["unique"] * len(seen)
    if redundancy and chosen is not None and transmitted:
        sure = unique_channels(instant, numbers)
        words = ["unique" if x else chosen.describe(system.machine) for x in sure]
    asked = Asked(tuple(own), tuple(efforts), tuple(numbers), states, transmitted, chosen if transmitted else None)
    order = [place if plain else len(own) + place for _, _, place, plain in labels]
    return Channels(
        asked=asked,
        inputs=tuple(x[0] for x in labels),
        input_units=tuple(x[1] for x in labels),
        order=tuple(order),
        outputs=tuple(x.name for x in seen),
        output_units=tuple(x.unit for x in seen),
        output_rules=tuple(words),
    )


def _effort(system: AbstractSystem, item, sources: Sequence[str]) -> tuple[int, ...]:
    """The measured positions along which an effort acts."""
    try:
        found = system.channels_named(str(item))
    except DalembertError:
        there = f"its inputs are {', '.join(sources)}" if sources else "it has no inputs (model.input)"
        bodies = system.bodies
        known = [*sources, *(f"{j.name}.{c}" for j in (bodies.joints if bodies else ()) for c, *_ in j.coordinates)]
        raise DalembertError(
            f"'{system.name}' has no input '{item}', and no joint coordinate or measured position of that name along "
            f"which an effort could act; {there}.{did_you_mean(str(item), known)}"
        ) from None
    for k in found:
        if not system.is_position(k):
            raise DalembertError(
                f"'{item}' cannot be an input of '{system.name}': an effort acts along a joint coordinate or a "
                "measured position, not along a rate, a force or a state."
            )
    return found


def _refuse_drivers(here: Neighbourhood, channels: Channels) -> None:
    """Inputs that move rows: their second derivatives would be the inputs."""
    moved = np.max(np.abs(here.found.driven), axis=0, initial=0.0) if len(here.found.driven) else np.zeros(0)
    for name, k in zip(channels.inputs, channels.order, strict=True):
        if len(moved) and moved[k] > 0:
            row = int(np.argmax(np.abs(here.found.driven[:, k])))
            h = here.system.m_holonomic  # Φ, then φ
            who = here.system.owner_of(row if row < h else row - h).name
            raise DalembertError(
                f"Input '{name}' prescribes the motion of '{who}': its first and second derivatives act as well, so "
                f"that it has no B. Let '{who}' be moved by a force, a motor or a pd_control instead."
            )


def _refuse_unsteady(here: Neighbourhood, turning, channels: Channels) -> None:
    inputs, outputs = unsteady_channels(here, turning)
    place = {k: name for name, k in zip(channels.inputs, channels.order, strict=True)}
    wrong = [f"input '{place[k]}'" for k in inputs] + [f"output '{channels.outputs[k]}'" for k in outputs]
    if wrong:
        raise DalembertError(
            f"'{here.system.name}' moves steadily, but the coefficients of {', '.join(wrong)} change with time: seen "
            "from fixed axes it turns or travels. Measure joint coordinates, distances, reactions along the joint's "
            "own axes, or points as seen from a body that goes with the motion."
        )
