"""Explains why a device would run a version: the way through `resolve`, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.registry.errors import VersionHaltedError
from alcove.registry.policy.assignment import resolve
from alcove.registry.policy.attributes import NO_ATTRIBUTES, DeviceAttributes

if TYPE_CHECKING:
    from alcove.registry.policy.document import Policy
    from alcove.registry.policy.resolution import Resolution, Step

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The version of one feature on one device, and the way to it.

    Attributes:
        feature: its name.
        resolution: what the device runs; None where all that the policy would choose is halted.
        steps: every question that was asked, in order.
    """

    feature: str
    resolution: Resolution | None
    steps: tuple[Step, ...]


def explain(
    policy: Policy,
    feature: str,
    secret: bytes,
    *,
    attributes: DeviceAttributes = NO_ATTRIBUTES,
    halted: frozenset[str] = frozenset(),
    now_s: int = 0,
) -> Explanation:
    """Return what `resolve` answers for the same arguments, with every step that led there.

    Raises:
        FeatureUnknownError: the policy does not mention the feature.
        ValueError: `secret` has another length than 32.
    """
    steps: list[Step] = []
    try:
        resolution = resolve(
            policy, feature, secret, attributes=attributes, halted=halted, now_s=now_s, note=steps.append
        )
    except VersionHaltedError:
        resolution = None
    return Explanation(feature, resolution, tuple(steps))
