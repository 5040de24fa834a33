"""linalg · dense and sparse factorisations, rank in the mass metric; knows no mechanics."""

from dalembert import _runtime as _runtime  # float64 first
from dalembert.linalg._blocks import (
    BlockMass,
    BlockPattern,
    BlockRows,
    Group,
    dense_of_blocks,
    rows_times_blocks,
    times,
)
from dalembert.linalg._coulomb import STICK, Choice, Coulomb, Pushed
from dalembert.linalg._dependence import LARGE, ZERO, Combination, Dependence, null_by_qr, removable, short_dependencies
from dalembert.linalg._impulses import impulses_of_contacts
from dalembert.linalg._klu import KLU
from dalembert.linalg._least import Least, least
from dalembert.linalg._pivot import blocks_times, mass_root, others, pick_rows, pivot_columns, pseudo_inverse, unit_rows
from dalembert.linalg._ranges import (
    GAP,
    Cone,
    Conflict,
    ConvexSet,
    Extremes,
    MissingSolver,
    analytic_centre,
    extremes,
    solves_cones,
)
from dalembert.linalg._rank import RANK_TOLERANCE, WEAK, mass_metric_rows
from dalembert.linalg._saddle import EPS, NEAR, SOLVED, Attempt, DenseSaddle, SparseSaddle, factorise

__all__ = [
    "EPS",
    "GAP",
    "KLU",
    "LARGE",
    "NEAR",
    "RANK_TOLERANCE",
    "SOLVED",
    "STICK",
    "WEAK",
    "ZERO",
    "Attempt",
    "BlockMass",
    "BlockPattern",
    "BlockRows",
    "Choice",
    "Combination",
    "Cone",
    "Conflict",
    "ConvexSet",
    "Coulomb",
    "DenseSaddle",
    "Dependence",
    "Extremes",
    "Group",
    "Least",
    "MissingSolver",
    "Pushed",
    "SparseSaddle",
    "analytic_centre",
    "blocks_times",
    "dense_of_blocks",
    "extremes",
    "factorise",
    "impulses_of_contacts",
    "least",
    "mass_metric_rows",
    "mass_root",
    "null_by_qr",
    "others",
    "pick_rows",
    "pivot_columns",
    "pseudo_inverse",
    "removable",
    "rows_times_blocks",
    "short_dependencies",
    "solves_cones",
    "times",
    "unit_rows",
]
