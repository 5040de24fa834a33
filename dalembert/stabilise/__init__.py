"""5b· keeping the constraints: projection, filtering, Baumgarte, PI, nothing; and `consistent_state`.

Equations (5b.1)–(5b.6): docs/theory/stabilise.md.
"""

from dalembert.stabilise._base import AbstractStabilisation
from dalembert.stabilise._closing import Closing, free_neighbours, sizes_of
from dalembert.stabilise._contradicting import guarded
from dalembert.stabilise._correct import NoStabilisation, Projection, VelocityFilter
from dalembert.stabilise._feedback import PI, Baumgarte
from dalembert.stabilise._loosen import Loosened, check_tolerance, loosened
from dalembert.stabilise._rank import examined, generic_ranks, prepared_at, start_of
from dalembert.stabilise._reach import out_of_reach
from dalembert.stabilise._start import (
    CHANGED,
    EXACT,
    NEARLY,
    Assembled,
    assembled,
    closed_near,
    consistent_state,
    correction_sentence,
    nearest,
    open_rows,
    row_sizes,
    velocity_change,
)
from dalembert.stabilise._taut import Taut, taut
from dalembert.systems import State

__all__ = [
    "CHANGED", "EXACT", "NEARLY", "PI", "AbstractStabilisation", "Assembled", "Baumgarte", "Closing", "Loosened",
    "NoStabilisation", "Projection", "State", "Taut", "VelocityFilter", "all_stabilisations", "assembled",
    "check_tolerance", "closed_near", "consistent_state", "correction_sentence", "examined", "free_neighbours",
    "generic_ranks", "guarded", "loosened", "nearest", "open_rows", "out_of_reach", "prepared_at", "row_sizes",
    "sizes_of", "start_of", "taut", "velocity_change",
]  # fmt: skip


def all_stabilisations() -> dict[str, AbstractStabilisation]:
    """Every way to keep the constraints by name: what the command line offers and the tests go through."""
    return {
        "projection": Projection(),
        "two-corrections": Projection(corrections=2, frozen=False),
        "velocity-filter": VelocityFilter(),
        "baumgarte": Baumgarte(),
        "pi": PI(),
        "none": NoStabilisation(),
    }
