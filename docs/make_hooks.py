"""docs · hooks of mkdocs: formulas are typeset, the mechanisms of the gallery get their pages, and no page may load
anything from outside. Links that a person follows are fine."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOADS = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="(https?:)?//[^"]*"|<link[^>]*\shref="(https?:)?//[^"]*"')


def on_page_markdown(markdown: str, page, config, files) -> str:
    return _maker("make_formulas").typeset(markdown)


def on_post_page(output: str, page, config) -> str:
    for found in LOADS.finditer(output):
        logging.getLogger("mkdocs.hooks").warning(f"{page.file.src_uri} loads from outside: {found[0]}")
    return output


def on_post_build(config) -> None:
    """The motions of docs/motions (made by docs/make_gallery.py), each on the page that `solution.animate` writes."""
    from dalembert.view._page import page_with

    folder = Path(config["site_dir"]) / "motions"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((HERE / "motions").glob("*.json")):
        scene = json.loads(path.read_text(encoding="utf-8"))
        (folder / f"{path.stem}.html").write_text(page_with(scene), encoding="utf-8")


def _maker(name: str):
    sys.path.insert(0, str(HERE))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(HERE))
