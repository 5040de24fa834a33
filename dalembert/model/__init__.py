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
from dalembert.model._functions import FORMULA_WORDS, Function, quintic, sketching, spline_jet, value_of
from dalembert.model._information import Limit, Shape, inside_folder
from dalembert.model._kinds import BEARINGS, COORDINATES, RULES, coordinates_of, held_directions
from dalembert.model._model import Model
from dalembert.model._statements import (
    ELEMENTS,
    LONGEST_NAME,
    SECTIONS,
    TYPED,
    Mistake,
    Statement,
    name_mistake,
    title_mistake,
)

__all__ = [
    "BEARINGS",
    "COORDINATES",
    "ELEMENTS",
    "FORMULA_WORDS",
    "LONGEST_NAME",
    "RULES",
    "SECTIONS",
    "TYPED",
    "Body",
    "Constraint",
    "Force",
    "Function",
    "Limit",
    "Marker",
    "Mistake",
    "Model",
    "Shape",
    "Statement",
    "axis_angle",
    "coordinates_of",
    "deg",
    "frame_on_axis",
    "held_directions",
    "inside_folder",
    "name_mistake",
    "quaternion_of",
    "quintic",
    "rotation_matrix",
    "sketching",
    "spline_jet",
    "title_mistake",
    "turn",
    "value_of",
]
