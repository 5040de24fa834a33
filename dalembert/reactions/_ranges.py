"""5c· reactions: all that are possible: the least and the greatest value of every component, with proofs.

All λ with Cᵀλ = r are λ₀ + N y (N from the null vectors of Cᵀ). What is known of joints (`Known`) are linear and conic
limits on y, so the possible reactions are a convex set, and the ends of each component are linear or conic programmes
over few unknowns, as many as rows are redundant (`linalg.extremes`; docs/theory/ranges.md). y is measured in forces
(torques over the machine's length) relative to the load, so no unit enters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dalembert._results import DalembertError
from dalembert.linalg import GAP, ZERO, Cone, Conflict, ConvexSet, Dependence, Extremes, MissingSolver, analytic_centre
from dalembert.linalg import extremes as extremes_on
from dalembert.reactions._instant import Instant
from dalembert.reactions._known import Known, Limit, limits_of
from dalembert.reactions._unique import UNITS, JointRows, Uniqueness
from dalembert.systems import AbstractSystem

OUTSIDE = 1e-6
"""Share of the load by which a value may violate a limit before it counts as outside the set: rounding is far below."""
ROUNDING = 1e-11
"""Share of the load below which an end is zero."""
ASCENTS = 20
"""Steps of the search for the largest resultant."""


class Sentence(NamedTuple):
    """What the joints of these names cannot do, in words."""

    joints: tuple[str, ...]
    text: str


class Range(NamedTuple):
    """The possible values of one component of a joint's reaction, and the multipliers of all rows that attain the ends
    (of an unbounded end: a load without effect along which it grows). `unique`: the ends are one value."""

    joint: str
    component: str
    lower: float
    upper: float
    unique: bool
    at_lower: np.ndarray
    at_upper: np.ndarray

    @property
    def width(self) -> float:
        """How far the ends are apart."""
        return self.upper - self.lower

    def __str__(self) -> str:
        if np.isnan(self.lower):
            return f"{self.component}: none"
        if self.unique:
            return f"{self.component} = {_number(self.lower)}"
        if np.isinf(self.lower) and np.isinf(self.upper):
            return f"{self.component} unbounded"
        if np.isinf(self.lower):
            return f"{self.component} ≤ {_number(self.upper)}"
        if np.isinf(self.upper):
            return f"{self.component} ≥ {_number(self.lower)}"
        return f"{self.component} {_number(self.lower)} … {_number(self.upper)}"


class Worst(NamedTuple):
    """The largest resultant force of a joint over all possible reactions: `found`, attained by the multipliers `at`,
    and `at_most`, a bound that none exceeds. With one redundant row both are equal."""

    joint: str
    found: float
    at_most: float
    at: np.ndarray


@dataclasses.dataclass(frozen=True)
class ReactionRanges:
    """All possible reactions at one instant.

    `ranges`: by joint, then by component along the joint's own axes. `gap`: the largest duality gap relative to the
    load, the proof of the ends. `conflicts`: sentences that say which joints cannot carry the load, where nothing
    is possible. `centre`: multipliers in the middle of the set (farthest from all limits, in the product of the
    distances), if it is bounded. `load`: the size of the forces.
    """

    ranges: dict[str, dict[str, Range]]
    known: Known
    gap: float
    load: float
    conflicts: tuple[str, ...] = ()
    centre: np.ndarray | None = None
    set_: PossibleSet | None = dataclasses.field(default=None, repr=False)

    @property
    def possible(self) -> bool:
        """Whether any reactions agree with what is known."""
        return not self.conflicts

    @property
    def proven(self) -> bool:
        """Whether the duality gap of all ends is below 1e-9 of the load."""
        return self.gap <= GAP

    @property
    def limited(self) -> bool:
        """Whether anything is known of the joints, given or by the model itself."""
        return self.set_ is not None and bool(self.set_.limits)

    def of(self, joint: str) -> dict[str, Range]:
        """The ranges of one joint, by component."""
        return self.ranges[joint]

    def worst(self, joint: str) -> Worst:
        """The largest resultant force that a joint (a bolt) may have to carry."""
        assert self.set_ is not None
        return self.set_.worst(joint)

    def outside(self, lam: np.ndarray) -> tuple[str, ...]:
        """What is violated by some multipliers, such as those that a rule picked; nothing if they are in the set."""
        assert self.set_ is not None
        return tuple(x.text for x in self.set_.violated(lam))

    def as_dict(self) -> dict:
        """Plain data, ready for JSON; None stands for an unbounded end."""
        return {
            "possible": self.possible,
            "conflicts": list(self.conflicts),
            "duality_gap": self.gap,
            "proven": self.proven,
            "known": {k: v for k, v in dataclasses.asdict(self.known).items() if v},
            "ranges": [
                {"joint": x.joint, "component": x.component, "unique": x.unique}
                | {end: _finite(getattr(x, end)) for end in ("lower", "upper")}
                for of in self.ranges.values()
                for x in of.values()
            ],
        }

    def __str__(self) -> str:
        lines = list(self.conflicts)
        if self.possible:
            lines = [f"{name}: {', '.join(map(str, of.values()))}" for name, of in self.ranges.items() if of]
        return "\n".join(lines)


class PossibleSet:
    """All λ with the same effect that agree with what is known, in few unknowns: λ = λ₀ + N y."""

    def __init__(
        self,
        system: AbstractSystem,
        joints: Sequence[JointRows],
        dependence: Dependence,
        lam: np.ndarray,
        known: Known,
        typical: float = 0.0,
    ):
        self.joints, self.known = {j.name: j for j in joints}, known
        self.uniqueness = Uniqueness(list(joints), dependence)
        parts = [np.zeros((0, system.m))]
        for j in joints:
            part = np.zeros((len(j.functionals), system.m))
            part[:, list(j.rows)] = j.functionals * j.units[:, None]
            parts.append(part)
        forces = np.concatenate(parts)
        # a basis of loads without effect, orthonormal in the forces that they are
        null = dependence.null / dependence.sizes[:, None]
        U, s, Vt = np.linalg.svd(forces @ null, full_matrices=False)
        nonzero = s > ZERO * s[0] if s.size and s[0] > 0 else np.zeros(len(s), bool)
        self.N = null @ (Vt[nonzero].T / s[nonzero])
        self.lam = lam - self.N @ (U[:, nonzero].T @ (forces @ lam))
        load = max(float(np.max(np.abs(forces @ self.lam), initial=0.0)), typical)
        self.limits = limits_of(known, system, list(joints))
        given = max((float(np.max(np.abs(x.at), initial=0.0)) for x in self.limits), default=0.0)
        self.load = load or given or 1.0
        self.set = self._convex()

    @classmethod
    def at(cls, instant: Instant, known: Known, lam: np.ndarray | None = None) -> PossibleSet:
        """The set at an instant; `lam`: any multipliers of the machine's rows that have the effect."""
        if lam is None:
            e = instant.equations
            lam = instant.among_joints.multipliers(np.asarray(e.h), np.asarray(e.Gamma))
        return cls(instant.machine, instant.joints, instant.among_joints, lam, known, instant.typical_force)

    def _convex(self) -> ConvexSet:
        p = self.N.shape[1]
        single = [x for x in self.limits if len(x.rows) == 1 and not x.equal]
        equal = [x for x in self.limits if x.equal]
        A, b = self._over_y([x.rows[0] for x in single], [x.at[0] for x in single])
        E, e = self._over_y([x.rows[0] for x in equal], [x.at[0] for x in equal])
        cones = [Cone(*self._over_y(list(x.rows), list(x.at))) for x in self.limits if len(x.rows) > 1]
        return ConvexSet(p, A, b, E, e, tuple(cones))

    def _over_y(self, rows: list[np.ndarray], at: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """Functions of λ as functions of y, over the load."""
        if not rows:
            return np.zeros((0, self.N.shape[1])), np.zeros(0)
        R = np.stack(rows)
        slope = R @ self.N
        slope[np.linalg.norm(slope, axis=1) <= ZERO] = 0.0  # unique: rounding
        return slope, (R @ self.lam + np.array(at)) / self.load

    def multipliers(self, y: np.ndarray) -> np.ndarray:
        """λ of a y."""
        return self.lam + self.load * (self.N @ y)

    def ends(self, functions: np.ndarray, units: np.ndarray) -> Extremes:
        """The ranges of functions of λ (k × m); `units` turn each into a force."""
        rows = [f * u for f, u in zip(functions, units, strict=True)]
        try:
            return extremes_on(self.set, *self._over_y(rows, [0.0] * len(rows)))
        except MissingSolver as error:
            raise DalembertError(
                "Friction along two directions and limits of a resultant are cones, which need the package clarabel: "
                "pip install 'dalembert[ranges]', or limit the components, {'bolt': {'Fx': 500.0, 'Fy': 500.0}}."
            ) from error

    def components(self, joint: str, frame: str = "joint") -> np.ndarray:
        """A joint's components as functions of all λ (k × m), along its own or the world's axes."""
        j = self.joints[joint]
        own = self.uniqueness.wrench(joint, frame)
        out = np.zeros((len(own), len(self.lam)))
        out[:, list(j.rows)] = own
        return out

    def found(self) -> ReactionRanges:
        """The ranges of all joints along their own axes."""
        names = [(n, c, k) for n, j in self.joints.items() for k, c in enumerate(j.labels) if j.transmitted[k]]
        rows = [self.components(n)[k] for n, _, k in names]
        units = np.array([self.joints[n].units[k] for n, _, k in names])
        ends = self.ends(np.array(rows).reshape(len(names), len(self.lam)), units)
        ranges: dict[str, dict[str, Range]] = {n: {} for n in self.joints}
        for i, (n, c, _) in enumerate(names):
            low, high = (x * self.load / units[i] for x in (ends.lower[i], ends.upper[i]))
            at = [
                self.multipliers(y) if np.isfinite(end) else self.load * (self.N @ y)
                for y, end in ((ends.at_lower[i], ends.lower[i]), (ends.at_upper[i], ends.upper[i]))
            ]
            low, high = (0.0 if abs(x) * units[i] <= ROUNDING * self.load else x for x in (low, high))
            unique = bool(high - low <= ZERO * self.load / units[i])
            ranges[n][c] = Range(n, c, float(low), float(high), unique, *at)
        conflicts = () if ends.empty is None else tuple(x.text for x in self.sentences(ends.empty))
        centre = None
        if not conflicts and ends.bounded:
            centre = self.multipliers(analytic_centre(self.set, ends.inside))
        return ReactionRanges(ranges, self.known, ends.gap, self.load, conflicts, centre, self)

    def empty(self) -> tuple[Sentence, ...]:
        """Sentences that say which joints cannot carry the load; none if some reactions are possible."""
        found = self.ends(np.zeros((0, len(self.lam))), np.zeros(0))
        return () if found.empty is None else self.sentences(found.empty)

    def sentences(self, conflict: Conflict) -> tuple[Sentence, ...]:
        """What cannot be, in words: joints that alone would have to do what they cannot, else several together."""
        alone = [x for x in self.limits if np.all(self._over_y(list(x.rows), list(x.at))[0] == 0.0)]
        out = self._violations(alone, self.lam)
        if out:
            return out
        single = [x for x in self.limits if len(x.rows) == 1 and not x.equal]
        cones = [x for x in self.limits if len(x.rows) > 1]
        equal = [x for x in self.limits if x.equal]
        weighted = [(x, float(w)) for x, w in zip(single, conflict.linear, strict=True)]
        weighted += [(x, float(w[0])) for x, w in zip(cones, conflict.cones, strict=True)]
        weighted += [(x, abs(float(w))) for x, w in zip(equal, conflict.equal, strict=True)]
        most = max(w for _, w in weighted)
        taking = [(x, w) for x, w in weighted if w > 1e-6 * most]
        names = list(dict.fromkeys(x.joint for x, _ in taking))
        size = conflict.short * self.load
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        if all(x.pulls and x.size == 1.0 for x, _ in taking):
            word = taking[0][0].pulls
            total = sum(w for _, w in taking)
            terms = " + ".join(f"{w / total:.4g}·{x.joint}" for x, w in taking)
            value = -size if word == "pull" else size
            text = (
                f"{listed} cannot all {'push' if word == 'pull' else 'pull'}: {terms} = {_number(value)} N however the "
                f"load is shared, so one of them {'lifts off' if word == 'pull' else 'goes slack'}"
            )
            return (Sentence(tuple(names), text),)
        text = (
            f"no sharing of the load respects all that is known ({'; '.join(dict.fromkeys(x.words for x, _ in taking))}"
            f"): {_number(size)} N are missing"
        )
        return (Sentence(tuple(names), text),)

    def violated(self, lam: np.ndarray) -> tuple[Sentence, ...]:
        """Which limits some multipliers violate, in words."""
        return self._violations(self.limits, lam)

    def _violations(self, limits: Sequence[Limit], lam: np.ndarray) -> tuple[Sentence, ...]:
        return tuple(Sentence((x.joint,), text) for x in limits if (text := _violation(x, lam, self.load)))

    def worst(self, joint: str) -> Worst:
        """The largest resultant force: ascents along the direction of what was found, and a bound."""
        j = self.joints[joint]
        rows = self.components(joint)
        forces = np.array([UNITS[x] == "N" for x in j.labels]) if not j.in_rows else np.ones(len(rows), bool)
        rows = rows[forces]
        ends = self.ends(rows, np.ones(len(rows)))
        if ends.empty is not None:
            raise DalembertError(f"No reactions are possible: {'; '.join(x.text for x in self.sentences(ends.empty))}.")
        bound = np.maximum(np.abs(ends.lower), np.abs(ends.upper)) * self.load
        if not np.all(np.isfinite(bound)):
            return Worst(joint, np.inf, np.inf, np.full(len(self.lam), np.nan))
        starts = [self.multipliers(y) for y in (*ends.at_lower, *ends.at_upper)]
        best = max(starts, key=lambda lam: float(np.linalg.norm(rows @ lam)))
        for _ in range(ASCENTS if self.N.shape[1] > 1 else 0):
            force = rows @ best
            size = float(np.linalg.norm(force))
            if size == 0:
                break
            further = self.multipliers(self.ends((force / size @ rows)[None], np.ones(1)).at_upper[0])
            if np.linalg.norm(rows @ further) <= size * (1 + 1e-12):
                break
            best = further
        found = float(np.linalg.norm(rows @ best))
        # of one unknown the ends of the interval are all that can be largest
        at_most = found if self.N.shape[1] <= 1 else float(np.linalg.norm(bound))
        return Worst(joint, found, at_most, best)


def _violation(x: Limit, lam: np.ndarray, load: float) -> str:
    value = x.rows @ lam + x.at
    short = abs(float(value[0])) if x.equal else float(np.linalg.norm(value[1:]) - value[0])
    if short <= OUTSIDE * load:
        return ""
    unit = "N" if x.size == 1.0 else "N m"
    if x.pulls:
        end = "it lifts off" if x.pulls == "pull" else "it goes slack"
        return f"{x.joint} would have to {x.pulls} {_number(short * x.size)} {unit}: {end}"
    return f"{x.words}, by {_number(short)} N"


def _number(x: float) -> str:
    """Four digits of a number that is known to nine: 73.575 reads 73.58, whatever stands in its last bit."""
    return f"{float(f'{x:.9g}'):.4g}".replace("-", "−")


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
