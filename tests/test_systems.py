"""Systems: parameters by name, the user's own functions, and the equations as the waist states them."""

from __future__ import annotations

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da


def test_parameters_are_named_and_replaced(four_bar):
    names = four_bar.parameters()
    assert float(names["crank.mass"]) == 1.0
    assert names["gravity"].shape == (2,)
    heavier = four_bar.replace({"crank.mass": 1.2, "C.point_i": (1.1, 0.0)})
    assert float(heavier.parameters()["crank.mass"]) == 1.2
    np.testing.assert_array_equal(heavier.parameters()["C.point_i"], [1.1, 0.0])
    assert float(four_bar.parameters()["crank.mass"]) == 1.0  # the old one is untouched
    e = da.assemble(heavier, 0.0, heavier.q0, heavier.v0)
    assert float(e.M[0, 0]) == 1.2
    assert jax.jit(lambda m: four_bar.replace({"crank.mass": m}).masses[0])(3.0) == 3.0


def test_unknown_or_misshapen_parameter(four_bar):
    with pytest.raises(da.errors.DalembertError, match=r"no parameter 'crank.mas'. Did you mean 'crank.mass'"):
        four_bar.replace({"crank.mas": 1.0})
    with pytest.raises(da.errors.DalembertError, match=r"'A.point_i' .* has shape \(2,\); got \(3,\)"):
        four_bar.replace({"A.point_i": (1.0, 2.0, 3.0)})
    for name in ("crank.mass", "crank.inertia"):
        with pytest.raises(
            da.errors.DalembertError, match=f"'{name}' of system 'four-bar' must be greater than zero, not -1"
        ):
            four_bar.replace({name: -1.2})
    bricard = da.build(da.mechanism("bricard"))
    name = f"{bricard.body_names[0]}.inertia"
    with pytest.raises(da.errors.DalembertError, match=f"'{name}' of system 'bricard' must be positive definite"):
        bricard.replace({name: np.diag([1.0, -1.0, 1.0])})


def test_force_parameters_and_driver_parameters():
    system = da.build(da.mechanism("slider-crank"))
    names = system.parameters()
    assert {"buffer.stiffness", "buffer.damping", "buffer.length", "motor.speed"} <= set(names)
    faster = system.replace({"motor.speed": 1.0})
    b = da.assemble(faster, 0.0, faster.q0, faster.v0).b
    assert float(b[-1]) == -1.0  # the driver's row: ∂Φ/∂t = −speed


def double_pendulum_functions(with_parameters: bool):
    """Two uniform rods in their two absolute angles; M and h written down by hand (Lagrange)."""
    m, L, g = 1.0, 1.0, 9.81

    def numbers(p):
        return (p["m"], p["L"]) if with_parameters else (m, L)

    def mass(t, q, *p):
        m, L = numbers(*p) if p else numbers(None)
        c = 0.5 * m * L**2 * jnp.cos(q[0] - q[1])
        return jnp.array([[4 / 3 * m * L**2, c], [c, m * L**2 / 3]])

    def force(t, q, v, *p):
        m, L = numbers(*p) if p else numbers(None)
        s = 0.5 * m * L**2 * jnp.sin(q[0] - q[1])
        weight = m * g * L * jnp.stack([1.5 * jnp.cos(q[0]), 0.5 * jnp.cos(q[1])])
        return jnp.stack([-s * v[1] ** 2, s * v[0] ** 2]) - weight

    def potential(t, q, *p):
        m, L = numbers(*p) if p else numbers(None)
        return m * g * L * (1.5 * jnp.sin(q[0]) + 0.5 * jnp.sin(q[1]))

    return mass, force, potential


def test_function_system_moves_like_the_model():
    """The same double pendulum by hand in two angles and as two bodies with pins: the same motion."""
    mass, force, potential = double_pendulum_functions(True)
    start = [0.0, -np.pi / 2]
    by_hand = da.FunctionSystem(mass, force, q0=start, potential=potential, parameters={"m": 1.0, "L": 1.0})
    options = {"rtol": 1e-10, "integrator": "dopri8", "samples": 11}
    ours = da.simulate(by_hand, 2.0, **options)
    bodies = da.simulate(da.mechanism("double-pendulum"), 2.0, **options)
    angles = bodies.dataset["angle"].values
    np.testing.assert_allclose(ours.q, angles, atol=1e-7)  # both to rtol 1e-10, a mildly sensitive motion
    assert ours.energy_drift < 1e-8
    lighter = da.simulate(by_hand.replace({"m": 0.5}), 2.0, **options)
    np.testing.assert_allclose(lighter.q, ours.q, atol=1e-7)  # a pendulum's motion does not know its mass


def test_function_system_without_parameters_and_with_constraints():
    """A bead on a unit circle in two Cartesian coordinates with a turning frame: rheonomic, rows under names."""
    system = da.FunctionSystem(
        lambda t, q: jnp.eye(2),
        lambda t, q, v: jnp.zeros(2),
        q0=[1.0, 0.0],
        v0=[0.0, 0.3],
        position=lambda t, q: jnp.stack([q[0] * jnp.sin(t) - q[1] * jnp.cos(t)]),
        joints={"spoke": 1},
        name="bead on a turning spoke",
    )
    solution = da.simulate(system, 1.0, samples=3)
    # r̈ = r for a bead on a spoke turning at 1 rad/s: r = cosh t + ṙ₀ sinh t; the start velocity along the spoke is 0
    t = np.asarray(solution.t)
    np.testing.assert_allclose(np.hypot(*np.asarray(solution.q).T), np.cosh(t), rtol=1e-7)
    # work of the driver = 2 ∫ r ṙ … = kinetic energy gained
    assert solution.energy_drift < 1e-7
    assert [o.name for o in system.owners] == ["spoke"]
    assert list(solution.dataset["row_owner"].values) == ["spoke"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"joints": {"A": 3}}, "add up to 3 rows"),
        ({"v0": [0.0]}, "give qdot"),
        ({"position": lambda t, q: q[0]}, "must be vectors"),
        ({"position": lambda t, q: q[:1] if t > 1 else q[1:]}, r"position\(t, q\) fails: it decides by a value"),
        ({"motion": lambda t, q, v: np.sin(v[:1])}, r"motion\(t, q, v\) fails: it asks for the value"),
        ({"potential": lambda t, q: math.sin(q[0])}, r"potential\(t, q\) fails: it asks for the value"),
        ({"potential": lambda t, q: q}, r"potential\(t, q\) must have shape \(\)"),
        ({"qdot": lambda q, v: jnp.zeros(3)}, r"qdot\(q, v\) must have shape \(2,\)"),
        (
            {
                "points": [da.systems.ConstrainedPoint("A", lambda q: q[:1], lambda t, x: x * float(t))],
                "position": None,
            },
            "fails: it asks",
        ),
    ],
)
def test_function_system_refuses_with_a_sentence(change, sentence):
    given = {"q0": [1.0, 0.0], "position": lambda t, q: q[:1]} | change
    with pytest.raises(da.errors.DalembertError, match=sentence):
        da.FunctionSystem(lambda t, q: jnp.eye(2), lambda t, q, v: jnp.zeros(2), **given)
    with pytest.raises(da.errors.DalembertError, match=r"mass\(t, q\) must have shape"):
        da.FunctionSystem(lambda t, q: jnp.eye(3), lambda t, q, v: jnp.zeros(2), q0=[1.0, 0.0])


def test_check_counts():
    """Two doors, spatial four-bar, Bricard: ranks from geometry (references: IFToMM A04; textbook counts)."""
    expected = {
        "four-bar": (9, 8, 8, 0, 1),
        "slider-crank": (9, 9, 9, 0, 0),
        "door-two-balls": (6, 6, 5, 1, 1),
        "door-two-hinges": (6, 10, 5, 5, 1),
        "spatial-four-bar": (18, 20, 17, 3, 1),
        "bricard": (30, 30, 29, 1, 1),
        "mobile-robot": (21, 22, 20, 2, 1),
    }
    for name, (n, m, rank, redundancy, mobility) in expected.items():
        found = da.check(da.mechanism(name), reactions=False)
        assert (found.n, found.m, found.rank, found.redundancy, found.mobility) == (n, m, rank, redundancy, mobility)
        assert found.gruebler == n - m and not found.singular


def test_check_tells_a_singular_pose_from_redundancy():
    """The N-four-bar laid in line has a lower rank only there."""
    model = da.Model("in line")
    rocker = model.body("left", mass=1.0, inertia=0.1, position=(0.5, 0))
    coupler = model.body("coupler", mass=1.0, inertia=0.1, position=(1.5, 0))
    right = model.body("right", mass=1.0, inertia=0.1, position=(1.5, 0))
    model.revolute("A", model.ground, rocker, at=(0, 0))
    model.revolute("B", rocker, coupler, at=(1, 0))
    model.revolute("C", coupler, right, at=(2, 0))
    model.revolute("D", model.ground, right, at=(1, 0))
    found = da.check(model)
    assert found.singular and found.rank_here == 7 and found.rank == 8 and found.redundancy == 0
    assert "singular" in str(found)


def test_a_sparse_system_survives_pickling():
    """A KLU handle means nothing elsewhere; it is made anew."""
    system = da.build(da.mechanism("n-four-bar", N=40))
    assert system.klu is not None
    copy = pickle.loads(pickle.dumps(system.klu))
    assert copy.pattern == system.klu.pattern


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("pin.frame_j", 2 * np.eye(3), "a rotation"),
        ("pin.frame_i", np.diag([1.0, 1.0, -1.0]), "a rotation"),
        ("rod.inertia", [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "symmetric"),
    ],
)
def test_a_matrix_that_nothing_can_have_is_refused(name, value, words):
    model = da.Model("spin", space="space")
    rod = model.body("rod", mass=1.0, inertia=(1.0, 1.0, 1.0))
    model.revolute("pin", model.ground, rod, at=(0, 0, 0), axis=(0, 0, 1))
    with pytest.raises(da.errors.DalembertError, match=f"'{name}' of system 'spin' must be {words}"):
        da.build(model).replace({name: value})
