"""7 · analysis: `quasistatic`: a machine under a slowly changing load, parameter or driver, and where it snaps."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.analysis._equilibrium import Equilibrium, labelled, moving, picture, reactions_in
from dalembert.analysis._follow import LONGEST, Ending, Event, Place, follow
from dalembert.analysis._free import FreeMotion, motion_of
from dalembert.analysis._printed import Printed, reports
from dalembert.analysis._rest import NEUTRAL, Along, Held, Rest, Spring, settled
from dalembert.analysis._statics import at_rest, find_rest, good, remarks_on
from dalembert.analysis._trim import brought, held_by, named
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, rule_of
from dalembert.stabilise import State, consistent_state
from dalembert.systems import AbstractSystem, build

if TYPE_CHECKING:
    import xarray as xr

TIME = "t"
"""What stands for time among the names of what changes."""


@dataclass(frozen=True)
class SpecialPoint:
    """A place on a path where a stiffness passes zero: what happens there (`what`), at which share s of the way and
    which `values`, and the `motion` that then meets no resistance.

    At a "limit point" the load has its largest (or least) value: pushed on, the machine snaps, to `lands`, if it comes
    to rest again (`snapped`: how far that is, in machine sizes). At a "bifurcation" other paths branch off; "flutter"
    begins where forces without a potential let two motions feed each other.
    """

    what: str
    s: float
    values: dict[str, Any]
    motion: FreeMotion
    q: np.ndarray = field(repr=False)
    lands: np.ndarray | None = field(default=None, repr=False)
    snapped: float | None = None

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {_short(x)}" for name, x in self.values.items())
        what = f"{self.what} at {at} ({self.s:.4g} of the way): {self.motion}"
        if self.what != "limit point":
            return what
        if self.snapped is None:
            return f"{what}; beyond, it finds no rest"
        return f"{what}; beyond, it snaps by {self.snapped:.2g} of the machine's size"


@dataclass(frozen=True, repr=False)
class StaticPath(Printed):
    """Equilibria along a changing load, parameter or driver. `print` it, or read the fields.

    `s` is the share of the way at each step (it falls where the path turns back), `values` what changes, `q` the poses,
    `stability` a word for each. `special` are the limit points and bifurcations, `reached` states whether the path came
    to its end, and `message` how it ended. `path[k]` is one `Equilibrium`.
    """

    system: AbstractSystem
    s: np.ndarray
    values: dict[str, np.ndarray]
    q: np.ndarray
    stability: tuple[str, ...]
    special: tuple[SpecialPoint, ...]
    reached: bool
    message: str
    rest: Rest
    places: tuple[Place, ...]
    names: dict[str, int]  # what is held, with how many numbers each is
    remarks: tuple[str, ...] = ()
    chosen: AbstractReactionRule | None = None

    @property
    def name(self) -> str:
        return self.system.name

    def __len__(self) -> int:
        return len(self.s)

    def __getitem__(self, k: int) -> Equilibrium:
        return self._equilibria[k]

    @functools.cached_property
    def _equilibria(self) -> list[Equilibrium]:
        return [_equilibrium_at(self, place) for place in self.places]

    @property
    def limits(self) -> tuple[SpecialPoint, ...]:
        """The limit points."""
        return tuple(p for p in self.special if p.what == "limit point")

    @property
    def bifurcations(self) -> tuple[SpecialPoint, ...]:
        return tuple(p for p in self.special if p.what == "bifurcation")

    @property
    def efforts(self) -> dict[str, np.ndarray]:
        """The efforts that hold what is held, at each step."""
        m = self.system.m
        lam = np.array([place.at.lam[m:] for place in self.places])
        return {name: np.asarray(x).T for name, x in named(self.names, lam.T).items()}

    def measured(self, name: str) -> np.ndarray:
        """A measured number, or a joint coordinate, at each step."""
        only = self.system.channels_named(name)
        if not all(self.system.is_position(k) for k in only):  # forces, and what follows from them
            seen = [self.system.channel(k).name for k in only]
            there = self.dataset
            if "channel" in there and set(seen) <= set(there["channel"].values.tolist()):
                found = there["measurement"].sel(channel=seen).values
                return found[:, 0] if len(only) == 1 else found
        rows = []
        for place in self.places:
            system, t = self.rest.at(np.asarray(place.s))
            rows.append(np.asarray(system.measured(t, jnp.asarray(place.q), jnp.zeros(system.n), only=only)))
        return np.array(rows)[:, 0] if len(only) == 1 else np.array(rows)

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """All steps with names and units, along a dimension `step`."""
        data = labelled(self._equilibria, "step", range(len(self.s)))
        text = {"units": "1", "long_name": "share of the way"}
        data = data.assign(s=("step", self.s, text)).assign_attrs(statics="path", message=self.message)
        for name, x in self.values.items():
            data = data.assign({name: (("step", *(f"{name}_{k}" for k in range(x.ndim - 1))), x)})
        return data

    def reactions(self, joint: str, *, frame: str = "world") -> xr.Dataset:
        """Force and torque of a joint on its body j along the path, as of a motion."""
        return reactions_in(self.dataset, joint, frame, str(self.dataset.attrs["reaction_rule"]))

    def as_dict(self) -> dict:
        """Plain data, ready for JSON."""
        return {
            "name": self.name,
            "reached": self.reached,
            "message": self.message,
            "s": self.s.tolist(),
            "values": {k: x.tolist() for k, x in self.values.items()},
            "stability": list(self.stability),
            "q": self.q.tolist(),
            "efforts": {k: x.tolist() for k, x in self.efforts.items()},
            "special": [
                {
                    "what": p.what,
                    "s": p.s,
                    "values": {k: np.asarray(x).tolist() for k, x in p.values.items()},
                    "motion": [b._asdict() for b in p.motion.bodies],
                    "snapped": p.snapped,
                    "q": p.q.tolist(),
                }
                for p in self.special
            ],
            "remarks": list(self.remarks),
        }

    def plot(self, what: str | None = None, *, path=None) -> Any:
        """A figure of the path: a measured number or joint coordinate (`what`; default the one that moves most), an
        effort, or the size of a joint's reaction, over the share of the way; unstable parts are dashed, special points
        marked. Saved to `path` if given. "mechanism" shows the machine at the start."""
        if what is not None and path is None and Path(what).suffix in (".png", ".pdf", ".svg"):
            what, path = None, what
        if what == "mechanism":
            return picture(self.dataset, "step", path, f"{self.name}, at the start of the path")
        from dalembert.view import plot_path

        name, x, marked = self._shown(what)
        return plot_path(self.name, self.s, x, name, self.stability, marked, path)

    def _shown(self, what: str | None) -> tuple[str, np.ndarray, list[tuple[str, float, float]]]:
        """What is drawn: its name, its values, and those of the special points."""
        efforts = self.efforts
        if what in efforts:
            return f"effort along {what}", np.asarray(efforts[what]), []
        if what is None and efforts:
            return self._shown(next(iter(efforts)))
        if what is not None and what in [j.name for j in getattr(self.system.bodies, "joints", ())]:
            return self._reaction(what)
        if what is None:
            return self._moving_most()
        x = self.measured(what)
        if x.ndim > 1:
            raise DalembertError(f"'{what}' is {x.shape[1]} numbers; name one of them.")
        marked = []
        of_positions = all(self.system.is_position(k) for k in self.system.channels_named(what))
        for p in self.special if of_positions else ():
            system, t = self.rest.at(np.asarray(p.s))
            only = system.channels_named(what)
            value = system.measured(t, jnp.asarray(p.q), jnp.zeros(system.n), only=only)
            marked.append((p.what, p.s, float(value[0])))
        return what, x, marked

    def _reaction(self, joint: str) -> tuple[str, np.ndarray, list[tuple[str, float, float]]]:
        """The size of a joint's force; of its torque where it has no force."""
        found = self.reactions(joint)
        force, torque = (np.asarray(found[x].values).reshape(len(self), -1) for x in ("force", "torque"))
        if np.any(force):
            return f"reaction of {joint} (N)", np.linalg.norm(force, axis=1), []
        return f"reaction of {joint} (N m)", np.linalg.norm(torque, axis=1), []

    def _moving_most(self) -> tuple[str, np.ndarray, list[tuple[str, float, float]]]:
        """The joint coordinate that moves most; without any a position of a body, or a coordinate."""
        data = self.dataset
        if "coordinate" in data:
            moves = np.ptp(data["coordinate"].values, axis=0)
            return self._shown(str(data["joint_coordinate"].values[int(np.argmax(moves))]))
        k = int(np.argmax(np.ptp(self.q, axis=0) / np.asarray(self.system.coordinate_scale())))
        labels = self.system.coordinate_labels()
        name = f"q{k}" if labels is None else labels[k]
        bodies = self.system.bodies
        if bodies is not None and bodies is self.system:
            body, place = divmod(k, bodies.dq)
            name = f"{bodies.body_names[body]}, coordinate {place + 1}"
        return name, self.q[:, k], [(p.what, p.s, float(p.q[k])) for p in self.special]

    def animate(self, path, **options) -> Path:
        """Write the path as a motion through its poses: .html, .gif or .mp4. See `Solution.animate`."""
        from dalembert.view import animate_dataset

        return animate_dataset(moving(self.dataset, "step"), path, **options)

    def to_netcdf(self, path) -> Path:
        """Write the dataset as netCDF-4."""
        from dalembert.io import write_netcdf

        return write_netcdf(self.dataset, path)

    def summary(self) -> str:
        """How far the path came, and where it snaps."""
        return "\n".join(reports().path_summary(self))

    def __rich__(self):
        return reports().path_renderable(self)


def quasistatic(
    model: Model | AbstractSystem,
    along: Mapping[str, tuple[Any, Any]],
    state: State | tuple | None = None,
    *,
    t: float = 0.0,
    find: str = "stable",
    hold: Mapping[str, Any] | Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
    longest: float = LONGEST,
    least: float = -2.0,
    most: int = 2000,
    rule: AbstractReactionRule | str | None = None,
) -> StaticPath:
    """The equilibria of a machine while a load, a parameter or a driver changes slowly, and where it snaps.

    Followed by the arc length of the path, so it goes on past limit points, where the load itself has to fall, through
    unstable equilibria; the result marks these. On the host; a step costs a few steps of `equilibrium`.

    **Arguments**

    - `model`: a model or a system.
    - `along`: what changes, from where to where: parameters and inputs {"load.value": ((0, 0), (0, -500))}, drivers
      {"lift.value": (0.2, 1.5)}, the time of all drivers and loads {"t": (0, 10)}, or a number that is held by an
      effort, a joint coordinate or a measured position {"elbow.angle": (0, 1.2)}. Several change together.
    - `state`: where the search for the first equilibrium begins. `find`, `hold`, `inputs`, `rule`, `t`: as in
      `equilibrium`.
    - `longest`: the longest step, of the way or of the machine's size. `least`: the path ends where it has gone back
      to this share of the way. `most`: the most steps.

    **Returns** a `StaticPath`: poses, stability, limit points and bifurcations with the bodies that move there,
    efforts, reactions, `plot`, `animate`. A path that ends early states why in `message`.

        >>> import dalembert as da
        >>> model = da.Model("beam", gravity=(0, 0))
        >>> beam = model.body("beam", mass=1.0, inertia=0.1, position=(0, 0.5))
        >>> pin = model.revolute("pin", model.ground, beam, at=(0, 0))
        >>> spring = model.joint_spring("spring", "pin", stiffness=3.0)
        >>> load = model.force("load", beam, (0, 0), at=(0, 1))
        >>> path = da.quasistatic(model, {"load.value": ((0, 0), (0, -4))})
        >>> path.bifurcations[0].values["load.value"].round(9)
        array([ 0., -3.])
    """
    system = at_rest(build(model) if isinstance(model, Model) else model, find, inputs)
    if system.touches:
        raise DalembertError(
            f"Joint '{system.touches[0].joint}' of '{system.name}' is one-sided: a path of equilibria on which it "
            "opens or closes is not followed. Take system.plain(), whose contacts stay as they are at the start."
        )
    if is_traced(system, state, t):
        raise DalembertError(
            "quasistatic follows a path on the host and cannot be traced; for derivatives take da.equilibrium at a "
            "place of the path, with state=(path.q[k], None)."
        )
    if not 0 < longest <= 1:
        raise DalembertError(f"longest={longest!r} must be a share of the way, above 0 and at most 1.")
    q0 = None if state is None else state[0]
    rest, names, q, ends = _asked(system, along, q0, t, hold)
    remarks = remarks_on(rest.system, rest.t, q)
    if rest.held is not None:
        q = brought(rest, q, names)
    first, _ = find_rest(rest, q, find == "stable")
    start = Place(rest, 0.0, np.asarray(first.q))
    _refuse_spread(start)
    places, events, ending = follow(start, longest, least, most)
    s = np.array([p.s for p in places])
    return StaticPath(
        system=rest.system,
        s=s,
        values={name: np.array([_between(a, b, x) for x in s]) for name, (a, b) in ends.items()},
        q=np.array([p.q for p in places]),
        stability=tuple(_word(p) for p in places),
        special=tuple(_special(rest, e, ends) for e in events),
        reached=ending is Ending.reached,
        message=ending.value.format(s=s[-1], most=np.max(s), count=most),
        remarks=remarks,
        chosen=rule_of(rule),
        rest=rest,
        places=tuple(places),
        names=names,
    )


def _asked(system: AbstractSystem, along, q0, t, hold):
    """What changes from where to where, and the machine at the start of it, closed."""
    if not isinstance(along, Mapping) or not along:
        raise DalembertError(
            "quasistatic: say what changes, from where to where: along={'load.value': ((0, 0), (0, -500))}."
        )
    ends: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, both in along.items():
        if not isinstance(both, list | tuple) or len(both) != 2:
            raise DalembertError(f"along: '{name}' needs two values, from where to where, not {both!r}.")
        try:
            first, last = np.broadcast_arrays(*(np.asarray(x, float) for x in both))
        except (TypeError, ValueError):
            first = last = np.array(np.nan)
        if not (np.all(np.isfinite(first)) and np.all(np.isfinite(last))):
            raise DalembertError(
                f"along: '{name}' goes from a number to a number, or from a list to another, not {both!r}."
            )
        ends[str(name)] = first, last
    parameters = system.parameters()
    moved = {n: x for n, x in ends.items() if n in parameters}
    times = ends.get(TIME, (np.asarray(t, float),) * 2)
    heights = {n: x for n, x in ends.items() if n not in parameters and n != TIME}
    for name in heights:
        _refuse_unknown(system, name, parameters)
    first, last = (system.replace({n: x[k] for n, x in moved.items()}) for k in (0, 1))
    start = np.asarray(consistent_state(first, (q0, jnp.zeros(system.n)), t=times[0]).q)
    holding = dict(hold) if isinstance(hold, Mapping) else dict.fromkeys([hold] if isinstance(hold, str) else hold)
    holding |= {n: x[0] for n, x in heights.items()}
    names, held = held_by(first, times[0], start, holding)
    rates = None
    if held is not None:
        rates = np.concatenate([np.zeros(k) if n not in heights else np.ravel(heights[n][1] - heights[n][0])
                                for n, k in names.items()])  # fmt: skip
    change = Along.between(first, last, float(times[1] - times[0]), rates)
    return Rest(first, np.asarray(times[0], float), held, change), names, start, ends


def _refuse_spread(place: Place) -> None:
    """Refuse a machine with a stiffness that is lost beside that of its stiffest part, or beside its loads."""
    lost = np.abs(place.modes[0]) <= NEUTRAL * place.typical
    if not np.any(lost) or np.sum(lost) <= np.sum(Spring(np, place.at, place.K, place.own, place.reach).soft):
        return  # what seems to resist nothing does resist nothing
    system, _ = place.rest.at(np.asarray(place.s))
    mode = place.modes[1][:, int(np.flatnonzero(lost)[0])]
    motion = motion_of(system.machine, np.asarray(system.push_forward(jnp.asarray(place.q), jnp.asarray(mode))))
    who = ", ".join(f"'{b.name}'" for b in motion.bodies) or str(motion)
    raise DalembertError(
        f"quasistatic: the path of '{system.name}' cannot be followed. Against its stiffest part, or the load of the "
        f"whole way, what resists a motion of {who} is less than {NEUTRAL:.0e}. Make the stiff part rigid (a joint) or "
        "less stiff; da.equilibrium finds single poses."
    )


def _refuse_unknown(system: AbstractSystem, name: str, parameters) -> None:
    from dalembert._results import did_you_mean

    try:
        system.channels_named(name)
    except DalembertError:
        known = [*parameters, TIME, *system.channels]
        raise DalembertError(
            f"along: '{system.name}' has no parameter, measurement or joint coordinate '{name}'."
            f"{did_you_mean(name, known)}"
        ) from None


def _between(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
    return a + s * (b - a)


def _word(place: Place) -> str:
    values = place.modes[0]
    if len(values) == 0:
        return "fixed"
    if place.negative or place.flutters:
        return "unstable"
    return "indifferent" if np.min(np.abs(values)) <= 1e-10 * place.typical else "stable"


def _special(rest: Rest, event: Event, ends: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> SpecialPoint:
    """A special place, and where the machine lands if it snaps there."""
    place = event.place
    system, _ = rest.at(np.asarray(place.s))
    motion = np.asarray(system.push_forward(jnp.asarray(place.q), jnp.asarray(event.mode)))
    lands = snapped = None
    if event.what == "limit point":
        found = _landing(rest, place, event.mode)
        if found is not None:
            lands, snapped = found
    values = {name: _between(a, b, place.s) for name, (a, b) in ends.items()}
    return SpecialPoint(event.what, place.s, values, motion_of(system.machine, motion), place.q, lands, snapped)


def _landing(rest: Rest, place: Place, mode: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Where the machine comes to rest when it is pushed beyond a limit point a little."""
    forward = 1.0 if place.forward is None or place.forward[-1] >= 0 else -1.0
    s = np.asarray(place.s + forward * 1e-4)
    found = settled(rest, s, place.q, True)
    return (np.asarray(found.q), float(found.moved)) if good(found) else None


def _equilibrium_at(path: StaticPath, place: Place) -> Equilibrium:
    rest = path.rest
    system, t = rest.at(np.asarray(place.s))
    m = system.m
    held = rest.held
    if held is not None and rest.along is not None and rest.along.held is not None:
        held = Held(held.channels, held.angles, held.values + place.s * rest.along.held)
    residual = np.linalg.norm(place.left) / max(place.force, 1e-300)
    zero = np.zeros(())
    return Equilibrium(
        system, np.asarray(t, float), place.q, place.at.lam[:m], np.asarray(residual), zero, zero, zero,
        np.asarray(place.at.freedoms), named(path.names, place.at.lam[m:]), {}, held, path.chosen, "a path",
    )  # fmt: skip


def _short(x) -> str:
    x = np.ravel(np.asarray(x))
    return f"{x[0]:.6g}" if len(x) == 1 else f"({', '.join(f'{y:.6g}' for y in x)})"
