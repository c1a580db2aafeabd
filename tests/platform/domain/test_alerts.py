"""What of the audit log and of conditions people hear, and in which words."""

import json
from dataclasses import replace
from typing import Any

import pytest
from alcove.platform.domain.alerts.alert import Alert, AlertKind, one_line
from alcove.platform.domain.alerts.conditions import WARN_BEFORE_S, alert_of_expiry, alert_of_monitor
from alcove.platform.domain.alerts.from_audit import alert_of_entry
from alcove.platform.domain.alerts.rendering import (
    alert_from_text,
    alert_to_text,
    render_event,
    render_mail,
    render_text,
)
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.store.audit import AuditEntry

from tests.platform.alerts.receivers import make_alert, make_rollout

DAY_S = 86_400
K = AlertKind


def entry(action: str, subject: str = "ro-1", **details: object) -> AuditEntry:
    """An entry of the log."""
    return AuditEntry(7, 1_800_000_000, "operator/ab12", action, subject, details)


def experiment() -> ExperimentRecord:
    """An experiment of two arms."""
    arms = (ArmRecord("control", "1.0.0", "0", 5000), ArmRecord("new", "2.0.0", "1", 5000))
    return ExperimentRecord(
        1, "ex-1", "mail", "text", "00", arms, ExperimentState.RUNNING, "2", (), 86_400, 1000, 1, 1, None, "t", None, 1
    )


def derive(made: AuditEntry, thing: Any = None) -> Alert:
    """The alert of an entry, which must be one."""
    alert = alert_of_entry("alcove", made, thing)
    assert alert is not None
    return alert


@pytest.mark.parametrize(
    ("made", "thing", "kind", "sentence"),
    [
        (
            entry("halt rollout", from_basis_points=1000, reason="crashes."),
            make_rollout(),
            K.ROLLOUT_HALTED,
            "Rollout ro-1 of text 1.2.0 in app mail was halted at 10 % of the devices: crashes.",
        ),
        (
            entry("rollback rollout", from_basis_points=250, reason="slow"),
            make_rollout(),
            K.ROLLOUT_ROLLED_BACK,
            "Rollout ro-1 of text 1.2.0 in app mail was rolled back from 2.5 % of the devices: slow.",
        ),
        (
            entry("pause rollout", reason="errors rose"),
            make_rollout(),
            K.ROLLOUT_PAUSED,
            "Rollout ro-1 of text 1.2.0 in app mail was paused, and a person decides what more: errors rose.",
        ),
        (
            entry("raise alarm", analysis={"reason": "too many"}),
            make_rollout(),
            K.ROLLOUT_ALARMED,
            "Rollout ro-1 of text 1.2.0 in app mail has reports that no devices can have sent: too many.",
        ),
        (
            entry("advance rollout", to_basis_points=5000),
            make_rollout(),
            K.ROLLOUT_LAST_STAGE,
            "Rollout ro-1 of text 1.2.0 in app mail is on its last stage, 50 % of the devices.",
        ),
        (
            entry("advance rollout", to_basis_points=10_000),
            make_rollout(),
            K.ROLLOUT_LAST_STAGE,
            "Rollout ro-1 of text 1.2.0 in app mail has reached all devices.",
        ),
        (
            entry("propose advance", to_basis_points=5000),
            make_rollout(),
            K.APPROVAL_WAITING,
            "Rollout ro-1 of text 1.2.0 in app mail waits for a second person to approve 50 % of the devices.",
        ),
        (
            entry("propose alias", "text@production", before="1.0.0", after="2.0.0", proposal_id="ap-1"),
            None,
            K.APPROVAL_WAITING,
            "Alias text@production waits for a second person to approve its move to 2.0.0.",
        ),
        (
            entry("stop experiment", "ex-1", decision="winner", winner=1, reason="more accepted"),
            experiment(),
            K.EXPERIMENT_DECIDED,
            "Experiment ex-1 of text in app mail ended with the winner new: more accepted.",
        ),
        (
            entry("stop experiment", "ex-1", decision="inconclusive", winner=None, reason="too few reports"),
            experiment(),
            K.EXPERIMENT_UNDECIDED,
            "Experiment ex-1 of text in app mail ended undecided: too few reports.",
        ),
        (
            entry("analyze experiment", "ex-1", decision={"kind": "winner", "winner": 1, "reason": "more accepted"}),
            experiment(),
            K.EXPERIMENT_DECIDED,
            "Experiment ex-1 of text in app mail names new the winner, and may be stopped: more accepted.",
        ),
        (
            entry("revoke version", "text 1.2.0", reason="leaks memory"),
            None,
            K.VERSION_REVOKED,
            "Version text 1.2.0 was revoked in every app: leaks memory.",
        ),
    ],
    ids=lambda value: value.action if isinstance(value, AuditEntry) else None,
)
def test_what_people_decide_about_is_an_alert_in_one_sentence(
    made: AuditEntry, thing: Any, kind: AlertKind, sentence: str
) -> None:
    """Each such entry of the audit log gives its alert, whose sentence names the thing and the reason."""
    alert = derive(made, thing)
    assert (alert.kind, alert.summary) == (kind, sentence)
    assert alert.feature == "text"
    assert dict(alert.facts)["by"] == "operator/ab12"


@pytest.mark.parametrize(
    ("made", "thing"),
    [
        (entry("advance rollout", to_basis_points=1000), make_rollout()),
        (entry("resume rollout"), make_rollout()),
        (entry("analyze experiment", "ex-1", decision={"kind": "inconclusive", "reason": "-"}), experiment()),
        (entry("create token", "t1", role="reader"), None),
        (entry("set rules", "text"), None),
    ],
)
def test_what_nobody_decides_about_is_no_alert(made: AuditEntry, thing: Any) -> None:
    """Ordinary steps stay in the audit log."""
    assert alert_of_entry("alcove", made, thing) is None


def test_an_alert_leads_to_the_page_where_something_is_done() -> None:
    """To the rollout, the experiment, the feature of an alias, the version, the keys and the server's parts."""
    assert derive(entry("halt rollout", reason="slow"), make_rollout()).path == "rollouts/ro-1"
    decision = {"kind": "winner", "winner": 1, "reason": "more accepted"}
    assert derive(entry("analyze experiment", "ex-1", decision=decision), experiment()).path == "experiments/ex-1"
    assert derive(entry("propose alias", "text@stable", after="2.0.0")).path == "features/text"
    assert derive(entry("revoke version", "text 1.2.0", reason="leaks")).path == "features/text/versions/1.2.0"
    found = alert_of_expiry("alcove", K.METADATA_EXPIRING, "the signature of role root", expires_at_s=9, now_s=1)
    assert found is not None
    assert found.path == "trust"
    assert alert_of_monitor("alcove", "the database", since_s=1, now_s=999, problem="away").path == "health"


def test_an_entry_gives_one_id_and_another_server_another() -> None:
    """The id is stable, and no two servers share one."""
    made = entry("halt rollout", reason="crashes")
    assert derive(made).alert_id == derive(made, make_rollout()).alert_id
    ids = {derive(one).alert_id for one in (made, replace(made, sequence=8), replace(made, at_s=1))}
    other = alert_of_entry("another", made)
    assert other is not None
    assert len(ids | {other.alert_id}) == 4


def test_a_thing_that_is_gone_is_named_by_its_id() -> None:
    """An entry whose rollout is not there any more still gives a sentence."""
    assert derive(entry("halt rollout", reason="x")).summary == "ro-1 was halted at a part of the devices: x."


@pytest.mark.parametrize("left_s", [31 * DAY_S, 30 * DAY_S, 10 * DAY_S, 5 * DAY_S, 3600, 0, -DAY_S])
def test_an_end_is_announced_once_for_each_step(left_s: int) -> None:
    """A second look within a step gives the same id, the next step another."""
    now_s = 1_800_000_000

    def look(now_s: int, end_s: int = now_s + left_s) -> Alert | None:
        return alert_of_expiry("alcove", K.METADATA_EXPIRING, "the signature of root", expires_at_s=end_s, now_s=now_s)

    alert = look(now_s)
    assert (alert is None) == (left_s > WARN_BEFORE_S[0])
    if alert is not None:
        again = look(now_s + 1)
        steps = {step for step in WARN_BEFORE_S if left_s > step >= left_s - 1}
        assert again is not None
        assert (again.alert_id == alert.alert_id) == (not steps)
        assert ("expired at" in alert.summary) == (left_s <= 0)


def test_a_token_of_a_week_is_not_announced_on_its_first_day() -> None:
    """What lives for a week is announced in its last third."""
    for left_days, is_said in ((7, False), (3, False), (2, True)):
        end_s = 1_800_000_000 + left_days * DAY_S
        alert = alert_of_expiry(
            "s", K.KEY_EXPIRING, "API token t1", expires_at_s=end_s, lifetime_s=7 * DAY_S, now_s=1_800_000_000
        )
        assert (alert is not None) == is_said


def test_a_monitor_that_works_again_says_how_long_it_failed() -> None:
    """Failure and recovery are two events of one thing."""
    failed = alert_of_monitor("s", "the database", since_s=100, now_s=700, problem="disk full.")
    over = alert_of_monitor("s", "the database", since_s=100, now_s=1300, problem="")
    assert failed.summary == "The database has failed for 10 minutes: disk full."
    assert over.summary == "The database works again after 20 minutes."
    assert failed.alert_id != over.alert_id


def test_an_event_is_one_of_cloudevents_and_of_standard_webhooks() -> None:
    """Required attributes of both are there, names of attributes are lower-case letters and digits, and no more."""
    event = json.loads(render_event(make_alert(), source="https://alcove.acme.example", console="https://c.example/"))
    assert {"specversion", "id", "source", "type", "timestamp", "data"} <= event.keys()
    assert all(name.isalnum() and name == name.lower() for name in event)
    assert event["specversion"] == "1.0"
    assert event["type"] == "alcove.rollout.halted"
    assert event["time"] == event["timestamp"] == "2027-01-15T08:00:00Z"
    assert event["data"]["link"] == "https://c.example/features/language_id"
    assert event["data"]["facts"] == {"by": "operator/ab12", "reason": "crashes"}


def test_a_chat_service_gets_the_sentence_and_the_link() -> None:
    """The other format is what chat services read."""
    said = json.loads(render_text(make_alert(), console="https://c.example"))
    assert said == {"text": f"{make_alert().summary} https://c.example/features/language_id"}


def test_a_mail_is_sentences() -> None:
    """The subject says what and where, the text says why, who, when, and where to look."""
    subject, text = render_mail(make_alert(), source="alcove", console="https://c.example")
    assert subject == "[alcove] rollout halted: ro-1 (mail)"
    assert text.splitlines() == [
        "Rollout ro-1 was halted at 10 % of the devices: crashes.",
        "",
        "by: operator/ab12",
        "reason: crashes",
        "time: 2027-01-15 08:00:00 UTC",
        "",
        "https://c.example/features/language_id",
        "",
        f"Sent by alcove; {make_alert().alert_id} of type alcove.rollout.halted.",
    ]


def test_a_stored_alert_is_read_back() -> None:
    """Nothing of an alert is lost in the database."""
    assert alert_from_text(alert_to_text(make_alert())) == make_alert()


def test_names_and_reasons_hold_no_line_and_no_direction() -> None:
    """What people typed stays one line of printable text, of a bounded length."""
    evil = "a\r\nBcc: x@y.example\x00\u202e\u2028" + "b" * 2000
    alert = derive(entry("halt rollout", reason=evil), make_rollout())
    for text in (alert.summary, *dict(alert.facts).values(), one_line(evil)):
        assert text.isprintable()
        assert len(text) <= 1000
