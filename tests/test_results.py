"""What is computed from a motion is no part of its data, and a solution passes on every question."""

from __future__ import annotations

import dataclasses

import jax
import pytest

import dalembert as da
from dalembert.results import BatchResults, Results

MOTION = {"of", "status", "state", "machine", "at", "states", "results"}
"""What a solution answers itself, besides its fields, and how it is made."""


@pytest.fixture(scope="module")
def solution():
    return da.simulate(da.mechanism("pendulum"), 0.2, samples=5)


def test_results_are_computed_once_and_are_no_data(solution):
    """A solution that was asked has the leaves that it had, and what is made from it carries nothing stale on."""
    before = len(jax.tree_util.tree_leaves(solution))
    assert solution.dataset is solution.dataset and solution.results is solution.results
    assert len(jax.tree_util.tree_leaves(solution)) == before
    for copy in (dataclasses.replace(solution), jax.tree_util.tree_map(lambda x: x, solution)):
        assert "results" not in vars(copy)


def test_every_other_question_is_passed_on():
    fields = {f.name for f in dataclasses.fields(da.simulation.Solution)}
    asked = {name for name in vars(da.simulation.Solution) if not name.startswith("_")} - fields - MOTION
    assert {"dataset", "reactions", "plot", "to_netcdf", "redundancy"} <= asked
    assert asked <= set(dir(Results))


def test_a_batch_refuses_what_is_of_one_run(solution):
    batch = jax.tree_util.tree_map(lambda x: jax.numpy.stack([x, x]), solution)
    assert isinstance(batch.results, BatchResults)
    with pytest.raises(da.errors.DalembertError, match=r"batch of 2 runs; take one of them: solution\[0\]\.rank"):
        _ = batch.rank
    with pytest.raises(AttributeError):
        _ = batch.results.no_such_thing
