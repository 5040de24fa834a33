"""7 · analysis: every way to the same motion, side by side: error, violation, energy, evaluations, time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import diffrax
import numpy as np

from dalembert._results import DalembertError, SimulationError
from dalembert.complements import AbstractComplement, all_complements
from dalembert.formulations import AbstractFormulation, all_formulations, on_complement
from dalembert.model import Model
from dalembert.simulation import INTEGRATORS, Solution, simulate
from dalembert.stabilise import AbstractStabilisation, all_stabilisations
from dalembert.systems import AbstractSystem, build


@dataclass(frozen=True)
class Entry:
    """One method and its results. Times in seconds; all else relative to the machine's own size or energy."""

    formulation: str
    complement: str
    stabilisation: str
    status: str
    error: float
    position: float
    velocity: float
    acceleration: float
    energy_drift: float
    steps: int
    evaluations: int
    compile_s: float
    run_s: float


@dataclass(frozen=True)
class Comparison:
    """A table of ways to one motion. `print` it; `entries`, `as_dict()` and `plot(path)` hold the same."""

    name: str
    t_end: float
    settings: str
    reference: str
    entries: tuple[Entry, ...]

    def best(self, by: str = "error") -> Entry:
        """The entry with the smallest of a column."""
        known = [e for e in self.entries if math.isfinite(getattr(e, by))]
        return min(known or self.entries[:1], key=lambda e: getattr(e, by))

    def as_dict(self) -> dict:
        found = dataclasses.asdict(self)
        for row in found["entries"]:
            row |= {k: None for k, x in row.items() if isinstance(x, float) and not math.isfinite(x)}
        return found | {"entries": list(found["entries"])}

    def __str__(self) -> str:
        names = ("formulation", "complement", "stabilisation")
        rows: list[tuple[str, ...]] = [
            (*names, "error", "Φ", "φ", "C v̇−Γ", "energy", "steps", "evals", "compile", "run")
        ]
        for e in self.entries:
            numbers = [f"{x:.0e}" for x in (e.error, e.position, e.velocity, e.acceleration, e.energy_drift)]
            counts = [str(e.steps), str(e.evaluations), f"{e.compile_s:.1f} s", f"{1e3 * e.run_s:.1f} ms"]
            status = [] if e.status == "done" else [e.status]
            rows.append((*(getattr(e, name) for name in names), *numbers, *counts, *status))
        widths = [max(len(r[k]) for r in rows if k < len(r)) for k in range(max(map(len, rows)))]
        lines = [
            "  ".join(f"{x:<{w}}" if k < 3 else f"{x:>{w}}" for k, (x, w) in enumerate(zip(r, widths, strict=False)))
            for r in rows
        ]
        title = f"{self.name}, {self.t_end:g} s, {self.settings}; error against {self.reference}"
        return "\n".join([title, *(line.rstrip() for line in lines)])

    def plot(self, path=None):
        """Error against run time, and violation and energy drift for each way."""
        from dalembert.view import plot_comparison

        return plot_comparison(self.as_dict(), path)


def compare(
    system: AbstractSystem | Model,
    t_end: float = 1.0,
    *,
    formulations: Iterable[str] | Mapping[str, AbstractFormulation] | None = None,
    complements: Iterable[str] | Mapping[str, AbstractComplement] | None = None,
    stabilisations: Iterable[str] | Mapping[str, AbstractStabilisation] | None = ("projection",),
    integrator: str | diffrax.AbstractSolver | None = None,
    rtol: float = 1e-8,
    dt: float | None = None,
    samples: int = 101,
    reference: Solution | None = None,
    **settings,
) -> Comparison:
    """Simulate one motion in all chosen ways, and measure each against a tight reference.

    Names are those of `all_formulations()`, `all_complements()` and `all_stabilisations()`; your own objects go in as
    a dict. Without `complements`, formulations use their usual one; with them, those that can are run on each. The
    reference is the default method at rtol = 1e-12 unless given (a Solution at the same times). A way that fails is
    listed with its status. Each way is run twice: the first compiles.

    **Arguments**: `system` a model or a system; `t_end` the end of the motion, in seconds; `integrator`, `rtol`, `dt`
    and all further `settings` as for `simulate`; `samples` the number of times at which motions are compared.

    **Returns** a `Comparison`: one `Entry` for each way; printed it is a table.
    """
    system = build(system) if isinstance(system, Model) else system
    forms = _chosen(formulations, all_formulations(), "formulation")
    keeping = _chosen(stabilisations, all_stabilisations(), "stabilisation")
    on = None if complements is None else _chosen(complements, all_complements(), "complement")
    times = np.linspace(0.0, t_end, samples)
    if reference is None:
        reference, word = simulate(system, t_end, rtol=1e-12, samples=times), "rtol 1e-12"
    else:
        word = f"a given motion ({reference.integrator})"
    run = {"integrator": integrator, "rtol": rtol, "dt": dt, "samples": times, **settings}
    entries = []
    for name, form in forms.items():
        for used, actual in _on(form, on).items():
            for keep, stabilisation in keeping.items():
                entries.append(_entry(system, t_end, (name, used, keep), actual, stabilisation, run, reference))
    how = f"dt = {dt:g} s" if dt is not None else f"rtol = {rtol:g}"
    return Comparison(system.name, float(t_end), how, word, tuple(entries))


def _entry(system, t_end, names: tuple[str, str, str], form, stabilisation, run, reference) -> Entry:
    form_name, on, keep = names
    numbers = dict.fromkeys(
        ("error", "position", "velocity", "acceleration", "energy_drift", "compile_s", "run_s"), math.nan
    )
    try:
        first = simulate(system, t_end, formulation=form, stabilisation=stabilisation, **run)
        last = simulate(system, t_end, formulation=form, stabilisation=stabilisation, **run)
    except SimulationError as failure:
        last = failure.solution
        if last is None:
            return Entry(form_name, on, keep, status="failed", steps=0, evaluations=0, **numbers)
    else:
        gap = np.abs(np.asarray(last.q) - np.asarray(reference.q)) / np.asarray(system.coordinate_scale())
        numbers |= last.violation | {"error": float(np.max(gap)), "energy_drift": last.energy_drift}
        numbers |= {"compile_s": float(first.stats["compile_s"]), "run_s": float(last.stats["wall_s"])}
    steps = int(last.stats["steps"])
    evaluations = steps * _stages(run["integrator"], last.integrator)
    return Entry(form_name, on, keep, status=last.status.name, steps=steps, evaluations=evaluations, **numbers)


def _stages(given, name: str) -> int:
    """Evaluations per step of the solver that was given, or of the one of this name."""
    tableau = getattr(INTEGRATORS.get(name, given), "tableau", None)
    return 1 if tableau is None else len(tableau.b_sol)


def _on(form: AbstractFormulation, complements: dict | None) -> dict[str, AbstractFormulation]:
    """The formulation on each complement it can use."""
    usual = getattr(form, "complement", None)
    if complements is None or usual is None:
        return {"-" if usual is None else _word(usual): form}
    found = {word: on_complement(form, c) for word, c in complements.items()}
    return {word: f for word, f in found.items() if f is not None} or {_word(usual): form}


def _word(complement: AbstractComplement) -> str:
    return next((k for k, c in all_complements().items() if type(c) is type(complement)), type(complement).__name__)


def _chosen(given, table: Mapping, what: str) -> dict:
    if given is None:
        return dict(table)
    if isinstance(given, Mapping):
        return dict(given)
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in table:
            raise DalembertError(f"There is no {what} '{name}'; there are {', '.join(table)}.")
    return {name: table[name] for name in names}
