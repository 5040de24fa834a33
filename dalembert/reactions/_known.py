"""5c· reactions: what is known of joints besides the equations: where they only push, how much they bear."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.linalg import solves_cones
from dalembert.reactions._unique import UNITS, JointRows
from dalembert.systems import AbstractSystem

_THIRD = {"push": "pushes", "pull": "pulls"}


@dataclass(frozen=True)
class Known:
    """What is known of some joints' reactions, by name; all reactions that agree with it are possible.

    What a model itself says (`one_sided=True` of a support, a cable, a wheel; `friction=` of a contact) is known
    besides, and need not be given.

    **Arguments**

    - `push_only`: joints that cannot pull, `["leg1"]` or `{"foot": "Fz"}`; "-Fz" where they push the other way.
      Without a component the joint has one row that measures a gap (a point in a plane, a contact, a wheel).
    - `pull_only`: the opposite: cables and chains (`distance`).
    - `friction`: {"wheel": 0.6}: the force along the surface is at most 0.6 times what presses; {"foot": (0.6, "Fz")}
      for a joint with several force components. The joint then only pushes.
    - `strength`: {"bolt": 500.0}: |F| is at most 500; or by component {"bolt": {"F": 500.0, "Mz": 20.0,
      "Fx": (-100.0, 300.0)}} ("F" and "M" are resultants).
    - `play`: {"hinge": ["Mx", "My"]}: components that a joint cannot transmit because its play takes them up.

        >>> import dalembert as da
        >>> da.reactions.Known(push_only=["leg1", "leg2"], friction={"foot": (0.5, "Fz")}).joints
        ('foot', 'leg1', 'leg2')
    """

    push_only: Mapping[str, Any] | Sequence[str] = ()
    pull_only: Mapping[str, Any] | Sequence[str] = ()
    friction: Mapping[str, Any] = field(default_factory=dict)
    strength: Mapping[str, Any] = field(default_factory=dict)
    play: Mapping[str, Any] = field(default_factory=dict)

    @property
    def joints(self) -> tuple[str, ...]:
        """The joints of which something is known."""
        stated = (self.push_only, self.pull_only, self.friction, self.strength, self.play)
        return tuple(sorted({str(name) for x in stated for name in x}))

    def without(self, joints: Collection[str]) -> Known:
        """The same without what is known of some joints."""
        if not set(joints) & set(self.joints):
            return self

        def kept(given) -> Any:
            if isinstance(given, Mapping):
                return {name: x for name, x in given.items() if name not in joints}
            return given if isinstance(given, str) else [name for name in given if name not in joints]

        return Known(*(kept(getattr(self, x.name)) for x in dataclasses.fields(self)))

    def __bool__(self) -> bool:
        return bool(self.joints)


class Limit(NamedTuple):
    """One limit on λ: `rows` (1 × m) · λ + `at` ≥ 0, or = 0 (`equal`), or with several rows a cone: the first at least
    the norm of the others. In forces (torques over the machine's length); `words` say what fails if it does."""

    joint: str
    words: str
    rows: np.ndarray
    at: np.ndarray
    equal: bool = False
    pulls: str = ""  # "pull" or "push": what a one-sided joint would have to do
    size: float = 1.0  # a torque over this is such a force


def limits_of(known: Known, system: AbstractSystem, joints: Sequence[JointRows]) -> list[Limit]:
    """Everything that is known as limits on the multipliers of the machine's rows; first what the model says."""
    reader = _Reader(system, {j.name: j for j in joints})
    out = one_sided_limits(system)
    for given, sign, word, other in ((known.push_only, 1.0, "pull", "push"), (known.pull_only, -1.0, "push", "pull")):
        for name, component in _named(given, f"{other}_only"):
            row, size = reader.one_sided(name, component, f"{other}_only")
            out.append(
                Limit(name, f"{name} only {_THIRD[other]}", sign * row[None], np.zeros(1), pulls=word, size=size)
            )
    for name, given in _mapping(known.friction, "friction"):
        out += reader.cone(name, given)
    for name, given in _mapping(known.strength, "strength"):
        out += reader.strength(name, given)
    for name, given in _mapping(known.play, "play"):
        for label in [given] if isinstance(given, str) else given:
            row = reader.component(name, str(label), "play")
            out.append(Limit(name, f"{label} of {name} is taken up by its play", row[None], np.zeros(1), equal=True))
    return out


def one_sided_limits(system: AbstractSystem) -> list[Limit]:
    """What the model says of its rows: which are one-sided, and the friction of those that hold by it (in space this is
    a cone, and left out where the package for cones is not installed)."""
    out, friction = [], _frictions(system)
    for owner in system.owners:
        for row, sign in zip(owner.rows, owner.signs, strict=False):
            if sign:
                word, other = ("pull", "push") if sign > 0 else ("push", "pull")
                unit = _unit(system, row, sign)
                out.append(Limit(owner.name, f"{owner.name} only {_THIRD[other]}", unit[None], np.zeros(1), pulls=word))
                along = [_unit(system, r) for r in owner.rows if r >= system.m_holonomic]
                if owner.name in friction and (len(along) == 1 or solves_cones()):
                    mu = friction[owner.name]
                    out += _at_most(owner.name, _slips(owner.name, mu), mu * unit, 0.0, along)
    return out


def _unit(system: AbstractSystem, row: int, sign: float = 1.0) -> np.ndarray:
    return sign * np.eye(1, system.m, row)[0]


def _frictions(system: AbstractSystem) -> dict[str, float]:
    """The coefficients of friction of contacts, by name."""
    found = {}
    for f in system.row_families:
        if "friction" in f.p:
            found |= {name: float(f.p["friction"][k]) for k, name in enumerate(f.names)}
    return {name: mu for name, mu in found.items() if mu > 0}


def _slips(name: str, mu: float) -> str:
    return f"{name} would slip at a coefficient of friction of {mu:g}"


def _named(given, field_: str) -> Iterable[tuple[str, Any]]:
    if isinstance(given, str):
        raise DalembertError(f"{field_}={given!r} must be a list of joints, such as ['{given}'].")
    return given.items() if isinstance(given, Mapping) else [(name, None) for name in given]


def _mapping(given, field_: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(given, Mapping):
        raise DalembertError(f"{field_} must be a dictionary of joints, such as {{'leg1': …}}, not {given!r}.")
    return given.items()


class _Reader:
    """Names and components → rows over all multipliers."""

    def __init__(self, system: AbstractSystem, joints: dict[str, JointRows]):
        self.system, self.joints = system, joints

    def joint(self, name: str) -> JointRows:
        if name not in self.joints:
            hint = did_you_mean(str(name), self.joints)
            raise DalembertError(f"There is no joint '{name}'; the joints are {', '.join(self.joints)}.{hint}")
        return self.joints[name]

    def _spread(self, j: JointRows, own: np.ndarray) -> np.ndarray:
        out = np.zeros(self.system.m)
        out[list(j.rows)] = own
        return out

    def component(self, name: str, label: str, field_: str) -> np.ndarray:
        """A component as a function of λ, in the size of a force."""
        j = self.joint(name)
        sign, label = (-1.0, label[1:]) if label[:1] in ("-", "−") else (1.0, label)
        there = [x for x, has in zip(j.labels, j.transmitted, strict=True) if has]
        if label not in there:
            raise DalembertError(
                f"{field_}: '{name}' does not transmit {label}; its components are {', '.join(there)} (along its own "
                "axes)."
            )
        k = j.labels.index(label)
        return sign * self._spread(j, j.functionals[k] * j.units[k])

    def one_sided(self, name: str, component, field_: str) -> tuple[np.ndarray, float]:
        """What presses, as a function of λ in the size of a force, and that size."""
        j = self.joint(name)
        if isinstance(component, str):
            row = self.component(name, component, field_)
            return row, 1.0 / float(j.units[j.labels.index(component.lstrip("-−"))])
        if component not in (None, True):
            raise DalembertError(f"{field_}: '{name}' needs the name of a component, such as 'Fz', not {component!r}.")
        gaps = self._gaps(j)
        if len(gaps) != 1:
            raise DalembertError(
                f"{field_}: '{name}' has {len(gaps)} rows on positions, so it is not clear which of its components is "
                f"meant; name it, {{'{name}': 'Fz'}}."
            )
        return self._spread(j, np.eye(len(j.rows))[gaps[0]]), 1.0

    def _gaps(self, j: JointRows) -> list[int]:
        return [k for k, row in enumerate(j.rows) if row < self.system.m_holonomic]

    def cone(self, name: str, given) -> list[Limit]:
        j = self.joint(name)
        mu, component = given if isinstance(given, tuple | list) else (given, None)
        mu = _number(mu, f"friction of '{name}'", least=0.0)
        if component is None and len(self._gaps(j)) == 1:
            normal, _ = self.one_sided(name, None, "friction")
            along = [self._spread(j, np.eye(len(j.rows))[k]) for k in range(len(j.rows)) if k not in self._gaps(j)]
        elif isinstance(component, str):
            normal = self.component(name, component, "friction")
            forces = [x for x, has in zip(j.labels, j.transmitted, strict=True) if has and UNITS.get(x) == "N"]
            along = [self.component(name, x, "friction") for x in forces if x != component.lstrip("-−")]
        else:
            raise DalembertError(
                f"friction: it is not clear which component of '{name}' presses; {{'{name}': ({mu:g}, 'Fz')}}."
            )
        pressing = Limit(name, f"{name} only pushes", normal[None], np.zeros(1), pulls="pull")
        return [pressing, *_at_most(name, _slips(name, mu), mu * normal, 0.0, along)]

    def strength(self, name: str, given) -> list[Limit]:
        j = self.joint(name)
        there = [x for x, has in zip(j.labels, j.transmitted, strict=True) if has]
        if not isinstance(given, Mapping):
            given = {"F": given} if any(UNITS.get(x) == "N" for x in there) else dict.fromkeys(there, given)
        out: list[Limit] = []
        for label, bound in given.items():
            what = f"strength of {label} of '{name}'"
            words = f"{label} of {name} exceeds its strength"
            if label in ("F", "M"):
                parts = [self.component(name, x, "strength") for x in there if x.startswith(label)]
                most = _number(bound, what, least=0.0) * (1.0 if label == "F" else 1.0 / j.length)
                if not parts:
                    raise DalembertError(f"strength: '{name}' transmits no {label}; it has {', '.join(there)}.")
                out += _at_most(name, words, np.zeros(self.system.m), most, parts)
                continue
            low, high = bound if isinstance(bound, tuple | list) else (-_number(bound, what, least=0.0), bound)
            low, high = _number(low, what), _number(high, what)
            if low > high:
                raise DalembertError(f"The {what} must rise, not ({low:g}, {high:g}).")
            row = self.component(name, label, "strength")
            unit = j.units[j.labels.index(label)]
            out.append(Limit(name, words, row[None], np.array([-low * unit])))
            out.append(Limit(name, words, -row[None], np.array([high * unit])))
        return out


def _at_most(name: str, words: str, normal: np.ndarray, at: float, along: list[np.ndarray]) -> list[Limit]:
    """|along·λ| ≤ normal·λ + at."""
    if len(along) == 1:
        return [Limit(name, words, (normal + s * along[0])[None], np.array([at])) for s in (-1.0, 1.0)]
    return [Limit(name, words, np.stack([normal, *along]), np.append(at, np.zeros(len(along))))] if along else []


def _number(given, what: str, least: float = -np.inf) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = np.nan
    if not number >= least or not np.isfinite(number):
        wanted = "a number" if least == -np.inf else f"a number that is not below {least:g}"
        raise DalembertError(f"The {what} must be {wanted}, not {given!r}.")
    return number
