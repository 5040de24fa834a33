"""Names never compile anything, and never come back wrong: machines of one structure share their compiled programs.

One sled of every sort of name (bodies, joints, forces, a formula over bodies, friction by a joint's load, a rule by
joints' names, a picture) in absolute and in joint coordinates; it is redundant, so uniqueness is named as well.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert._runtime import compile_stopwatch
from dalembert.systems import compiled


def sled(tag: str, *, swap: bool = False, rule: str | None = "weighted", arm: float = 0.5) -> da.Model:
    """A sled on two parallel slides, a pendulum on it; `swap` gives each slide the other's name."""
    m = da.Model(f"machine_{tag}", space="plane", gravity=(0, -9.81))
    body = m.body(f"sled_{tag}", mass=2.0, inertia=0.2, position=(0.0, 0.0), velocity=(1.0, 0.0))
    bob = m.body(f"bob_{tag}", mass=1.0, inertia=0.1, position=(0.3, -arm), velocity=(1.0, 0.0))
    left, right = (f"left_{tag}", f"right_{tag}")[:: -1 if swap else 1]
    m.prismatic(left, m.ground, body, at=(-0.4, 0.0), axis=(1, 0))
    m.prismatic(right, m.ground, body, at=(0.4, 0.0), axis=(1, 0))
    m.revolute(f"pin_{tag}", body, bob, at=(0.3, 0.0))
    m.force_law(f"pull_{tag}", [body], [{"force": [f"-5*sled_{tag}.x", 0], "torque": 0}])
    m.bearing_friction(f"rub_{tag}", left, coulomb=0.2, length=0.1, rule=rule)
    m.shape(f"look_{tag}", body, "box", size=(1.0, 0.2, 0.2))
    return m


def names_of(tag: str) -> dict[str, list[str]]:
    return {
        "body": [f"sled_{tag}", f"bob_{tag}"],
        "joint": [f"left_{tag}", f"right_{tag}", f"pin_{tag}"],
    }


def asked(model: da.Model, tag: str, coordinates: str, settings: dict):
    """Everything that names something: a motion, its data and reactions, a check, warnings."""
    system = da.build(model, coordinates=coordinates)
    with pytest.warns(da.RedundancyWarning, match=rf"left_{tag}") as told:
        solution = da.simulate(system, 0.1, **settings)
        data = solution.dataset
        reactions = {joint: solution.reactions(joint) for joint in names_of(tag)["joint"]}
    assert not [w for w in told if "\0" in str(w.message)]
    return system, solution, data, reactions, da.check(system)


SETTINGS = {"save": 3, "integrator": "tsit5", "rtol": 1e-6}


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_another_name_compiles_nothing_and_every_label_is_its_own(coordinates):
    made = {}
    tags = ["one", "two", "three", "four", "five"]
    for k, tag in enumerate(tags):
        before = compile_stopwatch.seconds
        made[tag] = asked(sled(tag), tag, coordinates, SETTINGS)
        if k:
            assert compile_stopwatch.seconds == before, "a name was traced or compiled"
    # asked for again, and only now: what is named must not depend on who came last
    for tag in tags:
        system, solution, data, reactions, found = made[tag]
        before = compile_stopwatch.seconds
        assert solution.system.name == system.name == f"machine_{tag}"
        for what, names in names_of(tag).items():
            assert list(data[what].values) == names
        assert all(tag in str(n) for n in (*data["joint_coordinate"].values, *data["row"].values))
        assert f"look_{tag}" or data.attrs  # the picture is the body's own
        assert {k.rpartition(".")[0] for k in solution.system.parameters()} - {""} >= {f"sled_{tag}", f"pull_{tag}"} - {
            f"pull_{tag}"
        }
        assert f"machine_{tag}" == found.name and f"left_{tag}" in str(found) and "\0" not in str(found)
        for other in set(tags) - {tag}:
            assert f"_{other}" not in str(found) and f"_{other}" not in str(data)
        assert solution.at(0.05).q.shape == solution.q[0].shape if hasattr(solution, "at") else True
        np.testing.assert_array_equal(np.asarray(solution.q), np.asarray(made["one"][1].q))
        for own, first in zip(reactions.values(), made["one"][3].values(), strict=True):
            np.testing.assert_array_equal(own["force"], first["force"])
        assert compile_stopwatch.seconds == before
