"""Defines what a person can do with a rollout.

Each form carries the etag of the rollout that its sender saw, and in words what that was: a rollout that somebody else
has changed meanwhile is not changed again by one who did not see it.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

from alcove.platform.client import PlatformClient, Rollout
from alcove.platform.console.actions import Action, Field, Form, FormError
from alcove.platform.console.pages.rollouts.words import describe_state
from alcove.platform.console.rendering import show_share

__all__ = ["DELETED", "SEEN", "SERVICE", "actions_of", "all_actions"]

SERVICE: Final = "/alcove.api.rollout.v1.RolloutService/"
DELETED: Final = "The draft is deleted."
SEEN: Final = "seen"  # the hidden field with what its sender saw, in words
UNKNOWN: Final[Mapping[str, str]] = MappingProxyType({"etag": "", SEEN: ""})
ALL: Final = 10_000  # basis points
_SHARE: Final = r"\d{1,3}([.,]\d{1,2})?"


def all_actions(rollout_id: str) -> list[Action]:
    """Return every action of a rollout, as forms of any state are read."""
    share = Field("share", "Share", is_required=False)
    why = Field("override_reason", "Reason", is_required=False)
    return [
        _advance(rollout_id, UNKNOWN, "", (share, why)),
        _approve(rollout_id, UNKNOWN, ""),
        _pause(rollout_id, UNKNOWN),
        _resume(rollout_id, UNKNOWN),
        _roll_back(rollout_id, UNKNOWN),
        _halt(rollout_id, UNKNOWN, "the version"),
        _delete(rollout_id, UNKNOWN),
    ]


def actions_of(rollout: Rollout, principal: str = "") -> list[Action]:
    """Return the actions that the state of a rollout allows.

    Args:
        rollout: as its page shows it.
        principal: who looks; is not offered to approve what is his own.
    """
    name, carried = rollout.rollout_id, {"etag": rollout.etag, SEEN: describe_state(rollout)}
    what = f"{rollout.feature} {rollout.version}"
    offered: list[Action] = []
    proposal = rollout.proposal
    if rollout.state in ("draft", "running"):
        if proposal is not None and proposal.proposed_by != principal:
            share = show_share(proposal.share_basis_points)
            offered.append(
                _approve(
                    name, carried, f"Makes the advance to {share} of the devices that {proposal.proposed_by} proposed."
                )
            )
        if rollout.share_basis_points < ALL:
            offered.append(_advance(name, carried, _effect_of_advance(rollout), _fields_of_advance(rollout)))
    if rollout.state == "running":
        offered.append(_pause(name, carried))
    if rollout.state == "paused":
        offered.append(_resume(name, carried))
    if rollout.state in ("draft", "running", "paused"):
        offered.append(_roll_back(name, carried))
    if rollout.state in ("draft", "running", "paused", "completed"):
        offered.append(_halt(name, carried, what))
    if rollout.state == "draft":
        offered.append(_delete(name, carried))
    return offered


def _effect_of_advance(rollout: Rollout) -> str:
    stages = rollout.plan.stages
    if not stages:
        return "Gives the version to a larger share of the devices; 100 % makes it the default of the app."
    share = stages[rollout.stage].share_basis_points if rollout.stage < len(stages) else ALL
    text = f"Gives the version to {show_share(share)} of the devices"
    if share == ALL and not rollout.audience:
        text += " and makes it the default of the app"
    if not _needs_override(rollout):
        return f"{text}."
    why = f": {rollout.analysis.reason}" if rollout.analysis else ""
    return f"{text}. The present stage was not found safe{why}."


def _needs_override(rollout: Rollout) -> bool:
    """Whether the present stage is watched and was not found safe."""
    is_ready = rollout.analysis is not None and rollout.analysis.decision == "ready"
    return bool(rollout.stage and (rollout.plan.guardrails or rollout.plan.own_guardrails) and not is_ready)


def _fields_of_advance(rollout: Rollout) -> tuple[Field, ...]:
    share = Field(
        "share", "Share of the devices, in per cent", (), _SHARE, "Such as 25 or 2.5; more than now, at most 100."
    )
    if _needs_override(rollout):
        title, is_required = "Reason to advance although it was not found safe", True
    else:
        title, is_required = "Reason, where nothing says that it is safe", False
    why = Field("override_reason", title, (), "", "Kept in the audit log; at most 500 characters.", is_required)
    return (why,) if rollout.plan.stages else (share, why)


def _basis_points(text: str) -> int:
    """Return a share in 1/10 000; 0 where none is named.

    Raises:
        FormError: it is no share.
    """
    if not text:
        return 0
    try:
        share = Decimal(text.replace(",", ".")) * 100
    except InvalidOperation:
        share = Decimal(-1)
    if not share.is_finite() or not 0 < share <= ALL or share != share.to_integral_value():
        raise FormError(
            "share", f"The share is a number of per cent, 0.01 to 100, in steps of 0.01; got {text[:20]!r}."
        )
    return int(share)


def _advance(rollout_id: str, carried: Mapping[str, str], effect: str, fields: tuple[Field, ...]) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.advance_rollout(
            rollout_id,
            _basis_points(form.values.get("share", "")),
            override_reason=form.values["override_reason"],
            etag=form.values["etag"],
            request_id=form.request_id,
        )

    return Action(
        "advance",
        "Advance",
        SERVICE + "AdvanceRollout",
        effect,
        "The rollout has advanced, or its advance waits for a second person.",
        run,
        needs_reason=False,
        fields=fields,
        hidden=carried,
    )


def _approve(rollout_id: str, carried: Mapping[str, str], effect: str) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.approve_rollout(rollout_id, etag=form.values["etag"], request_id=form.request_id)

    return Action(
        "approve",
        "Approve the advance",
        SERVICE + "ApproveRollout",
        effect,
        "The rollout has advanced.",
        run,
        needs_reason=False,
        hidden=carried,
    )


def _pause(rollout_id: str, carried: Mapping[str, str]) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.pause_rollout(rollout_id, form.reason, etag=form.values["etag"], request_id=form.request_id)

    return Action(
        "pause",
        "Pause",
        SERVICE + "PauseRollout",
        "Keeps the share and refuses to advance. Devices that have the version keep it.",
        "The rollout is paused.",
        run,
        hidden=carried,
    )


def _resume(rollout_id: str, carried: Mapping[str, str]) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.resume_rollout(rollout_id, form.reason, etag=form.values["etag"], request_id=form.request_id)

    return Action(
        "resume",
        "Resume",
        SERVICE + "ResumeRollout",
        "Lets the rollout advance again, and its reports be analyzed.",
        "The rollout runs again.",
        run,
        hidden=carried,
    )


def _roll_back(rollout_id: str, carried: Mapping[str, str]) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.roll_back_rollout(rollout_id, form.reason, etag=form.values["etag"], request_id=form.request_id)

    return Action(
        "roll-back",
        "Roll back",
        SERVICE + "RollBackRollout",
        "Returns all devices to the app's default version at their next check-in. It is final.",
        "The rollout is rolled back; devices return to the default at their next check-in.",
        run,
        is_grave=True,
        hidden=carried,
    )


def _halt(rollout_id: str, carried: Mapping[str, str], what: str) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.halt_rollout(rollout_id, form.reason, etag=form.values["etag"], request_id=form.request_id)

    return Action(
        "halt",
        "Halt",
        SERVICE + "HaltRollout",
        f"Forbids {what} in the app, whatever runs it. Only the team's key lifts a halt.",
        "The version is forbidden in the app; devices drop it at their next check-in.",
        run,
        confirmation=rollout_id,
        is_grave=True,
        hidden=carried,
    )


def _delete(rollout_id: str, carried: Mapping[str, str]) -> Action:
    def run(client: PlatformClient, form: Form) -> Any:
        return client.delete_rollout(rollout_id, etag=form.values["etag"], request_id=form.request_id)

    return Action(
        "delete",
        "Delete the draft",
        SERVICE + "DeleteRollout",
        "Deletes the draft; no device ever knew of it.",
        DELETED,
        run,
        needs_reason=False,
        hidden=carried,
    )
