"""Checks the fields of each request by their names, with one rule for all requests that have such a field.

This comes before anything is looked up, so a malformed field is reported as such whatever else is wrong, and a filter
of a list that could match nothing is refused instead of answered with an empty page.  A field that is empty is left to
its service, which knows whether it needs one; where a service would look for something without a name, the table says
that it must have one.  The rules hold for fields of messages inside the request too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_field, validate_page, validate_reason
from alcove.registry.canonical import AppName, FeatureName, Identifier, TeamName, VersionText
from alcove.registry.limits import POLICY_BUCKETS

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

__all__ = ["validate_fields"]

_Rule = Callable[[str, Any], object]
EPSILON_LENGTH: Final = 32  # characters; "0.01" is what people write


def _rule_of_kind(kind: Any) -> _Rule:
    return lambda field, value: validate_field(field, kind, value)


def _page_size(_field: str, value: int) -> None:
    validate_page(value, "")


def _bucket(field: str, value: int) -> None:
    if value >= POLICY_BUCKETS:
        raise InvalidFieldError(field, f"0 to {POLICY_BUCKETS - 1}", value)


def _epsilon(field: str, value: str) -> None:
    try:
        number = Decimal(value) if len(value) <= EPSILON_LENGTH else Decimal(0)
    except InvalidOperation:
        number = Decimal(0)
    if not number.is_finite() or number <= 0:
        raise InvalidFieldError(field, "a positive decimal number", value)


# By the name of the field, wherever it stands.
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "app": _rule_of_kind(AppName),
        "feature": _rule_of_kind(FeatureName),
        "version": _rule_of_kind(VersionText),
        "team": _rule_of_kind(TeamName),
        "rollout_id": _rule_of_kind(Identifier),
        "experiment_id": _rule_of_kind(Identifier),
        "proposal_id": _rule_of_kind(Identifier),
        "readout_id": _rule_of_kind(Identifier),
        "session_id": _rule_of_kind(Identifier),
        "layer": _rule_of_kind(Identifier),
        "first": _bucket,
        "epsilon": _epsilon,
        "override_reason": validate_reason,
        "page_size": _page_size,
    }
)
_ALWAYS: Final = frozenset({"rollout_id", "experiment_id", "proposal_id", "readout_id"})  # needed wherever they stand
_NEEDED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "CreateExperimentRequest": frozenset({"app", "feature"}),
        "Arm": frozenset({"version"}),
        "Segment": frozenset({"layer"}),
    }
)


def validate_fields(request: Message) -> None:
    """Let a request pass whose fields are well formed.

    Raises:
        InvalidFieldError: one is not; it is named by its path.
    """
    _validate(request, "")


def _validate(message: Any, prefix: str) -> None:
    ruled, nested = _plan(message.DESCRIPTOR)
    for name, rule, is_needed in ruled:
        value = getattr(message, name)
        if value or is_needed:
            rule(prefix + name, value)
    for name, is_repeated in nested:
        if is_repeated:
            for item in getattr(message, name):
                _validate(item, f"{prefix}{name}.")
        elif message.HasField(name):
            _validate(getattr(message, name), f"{prefix}{name}.")


@cache
def _plan(descriptor: Descriptor) -> tuple[list[tuple[str, _Rule, bool]], list[tuple[str, bool]]]:
    """Return the fields of a message that have rules, and those that hold messages: worked out once for each kind."""
    needed = _ALWAYS | _NEEDED.get(descriptor.name, frozenset())
    fields = list(descriptor.fields)
    ruled = [(field.name, _RULES[field.name], field.name in needed) for field in fields if field.name in _RULES]
    nested = [(field.name, bool(field.is_repeated)) for field in fields if field.message_type is not None]
    return ruled, nested
