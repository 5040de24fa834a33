"""docs · a hook of mkdocs: no page may load anything from outside. Links that a person follows are fine."""

from __future__ import annotations

import logging
import re

LOADS = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="(https?:)?//[^"]*"|<link[^>]*\shref="(https?:)?//[^"]*"')


def on_post_page(output: str, page, config) -> str:
    for found in LOADS.finditer(output):
        logging.getLogger("mkdocs.hooks").warning(f"{page.file.src_uri} loads from outside: {found[0]}")
    return output
