"""edge · reports: `report`: machine, redundancy, motion, reactions and settings as one page that can be sent."""

from __future__ import annotations

import datetime
import functools
import sys
from contextlib import suppress
from pathlib import Path

from dalembert._results import AssemblyError, DalembertError, check_output
from dalembert.analysis import Check, check
from dalembert.io import text_of, write_in_place
from dalembert.model import Model
from dalembert.reactions import Known, one_sided_limits
from dalembert.simulation import Solution, simulate
from dalembert.stabilise import State
from dalembert.systems import AbstractSystem, build


def report(
    model: Model | AbstractSystem | Solution,
    path,
    *,
    t_end: float | None = None,
    coordinates: str = "absolute",
    about: str = "",
    samples: int = 401,
    progress: bool = False,
    statics: bool = False,
    modes: bool = False,
    known: Known | None = None,
    **settings,
) -> Path:
    """Write a report as one HTML page that needs no network: the machine, its rank and redundancy, which reactions are
    unique, its motion (it plays), reactions with the rule that picked them, curves, settings and versions.

    A run that ends early is shown up to there, and constraints that contradict each other are named without a motion.
    Under 5 MB for a normal run.

    **Arguments**

    - `model`: a model or a system, which is simulated, or a `Solution`, which is reported as it is.
    - `path`: the file, which ends in .html.
    - `t_end` (default 10), `samples`, `coordinates` (of a model, as for `build`), `settings`: of the motion, as for
      `simulate`.
    - `about`: a sentence under the title. `progress`: say on the terminal what is being done.
    - `statics`: also where the machine rests (see `equilibrium`). `modes`: also its modes (see `linearise`), about its
      start, or where that is not steady about its rest.
    - `known` (`reactions.Known`): where supports only push, what they bear; the report then shows all possible
      reactions beside those that a rule picked.

    **Returns** the path.

        >>> import dalembert as da
        >>> da.report(da.mechanism("pendulum"), "pendulum.html", t_end=0.5).name
        'pendulum.html'
    """
    # loaded on first use: whoever prints a check needs none of it
    from dalembert.reports._sections import modes_section, rest_section, sections_of
    from dalembert.view import Source, need_matplotlib, report_page

    if Path(path).suffix not in (".html", ".htm"):
        raise DalembertError(f"Cannot write '{path}': the name of a report must end in .html.")
    check_output(path, (".html", ".htm"))
    need_matplotlib()
    log = functools.partial(print, file=sys.stderr, flush=True) if progress else lambda text: None
    if isinstance(model, Solution):
        if settings or t_end is not None or coordinates != "absolute":
            raise DalembertError(
                "A solution is reported as it is; give t_end=, coordinates= and settings to da.simulate."
            )
        system, solution = model.system, model
    else:
        system = build(model, coordinates=coordinates) if isinstance(model, Model) else model
        log(f"{system.name}: simulating")
        solution = _moved(system, 10.0 if t_end is None else t_end, samples, progress, settings)
    log(f"{system.name}: rank, redundancy and reactions")
    found = _checked(system, solution, known)
    log(f"{system.name}: drawing")
    sections = sections_of(found, system, solution, known)
    if statics:
        log(f"{system.name}: at rest")
        sections.insert(-1, rest_section(system))
    if modes:
        log(f"{system.name}: modes")
        sections.insert(-1, modes_section(system))
    if isinstance(model, Model):
        with suppress(DalembertError):  # Python functions have no text
            sections[-1].blocks.append(Source("The model as a file", text_of(model, summary=about)))
    made = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    lead = f"{about[0].upper()}{about[1:].rstrip('.')}. Made on {made}." if about else f"Made on {made}."
    text = report_page(system.name, lead, sections)
    return write_in_place(path, ".html", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def _checked(system: AbstractSystem, solution: Solution | None, known: Known | None) -> Check:
    """The check along the motion; for many rows at its start alone, as ranks at many instants take minutes."""
    from dalembert.reports._sections import ROWS_ALONG

    ranges = known if known else bool(one_sided_limits(system.machine))
    if solution is None:
        return check(system, ranges=ranges)
    if system.m < ROWS_ALONG:
        return check(solution, ranges=ranges)
    return check(system, State(solution.q[0], solution.v[0]), t=float(solution.t[0]), ranges=ranges)


def _moved(system: AbstractSystem, t_end: float, samples: int, progress: bool, settings: dict) -> Solution | None:
    """The motion up to its end; none where the constraints do not hold at the start."""
    try:
        solution = simulate(system, t_end, samples=samples, progress=progress, throw=False, **settings)
    except AssemblyError:
        if check(system, reactions=False).consistent:
            raise
        return None
    return solution if len(solution.t) else None
