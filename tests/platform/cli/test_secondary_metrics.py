"""Secondary metrics as an operator names them, and as results show them."""

import pytest
import typer
from alcove.platform.cli.secondary_metrics import secondary_metric, show_secondary
from alcove.platform.client import Primary, SecondaryView

from tests.platform.cli.test_bayesian_results import experiment


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("accepted", Primary(kind="accepted")),
        ("latency_mean", Primary(kind="latency_mean")),
        ("latency_quantile", Primary(kind="latency_quantile", quantile=0.5)),
        ("latency>160ms", Primary(kind="latency_share", edge_ms=160.0)),
        ("latency_quantile:0.95", Primary(kind="latency_quantile", quantile=0.95)),
        ("error", Primary(kind="ratio", numerator=("error",), less_is_better=True)),
        ("crash_fallback", Primary(kind="ratio", numerator=("fallback",), less_is_better=True)),
        (
            "refused",
            Primary(kind="ratio", numerator=("refused",), denominator=("refused", "accepted"), less_is_better=True),
        ),
        (
            "accepted/accepted,refused",
            Primary(kind="ratio", numerator=("accepted",), denominator=("accepted", "refused")),
        ),
    ],
)
def test_names_become_metrics(text: str, metric: Primary) -> None:
    """Those that guardrails and primary metrics have, and ratios."""
    assert secondary_metric(text) == metric


@pytest.mark.parametrize("text", ["kept", "error:1%", "latency_quantile:p95", "accepted/all", "latency_mean:1"])
def test_another_name_is_refused_with_what_there_is(text: str) -> None:
    """The option's value is in the message."""
    with pytest.raises(typer.BadParameter, match=text.partition("/")[0]):
        secondary_metric(text)


def test_rows_have_both_p_values_and_say_that_they_decide_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each arm and metric, in the metric's unit."""
    metrics = (secondary_metric("error"), secondary_metric("latency_quantile:0.95"))
    found = SecondaryView.model_validate(
        {
            "differences": [
                {
                    "metric": 0, "arm": 1, "versus": 0, "p": 0.012, "adjusted_p": 0.024,
                    "difference": {"value": -0.01, "low": -0.02, "high": -0.001},
                },
                {"metric": 1, "arm": 1, "versus": 0, "difference": {"value": 12.5, "low": -3.25}},
            ]
        }
    )  # fmt: skip
    show_secondary(experiment("ACCEPTED").model_copy(update={"secondary": metrics}), found)
    shown = capsys.readouterr().out
    assert "secondary metrics, which decide nothing; p-values valid whenever they are read" in shown
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "new - old" in line]
    assert rows == [
        ["error / all", "new - old", "-1.00 % [-2.00, -0.10]", "0.012", "0.024"],
        ["latency_quantile 0.95", "new - old", "12.500 ms [-3.250, …]", "none yet", "none yet"],
    ]
    show_secondary(experiment("ACCEPTED"), SecondaryView())
    assert capsys.readouterr().out == ""
