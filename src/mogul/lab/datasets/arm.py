"""A 7-joint arm for MuJoCo, about the size and the masses of a Baxter robot's: shoulder 2, elbow 2, wrist 3."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from mogul._typing import Array


@dataclass(frozen=True)
class Link:
    """A link and the joint that carries it, both in the frame of the link before: metres, kilograms, radians."""

    name: str
    offset: tuple[float, float, float]  # from the joint before
    axis: str  # of the joint: it twists about the link, or bends it
    end: tuple[float, float, float]  # of the capsule that gives the link its inertia
    radius: float
    mass: float
    limits: tuple[float, float]


LINKS = (
    Link("shoulder_twist", (0.0, 0.0, 0.27), "0 0 1", (0.07, 0.0, 0.05), 0.07, 5.7, (-1.7, 1.7)),
    Link("shoulder_bend", (0.07, 0.0, 0.0), "0 1 0", (0.10, 0.0, 0.0), 0.06, 3.2, (-2.1, 1.0)),
    Link("upper_arm_twist", (0.10, 0.0, 0.0), "1 0 0", (0.26, 0.0, -0.07), 0.055, 4.3, (-3.0, 3.0)),
    Link("elbow_bend", (0.26, 0.0, -0.07), "0 1 0", (0.10, 0.0, 0.0), 0.05, 2.1, (0.0, 2.6)),
    Link("forearm_twist", (0.10, 0.0, 0.0), "1 0 0", (0.27, 0.0, -0.01), 0.045, 2.2, (-3.0, 3.0)),
    Link("wrist_bend", (0.27, 0.0, -0.01), "0 1 0", (0.11, 0.0, 0.0), 0.04, 1.6, (-1.5, 2.0)),
    Link("wrist_twist", (0.11, 0.0, 0.0), "1 0 0", (0.12, 0.02, 0.0), 0.035, 0.5, (-3.0, 3.0)),
)
# Of each joint, in N m s, N m and N m: the shoulder and elbow have larger gears than the wrist.
VISCOUS = (0.6, 0.6, 0.4, 0.4, 0.15, 0.15, 0.1)
COULOMB = (1.2, 1.2, 0.8, 0.8, 0.25, 0.25, 0.15)
TORQUE_NOISE = (0.10, 0.10, 0.10, 0.10, 0.03, 0.03, 0.03)
STICTION_SPEED = 0.02  # rad/s, below which dry friction fades: a jump in the torque is no arm's


class Arm:
    """The arm's inverse dynamics, friction and the noise of its torque sensors."""

    viscous: Array = np.array(VISCOUS)
    coulomb: Array = np.array(COULOMB)
    torque_noise: Array = np.array(TORQUE_NOISE)
    centre: Array = np.array([sum(link.limits) / 2 for link in LINKS])
    reach: Array = np.array([(link.limits[1] - link.limits[0]) / 2 for link in LINKS])

    @cached_property
    def model(self) -> Any:
        """MuJoCo's model of the arm."""
        import mujoco

        return mujoco.MjModel.from_xml_string(arm_xml())

    def torques(
        self, position: Float[Array, "N 7"], velocity: Float[Array, "N 7"], acceleration: Float[Array, "N 7"]
    ) -> Float[Array, "N 7"]:
        """The torques that make the frictionless arm move like this: M(q) q̈ + C(q, q̇) q̇ + g(q)."""
        import mujoco

        data = mujoco.MjData(self.model)
        torques = np.empty_like(position)
        for row in range(len(position)):
            data.qpos, data.qvel, data.qacc = position[row], velocity[row], acceleration[row]
            mujoco.mj_inverse(self.model, data)
            torques[row] = data.qfrc_inverse
        return torques

    def friction(self, velocity: Float[Array, "N 7"]) -> Float[Array, "N 7"]:
        """What the joints' viscous and dry friction takes on top."""
        dry: Array = self.coulomb * np.tanh(velocity / STICTION_SPEED)
        return self.viscous * velocity + dry


def arm_xml() -> str:
    """The arm in MuJoCo's language: one capsule per link, nothing to touch, gravity down.

    >>> arm_xml().count("<joint")
    7
    """
    inner = ""
    for link in reversed(LINKS):
        inner = (
            f'<body name="{link.name}" pos="{_words(link.offset)}">'
            f'<joint name="{link.name}" type="hinge" axis="{link.axis}"/>'
            f'<geom type="capsule" fromto="0 0 0 {_words(link.end)}" size="{link.radius}" mass="{link.mass}"/>'
            f"{inner}</body>"
        )
    # Without contacts, limits and implicit damping, inverse dynamics are the textbook's.
    return (
        '<mujoco model="rhythmic arm"><compiler angle="radian"/>'
        '<option gravity="0 0 -9.81"><flag contact="disable" constraint="disable"/></option>'
        f"<worldbody>{inner}</worldbody></mujoco>"
    )


def _words(numbers: tuple[float, ...]) -> str:
    return " ".join(map(str, numbers))
