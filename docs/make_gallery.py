"""docs · the gallery: every built-in mechanism as a still (docs/pictures/gallery) and in motion (docs/motions), and the
page that shows them.

    python docs/make_gallery.py            all of them, and the README's curves; some minutes, each is compiled
    python docs/make_gallery.py curves     the README's curves only (docs/pictures/bricard.png)
    python docs/make_gallery.py loads      the pictures of examples/unknown_load.md only
    python docs/make_gallery.py bennett    one, after a change to it
    python docs/make_gallery.py motions    all motions, without stills (after a change to what a scene holds)
    python docs/make_gallery.py page       the page only

The page is written from docs/pictures/gallery/sizes.json, which is kept beside the stills. A motion is the scene that
`solution.animate` puts into its page, without the curves beside it; the page around it is put on when the site is built
(docs/make_hooks.py), and takes the place of the still when that comes into view (docs/site.js).
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

HERE = Path(__file__).parent
STILLS = HERE / "pictures" / "gallery"
SIZES = STILLS / "sizes.json"
MOTIONS = HERE / "motions"
LARGEST = 30_000  # bytes of a still
LARGEST_MOTION = 120_000
FRAMES = 120
USUAL = 10.0  # seconds of a mechanism that has no time of its own; the gallery shows four of them


def still(name: str) -> dict[str, int]:
    """Draw one mechanism at its start; its sizes n, m, rank."""
    import jax

    import dalembert as da
    from dalembert.mechanisms import find

    entry = find(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # redundancy is told in the table
        solution = da.simulate(entry.model(), 1e-3 * entry.t_end, samples=2, rtol=1e-6)
        figure = solution.plot("mechanism", t=0.0)
    figure.set_size_inches(5.6, 4.2)
    _save(figure, STILLS / f"{name}.png")
    sizes = {"n": solution.system.n, "m": solution.system.m, "rank": solution.rank}
    jax.clear_caches()  # no mechanism needs another's programs, and all of them together need gigabytes
    return sizes


def motion(name: str) -> None:
    """Some seconds of one mechanism, as the page of the site needs it: places and reactions, no curves."""
    import jax

    import dalembert as da
    from dalembert.mechanisms import find
    from dalembert.view import scene_of
    from dalembert.view._page import plain

    entry = find(name)
    t_end = 4.0 if entry.t_end == USUAL else entry.t_end
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # colours tell which reactions are not unique
        solution = da.simulate(entry.model(), t_end, samples=FRAMES + 1, rtol=1e-6)
    for frames in (FRAMES, FRAMES // 2):  # fewer for a machine of many bodies
        scene = plain(scene_of(solution.dataset, frames=frames + 1)) | {"panels": [], "in_joint": "", "torque": ""}
        text = json.dumps(scene, separators=(",", ":"), ensure_ascii=False) + "\n"
        if len(text) < LARGEST_MOTION:
            break
    else:
        raise SystemExit(f"The motion of {name} has {len(text)} bytes, the limit is {LARGEST_MOTION}.")
    (MOTIONS / f"{name}.json").write_text(text, encoding="utf-8")
    jax.clear_caches()


def curves() -> None:
    """What the README shows first: Bricard's loop for ten seconds."""
    import dalembert as da

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the title says which curves are not unique
        figure = da.simulate(da.mechanism("bricard"), 10.0).plot()
    _save(figure, HERE / "pictures" / "bricard.png", 6 * LARGEST)


def loads() -> None:
    """What examples/unknown_load.md shows: possible forces of a leg and of a hinge, and pre-loads of a guide."""
    import dalembert as da
    from dalembert.reactions import Beam, Known

    table = da.mechanism("table", speed=0.0)
    table.force("hand", "top", (0, 0, "-60*sin(2*t)"), at=(-0.3, 0.2, 0.7))
    push = Known(push_only=["leg1", "leg2", "leg3", "leg4"])
    door = da.mechanism("door-two-hinges", swing=2.0)
    screws = {"Mx": 3.0, "My": 3.0, "Fz": 80.0}
    bear = Known(strength={"top": screws, "bottom": screws})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the titles say what is not unique
        for name, model, joint, t_end, known in (
            ("possible_leg", table, "leg2", 3.0, push),
            ("possible_hinge", door, "top", 1.0, bear),
        ):
            figure = da.simulate(model, t_end, samples=61).plot("reactions", joint=joint, known=known)
            _save(figure, HERE / "pictures" / f"{name}.png", 3 * LARGEST)
    guide = da.Model("guide", space="space", gravity=(0, 0, -9.81))
    carriage = guide.body("carriage", mass=5.0, inertia=(0.5, 0.1, 0.5), position=(0, 0.25, 0))
    guide.prismatic("left", guide.ground, carriage, at=(0, 0, 0), axis=(1, 0, 0))
    guide.prismatic("right", guide.ground, carriage, at=(0, 0.5, 0), axis=(1, 0, 0))
    plate = {"carriage": Beam(("left", "right"), EA=2e7, EI=4e3, GJ=3e3)}
    rails = da.assembly(guide, tolerances={"right.point_i": 5e-5, "right.frame_i": 2e-4}, bodies=plate)
    _save(_preloads(rails), HERE / "pictures" / "guide_preloads.png", 3 * LARGEST)


def _preloads(found):
    """The worst pre-load of each component, and the dimensions that make it; on a logarithmic axis."""
    import matplotlib.pyplot as plt

    data = found.dataset.isel(time=0)
    names = [x for x in map(str, data["component"].values) if float(data["worst"].sel(component=x)) > 0]
    figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
    for k, dimension in enumerate(map(str, data["dimension"].values)):
        part = [abs(float(data["by_dimension"].sel(component=x, dimension=dimension))) for x in names]
        if max(part) > 0:
            places = [n + 0.13 * (k - 2.5) for n in range(len(names))]
            axis.bar(places, part, 0.12, label=dimension)
    units = dict(zip(map(str, data["component"].values), map(str, data["component_units"].values), strict=True))
    axis.set_xticks(range(len(names)), [f"{x.replace(':', ' ')}\n{units[x]}" for x in names], fontsize=8)
    axis.set_yscale("log")
    axis.set_ylim(bottom=1e-2)
    axis.set_title("worst pre-load of each component, by the dimension that is off", fontsize=9, loc="left")
    axis.legend(fontsize=7, ncols=2)
    return figure


def _save(figure, path: Path, largest: int = LARGEST) -> None:
    """As a PNG of few colours: a line drawing loses nothing by that."""
    from io import BytesIO

    from PIL import Image

    raw = BytesIO()
    figure.savefig(raw, dpi=100, format="png")
    for colours in (64, 32, 16):
        picture = Image.open(raw).convert("RGB").quantize(colours)
        picture.save(path, optimize=True)
        if path.stat().st_size < largest:
            return
    raise SystemExit(f"{path.name} has {path.stat().st_size} bytes, the limit is {largest}.")


def page() -> str:
    """The page, from the registry and the sizes kept beside the stills."""
    from dalembert.mechanisms import mechanisms

    sizes = json.loads(SIZES.read_text())
    out = [
        "# Gallery",
        "",
        'Every built-in mechanism: in the file at its start, drawn by `solution.plot("mechanism", t=0.0)`; on the site',
        "it moves, on the page that `solution.animate` writes. Joints are coloured by how much of their reaction the",
        "rigid-body model determines. n velocities and m constraint rows in absolute coordinates, p = m − rank C",
        "redundant ones, f = n − rank C degrees of freedom, at the start.",
        "",
        "    dalembert view NAME        # see it move",
        "    dalembert check NAME       # what can be believed of its reactions",
        "",
    ]
    for name, entry in mechanisms().items():
        s = sizes[name]
        line = f"n = {s['n']}, m = {s['m']}, p = {s['m'] - s['rank']}, f = {s['n'] - s['rank']}"
        summary = entry.summary[0].upper() + entry.summary[1:]
        out += [f"## {name}", "", f"{summary}. {line}.", "", f"![{name}](pictures/gallery/{name}.png)", ""]
    return "\n".join(out).rstrip() + "\n"


def main(names: list[str]) -> None:
    from dalembert.mechanisms import mechanisms

    STILLS.mkdir(exist_ok=True)
    MOTIONS.mkdir(exist_ok=True)
    if names[:1] == ["motions"]:
        for name in names[1:] or mechanisms():
            motion(name)
            print(name, (MOTIONS / f"{name}.json").stat().st_size, flush=True)
        return
    sizes = json.loads(SIZES.read_text()) if SIZES.exists() else {}
    if names in ([], ["curves"]):
        curves()
    if names in ([], ["loads"]):
        loads()
    for name in [] if names in (["page"], ["curves"], ["loads"]) else names or mechanisms():
        sizes[name] = still(name)
        motion(name)
        print(name, sizes[name], flush=True)
        SIZES.write_text(json.dumps({k: sizes[k] for k in mechanisms() if k in sizes}, indent=0) + "\n")
    (HERE / "gallery.md").write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
