"""edge · pictures: which bodies are connected by which joints, and the loops they close (networkx)."""

from __future__ import annotations

from typing import Any

from dalembert.view._figure import check_figure, save_figure
from dalembert.view._scene import SOLVABILITY, SOLVABILITY_WORDS


def draw_graph(title: str, bodies: list[str], joints: list[dict[str, Any]], path=None) -> Any:
    """A figure of the joint graph. A joint: name, kind, bodies, solvability (or None), driven (names of drivers).

    Joints that close a loop (those a spanning tree leaves out) are dashed; colours show how much of a reaction is
    unique. What couples more than two bodies is a small diamond.
    """
    check_figure(path)
    import networkx as nx
    from matplotlib.lines import Line2D

    from dalembert.view._shown import Figure

    graph = nx.MultiGraph()
    graph.add_nodes_from(["ground", *bodies])
    for j in joints:
        if len(j["bodies"]) == 2:
            graph.add_edge(*j["bodies"], key=j["name"], joint=j)
        else:
            graph.add_node(("", j["name"]))
            for b in j["bodies"]:
                graph.add_edge(("", j["name"]), b, key=f"{j['name']} {b}", joint=j)
    if graph.degree("ground") == 0:
        graph.remove_node("ground")
    tree = {key for *_, key in nx.minimum_spanning_edges(graph, keys=True, data=False)}
    loops = sum(
        1 for a, b, key in graph.edges(keys=True) if key not in tree and isinstance(a, str) and isinstance(b, str)
    )
    places = _places(graph)
    figure = Figure(figsize=(8.5, 6.5), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.14)
    names = []
    for a, b in sorted({tuple(sorted(e, key=str)) for e in graph.edges()}, key=str):
        keys = list(graph[a][b])
        for k, key in enumerate(keys):
            thin = isinstance(a, tuple) or isinstance(b, tuple)
            bend = 0.5 * (k - (len(keys) - 1) / 2)
            _edge(axes, places[a], places[b], graph[a][b][key]["joint"], key in tree, bend, thin)
            if not thin:
                names.append(_Name(axes, places[a], places[b], graph[a][b][key]["joint"], bend))
    boxes = []
    for node, (x, y) in places.items():
        if isinstance(node, tuple):
            axes.plot([x], [y], "D", color="#8a94a0", markersize=7, zorder=3)
            below: dict[str, Any] = {"xytext": (0, -13), "textcoords": "offset points", "ha": "center"}
            axes.annotate(literal(node[1]), (x, y), fontsize=8, color="#5b6775", **below)
            continue
        ground = node == "ground"
        shape, colour, face = ("square", "white", "#3b4252") if ground else ("round", "#1d2733", "#e8eef5")
        style = {"boxstyle": f"{shape},pad=0.45", "fc": face, "ec": "#3b4252"}
        text = literal(node)
        boxes.append(axes.text(x, y, text, ha="center", va="center", fontsize=10, zorder=4, color=colour, bbox=style))
    count = {0: "no loop", 1: "1 loop"}.get(loops, f"{loops} loops")
    drivers = len({name for j in joints for name in j["driven"]})
    sizes = ((len(bodies), "body", "bodies"), (len(joints), "joint", "joints"), (drivers, "driver", "drivers"))
    counted = ", ".join(f"{k} {one if k == 1 else many}" for k, one, many in sizes if k)
    axes.set_title(f"{literal(title)}: {counted}, {count}", fontsize=12)
    shown = [k for k in SOLVABILITY if any(j["solvability"] == k for j in joints)]
    marks = [
        Line2D([], [], color=SOLVABILITY[k], linewidth=2.5, label=f"reaction {SOLVABILITY_WORDS[k]}") for k in shown
    ]
    if loops:
        marks.append(Line2D([], [], color="#5b6775", linestyle="--", label="closes a loop"))
    if marks:
        axes.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, fontsize=9, frameon=False)
    _spread(figure, names, boxes)
    if path is not None:
        save_figure(figure, path)
    return figure


def literal(text: str) -> str:
    r"""A dollar sign in a name does not begin a formula."""
    return text.replace("$", r"\$")


def _places(graph) -> dict:
    import networkx as nx

    plain = nx.Graph(graph)
    if len(plain) <= 2:
        return {node: (1.6 * k, 0.0) for k, node in enumerate(plain)}
    planar = len(plain) <= 16 and nx.check_planarity(plain)[0]
    start = nx.planar_layout(plain) if planar else nx.circular_layout(plain)
    return (
        nx.kamada_kawai_layout(plain, pos=start)
        if nx.is_connected(plain)
        else nx.spring_layout(plain, pos=start, seed=1)
    )


def _edge(axes, a, b, joint, in_tree: bool, bend: float, thin: bool) -> None:
    from matplotlib.patches import FancyArrowPatch

    colour = SOLVABILITY.get(joint["solvability"], "#8a94a0")
    style = ":" if thin else "-" if in_tree else "--"
    curve: dict[str, Any] = {"arrowstyle": "-", "connectionstyle": f"arc3,rad={bend}"}
    curve |= {"linestyle": style, "color": colour}
    axes.add_patch(FancyArrowPatch(a, b, linewidth=1.2 if thin else 2.2, zorder=1, **curve))


class _Name:
    """The name of a joint, somewhere on its edge."""

    def __init__(self, axes, a, b, joint, bend: float):
        # a parabola, as matplotlib bends it: to the right of a → b
        self.corners = a, ((a[0] + b[0]) / 2 + bend * (b[1] - a[1]), (a[1] + b[1]) / 2 - bend * (b[0] - a[0])), b
        text = literal(joint["name"] + (f" ({', '.join(joint['driven'])})" if joint["driven"] else ""))
        style = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.9}
        self.text = axes.text(0, 0, f"{text}\n{joint['kind']}", ha="center", va="center", fontsize=8, color="#1d2733",
                              zorder=2, bbox=style)  # fmt: skip
        self.at(0.5)

    def at(self, along: float) -> None:
        weights = (1 - along) ** 2, 2 * along * (1 - along), along**2
        self.text.set_position([sum(w * p[k] for w, p in zip(weights, self.corners, strict=True)) for k in (0, 1)])


def _spread(figure, names: list[_Name], boxes) -> None:
    """Each name goes where on its edge it covers least of the bodies and of the names already placed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    taken = [box.get_window_extent(renderer).padded(6) for box in boxes]

    def covered(name: _Name, along: float) -> float:
        name.at(along)
        own = name.text.get_window_extent(renderer)
        shared = (own.intersection(own, other) for other in taken)
        return sum(s.width * s.height for s in shared if s is not None)

    for name in names:
        along = min((0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73), key=lambda x: covered(name, x))
        name.at(along)
        taken.append(name.text.get_window_extent(renderer))
