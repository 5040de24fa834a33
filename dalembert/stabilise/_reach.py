"""5b· drivers that ask for more than the machine can reach: found by letting them go; on the host."""

from __future__ import annotations

import jax
import numpy as np

from dalembert.equations import assemble
from dalembert.systems import AbstractSystem, RowOwner

UP_TO = 600
"""Velocities up to which it is looked for."""
MOST = 12
"""Drivers that are let go one by one."""
LOOSE = 1e-4
"""Weight of a driver that is let go: it still pulls, so that the machine ends where it comes nearest to it."""
CLOSED = 1e-6
"""Relative gap below which the other rows count as closed: a loose driver still pulls at them."""


def out_of_reach(system: AbstractSystem, t: float, q, v) -> str:
    """A sentence for each driver without which the machine could be closed here; none if drivers are not to blame."""
    h = system.m_holonomic
    drivers = [o for o in system.owners if o.drives and o.rows[0] < h]
    if not drivers or system.n > UP_TO or not np.all(np.isfinite(np.asarray(q))):
        return ""
    if _nearest(system, t, q, v, drivers) is None:
        return ""  # open without them as well
    found = {o.name: _nearest(system, t, q, v, [o]) for o in drivers[:MOST]} if len(drivers) > 1 else {}
    alone = [o for o in drivers if found.get(o.name) is not None]
    if alone:
        return " ".join(_sentence(system, o, t, found[o.name]) for o in alone) + " "
    gaps = _nearest(system, t, q, v, drivers)
    if len(drivers) > 1:
        asked = "; ".join(_sentence(system, o, t, gaps) for o in drivers[:MOST])
        return f"No driver alone is to blame, together they are. {asked} "
    return _sentence(system, drivers[0], t, gaps) + " "


def _nearest(system: AbstractSystem, t: float, q, v, loose: list[RowOwner]) -> np.ndarray | None:
    """Φ where all other rows are closed and the loose ones nearly as far as can be; None if the others stay open.

    Levenberg–Marquardt on unit rows in machine sizes.
    """
    at, h, scale = np.asarray(t, float), system.m_holonomic, np.asarray(system.scale())
    let_go = np.zeros(h, bool)
    let_go[[r for o in loose for r in o.rows if r < h]] = True

    def rows(q):
        e = assemble(system, at, q, v)
        return np.asarray(e.Phi), np.asarray(e.C)[:h] * scale

    Phi, C = rows(q)
    sizes = np.linalg.norm(C, axis=1)
    sizes = np.where(sizes > 0, sizes, 1.0)
    for pull in (0.3, 0.03, LOOSE, LOOSE**2):  # at last as good as free, so that the others close
        weighted = np.where(let_go, sizes / pull, sizes)
        damping, error = 1e-6, np.linalg.norm(Phi / weighted)
        for _ in range(200):
            J, r = C / weighted[:, None], Phi / weighted
            step = -np.linalg.solve(J.T @ J + damping * np.eye(len(scale)), J.T @ r)
            if np.max(np.abs(step), initial=0.0) < 1e-10 or damping > 1e6:
                break
            trial = system.retract(q, scale * step)
            new, C_new = rows(trial)
            if np.linalg.norm(new / weighted) < error:
                q, Phi, C, error, damping = trial, new, C_new, np.linalg.norm(new / weighted), max(damping / 5, 1e-14)
            else:
                damping = max(10 * damping, 1e-8)
    return Phi if np.max(np.abs(Phi / sizes)[~let_go], initial=0.0) < CLOSED else None


def _sentence(system: AbstractSystem, driver: RowOwner, t: float, gaps) -> str:
    asked = _asked(system, driver, t)
    if asked is None or len(asked) > 1:
        return f"Driver '{driver.name}' asks for a position that is out of reach at t = {float(t):.6g} s."
    nearest = f"{float(asked[0] + gaps[driver.rows[0]]):.6g}"
    where = f"; the nearest is {nearest}" if nearest != f"{asked[0]:.6g}" else ", if only just"
    return f"Driver '{driver.name}' asks for {asked[0]:.6g} at t = {float(t):.6g} s, which is out of reach{where}."


def _asked(system: AbstractSystem, driver: RowOwner, t: float) -> np.ndarray | None:
    """What a driver prescribes at a time, in the model's units."""
    for family in system.machine.row_families:
        if driver.name in family.names:
            motion = getattr(getattr(family.position, "rows", None), "motion", None)
            k = family.names.index(driver.name)
            p = jax.tree_util.tree_map(lambda a, k=k: a[k], family.p)
            return None if motion is None else np.atleast_1d(np.asarray(motion(t, p), float))
    return None
