"""edge · pictures: what a notebook shows of a model, a check and a run, as pieces of HTML."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from dalembert._results import DalembertError

PAGE = 3_000_000
"""Characters of a page that a notebook holds; a longer one is shown as a picture."""
NUMBERS = 250_000
"""Numbers over time in such a page."""
HEIGHT = 560
ROWS = 30
"""Rows of a table that are shown; the rest is counted."""

_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top"


def html_words(text: str) -> str:
    """Lines of text, unchanged."""
    return f'<pre style="white-space:pre-wrap;margin:0 0 6px">{html.escape(text)}</pre>'


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A small table; of a long one the first rows."""
    out = ["<table style='border-collapse:collapse;margin:2px 0 8px'><tr>"]
    out += [f'<th style="{_CELL}">{html.escape(x)}</th>' for x in head]
    for row in rows[:ROWS]:
        out.append("</tr><tr>")
        out += [f'<td style="{_CELL}">{html.escape(str(x))}</td>' for x in row]
    more = f"<div>… and {len(rows) - ROWS} more</div>" if len(rows) > ROWS else ""
    return "".join(out) + "</tr></table>" + more


def html_console(renderable) -> str:
    """What `rich` prints, with its colours."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), record=True, width=118, highlight=False, force_jupyter=False)
    console.print(renderable, soft_wrap=True)
    return console.export_html(
        inline_styles=True, code_format='<pre style="white-space:pre-wrap;line-height:1.35;margin:0">{code}</pre>'
    )


def html_run(data, line: str) -> str:
    """A run: the animated page in a frame of its own, or, where there is none, a page of figures."""
    from dalembert.view._page import page_of_dataset
    from dalembert.view._plots import plot_dataset

    try:
        page = page_of_dataset(data, numbers=NUMBERS)
    except DalembertError:  # no machine to draw: your own equations
        page = ""
    if page and len(page) <= PAGE:
        frame = (
            f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" '
            f'style="width:100%;height:{HEIGHT}px;border:1px solid #d7dde4;border-radius:6px"></iframe>'
        )
        return html_words(line) + frame
    picture = base64.b64encode(plot_dataset(data)._repr_png_()).decode("ascii")
    return f'{html_words(line)}<img style="max-width:100%" src="data:image/png;base64,{picture}">'
