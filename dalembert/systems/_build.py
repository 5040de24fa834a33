"""2 · systems: `build`, from the user's statements (Model) to a machine in coordinates."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError, ModelError
from dalembert.linalg import KLU, BlockPattern, Group
from dalembert.model import BEARINGS, Body, Constraint, Force, Marker, Model, quaternion_of
from dalembert.systems._absolute import AbsoluteSystem, MarkerRows
from dalembert.systems._base import AbstractSystem, RowOwner
from dalembert.systems._bodies import ForceFamily, JointView
from dalembert.systems._build_tree import spanning_tree, tree_system
from dalembert.systems._constraints import coordinate_of, is_angle, kind_of
from dalembert.systems._forces import (
    ON_COORDINATE,
    Armature,
    BallSpring,
    BearingFriction,
    BeltTension,
    Bushing,
    CentralGravity,
    Drag,
    LineSpring,
    Load,
    UserLaw,
)
from dalembert.systems._frames import SPACES
from dalembert.systems._origin import Origin
from dalembert.systems._precision import require_float64
from dalembert.systems._prescribed import (
    CoupledMotion,
    CoupledPosition,
    CoupledRow,
    DistanceMotion,
    DriverRow,
    FrameMotion,
    PointMotion,
    SpeedRow,
    UserRows,
)
from dalembert.systems._rows import Family
from dalembert.systems._tree import TreeSystem
from dalembert.systems._user import user_mistake

SPARSE_FROM = 40
"""The equations are sparse from this number of velocities on: KLU is then faster than a dense Cholesky."""


def build(model: Model, *, coordinates: str = "absolute", cut: Sequence[str] = ()) -> AbsoluteSystem | TreeSystem:
    """The system of a model. Raises `ModelError` with all mistakes of the model at once.

    `coordinates`: "absolute" (each body's own; the default) or "joint" (those of a spanning tree; `cut` names joints
    that must close loops instead of being in the tree, besides those of the model's `closing`).
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
        return system
    carriers = spanning_tree(model, (*model.closing, *cut))
    carrying = {joint.name for _, joint in carriers.values() if joint is not None}
    closing = {name: c for name, c in model.constraints.items() if name not in carrying}
    carrier = _absolute(model, closing, origin, sparse=False)
    _check_user_functions(model, carrier)
    absolute = _absolute(model, model.constraints, origin)
    refuse_wound(absolute, absolute.q0)
    return tree_system(model, carrier, absolute, carriers)


def _absolute(
    model: Model, constraints: dict[str, Constraint], origin: Origin, *, sparse: bool = True
) -> AbsoluteSystem:
    """Absolute coordinates of all bodies, with some of the model's constraints as rows."""
    index = {name: k for k, name in enumerate(model.bodies)}
    index["ground"] = len(model.bodies)
    m_holonomic, m, row_sets = _number_rows(model, constraints)
    families = _families(model, constraints, index, row_sets)
    joints = _joint_views(model, constraints, index, families)
    owners = tuple(RowOwner(c.name, c.kind, row_sets[c.name]) for c in constraints.values())
    q0, v0 = _start(model)
    bodies = list(model.bodies.values())
    dw = 1 if model.space == "plane" else 3
    width = 3 if model.space == "plane" else 6
    pattern = BlockPattern(m, len(bodies), width, [f.group for f in families])
    # KLU runs on the CPU only; on an accelerator a dense factorisation is batched instead
    sparse = sparse and pattern.n >= SPARSE_FROM and m > 0 and jax.default_backend() == "cpu"
    forces = _forces(model, index)
    # an armature couples bodies in M, which is then no longer block-diagonal
    sparse = sparse and not any(isinstance(f.law, Armature) for f in forces)
    return AbsoluteSystem(
        # leaves are NumPy arrays until they are traced: hundreds of small JAX operations would take measurable time
        masses=np.array([b.mass for b in bodies]),
        inertias=np.array([np.reshape(b.inertia, (dw, dw)) for b in bodies]),
        gravity=np.asarray(model.gravity),
        families=families,
        forces=forces,
        q0=q0,
        v0=v0,
        size=np.asarray(_size(model)),
        klu=KLU.analyse(pattern, SPACES[model.space].mass_mask()) if sparse else None,
        space=model.space,
        body_names=tuple(model.bodies),
        joints=joints,
        pattern=pattern,
        m_holonomic=m_holonomic,
        owners=owners,
        name=model.name,
        shapes=_shapes(model, index),
        origin=origin,
    )


def _shapes(model: Model, index) -> tuple[tuple[int, str], ...]:
    """The shapes that the model gives to its bodies: stored for pictures, nothing is computed from them."""
    out = []
    for s in model.shapes.values():
        if s.body.name == "ground":
            continue  # pictures show moving bodies
        turned = s.rotation.tolist() if model.space == "space" else math.atan2(s.rotation[1, 0], s.rotation[0, 0])
        entry = {"kind": s.kind, "size": np.ravel(s.size).tolist(), "position": s.position.tolist(), "rotation": turned}
        entry |= {} if s.colour is None else {"colour": np.ravel(s.colour).tolist()}
        out.append((index[s.body.name], json.dumps(entry)))
    return tuple(out)


def _number_rows(model: Model, constraints) -> tuple[int, int, dict[str, tuple[int, ...]]]:
    """Rows of C: holonomic rows of all items in the order they were written, then the nonholonomic ones."""
    sizes = {c.name: _size_of(model.space, c) for c in constraints.values()}
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
    word = c.kind.split(":")[0]
    prescribed = {"driver": (1, 0), "speed_driver": (0, 1), "distance_driver": (1, 0)}
    if word in prescribed:
        return prescribed[word]
    if word in ("point_driver", "frame_driver"):
        d = 2 if space == "plane" else 3
        return (d if word == "point_driver" else {2: 3, 3: 6}[d]), 0
    kind = kind_of(space, c.kind)
    assert kind is not None
    return kind.holonomic, kind.nonholonomic


def _row_functions(space: str, c: Constraint):
    """(position, motion) row functions of an item on marker frames."""
    word, *rest = c.kind.split(":")
    if word in ("driver", "speed_driver"):
        coordinate = coordinate_of(space, rest[0].replace("/", ":"), rest[1])
        if word == "speed_driver":
            return None, MarkerRows(space, SpeedRow(coordinate, c.functions[0]))
        return MarkerRows(space, DriverRow(coordinate, c.functions[0], is_angle(rest[1]))), None
    prescribed = {"point_driver": PointMotion, "frame_driver": FrameMotion, "distance_driver": DistanceMotion}
    if word in prescribed:
        return MarkerRows(space, prescribed[word](*c.functions)), None
    if word == "coupling":
        row = _coupled_row(space, c)
        return (CoupledPosition(row), None) if rest[0] == "positions" else (None, CoupledMotion(row))
    if word in ("holonomic", "pfaffian"):
        assert c.size is not None
        rows = MarkerRows(space, UserRows(c.functions[0], sum(c.size)), listed=True)
        return (rows, None) if word == "holonomic" else (None, rows)
    kind = kind_of(space, c.kind)
    assert kind is not None
    return (
        MarkerRows(space, kind.position) if kind.position else None,
        MarkerRows(space, kind.motion) if kind.motion else None,
    )


def _coupled_row(space: str, c: Constraint) -> CoupledRow:
    return CoupledRow(space, tuple((coordinate_of(space, kind, which), pair) for kind, which, pair in c.functions[0]))


def _coupling_numbers(model: Model, c: Constraint) -> dict[str, np.ndarray]:
    """The markers of all terms, and the constant that the start configuration gives where none was stated."""
    numbers = dict(c.numbers)
    for k, pair in enumerate(c.coupled):
        placed = _placed(model.space, pair)
        numbers |= {f"{k}_{key}": x for key, x in placed.items()}
    if "constant" not in numbers and c.kind == "coupling:positions":
        K = SPACES[model.space]
        places = [K.place(np.asarray(_block(model.space, b))) for b in c.bodies]
        row = _coupled_row(model.space, c)
        at_start = row.position(0.0, places, numbers | {"constant": 0.0, "turns": np.zeros(())})
        numbers["constant"] = np.asarray(at_start)[0]
    return numbers


def _families(model: Model, constraints, index, row_sets) -> tuple[Family, ...]:
    groups: dict[tuple, list[Constraint]] = defaultdict(list)
    for c in constraints.values():
        shapes = tuple((k, np.shape(x)) for k, x in sorted(c.numbers.items()))
        groups[c.kind, c.functions, c.size, len(c.markers), shapes].append(c)
    out = []
    for members in groups.values():
        first = members[0]
        h, s = _size_of(model.space, first)
        position, motion = _row_functions(model.space, first)
        group = Group([row_sets[c.name] for c in members], [[index[b.name] for b in c.bodies] for c in members])
        names = tuple(c.name for c in members)
        out.append(Family(first.kind, names, group, h, s, position, motion, _stack(model, members)))
    return tuple(out)


def _forces(model: Model, index) -> tuple[ForceFamily, ...]:
    groups: dict[tuple, list[Force]] = defaultdict(list)
    for f in _spread(model):
        shapes = tuple((k, np.shape(x)) for k, x in sorted(f.numbers.items()))
        groups[f.kind, f.functions, len(f.markers), shapes].append(f)
    out = []
    for members in groups.values():
        group = Group(np.zeros((len(members), 0)), [[index[b.name] for b in f.bodies] for f in members])
        names = tuple(f.name for f in members)
        law = _law(model.space, members[0])
        family = ForceFamily(members[0].kind, names, group, law, _stack(model, members))
        if isinstance(law, BearingFriction):
            family = dataclasses.replace(
                family,
                joints=tuple(str(f.joint) for f in members),
                rule=next((f.rule for f in members if f.rule), None),
            )
        out.append(family)
    return tuple(out)


def _spread(model: Model):
    """The force elements; what acts on every body becomes one member per body, all under one name."""
    for f in model.forces.values():
        if f.kind != "central_gravity":
            yield f
            continue
        d = model.dimension
        for body in model.bodies.values():
            yield dataclasses.replace(f, markers=(Marker(body, np.zeros(d), np.eye(d)),))


def _law(space: str, f: Force):
    kind, *rest = f.kind.split(":")
    if kind in ("force", "torque"):
        return Load(f.functions[0], kind, rest[0])
    if kind == "armature":
        ball = rest[1] == "ball"
        return Armature(None if ball else coordinate_of(space, rest[0].replace("/", ":"), rest[1]))
    if kind == "joint_spring" and rest[1] == "ball":
        return BallSpring()
    if kind in ON_COORDINATE:
        coordinate = coordinate_of(space, rest[0].replace("/", ":"), rest[1])
        around = is_angle(rest[1]) and space == "space"  # in the plane angles count full turns
        around = around and not (kind == "joint_force" and _is_periodic(f))
        return ON_COORDINATE[kind](coordinate, around, *f.functions)
    if kind == "bearing_friction":
        coordinate = None if rest[1] == "ball" else coordinate_of(space, rest[0], rest[1])
        labels = ("Fx", "Fy", "Mz") if space == "plane" else ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
        return BearingFriction(coordinate, *(tuple(map(labels.index, part)) for part in BEARINGS[space, rest[0]]))
    plain = {"spring_damper": LineSpring, "bushing": Bushing, "drag": Drag, "central_gravity": CentralGravity}
    plain["belt_tension"] = BeltTension
    return plain[kind](*f.functions) if kind in plain else UserLaw(f.functions[0])


def _is_periodic(f: Force) -> bool:
    """Whether the user's effort(t, value, rate, p) is the same after a full turn, or does not depend on the value."""
    # a parameter that is zero now may be replaced later
    effort, numbers = f.functions[0], {k: jnp.where(x == 0, 0.37, jnp.asarray(x, float)) for k, x in f.numbers.items()}
    value, rate, t = (x.ravel() for x in np.meshgrid(np.linspace(-3.1, 3.1, 63), (-1.3, 0.0, 0.7), (0.0, 0.31)))
    try:
        at = jax.vmap(lambda *x: jnp.reshape(jnp.asarray(effort(*x, numbers), float), ()))
        here, around = at(t, value, rate), at(t, value + 2 * np.pi, rate)
    except Exception:  # a mistake of the user's function is reported by `_check_user_functions`
        return False
    return bool(jnp.max(jnp.abs(around - here)) <= 1e-9 * jnp.max(jnp.abs(here), initial=1e-300))


def refuse_wound(system: AbstractSystem, q) -> None:
    """Refuse laws that start more than half a turn away where turns are not counted."""
    if not system.wound:
        return
    away = np.abs(np.asarray(system.windings(jnp.zeros(()), jnp.asarray(q))))
    mistakes = [
        f"'{name}' starts {x:.4g} rad away from its free angle or reference. In space turns of a joint are not "
        "counted, and more than half a turn (3.1416 rad) cannot be told from the shorter way round: give an angle "
        "within half a turn of the start, or model the machine in the plane."
        for name, x in zip(system.wound, away, strict=True)
        if x > np.pi * (1 + 1e-9)
    ]
    if mistakes:
        raise ModelError(system.name, mistakes)


def _stack(model: Model, members) -> dict[str, np.ndarray]:
    """The members' numbers and marker places, stacked: what `parameters()` shows."""
    first = members[0]
    if first.kind.startswith("coupling:"):
        numbers = [_coupling_numbers(model, m) for m in members]
    elif first.kind in ("holonomic", "pfaffian", "law"):
        numbers = [m.numbers for m in members]  # these see the bodies' own frames
    else:
        numbers = [m.numbers | _placed(model.space, m.markers) for m in members]
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
    angle = _angle(markers[side].rotation)
    if side == 0:
        return angle
    i, j = markers
    gap = (_angle(j.body.rotation) + angle) - (_angle(i.body.rotation) + _angle(i.rotation))
    return angle - 2 * math.pi * round(gap / (2 * math.pi))


def _angle(R) -> float:
    return math.atan2(R[1, 0], R[0, 0])


def _joint_views(model: Model, constraints, index, families) -> tuple[JointView, ...]:
    where = {name: (f, k) for f, family in enumerate(families) for k, name in enumerate(family.names)}
    views = []
    for c in constraints.values():
        kind = kind_of(model.space, c.kind)
        coordinates = tuple(kind.coordinates.items()) if kind else ()
        blocks = tuple(index[b.name] for b in c.bodies)
        views.append(JointView(c.name, c.kind, blocks, *where[c.name], coordinates))
    return tuple(views)


def _start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    q, v = [], []
    for b in model.bodies.values():
        q.append(_block(model.space, b))
        v.append(np.concatenate([b.velocity, b.angular_velocity]))
    return np.concatenate(q), np.concatenate(v)


def _block(space: str, b: Body) -> np.ndarray:
    """The coordinates of one body at the start."""
    return np.concatenate([b.position, [_angle(b.rotation)] if space == "plane" else quaternion_of(b.rotation)])


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
    rows = ("driver", "speed_driver", "point_driver", "frame_driver", "distance_driver", "holonomic", "pfaffian")
    families = [f for f in system.families if f.kind.split(":")[0] in rows]
    forces = [f for f in system.forces if model.forces[f.names[0]].functions]
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


def _shapes_of(numbers: dict):
    return {k: jax.ShapeDtypeStruct(np.shape(x), float) for k, x in numbers.items()}


# pyright: reportArgumentType=false, reportReturnType=false
