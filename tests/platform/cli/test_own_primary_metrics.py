"""Own metrics that decide or are shown, as an operator types them, and as values are printed."""

import pytest
import typer
from alcove.platform.cli.experiment import DesignOptions
from alcove.platform.cli.metric_units import spell_value, unit_of
from alcove.platform.cli.secondary_metrics import secondary_metric, spell_metric
from alcove.platform.client import OwnQuestion, Primary

OWN = Primary(kind="metric", metric="undone_edits")


def test_what_decides_what_is_asked_and_what_is_expected_are_options_of_one_design() -> None:
    """Names with and without a version; an update sends what was given and nothing else."""
    design = DesignOptions(
        primary="metric:undone_edits",
        question=["metric:minutes@3:20%"],
        secondary=["metric:minutes"],
        base_distribution="57.5%,23.75%,18.75%",
    )
    found = design.parse()
    assert found["primary"] == OWN
    assert found["own_questions"] == (OwnQuestion(metric="minutes", metric_version=3, share_basis_points=2000),)
    assert found["secondary"] == [Primary(kind="metric", metric="minutes")]
    assert found["plan"].base_distribution == (0.575, 0.2375, 0.1875)
    given = {name for name, value in design.as_options().items() if value is not None}
    assert given == {"primary", "own_questions", "secondary", "plan.base_distribution"}
    nothing = DesignOptions(base_distribution="", question=[""]).parse()
    assert (nothing["plan"].base_distribution, nothing["own_questions"]) == ((), ())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"primary": "metric:Undone"}, "metric:undone_edits"),
        ({"primary": "kept"}, "one of accepted"),
        ({"primary": "metric:undone_edits", "less_is_better": True}, "says which is better"),
        ({"question": ["metric:minutes"]}, "metric:minutes:20%"),
        ({"question": ["error:20%"]}, "metric:minutes:20%"),
        ({"question": ["metric:minutes:120%"]}, "25%"),
        ({"base_distribution": "57,43"}, "57%,24%,19%"),
    ],
)
def test_what_reads_otherwise_is_refused_with_an_example(options: dict[str, object], words: str) -> None:
    """Each option says how it is written."""
    with pytest.raises(typer.BadParameter, match=words):
        DesignOptions(**options).parse()  # type: ignore[arg-type]


def test_values_are_spelled_in_the_unit_of_their_metric() -> None:
    """An own metric has its own unit, which only its definition knows."""
    mean, share = secondary_metric("latency_mean"), secondary_metric("accepted")
    assert [spell_value(metric, 0.125) for metric in (OWN, mean, share)] == ["0.125", "0.125 ms", "12.50 %"]
    assert [unit_of(metric) for metric in (OWN, mean, share)] == [" in undone_edits", " ms", ""]
    assert spell_metric(OWN) == "undone_edits"
