"""2 · systems: `build`, from the user's statements (Model) to a machine in coordinates."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence

import jax
import numpy as np

from dalembert._results import DalembertError, ModelError
from dalembert._typing import Array
from dalembert.linalg import KLU, BlockPattern, Group
from dalembert.model import AbstractForce, AbstractJoint, Body, Constraint, Force, Marker, Model, quaternion_of
from dalembert.systems._absolute import AbsoluteSystem, MarkerRows
from dalembert.systems._base import AbstractSystem, Nature, RowOwner
from dalembert.systems._bodies import CoordinateView, ForceFamily, JointView
from dalembert.systems._build_control import controls_of, start_of
from dalembert.systems._build_tree import angle_of, spanning_tree, tree_system
from dalembert.systems._constraints import JointRows, rows_of
from dalembert.systems._control import NO_CONTROL, refuse_failing
from dalembert.systems._forces import Armature
from dalembert.systems._frames import SPACES
from dalembert.systems._laws import law_of
from dalembert.systems._measure import OfUser
from dalembert.systems._names import compiled_quickly
from dalembert.systems._origin import Origin
from dalembert.systems._precision import require_float64
from dalembert.systems._prescribed import coupling_rows
from dalembert.systems._rows import Family
from dalembert.systems._touching import INSIDE, TOUCHING, gap_sizes, gaps_of, with_contacts
from dalembert.systems._tree import TreeSystem
from dalembert.systems._user import user_mistake

SPARSE_FROM = 40
"""The equations are sparse from this number of velocities on: KLU is then faster than a dense Cholesky."""


def build(model: Model, *, coordinates: str = "absolute", cut: Sequence[str] = ()) -> AbsoluteSystem | TreeSystem:
    """The system of a model. Raises `ModelError` with all mistakes of the model at once.

    **Arguments**: `model`; `coordinates`, "absolute" (each body's own; the default) or "joint" (those of a spanning
    tree); `cut`, names of joints that must close loops instead of being in the tree, besides those of the model's
    `closing`.

    **Returns** an `AbstractSystem`: mass, forces and constraints as functions of t, q and v.

        >>> import dalembert as da
        >>> for coordinates in ("absolute", "joint"):
        ...     system = da.build(da.mechanism("four-bar"), coordinates=coordinates)
        ...     print(system.n, system.m)
        9 8
        3 2
    """
    if coordinates not in ("absolute", "joint"):
        raise DalembertError(f"coordinates={coordinates!r} is unknown; use 'absolute' or 'joint'.")
    require_float64()
    model.validate()
    origin = Origin(model, coordinates, cut)
    if coordinates == "absolute":
        system = _absolute(model, model.constraints, origin)
        _check_user_functions(model, system)
        refuse_wound(system, system.q0)
        return _closed_at_start(model, with_contacts(system))
    carriers = spanning_tree(model, (*model.closing, *cut))
    carrying = {joint.name for _, joint in carriers.values() if joint is not None}
    closing = {name: c for name, c in model.constraints.items() if name not in carrying}
    carrier = _absolute(model, closing, origin, sparse=False, whole=False)
    _check_user_functions(model, carrier)
    absolute = _absolute(model, model.constraints, origin)
    refuse_wound(absolute, absolute.q0)
    carrier, absolute = with_contacts(carrier), with_contacts(absolute)
    return _closed_at_start(model, tree_system(model, carrier, absolute, carriers))


def _closed_at_start(model: Model, system):
    """The system with the contacts that are closed where the model places them."""
    if not system.touches:
        return system
    sizes = gap_sizes(system.touches, float(system.size))
    gaps = gaps_of(system, np.zeros(()), system.q0) / sizes
    mistakes = [
        f"Joint '{t.joint}' starts {-gap * size:.4g} beyond its limit: a one-sided joint must be closed "
        "or open at the start. Move its bodies, or change its numbers."
        for t, gap, size in zip(system.touches, gaps, sizes, strict=True)
        if gap < -INSIDE
    ]
    if mistakes:
        raise ModelError(model.name, list(dict.fromkeys(mistakes)))
    return system.with_closed(gaps <= TOUCHING)


def _absolute(
    model: Model, constraints: dict[str, Constraint], origin: Origin, *, sparse: bool = True, whole: bool = True
) -> AbsoluteSystem:
    """Absolute coordinates of all bodies, with some of the model's constraints as rows; with all of them, the `whole`
    also has measurements and controllers."""
    index = {name: k for k, name in enumerate(model.bodies)}
    index["ground"] = len(model.bodies)
    rows = {name: rows_of(c, model.space) for name, c in constraints.items()}
    m_holonomic, m, row_sets = _number_rows(rows)
    families = _families(model, constraints, rows, index, row_sets)
    joints = _joint_views(model, constraints, rows, index, families)
    owners = tuple(_owner(c, rows[c.name], row_sets[c.name], model.space) for c in constraints.values())
    bodies = list(model.bodies.values())
    dw = 1 if model.space == "plane" else 3
    width = 3 if model.space == "plane" else 6
    pattern = BlockPattern(m, len(bodies), width, [f.group for f in families])
    # KLU runs on the CPU only; on an accelerator a dense factorisation is batched instead
    sparse = sparse and pattern.n >= SPARSE_FROM and m > 0 and jax.default_backend() == "cpu"
    forces = _forces(model, index)
    # an armature couples bodies in M, which is then no longer block-diagonal
    sparse = sparse and not any(isinstance(f.law, Armature) for f in forces)
    measures, control = controls_of(model, index, joints, _placed) if whole else ((), NO_CONTROL)
    return AbsoluteSystem(
        # leaves are NumPy arrays until they are traced: hundreds of small JAX operations would take measurable time
        masses=np.array([b.mass for b in bodies]),
        inertias=np.array([np.reshape(b.inertia, (dw, dw)) for b in bodies]),
        gravity=np.asarray(model.gravity),
        families=families,
        forces=forces,
        q0=np.concatenate([*(_block(model.space, b) for b in bodies), start_of(model) if whole else np.zeros(0)]),
        v0=np.concatenate([x for b in bodies for x in (b.velocity, b.angular_velocity)]),
        size=np.asarray(_size(model)),
        klu=KLU.analyse(pattern, SPACES[model.space].mass_mask()) if sparse else None,
        space=model.space,
        body_names=tuple(model.bodies),
        joints=joints,
        pattern=pattern,
        m_holonomic=m_holonomic,
        owners=owners,
        name=model.name,
        # of moving bodies: kept for pictures, nothing is computed from them
        shapes=tuple((index[s.body.name], s) for s in model.shapes.values() if not s.body.is_ground),
        origin=origin,
        measures=measures,
        control=control,
    )


def _number_rows(rows: dict[str, JointRows]) -> tuple[int, int, dict[str, tuple[int, ...]]]:
    """Rows of C: holonomic rows of all items in the order they were written, then the nonholonomic ones."""
    numbers: dict[str, list[int]] = {name: [] for name in rows}
    count = 0
    for name, own in rows.items():
        numbers[name] += range(count, count + own.holonomic)
        count += own.holonomic
    m_holonomic = count
    for name, own in rows.items():
        numbers[name] += range(count, count + own.nonholonomic)
        count += own.nonholonomic
    return m_holonomic, count, {name: tuple(r) for name, r in numbers.items()}


def _nature(c: Constraint) -> Nature:
    element = c.element
    brings_rows = type(element).rows_in is not AbstractJoint.rows_in  # a class of a person's own: time may enter
    timed = element.drives or element.own_rows or brings_rows
    impact = element.impact_law
    around = bool(impact) and c.is_angle
    return Nature(element.label, element.drives, element.own_rows, timed, element.assumption, impact, around)


def _owner(c: Constraint, rows: JointRows, numbers: tuple[int, ...], space: str) -> RowOwner:
    signs = c.element.signs(space)
    return RowOwner(c.name, _nature(c), numbers, (*signs, *[0] * (len(numbers) - len(signs))) if signs else ())


def _coupling_numbers(model: Model, c: Constraint) -> dict[str, np.ndarray]:
    """The markers of all terms, and the constant that the start configuration gives where none was stated."""
    numbers = dict(c.numbers)
    for k, term in enumerate(c.terms):
        placed = _placed(model.space, term.joint.markers)
        numbers |= {f"{k}_{key}": x for key, x in placed.items()}
    if "constant" not in numbers and not c.speeds:
        row = coupling_rows(c, model.space).position
        blocks = [np.asarray(_block(model.space, b)) for b in c.bodies]
        zeros = {"constant": np.zeros(()), "turns": np.zeros(())}
        numbers["constant"] = np.asarray(_row_at(row, model.space, blocks, numbers | zeros))[0]
    return numbers


@compiled_quickly
def _row_at(row, space: str, blocks, numbers):
    """A row that is stated on places, at bodies' coordinates."""
    return row(0.0, [SPACES[space].place(x) for x in blocks], numbers)


def _families(model: Model, constraints, rows: dict[str, JointRows], index, row_sets) -> tuple[Family, ...]:
    groups: dict[tuple, list[Constraint]] = defaultdict(list)
    for c in constraints.values():
        shapes = tuple((k, np.shape(x)) for k, x in sorted(c.numbers.items()))
        groups[rows[c.name], _nature(c), len(c.markers), shapes].append(c)
    out = []
    for (own, nature, _, _), members in groups.items():
        group = Group([row_sets[c.name] for c in members], [[index[b.name] for b in c.bodies] for c in members])
        names = tuple(c.name for c in members)
        position, motion = (_on_blocks(model.space, own, f) for f in (own.position, own.motion))
        numbers = _stack([_row_numbers(model, own, c) for c in members])
        out.append(Family(nature, names, group, own.holonomic, own.nonholonomic, position, motion, numbers, own.axes))
    return tuple(out)


def _on_blocks(space: str, rows: JointRows, function):
    """A row function as one of the blocks of a family."""
    if function is None or rows.on_places:
        return function
    return MarkerRows(space, function, listed=rows.listed)


def _row_numbers(model: Model, rows: JointRows, c: Constraint) -> dict[str, np.ndarray]:
    if rows.on_places:
        return _coupling_numbers(model, c)
    return c.numbers if rows.listed else c.numbers | _placed(model.space, c.markers)


def _forces(model: Model, index) -> tuple[ForceFamily, ...]:
    groups: dict[tuple, list[Force]] = defaultdict(list)
    for f in _spread(model):
        shapes = tuple((k, np.shape(x)) for k, x in sorted(f.numbers.items()))
        groups[law_of(f, model.space), type(f.element), len(f.markers), shapes].append(f)
    out = []
    for (law, _, _, _), members in groups.items():
        group = Group(np.zeros((len(members), 0)), [[index[b.name] for b in f.bodies] for f in members])
        element, on_bodies = members[0].element, getattr(law, "on_bodies", False)
        numbers = [f.numbers if on_bodies else f.numbers | _placed(model.space, f.markers) for f in members]
        names, at = tuple(f.name for f in members), tuple(f.target.name for f in members if f.target is not None)
        rule, look = next((f.rule for f in members if f.rule), None), element.look(model.space)
        out.append(ForceFamily(element.label, names, group, law, _stack(numbers), at, rule, look))
    return tuple(out)


def _spread(model: Model):
    """The force elements; what acts on every body becomes one member per body, all under one name."""
    for f in model.forces.values():
        if not f.element.on_every_body:
            yield f
            continue
        d = model.dimension
        for body in model.bodies.values():
            yield dataclasses.replace(f, markers=(Marker(body, np.zeros(d), np.eye(d)),))


def refuse_wound(system: AbstractSystem, q) -> None:
    """Refuse laws that start more than half a turn away where turns are not counted."""
    if not system.wound:
        return
    away = np.abs(np.asarray(_windings(system, np.zeros(()), q)))
    mistakes = [
        f"'{name}' starts {x:.4g} rad away from its free angle or reference. In space turns of a joint are not "
        "counted, and more than half a turn (3.1416 rad) cannot be told from the shorter way round: give an angle "
        "within half a turn of the start, or model the machine in the plane."
        for name, x in zip(system.wound, away, strict=True)
        if x > np.pi * (1 + 1e-9)
    ]
    if mistakes:
        raise ModelError(system.name, mistakes)


@compiled_quickly
def _windings(system: AbstractSystem, t, q):
    return system.windings(t, q)


def _stack(numbers: list[dict[str, np.ndarray]]) -> dict[str, Array]:
    """The members' numbers and marker places, stacked: what `parameters()` shows."""
    return {k: np.array([n[k] for n in numbers]) for k in numbers[0]}


def _placed(space: str, markers: tuple[Marker, ...]) -> dict[str, np.ndarray]:
    """Where one or two markers sit in their bodies."""
    out = {}
    for side, word in enumerate(("i", "j")[: len(markers)]):
        out[f"point_{word}"] = markers[side].position
        out[f"frame_{word}"] = markers[side].rotation if space == "space" else _plane_angle(markers, side)
    return out


def _plane_angle(markers: tuple[Marker, ...], side: int) -> float:
    """A marker's angle in its body; that of j is taken within half a turn of i, so that a lock starts at zero."""
    angle = angle_of(markers[side].rotation)
    if side == 0:
        return angle
    i, j = markers
    gap = (angle_of(j.body.rotation) + angle) - (angle_of(i.body.rotation) + angle_of(i.rotation))
    return angle - 2 * math.pi * round(gap / (2 * math.pi))


def _joint_views(model: Model, constraints, rows: dict[str, JointRows], index, families) -> tuple[JointView, ...]:
    where = {name: (f, k) for f, family in enumerate(families) for k, name in enumerate(family.names)}
    views = []
    for c in constraints.values():
        blocks = tuple(index[b.name] for b in c.bodies)
        look, target = c.element.look_of(c, model.space), "" if c.target is None else c.target.name
        known = c.element.coordinates(model.space)
        free = tuple(CoordinateView(name, f, known[name].is_angle) for name, f in rows[c.name].coordinates)
        own = (free, look, target, c.coordinate, c.is_angle, tuple(x.joint.name for x in c.terms))
        views.append(JointView(c.name, _nature(c), blocks, *where[c.name], *own))
    return tuple(views)


def _block(space: str, b: Body) -> np.ndarray:
    """The coordinates of one body at the start."""
    return np.concatenate([b.position, [angle_of(b.rotation)] if space == "plane" else quaternion_of(b.rotation)])


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
    """Call every user's function once, on shapes only, so that its mistakes are reported here and with its name.

    No value is known in these calls, neither time nor parameters: what passes here can be compiled.
    """
    for x in system.measures:
        if isinstance(x.law, OfUser):
            zero = np.zeros(system.n)
            known = 0.0, system.q0[: len(system.q0) - system.control.size], zero, zero, zero, x.p
            refuse_failing(f"Measurement '{x.name}'", x.law.function, *known, size=x.law.size)
    families = [f for f in system.families if f.nature.timed]
    forces = [f for f in system.forces if _is_of_the_user(model.forces[f.names[0]])]
    if not families and not forces:
        return
    mistakes = []
    t = jax.ShapeDtypeStruct((), float)
    shapes = jax.eval_shape(lambda: (p := system.places(system.q0), system.twists(p, system.v0)))
    for family in families:
        for function, tables in ((family.position, shapes[:1]), (family.motion, shapes)):
            if function is None:
                continue

            def residual(t, p, *tables, family=family, function=function):
                return dataclasses.replace(family, p=p).rows_of(function, t, *tables)

            try:
                jax.eval_shape(residual, t, _shapes_of(family.p), *tables)
            except Exception as error:  # a user's function may raise anything
                mistakes.append(f"Rows of '{family.names[0]}': its function fails: {user_mistake(error)}")
    table = jax.ShapeDtypeStruct((len(system.body_names) + 1, system.dv), float)
    for f in forces:

        def shares(t, p, u, places, twists, f=f):
            one = jax.vmap(lambda at, motion, u, p: system.force_shares(f.law, t, at, motion, u, p))
            return one(f.gather(places), f.gather(twists), f.gather(u), p)

        try:
            jax.eval_shape(shares, t, _shapes_of(f.p), table, *shapes)
        except Exception as error:
            mistakes.append(f"Force '{f.names[0]}': its law fails: {user_mistake(error)}")
    if mistakes:
        raise ModelError(model.name, mistakes)


def _is_of_the_user(f: Force) -> bool:
    return bool(f.functions) or type(f.element).law_in is not AbstractForce.law_in


def _shapes_of(numbers: dict):
    return {k: jax.ShapeDtypeStruct(np.shape(x), float) for k, x in numbers.items()}
