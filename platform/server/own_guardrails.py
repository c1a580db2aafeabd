"""Converts guardrails of teams' own metrics to and from wire messages, which both services have alike."""

from typing import Any, Protocol, TypeVar

from alcove.platform.domain.field_validation import validate_field
from alcove.platform.domain.own_metrics import OwnGuardrail, OwnMetric
from alcove.registry.policy.metric import MetricName
from google.protobuf.message import Message

__all__ = ["own_guardrail_from", "own_guardrail_message"]

_Message = TypeVar("_Message", bound=Message)


class _OwnGuardrail(Protocol):
    """A message OwnGuardrail."""

    metric: str
    metric_version: int
    margin: float


def own_guardrail_from(message: _OwnGuardrail) -> OwnGuardrail:
    """Return the guardrail that a request means; its metric is not looked for yet.

    Raises:
        InvalidFieldError: the name is none.
    """
    name = validate_field("own_guardrails.metric", MetricName, message.metric)
    return OwnGuardrail(OwnMetric(name, message.metric_version), message.margin)


def own_guardrail_message(kind: type[_Message], guardrail: OwnGuardrail) -> _Message:
    """Return the message of a guardrail, of the class that its service has."""
    metric = guardrail.metric
    fields: dict[str, Any] = {"metric": metric.name, "metric_version": metric.version, "margin": guardrail.margin}
    return kind(**fields)
