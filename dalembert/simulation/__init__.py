"""6 · marching in time: simulate, integrators, Solution.

Equations (6.1)–(6.4): docs/theory/simulation.md; (6b.1)–(6b.5): docs/theory/switching.md.
Equations (6c.1)–(6c.8): docs/theory/sticking.md.
Equations (6d.1)–(6d.13): docs/theory/one_sided.md.
"""

from dalembert._results import Status
from dalembert.simulation._batch import INSTEAD, SAVED, how_many, is_batch, member, reached, run_of, statuses
from dalembert.simulation._many import DEVICES, simulate_many, write_many
from dalembert.simulation._march import INTEGRATORS
from dalembert.simulation._phases import IMPULSE_RULE, ContactPhase, ContactPhases, Impact, Phase, Phases
from dalembert.simulation._prepare import Prepared, prepare
from dalembert.simulation._radau import Carried
from dalembert.simulation._resume import Restart, parameter_changes, system_changes
from dalembert.simulation._rows import code_for_rows, cores
from dalembert.simulation._simulate import refuse_settings, simulate
from dalembert.simulation._singular import SingularPosition, owners_of, singular_positions
from dalembert.simulation._solution import Solution, project_all, qdot_all
from dalembert.simulation._stepping import Stepped, simulate_stepping
from dalembert.simulation._steps import Mark
from dalembert.simulation._sticking import Frictions, shared_efforts
from dalembert.simulation._switch import Jump, Switch, SwitchedSolution, close_constraint, simulate_switching
from dalembert.simulation._touching import Closings, Held, contact_remarks, held_of, slipping

__all__ = [
    "DEVICES",
    "IMPULSE_RULE",
    "INSTEAD",
    "INTEGRATORS",
    "SAVED",
    "Carried",
    "Closings",
    "ContactPhase",
    "ContactPhases",
    "Frictions",
    "Held",
    "Impact",
    "Jump",
    "Mark",
    "Phase",
    "Phases",
    "Prepared",
    "Restart",
    "SingularPosition",
    "Solution",
    "Status",
    "Stepped",
    "Switch",
    "SwitchedSolution",
    "close_constraint",
    "code_for_rows",
    "contact_remarks",
    "cores",
    "held_of",
    "how_many",
    "is_batch",
    "member",
    "owners_of",
    "parameter_changes",
    "prepare",
    "project_all",
    "qdot_all",
    "reached",
    "refuse_settings",
    "run_of",
    "shared_efforts",
    "simulate",
    "simulate_many",
    "simulate_stepping",
    "simulate_switching",
    "singular_positions",
    "slipping",
    "statuses",
    "system_changes",
    "write_many",
]
