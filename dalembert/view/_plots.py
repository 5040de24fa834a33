"""edge · pictures: figures of a labelled result by matplotlib, each by its name in one call."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert._results import DalembertError, did_you_mean
from dalembert.view._figure import check_figure, save_figure
from dalembert.view._scene import CURVES, geometry_of, measured_curves, moving, picked_channels, points_of, scene_of
from dalembert.view._undetermined import determined, windows

MOST = 8
"""Curves in one panel; with more, the largest are shown and the title states it."""
MOST_JOINTS = 12
"""Joints on one page of reactions."""


def plot_dataset(data, what: str | None = None, *, path=None, **options) -> Any:
    """A figure of a result dataset, by name (see `KINDS`); without a name, a page of four. Saved to `path` if given."""
    name = "page" if what is None else what
    if name not in KINDS:
        known = ", ".join(repr(k) for k in KINDS)
        raise DalembertError(f"There is no plot {name!r}; there are {known}.{did_you_mean(str(name), KINDS)}")
    check_figure(path)
    try:
        figure = KINDS[name](data, **options)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise DalembertError(f"The plot {name!r} does not take this: {str(error).split('() ')[-1]}.") from None
    for axis in figure.axes:
        _level(axis)
    if path is not None:
        save_figure(figure, path)
    return figure


# ---- figures -------------------------------------------------------------------------------------------------------


def _page(data) -> Any:
    figure, axes = _figure(2, 2, (12, 8))
    name, status = data.attrs.get("model", ""), data.attrs.get("status", "")
    figure.suptitle(name if status == "done" else f"{name} ({status})", fontsize=14)
    _motion(axes[0, 0], data)
    _reaction_sizes(axes[0, 1], data)
    _draw_violation(axes[1, 0], data)
    _draw_energy(axes[1, 1], data)
    return figure


def _coordinates(data, names: str | Sequence[str] | None = None) -> Any:
    """Joint coordinates, angles and lengths apart; of all joints or of some (`names`: joints or joint.coordinate)."""
    if "coordinate" not in data:
        figure, axes = _figure(1, 1, (9, 4.5))
        _motion(axes[0, 0], data)
        return _titled(figure, data)
    return _by_unit(data, "coordinate", names, "joint coordinates", "")


def _velocities(data, names: str | Sequence[str] | None = None) -> Any:
    """Rates of the joint coordinates; where they are not known, the bodies' velocities."""
    if "coordinate_rate" in data:
        return _by_unit(data, "coordinate_rate", names, "rates of joint coordinates", "/s")
    if "velocity" not in data:
        figure, axes = _figure(1, 1, (9, 4.5))
        _curves(axes[0, 0], data["time"].values, {f"v{k}": x for k, x in enumerate(data["v"].values.T)}, "velocities")
        return _titled(figure, data)
    figure, axes = _figure(2, 1, (9, 6.5))
    for axis, name, unit, title in (
        (axes[0, 0], "velocity", "m/s", "velocities of the centres of mass"),
        (axes[1, 0], "angular_velocity", "rad/s", "angular velocities"),
    ):
        _curves(axis, data["time"].values, _stacked(data[name], names), title)
        axis.set_ylabel(unit)
    return _titled(figure, data)


def _measurements(data, names: str | Sequence[str] | None = None) -> Any:
    """Measurements, inputs and states of controllers, a panel for each unit; of all or of some (`names`: measurements,
    controllers, or single channels). What a rule picked is dashed."""
    by_unit = measured_curves(data)
    labels = [x for curves in by_unit.values() for x in curves]
    if not labels:
        raise DalembertError(
            "Nothing is measured in this motion; say model.measure(name, what, …) before it is simulated."
        )
    wanted = _wanted(labels, names)
    by_unit = {unit: {x: y for x, y in curves.items() if x in wanted} for unit, curves in by_unit.items()}
    by_unit = {unit: curves for unit, curves in by_unit.items() if curves}
    picked = picked_channels(data) & set(wanted)
    figure, axes = _figure(len(by_unit), 1, (9, 1.2 + 2.8 * len(by_unit)))
    for axis, (unit, curves) in zip(axes[:, 0], by_unit.items(), strict=True):
        _curves(axis, data["time"].values, curves, "")
        for line in axis.get_lines():
            line.set_linestyle("--" if line.get_label() in picked else "-")
        axis.set_ylabel(unit)
        if axis.get_lines():
            _legend(axis)
    if picked:
        words = f"dashed: not determined by the rigid-body model; picked by {data.attrs.get('reaction_rule', 'a rule')}"
        axes[0, 0].set_title("\n".join(textwrap.wrap(words, 100)), fontsize=8.5, color="#5b6775", loc="left")
    return _titled(figure, data)


def _reactions(data, joint: str | None = None, frame: str = "joint", band=None) -> Any:
    """Force and torque of one joint, or of all. Unique components are solid; the others are dashed, with the rule that
    picked them in the legend. `band` (by component) is half the width of the undetermined range, or both ends of the
    possible one."""
    if "reaction_force" not in data:
        raise DalembertError("This result has no joint reactions; the multipliers are in its variable 'multiplier'.")
    if frame not in ("world", "joint"):
        raise DalembertError(f"frame={frame!r} is unknown; use 'world' or 'joint'.")
    joints = [str(j) for j in data["joint"].values]
    if joint is not None and joint not in joints:
        raise DalembertError(
            f"There is no joint '{joint}'; the joints are {', '.join(joints)}.{did_you_mean(joint, joints)}"
        )
    if joint is None:
        return _all_reactions(data, joints, frame)
    transmitted = [what for what in ("force", "torque") if _components(data, joint, frame, what)] or ["force"]
    figure, axes = _figure(len(transmitted), 1, (9, 1.2 + 2.9 * len(transmitted)))
    for row, what in enumerate(transmitted):
        _draw_wrench(axes[row, 0], data, joint, frame, what, band, long=True)
    where = "world axes" if frame == "world" else "the joint's axes"
    figure.suptitle(f"{data.attrs.get('model', '')}: reaction of '{joint}' on body j, along {where}", fontsize=13)
    if not all(sure for what in ("force", "torque") for _, _, sure in _components(data, joint, frame, what)):
        words = f"dashed: not determined by the rigid-body model; picked by {data.attrs.get('reaction_rule', 'a rule')}"
        if band is not None:
            possible = any(isinstance(x, tuple) for x in band.values())
            words += "; shaded: " + (
                "all values that are possible"
                if possible
                else "what self-stresses as large as the whole reaction would change"
            )
        axes[0, 0].set_title("\n".join(textwrap.wrap(words, 100)), fontsize=8.5, color="#5b6775", loc="left")
    return figure


def _violation(data) -> Any:
    figure, axes = _figure(1, 1, (9, 4.5))
    _draw_violation(axes[0, 0], data)
    return _titled(figure, data)


def _energy(data) -> Any:
    figure, axes = _figure(2, 1, (9, 6.5))
    _draw_energy(axes[0, 0], data)
    drift = data["energy_drift"].values
    _curves(axes[1, 0], data["time"].values, {"drift": drift}, "what the balance misses: total − start − work")
    axes[1, 0].set_ylabel("J")
    return _titled(figure, data)


def _phase(data, coordinate: str | None = None) -> Any:
    """A joint coordinate against its rate; without a name, the one that moves most."""
    values, rates, labels, units = _phase_data(data)
    if not labels:
        raise DalembertError("This result has no joint coordinates for a phase plot.")
    if coordinate is None:
        coordinate = labels[int(np.argmax(np.ptp(values, axis=0)))]
    if coordinate not in labels:
        hint = did_you_mean(str(coordinate), labels)
        raise DalembertError(f"There is no coordinate '{coordinate}'; there are {', '.join(labels)}.{hint}")
    k = labels.index(coordinate)
    figure, axes = _figure(1, 1, (6.5, 5.5))
    axis = axes[0, 0]
    axis.plot(values[:, k], rates[:, k], color=CURVES[0], linewidth=1.2)
    axis.plot(values[:1, k], rates[:1, k], "o", color=CURVES[1], label="start")
    axis.set_xlabel(f"{coordinate} ({units[k]})" if units[k] else coordinate)
    axis.set_ylabel(f"its rate ({units[k]}/s)" if units[k] else "its rate")
    _legend(axis)
    axis.margins(0.05)
    return _titled(figure, data)


def _path(data, body: str | None = None, point=None) -> Any:
    """The path of a point of a body (`point` in the body's frame; default its centre of mass)."""
    scene = scene_of(data, frames=10**9)
    names = [b["name"] for b in scene.bodies[:-1]]
    if body is None:
        way = np.sum(np.linalg.norm(np.diff(scene.places[:, :-1, :3], axis=0), axis=-1), axis=0)
        body = names[int(np.argmax(way))]
    if body not in names:
        raise DalembertError(
            f"There is no body '{body}'; the bodies are {', '.join(names)}.{did_you_mean(str(body), names)}"
        )
    d = 2 if scene.space == "plane" else 3
    at = np.zeros(d) if point is None else np.asarray(point, float)
    if at.shape != (d,):
        raise DalembertError(f"point={point!r} must have {d} numbers: a point in the frame of body '{body}'.")
    track = points_of(scene.places[:, names.index(body)], np.append(at, np.zeros(3 - d)))
    figure, axis = _space(scene)
    axis.plot(*track[:, :d].T, color=CURVES[0], linewidth=1.4)
    axis.plot(*track[:1, :d].T, "o", color=CURVES[2], label="start")
    axis.plot(*track[-1:, :d].T, "s", color=CURVES[1], label="end")
    for name, letter in zip(("set_xlabel", "set_ylabel", "set_zlabel")[:d], "xyz", strict=False):
        getattr(axis, name)(f"{letter} (m)")
    what = "centre of mass" if point is None else f"point ({', '.join(f'{x:g}' for x in at)})"
    axis.set_title(f"{scene.title}: {what} of '{body}'", fontsize=12)
    axis.set_aspect("equal", adjustable="datalim" if d == 2 else "box")
    axis.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), fontsize=8, frameon=False)
    return figure


def _mechanism(data, t: float | None = None) -> Any:
    """The machine itself at one instant."""
    from dalembert.view._movie import plot_mechanism

    first, last = float(data["time"].values[0]), float(data["time"].values[-1])
    if t is not None and not first <= t <= last:
        raise DalembertError(f"t = {t:g} lies outside the motion [{first:g}, {last:g}].")
    return plot_mechanism(scene_of(data), t)


KINDS: dict[str, Callable[..., Any]] = {
    "page": _page,
    "coordinates": _coordinates,
    "velocities": _velocities,
    "measurements": _measurements,
    "reactions": _reactions,
    "violation": _violation,
    "energy": _energy,
    "phase": _phase,
    "path": _path,
    "mechanism": _mechanism,
}
"""The figures by name: the first argument of `solution.plot`."""


# ---- what they are made of -----------------------------------------------------------------------------------------


def _figure(rows: int, columns: int, size) -> tuple[Any, Any]:
    from dalembert.view._shown import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_xlabel("time (s)")
        axis.grid(True, alpha=0.3)
        axis.margins(x=0)
    return figure, axes


def _space(scene) -> tuple[Any, Any]:
    """Axes for a path in the plane or in space, with the model's upward direction up."""
    from dalembert.view._shown import Figure

    figure = Figure(figsize=(7, 5.5), layout="constrained")
    if scene.space == "plane":
        axis = figure.subplots()
    else:
        axis = figure.add_subplot(projection="3d")
        axis.view_init(elev=22, azim=-55, vertical_axis="xyz"[int(np.argmax(np.abs(scene.up)))])
        axis.locator_params(nbins=4)
    axis.grid(True, alpha=0.3)
    return figure, axis


def _titled(figure, data) -> Any:
    figure.suptitle(str(data.attrs.get("model", "")), fontsize=13)
    return figure


def _wanted(labels: list[str], names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return labels
    chosen = []
    for name in [names] if isinstance(names, str) else names:
        found = [x for x in labels if x == name or x.rsplit(".", 1)[0] == name]
        if not found:
            raise DalembertError(
                f"There is no '{name}' here; there are {', '.join(labels)}.{did_you_mean(name, labels)}"
            )
        chosen += found
    return chosen


def _by_unit(data, variable: str, names, title: str, per: str) -> Any:
    labels = [str(x) for x in data["joint_coordinate"].values]
    units = dict(zip(labels, map(str, data["joint_coordinate_units"].values), strict=True))
    wanted = _wanted(labels, names)
    if names is None:  # what is not requested by name and does not move is left out
        wanted = (
            list(_moving(data, {x: data["coordinate"].values[:, labels.index(x)] for x in labels}, units)) or labels
        )
    there = [u for u in ("rad", "m") if any(units[x] == u for x in wanted)]
    figure, axes = _figure(len(there), 1, (9, 1.2 + 3.2 * len(there)))
    for axis, unit in zip(axes[:, 0], there, strict=True):
        curves = {x: data[variable].values[:, labels.index(x)] for x in wanted if units[x] == unit}
        _curves(axis, data["time"].values, curves, f"{title}: {'angles' if unit == 'rad' else 'displacements'}")
        axis.set_ylabel(unit + per)
    return _titled(figure, data)


def _moving(data, curves: dict[str, np.ndarray], units: dict[str, str]) -> dict[str, np.ndarray]:
    """The joint coordinates that move by more than rounding."""
    size = float(geometry_of(data)["size"]) if "geometry" in data else 0.0
    found = {}
    for unit in ("rad", "m"):
        found |= moving({k: y for k, y in curves.items() if units[k] == unit}, size if unit == "m" else 1.0)
    return {k: y for k, y in curves.items() if k in found}


def _stacked(variable, names) -> dict[str, np.ndarray]:
    if variable.ndim == 2:
        found = {str(b): variable.values[:, k] for k, b in enumerate(variable["body"].values)}
    else:
        stacked = variable.stack(curve=("body", "axis"))
        found = {f"{b}.{a}": stacked.values[:, k] for k, (b, a) in enumerate(stacked["curve"].values)}
    return {x: found[x] for x in _wanted(list(found), names)}


def _motion(axis, data) -> None:
    t = data["time"].values
    if "coordinate" in data:
        units = data["joint_coordinate_units"].values
        curves, unit_of = {}, {}
        for k, label in enumerate(data["joint_coordinate"].values):
            curves[f"{label} ({units[k]})"] = data["coordinate"].values[:, k]
            unit_of[f"{label} ({units[k]})"] = str(units[k])
        curves = _moving(data, curves, unit_of)
        title = "joint coordinates" if curves else "joint coordinates: all stand still"
    elif "position" in data:
        curves = {f"{name} (m)": x for name, x in _stacked(data["position"], None).items()}
        title = "centres of mass"
    else:
        curves = {f"q{k}": x for k, x in enumerate(data["q"].values.T)}
        title = "coordinates"
    _curves(axis, t, curves, title)


def _reaction_sizes(axis, data) -> None:
    if "reaction_force" not in data:
        curves = {f"row {k} of {o}": data["multiplier"].values[:, k] for k, o in enumerate(data["row_owner"].values)}
        _curves(axis, data["time"].values, curves, "multipliers", lambda x: np.max(np.abs(x)))
        _shade_doubtful(axis, data)
        return
    size = np.linalg.norm(data["reaction_force"].values, axis=-1)
    curves = {str(j): size[:, k] for k, j in enumerate(data["joint"].values)}
    _curves(axis, data["time"].values, curves, "size of reaction forces", lambda x: np.max(np.abs(x)))
    axis.set_ylabel("N")
    if "solvability" in data:  # dashed where a rule picked it
        open_ = {str(j) for j, s in zip(data["joint"].values, data["solvability"].values, strict=True) if s != "unique"}
        for line in axis.get_lines():
            line.set_linestyle("--" if line.get_label() in open_ else "-")
        _legend(axis) if axis.get_lines() else None
    _shade_doubtful(axis, data)
    if int(data.attrs.get("redundancy", 0)):
        rule = str(data.attrs["reaction_rule"])
        words = textwrap.fill(f"dashed: not unique; picked by: {rule}", 72)
        axis.set_title(f"{axis.get_title()}\n{words}", fontsize=9)


def _shade_doubtful(axis, data, joint: str | None = None) -> None:
    """A grey band over the times at which reactions (of one joint) are not determined."""
    for window in windows(data, joint):
        if window.joints:
            axis.axvspan(window.low, window.high, color="#8a94a0", alpha=0.25, linewidth=0)


def _components(data, joint: str, frame: str, what: str) -> list[tuple[str, np.ndarray, bool]]:
    """(label, values, unique) of the components that the joint transmits."""
    suffix = "" if frame == "world" else "_in_joint"
    mine = data.sel(joint=joint)
    values, sure = mine[f"reaction_{what}{suffix}"].values, determined(data, joint, f"unique_{what}{suffix}")
    values = values.reshape(len(values), -1)
    letter = "F" if what == "force" else "M"
    axes = "xyz"[: values.shape[1]] if values.shape[1] > 1 else "z"
    everything = data[f"reaction_{what}{suffix}"].values
    # torques that are all rounding are far below the forces in any unit of length
    force = float(np.nanmax(np.abs(data[f"reaction_force{suffix}"].values), initial=0.0))
    least = max(1e-10 * float(np.nanmax(np.abs(everything), initial=0.0)), 1e-20 * force)
    found = [(f"{letter}{a}", values[:, k], bool(sure[k])) for k, a in enumerate(axes)]
    return [c for c in found if np.nanmax(np.abs(c[1]), initial=0.0) > least or not c[2]]


def _draw_wrench(axis, data, joint: str, frame: str, what: str, band=None, *, long: bool) -> None:
    t = data["time"].values
    for label, y, sure in _components(data, joint, frame, what):
        colour = CURVES["xyz".index(label[-1])]
        text = label if sure else f"{label} (by rule)"
        axis.plot(t, y, "-" if sure else "--", color=colour, linewidth=1.3, label=text)
        if band is not None and not sure and label in band:
            low, high = band[label] if isinstance(band[label], tuple) else (y - band[label], y + band[label])
            axis.fill_between(t, low, high, where=np.isfinite(low + high), color=colour, alpha=0.12, linewidth=0)
    axis.set_ylabel("N" if what == "force" else "N m")
    _shade_doubtful(axis, data, joint)
    if axis.get_lines():
        _legend(axis)
    elif long:
        axis.text(0.5, 0.5, f"carries no {what}", transform=axis.transAxes, ha="center", color="#5b6775")
        axis.set(xticks=[], yticks=[], xlabel="")


def _all_reactions(data, joints: list[str], frame: str) -> Any:
    size = {j: float(np.nanmax(np.linalg.norm(data["reaction_force"].sel(joint=j).values, axis=-1))) for j in joints}
    ranked = sorted(joints, key=lambda j: -size[j])[:MOST_JOINTS]
    shown = [j for j in joints if j in ranked]
    columns = 1 if len(shown) == 1 else 2 if len(shown) <= 6 else 3
    rows = -(-len(shown) // columns)
    figure, axes = _figure(rows, columns, (5.2 * columns, 1.0 + 2.5 * rows))
    for axis, joint in zip(axes.flat, shown, strict=False):
        _draw_wrench(axis, data, joint, frame, "force", long=True)
        axis.set_title(f"force of '{joint}'", fontsize=10)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    more = f" (the {MOST_JOINTS} largest of {len(joints)})" if len(shown) < len(joints) else ""
    text = f"{data.attrs.get('model', '')}: reactions on body j{more}"
    if int(data.attrs.get("redundancy", 0)):
        text += "\n" + textwrap.fill(f"dashed: not unique; picked by {data.attrs.get('reaction_rule', 'a rule')}", 100)
    figure.suptitle(text, fontsize=11)
    return figure


def _phase_data(data) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    if "coordinate" in data:
        q = data["coordinate"].values
        labels = [str(x) for x in data["joint_coordinate"].values]
        units = [str(x) for x in data["joint_coordinate_units"].values]
        if "coordinate_rate" in data:
            return q, data["coordinate_rate"].values, labels, units
        edge = 2 if len(q) > 2 else 1  # a file holds no rates: differences of the saved values
        return q, np.gradient(q, data["time"].values, axis=0, edge_order=edge), labels, units
    if "q" in data and data["q"].shape == data["v"].shape:
        count = data["q"].shape[1]
        return data["q"].values, data["v"].values, [f"q{k}" for k in range(count)], [""] * count
    return np.zeros((0, 0)), np.zeros((0, 0)), [], []


def _draw_violation(axis, data) -> None:
    for k, level in enumerate(data["level"].values):
        values = np.maximum(data["violation"].sel(level=level).values, 1e-18)
        axis.semilogy(data["time"].values, values, label=str(level), linewidth=1, color=CURVES[k])
    axis.set_title("constraint violation, relative to the machine's size")
    axis.set_ylim(1e-18, None)
    _legend(axis)


def _draw_energy(axis, data) -> None:
    t = data["time"].values
    for k, name in enumerate(("energy_kinetic", "energy_potential", "energy_total")):
        axis.plot(t, data[name].values, label=name.removeprefix("energy_"), linewidth=1.2, color=CURVES[k])
    scale = float(np.max(np.abs(data["energy_total"].values))) or 1.0
    for name, label in (("work", "work of forces"), ("work_of_constraints", "work of drivers")):
        if np.max(np.abs(data[name].values)) > 1e-6 * scale:
            axis.plot(t, data[name].values, "--", label=label, linewidth=1)
    axis.set_title("energy")
    axis.set_ylabel("J")
    _legend(axis)


def _curves(axis, t, curves: dict[str, np.ndarray], title: str, weight: Callable = np.ptp) -> None:
    ranked = sorted(curves, key=lambda c: -weight(curves[c]))[:MOST]
    shown = [c for c in curves if c in ranked]
    for k, label in enumerate(shown):
        axis.plot(t, curves[label], label=label, linewidth=1.2, color=CURVES[k % len(CURVES)])
    more = f" (the {MOST} largest of {len(curves)})" if len(curves) > MOST else ""
    axis.set_title(title + more)
    if shown:
        _legend(axis)


def _level(axis) -> None:
    """Curves that are constant up to rounding are drawn flat."""
    if axis.name == "3d" or axis.get_yscale() != "linear" or not axis.get_lines():
        return
    low, high = axis.dataLim.intervaly
    size = max(abs(low), abs(high))
    if 0 < size < np.inf and high - low <= 1e-9 * size:
        axis.set_ylim((low + high) / 2 - 0.1 * size, (low + high) / 2 + 0.1 * size)


def _legend(axis) -> None:
    """Beside the axes, where it covers no curve."""
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
