"""6b· results: what is computed from a motion while it is traced by jit, vmap or a derivative: arrays by name.

What needs the numbers themselves (which reactions are unique, ranks, singular positions, files, pictures) is of the
host, and is refused with a sentence.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from dalembert._results import DalembertError
from dalembert.reactions import AbstractReactionRule, MinimumNorm, RequireUnique, RowElimination
from dalembert.results._measurements import values_at
from dalembert.results._observe import Observation, energies, observe_all
from dalembert.results._reactions import need_frame, need_joint
from dalembert.results._results import LEVELS, Results
from dalembert.simulation import INSTEAD, Solution, how_many, is_batch


class TracedResults:
    """What follows from a motion that is being traced: `vdot`, `multipliers`, `measurements`, `reactions(joint)`,
    `energy` and `violation`, as functions of whatever is varied.

    Values that the model leaves open are those of the rule, as on the host. At a singular position the values are those
    of that very instant.
    """

    def __init__(self, solution: Solution):
        if is_batch(solution):
            raise DalembertError(
                f"This is a batch of {how_many(solution)} runs inside jit or grad; ask one of them, solution[k], or "
                "ask within the function that vmap maps."
            )
        self.solution = solution

    @functools.cached_property
    def rule(self) -> AbstractReactionRule:
        """What picks reactions; where they are unique all rules agree."""
        chosen = self.solution.chosen
        if isinstance(chosen, RowElimination) and not chosen.rows:
            raise DalembertError(
                "Which rows are eliminated depends on numbers, which jit, vmap and grad hide: name them, "
                "RowElimination(rows=…), or prepare the machine outside: da.prepare(model, rule='eliminated')."
            )
        return MinimumNorm() if chosen is None or isinstance(chosen, RequireUnique) else chosen

    @functools.cached_property
    def observed(self) -> Observation:
        """All observables at the saved times."""
        s = self.solution
        return observe_all(s.system, s.formulation, self.rule, s.t, s.q, s.v)

    @property
    def vdot(self) -> Any:
        return self.observed.rates

    @property
    def multipliers(self) -> Any:
        return self.observed.lam

    @property
    def violation(self) -> Any:
        return dict(zip(LEVELS, jnp.max(self.observed.violation, axis=0), strict=True))

    @property
    def energy(self) -> Any:
        return energies(self.observed, self.solution.work)

    @functools.cached_property
    def measurements(self) -> Any:
        """Measurements, inputs and states of controllers by name, a row of numbers for each."""
        s, out = self.solution, dict[str, Any]()
        values, inputs = values_at(s, self.observed)
        for k, name in enumerate(s.system.channels):
            one = values[:, k]
            out[name] = jnp.unwrap(one) if s.system.counts_no_turns(k) else one
        control = s.system.control
        more = [(x.name, inputs[:, k]) for k, x in enumerate(control.sources)]
        if control.size:
            states = jax.vmap(lambda q: s.system.split(q)[1])(s.q)
            more += [(name, states[:, k]) for k, name in enumerate(control.labels)]
        return dict(more) | out

    def reactions(self, joint: str, *, frame: str = "world", rule=None) -> Any:
        """Force and torque of a joint on its body j."""
        if rule is not None:
            return self.with_rule(rule).results.reactions(joint, frame=frame)  # pyright: ignore[reportReturnType]
        need_frame(frame)
        bodies, w = need_joint(self.solution.system, joint), self.observed.wrenches
        assert w is not None
        k = [j.name for j in bodies.joints].index(joint)
        force, torque = (w.force, w.torque) if frame == "world" else (w.joint_force, w.joint_torque)
        return {"force": force[:, k], "torque": torque[:, k, 0] if bodies.kinematics.d == 2 else torque[:, k]}

    def with_rule(self, rule: AbstractReactionRule | str) -> Solution:
        raise DalembertError(
            "A rule is prepared with numbers, which jit, vmap and grad hide: give it to da.prepare, outside, and "
            "simulate the prepared machine inside."
        )

    def html(self) -> str:
        from dalembert.view import html_words

        return html_words(repr(self.solution))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Results, name):
            raise AttributeError(name)
        raise DalembertError(f"solution.{name} needs numbers, which jit, vmap and grad hide. {INSTEAD}")
