"""Tight independent references: nothing of dalembert but the numbers of the machines.

- four-bar: one equation of motion in the crank angle, from the closed form of the loop;
- N-four-bar: on the branch of parallel cranks it is a pendulum, θ'' = (g/L) r sin θ;
- Andrews, Bricard: index-1 equations in the joint angles of the tree, multipliers by least squares.

All by DOP853 of SciPy at 1e-13.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problems import Problem, Samples, Tree, tree_of
from scipy.integrate import solve_ivp

jax.config.update("jax_enable_x64", True)

RTOL = 1e-13

# angles at t = 0.03 s of the Test Set for IVP Solvers 2.4: beta, theta, gamma, phi, delta, omega, epsilon
ANDREWS_END = np.array(
    [
        0.1581077119629904e2, -0.1575637105984298e2, 0.4082224013073101e-1, -0.5347301163226948,
        0.5244099658805304, 0.5347301163226948, 0.1048080741042263e1,
    ]
)  # fmt: skip
# at the start, the same source
ANDREWS_START = np.array(
    [
        -0.0617138900142764496, 0.0, 0.455279819163070380, 0.222668390165885885, 0.487364979543842550,
        -0.222668390165885885, 1.23054744454982119,
    ]
)  # fmt: skip


def reference(problem: Problem) -> tuple[Samples, str]:
    """The motion at the sample times, and a sentence on how well it is known."""
    if problem.name == "four-bar":
        return _four_bar(problem)
    if problem.name.startswith("n-four-bar"):
        return _pendulum(problem, (len(problem.model.bodies) - 1) // 2)
    return _index_1(problem)


def _march(rhs, y0, times) -> np.ndarray:
    solution = solve_ivp(rhs, (times[0], times[-1]), y0, "DOP853", t_eval=times, rtol=RTOL, atol=1e-13)
    if not solution.success:
        raise RuntimeError(f"The reference failed: {solution.message}")
    return solution.y.T


def _four_bar(problem: Problem) -> tuple[Samples, str]:
    (samples,), drift = four_bars(problem, [float(problem.model.bodies["crank"].mass)])
    return samples, f"crank angle alone; energy kept to {drift:.0e} J"


def four_bars(problem: Problem, crank_masses) -> tuple[list[Samples], float]:
    """Four-bars that differ in the mass of the crank (its moment of inertia stays), and how well energy is kept.

    The crank angle alone: J(θ) θ'' + ½ J'(θ) θ'² + V'(θ) = 0.
    """
    a, b, c, g = 1.0, 2.0, 1.5, 2.0
    lengths, inertias = jnp.array([a, b, c]), jnp.array([1.0 * a**2, 2.0 * b**2, 1.5 * c**2]) / 12

    def angles(theta):
        dx, dy = g - a * jnp.cos(theta), -a * jnp.sin(theta)
        d = jnp.hypot(dx, dy)
        coupler = jnp.arctan2(dy, dx) + jnp.arccos((b**2 + d**2 - c**2) / (2 * b * d))
        tip = jnp.stack([a * jnp.cos(theta) + b * jnp.cos(coupler), a * jnp.sin(theta) + b * jnp.sin(coupler)])
        return jnp.stack([theta, coupler, jnp.arctan2(tip[1], tip[0] - g)])

    def centres(theta):
        along = jnp.stack([jnp.cos(angles(theta)), jnp.sin(angles(theta))], axis=1) * lengths[:, None]
        start = jnp.array([[0.0, 0.0], [0.0, 0.0], [g, 0.0]]).at[1].set(along[0])
        return start + 0.5 * along

    def inertia(theta, masses):
        speed, spin = jax.jacfwd(centres)(theta), jax.jacfwd(angles)(theta)
        return jnp.sum(masses * jnp.sum(speed**2, axis=1)) + jnp.sum(inertias * spin**2)

    def potential(theta, masses):
        return 9.81 * jnp.sum(masses * centres(theta)[:, 1])

    @jax.jit
    def rhs(y, masses):
        J, dJ = jax.jvp(lambda theta: inertia(theta, masses), (y[0],), (jnp.ones(()),))
        return jnp.stack([y[1], (-0.5 * dJ * y[1] ** 2 - jax.grad(potential)(y[0], masses)) / J])

    @jax.jit
    def energy(y, masses):
        return 0.5 * inertia(y[0], masses) * y[1] ** 2 + potential(y[0], masses)

    place = jax.jit(jax.vmap(lambda theta: centres(theta)[1]))
    found, drift = [], 0.0
    for mass in crank_masses:
        masses = np.array([mass, 2.0, 1.5])
        y = _march(lambda t, y, masses=masses: np.asarray(rhs(y, masses)), [np.pi / 6, 0.0], problem.times)
        drift = max(drift, float(np.ptp([float(energy(row, masses)) for row in y[:: len(y) // 10]])))
        found.append(Samples(np.pad(np.asarray(place(y[:, 0])), ((0, 0), (0, 1))), None))
    return found, drift


def _pendulum(problem: Problem, N: int) -> tuple[Samples, str]:
    ratio = ((N + 1) / 2 + N) / ((N + 1) / 3 + N)
    y = _march(lambda t, y: [y[1], 9.81 * ratio * np.sin(y[0])], [0.0, 1.0], problem.times)
    energy = 0.5 * y[:, 1] ** 2 + 9.81 * ratio * np.cos(y[:, 0])
    points = np.stack([np.sin(y[:, 0]), np.cos(y[:, 0]), 0 * y[:, 0]], axis=1)
    return Samples(points, None), f"a pendulum; energy kept to {np.ptp(energy) / np.ptp(y[:, 1] ** 2):.0e} of its swing"


def _index_1(problem: Problem) -> tuple[Samples, str]:
    """M q'' = Q + Cᵀλ, C q'' = Γ in joint angles; C may have dependent rows."""
    tree = tree_of(problem.model)
    terms = jax.jit(_terms(tree))
    n = len(tree)

    def rhs(t, y):
        M, Q, C, Gamma, _ = (np.asarray(x) for x in terms(y[:n], y[n:]))
        free = np.linalg.solve(M, np.column_stack([Q, C.T]))
        # rank from singular values: a dependent row has none of its own
        lam = np.linalg.lstsq(C @ free[:, 1:], Gamma - C @ free[:, 0], rcond=1e-9)[0]
        return np.concatenate([y[n:], free[:, 0] + free[:, 1:] @ lam])

    y = _march(rhs, np.concatenate([np.zeros(n), tree.rates]), problem.times)
    samples = tree.samples(y[:, :n], problem)
    gap = max(float(np.max(np.abs(terms(x[:n], x[n:])[4]))) for x in y)
    note = f"index 1, loops closed to {gap:.0e} m"
    if problem.name == "andrews":
        assert samples.turned is not None
        note += (
            f", angles at the end within {np.max(np.abs(_andrews_angles(samples) - ANDREWS_END)):.0e} of the Test Set"
        )
    return samples, note


def _andrews_angles(samples: Samples) -> np.ndarray:
    """The seven angles of the Test Set at the end, from how far K1 … K7 have turned."""
    K1, K2, K3, K4, K5, K6, K7 = samples.turned[-1]
    return ANDREWS_START + np.array([K1, K2 - K1, K3, K4 - K5, K5, K6 - K7, K7])


def _terms(tree: Tree):
    """(q, v) ↦ M, Q, C, Γ and the gap of the loops."""

    def frames(q):
        origins, rotations, axes = [], [], []
        for k, link in enumerate(tree.links):
            above = (jnp.zeros(3), jnp.eye(3)) if link.parent < 0 else (origins[link.parent], rotations[link.parent])
            origins.append(above[0] + above[1] @ link.hinge)
            rotations.append(above[1] @ _turn(link.axis, q[k]))
            axes.append(above[1] @ link.axis)
        return jnp.stack(origins), jnp.stack(rotations), jnp.stack(axes)

    centre = np.array([link.centre for link in tree.links])
    mass = np.array([link.mass for link in tree.links])
    inertia = np.array([link.inertia for link in tree.links])
    above = np.array([[_is_above(tree, j, k) for j in range(len(tree))] for k in range(len(tree))], float)

    def centres(q):
        origins, rotations, _ = frames(q)
        return origins + jnp.einsum("kij,kj->ki", rotations, centre)

    def spins(q, v):
        return above @ (frames(q)[2] * v[:, None])

    def gaps(q):
        origins, rotations, _ = frames(q)

        def at(k, p):
            return jnp.asarray(p) if k < 0 else origins[k] + rotations[k] @ p

        pairs = [(c, *p) for c in tree.closures for p in tree.closing_points(c)]
        out = jnp.stack([at(c.a, p) - at(c.b, r) for c, p, r in pairs])
        return (out[:, :2] if tree.planar else out).ravel()

    def springs(q):
        origins, rotations, _ = frames(q)
        energy = 0.0
        for s in tree.springs:
            length = jnp.linalg.norm(origins[s.link] + rotations[s.link] @ s.at - s.anchor)
            energy = energy + 0.5 * s.stiffness * (length - s.length) ** 2
        return energy

    def rate(f, q, v):
        """f(q, v) along the motion with v held."""
        return jax.jvp(lambda q: f(q, v), (q,), (v,))[1]

    def terms(q, v):
        _, R, _ = frames(q)
        world = jnp.einsum("kij,kjl,kml->kim", R, inertia, R)
        Jv, Jw = jax.jacfwd(centres)(q), jax.jacfwd(spins, 1)(q, v)
        M = jnp.einsum("kia,k,kib->ab", Jv, mass, Jv) + jnp.einsum("kia,kij,kjb->ab", Jw, world, Jw)
        w = Jw @ v
        bias_v = rate(lambda q, v: jax.jvp(centres, (q,), (v,))[1], q, v)
        torque = jnp.einsum("kij,kj->ki", world, rate(spins, q, v)) + jnp.cross(w, jnp.einsum("kij,kj->ki", world, w))
        Q = jnp.einsum("kia,ki->a", Jv, mass[:, None] * (tree.gravity - bias_v)) - jnp.einsum("kia,ki->a", Jw, torque)
        for k, value in tree.torques:
            Q = Q.at[k].add(value)
        if tree.springs:
            Q = Q - jax.grad(springs)(q)
        Gamma = -rate(lambda q, v: jax.jvp(gaps, (q,), (v,))[1], q, v)
        return M, Q, jax.jacfwd(gaps)(q), Gamma, gaps(q)

    return terms


def _is_above(tree: Tree, j: int, k: int) -> bool:
    """Whether hinge j carries link k."""
    while k >= 0:
        if k == j:
            return True
        k = tree.links[k].parent
    return False


def _turn(axis, angle):
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + jnp.sin(angle) * K + (1 - jnp.cos(angle)) * (K @ K)
