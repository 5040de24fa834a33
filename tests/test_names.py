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
from dalembert.equations import assemble_known
from dalembert.systems import _names, compiled, geometry


class Compilations:
    """How many programs JAX has compiled, or fetched from its cache."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, duration: float, **_):
        self.count += event == "/jax/core/compile/backend_compile_duration"


compilations = Compilations()


@pytest.fixture(autouse=True)
def nothing_is_forgotten(monkeypatch):
    """Programs are counted here: none may be forgotten in between, whatever ran before in this process."""
    monkeypatch.setattr(_names, "KEPT", 100_000)


def sled(tag: str, *, swap: bool = False, rubs: bool = True) -> da.Model:
    """A sled on two parallel slides, a pendulum on it; `swap` gives each slide the other's name."""
    m = da.Model(f"machine_{tag}", space="plane", gravity=(0, -9.81))
    body = m.body(f"sled_{tag}", mass=2.0, inertia=0.2, position=(0.0, 0.0), velocity=(1.0, 0.0))
    bob = m.body(f"bob_{tag}", mass=1.0, inertia=0.1, position=(0.3, -0.5), velocity=(1.0, 0.0))
    left, right = (f"left_{tag}", f"right_{tag}")[:: -1 if swap else 1]
    m.prismatic(left, m.ground, body, at=(-0.4, 0.0), axis=(1, 0))
    m.prismatic(right, m.ground, body, at=(0.4, 0.0), axis=(1, 0))
    m.revolute(f"pin_{tag}", body, bob, at=(0.3, 0.0))
    m.force_law(f"pull_{tag}", [body], [{"force": [f"-5*sled_{tag}.x", 0], "torque": 0}])
    if rubs:
        m.bearing_friction(f"rub_{tag}", left, coulomb=0.2, length=0.1, rule="weighted")
    m.shape(f"look_{tag}", body, "box", size=(1.0, 0.2))
    return m


def names_of(tag: str) -> dict[str, list[str]]:
    return {
        "body": [f"sled_{tag}", f"bob_{tag}"],
        "joint": [f"left_{tag}", f"right_{tag}", f"pin_{tag}"],
    }


def asked(model: da.Model, tag: str, coordinates: str):
    """Everything that names something: a motion, its data and reactions, a check, warnings."""
    system = da.build(model, coordinates=coordinates)
    with pytest.warns(da.errors.RedundancyWarning, match=f"machine_{tag}") as told:
        solution = da.simulate(system, 0.1, **SETTINGS)
        data = solution.dataset
        reactions = {joint: solution.reactions(joint) for joint in names_of(tag)["joint"]}
    assert not [w for w in told if "\0" in str(w.message)]
    return system, solution, data, reactions, da.check(system)


SETTINGS = {"samples": 3, "integrator": "tsit5", "rtol": 1e-6}


@pytest.mark.parametrize("coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)])
def test_another_name_compiles_nothing_and_every_label_is_its_own(coordinates):
    made = {}
    tags = ["one", "two", "three", "four", "five"]
    for k, tag in enumerate(tags):
        before = compilations.count
        made[tag] = asked(sled(tag, rubs=coordinates == "absolute"), tag, coordinates)
        if k:
            assert compilations.count == before, "a name was compiled"
    # looked at only now: what is named must not depend on who came last
    for tag in tags:
        system, solution, data, reactions, found = made[tag]
        assert solution.system.name == system.name == found.name == f"machine_{tag}"
        for what, names in names_of(tag).items():
            assert list(data[what].values) == names
        assert all(tag in str(n) for what in ("joint_coordinate", "row_owner") for n in data[what].values)
        assert f"sled_{tag}.mass" in solution.system.parameters()
        assert {s["kind"] for b in geometry(solution.system)["bodies"] for s in b.get("shapes", ())} == {"box"}
        assert f"left_{tag}" in str(found) and "\0" not in str(found) + str(data.coords)
        assert not any(f"_{other}" in str(found) + str(data.coords) for other in set(tags) - {tag})
        np.testing.assert_array_equal(np.asarray(solution.q), np.asarray(made["one"][1].q))
        for own, first in zip(reactions.values(), made["one"][3].values(), strict=True):
            np.testing.assert_array_equal(own["force"], first["force"])


def test_a_rule_by_joints_names_follows_the_names():
    # the same structure and the same words, but each slide has the other's name
    plain, swapped = (da.simulate(sled("a", swap=swap), 0.1, **SETTINGS) for swap in (False, True))
    soft, stiff = np.asarray(1e3), np.asarray(9e3)
    rule = da.reactions.Weighted(stiffness={"left_a": soft, "right_a": stiff, "pin_a": soft})
    mirrored = da.reactions.Weighted(stiffness={"left_a": stiff, "right_a": soft, "pin_a": soft})
    with pytest.warns(da.errors.RedundancyWarning):
        first = plain.with_rule(rule).reactions("left_a")["torque"].values
        before = compilations.count
        same_place = swapped.with_rule(rule).reactions("right_a")["torque"].values
        assert compilations.count == before
        expected = plain.with_rule(mirrored).reactions("left_a")["torque"].values
    np.testing.assert_array_equal(same_place, expected)
    assert np.max(np.abs(first - same_place)) > 0.1 * np.max(np.abs(first))


class Loaded(da.reactions.AbstractReactionRule):
    """A person's own rule, which asks for a joint by its name: λ is 1 on its rows."""

    def multipliers(self, system, equations, r):
        rows = [row for o in system.owners if o.name == "left_b" for row in o.rows]
        return jnp.zeros(system.m).at[jnp.array(rows, int)].set(1.0)

    def describe(self, system):
        return "one"


def test_a_persons_own_rule_sees_names():
    solution = da.simulate(sled("b"), 0.1, **SETTINGS).with_rule(Loaded())
    with pytest.warns(da.errors.RedundancyWarning):
        np.testing.assert_array_equal(solution.multipliers, [[1.0, 1.0, 0, 0, 0, 0]] * 3)


def test_mistakes_found_while_tracing_are_told_with_the_names():
    for tag in ("a", "b"):
        system = da.build(sled(tag))
        with pytest.raises(da.errors.DalembertError, match=f"Friction 'rub_{tag}' depends"):
            compiled(lambda s: da.assemble(s, 0.0, s.q0, s.v0).C)(system)
        equations = assemble_known(system, 0.0, system.q0, system.v0)
        wrong = da.reactions.Weighted(stiffness={f"left_{tag}": {"Q": 1.0}, "*": 1.0})
        with pytest.raises(da.errors.DalembertError, match=f"Stiffness of 'left_{tag}': Q is unknown"):
            wrong.prepare(system, equations)


def test_no_system_comes_out_of_a_compiled_function():
    with pytest.raises(TypeError, match="returned a AbsoluteSystem"):
        compiled(lambda system: system)(da.build(sled("a")))


def test_functions_of_a_persons_own_are_not_taken_for_each_other():
    def of(force, name):
        return da.FunctionSystem(
            unit_mass,
            force,
            q0=[1.0, 0.5],
            points=[da.systems.ConstrainedPoint(f"rail_{name}", across, held)],
            name=name,
        )

    found = [_force(of(force, name)) for force, name in ((pull, "x"), (pull, "y"), (push, "y"))]
    np.testing.assert_array_equal(found, [[-1.0, -0.5], [-1.0, -0.5], [1.0, 0.5]])
    system = of(push, "z")
    before = compilations.count
    assert _force(system) == [1.0, 0.5] and compilations.count == before
    assert system.owners[0].name == "rail_z"


def _force(system) -> list[float]:
    return np.asarray(da.assemble(system, 0.0, system.q0, system.v0).h).tolist()


def unit_mass(t, q):
    return jnp.eye(2)


def pull(t, q, v):
    return -q


def push(t, q, v):
    return +q


def across(q):
    return q[1:]


def held(t, x):
    return x - 0.5


def test_a_persons_own_jit_sees_names():
    heavier = eqx.filter_jit(lambda system: system.replace({"sled_a.mass": 7.0}).masses)
    masses = [np.asarray(heavier(da.build(m))) for m in (sled("a"), _renamed_bodies())]
    np.testing.assert_array_equal(masses, [[7.0, 1.0], [2.0, 7.0]])


def _renamed_bodies() -> da.Model:
    """Two bodies as in a sled, under each other's names."""
    m = da.Model("bodies", space="plane")
    m.body("bob_a", mass=2.0, inertia=0.2)
    m.body("sled_a", mass=1.0, inertia=0.1)
    return m


def test_programs_do_not_pile_up(monkeypatch):
    """A process that asks about ever more structures forgets old programs (60 MB a structure otherwise, for ever)."""
    monkeypatch.setattr(_names, "KEPT", 3)
    double = compiled(lambda x: 2.0 * x)
    for n in range(1, 9):
        assert double(jnp.ones(n)).shape == (n,)
        assert sum(c._cache_size() for c in _names._PROGRAMS.values()) <= 4
