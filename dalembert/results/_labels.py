"""6b· results: a motion as an xarray Dataset, with names and units."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert._results import RecordWarning, warn_caller
from dalembert.results._measurements import add_measurements
from dalembert.results._observe import coordinate_views
from dalembert.results._reactions import unique_words, warn_slack
from dalembert.results._turns import coordinate_motion, counted, with_turns
from dalembert.simulation import IMPULSE_RULE
from dalembert.systems import BodySystem, geometry

if TYPE_CHECKING:
    import xarray as xr

    from dalembert.results._results import Results

AXES = ("x", "y", "z")


def labelled(results: Results) -> xr.Dataset:
    """All that is known of a motion at its saved times."""
    import xarray as xr

    warn_slack(results)
    solution, o = results.solution, results.observed
    system, machine, bodies = results.system, results.machine, results.system.bodies
    data: dict[str, Any] = {}
    time = ("time", np.asarray(solution.t), {"units": "s"})
    coords: dict[str, Any] = {"time": time, "level": ["position", "velocity", "acceleration"]}
    if bodies is not None:
        _bodies(results, bodies, data, coords)
        _joints(results, bodies, data, coords)
        text = {"long_name": "bodies, joints and forces with their places, as JSON; for pictures"}
        data["geometry"] = ((), json.dumps(geometry(bodies)), text)
    if bodies is not system:
        names, labels = "coordinate", system.coordinate_labels()
        if labels is not None:  # where "coordinate" holds all joints'
            names = "tree_coordinate"
            coords[names] = list(labels)
        own = system.split(np.asarray(solution.q))[0]
        data |= {"q": (("time", names), own), "v": (("time", "speed"), np.asarray(solution.v))}
        data["vdot"] = (("time", "speed"), o.rates)
    if solution.phases is not None:
        (_contacts if solution.phases.of_contacts else _frictions)(results, data, coords)
    add_measurements(results, data, coords)
    owner = {row: o.name for o in machine.owners for row in o.rows}
    coords |= {"row": np.arange(machine.m), "row_owner": ("row", [owner[row] for row in range(machine.m)])}
    data["multiplier"] = (("time", "row"), o.lam, {"long_name": "Lagrange multiplier"})
    text = {"long_name": "whether the constraints determine the multiplier"}
    data["unique_multiplier"] = (("time", "row"), results.unique_multipliers & results.instants.multipliers, text)
    text = {"long_name": "rank of the constraints at this instant"}
    data["rank"] = ("time", results.instants.rank, text)
    text = {"units": "1", "long_name": "decimal digits of the reactions that can be believed"}
    data["digits"] = ("time", results.instants.digits, text)
    text = {"units": "1", "long_name": "constraint violation, relative to the machine's size"}
    data["violation"] = (("time", "level"), o.violation, text)
    for name, value in results.energies.items():
        label = name if name.startswith("work") else f"energy_{name}"
        data[label] = ("time", value, {"units": "J"})
    found = xr.Dataset(data, coords=coords, attrs=_attributes(results))
    return found if results.redundancy else found.assign_attrs(reaction_rule=unique_words(found))


def plain_stats(solution) -> dict[str, float | int]:
    """The counts and settings of a run as plain numbers; of a member of a batch they are arrays."""
    plain = {k: np.asarray(x) for k, x in solution.stats.items()}
    return {k: float(x) if np.issubdtype(x.dtype, np.floating) else int(x) for k, x in plain.items()}


def _attributes(results: Results) -> dict[str, Any]:
    import dalembert

    solution = results.solution
    keep = {k: x for k, x in plain_stats(solution).items() if k != "doubt_said"}
    return {
        "model": results.system.name,
        "status": solution.status.name,
        "reaction_rule": results.rule.describe(results.machine),
        "redundancy": results.redundancy,
        "integrator": solution.integrator,
        "formulation": type(solution.formulation).__name__,
        "stabilisation": type(solution.stabilisation).__name__,
        "dalembert_version": dalembert.__version__,
        **keep,
    }


def _bodies(results: Results, system: BodySystem, data, coords) -> None:
    o = results.observed
    d, nt, nb = system.kinematics.d, len(o.q), len(system.body_names)
    q = np.asarray(system.split(np.asarray(o.q))[0]).reshape(nt, nb, system.dq)
    v = o.v.reshape(nt, nb, system.dv)
    a = o.vdot.reshape(nt, nb, system.dv)
    coords |= {"body": list(system.body_names), "axis": list(AXES[:d])}
    tba = ("time", "body", "axis")
    data["position"] = (tba, q[..., :d], {"units": "m", "long_name": "centre of mass"})
    data["velocity"] = (tba, v[..., :d], {"units": "m/s"})
    data["acceleration"] = (tba, a[..., :d], {"units": "m/s2"})
    if d == 2:
        tb = ("time", "body")
        data["angle"] = (tb, q[..., 2], {"units": "rad"})
        data["angular_velocity"] = (tb, v[..., 2], {"units": "rad/s"})
        data["angular_acceleration"] = (tb, a[..., 2], {"units": "rad/s2"})
    else:
        coords["component"] = ["w", "x", "y", "z"]
        text = {"units": "1", "long_name": "unit quaternion, body to world"}
        data["quaternion"] = (("time", "body", "component"), _continuous(q[..., 3:]), text)
        data["angular_velocity"] = (tba, v[..., 3:], {"units": "rad/s", "long_name": "in the body frame"})
        data["angular_acceleration"] = (tba, a[..., 3:], {"units": "rad/s2", "long_name": "in the body frame"})


def _joints(results: Results, system: BodySystem, data, coords) -> None:
    o = results.observed
    assert o.wrenches is not None
    views = coordinate_views(system)
    if views:
        values = _counting_turns(results, system, views)
        coords["joint_coordinate"] = [f"{joint}.{x.name}" for joint, x in views]
        coords["joint_coordinate_units"] = ("joint_coordinate", [x.unit for _, x in views])
        data["coordinate"] = (("time", "joint_coordinate"), values, {"long_name": "joint coordinate"})
    if not system.joints:
        return
    coords["joint"] = [j.name for j in system.joints]
    d, along = system.kinematics.d, ("time", "joint", "axis")
    turning, turns = (along, lambda x: x) if d == 3 else (along[:2], lambda x: x[..., 0])
    for suffix, prefix, where in (("", "", "world axes"), ("_in_joint", "joint_", "axes of marker i")):
        force, torque = (getattr(o.wrenches, f"{prefix}{x}") for x in ("force", "torque"))
        note = f"on body j, at marker j, {where}; rule: {results.rule.describe(system)}"
        data[f"reaction_force{suffix}"] = (along, force, {"units": "N", "long_name": note})
        data[f"reaction_torque{suffix}"] = (turning, turns(torque), {"units": "N m", "long_name": note})
        sure = np.array([results.unique(j.name, frame="joint" if suffix else "world") for j in system.joints])
        text = {"long_name": f"whether the rigid-body model determines it at this instant, {where}"}
        force, torque = (results.instants.believed[f"{prefix}{x}"] for x in ("force", "torque"))
        data[f"unique_force{suffix}"] = (along, sure[:, :d] & force, text)
        data[f"unique_torque{suffix}"] = (turning, turns(sure[:, d:] & torque), text)
    text = {"long_name": "how much of the joint's reaction the rigid-body model determines, but at singular positions"}
    data["solvability"] = ("joint", [results.solvability(j.name) for j in system.joints], text)


def _frictions(results: Results, data, coords) -> None:
    """Dry friction that sticks: its state, effort and limit over time, and the table of its phases."""
    phases: Any = results.solution.phases
    found = results.rubbed  # pyright: ignore[reportAttributeAccessIssue]
    along, bodies = ("time", "friction"), results.system.bodies
    coords |= {"friction": list(phases.names), "friction_joint": ("friction", list(phases.joints))}
    assert bodies is not None
    units = ["N m" if angle else "N" for angle in bodies.sticking_angles]
    coords["friction_units"] = ("friction", units)
    text = {"long_name": "sign of the slip: 0 while it sticks, else +1 or -1"}
    data["friction_side"] = (along, found.side.astype(np.int8), text)
    data["friction_effort"] = (along, found.effort, {"long_name": "effort of friction on the joint coordinate"})
    data["friction_limit"] = (along, found.limit, {"long_name": "the largest effort while it sticks"})
    text = {"long_name": "whether the rigid-body model determines the effort of friction"}
    data["unique_friction"] = (along, found.unique, text)
    table: Any = list(phases)
    data["phase_friction"] = ("phase", [p.friction for p in table], {"long_name": "friction of each phase"})
    data["phase_state"] = ("phase", [p.state for p in table], {"long_name": "stick, slip + or slip −"})
    data["phase_start"] = ("phase", [p.start for p in table], {"units": "s"})
    data["phase_end"] = ("phase", [p.end for p in table], {"units": "s"})


def _contacts(results: Results, data, coords) -> None:
    """One-sided joints: whether they are closed over time, the table of their phases, and their impacts."""
    phases: Any = results.solution.phases
    coords |= {"contact": list(phases.names), "contact_joint": ("contact", list(phases.joints))}
    closed = np.asarray(phases.closed)[phases.parts(results.solution.t)]
    data["contact_closed"] = (("time", "contact"), closed, {"long_name": "whether the contact is closed"})
    if np.any(phases.rough):
        slips = np.any(np.asarray(phases.way) != 0, axis=2)[phases.parts(results.solution.t)]
        data["contact_slips"] = (("time", "contact"), slips, {"long_name": "whether the contact slips with friction"})
    table: Any = list(phases)
    data["phase_contact"] = ("phase", [p.contact for p in table], {"long_name": "contact of each phase"})
    data["phase_state"] = ("phase", [p.state for p in table], {"long_name": "open, or closed: stick or slip"})
    data["phase_start"] = ("phase", [p.start for p in table], {"units": "s"})
    data["phase_end"] = ("phase", [p.end for p in table], {"units": "s"})
    data["impact_time"] = ("impact", np.asarray(phases.impact_t), {"units": "s"})
    rule = "unique" if np.asarray(phases.unique).all() else IMPULSE_RULE
    text = {"long_name": "impulse of each contact: a push on its body j, along its row", "rule": rule}
    data["impulse"] = (("impact", "contact"), np.asarray(phases.impulse), text)
    text = {"long_name": "whether the rigid-body model determines the impulse"}
    data["unique_impulse"] = (("impact", "contact"), np.asarray(phases.unique), text)
    lost = np.asarray(phases.energy)[:, 0] - np.asarray(phases.energy)[:, 1]
    data["impact_energy_lost"] = ("impact", lost, {"units": "J"})
    lifted = phases.lift_offs
    data["lift_off_time"] = ("lift_off", np.array([t for t, _ in lifted], float), {"units": "s"})
    text = {"long_name": "contact that lifts off"}
    data["lift_off_contact"] = ("lift_off", np.array([name for _, name in lifted], "U1" if not lifted else None), text)


def _counting_turns(results: Results, system: BodySystem, views) -> np.ndarray:
    """The joint coordinates with angles that count full turns, as they do in the plane; in space they come from
    (−π, π], and full turns follow from joint coordinates q or from the angles' own rates."""
    o = results.observed
    values = np.array(o.coordinates)
    names = [(joint, x.name) for joint, x in views]
    angles = [k for k, (_, x) in enumerate(views) if x.is_angle]
    if system.space == "plane" or not angles or len(values) < 2:
        return values
    own = results.system.angles_in_q()
    for k in angles:
        if names[k] in own:
            q = np.asarray(results.solution.q)[:, own[names[k]]]
            values[:, k] = with_turns(values[:, k], np.diff(q))
    rest = [k for k in angles if names[k] not in own]
    if rest:
        rates, accelerations = (np.asarray(x)[:, rest] for x in coordinate_motion(system, o.q, o.v, o.vdot))
        values[:, rest], known = counted(np.asarray(results.solution.t), values[:, rest], rates, accelerations)
        _warn_uncounted(results.system.name, [names[k][0] for k, sure in zip(rest, known, strict=True) if not sure])
    return values


def _warn_uncounted(name: str, joints: list[str]) -> None:
    if joints:
        warn_caller(
            f"'{name}': the saved times are too far apart to count full turns at the joints "
            f"{', '.join(repr(j) for j in dict.fromkeys(joints))}: their angles in the dataset may be wrong by "
            "multiples of 2π. Save more often, with a larger samples=.",
            RecordWarning,
        )


def _continuous(quaternions: np.ndarray) -> np.ndarray:
    """Of the two quaternions of each rotation the one nearer to that of the instant before (times first)."""
    same = np.sum(quaternions[1:] * quaternions[:-1], axis=-1) >= 0
    sign = np.cumprod(np.where(same, 1.0, -1.0), axis=0)
    return np.concatenate([quaternions[:1], quaternions[1:] * sign[..., None]])
