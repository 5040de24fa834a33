"""edge · what is found, for people: a `Check` as text, the joint graph, and the page to send.

Named in the plural: `da.report` is the function.
"""

from dalembert.reports._graph import plot_graph
from dalembert.reports._modes import modes_renderable, modes_summary
from dalembert.reports._page import report
from dalembert.reports._statics import (
    cases_renderable,
    path_renderable,
    path_summary,
    statics_renderable,
    statics_summary,
)
from dalembert.reports._study import report_study
from dalembert.reports._text import plain, renderable, summary

__all__ = [
    "cases_renderable", "modes_renderable", "modes_summary", "path_renderable", "path_summary", "plain", "plot_graph",
    "renderable", "report", "report_study", "statics_renderable", "statics_summary", "summary",
]  # fmt: skip
