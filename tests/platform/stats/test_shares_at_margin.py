"""The variance that a difference at the margin would have is that of the likeliest shares."""

import numpy as np
import pytest
from alcove.platform.stats._shares import ShareSums, sampling_at_margin, share_difference
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.integers(3, 400)


def sums_of(treatment: tuple[int, int], control: tuple[int, int]) -> ShareSums:
    """Return exact sums from events and sizes."""
    return ShareSums(np.array([*treatment, *control], dtype=float), np.zeros((4, 4)))


@given(st.data(), SIZES, SIZES, st.sampled_from([0.0, 0.005, 0.05, 0.3]))
def test_it_is_the_likeliest_by_search_on_a_grid(
    data: st.DataObject, treated: int, untreated: int, margin: float
) -> None:
    """Any counts of any sizes; never below the variance that was seen."""
    kt, kc = data.draw(st.integers(0, treated)), data.draw(st.integers(0, untreated))
    shares = sums_of((kt, treated), (kc, untreated))
    seen = share_difference(shares).sampling
    found = float(sampling_at_margin(shares, margin))
    grid = np.linspace(0.0, 1.0 - margin, 20_001)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.where(count > 0, count * np.log(chance), 0.0)
            for count, chance in (
                (kt, grid + margin), (treated - kt, 1.0 - grid - margin), (kc, grid), (untreated - kc, 1.0 - grid)
            )
        ]  # fmt: skip
    best = grid[int(np.nanargmax(np.sum(parts, axis=0)))]
    wanted = (best + margin) * (1.0 - best - margin) / treated + best * (1.0 - best) / untreated
    assert found == pytest.approx(max(wanted, float(seen)), rel=1e-3, abs=1e-4 / min(treated, untreated))
    assert found >= float(seen)


def test_few_events_by_chance_do_not_make_a_version_look_surer_than_it_is() -> None:
    """No crash in a thousand devices of either group: half a point more would have shown with 2.2 errors, not 5."""
    shares = sums_of((0, 1000), (0, 1000))
    score = 0.005 / np.sqrt(float(sampling_at_margin(shares, 0.005)))
    assert score == pytest.approx(2.24, abs=0.02)
    assert 0.005 / float(share_difference(shares).standard_error) > 3.5
