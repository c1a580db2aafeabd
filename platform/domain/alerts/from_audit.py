"""Derives alerts from entries of the audit log.  Pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from alcove.platform.domain.alerts.alert import Alert, AlertKind, make_alert_id, one_line
from alcove.platform.domain.records import ExperimentRecord, RolloutRecord
from alcove.platform.domain.snapshots.rollout import ALARM
from alcove.registry.limits import POLICY_BUCKETS

__all__ = ["Audited", "alert_of_entry", "can_alert"]


class Audited(Protocol):
    """An entry of the audit log (`store.audit.AuditEntry`)."""

    @property
    def sequence(self) -> int:
        """Its place in the log."""
        ...

    @property
    def at_s(self) -> int:
        """When, in seconds since 1970-01-01 UTC."""
        ...

    @property
    def principal(self) -> str:
        """Who."""
        ...

    @property
    def action(self) -> str:
        """What was done."""
        ...

    @property
    def subject(self) -> str:
        """To what."""
        ...

    @property
    def details(self) -> Mapping[str, Any]:
        """How, and why."""
        ...


_Thing = RolloutRecord | ExperimentRecord | None
_Said = tuple[AlertKind, str]
"""Kind and sentence of an alert."""


def can_alert(action: str) -> bool:
    """Tell whether entries of an action may be alerts."""
    return action in _SAYINGS


def alert_of_entry(source: str, entry: Audited, thing: _Thing = None) -> Alert | None:
    """Return the alert of an entry; None: nobody needs to hear of it.

    Args:
        source: names the server; a part of the alert's id.
        entry: of the audit log.
        thing: the rollout or experiment that it is about, as it is now; None: it is about something else.
    """
    say = _SAYINGS.get(entry.action)
    said = None if say is None else say(entry, thing)
    if said is None:
        return None
    kind, summary = said
    facts = {"by": entry.principal}
    for name in ("reason", "override_reason", "proposal_id"):
        if entry.details.get(name):
            facts[name] = one_line(entry.details[name])
    path, app, feature = "", "", ""
    match thing:
        case RolloutRecord():
            app, feature, path = thing.app, thing.feature, f"rollouts/{thing.rollout_id}"
            facts |= {"version": thing.version, "share_percent": f"{thing.share_basis_points / 100:g}"}
        case ExperimentRecord():
            app, feature, path = thing.app, thing.feature, f"experiments/{thing.experiment_id}"
            facts["arms"] = ", ".join(f"{arm.name} ({arm.version})" for arm in thing.arms)
        case _:
            feature, _, version = entry.subject.partition("@")[0].partition(" ")
            path = f"features/{feature}/versions/{version}" if version else f"features/{feature}"
    return Alert(
        alert_id=make_alert_id(source, entry.sequence, entry.at_s, entry.action, entry.subject),
        kind=kind,
        at_s=entry.at_s,
        subject=one_line(entry.subject),
        summary=one_line(summary),
        app=app,
        feature=feature,
        facts=tuple(facts.items()),
        path=path,
    )


def _name(entry: Audited, thing: _Thing) -> str:
    match thing:
        case RolloutRecord():
            return f"Rollout {thing.rollout_id} of {thing.feature} {thing.version} in app {thing.app}"
        case ExperimentRecord():
            return f"Experiment {thing.experiment_id} of {thing.feature} in app {thing.app}"
    return entry.subject


def _because(text: object) -> str:
    return f": {str(text).rstrip('.')}." if text else "."


def _share(basis_points: object) -> str:
    return f"{basis_points / 100:g} %" if isinstance(basis_points, int) else "a part"


def _say_halt(entry: Audited, thing: _Thing) -> _Said:
    at = _share(entry.details.get("from_basis_points"))
    sentence = f"{_name(entry, thing)} was halted at {at} of the devices{_because(entry.details.get('reason'))}"
    return AlertKind.ROLLOUT_HALTED, sentence


def _say_rollback(entry: Audited, thing: _Thing) -> _Said:
    at = _share(entry.details.get("from_basis_points"))
    sentence = f"{_name(entry, thing)} was rolled back from {at} of the devices{_because(entry.details.get('reason'))}"
    return AlertKind.ROLLOUT_ROLLED_BACK, sentence


def _say_pause(entry: Audited, thing: _Thing) -> _Said:
    why = entry.details.get("reason")
    return AlertKind.ROLLOUT_PAUSED, f"{_name(entry, thing)} was paused, and a person decides what more{_because(why)}"


def _say_alarm(entry: Audited, thing: _Thing) -> _Said:
    found = entry.details.get("analysis")
    why = found.get("reason") if isinstance(found, Mapping) else ""
    sentence = f"{_name(entry, thing)} has reports that no devices can have sent{_because(why)}"
    return AlertKind.ROLLOUT_ALARMED, sentence


def _say_advance(entry: Audited, thing: _Thing) -> _Said | None:
    to = entry.details.get("to_basis_points")
    if to == POLICY_BUCKETS:
        return AlertKind.ROLLOUT_LAST_STAGE, f"{_name(entry, thing)} has reached all devices."
    stages = thing.plan.stages if isinstance(thing, RolloutRecord) else ()
    if stages and isinstance(to, int) and to >= stages[-1].share_basis_points:
        return AlertKind.ROLLOUT_LAST_STAGE, f"{_name(entry, thing)} is on its last stage, {_share(to)} of the devices."
    return None


def _say_propose_advance(entry: Audited, thing: _Thing) -> _Said:
    to = _share(entry.details.get("to_basis_points"))
    sentence = f"{_name(entry, thing)} waits for a second person to approve {to} of the devices."
    return AlertKind.APPROVAL_WAITING, sentence


def _say_propose_alias(entry: Audited, _thing: _Thing) -> _Said:
    after = entry.details.get("after")
    move = f"its move to {after}" if after else "its removal"
    return AlertKind.APPROVAL_WAITING, f"Alias {entry.subject} waits for a second person to approve {move}."


def _say_stop(entry: Audited, thing: _Thing) -> _Said:
    winner = _winner(entry.details, thing)
    why = _because(entry.details.get("reason"))
    if winner:
        return AlertKind.EXPERIMENT_DECIDED, f"{_name(entry, thing)} ended with the winner {winner}{why}"
    return AlertKind.EXPERIMENT_UNDECIDED, f"{_name(entry, thing)} ended undecided{why}"


def _say_look(entry: Audited, thing: _Thing) -> _Said | None:
    decision = entry.details.get("decision")
    if not isinstance(decision, Mapping):
        return None
    winner = _winner({"decision": decision.get("kind"), **decision}, thing)
    if not winner:
        return None
    sentence = f"{_name(entry, thing)} names {winner} the winner, and may be stopped{_because(decision.get('reason'))}"
    return AlertKind.EXPERIMENT_DECIDED, sentence


def _winner(details: Mapping[str, Any], thing: _Thing) -> str:
    """Return the winning arm by name, "" where there is none."""
    number = details.get("winner")
    if details.get("decision") != "winner" or not isinstance(number, int):
        return ""
    if isinstance(thing, ExperimentRecord) and 0 <= number < len(thing.arms):
        return thing.arms[number].name
    return f"arm {number}"


def _say_revoke(entry: Audited, _thing: _Thing) -> _Said:
    sentence = f"Version {entry.subject} was revoked in every app{_because(entry.details.get('reason'))}"
    return AlertKind.VERSION_REVOKED, sentence


_SAYINGS: Final[Mapping[str, Callable[[Audited, _Thing], _Said | None]]] = MappingProxyType(
    {
        "halt rollout": _say_halt,
        "rollback rollout": _say_rollback,
        "pause rollout": _say_pause,
        ALARM: _say_alarm,
        "advance rollout": _say_advance,
        "propose advance": _say_propose_advance,
        "propose alias": _say_propose_alias,
        "stop experiment": _say_stop,
        "analyze experiment": _say_look,
        "revoke version": _say_revoke,
    }
)
