"""1 · model: bodies and the frames fixed in them."""

from __future__ import annotations

import numpy as np

from dalembert.model._checks import Checks
from dalembert.model._frames import Body, Marker
from dalembert.model._statements import (
    Angular,
    Inertia,
    Matrix,
    Name,
    Number,
    Place,
    Positive,
    Quaternion,
    Vector,
    element,
)


class Bodies(Checks):
    """The part of `Model` that adds bodies and markers."""

    @element("bodies")
    def body(
        self,
        name: Name,
        *,
        mass: Positive,
        inertia: Inertia,
        position: Vector | None = None,
        angle: Number | None = None,
        rotation: Matrix | None = None,
        quaternion: Quaternion | None = None,
        axis: Vector | None = None,
        velocity: Vector | None = None,
        angular_velocity: Angular | None = None,
    ) -> Body:
        """Add a rigid body; `position` is its centre of mass, where its frame sits.

        In the plane: `inertia` a number, orientation by `angle`. In space: `inertia` (3,) principal moments or
        a (3, 3) tensor in the body frame; orientation by `rotation` (3, 3), `quaternion` (w, x, y, z), or
        `axis` with `angle`. `velocity` is in the world frame, `angular_velocity` in the body frame.
        """
        who, d = f"Body '{name}'", self.dimension
        R = self._orientation(who, angle, rotation, quaternion, axis)
        dw = 1 if d == 2 else 3
        spin = np.zeros(dw) if angular_velocity is None else angular_velocity
        if d == 2 and np.ndim(spin) == 0:
            spin = [spin]
        body = Body(
            name=name,
            mass=self._number(f"{who}: mass", mass, positive=True),
            inertia=self._inertia(who, inertia),
            position=self._vector(f"{who}: position", np.zeros(d) if position is None else position, d),
            rotation=R,
            velocity=self._vector(f"{who}: velocity", np.zeros(d) if velocity is None else velocity, d),
            angular_velocity=self._vector(f"{who}: angular_velocity", spin, dw),
        )
        self._register(self.bodies, name, body, "Body")
        return body

    @element("markers")
    def marker(
        self,
        name: Name,
        body: Place,
        *,
        at: Vector | None = None,
        position: Vector | None = None,
        axis: Vector | None = None,
        x: Vector | None = None,
        rotation: Matrix | None = None,
    ) -> Marker:
        """Add a frame fixed in `body`: at a world point (`at`) or at a point of the body frame (`position`).

        `rotation` is the frame in world axes; `axis` alone sets its z axis (in the plane its x axis), and `x` with it
        the direction of its x axis.
        """
        who, d = f"Marker '{name}'", self.dimension
        b = self._body(who, body)
        if at is not None and position is not None:
            self._wrong(f"{who}: give either at= (world) or position= (body frame), not both.")
        if rotation is not None and axis is not None:
            self._wrong(f"{who}: give either rotation= or axis=, not both.")
        point = b.position if at is None else self._vector(f"{who}: at", at, d)
        local = b.local_point(point) if position is None else self._vector(f"{who}: position", position, d)
        R = np.eye(d) if rotation is None else self._matrix(f"{who}: rotation", rotation)
        if rotation is None and axis is not None:
            R = self._axis_frame(who, axis, x)
        marker = Marker(b, local, b.local_rotation(R), name)
        self._register(self.markers, name, marker, "Marker")
        return marker

    def _fixed(self, body: Body, point, frame=None) -> Marker:
        """A marker fixed in a body, from a point and a frame in the world."""
        frame = np.eye(self.dimension) if frame is None else frame
        return Marker(body, body.local_point(point), body.local_rotation(frame))

    def _centre(self, body: Body) -> Marker:
        return Marker(body, np.zeros(self.dimension), np.eye(self.dimension))
