"""linalg · impulses of many contacts with friction at once; knows no mechanics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

SWEEPS, ROUNDS, EXACT = 200, 30, 1e-12
"""The most sweeps over the contacts before a step of Newton's method, the most such rounds in all, and the
relative change of the impulses that ends them."""
DAMPED = 1e-12
"""Damping of Newton's steps: contacts that share a load leave their matrix singular."""


def impulses_of_contacts(W, offset, before, active, mu, restitution, former, tied):
    """The impulses that meet λ = project(λ − W λ − offset), each on its half line, friction in its cone; and what is
    left of that, over the largest.

    Gauss–Seidel, each contact in turn, comes near from anywhere, but ever more slowly the more unlike the masses are
    and the higher they are stacked; Newton's method on the same equations ends it, wherever it comes nearer.
    """
    n, size = len(before), len(offset)
    most = max((len(rows) for rows in tied), default=0)
    # the tied rows of each contact; where it has fewer than others, a row of zeros at the end
    place, start = np.full((n, most), size), n
    for k, rows in enumerate(tied):
        place[k, : len(rows)] = np.arange(start, start + len(rows))
        start += len(rows)
    W, offset = jnp.pad(W, ((0, 1), (0, 1))), jnp.pad(offset, (0, 1))
    diagonal, tangential = jnp.diagonal(W), jnp.asarray(place)
    back = restitution * jnp.minimum(before, 0.0)
    there = active & (diagonal[:n] > 0)
    scale = jnp.where(there, diagonal[:n], 1.0)
    across = jnp.maximum(jnp.sum(diagonal[tangential], axis=1), 1e-300)
    holds = jnp.isinf(mu)
    coefficient = jnp.where(holds, 0.0, mu)

    def normal(k, lam, rate):
        return jnp.where(there[k], jnp.maximum(0.0, lam[k] - (rate + back[k]) / scale[k]), 0.0)

    def friction(k, lam, slip, own):
        """In the cone of a push `own`."""
        at = tangential[k]
        wanted = jnp.where(at < size, lam[at] - slip / across[k][..., None], 0.0)
        length = jnp.sqrt(jnp.sum(wanted**2, axis=-1) + 1e-300)
        share = jnp.where(holds[k], jnp.where(own > 0, 1.0, 0.0), jnp.minimum(1.0, coefficient[k] * own / length))
        return wanted * share[..., None]

    def push(k, lam):
        own = normal(k, lam, W[k] @ lam + offset[k])
        lam = lam.at[k].set(own)
        if not most:
            return lam
        at = tangential[k]
        return lam.at[at].set(friction(k, lam, W[at] @ lam + offset[at], own))

    def projected(lam):
        """All contacts at once."""
        rate, every = W @ lam + offset, jnp.arange(n)
        own = normal(every, lam, rate[:n])
        out = jnp.zeros(size + 1).at[:n].set(own)
        return out.at[tangential].set(friction(every, lam, rate[tangential], own)) if most else out

    def left(lam):
        return jnp.max(jnp.abs(projected(lam) - lam), initial=0.0) / (jnp.max(jnp.abs(lam), initial=0.0) + 1e-300)

    def swept(lam):
        def one(carry):
            k, lam, _ = carry
            new = jax.lax.fori_loop(0, n, push, lam)
            return k + 1, new, jnp.max(jnp.abs(new - lam), initial=0.0) / (jnp.max(jnp.abs(new), initial=0.0) + 1e-300)

        return jax.lax.while_loop(lambda x: (x[0] < SWEEPS) & (x[2] > EXACT), one, (0, lam, jnp.asarray(jnp.inf)))[1]

    def newton(lam):
        r = projected(lam) - lam
        J = jax.jacfwd(projected)(lam) - jnp.eye(size + 1)
        return projected(lam - jnp.linalg.solve(J.T @ J + DAMPED * jnp.eye(size + 1), J.T @ r))

    def go(carry):
        k, lam, _ = carry
        lam = swept(lam)
        near, ended = left(lam), newton(lam)
        better = (near > 10 * EXACT) & (left(ended) < near)
        return k + 1, jnp.where(better, ended, lam), jnp.where(better, left(ended), near)

    def on(carry):
        k, _, far = carry
        return (k < ROUNDS) & (far > 10 * EXACT)

    first = jnp.append(former, 0.0)
    _, lam, far = jax.lax.while_loop(on, go, (0, first, jnp.asarray(jnp.inf)))
    return lam[:size], far
