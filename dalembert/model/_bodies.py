"""1 · model: bodies and the frames fixed in them, as stated."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from dalembert._results import tell_single_precision
from dalembert.model._arguments import Angular, Inertia, Matrix, Number, Place, Positive, Quaternion, Vector
from dalembert.model._element import Cause, Element
from dalembert.model._frames import Body, Marker
from dalembert.model._placing import Placing


class BodyEntry(Element):
    """Add a rigid body; `position` is its centre of mass, where its frame sits.

    In the plane: `inertia` a number, orientation by `angle`. In space: `inertia` (3,) principal moments or
    a (3, 3) tensor in the body frame; orientation by `rotation` (3, 3), `quaternion` (w, x, y, z), or
    `axis` with `angle`. `velocity` is in the world frame, `angular_velocity` in the body frame.
    """

    type = "body"
    section = "bodies"
    title = "Body"

    mass: Positive
    inertia: Inertia
    position: Vector | None = None
    angle: Number | None = None
    rotation: Matrix | None = None
    quaternion: Quaternion | None = None
    axis: Vector | None = None
    velocity: Vector | None = None
    angular_velocity: Angular | None = None

    def place(self, on: Placing) -> Body:
        R = on.orientation("rotation", "quaternion", "axis")
        spin = self.angular_velocity
        if on.dimension == 2 and spin is not None and np.ndim(spin) == 0:
            spin = [spin]
        body = Body(
            name=self.name,
            mass=on.positive("mass"),
            inertia=_inertia(on),
            position=on.vector("position"),
            rotation=R,
            velocity=on.vector("velocity"),
            angular_velocity=on.vector("angular_velocity", spin, size=1 if on.dimension == 2 else 3),
        )
        return on.register(on.model.bodies, body)


def _inertia(on: Placing) -> np.ndarray:
    value = on.given("inertia")
    if on.dimension == 2:
        return np.asarray([on.positive("inertia")])
    tell_single_precision(f"{on.who}: inertia", value)
    try:
        I = np.asarray(value, float)
    except (TypeError, ValueError):
        I = np.zeros(0)
    if I.shape == (3,):
        I = np.diag(I)
    if I.shape != (3, 3) or not np.all(np.isfinite(I)):
        text = f"inertia must be 3 principal moments or a finite 3x3 tensor, not {value!r}."
        on.wrong(text, "inertia", cause=Cause.FORM)
        return np.eye(3)
    if not np.allclose(I, I.T, rtol=1e-9, atol=1e-12 * np.abs(I).max()):
        on.wrong("inertia must be a symmetric tensor.", "inertia")
    moments = np.linalg.eigvalsh(0.5 * (I + I.T))
    if moments[0] <= 0:
        on.wrong(f"inertia must be positive definite; its principal moments are {moments}.", "inertia")
        return np.eye(3)
    if moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
        text = f"inertia: no rigid body has the principal moments {moments}: the largest exceeds the sum of the others."
        on.wrong(text, "inertia")
    return 0.5 * (I + I.T)


class MarkerEntry(Element):
    """Add a frame fixed in `body`: at a world point (`at`) or at a point of the body frame (`position`).

    `rotation` is the frame in world axes; `axis` alone sets its z axis (in the plane its x axis), and `x` with it
    the direction of its x axis.
    """

    type = "marker"
    section = "markers"
    title = "Marker"

    body: Place = field(kw_only=False)
    at: Vector | None = None
    position: Vector | None = None
    axis: Vector | None = None
    x: Vector | None = None
    rotation: Matrix | None = None

    def place(self, on: Placing) -> Marker:
        b = on.body("body")
        if self.at is not None and self.position is not None:
            text = f"give either {on.arg('at')} (world) or {on.arg('position')} (body frame), not both."
            on.wrong(text, "at", "position")
        if self.rotation is not None and self.axis is not None:
            on.wrong(f"give either {on.arg('rotation')} or {on.arg('axis')}, not both.", "rotation", "axis")
        point = on.vector("at", default=b.position)
        local = b.local_point(point) if self.position is None else on.vector("position")
        R = np.eye(on.dimension) if self.rotation is None else on.rotation("rotation")
        if self.rotation is None and self.axis is not None:
            R = on.axis_frame("axis", "x")
        return on.register(on.model.markers, Marker(b, local, b.local_rotation(R), self.name))
