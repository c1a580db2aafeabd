"""Decides what a device fetches of a feature and which of it the device runs.

    candidates (by buckets, audiences aside) ─▶ all their versions within ALL_VERSIONS_BYTES?
         ├─ yes: every device with these candidates fetches all of them, and runs its own
         └─ no:  it fetches what its own needs; the audiences on the way are revealed and counted (questions.py)

In a read-out of the holdout both groups fetch the version that held-out devices keep, besides what they would fetch
anyway.  A held-out device that cannot have it runs what everybody runs, and is counted as held out all the same.

A candidate's versions are its arms, all of them; a device fetches its own alone where the policy says `own_arm`, the
arms are above the bound by their signed manifests, whatever the policy says, and its budget of questions allows it.

W1  Within the bound, what is fetched depends on policy, manifests and the installation's secret, not on an attribute,
    nor on an arm.
W2  A device that may not tell does as one that is not in the audience, or in no arm.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alcove.registry.errors import FetchError, RegistryError, VersionHaltedError
from alcove.registry.policy.document import ExperimentPolicy, RolloutPolicy
from alcove.registry.policy.resolution import Reason, Resolution
from alcove.sdk.limits import ALL_VERSIONS_BYTES
from alcove.sdk.questions import Questions

if TYPE_CHECKING:
    from alcove.registry.policy import Candidate, FeaturePolicy, VersionRef
    from alcove.sdk.installer import ManifestSource

__all__ = ["Choice", "choose"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a device does about a feature.

    Attributes:
        resolution: what it runs.
        needed: versions that it cannot do without.
        fetched: versions that it fetches, the needed ones among them, in the order in which every device does.
        otherwise: what it does where a needed version cannot be had; None: it keeps what it has.
    """

    resolution: Resolution
    needed: frozenset["VersionRef"]
    fetched: tuple["VersionRef", ...]
    otherwise: "Choice | None" = None


def choose(
    feature: str,
    rules: "FeaturePolicy",
    found: Sequence["Candidate"],
    tree: "ManifestSource",
    questions: Questions,
    *,
    halted: frozenset[str] = frozenset(),
) -> Choice:
    """Return what the device fetches and runs; new answers to the policy's questions are paid for.

    Args:
        feature: its name.
        rules: what the policy says of it.
        found: parts of the policy that the device can be in, audiences aside.
        tree: gives manifests, whose sizes their team has signed.
        questions: what the device may reveal.
        halted: manifest digests that must not run.

    Raises:
        VersionHaltedError: the device is left to the default, which is halted.
        FetchError: a manifest could not be had now.
        DeviceStorageError: the disk failed before the device's value of a dimension was settled.
    """
    everything = _distinct(ref for candidate in reversed(found) for ref in _arms(candidate, rules))
    is_small = _size_bytes(feature, everything, tree) <= ALL_VERSIONS_BYTES
    for candidate in found:
        if candidate.audience is not None and not questions.is_in(candidate.audience):
            continue
        if candidate.resolution is None:
            break
        arms = _arms(candidate, rules)
        part = candidate.part
        if is_small:
            mine = _with_task(candidate.resolution, part, questions)
            return _keep(candidate, Choice(mine, frozenset(arms), everything))
        if part is None or not part.own_arm or _size_bytes(feature, arms, tree) <= ALL_VERSIONS_BYTES:
            return _keep(candidate, Choice(_with_task(candidate.resolution, part, questions), frozenset(arms), arms))
        if candidate.resolution.arm is None or questions.shows_arm(part.id):
            own = (candidate.resolution.version,)
            return _keep(candidate, Choice(_with_task(candidate.resolution, part, questions), frozenset(own), own))
    last = found[-1]
    if rules.default.manifest_sha256 in halted:
        if last.kept is not None and last.kept.resolution is not None:
            return _only(last.kept.resolution)
        raise VersionHaltedError(feature, rules.default.version)
    default = Resolution(rules.default, Reason.DEFAULT, values=rules.values)
    if last.resolution is not None and last.resolution.group is not None:
        default = replace(default, task=last.resolution.task, group=last.resolution.group)
    return _keep(last, _only(default))


def _only(resolution: Resolution) -> Choice:
    return Choice(resolution, frozenset((resolution.version,)), (resolution.version,))


def _keep(candidate: "Candidate", choice: Choice) -> Choice:
    """Return the choice of a device that keeps a version in a read-out's holdout, or fetches it in its mirror group."""
    kept = candidate.kept
    if kept is None:
        return choice
    choice = replace(choice, fetched=_distinct((*choice.fetched, kept.version)))
    if kept.resolution is None:
        return choice
    return Choice(kept.resolution, frozenset((kept.version,)), choice.fetched, otherwise=choice)


def _with_task(
    resolution: Resolution, part: ExperimentPolicy | RolloutPolicy | None, questions: Questions
) -> Resolution:
    """Return a resolution with the task of the device's value, in an experiment with a dimension."""
    if not (resolution.strata and isinstance(part, ExperimentPolicy) and part.dimension is not None):
        return resolution
    return resolution.place(questions.settle_value(part.id, part.dimension))


def _arms(candidate: "Candidate", rules: "FeaturePolicy") -> tuple["VersionRef", ...]:
    """Return the versions of all arms of a candidate; one version where nothing is compared."""
    part, resolution = candidate.part, candidate.resolution
    if resolution is None:
        return ()
    if isinstance(part, ExperimentPolicy) and resolution.arm is not None:
        return _distinct(arm.version for arm in part.arms)
    if isinstance(part, RolloutPolicy) and part.control_basis_points and resolution.arm is not None:
        return _distinct((rules.default, part.version))
    return (resolution.version,)


def _distinct(refs: Iterable["VersionRef"]) -> tuple["VersionRef", ...]:
    return tuple(dict.fromkeys(refs))


def _size_bytes(feature: str, refs: Sequence["VersionRef"], tree: "ManifestSource") -> int:
    """Return the bytes of the largest program of each version together; 0 for a single one, of which nothing is asked.

    A version without an acceptable manifest is fetched by nobody and counts nothing.
    """
    if len(refs) < 2:
        return 0
    total = 0
    for ref in refs:
        try:
            manifest = tree.manifest(feature, ref.version)
        except FetchError:
            raise
        except RegistryError:
            continue
        if manifest.sha256 == ref.manifest_sha256:
            total += max(variant.size_bytes for variant in manifest.variants)
    return total
