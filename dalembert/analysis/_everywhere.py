"""7 · analysis: over a whole workspace: how wide reactions range, and which release keeps them unique everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dalembert.analysis._solvability import Release, Solver
from dalembert.reactions import LABELS, Instant, Known, PossibleSet

CHECKED = 400
"""Largest number of poses in which a release is examined; of more, poses spread over all."""
SAFE = 1e-6
"""Least singular value of the freed directions in the null space for which the rest counts as unique."""


@dataclass(frozen=True)
class EverywhereRelease:
    """Directions to free so that every reaction is unique wherever the machine was examined.

    `margin` is how safely, from 1 to 0, in the worst of `poses` poses, which is `at` (values of the swept coordinates);
    `singular` counts poses of lower rank, in which no release of so many directions is enough.
    """

    releases: tuple[Release, ...]
    margin: float
    at: tuple[float, ...]
    poses: int
    singular: int

    def __str__(self) -> str:
        text = f"free {', '.join(map(str, self.releases))}: all reactions are unique in all {self.poses} poses examined"
        return text + (f"; in {self.singular} more, which are singular, they are not" if self.singular else "")


def release_everywhere(instants: Sequence[Instant], values: np.ndarray) -> EverywhereRelease | None:
    """Of the releases that some poses suggest the one that is safest in the worst of all poses; None if there is
    nothing to release, or if none of them holds everywhere."""
    picks = np.unique(np.linspace(0, len(instants) - 1, min(len(instants), CHECKED)).astype(int)) if instants else []
    solvers = [Solver(instants[k].joints, instants[k].among_joints) for k in picks]
    least = min((s.directed_null.shape[1] for s in solvers), default=0)
    if least == 0:
        return None
    regular = [(k, s) for k, s in zip(picks, solvers, strict=True) if s.directed_null.shape[1] == least]
    best: EverywhereRelease | None = None
    tried: set[tuple] = set()
    for base in sorted({0, len(regular) // 2, len(regular) - 1}):
        others = [s for i, (_, s) in enumerate(regular) if i != base]
        for elsewhere in ([], others):
            found = regular[base][1].releases(elsewhere)
            chosen = tuple((r.joint, name) for r in found for name in r.directions)
            if chosen in tried:
                continue
            tried.add(chosen)
            margins = [_margin(s, chosen) for _, s in regular]
            worst = int(np.argmin(margins))
            if margins[worst] > SAFE and (best is None or margins[worst] > best.margin):
                at = tuple(map(float, values[regular[worst][0]]))
                best = EverywhereRelease(found, margins[worst], at, len(regular), len(solvers) - len(regular))
    return best


def _margin(solver: Solver, chosen: tuple[tuple[str, str], ...]) -> float:
    """The least singular value of the null space on the freed directions: 0 if something is left that is not unique."""
    number = {(d.joint, d.name): k for k, d in enumerate(solver.directions)}
    rows = [number[x] for x in chosen if x in number]
    null = solver.directed_null
    if len(rows) < null.shape[1]:
        return 0.0
    return float(np.linalg.svd(null[rows], compute_uv=False)[-1])


def ranges_at(instants: Sequence[Instant], known: Known, joints: Sequence[str], width: int) -> dict[str, np.ndarray]:
    """At each pose the ends of the possible reactions, along the joints' axes (poses × joints × `width` components),
    for each joint the largest width as a force, and whether any reactions are possible."""
    labels = LABELS[width]
    lower = np.full((len(instants), len(joints), width), np.nan)
    upper, widest = lower.copy(), np.zeros(lower.shape[:2])
    possible = np.ones(len(instants), bool)
    for k, instant in enumerate(instants):
        every = PossibleSet.at(instant, known)
        found = every.found()
        possible[k] = found.possible
        for i, joint in enumerate(joints):
            units = dict(zip(every.joints[joint].labels, every.joints[joint].units, strict=True))
            for label, x in found.of(joint).items():
                if label in labels and found.possible:
                    at = labels.index(label)
                    lower[k, i, at], upper[k, i, at] = x.lower, x.upper
                    widest[k, i] = max(widest[k, i], 0.0 if x.unique else x.width * float(units[label]))
    widest[~possible] = np.nan
    return {"lower": lower, "upper": upper, "width": widest, "possible": possible}
