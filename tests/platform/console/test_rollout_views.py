"""What a rollout's page says of plans and ends that take weeks to come about: of values, without a server."""

from typing import Any

from alcove.platform.client import AuditLine, KeptAnalysis, Rollout
from alcove.platform.console.assets import Assets
from alcove.platform.console.pages.rollouts.actions import actions_of
from alcove.platform.console.pages.rollouts.pictures import make_guardrails
from alcove.platform.console.pages.rollouts.rollout import Known, make_context
from alcove.platform.console.pages.rollouts.timeline import make_timeline
from alcove.platform.console.pages.rollouts.words import describe_state, say_duration
from alcove.platform.console.rendering import Renderer

DAY = 86_400
BEGUN_S = 1_800_000_000


def rollout(state: str = "running", **more: Any) -> Rollout:
    """A rollout by Prio3 in its second stage: guardrails of latency and an own metric, and a window that waits."""
    verdict = {"kind": "safe", "difference": 3.0, "low": -1.0, "high": 9.0, "reason": "within"}
    analysis = {
        "analyzed_at_s": BEGUN_S + 2 * DAY, "decision": "ready", "code": "safe", "reason": "every guardrail is safe",
        "report_count": 4000, "devices": [1999.6, -3.2], "verdicts": [verdict | {"metric": "latency"}],
        "own_verdicts": [verdict | {"metric": "minutes"}], "pooled_report_count": 6000, "stage_count": 2,
    }  # fmt: skip
    plan = {
        "stages": [
            {"share_basis_points": 1000, "minimum_s": 2 * DAY, "minimum_cohort": 2000},
            {"share_basis_points": 2500, "minimum_s": 36 * 3600},
            {"share_basis_points": 5000},
        ],
        "guardrails": [{"metric": "latency", "margin": 10.0, "quantile": 0.9}],
        "own_guardrails": [{"metric": "minutes", "margin": 0.5}],
        "on_harm": "ACTION_HALT", "on_timeout": "ACTION_PAUSE", "timeout_s": 20 * DAY, "window_s": DAY,
        "epsilon": "1", "mechanism": "MECHANISM_PRIO3", "auto_advance_reason": "a canary",
    }  # fmt: skip
    waiting = {"window": 3, "start_s": BEGUN_S + DAY, "reason": "49 reports of at least 100"}
    collection = {"collected_count": 2, "waiting_count": 1, "uncollected": [waiting], "problem": "no such task"}
    return Rollout.model_validate(
        {
            "rollout_id": "ro-1", "app": "mail", "feature": "text", "version": "2.0.0", "state": state, "stage": 2,
            "share_basis_points": 2500, "control_basis_points": 2500, "created_at_s": BEGUN_S, "etag": "7",
            "updated_at_s": BEGUN_S + DAY, "policy_serial": 4, "plan": plan, "analysis": analysis,
            "audience": "os in (ios)", "promise": "two aggregators", "collection": collection,
            "values": {"threshold": 0.4},
        }
        | more
    )  # fmt: skip


def line(action: str, after_s: int, who: str = "operator/a", **details: Any) -> AuditLine:
    """A line of the audit log."""
    return AuditLine(at_s=BEGUN_S + after_s, who=who, action=action, subject="ro-1", details=details)


HISTORY = [
    line("advance rollout", DAY, to_basis_points=2500, approved_by="operator/b", analysis={"reason": "all safe"}),
    line("propose advance", DAY, to_basis_points=2500, override_reason="we hurry"),
    line("raise alarm", 600, "server/rollouts", analysis={"reason": "impossible counts"}),
    line("advance rollout", 60, to_basis_points=1000, analysis="the first stage, under guardrails"),
    line("create rollout", 0),
]


def show(one: Rollout, history: list[AuditLine]) -> str:
    """The page without anybody who looks."""
    kept = [] if one.analysis is None else [KeptAnalysis(stage=2, share_basis_points=2500, analysis=one.analysis)]
    context = make_context(Known(one, "text", history, kept), make_timeline(one, history))
    template = Renderer(Assets()).environment.get_template("rollouts/rollout.html")
    common = {"viewer": None, "theme": "auto", "path": "/rollouts/ro-1", "address": "/", "json_address": ""}
    return template.render(common | context | {"offers": [], "done": "", "refused": "nobody looks"})


def test_the_time_line_says_who_moved_it_why_and_what_is_to_come() -> None:
    """An audience never becomes the app's default, so the last step is all of it."""
    steps = make_timeline(rollout(), HISTORY)
    assert [(step.title, step.when) for step in steps] == [
        ("Draft", "past"),
        ("Stage 1: 10 %", "past"),
        ("Stage 2: 25 %", "now"),
        ("Stage 3: 50 %", "to come"),
        ("All of the audience: 100 %", "to come"),
    ]
    assert steps[1].bounds == "lasts at least 2 days, at least 2 000 devices in each group"
    assert steps[2].bounds == "lasts at least 36 hours"
    assert [(move.who, move.words, move.reason) for step in steps for move in step.moves] == [
        ("operator/a", "created it", ""),
        ("operator/a", "advanced it to 10 %", "the first stage, under guardrails"),
        ("the server, as the plan says", "raised an alarm", "impossible counts"),
        ("operator/a", "proposed to advance to 25 %", "we hurry"),
        ("operator/a", "advanced it to 25 %, approved by operator/b", "all safe"),
    ]


def test_an_end_is_the_last_step_and_nothing_comes() -> None:
    """With its reason; the page says it above everything."""
    ended = {"principal": "operator/a", "reason": "it leaks <b>memory</b>", "ended_at_s": BEGUN_S + 2 * DAY}
    one = rollout("halted", share_basis_points=0, control_basis_points=0, ending=ended)
    history = [line("halt rollout", 2 * DAY, reason=ended["reason"]), *HISTORY]
    assert [step.title for step in make_timeline(one, history)][-1] == "Halted"
    assert make_timeline(one, history)[-1].when == "now"
    page = show(one, history)
    assert "it leaks &lt;b&gt;memory&lt;/b&gt;" in page
    assert "It is over" in page
    assert actions_of(one) == []


def test_what_happens_by_itself_the_promise_and_windows_that_wait_are_said() -> None:
    """Of Prio3: collected windows, why one waits, and what the aggregators say; a negative estimate is no device."""
    proposal = {
        "proposed_by": "operator/a",
        "proposed_at_s": BEGUN_S,
        "share_basis_points": 5000,
        "override_reason": "",
    }
    page = " ".join(show(rollout("halted", proposal=proposal), HISTORY).split())
    for words in (
        "halt; a pause while reports are not attested",
        "pause after 20 days",
        "advances by itself: a canary",
        "2 collected, 1 asked for again, 0 given up",
        "take no part: no such task",
        "49 reports of at least 100",
        "1 of a window&#39;s sums",
        "threshold=0.4",
        "os in (ios)",
        "An advance to <strong>50 %</strong> waits",
        '<span class="number">2 000</span>',
        '<span class="number">0</span>',
        "Quantile of the latency at 0.9",
        "Own metric minutes",
        "Within its margin: margin",
    ):
        assert words in page, words


def test_an_own_metric_and_a_latency_are_in_their_own_units() -> None:
    """Per cent is for shares alone."""
    one = rollout()
    latency, own = make_guardrails(one, [])
    assert (latency.unit, latency.margin, latency.difference, latency.low, latency.high) == ("ms", 10.0, 3.0, -1.0, 9.0)
    assert (own.unit, own.margin) == ("its own unit", 0.5)
    draft = rollout("draft", analysis=None)
    assert [each.words for each in make_guardrails(draft, [])] == ["not analyzed yet"] * 2


def test_who_proposed_is_not_offered_to_approve_and_each_form_says_what_was_seen() -> None:
    """The etag, and words for people."""
    proposal = {
        "proposed_by": "operator/a",
        "proposed_at_s": BEGUN_S,
        "share_basis_points": 5000,
        "override_reason": "",
    }
    one = rollout(proposal=proposal)
    assert describe_state(one) == "running at 25 %, 50 % proposed, stage 2"
    assert [action.name for action in actions_of(one, "operator/a")] == ["advance", "pause", "roll-back", "halt"]
    assert next(action.name for action in actions_of(one, "operator/b")) == "approve"
    assert {tuple(action.hidden.items()) for action in actions_of(one)} == {
        (("etag", "7"), ("seen", describe_state(one)))
    }


def test_durations_are_in_the_largest_unit_that_divides_them() -> None:
    """So that nothing is rounded."""
    assert [say_duration(seconds) for seconds in (DAY, 36 * 3600, 90 * 60, 1, 61)] == [
        "1 day", "36 hours", "90 minutes", "1 second", "61 seconds"
    ]  # fmt: skip
