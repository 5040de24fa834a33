"""4 · D with C D = 0, one file per family; knows no mechanics.

Equations (4.1)–(4.9): docs/theory/complements.md.
"""

from dalembert.complements._base import AbstractComplement, Choice, Completion, Local, check_choice
from dalembert.complements._classical import LU, QR, SVD, GramSchmidt, GramSchmidtByVectors, ZeroEigenvalues
from dalembert.complements._local import LocalCoordinates
from dalembert.complements._riemannian import Frame, Riemannian, projected_units, recursion_rates

__all__ = [
    "LU", "QR", "SVD", "AbstractComplement", "Choice", "Completion", "Frame", "GramSchmidt", "GramSchmidtByVectors",
    "Local", "LocalCoordinates", "Riemannian", "ZeroEigenvalues", "all_complements", "check_choice", "projected_units",
    "recursion_rates",
]  # fmt: skip


def all_complements() -> dict[str, AbstractComplement]:
    """Every complement by name: what the command line offers and the tests go through."""
    return {
        "lu": LU(),
        "svd": SVD(),
        "eigen": ZeroEigenvalues(),
        "qr": QR(),
        "gram-schmidt": GramSchmidt(),
        "gram-schmidt-by-vectors": GramSchmidtByVectors(),
        "local": LocalCoordinates(),
        "riemannian": Riemannian(),
        "riemannian-current": Riemannian("current"),
        "riemannian-one-shot": Riemannian("one-shot"),
        "riemannian-recursion": Riemannian(algorithm="recursion"),
    }
