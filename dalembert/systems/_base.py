"""2 · systems: the interface of a machine in coordinates.

A system provides what the equations of motion need at a state and, where it has bodies, the same state seen on them
(the body view). Code above this room never checks which kind of system it has.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, tell_single_precision
from dalembert._typing import (
    Array,
    Coordinates,
    HolonomicRows,
    MachineRows,
    MachineVelocities,
    MotionRows,
    Rows,
    Scalar,
    Velocities,
    is_traced,
)
from dalembert.complements import Local
from dalembert.linalg import KLU, BlockMass, BlockPattern, BlockRows
from dalembert.systems import _measure
from dalembert.systems._control import NO_CONTROL, Control
from dalembert.systems._names import Named, Renaming, with_fields

if TYPE_CHECKING:
    from dalembert.equations import Equations
    from dalembert.systems._bodies import BodySystem
    from dalembert.systems._measure import ChannelView, Loads, Measure
    from dalembert.systems._rows import Family
    from dalembert.systems._touching import Touch


@dataclass(frozen=True)
class Nature:
    """What an item is to those who ask: its word for tables, and what follows from what it is."""

    label: str
    drives: bool = False  # it prescribes a motion in time
    own_rows: bool = False  # its rows are the user's own functions, without a joint frame
    timed: bool = False  # its rows may depend on time
    assumption: str = ""  # what is assumed about its force, as the end of a sentence
    impact: str = ""  # of a one-sided joint: the law of its impacts
    gap_is_angle: bool = False  # and whether its gaps are angles


@dataclass(frozen=True)
class RowOwner:
    """Which item owns which rows of C: its name, what it is, and the indices (holonomic rows first)."""

    name: str
    nature: Nature
    rows: tuple[int, ...]
    signs: tuple[int, ...] = ()  # of each row: the sign its multiplier must have, 0 for both; empty: all 0

    def renamed(self, to: Renaming) -> RowOwner:
        return dataclasses.replace(self, name=to(self.name))

    def renumbered(self, number: Mapping[int, int]) -> RowOwner:
        """With other numbers for its rows, without those that get none."""
        kept = [k for k, r in enumerate(self.rows) if r in number]
        signs = tuple(self.signs[k] for k in kept) if self.signs else ()
        return dataclasses.replace(self, rows=tuple(number[self.rows[k]] for k in kept), signs=signs)

    @property
    def drives(self) -> bool:
        """Whether it prescribes a motion in time."""
        return self.nature.drives

    @property
    def of_the_user(self) -> bool:
        """Whether its rows are the user's own functions."""
        return self.nature.own_rows


class AbstractMultiplierRule(Named):
    """What picks λ among all with Cᵀλ = r; the rules are in `reactions`. A system keeps one for the joint loads of
    friction, where these are not unique."""

    @abstractmethod
    def multipliers(self, system: AbstractSystem, equations: Equations, r: Velocities) -> Rows:
        """λ with Cᵀλ = r."""

    @abstractmethod
    def describe(self, system: AbstractSystem) -> str:
        """The rule's name as it is printed beside every number that it picked."""


class Constraints(NamedTuple):
    """The rows at one instant: Φ, C, φ = C v + b and Γ, with C v̇ = Γ.

    `share`: in joint coordinates the norm of each row relative to its norm in absolute ones; a row that vanishes at a
    singular position must not be scaled up, as its direction would be round-off.
    """

    Phi: HolonomicRows
    rows: BlockRows
    phi: Rows
    Gamma: Rows
    share: Rows | None = None


class Terms(NamedTuple):
    """All that the equations of motion need at one instant; `local` is C = Ĉ J, where a system provides the factors."""

    mass: BlockMass
    force: Velocities
    constraints: Constraints
    local: Local | None = None


class AbstractSystem(Named):
    """A machine in coordinates: M(t,q) v̇ = h(t,q,v) + Cᵀλ, Φ(t,q) = 0, φ(t,q,v) = C v + b = 0, q̇ = N(q) v.

    **The body view.** Reactions, pictures and labels are stated on a `machine`: the system itself, or, in joint
    coordinates, the same bodies in absolute coordinates with the rows of all joints. `lift` and the like map states,
    rates and multipliers to it; they are the identity where the machine is the system. `bodies` is the machine if it
    consists of bodies, and None for a user's own equations.
    """

    constant: ClassVar[bool] = True
    pattern: eqx.AbstractVar[BlockPattern]
    m_holonomic: eqx.AbstractVar[int]
    owners: eqx.AbstractVar[tuple[RowOwner, ...]]
    q0: eqx.AbstractVar[Coordinates]
    v0: eqx.AbstractVar[Velocities]
    asked: tuple[int, ...] = eqx.field(static=True, default=(), kw_only=True)
    """The parameters, by their place in `numbered_slots()`, that were replaced by numbers that JAX traces: it may be
    differentiated by these."""
    name: eqx.AbstractVar[str]
    klu: eqx.AbstractVar[KLU | None]

    # ---- what it is --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def coordinates(self) -> str:
        """Short name of the coordinates it is written in."""

    @property
    def constant_mass(self) -> bool:
        """Whether M is the same at all (t, q): then its rate is not computed."""
        return False

    @property
    def scleronomic(self) -> bool:
        """Whether no row depends on time, b = 0 for any parameters: then the rows do no work."""
        return self.m == 0

    @property
    def n(self) -> int:
        """Number of velocities."""
        return self.pattern.n

    @property
    def m(self) -> int:
        """Number of constraint rows, holonomic first."""
        return self.pattern.m

    # ---- equations of motion -----------------------------------------------------------------------------

    @abstractmethod
    def mass(self, t: Scalar, q: Coordinates) -> BlockMass:
        """M(t, q), n × n, symmetric and positive definite, as diagonal blocks."""

    @abstractmethod
    def force(self, t: Scalar, q: Coordinates, v: Velocities) -> Velocities:
        """h(t, q, v): applied forces and velocity-dependent inertia terms, conjugate to v."""

    @abstractmethod
    def potential(self, t: Scalar, q: Coordinates) -> Scalar:
        """Energy stored by gravity and springs; forces of h without a potential count as work."""

    @abstractmethod
    def terms(self, t: Scalar, q: Coordinates, v: Velocities) -> Terms:
        """M, h and the rows together: what they share is computed once."""

    @abstractmethod
    def residuals(self, t: Scalar, q: Coordinates, v: Velocities) -> tuple[HolonomicRows, Rows]:
        """Φ(t, q) and φ(t, q, v), without C."""

    @abstractmethod
    def position_residual(self, t: Scalar, q: Coordinates) -> HolonomicRows:
        """Φ(t, q): the holonomic rows."""

    @abstractmethod
    def motion_residual(self, t: Scalar, q: Coordinates, v: Velocities) -> MotionRows:
        """Ψ(t, q) v + ψ(t, q): the nonholonomic rows."""

    @abstractmethod
    def matrices(
        self, t: Scalar, q: Coordinates, joints: bool = False
    ) -> tuple[BlockMass, Float[Array, "m n"], Rows, Local | None]:
        """M, C, b and C = Ĉ J, all that depends on (t, q) alone; with `joints` the factors are those of joints."""

    @abstractmethod
    def qdot(self, q: Coordinates, v: Velocities) -> Coordinates:
        """q̇ = N(q) v."""

    @abstractmethod
    def retract(self, q: Coordinates, delta: Velocities) -> Coordinates:
        """q ⊕ δ: a small displacement, given as a velocity times a unit of time; unit quaternions stay so."""

    @abstractmethod
    def scale(self) -> Velocities:
        """A typical size of each velocity's displacement (a length for translations, 1 for angles)."""

    @abstractmethod
    def coordinate_scale(self) -> Coordinates:
        """The same for q."""

    # ---- parameters and rows -----------------------------------------------------------------------------

    @abstractmethod
    def slots(self) -> dict[str, tuple]:
        """For each named parameter where its value stands: objects that `get` it of a system and `set` it in a copy, of
        which all are set and the first is read."""

    def parameters(self) -> dict[str, Array]:
        """All named parameters and their values."""
        return {name: slots[0].get(self) for name, slots in self.slots().items()}

    def numbered_slots(self) -> list[tuple]:
        """Those of `slots`, in an order that depends neither on names nor on whether JAX has sorted the numbers."""
        slots = self.slots()
        return [slots[name] for name in _in_order(slots)]

    def replace(self, values: Mapping[str, object]) -> Self:
        """A copy with some parameters changed; works under jit, vmap and grad and never recompiles."""
        return _replaced(self, values, self.slots())

    @property
    @abstractmethod
    def row_families(self) -> tuple[Family, ...]:
        """Where the system's own rows are stated, kind by kind; their row numbers are those of C."""

    @abstractmethod
    def with_rows_of(self, name: str, change: Callable[[Family, np.ndarray], Family]) -> AbstractSystem:
        """A copy with the families changed that state the rows of an item, on the machine too; sizes stay. `change`
        gets a family, and which of its rows are the item's."""

    def without_rows(self, rows) -> AbstractSystem:
        """The same machine without these rows of C; items that lose all their rows are removed from its lists."""
        raise DalembertError("Rows can be left out of a built model only; write your own equations without them.")

    def owner_of(self, row: int) -> RowOwner:
        """The item that owns a row of C."""
        return next(o for o in self.owners if row in o.rows)

    def owner_named(self, name: str) -> RowOwner:
        """The item of this name, or an error."""
        for owner in self.owners:
            if owner.name == name:
                return owner
        names = ", ".join(o.name for o in self.owners)
        raise DalembertError(f"System '{self.name}' has no constraint '{name}'; it has {names}.")

    # ---- the body view -----------------------------------------------------------------------------------

    @property
    def bodies(self) -> BodySystem | None:
        """The machine, where it consists of bodies."""
        return None

    @property
    def machine(self) -> AbstractSystem:
        """The system in which reactions are stated."""
        return self

    def lift(self, q: Coordinates, v: Velocities) -> State:
        """The same state in the machine's coordinates and velocities."""
        return State(q, v)

    def lift_rate(self, q: Coordinates, v: Velocities, vdot: Velocities) -> MachineVelocities:
        """v̇ of the machine, from v̇ of the system."""
        return vdot

    def push_forward(self, q: Coordinates, v: Velocities) -> MachineVelocities:
        """Velocities, or a jump of them, as the machine's."""
        return v

    def pull_back(self, q: Coordinates, force: MachineVelocities) -> Velocities:
        """A generalised force on the machine as one on the system's velocities: of the same power."""
        return force

    def multipliers_of_machine(
        self, q: Float[Array, " machine_nq"], rows: BlockRows, r: MachineVelocities, lam: Rows
    ) -> MachineRows:
        """λ of all the machine's rows, at its coordinates q and rows C, from those of the system's own rows and the
        force r = Cᵀλ on the machine."""
        return lam

    def coordinate_labels(self) -> tuple[str, ...] | None:
        """Names of the entries of q, where they are not those of bodies."""
        return None

    def angles_in_q(self) -> dict[tuple[str, str], int]:
        """Of (joint, coordinate) of the machine those that are entries of q and count full turns, and where."""
        return {}

    def velocity_label(self, k: int) -> str:
        """What velocity k is, so that `velocities_named` finds it again."""
        return str(k)

    def velocity_in_words(self, k: int) -> str:
        """What velocity k is, as text for messages."""
        label = self.velocity_label(k)
        return f"coordinate {label}" if label == str(k) else f"coordinate '{label}'"

    def velocities_named(self, item) -> list[int]:
        """The velocities that a user names in `hold=`, or an error."""
        if not isinstance(item, int | np.integer) or isinstance(item, bool) or not 0 <= item < self.n:
            raise DalembertError(f"hold={item!r}: system '{self.name}' has velocities by index 0 … {self.n - 1}.")
        return [int(item)]

    def spin_terms(self, v: Velocities) -> Float[Array, "n n"] | None:
        """What is added to ∂v̇/∂v in frames that go with each body but do not spin with it; None for nothing.

        For a system whose displacements of angles are no rates of coordinates: see `linearise`.
        """
        return None

    @property
    def displaces_bodies(self) -> bool:
        """Whether small displacements must be those of the bodies, since q has no angles for them (ball joints)."""
        return False

    # ---- inputs and controllers --------------------------------------------------------------------------

    @property
    def control(self) -> Control:
        """Inputs, and the controllers that set them; their states are the last numbers of q."""
        return NO_CONTROL

    def split(self, q: Array) -> tuple[Array, Array]:
        """Coordinates, and states of controllers, of q (…, nq)."""
        size = self.control.size
        if size and q.shape[-1] != self.q0.shape[-1]:
            raise DalembertError(
                f"q of system '{self.name}' has {self.q0.shape[-1]} numbers, the last {size} of them states of its "
                f"controllers; got {q.shape[-1]}."
            )
        count = q.shape[-1] - size
        return q[..., :count], q[..., count:]

    def and_states(self, coordinates: Array, states: Array) -> Array:
        """The inverse of `split`."""
        return coordinates if not self.control.size else jnp.concatenate([coordinates, jnp.asarray(states)], axis=-1)

    def with_inputs(self, values: Mapping[str, Any]) -> Self:
        """A copy whose inputs are given: for each name a number (that may be traced), a formula of t, a function of
        time, a Python function of t, or times and values, between which it is linear."""
        if values:
            raise DalembertError(f"System '{self.name}' has no input '{next(iter(values))}'; it has none.")
        return self

    def with_control(self, control: Control) -> Self:
        """A copy with these inputs and controllers, of the same number of states."""
        raise DalembertError(f"System '{self.name}' has no inputs and no controllers.")

    def with_input_values(self, jets: Float[Array, "inputs 3"]) -> Self:
        """A copy in which the elements have these values of the inputs, with their rates and second rates."""
        return self

    def with_first_tick(self, t: Scalar) -> Self:
        """A copy whose sampled controllers tick first at t."""
        return self

    def driven(self, t: Scalar, q: Coordinates, v: Velocities) -> Self:
        """A copy in which the elements have the values of all inputs at this instant."""
        if not self.control.sources:
            return self
        return self.with_input_values(self.control.jets(_measure.Known(self, t, q, v)))

    def timed(self, t: Scalar) -> Self:
        """The same with inputs that are functions of time alone: all that rows may depend on."""
        return self.with_input_values(self.control.timed(t)) if self.control.sources else self

    def flow(self, t: Scalar, q: Coordinates, v: Velocities, vdot: Velocities, qdot: Coordinates) -> Coordinates:
        """q̇ with the rates of controllers' states, which are not linear in v."""
        if not self.control.size:
            return qdot
        return jnp.concatenate([self.split(qdot)[0], self.control.rates(_measure.Known(self, t, q, v, vdot))])

    def tick(
        self, t: Scalar, q: Coordinates, v: Velocities, vdot: Velocities | None = None, *, first: bool = False
    ) -> Coordinates:
        """q after the sampled controllers have acted whose tick is at t; with `first` all of them, as at a start."""
        if not self.control.sampled:
            return q
        own, z = self.split(q)

        def look(z):
            return _measure.Known(self, t, jnp.concatenate([own, z]), v, vdot)

        return jnp.concatenate([own, self.control.ticked(look, z, t, first)])

    @property
    def tick_needs_accelerations(self) -> bool:
        """Whether a sampled controller reads an acceleration."""
        sampled = (c for c in self.control.controllers if c.sampled)
        reads = {k for c in sampled for part in (*c.changes, *c.outputs) for k in part.reads}
        return any(_measure.height(self, k) >= 2 for k in reads)

    # ---- measurements ------------------------------------------------------------------------------------

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is measured, in the order in which the model states it."""
        return ()

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of all measured numbers, in the order of `measured`: tip.x, tip.y, tip.vx, …"""
        return _measure.channel_names(self)

    def channels_named(self, item: str) -> tuple[int, ...]:
        """The numbers of the channels that a name means: a channel ("tip.x"), a group ("tip.position"), a measurement
        ("tip": its position or value), a joint's coordinate ("pin.angle", "pin.angle_rate", "pin.angle_acceleration"),
        a state of a controller ("motor.current") or an input ("u"), which are numbered after all measurements; else an
        error.

        On the host: numbers, not names, go into what is compiled.
        """
        return _measure.channels_named(self, item)

    def channel(self, number: int) -> ChannelView:
        """What a measured number is called, its unit and its level (0 position, 1 velocity, 2 acceleration, 3
        reactions)."""
        return _measure.view_of(self, number)

    def is_position(self, channel: int) -> bool:
        """Whether a measured number is one of positions alone."""
        return _measure.is_position(self, channel)

    def counts_no_turns(self, channel: int) -> bool:
        """Whether a measured number is an angle that is known up to full turns."""
        return _measure.counts_no_turns(self, channel)

    def measured(
        self,
        t: Scalar,
        q: Coordinates,
        v: Velocities,
        vdot: Velocities | None = None,
        loads: Loads | None = None,
        *,
        only: Sequence[int] | None = None,
    ) -> Float[Array, " channels"]:
        """All measured numbers at an instant, or those of the channels in `only`; works under jit, vmap and grad.

        **Arguments**: t, q, v; `vdot`, v̇ of the system's velocities, without which accelerations are NaN; `loads`, what
        the constraints transmit (`da.reactions.loads_of`), without which reactions are NaN; `only`, numbers of channels
        (`channels_named`), in any order. **Returns** a number for each channel.
        """
        return _measure.measured(self, t, q, v, vdot, loads, only)

    # ---- laws that depend on turns, sides and loads --------------------------------------------------------

    @property
    def wound(self) -> tuple[str, ...]:
        """The laws on an angle that is only known within half a turn."""
        return ()

    def windings(self, t: Scalar, q: Coordinates) -> Float[Array, " laws"]:
        """Distance of these angles from the reference angle of each law."""
        return jnp.zeros(0)

    @property
    def sided(self) -> tuple[tuple[str, int], ...]:
        """Name and row (of `machine`) of teeth and belts: they bear on one of two sides, by the multiplier's sign."""
        return ()

    def with_sides(self, sides: MachineRows) -> AbstractSystem:
        """The system with the radial forces of its teeth and belts on these sides (+1, −1; 0: left out), one number for
        each row of `machine`. Where the wheels' centres are held this changes the reactions, not the motion."""
        return self

    @property
    def sticking(self) -> tuple[str, ...]:
        """The names of the dry friction that sticks, in a fixed order."""
        return ()

    @property
    def phases_stated(self) -> bool:
        """Whether it is stated of all such friction if it sticks or slips (`with_phases`)."""
        return True

    def with_phases(self, sides: Mapping[str, int], held_at: Mapping[str, float]) -> AbstractSystem:
        """A system built free, with friction that sticks (side 0), its coordinate held at a value by a row under the
        friction's name, or slips (side ±1, the sign of the rate)."""
        return self

    @property
    def touches(self) -> tuple[Touch, ...]:
        """The one-sided rows of the machine, closed or open, in a fixed order."""
        return ()

    @property
    def in_parts(self) -> bool:
        """Whether its motion is found in parts, from event to event: contacts, dry friction that sticks."""
        return bool(self.touches) or not self.phases_stated

    @property
    def closed(self) -> tuple[bool, ...]:
        """Which of them are rows now."""
        return ()

    def with_closed(self, closed: Sequence[bool], slides: Mapping[int, np.ndarray] | None = None) -> AbstractSystem:
        """The system with the rows of these contacts; the others are open. `slides` gives the direction of the slip of
        those of them that slide, by their number: along i's axes in its plane; of a line the sign."""
        return self

    def plain(self) -> AbstractSystem:
        """The same machine, which does not know that contacts could open and close."""
        return self

    def restitutions(self) -> Array:
        """Of each contact the restitution of its impacts."""
        return np.zeros(0)

    def frictions(self) -> Array:
        """Of each contact its coefficient of friction."""
        return np.zeros(0)

    def sticking_values(self, q: Coordinates) -> Float[Array, " frictions"]:
        """The coordinates on which such friction acts, in the order of `sticking`."""
        return jnp.zeros(0)

    def with_loads(self, rule: AbstractMultiplierRule | None, decided: bool = True) -> AbstractSystem:
        """The system with the rule that picks the joint loads for friction (None: they are unique)."""
        return self

    # ---- names -------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.owners)

    def __repr__(self) -> str:
        return f"{type(self).__name__} '{self.name}': n = {self.n} velocities, m = {self.m} constraint rows"


class State(NamedTuple):
    """Coordinates and velocities."""

    q: Coordinates
    v: Velocities


def renamed_owners(owners: tuple[RowOwner, ...], to: Renaming) -> tuple[RowOwner, ...]:
    """The owners of rows under other names."""
    return to.once(owners, lambda owners: tuple(o.renamed(to) for o in owners))


def _no_tensor(name: str, value: np.ndarray, slot) -> str | None:
    """What a 3 × 3 matrix must be and is not: the tensor of a body is symmetric, a marker's axes are a rotation."""
    value = np.broadcast_to(value, (3, 3))
    if getattr(slot, "positive", False):
        skew = np.max(np.abs(value - value.T))
        return f"symmetric; it is so up to {skew:.2g}" if skew > 1e-9 * np.max(np.abs(value)) else None
    if not name.rpartition(".")[2].endswith(("frame_i", "frame_j")):
        return None
    off = np.max(np.abs(value @ value.T - np.eye(3)))
    if off < 1e-6 and np.linalg.det(value) > 0:
        return None
    return "a rotation, the marker's axes as columns at right angles and of length 1"


def _is_positive(value: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a number is positive, or a tensor positive definite."""
    if not np.all(np.isfinite(value)):
        return False
    return bool((np.linalg.eigvalsh(np.broadcast_to(value, shape))[0] if shape else value) > 0)


def _numbers(name: str, system, value) -> np.ndarray:
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError):
        found = None
    if value is None or found is None:
        raise DalembertError(
            f"Parameter '{name}' of system '{system.name}' must be a number or an array, not {value!r}."
        )
    return found


def _in_order(slots: Mapping[str, tuple]) -> list[str]:
    """The names of slots in an order that depends neither on them nor on the order of an element's numbers, which
    programs of JAX bring into alphabetical order."""
    return sorted(slots, key=lambda name: name.rpartition(".")[2] if "." in name else "")


def _replaced(system, values: Mapping[str, object], slots: Mapping[str, tuple]):
    import difflib

    for name in values:
        if name not in slots:
            close = difflib.get_close_matches(name, slots, n=3)
            hint = f" Did you mean {', '.join(repr(c) for c in close)}?" if close else ""
            raise DalembertError(f"System '{system.name}' has no parameter '{name}'.{hint}")
    # what stands in several places first: a number of one of these places, if it is given too, has the last word
    for name, value in sorted(values.items(), key=lambda item: -len(slots[item[0]])):
        for slot in slots[name]:
            old = slot.get(system)
            if not is_traced(value):
                tell_single_precision(f"Parameter '{name}' of system '{system.name}'", value)
            new: Any = value if is_traced(value) else _numbers(name, system, value)
            if new.ndim > old.ndim or (new.ndim and new.shape != old.shape):
                raise DalembertError(
                    f"Parameter '{name}' of system '{system.name}' has shape {old.shape}; got {new.shape}."
                )
            if getattr(slot, "positive", False) and not is_traced(value) and not _is_positive(new, old.shape):
                word = "positive definite" if old.ndim else "greater than zero"
                raise DalembertError(f"Parameter '{name}' of system '{system.name}' must be {word}, not {value}.")
            if old.shape == (3, 3) and not is_traced(value) and (mistake := _no_tensor(name, new, slot)):
                raise DalembertError(f"Parameter '{name}' of system '{system.name}' must be {mistake}.")
            system = slot.set(system, new)
    asked = {k for k, name in enumerate(_in_order(slots)) if name in values and is_traced(values[name])}
    return with_fields(system, asked=tuple(sorted(asked.union(system.asked)))) if asked else system
