"""6 · simulation: the progress bar (rich), fed from the host between two parts of a march."""

from __future__ import annotations


class Bar:
    """A terminal bar that fills with the finished share and goes away from pipes."""

    def __init__(self, label: str = "simulating") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
        )
        self._task = self._progress.add_task(label, total=1.0)
        self._progress.start()

    def __call__(self, share: float) -> None:
        self._progress.update(self._task, completed=share)

    def close(self) -> None:
        self._progress.stop()
