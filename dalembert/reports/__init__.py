"""edge · what is found, for people: a `Check` as text, the joint graph, and the page to send.

Named in the plural: `da.report` is the function.
"""

from dalembert.reports._graph import plot_graph
from dalembert.reports._page import report
from dalembert.reports._text import plain, renderable, summary

__all__ = ["plain", "plot_graph", "renderable", "report", "summary"]
