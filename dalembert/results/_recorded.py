"""6b· results: a run from a file that does not hold its model: its labelled data, and pictures of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert._results import DalembertError, Status
from dalembert.io import write_csv
from dalembert.results._measurements import named
from dalembert.results._reactions import of_joint
from dalembert.simulation import Solution

if TYPE_CHECKING:
    import xarray as xr


class RecordedRun:
    """A run from a file that does not hold its model: what was saved, and pictures of it.

    `dataset`, `t`, `status`, `reactions(joint)`, `plot()`, `animate(path)`, `to_csv(path)`. What must be computed from
    the model is refused with a message that states why it is missing (`missing`).
    """

    def __init__(self, path: Path, dataset, why: str, *, recorded: bool = True):
        self.path, self.dataset = path, dataset
        self.missing = (
            f"'{path}' holds the numbers of a run, not its model: {why.rstrip('.')}. "
            + (
                "Give the system that it was made with, da.open(path, system=…); without it the "
                if recorded
                else "The "
            )
            + "labelled data can be read (dataset), plotted and played."
        )

    @property
    def t(self) -> np.ndarray:
        return self.dataset["time"].values

    @property
    def status(self) -> Any:
        if "run" in self.dataset.dims:
            return np.array([Status[str(x)] for x in self.dataset["status"].values], object)
        return Status[self.dataset.attrs["status"]]

    @property
    def measurements(self) -> xr.Dataset:
        """Measurements, inputs and states of controllers, each under its name, as they were saved."""
        return named(self.dataset)

    def reactions(self, joint: str, *, frame: str = "world") -> xr.Dataset:
        """Force and torque of a joint on its body j, as they were saved."""
        names = list(self.dataset["joint"].values) if "joint" in self.dataset else []
        if joint not in names:
            raise DalembertError(f"There is no joint '{joint}'; the joints are {', '.join(names)}.")
        return of_joint(self.dataset, joint, frame, self.dataset.attrs["reaction_rule"])

    def plot(self, what=None, *, path=None, **options):
        """A matplotlib figure by its name, as `Solution.plot`."""
        from dalembert.view import plot_dataset

        return plot_dataset(self.dataset, what, path=path, **options)

    def animate(self, path, **options) -> Path:
        """Write the motion: .html, .gif or .mp4."""
        from dalembert.view import animate_dataset

        return animate_dataset(self.dataset, path, **options)

    def to_csv(self, path) -> Path:
        """Write the dataset as one wide table."""
        return write_csv(self.dataset, path)

    def __repr__(self) -> str:
        return f"RecordedRun of '{self.dataset.attrs.get('model', '')}', {len(self.t)} instants, without its model"

    def _repr_html_(self) -> str:
        from dalembert.view import html_run, html_words

        return html_words(repr(self)) if "run" in self.dataset.dims else html_run(self.dataset, repr(self))

    def __getattr__(self, name: str):
        if not name.startswith("_") and (hasattr(Solution, name) or name in Solution.__dataclass_fields__):
            raise DalembertError(self.__dict__["missing"])
        raise AttributeError(name)
