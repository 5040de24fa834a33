"""edge · pictures: a report as one HTML page, from text, tables, figures and a motion; it needs no network."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from dalembert.view._page import page_of_dataset
from dalembert.view._scene import SOLVABILITY, SOLVABILITY_WORDS

LARGE_FIGURE = 350_000
"""Figures above this size in bytes are stored as points (PNG), not as lines (SVG)."""
MOTION_NUMBERS = 400_000
"""Numbers over time in the motion of a report: with tables and figures the page stays under 5 MB."""
MANY_ROWS = 40
"""Tables with more rows than this are folded."""


class Words(NamedTuple):
    """A sentence; `tone` colours it: "good", "open" (something is not determined) or "bad"."""

    text: str
    tone: str = ""


class Lines(NamedTuple):
    """A list with a title. Of a long one the first few are shown, the others unfold."""

    title: str
    lines: Sequence[str]
    shown: int = 8


class Mark(NamedTuple):
    """A cell of a table, coloured by solvability: "unique", "partly" or "open"."""

    text: str
    solvability: str


class Table(NamedTuple):
    """Cells are texts or `Mark`s; `numbers` are the columns that stand to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: Sequence[int] = ()
    title: str = ""


class Picture(NamedTuple):
    """A matplotlib figure, and a description of what it shows."""

    figure: Any
    text: str
    width: int = 100


class Motion(NamedTuple):
    """A result dataset, shown by the animated page."""

    data: Any


class Source(NamedTuple):
    """A text unchanged, folded."""

    title: str
    text: str


class Section(NamedTuple):
    """A part of a report under its title."""

    title: str
    blocks: list[Words | Lines | Table | Picture | Motion | Source]


def report_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The page as text. Every text is escaped: a name is never read as markup."""
    folder = files("dalembert.view") / "page"
    parts = {name: (folder / f"report.{name}").read_text(encoding="utf-8") for name in ("html", "css")}
    marks = "".join(f"--{name}: {colour}; " for name, colour in SOLVABILITY.items())
    body = [f"<header><h1>{_text(title)}</h1><p>{_text(lead)}</p></header>"]
    links = [f'<a href="#part{k}">{_text(s.title)}</a>' for k, s in enumerate(sections)]
    body.append(f"<nav>{''.join(links)}</nav>")
    for k, section in enumerate(sections):
        inside = "\n".join(_DRAWN[type(block)](block) for block in section.blocks)
        body.append(f'<section id="part{k}"><h2>{_text(section.title)}</h2>\n{inside}\n</section>')
    text = parts["html"]
    for mark, value in (
        ("@STYLE@", f":root {{ {marks}}}\n{parts['css']}"),
        ("@TITLE@", _text(title)),
        ("@BODY@", "\n".join(body)),
    ):
        text = text.replace(mark, value, 1)
    return text


def _text(value) -> str:
    return html.escape(str(value))


def _words(block: Words) -> str:
    tone = f' class="{_text(block.tone)}"' if block.tone else ""
    return f"<p{tone}>{_text(block.text)}</p>"


def _lines(block: Lines) -> str:
    if not block.lines:
        return ""
    seen, rest = block.lines[: block.shown], block.lines[block.shown :]
    out = f"<h3>{_text(block.title)}</h3>{_list(seen)}"
    return out + (f"<details><summary>{len(rest)} more</summary>{_list(rest)}</details>" if rest else "")


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _table(block: Table) -> str:
    def row(cells, tag: str) -> str:
        marked = [_cell(x, tag, k in block.numbers) for k, x in enumerate(cells)]
        return f"<tr>{''.join(marked)}</tr>"

    head = f"<thead>{row(block.headings, 'th')}</thead>" if any(block.headings) else ""
    rows = "\n".join(row(r, "td") for r in block.rows)
    out = f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'
    if len(block.rows) > MANY_ROWS:
        out = f"<details><summary>{len(block.rows)} rows</summary>{out}</details>"
    title = f"<h3>{_text(block.title)}</h3>" if block.title else ""
    return f'<div class="block">{title}{out}</div>'  # narrow ones are side by side


def _cell(value, tag: str, number: bool) -> str:
    side = ' class="number"' if number else ""
    if isinstance(value, Mark):
        # the colours add nothing to the text
        known = value.solvability if value.solvability in SOLVABILITY_WORDS else "open"
        return f'<{tag}{side}><i class="chip {known}"></i>{_text(value.text)}</{tag}>'
    return f"<{tag}{side}>{_text(value)}</{tag}>"


def _picture(block: Picture) -> str:
    kind, data = _encoded(block.figure)
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return f'<figure style="max-width: {block.width:d}%"><img alt="{_text(block.text)}" src="{source}"></figure>'


def _encoded(figure) -> tuple[str, bytes]:
    """Lines where they are few, else points. An image of its own, so that no name in it meets one of the page."""
    out = io.BytesIO()
    # without a background, so that it fits a light and a dark page
    how: dict[str, Any] = {"bbox_inches": "tight", "transparent": True}
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}, **how)
    if out.tell() <= LARGE_FIGURE:
        return "svg+xml", out.getvalue()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, **how)
    return "png", out.getvalue()


def _motion(block: Motion) -> str:
    page = page_of_dataset(block.data, numbers=MOTION_NUMBERS)
    # its own origin, no way to the page around it: scripts run there and nowhere else
    return f'<iframe title="the machine in motion" sandbox="allow-scripts" srcdoc="{html.escape(page)}"></iframe>'


def _source(block: Source) -> str:
    return f"<details><summary>{_text(block.title)}</summary><pre>{_text(block.text)}</pre></details>"


_DRAWN: dict[type, Any] = {
    Words: _words,
    Lines: _lines,
    Table: _table,
    Picture: _picture,
    Motion: _motion,
    Source: _source,
}
