"""5 · Equations → v̇ and r = M v̇ − h."""

from dalembert.formulations._base import AbstractFormulation, Acceleration
from dalembert.formulations._proximal import Proximal

__all__ = ["AbstractFormulation", "Acceleration", "Proximal"]
