"""6 · simulation: the progress bar, fed from the host between two parts of a march."""

from __future__ import annotations

from typing import Any


class Bar:
    """A bar that fills with the finished share: on a terminal by rich (not shown in pipes), in a notebook its own.

    Rich needs ipywidgets in a notebook; a line of HTML that is rewritten needs nothing.
    """

    def __init__(self, label: str = "simulating") -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self._bar: Any = _InNotebook(label) if console.is_jupyter else _OnTerminal(label, console)

    def __call__(self, share: float) -> None:
        self._bar.show(share)

    def close(self) -> None:
        self._bar.close()


class _OnTerminal:
    def __init__(self, label: str, console) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
        )
        self._task = self._progress.add_task(label, total=1.0)
        self._progress.start()

    def show(self, share: float) -> None:
        self._progress.update(self._task, completed=share)

    def close(self) -> None:
        self._progress.stop()


class _InNotebook:
    def __init__(self, label: str) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        self._label, self._html = label, HTML
        self._place = display(HTML(self._text(0.0)), display_id=True)

    def _text(self, share: float) -> str:
        return f"{self._label} <progress value='{share:.3f}' max='1'></progress> {share:.0%}"

    def show(self, share: float) -> None:
        if self._place is not None:
            self._place.update(self._html(self._text(share)))

    def close(self) -> None:
        pass
