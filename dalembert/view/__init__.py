"""edge · pictures from labelled data: figures, films, and an animated page.

`plot_dataset` draws figures, `animate_dataset` writes a page (.html) or a film (.gif, .mp4), `Server` shows the page on
this machine, `report_page` is a page of text, tables, figures and a motion. A `Scene` is what page and films are made
of. Everything here is made from a result dataset alone.
"""

from __future__ import annotations

from dalembert.view._bode import plot_bode
from dalembert.view._cases import plot_dependence, plot_parallel, plot_scatter
from dalembert.view._comparison import plot_comparison
from dalembert.view._efforts import plot_efforts
from dalembert.view._figure import check_figure, need_matplotlib, save_figure
from dalembert.view._graph import draw_graph, literal
from dalembert.view._notebook import html_console, html_run, html_table, html_words
from dalembert.view._page import animate_dataset, page_of_dataset
from dalembert.view._plots import plot_dataset
from dalembert.view._report import Lines, Mark, Motion, Picture, Section, Source, Table, Words, report_page
from dalembert.view._scene import Scene, scene_of
from dalembert.view._serve import Server
from dalembert.view._static_path import plot_path
from dalembert.view._sweep import plot_sweep
from dalembert.view._undetermined import in_words, when, windows

__all__ = [
    "Lines", "Mark", "Motion", "Picture", "Scene", "Section", "Server", "Source", "Table", "Words", "animate_dataset",
    "check_figure", "draw_graph", "html_console", "html_run", "html_table", "html_words", "in_words", "literal",
    "need_matplotlib", "page_of_dataset", "plot_bode", "plot_comparison", "plot_dataset", "plot_dependence",
    "plot_efforts", "plot_parallel", "plot_path", "plot_scatter", "plot_sweep", "report_page", "save_figure",
    "scene_of", "when", "windows",
]  # fmt: skip
