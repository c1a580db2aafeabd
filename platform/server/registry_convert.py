"""Converts registry records to wire messages, and fields of requests to values."""

import json
from collections.abc import Iterable, Sequence

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.domain import limits
from alcove.platform.domain.catalog.search import VersionOrder
from alcove.platform.domain.catalog_records import (
    AliasMove,
    AliasProposal,
    FeatureRules,
    FeatureSummary,
    ListedVersion,
    StateMove,
    ValidationRecord,
)
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.records import VersionRecord, VersionState
from alcove.platform.server.wire import to_message
from alcove.registry.manifest import PortSignature

__all__ = [
    "alias_move_message",
    "feature_message",
    "fitting",
    "order_from",
    "port_message",
    "proposal_message",
    "rules_from",
    "rules_message",
    "state_move_message",
    "states_from",
    "validation_message",
    "version_message",
]

_STATES = {state: pb.VersionState.Value(f"VERSION_STATE_{state.name}") for state in VersionState}
_STATES_FROM: dict[int, VersionState] = {number: state for state, number in _STATES.items()}
_ORDERS_FROM: dict[int, VersionOrder] = {
    pb.VersionOrder.Value(f"VERSION_ORDER_{order.name}"): order for order in VersionOrder
}
_ORDERS_FROM[pb.VERSION_ORDER_UNSPECIFIED] = VersionOrder.OLDEST


def feature_message(summary: FeatureSummary) -> pb.FeatureSummary:
    """Return the message of a feature; its states in the order of a version's life."""
    return pb.FeatureSummary(
        feature=summary.feature,
        team=summary.team,
        newest_release=summary.newest_release,
        published_at_s=summary.published_at_s,
        states=[
            pb.StateCount(state=number, versions=summary.states[state])
            for state, number in _STATES.items()
            if state in summary.states
        ],
    )


def version_message(listed: ListedVersion) -> pb.Version:
    """Return the message of a version."""
    record = listed.record
    return pb.Version(
        feature=record.feature,
        version=record.version,
        team=record.team,
        manifest_sha256=record.manifest_sha256,
        variants=[pb.Variant(**vars(variant)) for variant in record.variants],
        published_at_s=record.published_at_s,
        state=_STATES[record.state],
        tags=[pb.Tag(**vars(tag)) for tag in listed.tags],
        aliases=listed.aliases,
        lineage=_lineage(record),
        released_by=listed.released_by,
        released_at_s=listed.released_at_s,
        checks=listed.checks,
        failed_checks=listed.failed_checks,
        latencies=[pb.VariantLatency(variant=name, latency_ms=ms) for name, ms in listed.latencies_ms.items()],
    )


def fitting(messages: Sequence[pb.Version], most_bytes: int = limits.PAGE_BYTES) -> Sequence[pb.Version]:
    """Return as many messages from the start as fit into a page's bytes, and at least one where there is one."""
    total_bytes = 0
    for place, message in enumerate(messages):
        total_bytes += message.ByteSize()
        if total_bytes > most_bytes and place:
            return messages[:place]
    return messages


def port_message(port: PortSignature) -> pb.Port:
    """Return the message of an input or output."""
    return to_message(pb.Port, port)


def state_move_message(move: StateMove) -> pb.StateMove:
    """Return the message of a step of a version's life."""
    return pb.StateMove(
        from_state=_STATES[move.from_state],
        to_state=_STATES[move.to_state],
        moved_by=move.moved_by,
        moved_at_s=move.moved_at_s,
        reason=move.reason,
    )


def validation_message(validation: ValidationRecord | None) -> pb.Validation | None:
    """Return the message of a validation; None stays None."""
    if validation is None:
        return None
    return pb.Validation(
        is_passed=validation.is_passed,
        checks=[pb.Check(**vars(check)) for check in validation.checks],
        validated_by=validation.validated_by,
        validated_at_s=validation.validated_at_s,
    )


def alias_move_message(move: AliasMove) -> pb.AliasMove:
    """Return the message of a move of an alias."""
    return to_message(pb.AliasMove, move)


def proposal_message(proposal: AliasProposal) -> pb.AliasProposal:
    """Return the message of a move that waits for approval."""
    return to_message(pb.AliasProposal, proposal)


def rules_message(rules: FeatureRules) -> pb.FeatureRules:
    """Return the message of a feature's rules."""
    return pb.FeatureRules(**vars(rules))


def rules_from(message: pb.FeatureRules) -> FeatureRules:
    """Return the rules that a request means; who set them when is not the caller's to say."""
    return FeatureRules(
        must_approve_aliases=message.must_approve_aliases,
        must_approve_rollouts=message.must_approve_rollouts,
        accepts_any_state=message.accepts_any_state,
        max_size_bytes=message.max_size_bytes,
        max_memory_bytes=message.max_memory_bytes,
        max_latency_ms=message.max_latency_ms,
        allowed_ops=tuple(message.allowed_ops),
    )


def states_from(numbers: Iterable[int]) -> tuple[VersionState, ...]:
    """Return the states that a request names.

    Raises:
        InvalidFieldError: one is unspecified or unknown.
    """
    names = " | ".join(f"VERSION_STATE_{state.name}" for state in VersionState)
    for number in (numbers := tuple(numbers)):
        if number not in _STATES_FROM:
            raise InvalidFieldError("states", names, number)
    return tuple(_STATES_FROM[number] for number in numbers)


def order_from(number: int) -> VersionOrder:
    """Return the order that a request names.

    Raises:
        InvalidFieldError: it is unknown.
    """
    if number not in _ORDERS_FROM:
        raise InvalidFieldError("order", " | ".join(f"VERSION_ORDER_{known.name}" for known in VersionOrder), number)
    return _ORDERS_FROM[number]


def _lineage(record: VersionRecord) -> pb.Lineage | None:
    lineage = json.loads(record.manifest).get("lineage")
    return None if lineage is None else pb.Lineage(**lineage)
