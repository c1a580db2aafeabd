"""Defines what a device remembers about its slots between two runs: one JSON file, replaced whole.

Written by this device only, so nothing here is trusted more than the disk is; a file that says something impossible is
read as the empty state: the baselines answer, and the next sync installs again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

FORMAT: Final = 1

_VERSION: Final = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}")

RECENT_SETS: Final = 3
"""How many different sets of versions a device keeps: what policies had it fetch lately, for going back locally."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One installed version and why it is there.

    Attributes:
        version: "MAJOR.MINOR.PATCH".
        manifest_sha256: digest of its manifest, 64 hex digits; names its folder.
        reason: which part of the policy chose it, or "fallback".
        arm: number of the arm, in an experiment or a rollout that compares.
        task: JSON text of what is reported of that arm; None where nothing is.
        config: the values of the version's parameters, by rising name; () where it declares none.
    """

    version: str
    manifest_sha256: str
    reason: str
    arm: int | None = None
    task: str | None = None
    config: tuple[tuple[str, bool | int | float | str], ...] = ()

    def as_fallback(self) -> "Slot":
        """Return the same version and values, in no arm."""
        return replace(self, reason="fallback", arm=None, task=None)


@dataclass(frozen=True, slots=True)
class FeatureSlots:
    """The slots of one feature; the baseline is the app's and stands in no state.

    Attributes:
        current: the version that answers.
        previous: the version that answered before.
        recent: manifest digests of the last sets of versions that the policy had this device fetch, newest first;
            in an experiment a set holds all arms.
        abandoned_arm: the version of the device's present arm, which it left because it crashed here; only with a task.
    """

    current: Slot | None = None
    previous: Slot | None = None
    recent: tuple[frozenset[str], ...] = ()
    abandoned_arm: Slot | None = None

    def installed_digests(self) -> frozenset[str]:
        """Return the manifest digests of every version that is to stay on the disk."""
        slots = {slot.manifest_sha256 for slot in (self.current, self.previous) if slot is not None}
        return frozenset(slots).union(*self.recent)


@dataclass(frozen=True, slots=True)
class State:
    """All slots of a device; immutable.

    Attributes:
        features: slots by feature.
    """

    features: Mapping[str, FeatureSlots] = field(default_factory=lambda: MappingProxyType({}))

    def slots(self, feature: str) -> FeatureSlots:
        """Return the slots of a feature; empty ones for a feature never installed."""
        return self.features.get(feature, FeatureSlots())

    def with_slots(self, feature: str, slots: FeatureSlots) -> "State":
        """Return this state with other slots for one feature."""
        return State(MappingProxyType({**self.features, feature: slots}))

    def activate(self, feature: str, slot: Slot, *, is_healthy: bool = True) -> "State":
        """Return the state after `slot` becomes current and what was current becomes previous.

        The same version again changes only why it is there.  What was left before is of no arm any more.

        Args:
            feature: its feature.
            slot: the version.
            is_healthy: what is current has answered here.  Else the version before it stays previous: what a device can
                go back to changes only for something that works.
        """
        old = replace(self.slots(feature), abandoned_arm=None)
        if old.current is not None and old.current.manifest_sha256 == slot.manifest_sha256:
            return self.with_slots(feature, replace(old, current=slot))
        is_previous_better = not is_healthy and old.previous is not None and old.previous != slot
        previous = old.previous if is_previous_better else old.current
        return self.with_slots(feature, replace(old, current=slot, previous=previous))

    def record_fetched(self, feature: str, fetched: frozenset[str]) -> "State":
        """Return the state after the policy had this device fetch a set of versions.

        What stays installed depends on such sets alone, the same in every arm; so a previous version that is in none of
        them goes.  Otherwise a later download, or its absence, would tell which arm a device was in.
        """
        old = self.slots(feature)
        recent = (fetched, *(other for other in old.recent if other != fetched))[:RECENT_SETS]
        is_kept = old.previous is not None and any(old.previous.manifest_sha256 in other for other in recent)
        return self.with_slots(feature, replace(old, previous=old.previous if is_kept else None, recent=recent))

    def release(self, feature: str) -> "State":
        """Return the state after the policy ceased to name a feature: its version stays, in no experiment."""
        slots = replace(self.slots(feature), abandoned_arm=None)
        if slots.current is None:
            return self.with_slots(feature, slots)
        return self.with_slots(feature, replace(slots, current=slots.current.as_fallback()))

    def withdraw(self, manifest_digests: frozenset[str]) -> "State":
        """Return the state with some versions gone: previous takes current's place, else the baseline does."""
        state = self
        for feature, slots in self.features.items():
            kept = [
                slot
                for slot in (slots.current, slots.previous)
                if slot is not None and slot.manifest_sha256 not in manifest_digests
            ]
            if slots.current is not None and slots.current not in kept and kept:
                kept = [kept[0].as_fallback()]
            current, previous = [*kept, None, None][:2]
            state = state.with_slots(feature, replace(slots, current=current, previous=previous))
        return state if state.features != self.features else self

    def quarantine(self, manifest_digests: frozenset[str]) -> "State":
        """Return the state with versions gone that crashed here; a feature remembers the arm that it was in."""
        state = self.withdraw(manifest_digests)
        for feature, slots in self.features.items():
            current = slots.current
            if current is not None and current.manifest_sha256 in manifest_digests:
                state = state.abandon_arm(feature, current)
        return state

    def abandon_arm(self, feature: str, slot: Slot) -> "State":
        """Return the state after a feature could not run the version of its arm because it crashed here."""
        return self.with_slots(feature, replace(self.slots(feature), abandoned_arm=None if slot.task is None else slot))

    def versions(self) -> frozenset[tuple[str, str]]:
        """Return (feature, manifest digest) of every version that is to stay on the disk."""
        return frozenset(
            (name, digest) for name, slots in self.features.items() for digest in slots.installed_digests()
        )


def state_to_bytes(state: State) -> bytes:
    """Return the file that holds `state`."""
    features = {
        feature: {
            "current": _slot_fields(slots.current),
            "previous": _slot_fields(slots.previous),
            "recent": [sorted(fetched) for fetched in slots.recent],
        }
        | ({} if slots.abandoned_arm is None else {"left": _slot_fields(slots.abandoned_arm)})
        for feature, slots in state.features.items()
    }
    return json.dumps({"format": FORMAT, "features": features}, sort_keys=True, indent=1).encode()


def state_from_bytes(data: bytes) -> State:
    """Return the state that `data` holds.

    Raises:
        ValueError: `data` is no state of this format.
    """
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError(f"state has format {document['format']!r}; this reads {FORMAT}")
        features = {
            _name(feature): FeatureSlots(
                _slot(slots["current"]),
                _slot(slots["previous"]),
                tuple(frozenset(_digest(text) for text in fetched) for fetched in slots["recent"]),
                _slot(slots.get("left")),
            )
            for feature, slots in document["features"].items()
        }
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"state is malformed: {type(error).__name__}: {error}") from error
    return State(MappingProxyType(features))


def _slot_fields(slot: Slot | None) -> dict[str, object] | None:
    if slot is None:
        return None
    fields: dict[str, object] = {
        "version": slot.version,
        "manifest_sha256": slot.manifest_sha256,
        "reason": slot.reason,
        "arm": slot.arm,
        "task": slot.task,
    }
    if slot.config:
        fields["config"] = dict(slot.config)
    return fields


def _slot(fields: dict[str, object] | None) -> Slot | None:
    if fields is None:
        return None
    digest = _digest(fields["manifest_sha256"])
    arm, task = fields["arm"], fields["task"]
    config = fields.get("config", {})
    if not isinstance(config, dict) or not all(isinstance(value, (bool, int, float, str)) for value in config.values()):
        raise TypeError(f"{config!r} where values of parameters are due")
    if not (arm is None or (isinstance(arm, int) and arm >= 0)):
        raise ValueError(f"state has the arm {arm!r}")
    reported = None if task is None else _text(task)
    return Slot(
        _version(fields["version"]), digest, _text(fields["reason"]), arm, reported, tuple(sorted(config.items()))
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where text is due")
    return value


def _version(value: object) -> str:
    version = _text(value)
    if _VERSION.fullmatch(version) is None:
        raise ValueError(f"state names the version {version!r}; MAJOR.MINOR.PATCH is due")
    return version


def _digest(value: object) -> str:
    digest = _text(value)
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError(f"state names a version by {digest!r}; 64 hex digits are due")
    return digest


def _name(value: object) -> str:
    """Return text that may name a folder: state is ours, but a damaged one must not lead outside of it."""
    name = _text(value)
    if not name or "/" in name or "\0" in name or name.startswith("."):
        raise ValueError(f"state has {name!r} where a name is due")
    return name
