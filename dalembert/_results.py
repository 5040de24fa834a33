"""0 · how a run ended: every run-time failure as a sentence, and the errors that contain them."""

from __future__ import annotations

import difflib
import enum
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class DalembertError(Exception):
    """Base of all errors this package raises on purpose; the text is meant for users."""


class ModelError(DalembertError):
    """All mistakes of a model, collected: `mistakes` is the list, the text shows one per line."""

    def __init__(self, model_name: str, mistakes: Sequence[str]):
        self.mistakes = list(mistakes)
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__(f"Model '{model_name}' has {count}:\n" + "\n".join(f"  - {m}" for m in mistakes))


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """ " Did you mean 'x'?" where something known is near, else nothing."""
    known = list(words)
    if len(known) > 200:  # comparing takes long; a mistyped name mostly begins as it should
        known = [w for w in known if w[:2] == word[:2]][:200]
    close = difflib.get_close_matches(word[:100], known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


FIGURES = (".png", ".pdf", ".svg")


def check_output(path, endings: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written before the work is done, not after."""
    if path is None:
        return
    path = Path(path)
    if path.suffix not in endings:
        raise DalembertError(f"Cannot write '{path}': its name must end in {' or '.join(endings)}.")
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise DalembertError(f"Cannot write '{path}': the folder '{path.parent}' is read-only for you.")


def check_place(path: Path) -> None:
    """Refuse a file in a folder that is not there, or that is a folder itself."""
    if not path.parent.is_dir():
        raise DalembertError(f"Cannot write '{path}': the folder '{path.parent}' does not exist.")
    if path.is_dir():
        raise DalembertError(f"Cannot write '{path}': it is a folder.")


class Complaint(NamedTuple):
    """What is wrong in a file, and where: line and column count from 1; line 0 means the file as a whole."""

    line: int
    column: int
    text: str


class FileError(ModelError):
    """A model file that cannot be used: `complaints` holds every mistake with its place, in the file's order."""

    MOST = 50  # shown

    def __init__(self, path, complaints: list[Complaint]):
        self.path = str(path)
        self.complaints = sorted(set(complaints))
        self.mistakes = [c.text for c in self.complaints]
        shown = [
            f"{self.path}:{c.line}:{c.column}: {c.text}" if c.line else f"{self.path}: {c.text}"
            for c in self.complaints[: self.MOST]
        ]
        if len(self.complaints) > self.MOST:
            shown.append("… and more.")
        many = f"more than {self.MOST}" if len(self.complaints) > self.MOST else f"{len(self.complaints)}"
        count = "1 mistake" if len(self.complaints) == 1 else f"{many} mistakes"
        DalembertError.__init__(self, f"{self.path} has {count}:\n" + "\n".join(f"  {line}" for line in shown))


class AssemblyError(DalembertError):
    """The constraints cannot be met from the given start: names the joints that stay open."""


class PoseError(AssemblyError):
    """Exact targets that no pose meets: says which and why; `pose` is the nearest one."""

    def __init__(self, sentence: str, pose=None):
        self.pose = pose
        super().__init__(sentence)


class BatchError(DalembertError):
    """A machine whose motions are not marched in batches: `simulate` each."""


class EquilibriumError(DalembertError):
    """No equilibrium was found: says why; `q` is the pose where the search ended."""

    def __init__(self, sentence: str, q=None):
        self.q = q
        super().__init__(sentence)


class SimulationError(DalembertError):
    """A motion that did not reach its end; `solution` holds what was computed until then."""

    def __init__(self, sentence: str, solution=None):
        self.solution = solution
        super().__init__(sentence)


class AssemblyWarning(UserWarning):
    """The start violated its constraints by more than the tolerance and was projected: names the joints and how far."""


class ActuationWarning(UserWarning):
    """The actuators cannot make the motion that is asked for: names what does not follow, and when."""


class RedundancyWarning(UserWarning):
    """The rigid-body model does not determine these reactions; a named rule picked their values."""


class SingularWarning(UserWarning):
    """At some times the rows are dependent or nearly so: reactions at saved ones are marked, with times and joints; and
    where bodies are very light the motion itself may have lost digits."""


class StiffnessWarning(UserWarning):
    """The run reached its end in very many steps, which stability kept short, not accuracy."""


class SlackBeltWarning(UserWarning):
    """A belt transmits more than its pretension allows: its slack span would be compressed. Names belts and times."""


class LiftOffWarning(UserWarning):
    """A support that only pushes would have to pull, or a cable to push, to keep the motion: names them and times."""


class RecordWarning(UserWarning):
    """Too little was saved of a run: a file holds its numbers but not all that is needed to compute with them, or the
    saved times are too far apart to count full turns. States what and why."""


class DataWarning(UserWarning):
    """Data of an input do not cover the time of a run: names it, and what it does beyond them."""


class PrecisionWarning(UserWarning):
    """Numbers were given as float32, with seven digits only: names them."""


def tell_single_precision(what: str, value) -> None:
    """Warn if numbers come in float32 (or shorter) and so have lost digits; 0.5 has not, 0.1 has."""
    kind = getattr(value, "dtype", None)
    if kind is None or kind.itemsize >= 8 or str(kind) not in ("float32", "float16", "bfloat16"):
        return
    import numpy as np

    plain = np.ravel(np.asarray(value, np.float32))
    if any(float(str(x)) != float(x) for x in plain):
        sentence = f"{what}: the numbers come as {kind}, so digits after the seventh are lost. Make them in float64."
        warn_caller(sentence, PrecisionWarning)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the user's line that called into this package, through what Equinox and JAX put between."""
    frame, level = sys._getframe(1), 2
    inside = {"dalembert", "equinox", "jax", "jaxtyping", "functools"}
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class ConversionWarning(UserWarning):
    """What a robot file contains that was not imported unchanged: `remarks`, one sentence each."""

    def __init__(self, path, remarks: Iterable[str]):
        self.remarks = tuple(remarks)
        super().__init__(f"{path} was read with remarks:\n" + "\n".join(f"  - {r}" for r in self.remarks))


class Status(enum.IntEnum):
    """How a run ended. The codes pass through compiled code; `message` is the text for users."""

    done = 0
    event = 1
    max_steps = 2
    step_too_small = 3
    not_finite = 4
    rank_change = 5
    not_assembled = 6
    inconsistent = 7
    eliminated_drifts = 8
    no_load = 9
    wound = 10

    @property
    def message(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Status.done: "The run reached its end.",
    Status.event: "The run stopped at an event.",
    Status.max_steps: "The run used all its steps. Raise max_steps, loosen rtol, or, for a stiff model, "
    "use integrator='radau5'.",
    Status.step_too_small: "The step size became too small to go on: the motion is not smooth there (a force law that "
    "jumps, a stop, a singular position), or the model is stiff (use integrator='radau5').",
    Status.not_finite: "The accelerations are no longer finite numbers (a division by zero in a force law, "
    "a massless body, or a motion that blows up).",
    Status.rank_change: "The constraint rank changed: a singular position.",
    Status.not_assembled: "The mechanism cannot be assembled: the constraints are not met at the start.",
    Status.inconsistent: "The constraints contradict each other: no motion meets all of them.",
    Status.eliminated_drifts: "An equation that was eliminated as redundant no longer holds.",
    Status.no_load: "Friction is so strong that no joint load agrees with it, or several do: rigid bodies with Coulomb "
    "friction have no single answer there (Painlevé's paradox). Lower coulomb=, or make the contact elastic.",
    Status.wound: "A joint turned more than half a turn away from where a law on its angle starts from. In space turns "
    "are not counted, so the law cannot go on: model the machine in the plane, or write the law without the angle.",
}
