"""Pins versions and arms on a test device, from a file that lies on it; for builds of an app that testers use.

    {"polite": {"version": "1.1.0"}, "tone": {"arm": "treatment"}}

    Client(..., debug=DebugOverrides.from_file(folder / "alcove-debug.json"))

Only a build that passes `debug` reads such a file, and nothing that the network says changes it.  While it pins
something:

D1  A pinned version passes every check that any other does: its team's signature, minimum version, halts, the program's
    verification, the app's signature.  It can be no version of a feature that the app's policy does not name.
D2  The device records nothing, reports nothing and takes part in no experiment: what testers do is nobody's evidence.
D3  Answers have the reason "debug", and `privacy_summary` lists what is pinned.
D4  A build without it never answers with a pinned version, not before its first sync either.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from alcove.sdk.errors import DeviceStorageError, OutOfBoundError

if TYPE_CHECKING:
    from alcove.registry.policy import FeaturePolicy, VersionRef
    from alcove.sdk.installer import ManifestSource

__all__ = ["DEBUG", "NOTHING_PINNED", "DebugOverrides", "Pin", "pinned_version"]

DEBUG: Final = "debug"
"""Reason of an answer by a pinned version."""

_MAX_BYTES: Final = 64 * 1024
_FEATURE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_VERSION: Final = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}")
_ROLLOUT_ARMS: Final = ("control", "treatment")


@dataclass(frozen=True, slots=True)
class Pin:
    """What one feature is pinned to; exactly one of the two is set.

    Attributes:
        version: "MAJOR.MINOR.PATCH" of a published version.
        arm: name of an arm of the feature's experiment, or "control" or "treatment" of its rollout.
    """

    version: str = ""
    arm: str = ""

    def __str__(self) -> str:
        return f"version {self.version}" if self.version else f"arm {self.arm}"


@dataclass(frozen=True, slots=True)
class DebugOverrides:
    """What is pinned on a test device; empty: nothing, and the device is like any other.

    Attributes:
        pins: by feature.
    """

    pins: Mapping[str, Pin] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_file(cls, path: Path | str) -> "DebugOverrides":
        """Return what a JSON file pins; nothing where there is no such file.

        Raises:
            OutOfBoundError: it is no object of features, each with a version or an arm.
            DeviceStorageError: it cannot be read.
        """
        path = Path(path)
        try:
            data = path.read_bytes()[: _MAX_BYTES + 1]
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise DeviceStorageError(step="read", path=path.name, reason=error.strerror or str(error)) from error
        try:
            document = json.loads(data) if len(data) <= _MAX_BYTES else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            bound = f"a JSON object of features, at most {_MAX_BYTES} bytes"
            raise OutOfBoundError(name=path.name, bound=bound, value=data[:40])
        return cls(MappingProxyType({feature: _pin(path.name, feature, value) for feature, value in document.items()}))

    def to_json(self) -> dict[str, str]:
        """Return what is pinned, for people: "version 1.1.0" or "arm treatment", by feature."""
        return {feature: str(pin) for feature, pin in sorted(self.pins.items())}


NOTHING_PINNED: Final = DebugOverrides()


def pinned_version(feature: str, pin: Pin, rules: "FeaturePolicy", tree: "ManifestSource") -> "VersionRef":
    """Return the version that a feature is pinned to (D1).

    Args:
        feature: its name.
        pin: what it is pinned to.
        rules: what the policy says of the feature.
        tree: gives manifests that their team has signed.

    Raises:
        OutOfBoundError: the policy has no such arm now, or several.
        RegistryError: the team published no such version, or it is below its minimum version.
    """
    from alcove.registry.policy import VersionRef  # noqa: PLC0415 - loaded by the sync

    if pin.version:
        return VersionRef(version=pin.version, manifest_sha256=tree.manifest(feature, pin.version).sha256)
    arms = [(arm.name, arm.version) for experiment in rules.experiments for arm in experiment.arms]
    if rules.rollout is not None:
        arms += zip(_ROLLOUT_ARMS, (rules.default, rules.rollout.version), strict=True)
    found = [version for name, version in arms if name == pin.arm]
    if len(found) != 1:
        bound = f"one of the arms of the policy: {', '.join(sorted(name for name, _ in arms)) or 'there are none'}"
        raise OutOfBoundError(name=f"the pinned arm of {feature}", bound=bound, value=pin.arm)
    return found[0]


def _pin(name: str, feature: str, value: Any) -> Pin:
    bound = 'a feature with {"version": "1.2.3"} or {"arm": "NAME"}'
    if (
        _FEATURE.fullmatch(feature) is None
        or not isinstance(value, dict)
        or len(value) != 1
        or not all(isinstance(text, str) and text for text in value.values())
        or not (value.keys() == {"arm"} or _VERSION.fullmatch(value.get("version", "")))
    ):
        raise OutOfBoundError(name=f"{name}, {feature}", bound=bound, value=value)
    return Pin(**value)
