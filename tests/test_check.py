"""`check`: singular pose or redundancy, contradictions with their names, the motion, large models, text and JSON."""

from __future__ import annotations

import dataclasses
import io
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from _helpers_cli import in_process
from _helpers_thorough import everyday

import dalembert as da
from dalembert.mechanisms import find


def pose(model, turns) -> tuple[np.ndarray, np.ndarray]:
    """A state of a model in the plane from (x, y, θ) of each body."""
    q = np.array([turns[name] for name in model.bodies], float).ravel()
    return q, np.zeros(len(q))


# ---- singular pose or redundancy -----------------------------------------------------------------------------------


def n_four_bar_in_line(N):
    """All rods of the IFToMM N-four-bar along x: rocker i from (i, 0) to (i + 1, 0), coupler i from there on."""
    model = da.mechanism("n-four-bar", N=N)
    turns = {f"rocker{i}": (i + 0.5, 0, 0) for i in range(N + 1)}
    turns |= {f"coupler{i}": (i + 1.5, 0, 0) for i in range(N)}
    return model, pose(model, turns)


@pytest.mark.parametrize("N", [1, 3])
def test_n_four_bar_in_line_is_singular_not_redundant(N):
    """Each of the N loops loses one row when its rods are in line; beside that pose all 4N + 2 + … rows count."""
    model, state = n_four_bar_in_line(N)
    found = da.check(model, state)
    assert found.singular and found.redundancy == 0 and found.mobility == 1
    assert found.rank == found.m == 2 * (3 * N + 1) and found.rank_here == found.m - N
    assert all(j.unique for j in found.solvability.joints)
    # values are those of a neighbour, or of a rule: none is given
    assert not any(j.values for told in (found.solvability, found.solvability_here) for j in told.joints)
    # in the pose itself the reactions along the line are open
    here = found.solvability_here
    assert here is not None and {j.name for j in here.joints if not j.unique} == {j.name for j in here.joints}
    text = str(found)
    assert "this pose is singular" in text and "nearly redundant" not in text and "beside this pose" in text
    assert found.singular_values[found.rank_here] < 1e-12 < found.singular_values[found.rank_here - 1]


def test_four_bar_in_line_is_singular_not_redundant():
    """A Grashof four-bar with crank + ground = coupler + rocker (1 + 3 = 2 + 2) folds flat: its change point."""
    model = da.Model("change point", gravity=(0, -9.81))
    rods = [("crank", 0, 1), ("coupler", 1, 3), ("rocker", 3, 5)]
    bodies = [model.body(n, mass=1.0, inertia=0.1, position=((a + b) / 2, 0)) for n, a, b in rods]
    around = [model.ground, *bodies, model.ground]
    for name, x, k in (("A", 0, 0), ("B", 1, 1), ("C", 3, 2), ("D", 5, 3)):
        model.revolute(name, around[k], around[k + 1], at=(x, 0))
    # stretched out: 1 + 2 + 2 = 5: this one cannot move at all, and is still no redundancy of a moving machine
    stretched = da.check(model)
    assert stretched.rank_here == 7 and stretched.beside == 0
    folded = da.Model("change point", gravity=(0, -9.81))
    rods = [("crank", 0, 1), ("coupler", 1, 3), ("rocker", 3, 1.0)]
    bodies = [folded.body(n, mass=1.0, inertia=0.1, position=((a + b) / 2, 0)) for n, a, b in rods]
    around = [folded.ground, *bodies, folded.ground]
    for name, x, k in (("A", 0, 0), ("B", 1, 1), ("C", 3, 2), ("D", 1, 3)):
        folded.revolute(name, around[k], around[k + 1], at=(x, 0))
    found = da.check(folded)
    assert found.singular and (found.rank_here, found.rank, found.redundancy, found.mobility) == (7, 8, 0, 1)


def test_bricard_is_redundant_not_singular():
    """IFToMM A04: exactly one redundant equation, at the start and beside it, and no particular one."""
    found = da.check(da.mechanism("bricard"))
    assert not found.singular and (found.redundancy, found.mobility, found.gruebler) == (1, 1, 0)
    assert found.beside == 2
    (group,) = found.solvability.groups
    assert len(group.joints) == 6  # all of them


def slider_crank_at_dead_centre(driven_joint: str):
    """Crank and rod in line with the guide; the driver on the crank (regular) or on the slider (singular)."""
    model = da.Model("dead centre", gravity=(0, -9.81))
    arm = model.body("crank", mass=1.0, inertia=0.1, position=(0.25, 0))
    link = model.body("rod", mass=1.0, inertia=0.1, position=(1.1, 0))
    slider = model.body("slider", mass=1.0, inertia=0.1, position=(1.7, 0))
    model.revolute("main", model.ground, arm, at=(0, 0))
    model.revolute("big_end", arm, link, at=(0.5, 0))
    model.revolute("small_end", link, slider, at=(1.7, 0))
    model.prismatic("guide", model.ground, slider, at=(1.7, 0), axis=(1, 0))
    model.driver("motor", driven_joint, lambda t: -0.1 * t**2 if driven_joint == "guide" else t)
    return model


def test_slider_crank_at_dead_centre():
    """Driven at the crank the pose is regular; at the slider the crank is free there: singular, not redundant."""
    found = da.check(slider_crank_at_dead_centre("main"))
    assert not found.singular and (found.rank, found.redundancy, found.mobility) == (9, 0, 0)
    found = da.check(slider_crank_at_dead_centre("guide"))
    assert found.singular and (found.rank_here, found.rank, found.redundancy) == (8, 9, 0)


# ---- contradictions ------------------------------------------------------------------------------------------------


def longer(model: da.Model, joint: str, by: float) -> da.Model:
    """The same model with the body of a joint's first marker longer: its marker moved out by a share `by`."""
    c = model.constraints[joint]
    first = dataclasses.replace(c.markers[0], position=c.markers[0].position * (1 + 2 * by))  # from the middle
    model.constraints[joint] = dataclasses.replace(c, markers=(first, c.markers[1]))
    return model


LOOPS = {  # the joint at the end of the longer link, and who shares the gap
    "scott-russell": ("middle", {"centre", "middle", "pin_x", "pin_y", "guide_x", "guide_y"}),
    "bennett": ("R3", {"R1", "R2", "R3", "R4"}),
    "parallelogram": ("pin3", {f"{word}{k}" for word in ("foot", "pin") for k in (1, 2, 3)}),
}


@pytest.mark.parametrize("name", everyday(LOOPS, ("scott-russell", "parallelogram")))
def test_a_link_one_per_cent_too_long_is_told_with_names_and_residual(name):
    """Scott-Russell's rod has its middle at 1 m from the origin in every position: a crank of 1.01 m never fits.

    Bennett's loop closes only if a/sin α = b/sin β; three cranks under one coupler only if they are equal (or nearly in
    line, far from here)."""
    joint, sharing = LOOPS[name]
    model = longer(da.mechanism(name), joint, 0.01)
    found = da.check(model)
    assert not found.consistent
    (c,) = found.contradictions
    assert c.level == "positions" and set(c.joints) == sharing
    # 10 mm too much on 1 m, shared by all joints: millimetres in each
    assert 5e-4 < max(abs(t.coefficient) for t in c.terms) < 1e-2 and 1e-4 < c.residual < 1e-2
    assert "contradict each other" in str(found)
    with pytest.raises(da.errors.AssemblyError, match=f"cannot be assembled.*'{joint}'|cannot be assembled"):
        da.simulate(model, 1.0)


def ahead(t, p):
    """One function for all, so that one program serves: a motion t, and what the second driver is ahead of it."""
    return t + p["angle"] + p["rate"] * t + p["acceleration"] * t**2 / 2


def two_drivers(angle=0.0, rate=0.0, acceleration=0.0) -> da.Model:
    model = da.Model("two drivers")
    arm = model.body("arm", mass=1.0, inertia=1.0, position=(1.0, 0.0))
    model.revolute("A", model.ground, arm, at=(0, 0))
    given = {"angle": angle, "rate": rate, "acceleration": acceleration}
    model.driver("first", "A", ahead, parameters=dict.fromkeys(given, 0.0))
    model.driver("second", "A", ahead, parameters=given)
    return model


@pytest.mark.parametrize(
    ("second", "level", "size"),
    [
        ({"angle": 0.1}, "positions", 0.05),  # they meet halfway
        ({"rate": 0.5}, "velocities", 0.25),
        ({"acceleration": 0.8}, "accelerations", 0.4),
    ],
)
def test_drivers_that_disagree_are_named(second, level, size):
    """In angle, in rate, in acceleration: each is open by half of what they differ by."""
    found = da.check(two_drivers(**second))
    assert [c.level for c in found.contradictions] == [level]
    (c,) = found.contradictions
    assert c.joints == ("first", "second")
    assert [abs(t.coefficient) for t in c.terms] == pytest.approx([size, size], rel=1e-6)
    with pytest.raises(da.errors.DalembertError, match="first|second"):
        da.simulate(two_drivers(**second), 1.0)


def test_drivers_that_agree_are_redundant():
    found = da.check(two_drivers())
    assert found.consistent and found.redundancy == 1
    assert str(found.solvability.groups[0]) == "Mz of first with Mz of second"


def test_nonholonomic_contradiction():
    """Four driven wheels of which one motor is too fast by 0.05 m/s: the velocities contradict, all four take part."""
    model = da.mechanism("omni-robot")
    fast = model.constraints["wheel2"]
    fast.numbers["speed"] = np.asarray(0.25)
    found = da.check(model)
    (c,) = found.contradictions
    assert c.level == "velocities" and set(c.joints) == {f"wheel{k}" for k in (1, 2, 3, 4)}
    with pytest.raises(da.errors.AssemblyError, match="wheel"):
        da.simulate(model, 1.0)


# ---- at a state, along a motion ------------------------------------------------------------------------------------


def test_check_along_a_motion_finds_where_the_rank_falls():
    """The N-four-bar upright passes its singular pose at 0.7084 s (closed form of IFToMM A02, tested elsewhere)."""
    solution = da.simulate(da.build(da.mechanism("n-four-bar", N=1)), 1.0)
    found = da.check(solution)
    assert found.motion is not None and found.motion.ranks == (7, 8)
    (p,) = found.motion.singular_positions
    assert p.t == pytest.approx(0.7084, abs=1e-3) and not found.singular
    # and the state there is told to be singular when asked for
    assert da.check(solution.system, solution.at(p.t), t=p.t, reactions=False).mobility == 1


def test_rheonomic_redundant_machine_at_another_time():
    system = da.build(da.mechanism("spatial-slider-crank"))
    for t in (0.0, 0.3):
        found = da.check(system, t=t)
        assert (found.redundancy, found.singular) == (3, False)
        assert found.unique("motor") and found.unique("main", "Fx") and not found.unique("main", "Fz")


# ---- large models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [40, 200])
def test_large_models(N):
    """1202 rows for N = 200, by a sparse certificate of full rank; for times see benchmarks/large_check.py."""
    found = da.check(da.mechanism("n-four-bar", N=N))
    assert (found.redundancy, found.mobility, found.rank) == (0, 1, found.m) and found.m == 2 * (3 * N + 1)
    assert len(found.solvability.joints) == 3 * N + 1 and all(j.unique for j in found.solvability.joints)


# ---- text and JSON -------------------------------------------------------------------------------------------------


def test_text_is_short_and_says_the_main_things():
    text = str(da.check(da.mechanism("door-two-hinges", swing=0.0)))
    assert len(text.splitlines()) < 30 and max(map(len, text.splitlines())) < 140
    for words in (
        "1 degree of freedom; n = 6 velocities, m = 10 constraint rows, rank 5",
        "redundant: 5 of the 10 rows (counting joints gives -4 degrees of freedom)",
        "Fz(top) + Fz(bottom) = 98.1",
        "My of top with My of bottom",
        "to make it non-redundant, free:",
        "below 1e-08 of the largest is zero",
    ):
        assert words in text


def test_colours_are_for_terminals():
    from rich.console import Console

    out = io.StringIO()
    found = da.check(da.mechanism("door-two-balls"))
    Console(file=out, force_terminal=True, color_system="standard", width=100).print(found)
    assert "\x1b[" in out.getvalue() and "\x1b[" not in str(found)


def test_json_has_everything():
    found = json.loads(in_process("check", "door-two-balls", "--json").stdout)
    assert found["redundancy"] == 1 and found["consistent"] and not found["singular"]
    reactions = {r["joint"]: r for r in found["reactions"]}
    assert reactions["top"]["components"] == {"Fx": True, "Fy": True, "Fz": False}
    assert set(reactions["top"]["methods"]) == {"ranks", "singular values", "qr"}
    assert found["unique_sums"][0]["value"] == pytest.approx(98.1)
    assert [t["joint"] for t in found["dependent_groups"][0]] == ["top", "bottom"]
    assert found["releases"] == [{"joint": "bottom", "directions": ["Fz"], "becomes": "leaves a ball in a groove"}]
    assert {"tolerance", "smallest_singular_values", "rank_holonomic", "gruebler"} <= set(found)


def test_command_line_at_a_time_and_along_the_motion():
    at = in_process("check", "door-two-balls", "--at", "0.5")
    assert at.returncode == 0 and "Fz(top) + Fz(bottom) = 98.1" in at.stdout
    along = json.loads(in_process("check", "n-four-bar", "--motion", "--json").stdout)
    assert along["motion"]["ranks"] == [7, 8] and len(along["motion"]["singular_positions"]) > 5
    wrong = in_process("check", "door-two-balls", "--at", "-1")
    assert wrong.returncode == 2 and "the motion begins at 0" in wrong.stderr


def test_a_state_beside_the_start():
    """A four-bar turned elsewhere: the same structure, the values of that pose."""
    entry = find("four-bar")
    system = da.build(entry.model())
    q = np.array(system.q0)
    q[2] += 0.4
    found = da.check(system, (q, np.zeros(9)), t=0.0)
    assert (found.redundancy, found.mobility, found.singular) == (0, 1, False)
    assert math.isfinite(found.solvability.joint("A").values["Fx"])


def test_time_in_users_rows_is_noticed():
    """A user's row that moves with time is let go when neighbours are sought, like a driver."""
    model = da.Model("moving rail", gravity=(0, -9.81))
    arm = model.body("arm", mass=1.0, inertia=0.1, position=(1.0, 0.0))
    model.revolute("A", model.ground, arm, at=(0, 0))
    # the arm's tip may reach the rail x = 2 only stretched out: singular there, regular beside
    model.holonomic("rail", [arm], lambda t, f: (f[0].point(jnp.array([1.0, 0.0]))[0] - 2.0 + 0.1 * t**2)[None])
    found = da.check(model)
    assert found.singular and (found.rank_here, found.rank) == (2, 3)


# ---- what is free, and what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_free_motions_of_a_four_bar(coordinates):
    """ω ratios of a four-bar by its velocity polygon: coupler and rocker against the crank."""
    found = da.check(da.build(da.mechanism("spatial-four-bar"), coordinates=coordinates))
    (motion,) = found.free_motions
    shares = {b.name: (b.turns, b.moves) for b in motion.bodies}
    # crank upright, 1 m: its end moves at 1 along −x; across rocker and along coupler the same velocity of C
    system = da.build(da.mechanism("spatial-four-bar"))
    v = np.asarray(da.stabilise.consistent_state(system, (None, np.ones(system.n))).v).reshape(-1, 6)
    ratio = np.linalg.norm(v[:, 3:], axis=1) / np.linalg.norm(v[0, 3:])
    for k, name in enumerate(("crank", "coupler", "rocker")):
        assert shares[name][0] == pytest.approx(ratio[k] / max(ratio), abs=1e-9)
    assert shares["crank"] == pytest.approx((1.0, 0.5))
    assert f"free motion: {motion}" in str(found) and "crank turns 1 moves 0.5, coupler turns" in str(found)
    assert found.as_dict()["free_motions"][0][0] == {"name": "crank", "turns": 1.0, "moves": pytest.approx(0.5)}


def test_rolling_is_one_free_motion_and_a_loose_body_is_named():
    """A wheel that rolls without slip in the plane: moves radius × turn. Beside it a body that only a spring holds."""
    for coordinates in ("absolute", "joint"):
        model = da.Model("loose", gravity=(0, -9.81))
        wheel = model.body("wheel", mass=1.0, inertia=0.1, position=(0, 0.3))
        stone = model.body("stone", mass=1.0, inertia=0.1, position=(3, 3))
        model.rolling_disc("contact", model.ground, wheel, radius=0.3)
        model.spring_damper("line", wheel, stone, at_i=(0, 0.3), at_j=(3, 3), stiffness=1.0, damping=0.0)
        found = da.check(da.build(model, coordinates=coordinates))
        assert found.unheld == ("stone",) and found.as_dict()["unheld"] == ("stone",)
        assert "held by no joint: stone" in str(found) and len(found.free_motions) == found.mobility == 4
        rolling = [m.bodies[0] for m in found.free_motions if m.bodies[0].name == "wheel"]
        assert [(b.turns, b.moves) for b in rolling] == [(1.0, pytest.approx(0.3))]


def test_many_free_motions_are_counted():
    found = da.check(da.mechanism("chain", N=9))
    assert len(found.free_motions) == 9 and "and 6 more free motions" in str(found)
    assert len(found.as_dict()["free_motions"]) == 9


@pytest.fixture(scope="module")
def long_names():
    """A redundant loop, and twenty joints with long names that are all unique, of one word or of many."""
    model = da.mechanism("spatial-four-bar")
    for k in range(20):
        body = model.body(f"flap_{k}", mass=1.0, inertia=(0.1,) * 3, position=(k, 5, 0))
        name = f"a_joint_with_a_very_long_name_{k}" if k % 2 else f"a joint whose long name has words {k}"
        model.revolute(name, model.ground, body, at=(k, 5.5, 0), axis=(0, 0, 1))
    return da.check(model)


@pytest.mark.parametrize("width", [60, 80, 100, 118, 300])
def test_the_columns_always_show(long_names, width, monkeypatch):
    """Whatever the names and the width of the terminal: what is unique and what is not stands on the page, whole."""
    from rich.console import Console

    monkeypatch.setenv("COLUMNS", str(width))
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, soft_wrap=True).print(long_names)
    for text in (str(long_names), out.getvalue()):
        lines = text.split("\n")
        first = next(k for k, line in enumerate(lines) if line.strip().startswith("reaction of"))
        last = next(k for k, line in enumerate(lines) if "own axes" in line)
        table = lines[first:last]
        assert all(len(line) <= min(width, 118 if text == str(long_names) else width) for line in table)
        assert table[0].split() == ["reaction", "of", "unique", "not", "unique"]
        unique, open_ = table[0].index("unique"), table[0].index("not unique")
        # every joint that is not unique, with its values and its open components below the right headings
        for name, value in (("A", "Fx = 4.535"), ("D", "Fx = 7.236")):
            row = next(line for line in table if line.split()[:1] == [name])
            assert row[unique:].startswith(value) and row[open_:].startswith("Fz Mx My")
        assert any(line[unique:].startswith("all") and line[open_:].startswith("–") for line in table)
        kind = next(line.index("revolute") for line in table if "revolute" in line)
        assert "a_joint_with_a_very_long_name_1," in "".join(line[2:kind].strip() for line in table)


def test_axes_are_named(long_names):
    """Components are along the joints' own axes, while `reactions` defaults to the world's: both texts say so."""
    assert "along each joint's own axes" in str(long_names)
    assert long_names.as_dict()["axes"] == "joint"
