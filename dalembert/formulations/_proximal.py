"""5 · formulations: the default."""

from __future__ import annotations

from dalembert.equations import Equations
from dalembert.formulations._base import AbstractFormulation, Acceleration


class Proximal(AbstractFormulation):
    """The augmented equations [M Cᵀ; C 0], solved so that dependent rows and singular positions are normal.

    Small systems eliminate v̇ (range space: Blajer, Bestle, Schiehlen 1994, eq. 35) and take a Cholesky of the
    scaled Delassus matrix with proximal refinement; large ones factorise the sparse saddle-point matrix
    [Wojtyra, Fraczek 2013, eq. 11] with KLU. Exact for consistent constraints; where they contradict each
    other it gives the least-squares motion in the mass metric, and the march reports it. Cost O(m³) dense,
    about linear in the bodies when sparse.
    """

    def solve(self, equations: Equations) -> Acceleration:
        vdot, _ = equations.factorise().solve(equations.h, equations.Gamma)
        return Acceleration(vdot, equations.mass.mv(vdot) - equations.h)
