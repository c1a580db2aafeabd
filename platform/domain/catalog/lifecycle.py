"""Defines the states of a version and the transitions between them.  Pure.

                   passed                  release                deprecate
    ┌────────────┐ ──────▶ ┌───────────┐ ─────────▶ ┌──────────┐ ──────────▶ ┌────────────┐
    │ registered │         │ validated │            │ released │             │ deprecated │
    └────────────┘ ◀────── └───────────┘            └──────────┘ ◀────────── └────────────┘
       ⟲ failed    failed     ⟲ passed                             release
            │                    │                       │                         │
            └────────────────────┴───── revoke ──────────┴─────────────────────────┘
                                           ▼
                                      ┌─────────┐
                                      │ revoked │
                                      └─────────┘

V1  A version is registered when it is published; nothing else makes it so but a validation that fails.
V2  Only a version that passed every check of its feature is released.
V3  A released version is not validated again: rules that came later do not take it back.  A validated one may be, and
    falls back where it fails.
V4  Deprecated is a word to people: devices that have the version keep it, and it may be released again.
V5  Revoked is final, and the only state that devices see: they drop the version at their next check-in.
"""

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.errors import IllegalTransitionError
from alcove.platform.domain.records import VersionRecord, VersionState

__all__ = ["Action", "transition", "validate_state"]


class Action(StrEnum):
    """An action on a version; `passed` and `failed` are the ends of a validation."""

    ACCEPT = "passed"
    REJECT = "failed"
    RELEASE = "release"
    DEPRECATE = "deprecate"
    REVOKE = "revoke"


_S = VersionState
_ARROWS: Final = MappingProxyType(
    {
        (_S.REGISTERED, Action.ACCEPT): _S.VALIDATED,
        (_S.REGISTERED, Action.REJECT): _S.REGISTERED,
        (_S.VALIDATED, Action.ACCEPT): _S.VALIDATED,
        (_S.VALIDATED, Action.REJECT): _S.REGISTERED,
        (_S.VALIDATED, Action.RELEASE): _S.RELEASED,
        (_S.DEPRECATED, Action.RELEASE): _S.RELEASED,
        (_S.RELEASED, Action.DEPRECATE): _S.DEPRECATED,
        (_S.REGISTERED, Action.REVOKE): _S.REVOKED,
        (_S.VALIDATED, Action.REVOKE): _S.REVOKED,
        (_S.RELEASED, Action.REVOKE): _S.REVOKED,
        (_S.DEPRECATED, Action.REVOKE): _S.REVOKED,
    }
)
_ASKED: Final = MappingProxyType({Action.ACCEPT: "validate", Action.REJECT: "validate"})  # what a caller asks for


def transition(version: VersionRecord, action: Action) -> VersionRecord:
    """Return the version after `action`.

    Raises:
        IllegalTransitionError: the drawing has no such arrow; names the state and what it allows.
    """
    state = _ARROWS.get((version.state, action))
    if state is None:
        name = f"{version.feature} {version.version}"
        raise IllegalTransitionError("version", name, version.state, _word(action), _allowed_actions(version.state))
    return replace(version, state=state)


def validate_state(version: VersionRecord) -> None:
    """Let a version be validated or not, before the work is done.

    Raises:
        IllegalTransitionError: as `transition`; V3.
    """
    transition(version, Action.ACCEPT)


def _allowed_actions(state: VersionState) -> list[str]:
    return list(dict.fromkeys(_word(action) for action in Action if (state, action) in _ARROWS))


def _word(action: Action) -> str:
    return _ASKED.get(action, str(action))
