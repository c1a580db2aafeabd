"""What does a device remember about its slots between two runs?  One JSON file, replaced whole.

Written by this device only, so nothing here is trusted more than the disk is; a file that says something impossible is
read as the empty state: the baselines answer, and the next sync installs again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Slot:
    """One installed version and why it is there.

    Attributes:
        version: "MAJOR.MINOR.PATCH".
        manifest_sha256: digest of its manifest, 64 hex digits; names its folder.
        reason: which part of the policy chose it, or "fallback".
        arm: number of the arm, only in an experiment.
        task: JSON text of the experiment's task, only in an experiment.
    """

    version: str
    manifest_sha256: str
    reason: str
    arm: int | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class FeatureSlots:
    """The slots of one feature; the baseline is the app's and stands in no state."""

    current: Slot | None = None
    previous: Slot | None = None


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

    def activate(self, feature: str, slot: Slot) -> "State":
        """Return the state after `slot` becomes current and what was current becomes previous.

        The same version again changes only why it is there.
        """
        old = self.slots(feature)
        if old.current is not None and old.current.manifest_sha256 == slot.manifest_sha256:
            return self.with_slots(feature, replace(old, current=slot))
        return self.with_slots(feature, FeatureSlots(current=slot, previous=old.current))

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
                kept = [Slot(kept[0].version, kept[0].manifest_sha256, "fallback")]
            current, previous = [*kept, None, None][:2]
            if FeatureSlots(current, previous) != slots:
                state = state.with_slots(feature, FeatureSlots(current, previous))
        return state

    def versions(self) -> frozenset[tuple[str, str]]:
        """Return (feature, manifest digest) of every filled slot."""
        return frozenset(
            (feature, slot.manifest_sha256)
            for feature, slots in self.features.items()
            for slot in (slots.current, slots.previous)
            if slot is not None
        )


def state_to_bytes(state: State) -> bytes:
    """Return the file that holds `state`."""
    features = {
        feature: {"current": _slot_fields(slots.current), "previous": _slot_fields(slots.previous)}
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
            _name(feature): FeatureSlots(_slot(slots["current"]), _slot(slots["previous"]))
            for feature, slots in document["features"].items()
        }
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"state is malformed: {type(error).__name__}: {error}") from error
    return State(MappingProxyType(features))


def _slot_fields(slot: Slot | None) -> dict[str, str | int | None] | None:
    if slot is None:
        return None
    return {
        "version": slot.version,
        "manifest_sha256": slot.manifest_sha256,
        "reason": slot.reason,
        "arm": slot.arm,
        "task": slot.task,
    }


def _slot(fields: dict[str, object] | None) -> Slot | None:
    if fields is None:
        return None
    digest = _text(fields["manifest_sha256"])
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError(f"state names a version by {digest!r}; 64 hex digits are due")
    arm, task = fields["arm"], fields["task"]
    if not (arm is None or (isinstance(arm, int) and arm >= 0)):
        raise ValueError(f"state has the arm {arm!r}")
    return Slot(_text(fields["version"]), digest, _text(fields["reason"]), arm, None if task is None else _text(task))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where text is due")
    return value


def _name(value: object) -> str:
    """Return text that may name a folder: state is ours, but a damaged one must not lead outside of it."""
    name = _text(value)
    if not name or "/" in name or "\0" in name or name.startswith("."):
        raise ValueError(f"state has {name!r} where a name is due")
    return name
