"""Policy documents and assignment: pure code that the server and the devices share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alcove.registry.policy.assignment import Reason, Resolution, arm_ranges, bucket, keeps_devices, resolve
    from alcove.registry.policy.document import (
        Arm,
        ExperimentPolicy,
        FeaturePolicy,
        Halt,
        HaltedVersion,
        Policy,
        RolloutPolicy,
        TaskPolicy,
        VersionRef,
        halt_from_bytes,
        halt_to_bytes,
        make_task,
        policy_from_bytes,
        policy_to_bytes,
    )

# Loaded on first use: an app that only predicts needs neither pydantic nor any of this.
_HOME: Final = {
    "Arm": "document",
    "ExperimentPolicy": "document",
    "FeaturePolicy": "document",
    "Halt": "document",
    "HaltedVersion": "document",
    "Policy": "document",
    "Reason": "assignment",
    "Resolution": "assignment",
    "RolloutPolicy": "document",
    "TaskPolicy": "document",
    "VersionRef": "document",
    "arm_ranges": "assignment",
    "bucket": "assignment",
    "halt_from_bytes": "document",
    "halt_to_bytes": "document",
    "keeps_devices": "assignment",
    "make_task": "document",
    "policy_from_bytes": "document",
    "policy_to_bytes": "document",
    "resolve": "assignment",
}

__all__ = [
    "Arm",
    "ExperimentPolicy",
    "FeaturePolicy",
    "Halt",
    "HaltedVersion",
    "Policy",
    "Reason",
    "Resolution",
    "RolloutPolicy",
    "TaskPolicy",
    "VersionRef",
    "arm_ranges",
    "bucket",
    "halt_from_bytes",
    "halt_to_bytes",
    "keeps_devices",
    "make_task",
    "policy_from_bytes",
    "policy_to_bytes",
    "resolve",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
