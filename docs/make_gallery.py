"""docs · the gallery: a still of every built-in mechanism (docs/pictures/gallery) and the page that shows them.

    python docs/make_gallery.py            all of them, and the README's curves; some minutes, each is compiled
    python docs/make_gallery.py curves     the README's curves only (docs/pictures/bricard.png)
    python docs/make_gallery.py bennett    one, after a change to it
    python docs/make_gallery.py page       the page only

The page is written from docs/pictures/gallery/sizes.json, which is kept beside the stills.
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
LARGEST = 30_000  # bytes of a still


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


def curves() -> None:
    """What the README shows first: Bricard's loop for ten seconds."""
    import dalembert as da

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the title says which curves are not unique
        figure = da.simulate(da.mechanism("bricard"), 10.0).plot()
    _save(figure, HERE / "pictures" / "bricard.png", 6 * LARGEST)


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
        'Every built-in mechanism at its start, drawn by `solution.plot("mechanism", t=0.0)`. Joints are coloured by',
        "how much of their reaction the rigid-body model determines. n velocities and m constraint rows in absolute",
        "coordinates, p = m − rank C redundant ones, f = n − rank C degrees of freedom, at the start.",
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
    sizes = json.loads(SIZES.read_text()) if SIZES.exists() else {}
    if names in ([], ["curves"]):
        curves()
    for name in [] if names in (["page"], ["curves"]) else names or mechanisms():
        sizes[name] = still(name)
        print(name, sizes[name], flush=True)
        SIZES.write_text(json.dumps({k: sizes[k] for k in mechanisms() if k in sizes}, indent=0) + "\n")
    (HERE / "gallery.md").write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
