"""Imports run one way, the front door is light, and every file says which room it is."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "dalembert"

# low to high; a room may import itself and what stands before it. view knows only labelled data, io the model, too.
ORDER = [
    "_runtime", "_typing", "_results", "errors", "_disk", "kernels", "view", "model", "functions", "io", "linalg",
    "complements", "systems", "symbolic", "loads", "equations", "formulations", "stabilise", "reactions", "simulation",
    "results", "analysis", "studies", "reports", "mechanisms", "_streams", "cli", "__main__",
]  # fmt: skip
UPWARD = {
    "simulation/_solution.py": {"results"},  # a solution answers what is computed from its motion
    "analysis/_printed.py": {"reports"},  # a check, a machine at rest, a path and a linear model print
    "studies/_study.py": {"reports"},  # and a study makes its page
}
"""The only imports that run upward, each in one function and on first use: sugar for a person at a prompt."""
FILES = sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(node: ast.AST) -> set[str]:
    """The dalembert rooms that one import names."""
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module] if node.module != "dalembert" else [f"dalembert.{a.name}" for a in node.names]
    return {n.split(".")[1] for n in names if n.startswith("dalembert.")}


def imported_rooms(path: Path) -> set[str]:
    """Every dalembert room that a file imports, lazily or not; imports for the type checker do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    return {room for node in ast.walk(tree) if node not in skipped for room in imports_of(node)}


@pytest.mark.parametrize("path", [f for f in FILES if f.name != "__init__.py" or f.parent != ROOT], ids=str)
def test_imports_run_one_way(path):
    here = ORDER.index(room_of(path))
    upward = {r for r in imported_rooms(path) if ORDER.index(r) > here}
    allowed = UPWARD.get(str(path.relative_to(ROOT)), set())
    assert upward == allowed, f"{path.name} imports upward: {upward - allowed}"


def test_imports_that_run_upward_are_one_each():
    """Where a file may look up, it does so in one line, inside a function."""
    for name, rooms in UPWARD.items():
        tree = ast.parse((ROOT / name).read_text())
        inside = [n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]
        lines = [n for n in inside if isinstance(n, ast.ImportFrom) and rooms & imports_of(n)]
        assert len(lines) == 1


@pytest.mark.parametrize("path", FILES, ids=str)
def test_rooms_are_entered_by_their_door(path):
    """A room's own files are imported inside it only; others take what its first file offers. `functions` is the
    door of one file of the model."""
    tree = ast.parse(path.read_text())
    modules = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    private = [m for m in modules if m.startswith("dalembert.") and m.count(".") > 1]
    own = {"functions": "model"}.get(room_of(path), room_of(path))
    assert all(m.split(".")[1] == own for m in private), private


def test_linalg_knows_no_mechanics():
    for path in (ROOT / "linalg").glob("*.py"):
        assert imported_rooms(path) <= {"linalg", "kernels", "_runtime", "_typing"}  # kernels know none either


def test_complements_know_no_mechanics():
    for path in (ROOT / "complements").glob("*.py"):
        assert imported_rooms(path) <= {"complements", "linalg", "_results", "_typing"}


DERIVATIVES = {"jvp", "vjp", "jacfwd", "jacrev", "grad", "linearize", "hessian", "value_and_grad"}
DIFFERENTIATING = {
    "systems/_rows.py": "the rows themselves",
    "equations.py": "rates of M, C and b along a motion",
    "formulations/_complementary.py": "rates of a complement",
    "stabilise/_contradicting.py": "residuals by a machine's numbers: which of them redundant rows do not let change",
    "simulation/_march.py": "energy; it asks residuals whether a step has closed",
    "analysis/_state_space.py": "residuals once more: the rows of a linearisation",
    "analysis/_dimensions.py": "residuals and measurements by named dimensions",
    "analysis/_rest.py": "forces at rest along a path, and what is held; it asks residuals whether a step has closed",
}
"""The files that differentiate and know rows or residuals at all, and what they differentiate."""
ROWS = {"residuals", "position_residual", "motion_residual", "position_rows", "motion_rows", "rows_of"}


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}


def test_one_file_differentiates_rows():
    """C and Γ come from systems/_rows.py alone: no other file takes derivatives and has rows to take them of."""
    found = {str(p.relative_to(ROOT)) for p in FILES if names_in(p) & DERIVATIVES and names_in(p) & ROWS}
    assert found == set(DIFFERENTIATING)


def test_one_place_looks_beside_a_pose():
    """Whether a pose is singular, and what is unique beside it, is asked of `Instant`; a march keeps its own ranks."""
    search = {"free_neighbours", "neighbours"}
    asking = {str(p.relative_to(ROOT)) for p in FILES if names_in(p) & search and p.name != "__init__.py"}
    assert asking == {"stabilise/_rank.py", "reactions/_instant.py"}


CONCRETE = {"AbsoluteSystem", "TreeSystem", "FunctionSystem"}
MAKERS = {"__init__.py", "symbolic.py"}
"""The front door, and what makes a person's own system from expressions."""


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) != "systems"], ids=str)
def test_nobody_asks_which_system_it_is(path):
    """Systems answer for themselves: their concrete classes are named where they are made, and nowhere else."""
    if str(path.relative_to(ROOT)) not in MAKERS:
        assert not names_in(path) & CONCRETE
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            asked = ast.unparse(node.args[0])
            assert asked not in ("system", "machine", "self.system", "self.machine"), f"{path.name}:{node.lineno}"


PLACES = {
    "kernels": "0 · kernels: ", "model": "1 · model: ", "functions": "1 · ", "io": "edge · files: ",
    "view": "edge · pictures: ", "linalg": "linalg · ", "complements": "4 · complements: ", "systems": "2 · systems: ",
    "symbolic": "2b· ", "loads": "3 · loads: ", "equations": "3 · ", "formulations": "5 · formulations: ",
    "stabilise": "5b· ", "reactions": "5c· reactions: ", "simulation": "6 · simulation: ", "results": "6b· results: ",
    "analysis": "7 · analysis: ", "studies": "8 · studies: ", "reports": "edge · reports: ",
    "mechanisms": "mechanisms · ", "_streams": "edge · ", "cli": "edge · ", "__main__": "edge · ",
}  # fmt: skip
"""How files of each room begin: its number in the order in which data flows, and its name. All others serve all
rooms: "0 · "."""


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_file_begins_with_its_place_in_the_map(path):
    """The door of a room says its number and what the room is; the files behind it say the room's name, too."""
    place = PLACES.get(room_of(path), "0 · ")
    if path.name == "__init__.py":
        place = place[: place.index("·") + 1]
    first, _, _ = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")
    assert first.startswith(place), f"{path.relative_to(ROOT)} begins with {first[:40]!r}, not with {place!r}"


def test_front_door_is_light():
    """`import dalembert` and the command line's help must not load JAX."""
    code = "import sys, dalembert, dalembert.cli; sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", [f for f in FILES if room_of(f) == "cli"], ids=str)
def test_commands_load_what_they_need_when_they_run(path):
    """A file of the command line names no room outside a function, so that no command waits for another's imports."""
    rooms = {room for node in ast.parse(path.read_text()).body for room in imports_of(node)}
    assert rooms <= {"cli", "_results", "_streams"}


def test_all_public_names_load():
    import dalembert as da

    for name in da.__all__:
        assert getattr(da, name) is not None
    for room in da._ROOMS:
        for name in getattr(getattr(da, room), "__all__", []):
            assert getattr(getattr(da, room), name) is not None


def test_the_front_door_is_narrow():
    """At most 25 names besides the rooms, so that a person can know them all."""
    import dalembert as da

    assert len(da.__all__) <= 25
    assert not set(da.__all__) & set(da._ROOMS)


def test_names_that_left_the_door_say_where_they_are():
    import dalembert as da

    for room, names in da._MOVED.items():
        for old, _, new in (entry.partition("=") for entry in names.split()):
            with pytest.warns(DeprecationWarning, match=rf"da\.{old} is now da\.{room}\.{new or old}\."):
                assert getattr(da, old) is getattr(getattr(da, room), new or old)
    with pytest.raises(AttributeError, match="module 'dalembert' has no attribute 'simulat'"):
        _ = da.simulat


def test_all_programs_are_entered_without_names():
    """`compiled` keeps names out; a plain jit would compile and keep a program for every name.

    `_klu.py` has one as a mark inside programs, for `kernels`; it takes arrays alone."""
    for path in FILES:
        if path.name not in ("_names.py", "_klu.py"):
            text = path.read_text()
            assert "filter_jit" not in text and "jax.jit(" not in text and "@jax.jit" not in text, path


WORDS_OF_FILES = {"io/_mjcf.py", "io/_tell.py", "io/_urdf.py", "io/_robot.py", "model/_functions.py", "view/_shapes.py"}
"""Where formats have words of their own for motions, shapes and functions of time."""
SPELLING = {"startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "partition", "rpartition"}
WHAT_IT_IS = {"kind", "type", "label", "symbol", "between"}
OTHERS = {"array.dtype", "x.dtype", "a.dtype", "number.dtype", "c", "wrong"}
"""What has a `.kind` or "type" and is no part of a machine: dtypes, constraints of SciPy, mistakes of pydantic."""
PORTS = "view/_serve.py"  # takes the port from an address


@functools.cache
def words_of_elements() -> set[str]:
    """All words for what a joint or force is, for its coordinates, and for how it looks."""
    from dalembert.model import ELEMENTS, AbstractForce, AbstractJoint

    found = {cls.type for cls in ELEMENTS.values()}
    for cls in ELEMENTS.values():
        if issubclass(cls, AbstractJoint | AbstractForce):
            found |= {cls.drawn_as.symbol, cls.drawn_as.between}
        if issubclass(cls, AbstractJoint):
            found |= set(cls.free_coordinates)
    return found - {""}


def asked_of(side: ast.expr) -> str:
    """Of x.kind, x["kind"] and x.get("kind"), where they say what x is: x; else nothing."""
    if isinstance(side, ast.Attribute) and side.attr in WHAT_IT_IS:
        return ast.unparse(side.value)
    key, owner = None, None
    if isinstance(side, ast.Subscript):
        key, owner = side.slice, side.value
    elif isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr == "get":
        key, owner = side.args[0], side.func.value
    return ast.unparse(owner) if owner and getattr(key, "value", None) in WHAT_IT_IS else ""


def words_compared(path: Path) -> list[int]:
    """The lines in which a file spells out or compares words to find out what a joint or force is."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SPELLING:
            texts = [x.value for a in node.args for x in getattr(a, "elts", [a]) if isinstance(x, ast.Constant)]
            splits = node.func.attr.endswith(("split", "partition")) and not str(path).endswith(PORTS)
            if words_of_elements() & set(texts) or (splits and {":", "_"} & set(texts)):
                found.append(node.lineno)
        if isinstance(node, ast.Compare) and {asked_of(s) for s in [node.left, *node.comparators]} - {"", *OTHERS}:
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", [p for p in FILES if str(p.relative_to(ROOT)) not in WORDS_OF_FILES], ids=str)
def test_nobody_compares_words_to_find_out_what_a_joint_is(path):
    """A joint or force is a class, a coordinate knows whether it is an angle, a look has fields: nothing asks how a
    name begins or ends, splits it by colons or underscores, or compares `.kind`, "type" or "symbol"."""
    assert not words_compared(path), f"{path.name}: lines {words_compared(path)}"
