"""docs · what the pages say in numbers, made by the code: tables of papers/ and verification.md, the pages of api/.

    python docs/make_pages.py              all of it; some minutes
    python docs/make_pages.py api papers   some parts: api, papers, arm, verification

A table stands between `<!-- table NAME -->` and `<!-- end -->`. Numbers come from the helpers of the tests that hold
them, so page and test cannot part. A row says what was compared, what is printed, what the code gives, and how far
both are apart.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

EXACT = 1e-12  # rounding: closed forms of order one


class Row(NamedTuple):
    """Numbers (or words) side by side; `bar` is what they may be apart, in units of the last column."""

    what: str
    printed: object
    ours: object
    bar: float | None = None

    def line(self) -> str:
        shown = [_shown(x, self.bar) for x in (self.printed, self.ours)]
        return f"| {self.what} | {shown[0]} | {shown[1]} | {self.apart()} |"

    def apart(self) -> str:
        if self.bar is None:
            assert self.printed == self.ours, self
            return "none"
        off = float(np.max(np.abs(np.asarray(self.printed) - np.asarray(self.ours))))
        assert off < self.bar, (self, off)
        return f"< {self.bar:.0e}"


def _shown(x, bar) -> str:
    if isinstance(x, str | int):
        return str(x)
    digits = 3 if bar is not None and bar >= 1e-3 else 6
    # rounding first, and 0.0 added, so that no zero has a sign
    return ", ".join(f"{round(float(v), digits) + 0.0:.{digits}f}" for v in np.ravel(np.asarray(x)))


def table(rows: list[Row], second: str = "printed") -> str:
    head = [f"| | {second} | computed | apart |", "|---|---|---|---|"]
    return "\n".join([*head, *(r.line() for r in rows)])


def put(path: Path, name: str, text: str) -> None:
    """Put a table into its place on a page."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)
    assert pattern.search(page), f"{path.name} has no place for the table '{name}'"
    path.write_text(pattern.sub(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page))


def read(path: Path, name: str) -> str:
    """A table as it stands on a page."""
    found = re.search(rf"<!-- table {name} -->\n\n(.*?)\n\n<!-- end -->", path.read_text(), re.S)
    assert found, f"{path.name} has no table '{name}'"
    return found[1]


# ---- papers --------------------------------------------------------------------------------------------------------


def blajer_bestle_schiehlen() -> str:
    import jax.numpy as jnp
    import test_errata as e
    from _helpers_papers import four_bar, on_a_line

    Q, rows = e.Q, []
    for case, sign in (("a", -1), ("b", 1)):
        _, (D, _) = e.complement_at(four_bar(case), Q, [1])
        rows.append(Row(f"(25{case}): D of the four-bar, case {case}", e.d_25(Q, sign), D[:, 0], EXACT))
    _, (D, _) = e.complement_at(on_a_line("a", True), Q, [1])
    rows += [Row(f"(33a): D, row {k + 1}", e.d_33a(Q)[:, k], D[:, k], EXACT) for k in (0, 1)]
    at, (D, _) = e.complement_at(on_a_line("b"), Q, [1, 2])
    good = e.d_33b(Q, -1)
    wrong = float(np.max(np.abs(at.C @ e.d_33b(Q, +1))))
    rows.append(Row("(33b): D, row 1", good[:, 0], D[:, 0], EXACT))
    rows.append(Row("(33b): D, row 2, its sign corrected", good[:, 1], D[:, 1], EXACT))
    rows.append(Row("C D with (33b) corrected", np.zeros(2), (at.C @ good)[0], EXACT))
    at = e.matrices(on_a_line("a"), 0.0, Q)
    Jp = jnp.concatenate([at.local.J, jnp.array([[0.0, 1.0, 0.0]])])
    lam = jnp.array([1.7])
    r = at.C.T @ lam
    local = jnp.append(at.local.Chat.T @ lam, 0.0)
    rows.append(Row("(37) corrected: J'⁻ᵀr against Ĉᵀλ, λ = 1.7", local, jnp.linalg.solve(Jp.T, r), EXACT))
    return table(rows) + f"\n| C D with (33b) as printed, largest entry | 0 | {wrong:.3f} | erratum |"


def blajer() -> str:
    import jax.numpy as jnp
    import test_errata as e
    from _helpers_papers import J_P, RHO, sliding_pendulum

    import dalembert as da
    from dalembert.complements import Choice, Riemannian, projected_units
    from dalembert.equations import matrices
    from dalembert.linalg import BlockMass

    system = sliding_pendulum()
    q, v = da.stabilise.consistent_state(system)
    W, Wdot, mu1, mu2 = e.section_6(float(q[2]), float(v[2]))
    choice = Choice(jnp.eye(3)[:, jnp.array([0, 2])], None, jnp.ones(()))
    at = matrices(system, 0.0, q)
    rates = at.rates(system, 0.0, q, v)
    (D, _), (Ddot, _) = Riemannian().with_rank(1).derivative(at.C, rates.C, at.mass, rates.mass, choice)
    rows = [Row(f"(6.4): W_d, column {k + 1}", W[:, k], D[:, k], EXACT) for k in (0, 1)]
    rows.append(Row("(6.5): Ẇ_d, column 2", Wdot[:, 1], Ddot[:, 1], EXACT))
    form = da.formulations.Resolved(Riemannian().with_rank(1))
    _, memory = form.pack(system, 0.0, q, v)
    memory = type(memory)(choice, memory.scale)
    x3 = float(q[2])
    u = np.array([mu1 * v[0], mu1**2 / mu2 * RHO * np.cos(x3) * v[1] + J_P / mu2 * v[2]])
    found = np.asarray(D).T @ np.asarray(at.mass.blocks[0]) @ np.asarray(v)
    rows.append(Row("(6.7): u₀, with cos x₃", u, found, EXACT))
    motion = form.motion(system, 0.0, q, jnp.asarray(u), memory, lambda e: e.Gamma)
    h = np.asarray(motion.equations.h)
    wanted = [h[0] / mu1, (RHO * h[1] * np.cos(x3) + h[2]) / mu2]
    rows.append(Row("(6.6): u̇", wanted, motion.wdot, 1e-11))
    back = form.unpack(system, 0.0, q, jnp.asarray(u), memory)[1]
    rows.append(
        Row("(6.6): ẋ, third line for ẋ₃", [u[0] / mu1, RHO * u[1] * np.cos(x3) / mu2, u[1] / mu2], back, EXACT)
    )
    # section 5, the counter-example
    C = jnp.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    mass = BlockMass(jnp.eye(4)[None], jnp.eye(4)[None])
    sines = jnp.linalg.norm(projected_units(C, mass), axis=1)
    rows.append(Row("(5.5) on the counter-example: cos α", np.full(4, np.sqrt(0.5)), jnp.sqrt(1 - sines**2), EXACT))
    ranks = [
        int(np.linalg.matrix_rank(np.hstack([C.T, Riemannian(way).with_rank(2).choose(C, mass).E])))
        for way in ("one-shot", "greedy")
    ]
    rows.append(Row("rank [Cᵀ E] of the k smallest cosines (4 is needed)", "3", str(ranks[0])))
    rows.append(Row("rank [Cᵀ E] chosen greedily", "4", str(ranks[1])))
    return table(rows, "closed form")


def gutierrez_lopez() -> str:
    import test_rules as t
    from test_units import MILLI, converted

    import dalembert as da
    from dalembert.reactions import joint_wrenches

    rows = []
    # plain minimum norm in metres and millimetres; published nowhere, the two numbers are the reference's
    for unit, model, force, wanted in (
        ("metres", da.mechanism("door-two-hinges", swing=0.0), 1.0, 11.77),
        ("millimetres", None, MILLI.mass * MILLI.length, 32.70),
    ):
        here = t.Instant(model or converted(da.mechanism("door-two-hinges", swing=0.0), MILLI))
        lam = np.linalg.lstsq(here.C.T, here.r, rcond=1e-12)[0]
        Fx = abs(float(joint_wrenches(here.system, here.equations, lam).joint_force[0, 0])) / force
        rows.append(Row(f"plain minimum norm of λ, a door on two hinges, in {unit}: Fx, N", wanted, Fx, 5e-3))
    # equal legs of a table share the load as springs under a plate do
    here = t.Instant(da.mechanism("table", speed=0.0))
    for k in ((1.0, 1.0, 1.0, 1.0), (1.0, 2.0, 5.0, 0.5)):
        found = here.wrenches(da.reactions.Weighted({f"leg{i + 1}": {"Fz": x} for i, x in enumerate(k)}))
        wanted = t.legs((0.6, 0.4), (0.15, 0.05), np.array(k), 20.0 * 9.81)
        words = ", ".join(f"{x:g}" for x in k)
        rows.append(
            Row(f"a table on four springs {words}: N", wanted, [found[f"leg{i + 1}"][2] for i in range(4)], 1e-8)
        )
    out = table(rows, "expected")
    for name in ("two balls", "two hinges"):
        here = t.machine(name)
        k = t.random_stiffness(here.model)
        ours = here.wrenches(da.reactions.Weighted(k))
        for s in (1e-1, 1.0):
            off = t.gap(ours, t.bushing_wrenches(here, k, s), float(here.system.size))
            what = f"door on {name}, bushings {s:g}·k: difference from the weighted rule, of the largest force"
            out += f"\n| {what} | 0 for s → ∞ | {off:.0e} | |"
    return out


def kovecses_piedboeuf() -> str:
    """(17)–(24) on the four-bar of three angles."""
    from _helpers_papers import four_bar

    import dalembert as da

    system = four_bar("a")
    q, v = da.stabilise.consistent_state(system, (None, (1.0, 0.3, -0.4)))
    split = da.analysis.projectors(system, (q, None))
    M, P_a, P_c = (np.asarray(x) for x in (split.M, split.P_a, split.P_c))
    r = np.asarray(da.formulations.Proximal().solve(da.assemble(system, 0.0, q, v)).r)
    wild = np.array([0.3, -1.2, 0.7])
    parts = da.analysis.split_motion(system, (q, wild))
    rows = [
        Row("P_a + P_c − I, largest entry", 0.0, np.max(np.abs(P_a + P_c - np.eye(3))), EXACT),
        Row("P_aᵀM P_c, largest entry", 0.0, np.max(np.abs(P_a.T @ M @ P_c)), EXACT),
        Row("(24): T of a velocity, and of its two parts together, J", 0.5 * wild @ M @ wild,
            parts.energy_admissible + parts.energy_constrained, EXACT),
        Row("P_aᵀr, N m: no reaction in the admissible directions", 0.0, np.max(np.abs(P_a.T @ r)), 1e-11),
        Row("M P_a − (M P_a)ᵀ, largest entry", 0.0, np.max(np.abs(M @ P_a - (M @ P_a).T)), EXACT),
    ]  # fmt: skip
    text = table(rows)
    off = float(np.max(np.abs(P_a - P_a.T)))
    return text + f"\n| below (17): P_a − P_aᵀ, largest entry; P_a itself is not symmetric | 0 | {off:.3f} | erratum |"


def wojtyra_fraczek() -> str:
    import test_solvability as t

    from dalembert.analysis import b_matrices

    found = t.checked("mobile-robot")
    rows = [
        Row("(35): rank Φ_q", "17", str(found.rank_holonomic)),
        Row("(35): rank Ψ", "4", str(found.rank_nonholonomic)),
        Row("(35): rank C", "20", str(found.rank)),
        Row("(36): p", "2", str(found.redundancy)),
        Row("rows of C × columns", "22 × 21", f"{found.m} × {found.n}"),
    ]
    _, equations, joints = t.start("mobile-robot")
    C, _ = t.matrices(equations)
    B = b_matrices(C, {j.name: j.rows for j in joints})
    none = np.zeros((21, 2))
    for x, rows_of in (("B", (1, 2, 4)), ("C", (1, 2, 7)), ("W1", (4,)), ("W2", (7,)), ("W3", (1,)), ("W4", (1,))):
        printed = np.linalg.norm(t.PRINTED[x], axis=1)[list(rows_of)]
        ours = np.linalg.norm(B[x], axis=1)[list(rows_of)]
        rows.append(Row(f"(38): B of {x}, lengths of its nonzero rows", printed, ours, 1e-3))
    worst = max(
        float(np.max(np.abs(B[x] @ B[y].T - t.PRINTED.get(x, none) @ t.PRINTED.get(y, none).T))) for x in B for y in B
    )
    rows.append(Row("(38): B_X B_Yᵀ of all 14 × 14 pairs, largest difference", 0.0, worst, 1e-3))
    unique = [j.name for j in found.solvability.joints if j.unique]
    rows.append(Row("unique", "A, D, E, F, G, H, driver, W5", ", ".join(unique).replace("drive", "driver")))
    others = [j.name for j in found.solvability.joints if not j.unique]
    rows.append(Row("not unique", "B, C, W1, W2, W3, W4", ", ".join(others)))
    return table(rows)


PAPERS = {
    "blajer_bestle_schiehlen": blajer_bestle_schiehlen,
    "blajer": blajer,
    "gutierrez_lopez": gutierrez_lopez,
    "kovecses_piedboeuf": kovecses_piedboeuf,
    "wojtyra_fraczek": wojtyra_fraczek,
}


def papers() -> None:
    for name, make in PAPERS.items():
        put(HERE / "papers" / f"{name}.md", name, make())
        print(name, flush=True)


def arm() -> None:
    """Canadarm2 for 80 s, without and with corrections [Kövecses, Piedbœuf 2003, figures 3–6]."""
    put(HERE / "papers" / "kovecses_piedboeuf.md", "arm", arm_table())


def arm_table() -> str:
    import test_canadarm as t

    import dalembert as da

    tree = da.build(da.mechanism("canadarm2"), coordinates="joint", cut=["tip"])
    runs = [
        da.simulate(tree, 80.0, stabilisation=how, dt=0.2, **t.STEPS)
        for how in (da.stabilise.NoStabilisation(), t.TWICE)
    ]
    (gap, speed), (gap2, speed2) = (map(np.max, t.tip_violations(run)) for run in runs)
    size = f"{tree.n - tree.m}, {tree.m}"
    drift = "figures 3, 4: nothing corrected; distance at the tip, m, and its rate, m/s"
    lines = [
        Row("degrees of freedom, constrained ones", "10, 3", size).line(),
        f"| {drift} | visible from 25 s on | {gap:.0e}, {speed:.0e} | other loads |",
        f"| figures 5, 6: two corrections, one filter | 1e-14 … 1e-15 | {gap2:.0e}, {speed2:.0e} | |",
    ]
    return "\n".join(["| | printed | computed | apart |", "|---|---|---|---|", *lines])


# ---- verification --------------------------------------------------------------------------------------------------


class Published(NamedTuple):
    """A published number beside ours; `bar` is the test's, relative to `size`."""

    what: str
    published: str
    ours: float
    bar: float
    size: float = 1.0

    def line(self) -> str:
        off = abs(float(self.published) - self.ours) / self.size
        assert off < self.bar, (self, off)
        digits = max(4, len(self.published.split("e")[0].replace("-", "").replace(".", "").lstrip("0")))
        return f"| {self.what} | {self.published} | {self.ours:#.{digits}g} | {off:.2e} | {self.bar:.3g} |"


def literals(module, name: str) -> dict[str, list[str]]:
    """A dictionary of lists of numbers as it is written in a test, digit by digit: a float would round the last one."""
    source = Path(module.__file__).read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            assert isinstance(node.value, ast.Dict)
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {ast.literal_eval(k): [ast.get_source_segment(source, x) for x in v.elts] for k, v in pairs}
    raise KeyError(name)


def andrews_rows() -> list[Published]:
    import test_references_andrews as t

    found = t.andrews_from_bodies()
    digits = literals(t, "ANDREWS")
    out = []
    names = {"q": "q", "qd": "q̇", "qdd": "q̈", "lam": "λ"}
    for key, word in names.items():
        for k, x in enumerate(t.ANDREWS[key]):
            out.append(
                Published(f"{word}{k + 1}", digits[key][k], float(found[key][-1][k]), t.ANDREWS_BARS[key], abs(x))
            )
    return out


def pendulum_rows() -> list[Published]:
    import test_references_iftomm as t

    import dalembert as da

    data = t.table("iftomm_a01_pendulum")
    rows = np.array(data["first_100_s"] + data["to_2000_s"])
    solution = da.simulate(da.mechanism("pendulum"), 2000.0, samples=rows[:, 0], **t.TIGHT)
    ours = t.places(solution)[:, 0, :2]
    out = []
    for time, bar in ((10.0, 1e-5), (100.0, 1e-5), (1000.0, 1e-3), (2000.0, 1e-3)):
        k = int(np.argmin(np.abs(rows[:, 0] - time)))
        for axis, name in enumerate("xy"):
            out.append(Published(f"{name} at {rows[k, 0]:g} s, m", f"{rows[k, 1 + axis]:g}", float(ours[k, axis]), bar))
    return out


def row_of_four_bars() -> list[Published]:
    import test_references_iftomm as t

    import dalembert as da

    rows = np.array(t.table("iftomm_a02_n_four_bar_40")["table"])
    run = {"integrator": "tsit5", "rtol": 1e-10}
    solution = da.simulate(da.mechanism("n-four-bar", N=40), 20.0, samples=rows[:, 0], **run)
    ours = 2 * t.places(solution)[:, 0, :2]
    out = []
    for time in (5.0, 10.0, 15.0, 20.0):
        k = int(np.argmin(np.abs(rows[:, 0] - time)))
        for axis, name in enumerate("xy"):
            out.append(
                Published(f"{name} at {rows[k, 0]:g} s, m", f"{rows[k, 1 + axis]:g}", float(ours[k, axis]), 1e-5)
            )
    return out


def bicycle_rows() -> list[Published]:
    import test_mechanisms as t

    found = t.bicycle_eigenvalues(5.0)
    out = []
    for x in t.AT_5:
        near = found[int(np.argmin(np.abs(found - x)))]
        name = "weave" if x.imag else ("capsize" if abs(x) < 1 else "caster")
        out.append(Published(f"{name}, real part, 1/s", f"{x.real:.14f}", float(near.real), t.UPRIGHT, abs(x)))
        if x.imag:
            out.append(Published(f"{name}, imaginary part", f"{x.imag:.14f}", float(abs(near.imag)), t.UPRIGHT, abs(x)))
    return out


def adams_table() -> str:
    import test_references_adams as t

    import dalembert as da

    lines = ["| case | largest difference in position, m | in force, N | largest force, N |", "|---|---|---|---|"]
    for case, (make, _) in t.ADAMS.items():
        recorded = {k: np.array(x) for k, x in t.table("adams")["cases"][case].items()}
        solution = da.simulate(make(), 5.0, **t.ADAMS_RUN)
        position = solution.dataset.sel(body="part")["position"].values
        force, _ = t.reaction_on_ground(case, solution)
        gaps = np.max(np.abs(position - recorded["pos"])), np.max(np.abs(force - recorded["rforce"]))
        lines.append(f"| {case} | {gaps[0]:.0e} | {gaps[1]:.0e} | {np.max(np.abs(recorded['rforce'])):.1f} |")
        print(case, flush=True)
    return "\n".join(lines)


VERIFIED = {
    "andrews": andrews_rows,
    "pendulum": pendulum_rows,
    "n-four-bar": row_of_four_bars,
    "bicycle": bicycle_rows,
}
HEAD = ["| | published | ours | difference | bar of the test |", "|---|---|---|---|---|"]


def verification() -> None:
    page = HERE / "verification.md"
    for name, make in VERIFIED.items():
        put(page, name, "\n".join([*HEAD, *(r.line() for r in make())]))
        print(name, flush=True)
    put(page, "adams", adams_table())


# ---- API -----------------------------------------------------------------------------------------------------------

ROOMS = {
    "model": ("Models", "what the machine is"),
    "io": ("Files", "model files, robot files, results as files"),
    "mechanisms": ("Built-in mechanisms", "machines to start from"),
    "systems": ("Systems", "the machine in coordinates"),
    "symbolic": ("Expressions", "complements as SymPy expressions"),
    "equations": ("Equations", "M, h, C, b and Γ at one instant"),
    "complements": ("Complements", "bases of the velocities that the constraints allow"),
    "formulations": ("Formulations", "accelerations and constraint forces"),
    "stabilise": ("Stabilisation", "keeping the constraints; consistent starts"),
    "reactions": ("Reactions", "joint forces, and the rules that pick those that are not unique"),
    "simulation": ("Simulation", "marching in time: a motion and how it ended"),
    "results": ("Results", "what follows from a motion: labels, reactions, uniqueness, files"),
    "analysis": ("Analysis", "questions about a machine or a motion"),
    "studies": ("Studies", "many machines: studies that survive, the best design, parameters from data"),
    "reports": ("Reports", "pages and pictures of a machine and its motion"),
    "functions": ("Functions of time", "motions of drivers and laws of forces as data"),
    "errors": ("Errors and warnings", "what can go wrong"),
}
"""The rooms that have a page, in the order in which data flows. Names come from each room's `__all__`."""
LISTED = ("Model", "Solution")
"""Classes whose methods are listed, too."""


def api() -> None:
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    pages = api_pages()
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text)


def api_pages() -> dict[str, str]:
    """Page by page of docs/api: the rooms, and for each of them its names in a table; mkdocstrings adds the details."""
    import dalembert as da

    out = {f"{file_of(room)}.md": room_page(room, title, text) for room, (title, text) in ROOMS.items()}
    missing = {h.removeprefix("dalembert.") for h in da._HOMES.values()} - set(ROOMS)
    assert not missing, f"no page for {missing}"
    lines = [
        "# API",
        "",
        "One page for each room of the package, in the order in which data flows. After `import dalembert as da` the",
        "names in the second column are there as `da.NAME`; the others are used as `da.ROOM.NAME`. Symbols are",
        "those of the [notation](../theory/README.md).",
        "",
        "| room | names of `da` | |",
        "|---|---|---|",
    ]
    for room, (title, text) in ROOMS.items():
        names = ", ".join(f"`{n}`" for n in front_door(room))
        lines.append(f"| [{title}]({file_of(room)}.md) | {names} | {text} |")
    return {"README.md": "\n".join(lines) + "\n"} | out


def room_page(room: str, title: str, text: str) -> str:
    module = importlib.import_module(f"dalembert.{room}")
    first = front_door(room)
    others = [
        n for n in getattr(module, "__all__", ()) if n not in first and (inspect.getdoc(getattr(module, n)) or "")
    ]
    others = [n for n in others if inspect.isclass(getattr(module, n)) or inspect.isfunction(getattr(module, n))]
    lines = [f"# {title}", "", f"{text[0].upper()}{text[1:]}.", ""]
    tables = {"da": {n: summary_of(getattr(module, n)) for n in first}}
    tables |= {n: members_of(getattr(module, n)) for n in first if n in LISTED}
    tables[f"da.{room}"] = {n: summary_of(getattr(module, n)) for n in others}
    for prefix, rows in tables.items():
        if rows:
            path = f"{room}.{prefix}" if prefix in LISTED else room
            lines += [f"| `{prefix}.` | |", "|---|---|"]
            made = {n: getattr(getattr(module, prefix), n) for n in rows} if prefix in LISTED else {}
            anchors = {n: anchor_of(made.get(n), f"dalembert.{path}.{n}") for n in rows}
            lines += [f"| [`{n}`](#{anchors[n]}) | {summary} |" for n, summary in rows.items()]
            lines.append("")
    lines += ["## In detail", ""]
    for name in (*first, *others):
        lines += [
            f"::: dalembert.{room}.{name}",
            "    options:",
            f"      inherited_members: {str(name in LISTED).lower()}",
            "",
        ]
    return "\n".join(lines)


def anchor_of(member, usual: str) -> str:
    """A method of `Model` that adds an element is described by the element's class."""
    element = getattr(member, "element", None)
    return usual if element is None else f"dalembert.model.{element.__name__}"


def front_door(room: str) -> list[str]:
    import dalembert as da

    return [n for n, home in da._HOMES.items() if home == f"dalembert.{room}"]


def file_of(room: str) -> str:
    return room


def summary_of(thing) -> str:
    """The first sentence of its docstring, on one line."""
    text = inspect.getdoc(thing) if not isinstance(thing, int | float | str) else ""
    sentence = re.split(r"(?<=[.?])\s", " ".join((text or "").split("\n\n")[0].split()))[0]
    return (sentence or f"= {thing!r}").replace("|", "\\|")


def members_of(cls) -> dict[str, str]:
    """Public methods and properties with a docstring, in the order of the source; what is inherited comes first."""
    out = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, member in vars(base).items():
            plain = inspect.isfunction(member) or isinstance(member, property | functools.cached_property)
            if plain and not name.startswith("_") and inspect.getdoc(member):
                out[name] = summary_of(member)
    return out


def main(parts: list[str]) -> None:
    warnings.simplefilter("ignore")  # redundancy is the subject of several tables
    known = {"api": api, "papers": papers, "arm": arm, "verification": verification}
    for part in parts or known:
        if part not in known:
            raise SystemExit(f"There is no part '{part}'; there are {', '.join(known)}.")
        known[part]()


@functools.cache
def quick(name: str) -> str:
    """The table of a paper, once a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PAPERS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
