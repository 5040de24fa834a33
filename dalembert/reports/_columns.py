"""edge · reports: a table of text in columns that always fit the terminal."""

from __future__ import annotations

GAP = 2  # blanks between columns
NARROW = 16  # least width of a column of names while others can still shrink


class Columns:
    """Rows of cells in columns that are always all shown: text that is too wide is broken inside its column."""

    def __init__(self, headings: tuple[str, ...], styles: tuple[str, ...]):
        self.headings, self.styles = headings, styles
        self.rows: list[tuple[list[str], ...]] = []  # of each cell its words: a break comes between them

    def __rich_console__(self, console, options):
        from rich.text import Text

        lines = self.lines(options.max_width)
        for k, cells in enumerate(lines):
            out = Text("  ")
            for cell, style in zip(cells, self.styles, strict=True):
                out.append(cell, "bold" if k == 0 else style)
            out.rstrip()
            yield out

    def lines(self, width: int) -> list[tuple[str, ...]]:
        """The text line by line, each cell filled up to its column's width."""
        widths = self._widths(width - 2)
        out = [self._filled(self.headings, widths)]
        for row in self.rows:
            cells = [_broken(words, w) for words, w in zip(row, widths, strict=True)]
            for k in range(max(map(len, cells))):
                out.append(self._filled([c[k] if k < len(c) else "" for c in cells], widths))
        return out

    def _filled(self, cells, widths) -> tuple[str, ...]:
        gaps = [GAP] * (len(widths) - 1) + [0]
        return tuple(c.ljust(w) + " " * g for c, w, g in zip(cells, widths, gaps, strict=True))

    def _widths(self, width: int) -> list[int]:
        columns = list(zip(*self.rows, strict=True))
        widths = [
            max(len(h), *(len(" ".join(c)) for c in cells)) for h, cells in zip(self.headings, columns, strict=True)
        ]
        words = [
            max(len(h), *(max(map(len, c), default=0) for c in cells))
            for h, cells in zip(self.headings, columns, strict=True)
        ]
        least = [max(len(h), 4) for h in self.headings]
        room = width - GAP * (len(widths) - 1)
        # names shrink first, then values between their words, then the rest
        for column, lowest in (
            (0, NARROW),
            (2, words[2]),
            (3, words[3]),
            (0, least[0]),
            (1, least[1]),
            (2, 10),
            (3, 10),
        ):
            over = sum(widths) - room
            if over > 0:
                widths[column] = max(widths[column] - over, min(widths[column], max(lowest, least[column])))
        return widths


def _broken(words: list[str], width: int) -> list[str]:
    """Words on lines of a width; a word that is longer is cut."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + (lines[-1] != "") <= width:
            lines[-1] += (" " if lines[-1] else "") + word
            continue
        pieces = [word[k : k + width] for k in range(0, len(word), width)] or [""]
        lines = [*lines, *pieces] if lines[-1] else [*lines[:-1], *pieces]
    return lines
