"""7 · analysis: gravity compensation: a controller whose efforts hold a machine in the pose that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from dalembert._results import DalembertError
from dalembert.analysis._actuation import inputs_of, measured_by, refuse_friction, usual_actuators
from dalembert.analysis._efforts import UNFOLLOWED
from dalembert.analysis._inverse import Instant, efforts_all, efforts_at, refuse_bent, refuse_fixed
from dalembert.analysis._motions import Motion
from dalembert.model import Controller, MeasuredFunction, Model, actuated
from dalembert.stabilise import consistent_state
from dalembert.systems import AbstractSystem, build


class _Hold:
    """The efforts that hold a machine at rest in the pose q (of all bodies, in absolute coordinates)."""

    def __init__(self, system: AbstractSystem, which: tuple[int, ...], half: np.ndarray):
        self.system, self.which, self.half = system, which, half

    def __call__(self, t, q, v=None, vdot=None, r=None):
        zero = jnp.zeros(self.system.n)
        # time is held: a driver that moves is not at rest, and holding is what is asked for
        return efforts_at(self.system, self.which, self.half, t, q, zero, zero).effort


def gravity_compensation(
    model: Model,
    actuators: Sequence[str] | None = None,
    *,
    limits: Mapping[str, float] | None = None,
    release: Sequence[str] | bool = (),
    name: str = "gravity_compensation",
) -> Model:
    """A model whose actuators hold it in whatever pose it is: a controller sets their efforts from the present pose.

    The efforts balance all that acts on the machine at rest (gravity, springs, constant loads), by the numbers of
    `model`: if the simulated machine has other masses (`system.replace`), the compensation stays that of the model, as
    a real controller's would. Moved by something else, the machine moves as if it had no weight.

    **Arguments**: `model`; `actuators`, names as in `inverse_dynamics`; `limits`, which efforts are picked where there
    are more actuators than freedoms; `release`, drivers that are left out; `name` of the controller.

    **Returns** a `Model`: `da.simulate` it. It has an input for each actuator, a measurement `<name>_efforts`, and the
    controller. Refused where the actuators cannot hold the model's own start.

        >>> import numpy as np, dalembert as da
        >>> held = da.analysis.gravity_compensation(da.mechanism("double-pendulum"), ["shoulder", "elbow"])
        >>> run = da.simulate(held, 1.0, samples=5)
        >>> bool(np.max(np.abs(run.v)) < 1e-9)
        True
    """
    if not isinstance(model, Model):
        raise DalembertError("gravity_compensation takes a model, to which it adds a controller; a system has no room.")
    names = usual_actuators(build(model), model) if actuators is None else actuators
    made, found = actuated(model, [names] if isinstance(names, str) else list(names), release)
    system = build(made)
    refuse_friction(system, moving=False)
    half, _ = measured_by(system, found, None, limits)
    which = inputs_of(system, found)
    q = np.asarray(consistent_state(system).q)
    still = np.zeros((1, system.n))
    path = Motion(np.zeros(1), q[None], still, still, {})
    refuse_bent(system, found, which, path)
    at = Instant(*(np.asarray(x) for x in efforts_all(system, which, half, *path[:4])))
    refuse_fixed(system, system, at)
    if at.left[0] > UNFOLLOWED:
        raise DalembertError(
            f"These actuators cannot hold '{model.name}' at its start: they move {round(float(at.able[0]))} of "
            f"{round(float(at.freedoms[0]))} freedoms, and {at.left[0]:.1e} of the load lies along the others. Name "
            "more of them."
        )
    out = Model(made.name, space=made.space, gravity=made.gravity, closing=made.closing)
    for s in made.statements:
        out.add(s)
    law, efforts = _Hold(system, which, half), f"{name}_efforts"
    out.add(MeasuredFunction(efforts, law, size=len(found), needs="positions"))
    channels = [efforts] if len(found) == 1 else [f"{efforts}.{k}" for k in range(len(found))]
    out.add(Controller(name, outputs={a.input: c for a, c in zip(found, channels, strict=True)}))
    return out.validate()
