"""6 · simulation: a prepared machine: all that needs values before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, cast

import equinox as eqx
import jax.numpy as jnp

from dalembert._results import DalembertError
from dalembert._typing import is_traced
from dalembert.equations import assemble
from dalembert.formulations import AbstractFormulation, Proximal
from dalembert.model import Model
from dalembert.reactions import AbstractReactionRule, RowElimination, decide_loads, row_numbers, rule_of
from dalembert.stabilise import AbstractStabilisation, Projection, State, consistent_state, prepared_at
from dalembert.systems import AbstractSystem, build


class Prepared(eqx.Module):
    """A system with methods prepared for it: ranks are known, joint loads for friction are unique or have a rule, rules
    know their rows. `simulate` takes it in place of a system, also under jit, vmap and grad."""

    system: AbstractSystem
    formulation: AbstractFormulation
    stabilisation: AbstractStabilisation
    rule: AbstractReactionRule | None

    def replace(self, values: Mapping[str, object]) -> Self:
        """The same with some parameters changed; what was found about the machine is assumed to hold."""
        return eqx.tree_at(lambda p: p.system, self, self.system.replace(values))

    def __repr__(self) -> str:
        methods = f"{type(self.formulation).__name__}, {type(self.stabilisation).__name__}"
        rule = "" if self.rule is None else f", rule {type(self.rule).__name__}"
        return f"{self.system!r}; prepared for {methods}{rule}"


def prepare(
    system: AbstractSystem | Model,
    state: State | tuple | None = None,
    *,
    t: float = 0.0,
    formulation: AbstractFormulation | None = None,
    stabilisation: AbstractStabilisation | None = None,
    rule: AbstractReactionRule | str | None = None,
) -> Prepared:
    """What `simulate` determines about a machine before it marches, for use under jit, vmap and grad.

    There values are not available; prepare outside, and change parameters inside.

    **Arguments**: `system`, a model or a system; `state`, `t`: where to evaluate (default: the model's start);
    `formulation`, `stabilisation`, `rule` as in `simulate`.

    **Returns** a `Prepared`. A joint load for friction that is not unique is refused by name, unless a `rule`
    picks it.

        >>> import jax
        >>> import jax.numpy as jnp
        >>> import dalembert as da
        >>> machine = da.prepare(da.mechanism("four-bar"))
        >>> masses = jnp.array([1.0, 2.0, 3.0])
        >>> jax.vmap(lambda m: da.simulate(machine.replace({"crank.mass": m}), 0.1, samples=2).q[-1])(masses).shape
        (3, 9)
    """
    system = build(system) if isinstance(system, Model) else system
    if system.touches:
        raise DalembertError(
            f"Joint '{system.touches[0].joint}' of '{system.name}' is one-sided: when it opens and closes is found "
            "along one motion, by da.simulate, not in batches and not under jit, vmap and grad. There take "
            "da.simulation.simulate_stepping, or system.plain(), whose contacts stay as they are at the start."
        )
    if not system.phases_stated:
        raise DalembertError(
            f"Friction '{system.sticking[0]}' of '{system.name}' sticks: its phases are found along one motion, by "
            "da.simulate, not by da.kinematics, in batches and under jit, vmap and grad. Take friction or "
            "bearing_friction there, which are regularised laws."
        )
    here = consistent_state(system, state, t=t)
    system, rule = with_rule(system, here, t, rule_of(rule))
    marched = system
    if isinstance(rule, RowElimination) and system.bodies is system:  # the motion is computed without these rows
        marched = system.without_rows(row_numbers(system, rule.rows)).with_loads(None)  # the others are independent
    return Prepared(system, *with_ranks(marched, here, t, formulation, stabilisation), rule)


def with_rule(
    system: AbstractSystem, state: State, t, rule: AbstractReactionRule | None
) -> tuple[AbstractSystem, AbstractReactionRule | None]:
    """The system with its joint loads decided, and the rule prepared; on the host."""
    system = decide_loads(system, state, t=t, rule=rule)
    machine, bodies = system.machine, system.bodies
    if bodies is not None and bodies.load_rule is not None:
        return system, cast(AbstractReactionRule, bodies.load_rule)  # as `decide_loads` made it
    if rule is None:
        return system, None
    lifted = system.lift(*(jnp.asarray(x, float) for x in state))
    return system, rule.prepare(machine, assemble(machine, t, *lifted))


def with_ranks(
    system: AbstractSystem,
    state: State,
    t,
    formulation: AbstractFormulation | None,
    stabilisation: AbstractStabilisation | None,
) -> tuple[AbstractFormulation, AbstractStabilisation]:
    """The methods (default: the usual ones) with the rank and the margin of the system's rows; as given where values
    are not available."""
    formulation, stabilisation = or_usual(formulation, stabilisation)
    if is_traced(system, t, state):
        return formulation, stabilisation
    formulation = prepared_at(formulation, system, state, t=t)
    return formulation, stabilisation.with_margin(getattr(formulation, "margin", None))


def or_usual(
    formulation: AbstractFormulation | None, stabilisation: AbstractStabilisation | None
) -> tuple[AbstractFormulation, AbstractStabilisation]:
    """The methods given, else the usual ones, not prepared."""
    return formulation or Proximal(), stabilisation or Projection()


def unpacked(
    prepared: Prepared, **given: object
) -> tuple[AbstractSystem, AbstractFormulation, AbstractStabilisation, AbstractReactionRule | None]:
    """The parts of a `Prepared`; what it fixed cannot be given again."""
    for name, value in given.items():
        if value is not None:
            raise DalembertError(f"{name}= cannot be given besides what da.prepare has fixed; give it to da.prepare.")
    return prepared.system, prepared.formulation, prepared.stabilisation, prepared.rule
