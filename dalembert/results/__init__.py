"""6b· everything computed from a motion: labels, reactions and uniqueness by instant, energies, and its files."""

from dalembert._typing import is_traced
from dalembert.results._batch import BatchResults
from dalembert.results._instants import Instants
from dalembert.results._measurements import loads_observed
from dalembert.results._observe import Observation, observe, observe_all
from dalembert.results._phased import PhasedResults, TouchedResults
from dalembert.results._poses import Pose, add_positions, labelled_poses, moving_bodies, pose_of, unique_channels
from dalembert.results._recorded import RecordedRun
from dalembert.results._results import Results
from dalembert.results._run_file import open_run
from dalembert.results._traced import TracedResults
from dalembert.simulation import Solution, is_batch

open = open_run

__all__ = [
    "BatchResults", "Instants", "Observation", "PhasedResults", "Pose", "RecordedRun", "Results", "TouchedResults",
    "TracedResults", "add_positions", "labelled_poses", "loads_observed", "moving_bodies", "observe", "observe_all",
    "open", "open_run", "pose_of", "results_of", "unique_channels",
]  # fmt: skip


def results_of(solution: Solution) -> Results | BatchResults | TracedResults:
    """What is computed from a motion, or from a batch of them; while they are traced, as functions of JAX."""
    if is_traced(solution):
        return TracedResults(solution)
    if is_batch(solution):
        return BatchResults(solution)
    if solution.phases is None:
        return Results(solution)
    return TouchedResults(solution) if solution.phases.of_contacts else PhasedResults(solution)
