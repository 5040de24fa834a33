"""2 · systems: `build`, from what a person said (Model) to a machine in coordinates."""

from __future__ import annotations

import math
from collections import defaultdict

import jax
import numpy as np

from dalembert._results import DalembertError, ModelError
from dalembert.linalg import KLU, BlockPattern, Group
from dalembert.model import Constraint, Force, Marker, Model, quaternion_of
from dalembert.systems._absolute import AbsoluteSystem, ForceFamily, JointView, MarkerRows
from dalembert.systems._base import Family, RowOwner
from dalembert.systems._constraints import KINDS, DriverRow, UserRows, coordinate_of, is_angle
from dalembert.systems._forces import JointSpring, LineSpring, Load, UserLaw

SPARSE_FROM = 40
"""Number of velocities from which on the equations are sparse: where KLU overtakes a dense Cholesky."""


def build(model: Model, *, coordinates: str = "absolute") -> AbsoluteSystem:
    """The system of a model. Raises `ModelError` with all mistakes of the model at once."""
    if coordinates != "absolute":
        raise DalembertError(f"coordinates={coordinates!r} is unknown; use 'absolute'.")
    model.validate()
    index = {name: k for k, name in enumerate(model.bodies)}
    index["ground"] = len(model.bodies)
    m_holonomic, m, row_sets = _number_rows(model)
    families = _families(model, index, row_sets)
    joints = _joint_views(model, index, families)
    owners = tuple(RowOwner(c.name, c.kind, row_sets[c.name]) for c in model.constraints.values())
    q0, v0 = _start(model)
    bodies = list(model.bodies.values())
    dw = 1 if model.space == "plane" else 3
    width = 3 if model.space == "plane" else 6
    pattern = BlockPattern(m, len(bodies), width, [f.group for f in families])
    # KLU runs on the CPU only; on an accelerator a dense factorisation is batched instead
    sparse = pattern.n >= SPARSE_FROM and m > 0 and jax.default_backend() == "cpu"
    system = AbsoluteSystem(
        # leaves are NumPy arrays until they are traced: hundreds of small JAX operations would be felt
        masses=np.array([b.mass for b in bodies]),
        inertias=np.array([np.reshape(b.inertia, (dw, dw)) for b in bodies]),
        gravity=np.asarray(model.gravity),
        families=families,
        forces=_forces(model, index),
        q0=q0,
        v0=v0,
        size=np.asarray(_size(model)),
        klu=KLU.analyse(pattern, _mass_mask(dw)) if sparse else None,
        space=model.space,
        body_names=tuple(model.bodies),
        joints=joints,
        pattern=pattern,
        m_holonomic=m_holonomic,
        owners=owners,
        name=model.name,
    )
    _check_user_functions(model, system)
    return system


def _mass_mask(dw: int) -> np.ndarray:
    """Which entries of a body's mass block can be non-zero."""
    d = 2 if dw == 1 else 3
    mask = np.eye(d + dw, dtype=bool)
    mask[d:, d:] = True
    return mask


def _number_rows(model: Model) -> tuple[int, int, dict[str, tuple[int, ...]]]:
    """Rows of C: holonomic rows of all items in the order they were written, then the nonholonomic ones."""
    sizes = {c.name: _size_of(model.space, c) for c in model.constraints.values()}
    rows: dict[str, list[int]] = {name: [] for name in sizes}
    count = 0
    for part in (0, 1):
        for name, size in sizes.items():
            rows[name] += range(count, count + size[part])
            count += size[part]
        if part == 0:
            m_holonomic = count
    return m_holonomic, count, {name: tuple(r) for name, r in rows.items()}


def _size_of(space: str, c: Constraint) -> tuple[int, int]:
    if c.size is not None:
        return c.size
    if c.kind.startswith("driver:"):
        return 1, 0
    kind = KINDS[space, c.kind]
    return kind.holonomic, kind.nonholonomic


def _row_functions(space: str, c: Constraint):
    """(position, motion) row functions of an item on marker frames."""
    if c.kind.startswith("driver:"):
        _, kind, coordinate = c.kind.split(":")
        row = DriverRow(coordinate_of(space, kind, coordinate), c.functions[0], is_angle(coordinate))
        return MarkerRows(space, row), None
    if c.kind in ("holonomic", "pfaffian"):
        assert c.size is not None
        rows = MarkerRows(space, UserRows(c.functions[0], sum(c.size)), listed=True)
        return (rows, None) if c.kind == "holonomic" else (None, rows)
    kind = KINDS[space, c.kind]
    return (
        MarkerRows(space, kind.position) if kind.position else None,
        MarkerRows(space, kind.motion) if kind.motion else None,
    )


def _families(model: Model, index, row_sets) -> tuple[Family, ...]:
    groups: dict[tuple, list[Constraint]] = defaultdict(list)
    for c in model.constraints.values():
        shapes = tuple((k, np.shape(x)) for k, x in sorted(c.numbers.items()))
        groups[c.kind, c.functions, c.size, len(c.markers), shapes].append(c)
    out = []
    for members in groups.values():
        first = members[0]
        h, s = _size_of(model.space, first)
        position, motion = _row_functions(model.space, first)
        group = Group([row_sets[c.name] for c in members], [[index[b.name] for b in c.bodies] for c in members])
        names = tuple(c.name for c in members)
        out.append(Family(first.kind, names, group, h, s, position, motion, _stack(model.space, members)))
    return tuple(out)


def _forces(model: Model, index) -> tuple[ForceFamily, ...]:
    groups: dict[tuple, list[Force]] = defaultdict(list)
    for f in model.forces.values():
        shapes = tuple((k, np.shape(x)) for k, x in sorted(f.numbers.items()))
        groups[f.kind, f.functions, len(f.markers), shapes].append(f)
    out = []
    for members in groups.values():
        group = Group(np.zeros((len(members), 0)), [[index[b.name] for b in f.bodies] for f in members])
        names = tuple(f.name for f in members)
        law = _law(model.space, members[0])
        out.append(ForceFamily(members[0].kind, names, group, law, _stack(model.space, members)))
    return tuple(out)


def _law(space: str, f: Force):
    kind, *rest = f.kind.split(":")
    if kind in ("force", "torque"):
        return Load(f.functions[0], kind, rest[0])
    if kind == "spring_damper":
        return LineSpring()
    if kind == "joint_spring":
        return JointSpring(coordinate_of(space, *rest))
    return UserLaw(f.functions[0])


def _stack(space: str, members) -> dict[str, np.ndarray]:
    """The members' numbers and marker places, stacked: what `parameters()` shows."""
    stacked = {k: np.array([m.numbers[k] for m in members]) for k in members[0].numbers}
    if members[0].kind in ("holonomic", "pfaffian", "law"):
        return stacked  # these see the bodies' own frames
    for side, word in enumerate(("i", "j")[: len(members[0].markers)]):
        stacked[f"point_{word}"] = np.array([m.markers[side].position for m in members])
        if space == "space":
            stacked[f"frame_{word}"] = np.array([m.markers[side].rotation for m in members])
        else:
            stacked[f"frame_{word}"] = np.array([_plane_angle(m.markers, side) for m in members])
    return stacked


def _plane_angle(markers: tuple[Marker, ...], side: int) -> float:
    """A marker's angle in its body; that of j is taken within half a turn of i, so that a lock starts at zero."""
    angle = _angle(markers[side].rotation)
    if side == 0:
        return angle
    i, j = markers
    gap = (_angle(j.body.rotation) + angle) - (_angle(i.body.rotation) + _angle(i.rotation))
    return angle - 2 * math.pi * round(gap / (2 * math.pi))


def _angle(R) -> float:
    return math.atan2(R[1, 0], R[0, 0])


def _joint_views(model: Model, index, families) -> tuple[JointView, ...]:
    where = {name: (f, k) for f, family in enumerate(families) for k, name in enumerate(family.names)}
    views = []
    for c in model.constraints.values():
        kind = KINDS.get((model.space, c.kind))
        coordinates = tuple(kind.coordinates.items()) if kind else ()
        blocks = tuple(index[b.name] for b in c.bodies)
        views.append(JointView(c.name, c.kind, blocks, *where[c.name], coordinates))
    return tuple(views)


def _start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    q, v = [], []
    for b in model.bodies.values():
        orientation = [_angle(b.rotation)] if model.space == "plane" else quaternion_of(b.rotation)
        q.append(np.concatenate([b.position, orientation]))
        v.append(np.concatenate([b.velocity, b.angular_velocity]))
    return np.concatenate(q), np.concatenate(v)


def _size(model: Model) -> float:
    """A characteristic length: the diagonal of the box around all bodies and joints at the start."""
    points = [b.position for b in model.bodies.values()]
    for item in (*model.constraints.values(), *model.forces.values()):
        points += [m.start_position for m in item.markers if not m.body.is_ground or len(item.markers) > 1]
    spread = float(np.linalg.norm(np.ptp(np.array(points), axis=0)))
    if spread > 0:
        return spread
    # one body, no joint off its centre: its own radius of gyration
    return max(math.sqrt(np.max(b.inertia) / b.mass) for b in model.bodies.values())


def _check_user_functions(model: Model, system: AbsoluteSystem) -> None:
    """Call every user's function once, on shapes only, so that its mistakes appear here and with its name."""
    written = ("driver", "holonomic", "pfaffian", "law", "force", "torque")
    if not any(f.kind.split(":")[0] in written for f in (*system.families, *system.forces)):
        return
    mistakes = []
    zero = np.zeros(())
    shapes = jax.eval_shape(lambda: (p := system.places(system.q0), system.twists(p, system.v0)))
    for family in system.families:
        for function, tables in ((family.position, shapes[:1]), (family.motion, shapes)):
            if function is None or family.kind.split(":")[0] not in ("driver", "holonomic", "pfaffian"):
                continue
            try:
                jax.eval_shape(lambda *a, f=family, g=function: f.rows_of(g, zero, *a), *tables)
            except Exception as error:  # a user's function may raise anything
                mistakes.append(f"Rows of '{family.names[0]}': its function fails: {_first_line(error)}")
    for f in system.forces:
        if f.kind == "law" or f.kind.split(":")[0] in ("force", "torque"):
            one = jax.vmap(lambda at, motion, p, law=f.law: system.force_shares(law, zero, at, motion, [], p))
            try:
                jax.eval_shape(lambda a, b, f=f, one=one: one(f.gather(a), f.gather(b), f.p), *shapes)
            except Exception as error:
                mistakes.append(f"Force '{f.names[0]}': its law fails: {_first_line(error)}")
    if mistakes:
        raise ModelError(model.name, mistakes)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
