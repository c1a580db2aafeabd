"""Defines policy documents and assignment: pure code that the server and the devices share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alcove.registry.policy.aggregation import (
        Aggregation,
    )
    from alcove.registry.policy.assignment import (
        arm_ranges,
        bucket,
        candidates,
        draw_task,
        resolve,
        rollout_ranges,
    )
    from alcove.registry.policy.attributes import (
        DeviceAttributes,
    )
    from alcove.registry.policy.audience import (
        Audience,
        overlap_witness,
        overlaps,
    )
    from alcove.registry.policy.audience_text import (
        parse_attributes,
        parse_audience,
    )
    from alcove.registry.policy.dimension import (
        Dimension,
        parse_dimension,
    )
    from alcove.registry.policy.document import (
        Arm,
        ArmBuckets,
        ExperimentPolicy,
        FeaturePolicy,
        Halt,
        HaltedVersion,
        Holdout,
        Policy,
        Readout,
        RolloutPolicy,
        Segment,
        VersionRef,
        halt_from_bytes,
        halt_to_bytes,
        policy_from_bytes,
        policy_to_bytes,
    )
    from alcove.registry.policy.explanation import (
        Explanation,
        explain,
    )
    from alcove.registry.policy.layout import (
        CellAxes,
        HistogramLayout,
    )
    from alcove.registry.policy.outcome import (
        Outcome,
    )
    from alcove.registry.policy.resolution import (
        Candidate,
        Check,
        Kept,
        Reason,
        Resolution,
        Step,
    )
    from alcove.registry.policy.shares import (
        VersionShare,
        split_devices,
    )
    from alcove.registry.policy.task import (
        TaskPolicy,
        in_stratum,
        make_task,
    )

# Loaded on first use: an app that only predicts needs neither pydantic nor any of this.
_HOME: Final = {
    "Aggregation": "aggregation",
    "Arm": "document",
    "ArmBuckets": "document",
    "Audience": "audience",
    "Candidate": "resolution",
    "CellAxes": "layout",
    "Check": "resolution",
    "DeviceAttributes": "attributes",
    "Dimension": "dimension",
    "ExperimentPolicy": "document",
    "Explanation": "explanation",
    "FeaturePolicy": "document",
    "Halt": "document",
    "HaltedVersion": "document",
    "HistogramLayout": "layout",
    "Holdout": "document",
    "Kept": "resolution",
    "Outcome": "outcome",
    "Policy": "document",
    "Readout": "document",
    "Reason": "resolution",
    "Resolution": "resolution",
    "RolloutPolicy": "document",
    "Segment": "document",
    "Step": "resolution",
    "TaskPolicy": "task",
    "VersionRef": "document",
    "VersionShare": "shares",
    "arm_ranges": "assignment",
    "bucket": "assignment",
    "candidates": "assignment",
    "draw_task": "assignment",
    "explain": "explanation",
    "halt_from_bytes": "document",
    "halt_to_bytes": "document",
    "in_stratum": "task",
    "make_task": "task",
    "overlap_witness": "audience",
    "overlaps": "audience",
    "parse_attributes": "audience_text",
    "parse_audience": "audience_text",
    "parse_dimension": "dimension",
    "policy_from_bytes": "document",
    "policy_to_bytes": "document",
    "resolve": "assignment",
    "rollout_ranges": "assignment",
    "split_devices": "shares",
}

__all__ = [
    "Aggregation",
    "Arm",
    "ArmBuckets",
    "Audience",
    "Candidate",
    "CellAxes",
    "Check",
    "DeviceAttributes",
    "Dimension",
    "ExperimentPolicy",
    "Explanation",
    "FeaturePolicy",
    "Halt",
    "HaltedVersion",
    "HistogramLayout",
    "Holdout",
    "Kept",
    "Outcome",
    "Policy",
    "Readout",
    "Reason",
    "Resolution",
    "RolloutPolicy",
    "Segment",
    "Step",
    "TaskPolicy",
    "VersionRef",
    "VersionShare",
    "arm_ranges",
    "bucket",
    "candidates",
    "draw_task",
    "explain",
    "halt_from_bytes",
    "halt_to_bytes",
    "in_stratum",
    "make_task",
    "overlap_witness",
    "overlaps",
    "parse_attributes",
    "parse_audience",
    "parse_dimension",
    "policy_from_bytes",
    "policy_to_bytes",
    "resolve",
    "rollout_ranges",
    "split_devices",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
