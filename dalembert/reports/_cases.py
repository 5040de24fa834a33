"""edge · reports: what stands on the page of a study: how cases ended, what depends on what, the best in motion."""

from __future__ import annotations

import datetime
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from dalembert._results import DalembertError, RedundancyWarning, check_output
from dalembert.io import write_in_place
from dalembert.studies import Study
from dalembert.view import (
    Lines,
    Motion,
    Picture,
    Section,
    Source,
    Table,
    Words,
    need_matplotlib,
    plot_dependence,
    plot_parallel,
    plot_scatter,
    report_page,
)

SHOWN = 10
"""Columns of what varies, at most, in a picture."""
FEW = 10
"""Below so many cases it is not shown what depends on what."""


def study_page(study: Study, path, best: str | None, largest: bool, play: int) -> Path:
    """The page of `report_study`, written."""
    check_output(path, (".html", ".htm"))
    need_matplotlib()
    data, status = study.dataset.load(), study.status()
    measured = [str(n) for n, x in data.data_vars.items() if x.dims == ("case",) and x.dtype.kind == "f"]
    measured = [m.name for m in study.measures if m.name in measured]
    varied = [n for n in (x.replace("/", "_") for x in study.plan["varies"]["values"]) if data[n].ndim == 1]
    for n in study.plan["varies"]["values"]:  # vectors: a column for each component
        x = data[n.replace("/", "_")]
        if x.ndim == 2:
            for k in range(x.shape[1]):
                data[f"{n}[{k}]"] = ("case", x.values[:, k])
                varied.append(f"{n}[{k}]")
    varied = [n for n in varied if np.ptp(np.asarray(data[n].values, float)) > 0][:SHOWN]
    known = [m for m in measured if np.any(np.isfinite(data[m].values))]
    sections = [Section("In short", _in_short(study, status, data))]
    if known and varied:
        rank = best or known[0]
        pictures: list = [Words(f"Each line is a case; its colour shows {rank}.")]
        if rank in known:
            pictures.append(Picture(plot_parallel(data, varied, rank), "parallel coordinates of all cases", 90))
        pictures.append(Picture(plot_scatter(data, varied, known), "what is measured over what varies", 90))
        sections.append(Section("All cases", pictures))
        sections.append(Section("What depends on what", _dependence(data, varied, known)))
    if known:
        sections.append(Section("The best", _best(study, data, best or known[0], varied, known, largest, play)))
    sections.append(Section("Settings and versions", _settings(study)))
    made = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    text = report_page(f"{study.name}: a study of {status['cases']} cases", f"Made on {made}.", sections)
    return write_in_place(path, ".html", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def _in_short(study: Study, status, data) -> list:
    done, count, failed = status["done"], status["cases"], status["failed"]
    out: list = [Words(f"{done} of {count} cases are done.", "good" if done == count else "open")]
    if failed:
        out.append(Words(f"{failed} failed; their numbers are not known, and no picture shows them.", "bad"))
    messages = Counter(x for x in data["message"].values.tolist() if x)
    if messages:
        out.append(Lines("Why", [f"{n} × {sentence}" for sentence, n in messages.most_common()]))
    for name in (str(n) for n in data.data_vars if str(n).startswith("unique ")):
        there = data["status"].values == "done"
        open_ = int(np.sum(there & ~data[name].values))
        if open_:
            what = name.removeprefix("unique ")
            out.append(
                Words(f"{what}: in {open_} cases the rigid-body model does not determine it; a rule picked it.", "open")
            )
    return out


def _dependence(data, varied: list[str], known: list[str]) -> list:
    """Rank correlations: bars, and how well they tell."""
    from scipy.stats import spearmanr

    values = np.full((len(known), len(varied)), np.nan)
    for i, y in enumerate(known):
        b = np.asarray(data[y].values, float)
        there = np.isfinite(b)
        if np.sum(there) < FEW or np.ptp(b[there]) == 0:
            continue
        for j, x in enumerate(varied):
            a = np.asarray(data[x].values, float)[there]
            if np.ptp(a) > 0:
                values[i, j] = np.asarray(spearmanr(a, b[there]))[0]
    if not np.any(np.isfinite(values)):
        return [Words(f"With fewer than {FEW} cases that differ nothing is said here.")]
    text = (
        "Rank correlation over all cases (Spearman): 1 or −1 where a number rises or falls with a parameter "
        "throughout, 0 where there is no such trend. It does not see what rises and falls; the scatter plots do."
    )
    figure = plot_dependence(varied, known, values)
    rows = [[name, *(f"{values[i, j]:.3f}" for i in range(len(known)))] for j, name in enumerate(varied)]
    table = Table(("parameter", *known), rows, tuple(range(1, len(known) + 1)))
    return [Words(text), Picture(figure, "rank correlation of parameters with what is measured", 70), table]


def _best(study: Study, data, rank: str, varied, known, largest: bool, play: int) -> list:
    found = study.best(rank, 10, largest=largest)
    columns = [*varied, *known]
    rows = [[str(k), *(f"{float(data[n].values[k]):.6g}" for n in columns)] for k in found]
    out: list = [Words(f"By {rank}, the {'largest' if largest else 'smallest'} first.")]
    out.append(Table(("case", *columns), rows, tuple(range(len(columns) + 1))))
    for k in found[:play]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RedundancyWarning)
            try:
                motion = study.simulate(k)
                if len(motion.t) and "geometry" in motion.dataset:
                    out += [Words(f"Case {k}, {rank} = {float(data[rank].values[k]):.6g}:"), Motion(motion.dataset)]
            except DalembertError as error:
                out.append(Words(f"Case {k} is not shown in motion: {error}", "open"))
    return out


def _settings(study: Study) -> list:
    plan = study.plan
    rows = [("task", plan["task"]), *((k, str(v)) for k, v in plan["settings"].items())]
    rows += [("what varies", f"{k}: {_short(v)}") for k, v in plan["vary"].items()]
    rows += [(k, str(plan[k])) for k in ("count", "sampling", "combine", "seed", "chunk") if plan[k] is not None]
    rows += [(k, v) for k, v in plan["versions"].items()]
    return [Table(("", ""), rows), *(Source(f"The model '{n}' as a file", text) for n, text in plan["models"].items())]


def _short(x) -> str:
    text = str(x)
    return text if len(text) < 200 else f"{text[:197]}…"
