"""What the console's measurement says of viewers: a ratio with its interval, from pairs of rounds."""

import math

import pytest

from benchmarks.console.load import Round, ViewerFigures, percentile
from benchmarks.console.measure import Measured
from benchmarks.console.page import as_markdown
from benchmarks.console.seeding import Sizes


def figures(*pairs: tuple[float, float]) -> ViewerFigures:
    """Pairs of 99th percentiles, without and with viewers."""
    without, with_viewers = (tuple(Round(1.0, pair[at], 3000, 0.1 + at / 10) for pair in pairs) for at in (0, 1))
    return ViewerFigures(100, without, with_viewers, live=100 * len(pairs), events=600, loads=800, failed=0)


def test_the_cost_of_viewers_is_a_ratio_of_pairs_with_its_interval() -> None:
    """A machine that is slower in one pair is so on both sides; one pair says nothing of the spread."""
    middle, low, high = figures((4.0, 4.4), (40.0, 44.0), (2.0, 2.2)).ratio
    assert [middle, low, high] == pytest.approx([1.1, 1.1, 1.1])
    middle, low, high = figures((4.0, 4.0), (4.0, 4.84)).ratio
    assert middle == pytest.approx(1.1)
    half = 12.7062 * math.log(1.21) / math.sqrt(2) / math.sqrt(2)  # Student's t of one degree, 97.5 %
    assert [low, high] == pytest.approx([1.1 * math.exp(-half), 1.1 * math.exp(half)], rel=1e-3)
    assert figures((4.0, 4.4)).ratio[1:] == (0.0, math.inf)


def test_the_section_says_ratio_interval_rounds_and_what_failed() -> None:
    """Each figure that is measured is there, and how many calls it is made of."""
    text = as_markdown(Measured((), (), figures((4.0, 4.4), (5.0, 5.5))), Sizes())
    assert "is 1.10 [1.10, 1.10] times that without them" in text
    assert "6,000 calls on each side" in text
    assert "Of 200 streams 200 stayed open to the end" in text
    assert "| 2 | 1.00 | 1.00 | 5.00 | 5.50 | 10 % | 20 % |" in text


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """Of a thousand calls the tenth slowest but one, never one beyond the last."""
    assert percentile(list(range(1000)), 0.99) == 990
    assert percentile([3.0], 0.99) == 3.0
