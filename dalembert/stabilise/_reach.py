"""5b· drivers that prescribe more than the machine can reach: found by releasing them; on the host."""

from __future__ import annotations

import numpy as np

from dalembert.equations import assemble_known
from dalembert.systems import AbstractSystem, RowOwner, prescription

UP_TO = 600
"""Largest number of velocities for which this is done."""
MOST = 12
"""Largest number of drivers that are released one by one."""
LOOSE = 1e-4
"""Weight of a released driver: not zero, so that the machine ends where it is nearest to the prescribed motion."""
CLOSED = 1e-6
"""Relative gap below which the other rows count as closed: a released driver still acts on them."""


def out_of_reach(system: AbstractSystem, t: float, q, v) -> str:
    """A message for each driver without which the machine could be closed here; empty if drivers are not the cause."""
    h = system.m_holonomic
    drivers = [o for o in system.owners if o.drives and o.rows[0] < h]
    if not drivers or system.n > UP_TO or not np.all(np.isfinite(np.asarray(q))):
        return ""
    if _nearest(system, t, q, v, drivers) is None:
        return ""  # cannot be closed without them either
    found = {o.name: _nearest(system, t, q, v, [o]) for o in drivers[:MOST]} if len(drivers) > 1 else {}
    alone = [o for o in drivers if found.get(o.name) is not None]
    if alone:
        return " ".join(_sentence(system, o, t, found[o.name]) for o in alone) + " "
    gaps = _nearest(system, t, q, v, drivers)
    if len(drivers) > 1:
        sentences = "; ".join(_sentence(system, o, t, gaps) for o in drivers[:MOST])
        return f"No driver alone is to blame, together they are. {sentences} "
    return _sentence(system, drivers[0], t, gaps) + " "


def _nearest(system: AbstractSystem, t: float, q, v, loose: list[RowOwner]) -> np.ndarray | None:
    """Φ where all other rows are closed and the released ones nearly so; None if the others cannot be closed.

    Levenberg–Marquardt on unit rows in machine sizes.
    """
    at, h, scale = np.asarray(t, float), system.m_holonomic, np.asarray(system.scale())
    let_go = np.zeros(h, bool)
    let_go[[r for o in loose for r in o.rows if r < h]] = True

    def rows(q):
        e = assemble_known(system, at, q, v)
        return np.asarray(e.Phi), np.asarray(e.C)[:h] * scale

    Phi, C = rows(q)
    sizes = np.linalg.norm(C, axis=1)
    sizes = np.where(sizes > 0, sizes, 1.0)
    for pull in (0.3, 0.03, LOOSE, LOOSE**2):  # practically free at the end, so that the others close
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
    prescribed = _prescribed(system, driver, t)
    if prescribed is None or len(prescribed) > 1:
        return f"Driver '{driver.name}' asks for a position that is out of reach at t = {float(t):.6g} s."
    nearest = f"{float(prescribed[0] + gaps[driver.rows[0]]):.6g}"
    where = f"; the nearest is {nearest}" if nearest != f"{prescribed[0]:.6g}" else ", if only just"
    return f"Driver '{driver.name}' asks for {prescribed[0]:.6g} at t = {float(t):.6g} s, which is out of reach{where}."


def _prescribed(system: AbstractSystem, driver: RowOwner, t: float) -> np.ndarray | None:
    """What a driver prescribes at a time, in the model's units."""
    found = prescription(system.machine, driver.name)
    return None if found is None else np.asarray(found.asked(system.machine, t))
