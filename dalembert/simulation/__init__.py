"""6 · marching in time: simulate, integrators, Solution."""

from dalembert.simulation._march import INTEGRATORS
from dalembert.simulation._observe import Observation, observe
from dalembert.simulation._simulate import simulate
from dalembert.simulation._singular import SingularPosition, singular_positions
from dalembert.simulation._solution import Solution

__all__ = ["INTEGRATORS", "Observation", "SingularPosition", "Solution", "observe", "simulate", "singular_positions"]
