"""Every correction to the papers: the printed form fails, the corrected form passes. And the papers' printed results.

000 is Blajer, Bestle, Schiehlen (1994); 001 is Blajer (1995); 003 is Kövecses, Piedbœuf (2003). All comparisons are of
closed forms with what the package computes: rounding (1e-12) is the tolerance unless said otherwise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_papers import (
    ALPHA,
    J_P,
    M_P,
    RHO,
    L,
    four_bar,
    on_a_line,
    sliding_pendulum,
    tip,
)

import dalembert as da
from dalembert.complements import Choice, Riemannian, projected_units, recursion_rates
from dalembert.equations import matrices
from dalembert.linalg import BlockMass

EXACT = 1e-12
Q = jnp.array([0.7, 0.3, -0.9])


def complement_at(system, q, own):
    """D [Blajer, Bestle, Schiehlen 1994, eq. 17] with the complementary coordinates `own`, at any q."""
    at = matrices(system, 0.0, q)
    complement = da.complements.LocalCoordinates().with_rank(at.C.shape[0])
    choice = complement.choose(at.C, at.mass, at.local)
    choice = Choice(jnp.eye(3)[:, jnp.array(own)], None, choice.quality, choice.local)
    return at, complement.complete(at.C, at.mass, choice, at.local)


def spans_equal(A, B) -> bool:
    """Whether two full-rank matrices have the same column space."""
    A, B = np.asarray(A), np.asarray(B)
    return np.linalg.matrix_rank(np.hstack([A, B]), tol=1e-9) == A.shape[1]


# ---- 000, example 1 ------------------------------------------------------------------------------------------------


def d_25(q, sign):
    """(25a) with sign −1 on θ₃'s partners, (25b) with +1."""
    l1, l2, l3 = L
    t1, t2, t3 = q
    below = jnp.sin(t3 + sign * t1)
    return jnp.array([-l2 * jnp.sin(t3 + sign * t2) / (l1 * below), 1.0, -l2 * jnp.sin(t2 - t1) / (l3 * below)])


@pytest.mark.parametrize(("case", "sign"), [("a", -1), ("b", 1)])
def test_000_example_1(case, sign):
    """(23), (25a), (25b): J' with the 1 in the second column."""
    at, (D, _) = complement_at(four_bar(case), Q, [1])
    np.testing.assert_allclose(D[:, 0], d_25(Q, sign), atol=EXACT)
    np.testing.assert_allclose(at.C @ D, 0.0, atol=EXACT)


def test_000_example_1_singular_choice():
    """Below (25b): with θ₁ = θ₃ the 1 must leave the second column; the automatic choice does so."""
    q = jnp.array([0.4, 1.1, 0.4])
    at = matrices(four_bar("a"), 0.0, q)
    complement = da.complements.LocalCoordinates().with_rank(2)
    chosen = complement.choose(at.C, at.mass, at.local)
    assert int(jnp.argmax(chosen.E[:, 0])) in (0, 2) and float(chosen.quality) > 0.2
    bad = Choice(jnp.eye(3)[:, 1:2], None, chosen.quality, chosen.local)
    assert float(complement.quality(at.C, at.mass, bad, at.local)) < 1e-12


def test_000_equation_10():
    """∂g_p/∂q, not ∂g_p/∂p: J is the derivative with respect to the coordinates, and ẋ = J q̇."""
    at = matrices(four_bar("a"), 0.0, Q)
    v = jnp.array([0.3, -0.2, 0.9])
    from _helpers_papers import gap_a

    rate = jax.jvp(gap_a, (Q,), (v,))[1]
    np.testing.assert_allclose(at.local.J @ v, rate, atol=EXACT)


# ---- 000, example 2 ------------------------------------------------------------------------------------------------


def d_33a(q):
    l1, l2, l3 = L
    t1, t2, t3 = q
    below = jnp.sin(t3 - t1)
    tan = jnp.tan(ALPHA)
    first = [(jnp.cos(t3) + jnp.sin(t3) * tan) / (l1 * below), 0.0, -(jnp.cos(t1) + jnp.sin(t1) * tan) / (l3 * below)]
    return jnp.array([first, [-l2 * jnp.sin(t3 - t2) / (l1 * below), 1.0, -l2 * jnp.sin(t2 - t1) / (l3 * below)]]).T


def d_33b(q, sign):
    """With sign = +1 the second row as printed, with −1 as corrected."""
    l1, l2, l3 = L
    c1, c2, c3 = (jnp.cos(x - ALPHA) for x in q)
    return jnp.array([[-l2 * c2 / (l1 * c1), 1.0, 0.0], [sign * l3 * c3 / (l1 * c1), 0.0, 1.0]]).T


@pytest.mark.parametrize("given", [True, False], ids=["D̂ as (29a)", "D̂ found"])
def test_000_example_2_case_a(given):
    """(33a): two local coordinates, one constraint. Where D̂ is found by itself it is (29a) up to its length."""
    at, (D, _) = complement_at(on_a_line("a", given), Q, [1])
    if given:
        np.testing.assert_allclose(D, d_33a(Q), atol=EXACT)
    np.testing.assert_allclose(D[:, 1], d_33a(Q)[:, 1], atol=EXACT)
    np.testing.assert_allclose(np.cross(D[:, 0], d_33a(Q)[:, 0]), 0.0, atol=EXACT)
    np.testing.assert_allclose(at.C @ D, 0.0, atol=EXACT)


def test_000_example_2_case_b():
    """(33b): one local coordinate; the second row's first entry is negative, not as printed."""
    at, (D, _) = complement_at(on_a_line("b"), Q, [1, 2])
    np.testing.assert_allclose(D, d_33b(Q, -1), atol=EXACT)
    assert np.max(np.abs(at.C @ d_33b(Q, +1))) > 0.1
    np.testing.assert_allclose(at.C @ d_33b(Q, -1), 0.0, atol=EXACT)
    assert spans_equal(d_33a(Q), d_33b(Q, -1)) and not spans_equal(d_33a(Q), d_33b(Q, +1))


def test_000_equation_37():
    """r̂ = J'⁻ᵀ r: reactions are covariant. With J'⁻¹ as printed the local reaction is not Ĉᵀλ."""
    system = on_a_line("a")
    at = matrices(system, 0.0, Q)
    Jp = jnp.concatenate([at.local.J, jnp.array([[0.0, 1.0, 0.0]])])
    lam = jnp.array([1.7])
    r = at.C.T @ lam
    local = jnp.append(at.local.Chat.T @ lam, 0.0)
    np.testing.assert_allclose(jnp.linalg.solve(Jp.T, r), local, atol=EXACT)
    assert np.max(np.abs(jnp.linalg.solve(Jp, r) - local)) > 0.1
    # the same by the package: the physical force across the line has no part along it
    along = jnp.array([jnp.cos(ALPHA), jnp.sin(ALPHA)])
    assert abs(float(da.reactions.local_reactions(at, r, choice_of(at))[:2] @ along)) < EXACT
    assert tip(Q).shape == (2,)


def choice_of(at):
    return da.complements.LocalCoordinates().with_rank(at.C.shape[0]).choose(at.C, at.mass, at.local)


# ---- 001, sections 3 to 5 ------------------------------------------------------------------------------------------


def random_problem(seed=3, n=5, m=2):
    """C, Ċ, M, Ṁ at random, M positive definite; E from the greedy criterion."""
    rng = np.random.default_rng(seed)
    C, Cdot = rng.standard_normal((2, m, n))
    A, S = rng.standard_normal((2, n, n))
    M, Mdot = A @ A.T + n * np.eye(n), S + S.T
    mass = BlockMass(jnp.asarray(M)[None], jnp.linalg.inv(jnp.asarray(M))[None])
    inverse_dot = -mass.inverse @ Mdot @ mass.inverse
    complement = Riemannian().with_rank(m)
    choice = complement.choose(jnp.asarray(C), mass)
    return jnp.asarray(C), jnp.asarray(Cdot), mass, BlockMass(jnp.asarray(Mdot)[None], inverse_dot), complement, choice


def test_001_equation_3_2():
    """w* = v*/‖v‖. Printed as w* = v* ‖v‖ the columns have lengths ‖v‖² and not one."""
    C, _, mass, _, complement, choice = random_problem()
    frame = complement.frame(C, mass, choice)
    W = jnp.concatenate([frame.W_c, frame.W_d], axis=1)
    np.testing.assert_allclose(W.T @ mass.blocks[0] @ W, np.eye(5), atol=EXACT)
    p = C[0]
    raised = mass.solve(p)
    length = jnp.sqrt(p @ raised)
    np.testing.assert_allclose(frame.W_c[:, 0], raised / length, atol=EXACT)
    printed = raised * length
    assert abs(float(printed @ mass.mv(printed)) - 1.0) > 0.1


def test_001_equation_3_5():
    """(‖v‖⁻¹)˙ = −½‖v‖⁻³(‖v‖²)˙, against differences; printed as +½‖v‖^(−3/2)(‖v‖²)˙ it is another number."""
    C, Cdot, mass, mass_dot, complement, choice = random_problem()

    def square(t):
        M = mass.blocks[0] + t * mass_dot.blocks[0]
        p = (C + t * Cdot)[0]
        return p @ jnp.linalg.solve(M, p)

    h = 1e-5
    numeric = (square(h) ** -0.5 - square(-h) ** -0.5) / (2 * h)
    value, rate = jax.jvp(square, (0.0,), (1.0,))
    norm = jnp.sqrt(value)
    # central differences: h² = 1e-10 and rounding 1e-11
    assert float(-0.5 * norm**-3 * rate) == pytest.approx(float(numeric), rel=1e-7)
    assert abs(float(0.5 * norm**-1.5 * rate - numeric)) > 0.1 * abs(float(numeric))
    # the recursion built on it is the exact derivative of W
    (W, _), (Wdot, _) = recursion_rates(C, Cdot, choice.E, mass.inverse, mass_dot.inverse)
    (by_qr, _), (rate_by_qr, _) = complement.derivative(C, Cdot, mass, mass_dot, choice)
    np.testing.assert_allclose(W[:, 2:], by_qr, atol=EXACT)
    np.testing.assert_allclose(Wdot[:, 2:], rate_by_qr, atol=1e-11)


def test_001_below_equation_4_5():
    """T = [M⁻¹C* W_d], not its transpose: (TᵀM)⁻¹ = T M_t⁻¹ and (4.5) ⇒ (4.5a) hold for it."""
    C, _, mass, _, complement, choice = random_problem()
    W_d = complement.frame(C, mass, choice).W_d
    M = mass.blocks[0]
    T = jnp.concatenate([jax.vmap(mass.solve)(C).T, W_d], axis=1)
    M_t = T.T @ M @ T
    np.testing.assert_allclose(M_t[:2, 2:], 0.0, atol=EXACT)
    np.testing.assert_allclose(M_t[2:, 2:], np.eye(3), atol=EXACT)
    np.testing.assert_allclose(T @ jnp.linalg.inv(M_t), jnp.linalg.inv(T.T @ M), atol=1e-11)
    printed = T.T
    assert np.max(np.abs((printed.T @ M @ printed)[:2, 2:])) > 1e-2
    f = jnp.array([0.3, -0.2])
    step = jnp.linalg.solve(T.T @ M, -jnp.concatenate([f, jnp.zeros(3)]))
    np.testing.assert_allclose(step, -T[:, :2] @ jnp.linalg.solve(C @ T[:, :2], f), atol=1e-11)


def test_001_equations_4_8_to_4_10():
    """C*λ = W*_c λ_w (C* is n × m: no transpose), and λ_w = W*_cᵀẆ_d u − W_cᵀh* (contravariant in the second place)."""
    system = sliding_pendulum()
    equations = da.assemble(system, 0.0, *da.stabilise.consistent_state(system))
    found = da.reactions.orthonormal_multipliers(system, equations)
    frame = found.frame
    r = da.formulations.Proximal().solve(equations).r
    np.testing.assert_allclose(equations.mass.blocks[0] @ frame.W_c @ found.lam_w, r, atol=1e-11)
    lam = da.reactions.RequireUnique().multipliers(system, equations, r)
    np.testing.assert_allclose(equations.C.T @ lam, r, atol=1e-11)
    np.testing.assert_allclose(found.lam, lam, atol=1e-11)
    covariant = equations.mass.blocks[0] @ frame.W_c
    printed = found.lam_w + frame.W_c.T @ equations.h - covariant.T @ equations.h
    assert np.max(np.abs(printed - found.lam_w)) > 0.1
    with pytest.raises(TypeError):
        equations.C @ lam  # the printed C*ᵀλ: m × n times m does not even fit


def test_001_section_5_one_shot_criterion():
    """Not every E* with cos α < 1 will do: all cosines are 0.707, and the two smallest (any two) can be k₁, k₂."""
    C = jnp.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    eye = jnp.eye(4)[None]
    mass = BlockMass(eye, eye)
    sines = jnp.linalg.norm(projected_units(C, mass), axis=1)
    np.testing.assert_allclose(jnp.sqrt(1 - sines**2), np.sqrt(0.5), atol=EXACT)
    one_shot = Riemannian("one-shot").with_rank(2).choose(C, mass)
    greedy = Riemannian().with_rank(2).choose(C, mass)
    assert np.linalg.matrix_rank(np.hstack([C.T, one_shot.E])) == 3
    assert float(one_shot.quality) < 1e-12
    with pytest.raises(da.errors.DalembertError, match="dependent"):
        da.complements.check_choice(one_shot)
    assert np.linalg.matrix_rank(np.hstack([C.T, greedy.E])) == 4
    assert float(greedy.quality) == pytest.approx(np.sqrt(0.5), abs=EXACT)
    da.complements.check_choice(greedy)


# ---- 001, section 6 ------------------------------------------------------------------------------------------------


def section_6(x3, rate):
    """W_d and Ẇ_d of (6.4), (6.5)."""
    mu1, mu2 = np.sqrt(M_P), np.sqrt(J_P + M_P * RHO**2 * np.cos(x3) ** 2)
    W = np.array([[1 / mu1, 0, 0], [0, RHO * np.cos(x3) / mu2, 1 / mu2]]).T
    Wdot = np.zeros((3, 2))
    Wdot[1, 1] = -(mu2**-3) * J_P * RHO * rate * np.sin(x3)
    Wdot[2, 1] = mu2**-3 * M_P * RHO**2 * rate * np.sin(x3) * np.cos(x3)
    return W, Wdot, mu1, mu2


def test_001_section_6():
    """(6.4)–(6.7): W_d, Ẇ_d, the resolved equations and the start, with E* of (6.3); both algorithms."""
    system = sliding_pendulum()
    q, v = da.stabilise.consistent_state(system)
    x3, rate = float(q[2]), float(v[2])
    W, Wdot, mu1, mu2 = section_6(x3, rate)
    choice = Choice(jnp.eye(3)[:, jnp.array([0, 2])], None, jnp.ones(()))
    at = matrices(system, 0.0, q)
    rates = at.rates(system, 0.0, q, v)
    for algorithm in ("householder", "recursion"):
        complement = Riemannian(algorithm=algorithm).with_rank(1)
        (D, _), (Ddot, _) = complement.derivative(at.C, rates.C, at.mass, rates.mass, choice)
        np.testing.assert_allclose(D, W, atol=EXACT)
        np.testing.assert_allclose(Ddot, Wdot, atol=EXACT)
        np.testing.assert_allclose(D.T @ at.mass.blocks[0] @ D, np.eye(2), atol=EXACT)
    # (6.6) and (6.7): the third line is ẋ₃; u₂₀ has cos x₃ with ẋ₂₀
    form = da.formulations.Resolved(Riemannian().with_rank(1))
    u, memory = form.pack(system, 0.0, q, v)
    memory = type(memory)(choice, memory.scale)
    u = W.T @ at.mass.blocks[0] @ np.asarray(v)
    assert float(u[0]) == pytest.approx(mu1 * float(v[0]), abs=EXACT)
    corrected = mu1**2 / mu2 * RHO * np.cos(x3) * float(v[1]) + J_P / mu2 * float(v[2])
    printed = mu1**2 / mu2 * RHO * float(v[1]) + J_P / mu2 * float(v[2])
    assert float(u[1]) == pytest.approx(corrected, abs=EXACT) and abs(float(u[1]) - printed) > 1e-2
    _, back = form.unpack(system, 0.0, q, jnp.asarray(u), memory)
    np.testing.assert_allclose(back, [u[0] / mu1, RHO * u[1] * np.cos(x3) / mu2, u[1] / mu2], atol=EXACT)
    np.testing.assert_allclose(back, v, atol=EXACT)
    motion = form.motion(system, 0.0, q, jnp.asarray(u), memory, lambda e: e.Gamma)
    h = np.asarray(motion.equations.h)
    np.testing.assert_allclose(motion.wdot, [h[0] / mu1, (RHO * h[1] * np.cos(x3) + h[2]) / mu2], atol=1e-11)


# ---- 003 -----------------------------------------------------------------------------------------------------------


def test_003_projectors():
    """P_c and P_a are not symmetric (only M P_c and M P_a are); (21)–(23) hold."""
    system = four_bar("a")
    q, v = da.stabilise.consistent_state(system, (None, (1.0, 0.3, -0.4)))
    split = da.analysis.projectors(system, (q, None))
    M, P_a, P_c = (np.asarray(x) for x in (split.M, split.P_a, split.P_c))
    np.testing.assert_allclose(P_a @ P_a, P_a, atol=EXACT)
    np.testing.assert_allclose(P_a + P_c, np.eye(3), atol=EXACT)
    assert np.max(np.abs(P_a - P_a.T)) > 0.1 and np.max(np.abs(P_c - P_c.T)) > 0.1
    for P in (P_a, P_c):
        np.testing.assert_allclose(M @ P, (M @ P).T, atol=EXACT)
    np.testing.assert_allclose(P_a.T @ M @ P_c, 0.0, atol=EXACT)
    np.testing.assert_allclose(P_a.T @ M @ P_a, P_a.T @ M, atol=EXACT)
    r = np.asarray(da.formulations.Proximal().solve(da.assemble(system, 0.0, q, v)).r)
    np.testing.assert_allclose(P_a @ np.linalg.solve(M, r), 0.0, atol=1e-11)
    np.testing.assert_allclose(P_a.T @ r, 0.0, atol=1e-11)


# ---- 000, the same as expressions ----------------------------------------------------------------------------------


def example(case: str):
    """Examples 1 (a, b) and 2 (line-a, line-b) as SymPy expressions; complementary coordinates as in the paper."""
    sp = pytest.importorskip("sympy")
    from dalembert.symbolic import symbolic_complement

    t = sp.symbols("theta1:4")
    l1, l2, l3, a, b, alpha, c = sp.symbols("l1 l2 l3 a b alpha c", positive=True)
    x, y = sp.symbols("x y")
    X = l1 * sp.cos(t[0]) + l2 * sp.cos(t[1])
    Y = l1 * sp.sin(t[0]) + l2 * sp.sin(t[1])
    tip_x, tip_y = X + l3 * sp.cos(t[2]), Y + l3 * sp.sin(t[2])
    if case == "a":
        found = symbolic_complement(t, [tip_x - a, tip_y - b], [x, y], [x, y], complementary=[1])
    elif case == "b":
        g = [X - a + l3 * sp.cos(t[2]), Y - b - l3 * sp.sin(t[2])]
        found = symbolic_complement(t, g, [x, y], [x, y], complementary=[1])
    elif case == "line-a":
        f = [y - (x - c / sp.sin(alpha)) * sp.tan(alpha)]
        found = symbolic_complement(t, [tip_x, tip_y], f, [x, y], complementary=[1])
    else:
        g = [tip_x * sp.sin(alpha) - tip_y * sp.cos(alpha)]
        found = symbolic_complement(t, g, [x - c], [x], complementary=[1, 2])
    return sp, t, (l1, l2, l3, alpha), found


def printed(sp, case, t, symbols):
    """(25a), (25b), (33a), and (33b) as corrected; columns are directions."""
    l1, l2, l3, alpha = symbols
    t1, t2, t3 = t
    if case in ("a", "line-a"):
        second = [-l2 * sp.sin(t3 - t2) / (l1 * sp.sin(t3 - t1)), 1, -l2 * sp.sin(t2 - t1) / (l3 * sp.sin(t3 - t1))]
        if case == "a":
            return sp.Matrix([second]).T
        tan, below = sp.tan(alpha), sp.sin(t3 - t1)
        first = [(sp.cos(t3) + sp.sin(t3) * tan) / (l1 * below), 0, -(sp.cos(t1) + sp.sin(t1) * tan) / (l3 * below)]
        return sp.Matrix([first, second]).T
    if case == "b":
        below = sp.sin(t3 + t1)
        return sp.Matrix([[-l2 * sp.sin(t3 + t2) / (l1 * below), 1, -l2 * sp.sin(t2 - t1) / (l3 * below)]]).T
    c1, c2, c3 = (sp.cos(x - alpha) for x in t)
    return sp.Matrix([[-l2 * c2 / (l1 * c1), 1, 0], [-l3 * c3 / (l1 * c1), 0, 1]]).T


@pytest.mark.parametrize("case", ["a", "b", "line-a", "line-b"])
def test_000_symbolically(case):
    """All four D as expressions: the difference from the printed ones simplifies to zero."""
    sp, t, symbols, found = example(case)
    wanted = printed(sp, case, t, symbols)
    D = found.D
    if case == "line-a":  # D̂ is found up to its length; (29a) has a 1 first
        D = sp.Matrix.hstack(D[:, 0] / found.Dhat[0, 0], D[:, 1])
    numbers = dict(zip((*t, *symbols), (0.7, 0.3, -0.9, *L, ALPHA), strict=True))
    difference = (D - wanted).applyfunc(sp.simplify)
    assert difference == sp.zeros(*wanted.shape) or max(abs(float(e.subs(numbers))) for e in difference) < 1e-14
    assert max(abs(float(e.subs(numbers))) for e in found.C * found.D) < 1e-14
    assert "\\theta_{1}" in found.latex("D")


def test_symbols_become_a_system():
    """Expressions → FunctionSystem: the same D and accelerations as the hand-written functions."""
    _, t, symbols, found = example("a")
    import sympy as sp

    by_hand = four_bar("a")
    a, b = sp.symbols("a b", positive=True)
    values = dict(zip(symbols[:3], L, strict=True)) | {a: 1.9, b: 0.0}
    system = found.system(by_hand.functions[0], by_hand.functions[1], q0=by_hand.q0, parameters=values)
    q, v = da.stabilise.consistent_state(by_hand, (None, (1.0, 0.2, -0.3)))
    mine, other = (da.formulations.Proximal().solve(da.assemble(s, 0.0, q, v)).vdot for s in (system, by_hand))
    np.testing.assert_allclose(mine, other, atol=EXACT)
    assert len(t) == 3
