"""Defines alerts: their kinds, which are the `type` of their events, and what each says.

    audit entry  ──┐
                   ├─▶ Alert ──▶ CloudEvents JSON (webhooks)
    condition    ──┘        └──▶ subject and sentences (e-mail)

An alert names things of the platform and repeats reasons that operators gave.  It knows no user, and no secret.
"""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["TEXT_LENGTH", "Alert", "AlertKind", "make_alert_id", "one_line"]

TEXT_LENGTH: Final = 1000  # characters of one text in an alert; an audited reason has 500 at most


class AlertKind(StrEnum):
    """What an alert is about; the values are the types of the events, which stay as they are."""

    ROLLOUT_HALTED = "alcove.rollout.halted"
    ROLLOUT_ROLLED_BACK = "alcove.rollout.rolled_back"
    ROLLOUT_PAUSED = "alcove.rollout.paused"
    ROLLOUT_ALARMED = "alcove.rollout.alarmed"
    ROLLOUT_LAST_STAGE = "alcove.rollout.last_stage"
    EXPERIMENT_DECIDED = "alcove.experiment.decided"
    EXPERIMENT_UNDECIDED = "alcove.experiment.undecided"
    APPROVAL_WAITING = "alcove.approval.waiting"
    VERSION_REVOKED = "alcove.version.revoked"
    KEY_EXPIRING = "alcove.key.expiring"
    METADATA_EXPIRING = "alcove.metadata.expiring"
    MONITOR_FAILED = "alcove.monitor.failed"
    MONITOR_RECOVERED = "alcove.monitor.recovered"
    TEST = "alcove.alert.test"


@dataclass(frozen=True)
class Alert:
    """Something that a person should hear of.

    Attributes:
        alert_id: the same however often it is derived or sent.
        kind: what it is about.
        at_s: when it happened, seconds since 1970-01-01 UTC.
        subject: the thing that it happened to.
        summary: one sentence.
        app: whose devices it concerns; "": those of no app in particular.
        feature: likewise.
        facts: names and values, for people who read on.
        path: of the thing's page in the console, without a leading slash; "": the first one, which says what waits.
    """

    alert_id: str
    kind: AlertKind
    at_s: int
    subject: str
    summary: str
    app: str = ""
    feature: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    path: str = ""


def make_alert_id(*parts: object) -> str:
    """Return an id that the same parts give again, and others do not."""
    text = json.dumps([str(part) for part in parts], ensure_ascii=False)
    return f"al-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def one_line(text: object, length: int = TEXT_LENGTH) -> str:
    """Return a text on one line without control or direction characters, cut at `length` characters."""
    shown = "".join(one if one.isprintable() else " " for one in str(text))
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"
