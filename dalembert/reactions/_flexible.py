"""5c· reactions: elasticity of bodies between their joints, for the weighted rule."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert._results import DalembertError, did_you_mean
from dalembert._typing import Array
from dalembert.systems import BodySystem


class AbstractFlexibility(eqx.Module):
    """How the markers of some joints move relative to the body's rigid core under forces and torques at them.

    The mass is in the core; the connections to the markers are elastic and massless.
    """

    joints: eqx.AbstractVar[tuple[str, ...]]

    @abstractmethod
    def compliance(self, points: list[Float[Array, " d"]], d: int) -> Float[Array, "kw kw"]:
        """Displacements and small rotations of the k markers per force and torque at them, body axes.

        `points` are the markers in the body frame; each marker has w = 3 (plane: Fx, Fy, Mz) or 6 components.
        """


class Bar(AbstractFlexibility):
    """A bar, elastic along the line between two of its joints: N L/EA, half of it on each side of its middle."""

    joints: tuple[str, ...] = eqx.field(static=True)
    EA: float | Array

    def compliance(self, points, d):
        along, length = _between(points)
        w = 3 if d == 2 else 6
        end = jnp.zeros((w, w)).at[:d, :d].set(jnp.outer(along, along) * (0.5 * length / self.EA))
        return _two_ends(end, end)


class Beam(AbstractFlexibility):
    """A Bernoulli beam between two of its joints, clamped in its middle: EA along, EI across, GJ in twist.

    In the plane `EI` alone. In space EI bends it about both section axes, or give `EIy` and `EIz` with `up`, the
    section's z axis in the body frame (EIz resists bending in the plane of the beam and its y axis).
    """

    joints: tuple[str, ...] = eqx.field(static=True)
    EA: float | Array
    EI: float | Array | None = None
    GJ: float | Array | None = None
    EIy: float | Array | None = None
    EIz: float | Array | None = None
    up: tuple[float, float, float] | None = eqx.field(static=True, default=None)

    def compliance(self, points, d):
        along, length = _between(points)
        l = 0.5 * length
        EIy: Any = self.EI if self.EIy is None else self.EIy
        EIz: Any = self.EI if self.EIz is None else self.EIz
        GJ: Any = self.GJ
        if EIz is None or (d == 3 and (EIy is None or GJ is None)):
            raise DalembertError("A Beam needs EA and EI, and in space GJ as well.")
        ends = []
        for x in (-along, along):  # outwards from the middle
            if d == 2:
                c = jnp.zeros((3, 3)).at[0, 0].set(l / self.EA)
                c = c.at[1:, 1:].set(_bend(l, EIz))
                T = jnp.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]).at[:2, :2].set(jnp.stack([x, _left(x)], axis=1))
            else:
                z = _section_z(along, self.up)
                R = jnp.stack([x, jnp.cross(z, x), z], axis=1)
                c = jnp.zeros((6, 6)).at[0, 0].set(l / self.EA).at[3, 3].set(l / GJ)
                c = c.at[jnp.ix_(jnp.array([1, 5]), jnp.array([1, 5]))].set(_bend(l, EIz))
                # a force along z turns the end about −y
                flip = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
                c = c.at[jnp.ix_(jnp.array([2, 4]), jnp.array([2, 4]))].set(flip * _bend(l, EIy))
                T = jnp.zeros((6, 6)).at[:3, :3].set(R).at[3:, 3:].set(R)
            ends.append(T @ c @ T.T)
        return _two_ends(*ends)


class Compliance(AbstractFlexibility):
    """Your own matrix: (k w, k w), symmetric, in the body frame, for the markers of the k named joints in order.

    For each marker displacements x, y(, z) and small rotations, per force and torque there (plane: x, y, rotation).
    """

    joints: tuple[str, ...] = eqx.field(static=True)
    matrix: Array

    def compliance(self, points, d):
        matrix = jnp.asarray(self.matrix, float)
        size = len(self.joints) * (3 if d == 2 else 6)
        if matrix.shape != (size, size):
            raise DalembertError(
                f"The compliance over {', '.join(self.joints)} must be {size} x {size}, not {matrix.shape}."
            )
        return 0.5 * (matrix + matrix.T)


def marker_points(system: BodySystem, body: int, joints: tuple[str, ...]) -> list[Float[Array, " d"]]:
    """The body's own markers of some joints, in its frame."""
    points = []
    for name in joints:
        view = system.joint(name)
        side = "ij"[view.blocks.index(body)]
        p = system.families[view.family].p
        points.append(p[f"point_{side}"][view.member] if f"point_{side}" in p else jnp.zeros(system.kinematics.d))
    return points


def _between(points) -> tuple[jax.Array, jax.Array]:
    if len(points) != 2:
        raise DalembertError(f"A Bar or Beam lies between two joints; {len(points)} are named.")
    gap = jnp.asarray(points[1] - points[0])
    length = jnp.sqrt(jnp.sum(gap**2))
    return gap / length, length


def _bend(l, EI) -> Float[Array, "2 2"]:
    """(deflection, slope) of a cantilever's end per (force, torque) there."""
    return jnp.array([[1 / 3, 1 / 2], [1 / 2, 1.0]]) * jnp.array([[l**3, l**2], [l**2, l]]) / EI


def _left(x):
    return jnp.stack([-x[1], x[0]])


def _section_z(along, up):
    if up is None:  # a round section: any will do
        k = jnp.argmin(jnp.abs(along))
        up = jnp.zeros(3).at[k].set(1.0)
    z = jnp.asarray(up, float) - jnp.dot(jnp.asarray(up, float), along) * along
    return z / jnp.sqrt(jnp.sum(z**2))


def _two_ends(first, second):
    w = len(first)
    return jnp.zeros((2 * w, 2 * w)).at[:w, :w].set(first).at[w:, w:].set(second)


def check_flexible(system: BodySystem, bodies: dict[str, AbstractFlexibility]) -> None:
    """Refuse names that do not exist, with a message."""
    names = [j.name for j in system.joints]
    for body, flexible in bodies.items():
        if body not in system.body_names:
            raise DalembertError(f"There is no body '{body}'; the bodies are {', '.join(system.body_names)}.")
        index = system.body_names.index(body)
        for joint in flexible.joints:
            if joint not in names:
                hint = did_you_mean(joint, names)
                raise DalembertError(f"There is no joint '{joint}'; the joints are {', '.join(names)}.{hint}")
            if index not in system.joint(joint).blocks:
                raise DalembertError(f"Joint '{joint}' does not touch body '{body}'.")
        points: list[Array] = [np.asarray(p) for p in marker_points(system, index, flexible.joints)]
        with np.errstate(all="ignore"):
            c = np.asarray(flexible.compliance(points, system.kinematics.d))
        if not np.all(np.isfinite(c)) or (values := np.linalg.eigvalsh(c))[0] < -1e-9 * values[-1]:
            raise DalembertError(
                f"The elasticity of '{body}' must be that of something that gives way under every load: give numbers "
                "that are finite and greater than zero (a matrix: positive semi-definite)."
            )
