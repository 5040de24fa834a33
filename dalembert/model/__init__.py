"""1 · what the machine is: names and numbers, no time, no matrices."""

from dalembert.model._elements import Constraint, Force
from dalembert.model._frames import (
    Body,
    Marker,
    axis_angle,
    deg,
    frame_on_axis,
    quaternion_of,
    rotation_matrix,
    turn,
)
from dalembert.model._model import Model

__all__ = [
    "Body",
    "Constraint",
    "Force",
    "Marker",
    "Model",
    "axis_angle",
    "deg",
    "frame_on_axis",
    "quaternion_of",
    "rotation_matrix",
    "turn",
]
