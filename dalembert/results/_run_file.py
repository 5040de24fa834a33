"""6b· results: a run as a file, and back: `solution.to_netcdf(path)`, `da.open(path)`.

The labelled data are the file itself, for any program that reads netCDF. Beside them, in the group `run`, all as data:
the model as the text of its file, numbers that were changed after it was built, settings, states and the mark of the
march. What a file cannot hold (a Python function) is reported by name, there and when the file is opened.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dalembert._results import DalembertError, RecordWarning, Status, warn_caller
from dalembert.io import read_from_text, read_netcdf, text_of, write_netcdf
from dalembert.results._labels import plain_stats
from dalembert.results._record import NotPlain, decode, encode
from dalembert.results._recorded import RecordedRun
from dalembert.simulation import ContactPhases, Mark, Phases, Restart, Solution, parameter_changes, system_changes
from dalembert.systems import AbstractSystem, build, is_switchable, with_switches

if TYPE_CHECKING:
    import xarray as xr

GROUP = "run"
FORMAT = 1
"""Raised when files are written that older versions would misread."""
DTYPES = ("float64", "int64", "int32", "bool")


class _NotKept(Exception):
    """Why a file does not hold the model."""


# ---- out ---------------------------------------------------------------------------------------------------------


def write_run(solution: Solution, path) -> Path:
    """Write a solution: its dataset, and all that makes it a solution again."""
    return write_netcdf(solution.dataset, path, {GROUP: _recorded(solution)})


def _recorded(solution: Solution) -> xr.Dataset:
    import xarray as xr

    import dalembert

    arrays: list[np.ndarray] = []
    record: dict[str, Any] = {
        "integrator": solution.integrator,
        "stats": plain_stats(solution),
        "status": int(solution.status_code),
    }
    for name in ("t", "q", "v", "work", "t_end"):
        record[name] = encode(np.asarray(getattr(solution, name)), arrays)
    if solution.phases is not None:
        fields = {f.name: getattr(solution.phases, f.name) for f in dataclasses.fields(solution.phases)}
        record["phases"] = encode({k: x if isinstance(x, tuple) else np.asarray(x) for k, x in fields.items()}, arrays)
    text, why = "", ""
    try:
        for name in ("formulation", "stabilisation", "chosen"):
            record[name] = _plainly(name, getattr(solution, name), arrays)
        if solution.restart is not None:
            record["restart"] = _plainly("restart", _restart_data(solution.restart), arrays)
        text, record["system"] = _system_data(solution.system, arrays)
    except _NotKept as reason:
        why = str(reason)
        record["name"] = solution.system.name
        record["parameters"] = encode({k: np.asarray(x) for k, x in solution.system.parameters().items()}, arrays)
        record["sizes"] = [solution.system.n, solution.system.m]
    packed = _pack(arrays)
    record["arrays"] = packed.pop("layout")
    content = json.dumps(record)
    data = {k: (k, x) for k, x in packed.items()}
    data |= {"record": ((), content), "model": ((), text)}
    attributes = {"format": FORMAT, "dalembert_version": dalembert.__version__, "model_missing": why}
    attributes |= {"model_hash": _hash(text), "hash": _hash(text, content, *packed.values())}
    return xr.Dataset(data, attrs=attributes)


def _plainly(what: str, value, arrays):
    try:
        return encode(value, arrays)
    except NotPlain as reason:
        raise _NotKept(f"its {what} holds {reason}.") from None


def _restart_data(restart: Restart) -> dict[str, Any]:
    data = {f.name: getattr(restart, f.name) for f in dataclasses.fields(restart)}
    return data | {"mark": dict(restart.mark._asdict())}


def _system_data(system: AbstractSystem, arrays) -> tuple[str, dict[str, Any]]:
    """The model as text, and the changes that give this very system; tested here."""
    machine = system.bodies
    if machine is None:
        raise _NotKept(f"it was built from Python functions ({type(system).__name__} '{system.name}').")
    origin = machine.origin
    if not origin.known:
        raise _NotKept("its system was not made by da.build.")
    model = origin.model()
    try:
        text = text_of(model)
    except DalembertError as error:
        raise _NotKept(str(error)) from None
    gated = [f.names[0] for f in system.row_families if is_switchable(f)]
    again = _built(model, origin.coordinates, origin.cut, gated).with_loads(machine.load_rule, machine.loads_decided)
    mine, theirs = _leaves(system), _leaves(again)
    alike = jax.tree_util.tree_structure(system) == jax.tree_util.tree_structure(again)
    if not alike or any(np.shape(mine[k]) != np.shape(theirs[k]) for k in mine):
        raise _NotKept("its system was changed after da.build in a way that a file does not hold.")
    return text, {
        "coordinates": origin.coordinates,
        "cut": list(origin.cut),
        "switchable": gated,
        "loads_decided": machine.loads_decided,
        "load_rule": _plainly("rule for joint loads", machine.load_rule, arrays),
        "changed": {k: encode(np.asarray(x), arrays) for k, x in mine.items() if not _same_bits(x, theirs[k])},
        "hash": _hash(*(np.asarray(x) for x in mine.values())),
    }


def _same_bits(x, y) -> bool:
    return np.asarray(x).tobytes() == np.asarray(y).tobytes()


def _built(model, coordinates: str, cut, gated) -> AbstractSystem:
    system = build(model, coordinates=coordinates, cut=cut)
    return with_switches(system, *gated) if gated else system


def _leaves(system: AbstractSystem) -> dict[str, Any]:
    """The numbers of a system by their place; handles of this process are none."""
    found = ((jax.tree_util.keystr(p), x) for p, x in jax.tree_util.tree_leaves_with_path(system))
    return {p: x for p, x in found if not p.endswith(".klu.handle")}


def _pack(arrays: list[np.ndarray]) -> dict[str, Any]:
    """Many arrays as one of floats and one of integers: a file with thousands of variables is slow."""
    layout, floats, integers = [], [np.zeros(0)], [np.zeros(0, np.int64)]
    for a in arrays:
        if a.dtype.name not in DTYPES:
            raise DalembertError(f"An array of {a.dtype} cannot be written.")
        layout.append([a.dtype.name, list(a.shape)])
        if a.dtype.kind == "f":
            floats.append(np.ravel(a))
        else:
            integers.append(np.ravel(a).astype(np.int64))
    return {"layout": layout, "floats": np.concatenate(floats), "integers": np.concatenate(integers)}


def _hash(*parts) -> str:
    total = hashlib.sha256()
    for p in parts:
        total.update(p.encode() if isinstance(p, str) else np.ascontiguousarray(p).tobytes())
    return total.hexdigest()


# ---- in ----------------------------------------------------------------------------------------------------------


def open_run(path, *, system: AbstractSystem | None = None) -> Solution | RecordedRun:
    """A run from its file (`solution.to_netcdf`, `dalembert run -o`): the solution again, with all it can do.

    **Arguments**: `path` of the file; `system`, the one that ran, for a file whose model could not be kept (it held a
    Python function).

    **Returns** a `Solution`; of a file without its model, and without `system`, a `RecordedRun`: its labelled data,
    plots and films, with a `RecordWarning` about what is missing.

        >>> import dalembert as da
        >>> path = da.simulate(da.mechanism("pendulum"), 0.1, samples=3).to_netcdf("pendulum.nc")
        >>> da.open(path).t.tolist()
        [0.0, 0.05, 0.1]
    """
    path = Path(path)
    data: Any = read_netcdf(path)
    if "dalembert_version" not in data.attrs:
        raise DalembertError(f"'{path}' was not written by dalembert; read it with xarray.open_dataset.")
    group = read_netcdf(path, GROUP)
    if group is None:
        why = "it is a batch of runs" if "run" in data.dims else "it was written without it"
        return _without_model(path, data, why, recorded=False)
    record, arrays, text = _checked(path, group)
    why = str(group.attrs.get("model_missing", ""))
    if why and system is None:
        return _without_model(path, data, why)
    try:
        if system is None:
            system = _system_again(record["system"], arrays, text, path)
        elif why:
            _need_same(path, record, arrays, system)
        else:
            changed = system_changes(_system_again(record["system"], arrays, text, path), system)
            if changed:
                raise DalembertError(f"it was made with another system: {'; '.join(changed[:8])}.")
        solution = _solution(record, arrays, system)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DalembertError(f"'{path}' cannot be used: its record is not complete ({error}).") from None
    except DalembertError as error:
        raise DalembertError(f"'{path}' cannot be used: {error}") from None
    # what was saved, not computed again
    solution.results.dataset = data  # pyright: ignore[reportAttributeAccessIssue]
    return solution


def _checked(path: Path, group) -> tuple[dict[str, Any], list[np.ndarray], str]:
    """The record of a file, its arrays and the text of its model, if they are whole."""
    found = group.attrs.get("format")
    if not isinstance(found, int | np.integer):
        raise DalembertError(f"'{path}' is not a run of dalembert: it does not say its format.")
    if found > FORMAT:
        by = group.attrs.get("dalembert_version", "a newer version")
        raise DalembertError(
            f"'{path}' has format {found}, written by dalembert {by}; this version reads up to {FORMAT}. Update "
            "dalembert, or read the labelled data with xarray.open_dataset."
        )
    try:
        content, text = str(group["record"].values), str(group["model"].values)
        floats, integers = group["floats"].values, group["integers"].values
        whole = _hash(text, content, floats, integers) == group.attrs["hash"]
        record = json.loads(content) if whole else {}
        arrays = _unpack(record.get("arrays", []), floats, integers)
    except (KeyError, ValueError, TypeError) as error:
        raise DalembertError(f"'{path}' is broken: its record cannot be read ({error}).") from None
    if not whole:
        raise DalembertError(f"'{path}' is broken: its numbers do not fit their checksum.")
    return record, arrays, text


def _unpack(layout, floats, integers) -> list[np.ndarray]:
    out, at = [], {"f": 0, "i": 0}
    for name, shape in layout:
        if name not in DTYPES:
            raise ValueError(f"{name} is unknown")
        kind = "f" if name.startswith("float") else "i"
        size = int(np.prod(shape, dtype=int))
        part = (floats if kind == "f" else integers)[at[kind] : at[kind] + size]
        out.append(np.reshape(part, shape).astype(name))
        at[kind] += size
    return out


def _system_again(data: dict[str, Any], arrays, text: str, path: Path) -> AbstractSystem:
    model = read_from_text(text, Path(f"{path}.model")).model
    system = _built(model, data["coordinates"], data["cut"], data["switchable"])
    rule = decode(data["load_rule"], arrays)
    system = system.with_loads(rule, bool(data["loads_decided"]))
    changed = {k: decode(x, arrays) for k, x in data["changed"].items()}
    placed, structure = jax.tree_util.tree_flatten_with_path(system)
    leaves = []
    for place, x in placed:
        new = changed.pop(jax.tree_util.keystr(place), None)
        if new is not None and np.shape(new) != np.shape(x):
            raise DalembertError(f"a number of its system has another shape ({jax.tree_util.keystr(place)}).")
        leaves.append(x if new is None else new)
    if changed:
        raise DalembertError(f"its system has numbers that are not known here ({', '.join(list(changed)[:3])}).")
    system = jax.tree_util.tree_unflatten(structure, leaves)
    if _hash(*(np.asarray(x) for x in _leaves(system).values())) != data["hash"]:
        warn_caller(
            f"'{path}': its model, built here, differs in the last digits from the one that ran (another version or "
            "machine): what is computed from now on agrees to rounding, not bit for bit.",
            RecordWarning,
        )
    return system


def _need_same(path: Path, record, arrays, system: AbstractSystem) -> None:
    """Refuse a given system that cannot be the one that ran."""
    if [system.n, system.m] != record["sizes"]:
        n, m = record["sizes"]
        raise DalembertError(
            f"it was made with {n} velocities and {m} constraint rows; the given system has {system.n} and {system.m}."
        )
    changed = parameter_changes(decode(record["parameters"], arrays), system.parameters())
    if changed:
        raise DalembertError(f"it was made with another system: {'; '.join(changed[:8])}.")


def _solution(record, arrays, system: AbstractSystem) -> Solution:
    got = {name: decode(record[name], arrays) for name in ("t", "q", "v", "work", "t_end")}
    methods = {name: decode(record[name], arrays) for name in ("formulation", "stabilisation", "chosen")}
    restart = None
    if record.get("restart") is not None:
        data = decode(record["restart"], arrays)
        restart = Restart(**(data | {"mark": Mark(**data["mark"])}))
    phases = None
    if record.get("phases") is not None:
        fields = decode(record["phases"], arrays)
        phases = (ContactPhases if "closed" in fields else Phases)(**fields)
    return Solution(
        system=system,
        **methods,
        **got,
        status_code=np.asarray(Status(record["status"]).value),
        stats=dict(record["stats"]),
        dense=None,
        integrator=str(record["integrator"]),
        restart=restart,
        phases=phases,
    )


def _without_model(path: Path, data, why: str, *, recorded: bool = True) -> RecordedRun:
    found = RecordedRun(path, data, why, recorded=recorded)
    warn_caller(found.missing, RecordWarning)
    return found
