"""The examples of the papers as systems of the user's own equations.

- Blajer, Bestle, Schiehlen (1994), examples 1 and 2: three uniform rods, angles θ₁ θ₂ θ₃ as coordinates, held at A.
- Blajer (1995), section 6: a physical pendulum whose one end slides along a line.
"""

from __future__ import annotations

import jax.numpy as jnp

import dalembert as da

# longest + shortest > the other two: no link turns round, and each pair of links becomes parallel on the way
L = (1.0, 0.8, 1.1)
A_B = (1.9, 0.0)  # the fixed point A
MASSES = (1.0, 2.0, 1.5)
GRAVITY = 9.81


# the centre of rod k lies at Σ_j w_kj l_j e_j; in case b the third rod hangs at A by itself
_SHARES = {"a": [[0.5, 0, 0], [1, 0.5, 0], [1, 1, 0.5]], "b": [[0.5, 0, 0], [1, 0.5, 0], [0, 0, 0.5]]}


def _levers(case):
    w = jnp.array(_SHARES[case]) * jnp.array(L)
    return jnp.einsum("k,ki,kj->ij", jnp.array(MASSES), w, w), jnp.array(MASSES) @ w


def mass(case):
    coupling, _ = _levers(case)
    spin = jnp.diag(jnp.array([m * l**2 / 12 for m, l in zip(MASSES, L, strict=True)]))
    return lambda t, q: coupling * jnp.cos(q[:, None] - q) + spin


def force(case):
    coupling, weight = _levers(case)

    def h(t, q, v):
        return -(coupling * jnp.sin(q[:, None] - q)) @ v**2 - GRAVITY * weight * jnp.cos(q)

    return h, lambda t, q: GRAVITY * jnp.sum(weight * jnp.sin(q))


def gap_a(q):
    """(22a)."""
    l1, l2, l3 = L
    c, s = jnp.cos(q), jnp.sin(q)
    return jnp.stack([l1 * c[0] + l2 * c[1] + l3 * c[2] - A_B[0], l1 * s[0] + l2 * s[1] + l3 * s[2] - A_B[1]])


def gap_b(q):
    """(22b)."""
    l1, l2, l3 = L
    c, s = jnp.cos(q), jnp.sin(q)
    return jnp.stack([l1 * c[0] + l2 * c[1] - A_B[0] + l3 * c[2], l1 * s[0] + l2 * s[1] - A_B[1] - l3 * s[2]])


def closed(t, x):
    """(19): both local coordinates are zero."""
    return x


def four_bar(case="a", v0=(0.0, 0.0, 0.0)):
    """Example 1."""
    h, potential = force(case)
    gap = gap_a if case == "a" else gap_b
    q0 = (0.8, 0.2, -0.9) if case == "a" else (0.8, 0.2, 0.9)
    point = da.systems.ConstrainedPoint("A", gap, closed)
    return da.FunctionSystem(
        mass(case), h, points=[point], q0=q0, v0=v0, potential=potential, name=f"example-1{case}"
    )  # fmt: skip


ALPHA, OFFSET = 0.4, 0.3


def tip(q):
    """Where the third rod ends: the point A of example 2."""
    return gap_a(q) + jnp.array(A_B)


def on_line(t, x):
    """(26a): y − (x − c / sin α) tan α = 0."""
    return (x[1] - (x[0] - OFFSET / jnp.sin(ALPHA)) * jnp.tan(ALPHA))[None]


def across(q):
    """x₁ of (26b): the coordinate across the line, positive on the side of the origin's normal."""
    x = tip(q)
    return (x[0] * jnp.sin(ALPHA) - x[1] * jnp.cos(ALPHA))[None]


def at_offset(t, x):
    """(26b): x₁ − c = 0."""
    return x - OFFSET


def on_a_line(case="a", free_directions=False):
    """Example 2; with `free_directions` D̂ is given as (29a)."""
    h, potential = force("a")
    directions = (lambda t, x: jnp.array([[1.0], [jnp.tan(ALPHA)]])) if free_directions else None
    point = (
        da.systems.ConstrainedPoint("A", tip, on_line, directions)
        if case == "a"
        else da.systems.ConstrainedPoint("A", across, at_offset)
    )
    return da.FunctionSystem(
        mass("a"), h, points=[point], q0=(0.7, 0.2, -0.6), potential=potential, name=f"example-2{case}"
    )  # fmt: skip


RHO, M_P, J_P = 0.6, 2.0, 0.3


def sliding_pendulum(mass=M_P, inertia=J_P, v0=(0.3, 0.0, 0.8)):
    """Blajer (1995), section 6: M = diag(m, m, J), f = x₂ − ρ sin x₃."""

    def h(t, q, v):
        return jnp.stack([1.0 + 0.2 * v[0], -mass * GRAVITY + 0.1 * q[0], 0.4 - 0.3 * v[2]])

    return da.FunctionSystem(
        lambda t, q: jnp.diag(jnp.array([mass, mass, inertia])), h,
        position=lambda t, q: (q[1] - RHO * jnp.sin(q[2]))[None], q0=(0.1, RHO * jnp.sin(0.7), 0.7), v0=v0,
        name="sliding-pendulum",
    )  # fmt: skip
