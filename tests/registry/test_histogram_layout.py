"""The order of a report's cells is a bijection, and the one that devices have always used."""

import numpy as np
import pytest
from alcove.registry.policy import CellAxes, HistogramLayout
from hypothesis import given
from hypothesis import strategies as st

layouts = st.builds(
    HistogramLayout,
    arms=st.integers(1, 8),
    outcomes=st.integers(1, 6),
    latency_bins=st.integers(1, 16),
    covariate_bins=st.integers(1, 9),
)

FROZEN = (
    # sizes, place on each axis, cell: computed by the code from before the layout had a home
    ((2, 2, 1, 1), (1, 0, 0, 0), 2),
    ((2, 4, 3, 1), (1, 3, 2, 0), 23),
    ((2, 4, 3, 1), (0, 1, 1, 0), 4),
    ((3, 2, 3, 4), (2, 1, 0, 3), 63),
    ((3, 2, 3, 4), (1, 0, 2, 1), 33),
    ((2, 2, 7, 9), (1, 1, 6, 8), 251),
    ((2, 2, 7, 9), (1, 0, 3, 5), 158),
    ((4, 4, 16, 1), (2, 1, 11, 0), 155),
)


@given(layouts)
def test_cells_are_a_bijection(layout: HistogramLayout) -> None:
    """Every cell has one place, and every place one cell, in [0, cell_count)."""
    places = [layout.axes(cell) for cell in range(layout.cell_count)]
    assert len(set(places)) == layout.cell_count
    assert [layout.cell_index(*place) for place in places] == list(range(layout.cell_count))


@given(layouts, st.data())
def test_order_is_that_of_every_release(layout: HistogramLayout, data: st.DataObject) -> None:
    """Arm outermost, then outcome, latency, covariate; counts read as an array agree."""
    arm, outcome, latency, covariate = (data.draw(st.integers(0, size - 1)) for size in layout.shape)
    cell = layout.cell_index(arm, outcome, latency, covariate)
    by_hand = (arm * layout.outcomes + outcome) * layout.latency_bins + latency
    assert cell == by_hand * layout.covariate_bins + covariate
    assert layout.reshape(np.arange(layout.cell_count))[arm, outcome, latency, covariate] == cell


@pytest.mark.parametrize(("shape", "place", "cell"), FROZEN)
def test_frozen_cells(shape: tuple[int, int, int, int], place: tuple[int, int, int, int], cell: int) -> None:
    """A device and a server of different releases agree on these."""
    layout = HistogramLayout(*shape)
    assert layout.cell_index(*place) == cell
    assert layout.axes(cell) == CellAxes(*place)


def test_place_outside_an_axis_is_refused_by_name() -> None:
    """Each end of each axis, cells outside the histogram, and an axis without a place."""
    layout = HistogramLayout(2, 3, 4, 5)
    for index, (name, size) in enumerate(zip(CellAxes._fields, layout.shape, strict=True)):
        for value in (-1, size):
            place = [0, 0, 0, 0]
            place[index] = value
            with pytest.raises(ValueError, match=f"{name} must be in"):
                layout.cell_index(*place)
        with pytest.raises(ValueError, match=f"axis {name} must have"):
            HistogramLayout(*(0 if other == index else 1 for other in range(4)))
    for cell in (-1, layout.cell_count):
        with pytest.raises(ValueError, match="cell must be in"):
            layout.axes(cell)
