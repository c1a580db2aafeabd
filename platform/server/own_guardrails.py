"""Converts guardrails and questions of teams' own metrics to and from wire messages."""

from typing import Any, Protocol, TypeVar

from alcove.api.experiment.v1 import experiment_pb2
from alcove.platform.domain.field_validation import validate_field
from alcove.platform.domain.own_metrics import OwnGuardrail, OwnMetric, OwnQuestion
from alcove.registry.policy.metric import MetricName
from google.protobuf.message import Message

__all__ = [
    "own_guardrail_from",
    "own_guardrail_message",
    "own_metric_from",
    "own_question_from",
    "own_question_message",
]

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
    metric = own_metric_from("own_guardrails.metric", message.metric, message.metric_version)
    return OwnGuardrail(metric, message.margin)


def own_question_from(message: experiment_pb2.OwnQuestion) -> OwnQuestion:
    """Return the question that a request means; its metric is not looked for yet.

    Raises:
        InvalidFieldError: the name is none.
    """
    metric = own_metric_from("own_questions.metric", message.metric, message.metric_version)
    return OwnQuestion(metric, message.share_basis_points)


def own_metric_from(field: str, name: str, version: int) -> OwnMetric:
    """Return the metric that a field names, without its definition.

    Raises:
        InvalidFieldError: the name is none.
    """
    return OwnMetric(validate_field(field, MetricName, name), version)


def own_question_message(question: OwnQuestion) -> experiment_pb2.OwnQuestion:
    """Return the message of a question."""
    metric, share = question.metric, question.share_basis_points
    return experiment_pb2.OwnQuestion(metric=metric.name, metric_version=metric.version, share_basis_points=share)


def own_guardrail_message(kind: type[_Message], guardrail: OwnGuardrail) -> _Message:
    """Return the message of a guardrail, of the class that its service has."""
    metric = guardrail.metric
    fields: dict[str, Any] = {"metric": metric.name, "metric_version": metric.version, "margin": guardrail.margin}
    return kind(**fields)
