"""linalg · block matrices with a static pattern: rows C (few blocks per row) and a block-diagonal mass M."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._typing import Array


class Keyed:
    """Static data: compared by their `key`, which is hashed once in a process (a hash of thousands of indices at each
    call would be measurable)."""

    key: tuple

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __getstate__(self):
        return {k: x for k, x in vars(self).items() if k != "_hash"}

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        return self is other or (
            isinstance(other, Keyed)
            and type(self) is type(other)
            and self._hash == other._hash
            and self.key == other.key
        )


class Group(Keyed):
    """`count` alike row blocks: rows[c, r] is a row's index in C, columns[c, k] a block column (nb: none)."""

    def __init__(self, rows, columns):
        self.rows = np.asarray(rows, np.int32)
        self.columns = np.asarray(columns, np.int32)
        self.key = (self.rows.shape, self.columns.shape, self.rows.tobytes(), self.columns.tobytes())


class BlockPattern(Keyed):
    """Where the entries of a block-sparse m × n matrix lie.

    Entries are stored flat, group after group, each group as (count, r, k, d). Entries of the column block
    `nb` (the fixed ground) are kept in the data but belong to no column.
    """

    def __init__(self, m: int, blocks: int, width: int, groups: Sequence[Group]):
        self.m, self.blocks, self.width = m, blocks, width
        self.n = blocks * width
        self.groups = tuple(groups)
        rows, cols = [], []
        for g in self.groups:
            shape = (*g.rows.shape, g.columns.shape[1], width)
            rows.append(np.broadcast_to(g.rows[:, :, None, None], shape).ravel())
            cols.append(np.broadcast_to((g.columns[:, None, :, None] * width) + np.arange(width), shape).ravel())
        self.rows = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        self.cols = np.concatenate(cols) if cols else np.zeros(0, np.int32)
        self.inside = np.flatnonzero(self.cols < self.n)
        # rows are computed group by group; this brings them into the order of C
        made = np.concatenate([g.rows.ravel() for g in self.groups]) if self.groups else np.zeros(0, np.int32)
        self.row_order = np.argsort(made, kind="stable")
        self.key = (m, blocks, width, self.rows.tobytes(), self.cols.tobytes())

    def dense_lookup(self) -> np.ndarray:
        """(m, n) positions in the flat data with one zero appended: a gather is faster than a scatter."""
        table = np.full((self.m, self.n), self.rows.size, np.int32)
        table[self.rows[self.inside], self.cols[self.inside]] = self.inside
        return table


class BlockRows(eqx.Module):
    """The constraint matrix C (m × n) on a `BlockPattern`; `data` is flat."""

    pattern: BlockPattern = eqx.field(static=True)
    data: Float[Array, " entries"]

    def dense(self) -> Float[Array, "m n"]:
        xp = np if isinstance(self.data, np.ndarray) else jnp
        return xp.append(self.data, 0.0)[self.pattern.dense_lookup()]

    def mv(self, x: Float[Array, " n"]) -> Float[Array, " m"]:
        """C x, without a scatter: each row's entries are contiguous."""
        pattern, start, out = self.pattern, 0, []
        table = jnp.concatenate([x.reshape(pattern.blocks, pattern.width), jnp.zeros((1, pattern.width))])
        for g in pattern.groups:
            shape = (*g.rows.shape, g.columns.shape[1], pattern.width)
            size = int(np.prod(shape))
            block = self.data[start : start + size].reshape(shape)
            out.append(jnp.sum(block * table[g.columns][:, None], axis=(2, 3)).ravel())
            start += size
        return jnp.concatenate(out)[pattern.row_order] if out else jnp.zeros(0)

    def rmv(self, y: Float[Array, " m"]) -> Float[Array, " n"]:
        """Cᵀ y."""
        p = self.pattern
        return jnp.zeros(p.n).at[p.cols[p.inside]].add(self.data[p.inside] * y[p.rows[p.inside]])

    def member_blocks(self) -> list[Float[Array, "count r k d"]]:
        """The data, group by group, as (count, r, k, d)."""
        out, start = [], 0
        for g in self.pattern.groups:
            shape = (*g.rows.shape, g.columns.shape[1], self.pattern.width)
            size = int(np.prod(shape))
            out.append(self.data[start : start + size].reshape(shape))
            start += size
        return out

    def weighted_square(self, weights: Float[Array, "nb d d"]) -> Float[Array, " m"]:
        """diag(C W Cᵀ) for block-diagonal W: one number per row, the product is not formed; or for one full block W."""
        if weights.shape[0] != self.pattern.blocks:
            C = self.dense()
            return jnp.sum(C * (C @ weights[0]), axis=1)
        extended = jnp.concatenate([weights, jnp.zeros((1, *weights.shape[1:]))])
        out = []
        for g, block in zip(self.pattern.groups, self.member_blocks(), strict=True):
            W = extended[g.columns][:, None]  # (count, 1, k, d, d)
            out.append(jnp.sum(block[..., :, None] * W * block[..., None, :], axis=(2, 3, 4)).ravel())
        return jnp.concatenate(out)[self.pattern.row_order] if out else jnp.zeros(0)


INVERT_UP_TO = 20
"""Rows up to which a Cholesky factor is inverted: a few products with an inverse are quicker than as many triangular
solves. Beyond, the inversion costs several times the factor, and BLAS would share it among threads."""


class BlockMass(eqx.Module):
    """The mass matrix M as diagonal blocks (nb, d, d), with the blocks of M⁻¹.

    One large block is solved by its Cholesky `factor`; its inverse is computed only where a program uses it.
    """

    blocks: Float[Array, "nb d d"]
    inverse: Float[Array, "nb d d"]
    factor: Float[Array, "n n"] | None = None

    @classmethod
    def dense_one(cls, M: Float[Array, "n n"]) -> BlockMass:
        """One block, inverted by Cholesky."""
        L = jnp.linalg.cholesky(M)
        inverse = jax.scipy.linalg.cho_solve((L, True), jnp.eye(len(M)))
        return cls(M[None], inverse[None], L if len(M) > INVERT_UP_TO else None)

    @property
    def n(self) -> int:
        return self.blocks.shape[0] * self.blocks.shape[1]

    def mv(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        return _blockwise(self.blocks, x)

    def solve(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        if self.factor is not None:
            return jax.scipy.linalg.cho_solve((self.factor, True), x)
        return _blockwise(self.inverse, x)

    def solve_rows(self, C: Float[Array, "m n"]) -> Float[Array, "m n"]:
        """C M⁻¹."""
        if self.factor is not None:
            return jax.scipy.linalg.cho_solve((self.factor, True), C.T).T
        return rows_times_blocks(C, self.inverse)

    def dense(self) -> Float[Array, "n n"]:
        return dense_of_blocks(self.blocks)


def dense_of_blocks(blocks: Float[Array, "nb d d"]) -> Float[Array, "n n"]:
    """A block-diagonal matrix as an n × n array."""
    nb, d, _ = blocks.shape
    return (blocks[:, :, None, :] * jnp.eye(nb)[:, None, :, None]).reshape(nb * d, nb * d)


def _blockwise(blocks, x):
    nb, d, _ = blocks.shape
    if nb == 1:
        return blocks[0] @ x
    # written as a sum, not a batched product: XLA then fuses it with its neighbours
    return jnp.sum(blocks * x.reshape(nb, 1, d), axis=-1).ravel()


def times(A: Float[Array, "a b"], B: Float[Array, "b c"]) -> Float[Array, "a c"]:
    """A B; a small one as a sum, which XLA fuses with its neighbours instead of calling a library."""
    if A.shape[0] * A.shape[1] * B.shape[1] > SMALL_PRODUCT:
        return A @ B
    return jnp.sum(A[:, :, None] * B, axis=1)


SMALL_PRODUCT = 1000
"""Products up to which the sum is quicker (10 × 10 × 10, measured)."""


def rows_times_blocks(C: Float[Array, "m n"], blocks: Float[Array, "nb d d"]) -> Float[Array, "m n"]:
    """C W for block-diagonal, symmetric W."""
    nb, d, _ = blocks.shape
    if nb == 1:
        return C @ blocks[0]
    return jnp.sum(C.reshape(-1, nb, 1, d) * blocks, axis=-1).reshape(C.shape)
