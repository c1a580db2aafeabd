"""Guardrails of own metrics on the command line stand beside the others and are told from them."""

import pytest
import typer
from alcove.platform.cli.own_guardrails import own_guardrails_of, without_own
from alcove.platform.cli.plans import PlanOptions
from alcove.platform.client import OwnGuardrail

OWN = OwnGuardrail(metric="undone_edits", metric_version=0, margin=0.2)


def test_one_option_takes_both_kinds() -> None:
    """`--guard` fills both fields of the plan, so that an update replaces all that is watched."""
    plan, fields = PlanOptions(guardrails=["error:1%", "metric:undone_edits:0.2", "metric:minutes@3:5"]).plan()
    assert [each.metric for each in plan.guardrails] == ["error"]
    assert plan.own_guardrails == (OWN, OwnGuardrail(metric="minutes", metric_version=3, margin=5.0))
    assert {"guardrails", "own_guardrails"} <= set(fields)
    assert PlanOptions().plan()[1] == ()


@pytest.mark.parametrize(
    "text",
    ["metric:", "metric:x", "metric:x:", "metric:X:1", "metric:x:1%", "metric:x@:1", "metric:x:-1", "metric:x:1:2"],
)
def test_what_reads_otherwise_is_refused_with_an_example(text: str) -> None:
    """And is no guardrail of another kind."""
    assert without_own([text]) == ()
    with pytest.raises(typer.BadParameter, match=r"metric:undone_edits:0\.2"):
        own_guardrails_of([text])
