"""1 · model: the joint kinds by name: where they exist and which coordinates they leave free.

What a kind's rows and coordinates *are* is written in `systems/_constraints.py`; the tests keep the two consistent.
A generic joint's kind includes its held directions: "generic:x,y,rz".
"""

from __future__ import annotations

SPACE_DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
PLANE_DIRECTIONS = ("x", "y", "angle")

COORDINATES: dict[str, dict[str, tuple[str, ...]]] = {
    "weld": {"plane": (), "space": ()},
    "revolute": {"plane": ("angle",), "space": ("angle",)},
    "prismatic": {"plane": ("displacement",), "space": ("displacement",)},
    "cylindrical": {"space": ("displacement", "angle")},
    "screw": {"space": ("displacement", "angle")},
    "spherical": {"space": ()},
    "universal": {"space": ("angle_i", "angle_j")},
    "constant_velocity": {"space": ("angle_x", "angle_y")},
    "planar": {"space": ("x", "y", "angle")},
    "pin_slot": {"plane": ("displacement", "angle"), "space": ("displacement", "angle")},
    "point_on_line": {"plane": ("displacement",), "space": ("displacement",)},
    "point_in_plane": {"space": ("x", "y")},
    "point_on_curve": {"plane": (), "space": ()},
    "parallel_axes": {"space": ("angle",)},
    "perpendicular_axes": {"space": ()},
    "constant_angle": {"space": ()},
    "orientation_lock": {"space": ("x", "y", "z")},
    "angle_lock": {"plane": ("x", "y")},
    "distance": {"plane": (), "space": ()},
    "revolute_spherical_rod": {"space": ("angle",)},
    "knife_edge": {"plane": (), "space": ()},
    "rolling_disc": {"plane": (), "space": ()},
    "rolling_sphere": {"space": ()},
    "no_slip": {"plane": (), "space": ()},
    "gear": {"plane": (), "space": ()},
    "belt": {"plane": (), "space": ()},
    "rack_and_pinion": {"plane": (), "space": ()},
}

BEARINGS: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    ("plane", "revolute"): (("Fx", "Fy"), ()),
    ("plane", "prismatic"): (("Fy",), ("Mz",)),
    ("plane", "pin_slot"): (("Fy",), ()),
    ("plane", "point_on_line"): (("Fy",), ()),
    ("space", "revolute"): (("Fx", "Fy"), ("Mx", "My")),
    ("space", "prismatic"): (("Fx", "Fy"), ("Mx", "My")),
    ("space", "cylindrical"): (("Fx", "Fy"), ("Mx", "My")),
    ("space", "point_on_line"): (("Fx", "Fy"), ()),
    ("space", "spherical"): (("Fx", "Fy", "Fz"), ()),
}
"""Joints with load-dependent friction, and the reaction components that form the normal load: forces (across the axis;
of a ball, all), and torques, which load the two ends of a bearing with a length."""

RULES = ("minimum_norm", "weighted", "penalty_limit", "eliminated")
"""The reaction rules that can be given by name alone."""


def coordinates_of(space: str, kind: str) -> tuple[str, ...]:
    """Names of the coordinates a joint leaves free; angles begin with "angle", all others are lengths."""
    if kind.startswith("generic:"):
        return generic_coordinates(space, held_directions(kind))
    return COORDINATES.get(kind, {}).get(space, ())


def held_directions(kind: str) -> tuple[str, ...]:
    """The held directions of a generic joint's kind."""
    return tuple(kind.split(":")[1].split(","))


def generic_coordinates(space: str, held: tuple[str, ...]) -> tuple[str, ...]:
    """Free translations along marker i's axes; of rotations, those that one angle or two of a cardan cross describe."""
    if space == "plane":
        return tuple(k for k in PLANE_DIRECTIONS if k not in held)
    lengths = tuple(k for k in "xyz" if k not in held)
    turns = tuple(k for k in "xyz" if f"r{k}" not in held)
    return lengths + (tuple(f"angle_{k}" for k in turns) if len(turns) < 3 else ())
