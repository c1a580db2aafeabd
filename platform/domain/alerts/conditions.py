"""Derives alerts from what holds now: signatures and keys near their end, and monitors that fail.  Pure.

A condition gives the same id as long as it holds, so that it is alerted once: of what expires, once for each of
`WARN_BEFORE_S` that has come.
"""

from datetime import UTC, datetime
from typing import Final

from alcove.platform.domain.alerts.alert import Alert, AlertKind, make_alert_id, one_line

__all__ = ["WARN_BEFORE_S", "alert_of_expiry", "alert_of_monitor", "alert_of_test"]

_DAY_S: Final = 86_400
WARN_BEFORE_S: Final = (30 * _DAY_S, 14 * _DAY_S, 7 * _DAY_S, _DAY_S, 0)
"""Seconds before an end at which people hear of it: time for a ceremony, a week for a reminder, a day, and the end."""


def alert_of_expiry(
    source: str, kind: AlertKind, subject: str, *, expires_at_s: int, lifetime_s: int = 0, now_s: int
) -> Alert | None:
    """Return the alert of something that expires soon, or has expired; None: it is too early.

    Args:
        source: names the server.
        kind: `KEY_EXPIRING` or `METADATA_EXPIRING`.
        subject: what expires, in words.
        expires_at_s: when.
        lifetime_s: of the whole thing, so that one of a week is not reported at once: nothing is said before its last
            third; 0: unknown.
        now_s: the time.
    """
    left_s = expires_at_s - now_s
    if lifetime_s and left_s > lifetime_s // 3:
        return None
    step_s = min((before_s for before_s in WARN_BEFORE_S if left_s <= before_s), default=None)
    if step_s is None:
        return None
    moment = f"{datetime.fromtimestamp(expires_at_s, UTC):%Y-%m-%d %H:%M} UTC"
    days = max(1, round(left_s / _DAY_S))
    when = f"expires in {days} day{'s' if days > 1 else ''}, at {moment}" if left_s > 0 else f"expired at {moment}"
    return Alert(
        alert_id=make_alert_id(source, kind, subject, expires_at_s, step_s),
        kind=kind,
        at_s=now_s,
        subject=one_line(subject),
        summary=one_line(f"{subject[:1].upper()}{subject[1:]} {when}: its owner must renew it."),
        facts=(("expires_at", moment),),
        path="trust",
    )


def alert_of_monitor(source: str, name: str, *, since_s: int, now_s: int, problem: str) -> Alert:
    """Return the alert of a monitor that fails since a time, or with `problem` "" works again."""
    kind = AlertKind.MONITOR_FAILED if problem else AlertKind.MONITOR_RECOVERED
    minutes = max(1, (now_s - since_s) // 60)
    lasted = f"{minutes} minute{'s' if minutes > 1 else ''}"
    state = f"has failed for {lasted}: {problem.rstrip('.')}." if problem else f"works again after {lasted}."
    return Alert(
        alert_id=make_alert_id(source, kind, name, since_s),
        kind=kind,
        at_s=now_s,
        subject=name,
        summary=one_line(f"{name[:1].upper()}{name[1:]} {state}"),
        facts=(("since", f"{datetime.fromtimestamp(since_s, UTC):%Y-%m-%d %H:%M:%S} UTC"),),
        path="health",
    )


def alert_of_test(source: str, *, now_s: int, unique: str) -> Alert:
    """Return an alert by which somebody tries whether alerts arrive."""
    return Alert(
        alert_id=make_alert_id(source, AlertKind.TEST, now_s, unique),
        kind=AlertKind.TEST,
        at_s=now_s,
        subject="test",
        summary="This is a test of alerts: nothing has happened.",
    )
