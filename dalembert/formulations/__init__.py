"""5 · Equations → v̇ and r = M v̇ − h.

Equations (5.1)–(5.10): docs/theory/formulations.md.
"""

from __future__ import annotations

from dalembert.complements import AbstractComplement, Riemannian
from dalembert.formulations._base import AbstractFormulation, Acceleration, Motion, Ranks
from dalembert.formulations._complementary import (
    IndependentCoordinates,
    IndependentMemory,
    MinimalOrder,
    NullSpace,
    Resolved,
    TangentMemory,
)
from dalembert.formulations._direct import (
    Augmented,
    AugmentedLagrangian,
    Penalty,
    Projector,
    RangeSpace,
    UdwadiaKalaba,
)
from dalembert.formulations._proximal import Proximal

__all__ = [
    "AbstractFormulation",
    "Acceleration",
    "Augmented",
    "AugmentedLagrangian",
    "IndependentCoordinates",
    "IndependentMemory",
    "MinimalOrder",
    "Motion",
    "NullSpace",
    "Penalty",
    "Projector",
    "Proximal",
    "RangeSpace",
    "Ranks",
    "Resolved",
    "TangentMemory",
    "UdwadiaKalaba",
    "all_formulations",
    "on_complement",
]


def all_formulations() -> dict[str, AbstractFormulation]:
    """Every formulation by name, with its usual complement: what the command line offers and the tests go through."""
    return {
        "proximal": Proximal(),
        "augmented": Augmented(),
        "range-space": RangeSpace(),
        "null-space": NullSpace(),
        "minimal-order": MinimalOrder(),
        "resolved": Resolved(),
        "independent": IndependentCoordinates(),
        "projector": Projector(),
        "udwadia-kalaba": UdwadiaKalaba(),
        "penalty": Penalty(),
        "augmented-lagrangian": AugmentedLagrangian(),
    }


def on_complement(formulation: AbstractFormulation, complement: AbstractComplement) -> AbstractFormulation | None:
    """The formulation on another complement, or None if it cannot use it."""
    if isinstance(formulation, NullSpace | MinimalOrder):
        return type(formulation)(complement)
    if isinstance(formulation, Resolved) and isinstance(complement, Riemannian):
        return Resolved(complement)
    return None
