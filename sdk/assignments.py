"""Lists what the policy that this device holds assigns to it, computed once: reading it touches no disk.

It may differ from what answers at present: a version that could not be had, or crashed here, is assigned all the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from alcove.registry.policy import Audience, FeaturePolicy, Halt, Policy, Resolution, candidates

__all__ = ["Assignments", "assignments_of"]


@dataclass(frozen=True, slots=True)
class Assignments:
    """What one policy assigns to this device.

    Attributes:
        policy_serial: number of the policy.
        halt_serial: number of the halt that it was compared with; 0: none.
        rules: what the policy says of each feature.
        resolutions: what it assigns, by feature; None where nothing that it names may run.
        configs: values of the parameters of the assigned version, by feature; only of those that are installed.
        is_current: the policy was confirmed by the last sync of this process; else it is what was last seen.
    """

    policy_serial: int
    halt_serial: int
    rules: Mapping[str, FeaturePolicy]
    resolutions: Mapping[str, Resolution | None]
    is_current: bool
    configs: Mapping[str, Mapping[str, bool | int | float | str]] = field(default_factory=lambda: MappingProxyType({}))


def assignments_of(
    policy: Policy,
    halt: Halt | None,
    secret: bytes,
    is_in: Callable[[Audience], bool],
    settled_value: Callable[[str], int | None],
    *,
    now_s: int,
    is_current: bool,
    is_in_experiments: bool = True,
) -> Assignments:
    """Return what `policy` assigns to the device with this secret, what is halted left out.

    Args:
        policy: as it was last seen.
        halt: likewise.
        secret: the installation's.
        is_in: tells which audiences the device acts as one of.
        settled_value: gives the number of its value in an experiment with a dimension; None: it has none yet.
        now_s: the device's clock, seconds since 1970.
        is_current: the last sync confirmed the policy.
        is_in_experiments: the device takes part in experiments.
    """
    halted = frozenset() if halt is None else halt.digests
    resolutions: dict[str, Resolution | None] = {}
    for feature in policy.features:
        found = candidates(policy, feature, secret, now_s=now_s, halted=halted, is_in_experiments=is_in_experiments)
        mine = (each.assigned for each in found if each.audience is None or is_in(each.audience))
        resolutions[feature] = _with_value(next(mine, None), settled_value)
    return Assignments(
        policy_serial=policy.serial,
        halt_serial=0 if halt is None else halt.serial,
        rules=MappingProxyType(policy.features),
        resolutions=MappingProxyType(resolutions),
        is_current=is_current,
    )


def _with_value(resolution: Resolution | None, settled_value: Callable[[str], int | None]) -> Resolution | None:
    if resolution is None or not resolution.strata or resolution.experiment_id is None:
        return resolution
    value = settled_value(resolution.experiment_id)
    return resolution if value is None or value >= len(resolution.strata) else resolution.place(value)
