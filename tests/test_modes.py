"""Linear models: A, B, C, D against differences and motions, modes against closed forms, derivatives by parameters."""

from __future__ import annotations

import functools
import json
import math
import sys

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from _helpers_cli import in_process

import dalembert as da

G = 9.81
BOTH = pytest.mark.parametrize("coordinates", ["absolute", "joint"])

USUALLY_ABSOLUTE = pytest.mark.parametrize(
    "coordinates", ["absolute", pytest.param("joint", marks=pytest.mark.thorough)]
)


def hung() -> da.Model:
    """Gasch, Knothe (1987): Strukturdynamik 1, section 7.4.6: a body on two inextensible rods."""
    a, mass = 1.75, 8.8
    model = da.Model("hung", space="space", gravity=(0, 0, -G))
    body = model.body("body", mass=mass, inertia=(2 / 3 * mass * a**2,) * 3)
    for name, s in (("right", 1), ("left", -1)):
        model.distance(name, model.ground, body, at_i=(3 * s * a, 0, 3 * a), at_j=(s * a, 0, a))
    return model


@BOTH
def test_a_body_on_two_rods_has_the_published_frequencies(coordinates):
    """The published digits are 12: 1e-12 Hz."""
    lin = da.linearise(da.build(hung(), coordinates=coordinates))
    np.testing.assert_allclose(
        lin.frequencies, [0.208787487242, 0.565232167969, 0.588975712319, 0.799358997831], atol=1e-12
    )
    # exact pairs, rising
    assert np.all(lin.eigenvalues.real == 0.0)
    np.testing.assert_array_equal(lin.eigenvalues[0::2], lin.eigenvalues[1::2].conj())
    assert [m.damping_ratio for m in lin.modes] == [0.0] * 4
    for mode in lin.modes:  # by symmetry
        assert mode.kinetic == {"body": 1.0}
        assert mode.potential == pytest.approx({"left": 0.5, "right": 0.5}, abs=1e-12)


@BOTH
def test_steady_precession_of_a_top(coordinates):
    """ν² = V″/A about the steady lean: V″ = a²/A − 3aΩc + AΩ²s² + 3AΩ²c² − mgl c with a = Cω₃ [Goldstein, 5.7]."""
    A0, C, mass, length, theta, rate = 0.02, 0.015, 1.2, 0.15, 0.5, 2.5
    A = A0 + mass * length**2
    s, c = math.sin(theta), math.cos(theta)
    a = (mass * G * length + A * rate**2 * c) / rate
    axis = np.array([s, 0.0, c])
    R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    # ω: Ω about z, and about the axis what makes ω₃ = a/C
    omega = np.array([0, 0, rate]) + (a / C - rate * c) * axis
    model = da.Model("top", space="space", gravity=(0, 0, -G))
    top = model.body(
        "top", mass=mass, inertia=(A0, A0, C), position=length * axis, rotation=R,
        velocity=np.cross(omega, length * axis), angular_velocity=R.T @ omega,
    )  # fmt: skip
    model.spherical("tip", model.ground, top, at=(0, 0, 0))
    lin = da.linearise(da.build(model, coordinates=coordinates))
    np.testing.assert_allclose(lin.turning, [0, 0, rate], atol=1e-9)
    nu = math.sqrt((a**2 / A - 3 * a * rate * c + A * rate**2 * (s**2 + 3 * c**2) - mass * G * length * c) / A)
    assert np.min(np.abs(lin.eigenvalues - 1j * nu)) < 1e-7 * nu  # the state is steady to 1e-9
    with pytest.raises(da.errors.DalembertError, match="turns as a whole"):
        lin.replace({"top.mass": 1.0})


@BOTH
def test_conical_pendulum_and_what_can_be_measured_of_it(coordinates):
    """ν = Ω √(1 + 3 cos² θ) [Goldstein]; its height is an output, its place in fixed axes none."""
    theta, length = 0.6, 1.3
    rate, r = math.sqrt(G / (length * math.cos(theta))), length * math.sin(theta)
    model = da.Model("conical", space="space", gravity=(0, 0, -G))
    place = (r, 0, -length * math.cos(theta))
    bob = model.body("bob", mass=2.0, inertia=(0.1,) * 3, position=place, velocity=(0, rate * r, 0))
    model.distance("rope", model.ground, bob, at_i=(0, 0, 0), at_j=place)
    model.measure("bob_at", "point", bob)
    system = da.build(model, coordinates=coordinates)
    lin = da.linearise(system, outputs=["bob_at.z"])
    expected = rate * math.sqrt(1 + 3 * math.cos(theta) ** 2)
    assert np.min(np.abs(lin.eigenvalues - 1j * expected)) < 1e-9 * expected
    assert np.max(np.abs(lin.C)) > 0.1
    with pytest.raises(da.errors.DalembertError, match="coefficients of output 'bob_at.x' change with time"):
        da.linearise(system, outputs=["bob_at.x"])


# ---- a cart with a pendulum ------------------------------------------------------------------------------------------


def cart(controller: str = "") -> da.Model:
    """A cart on a spring with a damper, and a pendulum at it."""
    model = da.Model("cart", gravity=(0, -G))
    body = model.body("cart", mass=2.0, inertia=1.0)
    slide = model.prismatic("slide", model.ground, body, at=(0, 0), axis=(1, 0))
    model.input("u", unit="N")
    model.joint_force("push", slide, "u")
    model.spring_damper("spring", model.ground, body, at_i=(-1, 0), at_j=(0, 0), stiffness=80.0, damping=1.5)
    bob = model.body("bob", mass=0.5, inertia=0.01, position=(0, -0.8))
    model.revolute("pin", body, bob, at=(0, 0))
    model.measure("tip", "point", bob, at=(0, -1.1))
    model.measure("load", "reaction", "pin", frame="world")
    if controller == "pi":
        law = {"states": {"s": 0.0}, "rates": {"s": "-slide.displacement"}}
        model.controller("pi", outputs={"u": "20*s - 3*slide.displacement_rate"}, **law)
    if controller == "sampled":
        model.controller("pi", sample_rate=100.0, outputs={"u": "-3*slide.displacement_rate"})
    return model


def ball_in_space() -> da.Model:
    """A body on a ball joint, held by two springs, pushed and turned."""
    model = da.Model("hung", space="space", gravity=(0, 0, -G))
    body = model.body("body", mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0.1, 0.05, -0.5))
    model.spherical("ball", model.ground, body, at=(0, 0, 0))
    model.spring_damper(
        "a", model.ground, body, stiffness=80.0, damping=0.7, length=0.3, at_i=(1, 1, 1), at_j=(0.2, 0, 0)
    )
    model.force("push", body, (0, model.input("u", unit="N"), 0), at=(0.1, 0.1, -0.6))
    model.measure("tip", "point", body, at=(0.3, 0.1, -0.9))
    model.measure("load", "reaction", "ball")
    return model


def redundant_door() -> da.Model:
    """A door on two hinges about a leaning line: five rows too many; what its hinges bear is picked by a rule."""
    model = da.Model("door", space="space", gravity=(0, 0, -G))
    axis, arm = np.array([0.6, 0.0, 0.8]), np.array([0.4, 0.0, -0.3])
    leaf = model.body("leaf", mass=3.0, inertia=(0.3, 0.2, 0.25), position=arm)
    for name, k in (("upper", 0.3), ("lower", -0.3)):
        model.revolute(name, model.ground, leaf, at=k * axis, axis=axis)
    model.force("push", leaf, (0, model.input("u", unit="N"), 0), at=arm)
    model.measure("tip", "point", leaf, at=2 * arm)
    model.measure("load", "reaction", "upper", frame="world")
    return model


def disc_on_edge() -> da.Model:
    """A thin disc that stands on the ground on which it rolls: rows on velocities, an unstable rest."""
    model = da.Model("disc", space="space", gravity=(0, 0, -G))
    thin, r = 0.25 * 2.0 * 0.4**2, 0.4
    body = model.body("disc", mass=2.0, inertia=(thin, 2 * thin, thin), position=(0, 0, r))
    model.rolling_disc("contact", model.ground, body, radius=r, axis=(0, 1, 0), normal=(0, 0, 1))
    model.force("push", body, (model.input("u", unit="N"), 0, 0), at=(0.1, 0.2, r + 0.3))
    model.measure("tip", "point", body, at=(0.1, 0.1, 0.6))
    model.measure("load", "reaction", "contact")
    return model


OUTPUTS = ["tip.position", "tip.velocity", "tip.acceleration", "load.Fx", "load.Fy", "pin.angle_acceleration"]
INPUTS = ["pin.angle", "u"]
M = np.array([[2.5, 0.4], [0.4, 0.5 * 0.64 + 0.01]])  # of (x, φ): m₁ + m₂, m₂ l; m₂ l² + J
K = np.diag([80.0, 0.5 * G * 0.8])


@functools.cache
def cart_linear(coordinates: str) -> da.analysis.Linearisation:
    return da.linearise(da.build(cart(), coordinates=coordinates), inputs=INPUTS, outputs=OUTPUTS)


@BOTH
def test_eigenvalues_and_responses_of_the_cart_by_hand(coordinates):
    lin = cart_linear(coordinates)
    damping = np.diag([1.5, 0.0])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, K), -np.linalg.solve(M, damping)]])
    np.testing.assert_allclose(np.sort_complex(lin.eigenvalues), np.sort_complex(np.linalg.eigvals(A)), rtol=1e-12)
    assert lin.inputs == ("effort along pin.angle", "u") and lin.input_units == ("N m", "N")
    f = np.array([0.0, 0.4, 3.0])
    for k, w in enumerate(2 * np.pi * f):
        x = np.linalg.solve(K + 1j * w * damping - w**2 * M, [[0.0, 1.0], [1.0, 0.0]])
        tip = x[0] + 1.1 * x[1]
        expected = [tip, 0 * tip, 1j * w * tip, 0 * tip, -(w**2) * tip, 0 * tip]
        expected += [-0.5 * w**2 * (x[0] + 0.8 * x[1]), 0 * tip, -(w**2) * x[1]]  # the pin bears m₂ a
        found = lin.frequency_response(f).values[:, :, k]
        np.testing.assert_allclose(found, expected, atol=1e-10 * max(np.max(np.abs(expected)), 1.0))
    assert np.max(np.abs(lin.D[4:])) > 0.1  # accelerations and reactions answer at once


def test_energies_of_the_cart_by_hand():
    """Undamped: shares of T and V of the two generalised eigenvectors."""
    model = cart()
    model.replace("spring", damping=0.0)
    lin = da.linearise(model)
    squares, X = np.linalg.eigh(np.linalg.solve(np.linalg.cholesky(M), np.linalg.solve(np.linalg.cholesky(M), K).T))
    np.testing.assert_allclose([(2 * np.pi * m.frequency) ** 2 for m in lin.modes], squares, rtol=1e-12)
    for mode, y in zip(lin.modes, X.T, strict=True):
        x = np.linalg.solve(np.linalg.cholesky(M).T, y)
        T, V = x @ M @ x, x @ K @ x
        assert mode.potential == pytest.approx(
            {"spring": 80 * x[0] ** 2 / V, "pin": K[1, 1] * x[1] ** 2 / V}, abs=1e-11
        )
        assert mode.kinetic == pytest.approx({"cart": 2 * x[0] ** 2 / T, "bob": 1 - 2 * x[0] ** 2 / T}, abs=1e-11)


def found_linear(make, coordinates: str) -> da.analysis.Linearisation:
    if make is cart:
        return cart_linear(coordinates)
    system = da.build(make(), coordinates=coordinates)
    rest = da.equilibrium(system, find="nearest")
    loads = [name for name in system.channels if name.startswith("load")]
    outputs = ["tip.position", "tip.velocity", "tip.acceleration", *loads]
    return da.linearise(system, rest, inputs=["u"], outputs=outputs, rule="minimum_norm")


@pytest.mark.parametrize(
    ("make", "coordinates"),
    [
        (cart, "absolute"),
        (cart, "joint"),
        (ball_in_space, "joint"),
        pytest.param(ball_in_space, "absolute", marks=pytest.mark.thorough),
        (redundant_door, "absolute"),
        (redundant_door, "joint"),
        (disc_on_edge, "absolute"),
        pytest.param(disc_on_edge, "joint", marks=pytest.mark.thorough),
    ],
)
def test_matrices_against_differences(make, coordinates):
    """ẏ and y of states beside it by the full equations: central differences with 1e-5 leave 1e-9."""
    lin = found_linear(make, coordinates)
    system, step = lin.instant.system, 1e-5  # of ball joints the bodies, as the basis has it
    n = system.n
    channels = [k for name in lin.outputs for k in system.channels_named(name)]
    u = lin.inputs.index("u")

    @jax.jit
    def look(x, u):
        d = jnp.asarray(lin.basis) @ x
        q, v = system.retract(jnp.asarray(lin.state.q), d[:n]), jnp.asarray(lin.state.v) + d[n:]
        at = da.assemble(system.with_inputs({"u": u}), 0.0, q, v)
        vdot = da.formulations.Proximal().solve(at).vdot
        loads = da.reactions.loads_of(system.with_inputs({"u": u}), at, vdot)
        y = system.measured(0.0, q, v, vdot, loads, only=channels)
        return jnp.concatenate([jnp.asarray(lin.minimal.E_q) @ v, jnp.asarray(lin.minimal.E_v) @ vdot, y])

    size = len(lin.A)
    columns = [(look(step * e, 0.0) - look(-step * e, 0.0)) / (2 * step) for e in np.eye(size)]
    columns.append((look(np.zeros(size), step) - look(np.zeros(size), -step)) / (2 * step))
    found = np.block([[lin.A, lin.B[:, u:]], [lin.C, lin.D[:, u:]]])
    assert all(np.max(np.abs(x)) > 1e-3 for x in (lin.A, lin.B[:, u:], lin.C, lin.D[:, u:]))
    np.testing.assert_allclose(found, np.array(columns).T, atol=1e-7 * np.max(np.abs(found)))


@pytest.mark.parametrize(("coordinates", "f"), [("joint", 0.7), ("absolute", 1.6)])
def test_frequency_response_against_a_motion(coordinates, f):
    """Begun on the forced oscillation a run stays on it: y(t) = Re H exp(iωt). With 1e-4 N the rest is 1e-9."""
    lin = cart_linear(coordinates)
    push, system = 1e-4, lin.system
    w, u = 2 * np.pi * f, lin.inputs.index("u")
    x = np.linalg.solve(1j * w * np.eye(len(lin.A)) - lin.A, lin.B[:, u] * push)
    d = lin.basis @ x.real
    start = (system.retract(jnp.asarray(lin.state.q), jnp.asarray(d[: system.n])), d[system.n :])
    wave = {"u": f"{push!r}*cos({w!r}*t)"}
    solution = da.simulate(system, 2.0, start, inputs=wave, samples=21, rtol=1e-10, atol=1e-14)
    found = np.array([solution.measurements[name] for name in lin.outputs[:-1]])
    H = lin.frequency_response([f]).values[:-1, u, 0] * push
    expected = np.real(H[:, None] * np.exp(1j * w * np.asarray(solution.t)))
    moving = np.max(np.abs(expected), axis=1) > 1e-9  # heights and weights change in second order
    size = np.max(np.abs(expected[moving]), axis=1, keepdims=True)
    np.testing.assert_allclose((found - found.mean(axis=1, keepdims=True) * ~moving[:, None])[moving] / size,
                               expected[moving] / size, atol=1e-5)  # fmt: skip


# ---- controllers -----------------------------------------------------------------------------------------------------


def test_states_of_controllers_belong_to_the_model():
    lin = da.linearise(cart("pi"), inputs=["u"], outputs=["pi.s"])
    A = np.zeros((5, 5))
    A[:2, 2:4] = np.eye(2)
    A[2:4, :2] = -np.linalg.solve(M, K)
    A[2:4, 2:4] = -np.linalg.solve(M, np.diag([1.5 + 3.0, 0.0]))
    A[2:4, 4] = np.linalg.solve(M, [20.0, 0.0])
    A[4, 0] = -1.0
    np.testing.assert_allclose(np.sort_complex(lin.eigenvalues), np.sort_complex(np.linalg.eigvals(A)), rtol=1e-11)
    assert [m.kind for m in lin.modes] == ["oscillating", "oscillating", "real"] and lin.states[-1] == "pi.s"
    with pytest.raises(da.errors.DalembertError, match="controllers with states of their own.*state=lin.start"):
        lin.replace({"bob.mass": 0.6})
    plain = cart_linear("absolute").eigenvalues
    np.testing.assert_allclose(da.linearise(cart("pi"), open=["pi"]).eigenvalues, plain, rtol=1e-12)
    np.testing.assert_allclose(da.linearise(cart("sampled"), open=True).eigenvalues, plain, rtol=1e-12)


# ---- redundant, rigid-body, units ------------------------------------------------------------------------------------


def random_cranks(seed: int, count: int = 3, rubbing: str | None = None):
    """Parallel cranks under a bar, one or more than needed, with random numbers; the inertia, damping, weight and
    stiffness of its one angle, and what else there is about its first pin."""
    rng = np.random.default_rng(seed)
    length, bar = rng.uniform(0.5, 2), rng.uniform(1, 3)
    model = da.Model("a 'random' machine", gravity=(0, -G))
    model.body("bar", mass=bar, inertia=0.3, position=(1, -length))
    inertia, weight = bar * length**2, bar * G * length
    for k in range(count):
        mass, J, centre = rng.uniform(0.5, 2), rng.uniform(0.01, 0.1), rng.uniform(0.2, 0.8) * length
        model.body(f"crank {k}", mass=mass, inertia=J, position=(k, -centre))
        model.revolute(f"top-{k}", model.ground, f"crank {k}", at=(k, 0))
        model.revolute(f"foot {k}", f"crank {k}", "bar", at=(k, -length))
        inertia, weight = inertia + J + mass * centre**2, weight + mass * G * centre
    stiffness, damping = rng.uniform(5, 20), rng.uniform(0.1, 1)
    model.joint_spring("return", "top-0", stiffness=stiffness, damping=damping)
    if rubbing:
        model.bearing_friction("rub", "top-1", coulomb=0.2, radius=0.05, transition_speed=0.5, rule=rubbing)
    for k in (0, 1):
        model.measure(f"load{k}", "reaction", f"top-{k}", frame="world", component="Fy")
    return model, np.array([inertia, damping, weight + stiffness])


RULED = ("minimum_norm", "eliminated")


@pytest.mark.parametrize(
    ("coordinates", "count", "seeds"),
    [
        ("absolute", 3, (1, 2, 3)),
        ("joint", 3, (4, 5, 6)),
        pytest.param("absolute", 4, (7,), marks=pytest.mark.thorough),
        pytest.param("joint", 4, (7,), marks=pytest.mark.thorough),
    ],
)
def test_redundant_machines_are_as_those_reduced_by_hand(coordinates, count, seeds):
    """Random parallel cranks: one angle; whatever rule picks the reactions. One structure, so programs are shared."""
    for seed in seeds:
        model, reduced = random_cranks(seed, count)
        roots, system, found = np.roots(reduced), da.build(model, coordinates=coordinates), {}
        for rule in RULED:
            lin = da.linearise(system, outputs=["load0", "load1"], inputs=["foot 1.angle"], rule=rule)
            np.testing.assert_allclose(np.sort_complex(lin.eigenvalues), np.sort_complex(roots), rtol=1e-10)
            assert all(r != "unique" for r in lin.output_rules) and f"picked by {lin.output_rules[0]}" in str(lin)
            found[rule] = lin.output_rules[0]
            assert set(lin.modes[0].potential) <= {"return", *(n for n in lin.modes[0].potential if " + " in n)}
            assert sum(lin.modes[0].potential.values()) == pytest.approx(1.0, abs=1e-11)
        assert len(set(found.values())) == 2


@USUALLY_ABSOLUTE
def test_where_a_pin_rubs_by_a_load_that_a_rule_picks_the_rule_matters(coordinates):
    """μ N r tanh(ȧ/v₀) damps with μ N r/v₀: N is what the rule gives the pin at rest, and the eigenvalues follow it."""
    dampings = []
    for rule in RULED:
        model, (inertia, damping, stiffness) = random_cranks(1, rubbing=rule)
        system = da.build(model, coordinates=coordinates)
        load = np.linalg.norm(da.equilibrium(system, rule=rule).reactions("top-1")["force"])
        damping += 0.2 * load * 0.05 / 0.5
        lin = da.linearise(system)
        roots = np.roots([inertia, damping, stiffness])
        np.testing.assert_allclose(np.sort_complex(lin.eigenvalues), np.sort_complex(roots), rtol=1e-9)
        dampings.append(damping)
    assert abs(dampings[0] - dampings[1]) > 1e-3


@pytest.mark.parametrize(
    ("coordinates", "seeds"),
    [  # 12: rows that the tree satisfies by itself are off by rounding, which is no direction
        ("absolute", (4, 5)), ("joint", (12,)), pytest.param("joint", (4, 5, 6), marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_redundant_doors_in_space_are_as_those_reduced_by_hand(coordinates, seeds):
    """Doors on two and three hinges each, about random axes, with springs and dampers from tip to tip: five and ten
    rows too many for each. By hand: angles alone, the Hessian of the energy; whatever rule picks the reactions."""
    for seed in seeds:
        model, wanted = random_doors(seed)
        model.measure("load", "reaction", "hinge 0-0", component="Fx", frame="world")
        system, rules = da.build(model, coordinates=coordinates), set()
        for rule in RULED:
            lin = da.linearise(system, outputs=["load"], rule=rule)
            np.testing.assert_allclose(np.sort_complex(lin.eigenvalues), wanted, rtol=1e-10)
            rules.add(lin.output_rules[0])
        assert len(rules) == 2 and "unique" not in rules


def random_doors(seed: int):
    """The doors, and their eigenvalues."""
    rng = np.random.default_rng(seed)
    model = da.Model("doors", space="space", gravity=(0, 0, -G))
    hinges, axes, arms, masses, turning = [], [], [], [], []
    for k in range(2):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        down = np.array([0, 0, -1.0]) - axis * -axis[2]  # where the door rests
        arm, place = rng.uniform(0.3, 0.6) * down / np.linalg.norm(down), np.array([1.5 * k, 0.3 * k, 0.0])
        mass, inertia = rng.uniform(1, 5), rng.uniform(0.2, 0.3, 3)
        model.body(f"door {k}", mass=mass, inertia=tuple(inertia), position=tuple(place + arm))
        for i in range(2 + k):
            model.revolute(f"hinge {k}-{i}", model.ground, f"door {k}", at=tuple(place + 0.4 * i * axis),
                           axis=tuple(axis))  # fmt: skip
        hinges.append(place)
        axes.append(axis)
        arms.append(arm)
        masses.append(mass)
        turning.append(axis @ (inertia * axis) + mass * arm @ arm)
    tips = [h + 2 * a for h, a in zip(hinges, arms, strict=True)]
    spring = {"stiffness": rng.uniform(20, 50), "damping": rng.uniform(0.2, 1.0)}
    model.spring_damper("tie", "door 0", "door 1", at_i=tuple(tips[0]), at_j=tuple(tips[1]),
                        length=float(np.linalg.norm(tips[1] - tips[0])), **spring)  # fmt: skip

    def turned(k, x, angle):  # Rodrigues
        a = axes[k]
        return x * jnp.cos(angle) + jnp.cross(a, x) * jnp.sin(angle) + a * (a @ x) * (1 - jnp.cos(angle))

    def length(angles):
        ends = [hinges[k] + turned(k, 2 * arms[k], angles[k]) for k in range(2)]
        return jnp.linalg.norm(ends[1] - ends[0])

    def energy(angles):
        weights = sum(masses[k] * G * turned(k, arms[k], angles[k])[2] for k in range(2))
        return weights + 0.5 * spring["stiffness"] * (length(angles) - length(jnp.zeros(2))) ** 2

    g = np.asarray(jax.grad(length)(jnp.zeros(2)))
    K, D, M = np.asarray(jax.hessian(energy)(jnp.zeros(2))), spring["damping"] * np.outer(g, g), np.diag(turning)
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, K), -np.linalg.solve(M, D)]])
    return model, np.sort_complex(np.linalg.eigvals(A))


def test_rigid_body_modes_come_first():
    """Two cars on a track with a spring: ω² = k (1/m₁ + 1/m₂); in millimetres, tonnes and hours as well."""
    for length, mass, time in ((1.0, 1.0, 1.0), (1e3, 1e-3, 1 / 3600)):
        model = da.Model("cars")
        for name, x in (("a", 0.0), ("b", 1.0)):
            model.body(name, mass=2.0 * mass, inertia=mass * length**2, position=(x * length, 0))
            model.prismatic(f"track_{name}", model.ground, name, at=(0, 0), axis=(1, 0))
        model.spring_damper(
            "spring", "a", "b", at_i=(0, 0), at_j=(length, 0), stiffness=50.0 * mass / time**2
        )  # fmt: skip
        lin = da.linearise(model)
        assert [m.kind for m in lin.modes] == ["rigid-body", "oscillating"]
        assert list(lin.eigenvalues[:2]) == [0, 0] and lin.modes[0].potential == {}
        np.testing.assert_allclose(lin.frequencies, [math.sqrt(50.0) / (2 * math.pi * time)], rtol=1e-12)
        assert lin.modes[0].kinetic == pytest.approx({"a": 0.5, "b": 0.5}) and "rigid-body" in str(lin)


@BOTH
@pytest.mark.parametrize("damping", [0.0, 1e-3])
def test_slow_modes_beside_very_fast_ones(coordinates, damping):
    """A pendulum below a mass of 1 g on a spring of 1e9 N/m, 1e6 1/s beside 3 1/s: by 50 digits. The damper on the
    spring takes 1e-19 of the slow mode's energy: nothing."""
    light, stiff, heavy, length, J = 1e-3, 1e9, 0.5, 0.8, 0.01
    model = da.Model("stiff", gravity=(0, -G))
    mount = model.body("mount", mass=light, inertia=1.0)
    slide = model.prismatic("slide", model.ground, mount, at=(0, 0), axis=(1, 0))
    model.joint_spring("spring", slide, stiffness=stiff, damping=damping)
    bob = model.body("bob", mass=heavy, inertia=J, position=(0, -length))
    model.revolute("pin", mount, bob, at=(0, 0))
    # and a third that nothing holds
    model.body("cart", mass=1.0, inertia=1.0, position=(3, 0))
    model.prismatic("track", model.ground, "cart", at=(3, 0), axis=(1, 0))
    lin = da.linearise(da.build(model, coordinates=coordinates), inputs=["pin.angle"], outputs=["pin.angle"])
    with mpmath.workdps(50):
        M = mpmath.matrix([[light + heavy, heavy * length], [heavy * length, heavy * length**2 + J]])
        K, D = mpmath.diag([stiff, heavy * G * length]), mpmath.diag([damping, 0])
        A = mpmath.zeros(4)
        A[0, 2] = A[1, 3] = 1
        A[2:4, 0:2], A[2:4, 2:4] = -(M**-1) * K, -(M**-1) * D
        values = sorted((complex(x) for x in mpmath.eig(A, left=False, right=False) if x.imag > 0), key=abs)
        response = mpmath.lu_solve(K - 4 * mpmath.pi**2 * M / 100, mpmath.matrix([0, 1]))[1]  # at 0.1 Hz
    assert [m.kind for m in lin.modes] == ["rigid-body", "oscillating", "oscillating"]
    for mode, value in zip(lin.modes[1:], values, strict=True):
        np.testing.assert_allclose(mode.eigenvalue.imag, value.imag, rtol=1e-10)
        np.testing.assert_allclose(mode.eigenvalue.real, value.real, rtol=1e-7, atol=1e-12)
    assert lin.modes[1].kinetic["bob"] > 0.999
    np.testing.assert_allclose(lin.replace({}).frequencies[1:], [abs(x) / (2 * math.pi) for x in values], rtol=1e-9)
    np.testing.assert_allclose(lin.frequency_response([0.1]).values[0, 0, 0].real, float(response), rtol=1e-9)


# ---- derivatives by parameters ---------------------------------------------------------------------------------------


def leaning() -> da.Model:
    """A rod on a pin, held by a spring: where it rests depends on all its numbers."""
    model = da.Model("leaning", gravity=(0, -G))
    rod = model.body("rod", mass=1.3, inertia=0.1, position=(0.4, 0.3), angle=0.6)
    model.revolute("pin", model.ground, rod, at=(0, 0))
    model.spring_damper(
        "spring", model.ground, rod, at_i=(0, 1), at_j=(0.8, 0.6), stiffness=40.0, damping=0.3, length=0.6
    )
    model.torque("turn", rod, model.input("u"))
    model.measure("load", "reaction", "pin", component="Fy", frame="world")
    return model


def test_derivatives_by_parameters_against_differences():
    """Of matrices against differences of `replace`, of frequencies against those of machines linearised anew."""
    system = da.build(leaning())
    lin = da.linearise(system, da.equilibrium(system), inputs=["u"], outputs=["load", "pin.angle"])
    names = {"spring.stiffness": 40.0, "rod.mass": 1.3}

    def at(values):
        found = lin.replace(values)
        return found.A, found.B, found.C, found.D, found.frequencies, found.damping_ratios

    both = jax.jit(lambda values, along: jax.jvp(at, (values,), (along,)))
    here = both(names, dict.fromkeys(names, 0.0))[0]
    for own, other in zip(here[:4], (lin.A, lin.B, lin.C, lin.D), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-9)
    for name, value in names.items():
        along = {k: float(k == name) for k in names}
        _, slopes = both(names, along)
        step = 1e-4 * value
        more, less = (both(names | {name: value + s}, along)[0] for s in (step, -step))
        for slope, a, b in zip(slopes, more, less, strict=True):
            scale = max(float(jnp.max(jnp.abs(slope))), 1e-3)
            np.testing.assert_allclose(slope, (a - b) / (2 * step), atol=1e-6 * scale)
        anew = []
        for s in (step, -step):
            changed = system.replace({name: value + s})
            (mode,) = da.linearise(changed, da.equilibrium(changed)).modes
            anew.append((mode.frequency, mode.damping_ratio))
        change = (np.array(anew[0]) - anew[1]) / (2 * step)
        np.testing.assert_allclose([float(slopes[4][0]), float(slopes[5][0])], change, rtol=1e-6, atol=1e-9)


@pytest.mark.thorough
@BOTH
def test_derivatives_of_modes_in_space(coordinates):
    """Of the body on two rods by its mass and by where the rods are fixed (its rest moves along): against differences
    of machines that are linearised anew, whose own error is 1e-9."""
    system = da.build(hung(), coordinates=coordinates)
    lin, point = da.linearise(system), np.asarray(system.parameters()["right.point_i"])

    def values(x):
        return {"body.mass": 8.8 * (1 + x), "right.point_i": point + x * np.array([0.3, 0.1, 0.2])}

    slope = jax.jit(lambda x: jax.jvp(lambda x: lin.replace(values(x)).frequencies, (x,), (1.0,))[1])(0.0)
    near = []
    for x in (-2e-3, -1e-3, 1e-3, 2e-3):
        changed = system.replace(values(x))
        near.append(da.linearise(changed, da.equilibrium(changed)).frequencies)
    numeric = (8 * (near[2] - near[1]) - (near[3] - near[0])) / 12e-3
    assert np.max(np.abs(numeric)) > 1e-2
    np.testing.assert_allclose(slope, numeric, atol=1e-6 * np.max(np.abs(numeric)))


def test_derivatives_of_modes_of_a_redundant_machine():
    """Of the parallel cranks by the bar's mass: J grows with l², the weight with g l; closed forms of both roots."""
    model, (inertia, damping, stiffness) = random_cranks(1)
    system = da.build(model)
    bar, lin = float(system.parameters()["bar.mass"]), da.linearise(system)
    length = -float(model.bodies["bar"].position[1])

    def by_hand(more):
        J, k = inertia + more * length**2, stiffness + more * G * length
        return jnp.sqrt(k / J) / (2 * jnp.pi), damping / (2 * jnp.sqrt(k * J))

    def found(more):
        changed = lin.replace({"bar.mass": bar + more})
        return changed.frequencies[0], changed.damping_ratios[0]

    (value, slope), (expected, by_mass) = (jax.jvp(f, (0.0,), (1.0,)) for f in (jax.jit(found), by_hand))
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(slope, by_mass, rtol=1e-9)


# ---- wrong uses, pictures, files -------------------------------------------------------------------------------------


def test_wrong_uses_get_a_sentence(monkeypatch):
    lin = cart_linear("absolute")
    system = lin.system
    for options, words in (
        ({"inputs": ["w"]}, "has no input 'w'.*its inputs are u"),
        ({"inputs": ["pin.angle_rate"]}, "an effort acts along a joint coordinate"),
        ({"outputs": ["tipp.x"]}, "no measurement or joint coordinate 'tipp.x'.*Did you mean 'tip.x'"),
        ({"open": ["motor"]}, "no controller 'motor'; it has none"),
    ):
        with pytest.raises(da.errors.DalembertError, match=words):
            da.linearise(system, **options)
    with pytest.raises(da.errors.DalembertError, match=r"controller 'pi' is sampled.*open=\['pi'\]"):
        da.linearise(cart("sampled"))
    held = da.equilibrium(system, hold={"slide.displacement": 0.1})
    with pytest.raises(da.errors.DalembertError, match="efforts hold 'slide.displacement'"):
        da.linearise(system, held)
    with pytest.raises(da.errors.DalembertError, match="has no mode 5; its modes are numbered 1 … 2"):
        lin.mode(5)
    with pytest.raises(da.errors.DalembertError, match="bode needs inputs and outputs"):
        da.linearise(system).bode()
    with pytest.raises(da.errors.DalembertError, match=r"under jit, vmap or grad.*lin.replace"):
        jax.jit(lambda m: da.linearise(system.replace({"bob.mass": m})).A)(0.5)
    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(da.errors.DalembertError, match="needs python-control, which is not installed"):
        lin.to_control()
    driven = da.Model("driven")
    body = driven.body("body", mass=1.0, inertia=1.0)
    driven.prismatic("slide", driven.ground, body, at=(0, 0), axis=(1, 0))
    driven.driver("drive", "slide", driven.input("w"))
    with pytest.raises(da.errors.DalembertError, match="Input 'w' prescribes the motion of 'drive'"):
        da.linearise(driven, inputs=["w"])
    fixed = da.linearise(driven)
    assert fixed.modes == () and fixed.A.shape == (0, 0) and "nothing can move" in str(fixed)


def test_other_packages_and_pictures(tmp_path):
    lin, f = cart_linear("absolute"), 0.7
    ours, other = lin.to_scipy(), lin.to_control()
    for one in (ours, other):
        for name in "ABCD":
            np.testing.assert_array_equal(getattr(one, name), getattr(lin, name))
    assert other.input_labels == ["effort along pin_angle".replace(" ", "_"), "u"]
    assert other.output_labels == [x.replace(".", "_") for x in lin.outputs]
    assert len(other.state_labels) == len(lin.A) and not any("." in x or " " in x for x in other.state_labels)
    here = lin.frequency_response([f]).values[:, :, 0]
    np.testing.assert_allclose(other(2j * np.pi * f), here, atol=1e-10 * np.max(np.abs(here)))  # two solvers' rounding
    figure = da.linearise(cart(), inputs=["u"], outputs=["tip.x", "load.Fx"]).bode(path=tmp_path / "bode.png")
    assert len(figure.axes) == 4 and (tmp_path / "bode.png").stat().st_size > 10_000
    assert "mode 2: 1.051 Hz" in lin.animate(2, tmp_path / "mode.html").read_text()
    # joints stay closed to first order: the pin opens by half the square of the amplitude
    data = lin.motion_of_mode(1, amplitude=1e-3)
    x, angle = data["position"].values, data["angle"].sel(body="bob").values
    apart = x[:, 1] - x[:, 0] - 0.8 * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    assert 1e-8 < np.max(np.abs(apart)) < 1e-6
    moved = np.max(np.abs(data["position"].values - np.array([[0, 0], [0, -0.8]])))
    size = float(lin.system.size)
    assert max(moved / size, np.max(np.abs(angle))) == pytest.approx(1e-3, rel=1e-5)


def test_modes_on_the_command_line_and_in_the_report(tmp_path):
    da.save(hung(), tmp_path / "hung.yaml")
    file = str(tmp_path / "hung.yaml")
    files = ["--bode", str(tmp_path / "b.png"), "--plot", str(tmp_path / "m.png"), "-o", str(tmp_path / "m.nc")]
    channels = ["--input", "right.length", "--output-of", "left.length"]
    found = json.loads(in_process("modes", file, "--json").stdout)
    assert [m["kind"] for m in found["modes"]] == ["oscillating"] * 4 and found["stable"]
    assert found["modes"][0]["frequency"] == pytest.approx(0.208787487242, abs=1e-12)
    shown = in_process("modes", file, "--rest", *files[2:])
    assert "4 oscillating modes" in shown.stdout and "0.208787 Hz" in shown.stdout
    assert (tmp_path / "m.png").exists() and (tmp_path / "m.nc").exists()
    assert "--bode needs" in in_process("modes", file, *files[:2]).stderr
    assert "has no input 'right.length'" in in_process("modes", file, *channels).stderr
    da.save(cart(), tmp_path / "cart.yaml")
    asked = ["--input", "u", "--output-of", "tip.x", "--output-of", "load.Fx", "--mode", "2"]
    files = {"--plot": tmp_path / "2.png", "--animate": tmp_path / "m.html", "--bode": tmp_path / "b.png"}
    asked += [str(x) for pair in files.items() for x in pair]
    shown = in_process("modes", str(tmp_path / "cart.yaml"), *asked)
    assert shown.returncode == 0, shown.stderr
    assert all(f"written    {path}" in shown.stdout for path in files.values())
    assert (tmp_path / "b.png").stat().st_size > 10_000 and "mode 2: 1.051 Hz" in (tmp_path / "m.html").read_text()
    page = da.report(hung(), tmp_path / "page.html", t_end=0.1, samples=3, modes=True).read_text()
    assert "4 oscillating modes" in page and "0.588976 Hz" in page
