"""Renders alerts: as JSON for programs, and as plain sentences for people.  Pure.

The JSON is an event of CloudEvents 1.0 in structured mode.  Its extension attribute `timestamp` and its `data` make it
a payload as Standard Webhooks asks for, too.

Source: CloudEvents 1.0.2, sections "Required attributes" and "Extension context attributes"; Standard Webhooks 1.0.0,
section "Payload structure".
"""

import json
from datetime import UTC, datetime

from alcove.platform.domain.alerts.alert import Alert, AlertKind

__all__ = ["alert_from_text", "alert_to_text", "render_event", "render_mail", "render_text"]


def alert_to_text(alert: Alert) -> str:
    """Return an alert as it is stored."""
    return json.dumps(vars(alert), ensure_ascii=False, sort_keys=True)


def alert_from_text(text: str) -> Alert:
    """Return what `alert_to_text` wrote."""
    held = json.loads(text)
    facts = tuple((str(name), str(value)) for name, value in held.pop("facts"))
    return Alert(**held | {"kind": AlertKind(held["kind"]), "facts": facts})


def render_event(alert: Alert, *, source: str, console: str = "") -> bytes:
    """Return the event in JSON.

    Args:
        alert: what happened.
        source: names the server.
        console: address of its console; "": it has none.
    """
    time = datetime.fromtimestamp(alert.at_s, UTC).isoformat().replace("+00:00", "Z")
    data: dict[str, object] = {"summary": alert.summary, "subject": alert.subject}
    data |= {name: value for name, value in (("app", alert.app), ("feature", alert.feature)) if value}
    data |= {"facts": dict(alert.facts)} if alert.facts else {}
    link = _link(alert, console)
    data |= {"link": link} if link else {}
    event = {
        "specversion": "1.0",
        "id": alert.alert_id,
        "source": source,
        "type": alert.kind,
        "subject": alert.subject,
        "time": time,
        "timestamp": time,
        "datacontenttype": "application/json",
        "data": data,
    }
    return json.dumps(event, ensure_ascii=False).encode()


def render_text(alert: Alert, *, console: str = "") -> bytes:
    """Return {"text": …} with the sentence and the link, as chat services read it."""
    link = _link(alert, console)
    return json.dumps({"text": f"{alert.summary} {link}".strip()}, ensure_ascii=False).encode()


def render_mail(alert: Alert, *, source: str, console: str = "") -> tuple[str, str]:
    """Return subject and text of a mail: one line, and plain sentences with the link."""
    title = alert.kind.removeprefix("alcove.").replace(".", " ").replace("_", " ")
    named = "" if alert.subject in title else f": {alert.subject}"
    subject = f"[alcove] {title}{named}" + (f" ({alert.app})" if alert.app else "")
    lines = [alert.summary, ""]
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in alert.facts]
    lines += [f"time: {datetime.fromtimestamp(alert.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"]
    link = _link(alert, console)
    lines += ["", link] if link else []
    lines += ["", f"Sent by {source}; {alert.alert_id} of type {alert.kind}."]
    return subject[:200], "\n".join(lines) + "\n"


def _link(alert: Alert, console: str) -> str:
    return f"{console.rstrip('/')}/{alert.path}" if console else ""
