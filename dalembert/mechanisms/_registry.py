"""mechanisms · the list: name → how to make the model, what it shows, and how it is usually run."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dalembert._results import DalembertError, did_you_mean
from dalembert.model import Model

FILES = Path(__file__).parent / "files"
"""Each built-in mechanism as a model file; `python -m dalembert.mechanisms` writes them."""


@dataclass(frozen=True)
class Mechanism:
    """A built-in machine: `model()` makes it; `run` holds the settings `dalembert run` uses."""

    name: str
    summary: str
    make: Callable[..., Model]
    t_end: float = 10.0
    run: dict = field(default_factory=dict)

    def model(self, **numbers) -> Model:
        return self.make(**numbers)

    def settings(self) -> dict:
        """How it is usually run, as a model file says it."""
        return {"t_end": self.t_end} | self.run


_TABLE: dict[str, Mechanism] = {}


def register(name: str, summary: str, *, t_end: float = 10.0, **run):
    """Decorator: put a function that makes a model into the list."""

    def add(make: Callable[..., Model]):
        _TABLE[name] = Mechanism(name, summary, make, t_end, run)
        return make

    return add


def mechanisms() -> dict[str, Mechanism]:
    """All built-in mechanisms by name."""
    homes = [
        f"dalembert.mechanisms.{file}"
        for file in ("_planar", "_linkages", "_spatial", "_robots", "_wheeled", "_rolling", "_overconstrained")
    ]
    for home in homes:
        importlib.import_module(home)
    # whichever file was imported first, the list is always in the same order
    return dict(sorted(_TABLE.items(), key=lambda item: homes.index(item[1].make.__module__)))


def mechanism(name: str, **numbers) -> Model:
    """The model of a built-in mechanism; `numbers` are its own arguments, e.g. mechanism("n-four-bar", N=40).

    **Arguments**: `name`, one of `dalembert list`; a name that is not known is refused, with the nearest one.
    `numbers`, what the mechanism itself takes.

    **Returns** a `Model`, which may be changed.

        >>> import dalembert as da
        >>> da.mechanism("four-bar").name
        'four-bar'
    """
    found = find(name)
    known = inspect.signature(found.make).parameters
    for word in numbers:
        if word not in known:
            raise DalembertError(
                f"Mechanism '{name}' takes no '{word}'; it takes {', '.join(known) or 'no numbers'}."
                f"{did_you_mean(word, known)}"
            )
    return found.model(**numbers)


def find(name: str) -> Mechanism:
    """The entry of a built-in mechanism, or an error with the nearest names."""
    table = mechanisms()
    if name not in table:
        close = difflib.get_close_matches(name, table, n=3, cutoff=0.4)
        hint = f"Did you mean {', '.join(close)}? " if close else ""
        raise DalembertError(f"There is no mechanism '{name}'. {hint}`dalembert list` shows all.")
    return table[name]
