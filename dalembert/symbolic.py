"""2b· complements as expressions: from g and f̂ to Ĉ, D̂, J', D and C, to LaTeX, and to a FunctionSystem (SymPy).

[Blajer, Bestle, Schiehlen 1994, section 3], by the paper's algorithm, step by step. Needs the extra `symbolic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from dalembert._results import DalembertError
from dalembert.systems import ConstrainedPoint, FunctionSystem


@dataclass(frozen=True)
class SymbolicComplement:
    """Everything as SymPy matrices: Ĉ (m × κ), D̂ (κ × (κ − m)), J (κ × n), J' (n × n), D (n × k), C (m × n)."""

    q: Any
    x: Any
    g: Any
    f: Any
    t: Any
    Chat: Any
    Dhat: Any
    J: Any
    Jprime: Any
    D: Any
    C: Any
    complementary: tuple[int, ...]

    def latex(self, which: str = "D") -> str:
        """One of the matrices as LaTeX, by its field name."""
        return _sympy().latex(getattr(self, which))

    def system(self, mass, force, *, q0, parameters: dict | None = None, **more) -> FunctionSystem:
        """A FunctionSystem with these constraints; `mass` and `force` are functions or expressions in q (and q̇: `v`).

        `parameters` maps symbols of the expressions to numbers.
        """
        values = {s: float(x) for s, x in (parameters or {}).items()}
        g, f = (_substituted(e, values) for e in (self.g, self.f))
        of_q = _function((list(self.q),), g, flat=True)
        of_x = _function((self.t, list(self.x)), f, flat=True)
        point = ConstrainedPoint("closure", of_q, of_x)
        mass = mass if callable(mass) else _with_time(_function((list(self.q),), _substituted(mass, values)))
        if not callable(force):
            v = list(more.pop("v"))
            force = _function((self.t, list(self.q), v), _substituted(force, values), flat=True)
        return FunctionSystem(mass, force, points=[point], q0=q0, **more)


def symbolic_complement(
    q: Any, g: Any, f: Any, x: Any, *, complementary: Sequence[int] | None = None, t=None, at=None
) -> SymbolicComplement:
    """From local coordinates x = g(q) and local constraints f̂(x, t) = 0 to the orthogonal complement D, as expressions.

    `complementary` are the indices of the n − κ coordinates that complete J to J'; without it the best conditioned
    ones at the numbers `at` (a dict from symbols to values) are taken, or the first that make J' regular.
    """
    sp = _sympy()
    q, x, g, f = (sp.Matrix(list(a)) for a in (q, x, g, f))
    t = sp.Symbol("t") if t is None else t
    n, kappa, m = len(q), len(x), len(f)
    J = g.jacobian(q)
    local = f.jacobian(x)
    at_g = dict(zip(x, g, strict=True))
    Chat = local.subs(at_g)
    # D̂ from Ĉ: the null space of a small matrix, symbolically
    null = local.nullspace()
    Dhat = (sp.Matrix.hstack(*null) if null else sp.zeros(kappa, 0)).subs(at_g)
    own = tuple(complementary) if complementary is not None else _complementary(sp, J, n, kappa, at)
    G = sp.zeros(n - kappa, n)
    for row, column in enumerate(own):
        G[row, column] = 1
    Jprime = sp.Matrix.vstack(J, G)
    free = Dhat.shape[1]
    Dp = sp.zeros(n, free + n - kappa)  # (15)
    Dp[:kappa, :free] = Dhat
    for k in range(n - kappa):
        Dp[kappa + k, free + k] = 1
    # (17) by the block inverse (18): only J₂ is inverted
    rest = [k for k in range(n) if k not in own]
    inverse = J.extract(list(range(kappa)), rest).inv()
    D = sp.zeros(n, Dp.shape[1])
    top, bottom = Dp[:kappa, :], Dp[kappa:, :]
    inner = inverse * (top - J.extract(list(range(kappa)), list(own)) * bottom)
    for row, k in enumerate(rest):
        D[k, :] = inner[row, :]
    for row, k in enumerate(own):
        D[k, :] = bottom[row, :]
    D = D.applyfunc(lambda e: sp.trigsimp(sp.simplify(e)))
    C = (Chat * J).applyfunc(sp.simplify)
    if m + D.shape[1] != n:
        raise DalembertError(
            f"{m} constraints on {n} coordinates leave {n - m} directions, but {D.shape[1]} were found."
        )
    return SymbolicComplement(q, x, g, f, t, Chat, Dhat, J, Jprime, D, C, own)


def _complementary(sp, J, n: int, kappa: int, at) -> tuple[int, ...]:
    from itertools import combinations

    best, chosen = 0.0, None
    for own in combinations(range(n), n - kappa):
        rest = [k for k in range(n) if k not in own]
        determinant = J.extract(list(range(kappa)), rest).det()
        if at is None:
            if sp.simplify(determinant) != 0:
                return own
            continue
        size = abs(float(determinant.subs(at)))
        if size > best:
            best, chosen = size, own
    if chosen is None:
        raise DalembertError("No choice of complementary coordinates makes J' regular: the local coordinates depend.")
    return chosen


def _sympy():
    try:
        import sympy
    except ImportError as error:
        raise DalembertError("Symbolic complements need SymPy: pip install 'dalembert[symbolic]'.") from error
    return sympy


def _substituted(expression, values: dict):
    sp = _sympy()
    return sp.Matrix(expression).subs(values)


def _function(arguments: tuple, matrix, flat: bool = False):
    """Expressions → a JAX function."""
    sp = _sympy()
    compiled = sp.lambdify(arguments, matrix.tolist(), modules="jax", cse=True)

    def evaluate(*values):
        out = jnp.stack([jnp.stack([jnp.asarray(e, float) for e in row]) for row in compiled(*values)])
        return out[:, 0] if flat else out

    return evaluate


def _with_time(function):
    return lambda t, q: function(q)
