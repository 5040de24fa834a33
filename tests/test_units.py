"""Nothing depends on units: every built-in mechanism in metres and kilograms, and in millimetres and grams."""

from __future__ import annotations

import dataclasses
import functools
import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert.mechanisms import find, mechanisms

LENGTH, MASS = 1e3, 1e3  # mm in a metre, g in a kilogram; seconds stay
FORCE = MASS * LENGTH  # g mm/s² in a newton
TORQUE = ENERGY = FORCE * LENGTH
INERTIA = MASS * LENGTH**2

# parameters of drivers that are lengths, by mechanism; all others are times, angles or angular speeds
DRIVEN_LENGTHS = {"mobile-robot": {"drive": {"reach", "offset"}}}
KNOWN_DRIVERS = {"slider-crank": {"motor": {"speed"}}, "mobile-robot": {"drive": {"reach", "offset", "begin", "back", "length"}}}

# how long and how: the conversion changes the last digits of all numbers, which no short motion amplifies much
SHORT = {"andrews": 0.003, "governor": 0.05}
SMALL = {"chain": {"N": 3}, "chain-in-space": {"N": 2}}
# both runs do the same arithmetic on numbers that differ by rounding (1e-16 relative, 1e-13 after a few hundred steps
# and a projection each); 1e-9 of the largest value is far above that and far below any dependence on units
SAME = 1e-9


# ---- the conversion ------------------------------------------------------------------------------------------------


def converted(model):
    """The same machine in millimetres and grams: every number scaled by its dimension."""
    out = da.Model(model.name, space=model.space, gravity=model.gravity * LENGTH)
    bodies = {"ground": out.ground}
    for b in model.bodies.values():
        bodies[b.name] = out.bodies[b.name] = dataclasses.replace(
            b,
            mass=b.mass * MASS,
            inertia=b.inertia * INERTIA,
            position=b.position * LENGTH,
            velocity=b.velocity * LENGTH,
        )

    def marker(m):
        return dataclasses.replace(m, body=bodies[m.body.name], position=m.position * LENGTH)

    for kind, numbers in ((model.constraints, constraint_numbers), (model.forces, force_numbers)):
        target = out.constraints if kind is model.constraints else out.forces
        for item in kind.values():
            scaled = {k: x * numbers(model.name, item)[k] for k, x in item.numbers.items()}
            target[item.name] = dataclasses.replace(item, markers=tuple(map(marker, item.markers)), numbers=scaled)
    return out


def constraint_numbers(model_name, c):
    """The factor of each number of a constraint."""
    if c.kind in ("distance", "rolling_disc"):
        return {"length": LENGTH, "radius": LENGTH}
    if c.kind.startswith("driver:"):
        assert set(c.numbers) <= KNOWN_DRIVERS[model_name][c.name], "say here which of its parameters are lengths"
        lengths = DRIVEN_LENGTHS.get(model_name, {}).get(c.name, set())
        return {k: LENGTH if k in lengths else 1.0 for k in c.numbers}
    assert not c.numbers, f"say here how the numbers of {c.kind} scale"
    return {}


def force_numbers(model_name, f):
    """The factor of each number of a force."""
    if f.kind == "spring_damper":
        return {"stiffness": FORCE / LENGTH, "damping": FORCE / LENGTH, "length": LENGTH}
    if f.kind.startswith("joint_spring:"):
        angle = f.kind.rsplit(":", 1)[1].startswith("angle")
        size = TORQUE if angle else FORCE / LENGTH
        return {"stiffness": size, "damping": size, "free": 1.0 if angle else LENGTH}
    return {"value": {"force": FORCE, "torque": TORQUE}[f.kind.split(":")[0]]}


FACTORS = {
    "position": LENGTH, "velocity": LENGTH, "acceleration": LENGTH, "angle": 1.0, "quaternion": 1.0,
    "angular_velocity": 1.0, "angular_acceleration": 1.0, "reaction_force": FORCE, "reaction_torque": TORQUE,
    "reaction_force_in_joint": FORCE, "reaction_torque_in_joint": TORQUE, "energy_kinetic": ENERGY,
    "energy_potential": ENERGY, "energy_total": ENERGY, "work": ENERGY, "work_of_constraints": ENERGY,
}  # fmt: skip


# ---- the runs ------------------------------------------------------------------------------------------------------


@functools.cache
def both(name: str):
    """The mechanism and its motion in SI units, and in millimetres and grams, with the same settings."""
    entry = find(name)
    model = da.mechanism(name, **SMALL.get(name, {}))
    out = []
    for m in (model, converted(model)):
        system = da.build(m)
        out.append((m, system, da.simulate(system, SHORT.get(name, 0.3), save=5, **entry.run)))
    return out


def scales(data):
    """The largest force, torque and so on of a run: a component that is zero has no size of its own."""
    lever = max(float(np.ptp(data["position"].values)), 1e-3)
    force = float(np.abs(data["reaction_force"]).max()) if "reaction_force" in data else 0.0
    torque = float(np.abs(data["reaction_torque"]).max()) if "reaction_torque" in data else 0.0
    energy = max(float(np.abs(data[k]).max()) for k in ("energy_kinetic", "energy_potential"))
    both = {"reaction_force": max(force, torque / lever), "reaction_torque": max(torque, force * lever)}
    both |= {f"{k}_in_joint": x for k, x in both.items()}
    return both | {k: energy for k in FACTORS if FACTORS[k] == ENERGY and k not in both}


@pytest.mark.parametrize("name", sorted(mechanisms()))
def test_motion_reactions_and_energy_do_not_depend_on_units(name):
    """Positions, velocities, accelerations, reactions (redundant ones under their rule), energies; same steps."""
    (_, _, si), (_, _, mm) = both(name)
    assert si.status is mm.status is da.Status.done
    for key in ("accepted", "rejected"):
        assert int(si.stats[key]) == int(mm.stats[key]), key
    assert si.redundancy == mm.redundancy and type(si.rule) is type(mm.rule)
    typical = scales(si.dataset)
    gaps = {}
    for key, factor in FACTORS.items():
        if key in si.dataset:
            a, b = si.dataset[key].values, mm.dataset[key].values / factor
            size = max(np.max(np.abs(a)), typical.get(key, 0.0), np.finfo(float).tiny)
            gaps[key] = float(np.max(np.abs(a - b)) / size)
    print(name, {k: f"{x:.0e}" for k, x in gaps.items()}, int(si.stats["steps"]))
    assert max(gaps.values()) < SAME, gaps


@pytest.mark.parametrize("name", sorted(mechanisms()))
def test_check_does_not_depend_on_units(name):
    """Ranks, redundancy, mobility, and the singular values they are read from."""
    first, second = (da.check(system) for _, system, _ in both(name))
    same = ("n", "m", "holonomic", "rank", "rank_here", "redundancy", "mobility", "gruebler", "singular", "joints")
    for field in same:
        assert getattr(first, field) == getattr(second, field), field
    # singular values of rows measured in the mass metric are pure numbers up to about 2
    assert np.max(np.abs(first.singular_values - second.singular_values), initial=0.0) < SAME


def test_conversion_is_a_conversion():
    """One kilogram, one metre and one newton, by hand."""
    model = da.mechanism("slider-crank")
    mm = converted(model)
    assert mm.bodies["slider"].mass == 2000.0 and np.allclose(mm.bodies["slider"].position, [1700, 0])
    # 200 N/m = 0.2 N/mm = 0.2e6 g/s²; 0.02 kg m² = 0.02e9 g mm²
    assert abs(mm.forces["buffer"].numbers["stiffness"] - 0.2e6) < 1e-6
    assert abs(mm.bodies["slider"].inertia[0] - 2e7) < 1e-3 and np.allclose(mm.gravity, [0, -9810])


# ---- why a rule needs a length: the door on two hinges -------------------------------------------------------------


def plain_minimum_norm(system):
    """Fx of the top hinge (its first row is a force along x) by np.linalg.lstsq of Cᵀλ = r, in the given units."""
    q, v = system.q0, system.v0
    e = da.assemble(system, 0.0, q, v)
    C, r = np.asarray(e.C), -np.asarray(e.h)  # the door is at rest and stays so: r = M v̇ − h = −h
    lam = np.linalg.lstsq(C.T, r, rcond=None)[0]
    assert np.allclose(C.T @ lam, r, atol=1e-9 * np.max(np.abs(r)))
    top = next(o.rows for o in system.owners if o.name == "top")
    # the joint's x and y axes lie across the hinge line; the force is along one of them
    return np.max(np.abs(lam[list(top[:2])]))


def test_a_plain_minimum_norm_depends_on_the_unit_of_length_and_ours_does_not():
    """Two hinges share 1.5a + 2τ = 49.05 N m with a² + τ² least, whatever the unit of τ: a = 0.375 · 49.05/(0.5625 + ℓ²)
    for a unit of length ℓ: 11.77 N for a metre and 32.70 N for a millimetre (the reference numbers of this door)."""
    model = da.mechanism("door-two-hinges", swing=0.0)
    systems = [da.build(m) for m in (model, converted(model))]
    metre, millimetre = plain_minimum_norm(systems[0]), plain_minimum_norm(systems[1]) / FORCE
    assert abs(metre - 11.77) < 0.005 and abs(millimetre - 32.70) < 0.005  # the digits that the reference prints
    assert abs(metre - 0.375 * 49.05 / (0.5625 + 1)) < 1e-9
    ours = []
    for system, factor in zip(systems, (1.0, FORCE), strict=True):
        solution = da.simulate(system, 0.3, save=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", da.RedundancyWarning)
            ours.append(solution.reactions("top")["force"].values / factor)
    assert np.max(np.abs(ours[0] - ours[1])) < SAME * 98.1
    assert np.max(np.abs(ours[0][:, 0])) < metre - 1  # and it is neither of the two
