"""A/B of two versions of a call's feature over measured calls: table, shares, decision, calls needed."""

from fractions import Fraction
from pathlib import Path

import pytest
from alcove.platform.simulation.calls import CALL_COLUMNS, calls_needed, read_calls, simulate_calls
from alcove.platform.simulation.own_metric import OwnMetricScenario, share_parts
from alcove.platform.stats import Mechanism
from alcove.registry.policy.metric import MetricKind

HEADER = ",".join(("kind", *CALL_COLUMNS))
ROWS = ("rain,11,13,200,210", "rain,14,15,200,230", "dog,6,6,190,400", "dog,12.5,12.6,190,210", "sea,9,12,190,210")


def _table(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "calls.csv"
    path.write_text("\n".join((header, *rows)) + "\n")
    return path


def _scenario(devices: int, runs: int, answering: float = 1.0) -> OwnMetricScenario:
    return OwnMetricScenario(
        kind=MetricKind.SHARE, parts=share_parts(0.5, 0.5), devices=devices, runs=runs, answering=answering
    )


def test_calls_at_the_threshold_are_good_and_at_the_budget_in_time(tmp_path: Path) -> None:
    """12 dB and more is rated good; a call is late where its frames take more than the budget, on a slower device."""
    calls = read_calls(_table(tmp_path, *ROWS))
    assert calls.good_shares(12.0) == (0.4, 0.8)
    assert calls.good_shares(12.01) == (0.4, 0.6)
    assert calls.in_time_shares(16_000.0, 1.0) == (1.0, 1.0)
    assert calls.in_time_shares(16_000.0, 76.0) == (1.0, 0.6)
    assert calls.in_time_shares(16_000.0, 80.0) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("rows", "header", "words"),
    [
        (ROWS, HEADER.replace("treatment_us", "us"), "missing: treatment_us"),
        ((), HEADER, "one call or more"),
        (("rain,11,13,200,",), HEADER, "line 2"),
        (("rain,11,13",), HEADER, "line 2"),
        (("rain,nan,13,200,200",), HEADER, "finite"),
    ],
)
def test_a_table_that_is_none_is_refused(rows: tuple[str, ...], header: str, words: str, tmp_path: Path) -> None:
    """With the column, the line or the bound."""
    with pytest.raises(ValueError, match=words):
        read_calls(_table(tmp_path, *rows, header=header))


def test_a_version_that_sounds_better_and_is_slower_wins_by_one_outcome_and_loses_by_the_other() -> None:
    """Each outcome has the table's difference within its interval, in the units of the table."""
    found = list(simulate_calls(_scenario(12_000, 1, answering=0.5), (0.2, 0.7), (0.95, 0.7)))
    assert [each.outcome for each in found] == ["call_good", "frame_budget_kept"]
    for each in found:
        run, (control, treatment) = each.run, each.shares
        assert run.low is not None
        assert run.high is not None
        assert run.low <= treatment - control <= run.high
        assert (run.won_window, run.lost_window) == ((1, None) if each.outcome == "call_good" else (None, 1))


@pytest.mark.thorough
def test_as_many_calls_as_are_needed_find_the_difference_about_as_often_as_said() -> None:
    """80 % of 60 experiments, within four standard errors; half as many calls find it less often."""
    needed = calls_needed((0.4, 0.5), 0.5, Mechanism.RANDOMIZED_RESPONSE, Fraction(2))
    assert needed is not None
    won = []
    for devices in (needed, needed // 2):
        found = simulate_calls(_scenario(devices, 60, answering=0.5), (0.4, 0.5), (0.9, 0.9))
        won.append(sum(each.run.won_window is not None for each in found if each.outcome == "call_good"))
    assert 36 <= won[0] <= 59
    assert won[1] < won[0] - 6


def test_a_difference_half_as_large_needs_about_four_times_as_many_calls() -> None:
    """And ratings by a part of the devices need more devices, each of whose reports says less."""
    mechanism, epsilon = Mechanism.RANDOMIZED_RESPONSE, Fraction(2)
    large, small, rare = (
        calls_needed(shares, answering, mechanism, epsilon)
        for shares, answering in (((0.4, 0.5), 1.0), ((0.4, 0.45), 1.0), ((0.5, 0.4), 0.5))
    )
    assert large is not None
    assert small is not None
    assert rare is not None
    assert 3.5 * large < small < 4.5 * large
    assert 2 * large < rare < 8 * large


def test_a_difference_that_nothing_can_show_needs_no_number() -> None:
    """Alike, or one arm without any: there is no plan."""
    for shares in ((0.5, 0.5), (0.0, 0.4)):
        assert calls_needed(shares, 1.0, Mechanism.RANDOMIZED_RESPONSE, Fraction(2)) is None
