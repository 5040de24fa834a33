"""Turns of a joint: in space they are not counted, and what asks for them is refused or stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from _helpers_thorough import everyday

import dalembert as da

WOUND = {
    "spring": (10.0, lambda m: m.joint_spring("law", "p", stiffness=0.5), math.pi),
    "stop": (3.0, lambda m: m.stop("law", "p", stiffness=1000.0, upper=4.0, lower=-1.0), math.pi),
    "formula": (3.0, lambda m: m.joint_force("law", "p", "0.1 * value"), math.pi),
    "bushing": (
        10.0,
        lambda m: m.bushing("law", m.ground, "b", at=(0, 0, 0), stiffness=(9, 9, 9, 1, 1, 0.5)),
        math.pi,
    ),
}
NOT_WOUND = {
    "damper": lambda m: m.joint_spring("law", "p", damping=0.01, free=5.0),
    "rate": lambda m: m.joint_force("law", "p", "-0.01 * rate"),
    "speed": lambda m: m.pd_control("law", "p", "10 * t + 7", stiffness=0.0, damping=1.0),
    "periodic": lambda m: m.joint_force("law", "p", "0.1 * sin(value)"),
    "followed": lambda m: m.pd_control("law", "p", "10 * t", stiffness=5.0, damping=1.0),
}


def rotor(space: str, speed: float = 0.0) -> da.Model:
    model = da.Model("rotor", space=space, gravity=(0, 0) if space == "plane" else (0, 0, 0))
    d = 2 if space == "plane" else 3
    turning = (0.5, speed) if d == 2 else ((0.5, 0.5, 0.5), (0.0, 0.0, speed))
    body = model.body("b", mass=1.0, inertia=turning[0], position=(0.0,) * d, angular_velocity=turning[1])
    axis = {} if d == 2 else {"axis": (0, 0, 1)}
    model.revolute("p", model.ground, body, at=(0.0,) * d, **axis)
    return model


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("word", everyday(WOUND, ("spring", "formula")))
def test_a_law_on_an_angle_stops_at_half_a_turn_in_space(word, coordinates):
    """What is wound past half a turn would act over the shorter way: the run ends there, and names the law."""
    speed, add, limit = WOUND[word]
    model = rotor("space", speed)
    add(model)
    with pytest.raises(da.errors.SimulationError, match=r"half a turn .* The law is 'law'\."):
        da.simulate(da.build(model, coordinates=coordinates), 2.0, samples=3)
    ended = da.simulate(da.build(model, coordinates=coordinates), 2.0, samples="steps", throw=False)
    assert ended.status is da.simulation.Status.wound
    turned = np.unwrap(ended.dataset["coordinate"].sel(joint_coordinate="p.angle").values)
    assert limit - 1.5 < turned[-1] < limit + 1.5  # within a step of it


@pytest.mark.parametrize("word", NOT_WOUND)
def test_laws_that_repeat_after_a_turn_go_on(word):
    model = rotor("space", 10.0)
    NOT_WOUND[word](model)
    assert da.simulate(model, 1.0, samples=3).status is da.simulation.Status.done


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize("add", [
    lambda m, away: m.joint_spring("law", "p", stiffness=0.5, free=away),
    lambda m, away: m.pd_control("law", "p", f"{away} + t", stiffness=0.5, damping=0.1),
])  # fmt: skip
def test_a_law_more_than_half_a_turn_away_is_refused_in_space(add, coordinates):
    """free=5 is 5 rad in the plane; in space it would be 5 − 2π."""
    for space, away in (("plane", 5.0), ("space", 3.0)):
        model = rotor(space)
        add(model, away)
        da.build(model, coordinates=coordinates)
    model = rotor("space")
    add(model, 5.0)
    with pytest.raises(da.errors.ModelError, match=r"'law' starts 5 rad away .* half a turn"):
        da.build(model, coordinates=coordinates)
