"""Refuses to start an experiment that could share a device with another of its feature, or buckets of a layer.

Two experiments of a feature may run together if they hold different buckets of one layer, or if their audiences share
no device.  Segments of a layer are apart over all features: that is what a layer is for.  Pure.
"""

from collections.abc import Iterable

from alcove.platform.domain.audience import parse_optional_audience
from alcove.platform.domain.errors import OverlappingClaimError
from alcove.platform.domain.records import ExperimentRecord, SegmentRecord
from alcove.registry.policy.audience import overlap_witness

__all__ = ["conflict", "validate_claims"]


def validate_claims(record: ExperimentRecord, others: Iterable[ExperimentRecord]) -> None:
    """Let an experiment run beside those of its app that do, or not.

    Raises:
        OverlappingClaimError: a device could be in it and in another; the first of these is named.
    """
    for running in others:
        if running.experiment_id == record.experiment_id:
            continue
        reason = conflict(record, running)
        if reason is not None:
            raise OverlappingClaimError(record.app, running.feature, running.experiment_id, reason)


def conflict(one: ExperimentRecord, other: ExperimentRecord) -> str | None:
    """Return why two experiments of an app cannot run together; None if they can."""
    if one.segment is not None and other.segment is not None and one.segment.layer == other.segment.layer:
        if _end(one.segment) <= other.segment.first or _end(other.segment) <= one.segment.first:
            return None
        return f"it has buckets {_text(other.segment)} of layer {one.segment.layer!r}, asked for {_text(one.segment)}"
    if one.feature != other.feature:
        return None
    witness = overlap_witness(parse_optional_audience(one.audience), parse_optional_audience(other.audience))
    if witness is None:
        return None
    known = ", ".join(f"{name}={getattr(witness, name)}" for name in sorted(witness.values))
    device = f"a device with {known}" if known else "every device"
    return f"they share no layer, and {device} could be in both: finish it first, or keep them apart"


def _end(segment: SegmentRecord) -> int:
    return segment.first + segment.count


def _text(segment: SegmentRecord) -> str:
    return f"[{segment.first}, {_end(segment)})"
