"""6 · marching in time: simulate, integrators, Solution.

Equations (6.1)–(6.4): docs/theory/simulation.md; (6b.1)–(6b.5): docs/theory/switching.md.
"""

from dalembert._results import Status
from dalembert.simulation._march import INTEGRATORS
from dalembert.simulation._observe import Observation, observe
from dalembert.simulation._prepare import Prepared, prepare
from dalembert.simulation._run_file import RecordedRun, open_run
from dalembert.simulation._simulate import simulate
from dalembert.simulation._singular import SingularPosition, singular_positions
from dalembert.simulation._solution import Solution
from dalembert.simulation._switch import Jump, Switch, SwitchedSolution, close_constraint, simulate_switching

open = open_run

__all__ = [
    "INTEGRATORS",
    "Jump",
    "Observation",
    "Prepared",
    "RecordedRun",
    "SingularPosition",
    "Solution",
    "Status",
    "Switch",
    "SwitchedSolution",
    "close_constraint",
    "observe",
    "open",
    "open_run",
    "prepare",
    "simulate",
    "simulate_switching",
    "singular_positions",
]
