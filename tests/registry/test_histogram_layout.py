"""The order of a report's cells is a bijection, and the one that devices have always used."""

import numpy as np
import pytest
from alcove.registry.policy import CellAxes, HistogramLayout, Outcome
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
    assert layout.expand(np.arange(layout.cell_count))[arm, outcome, latency, covariate] == cell


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
        one_empty = [0 if other == index else 1 for other in range(4)]
        with pytest.raises(ValueError, match=f"axis {name} must have"):
            HistogramLayout(one_empty[0], one_empty[1], one_empty[2], one_empty[3])
    for cell in (-1, layout.cell_count):
        with pytest.raises(ValueError, match="cell must be in"):
            layout.axes(cell)


@st.composite
def grouped_layouts(draw: st.DrawFn) -> HistogramLayout:
    """Layouts of outcomes in groups, some of them in none."""
    labels = draw(st.lists(st.integers(0, 3), min_size=len(Outcome), max_size=len(Outcome)))
    groups = [[outcome for outcome in Outcome if labels[outcome] == label] for label in range(3)]
    counted = sorted(group for group in groups if group) or [[Outcome.REFUSED]]
    sizes = {"latency_bins": draw(st.integers(1, 5)), "covariate_bins": draw(st.integers(1, 3))}
    return HistogramLayout.of_groups(draw(st.integers(1, 4)), counted, **sizes)


@given(grouped_layouts())
def test_groups_have_the_cells_that_can_occur_and_no_others(layout: HistogramLayout) -> None:
    """Outcomes of a group share their cells; without latency a group has one bin; an outcome in none has no cell."""
    groups = layout.groups or ()
    seen: list[int] = []
    for arm in range(layout.arms):
        for group in groups:
            bins = layout.latency_bins if set(group) <= {Outcome.REFUSED, Outcome.ACCEPTED, Outcome.ANSWERED} else 1
            cells = [
                layout.cell_index(arm, group[-1], latency, covariate)
                for latency in range(bins)
                for covariate in range(layout.covariate_bins)
            ]
            assert [layout.axes(cell).outcome for cell in cells] == [group[0]] * len(cells)
            with pytest.raises(ValueError, match="latency must be in"):
                layout.cell_index(arm, group[0], bins)
            seen += cells
    assert seen == list(range(layout.cell_count))
    for outcome in set(Outcome) - {outcome for group in groups for outcome in group}:
        assert not layout.is_counted(outcome)
        with pytest.raises(ValueError, match="outcome must be in"):
            layout.cell_index(0, outcome)


@given(grouped_layouts())
def test_the_full_array_is_zero_where_nothing_can_occur(layout: HistogramLayout) -> None:
    """Values and covariances stand at their cells' places, and nowhere else is anything."""
    values = np.arange(1, layout.cell_count + 1)
    full = layout.expand(values)
    assert full.shape == layout.shape
    for cell in range(layout.cell_count):
        assert full[layout.axes(cell)] == cell + 1
    assert np.count_nonzero(full) == layout.cell_count
    covariance = layout.expand_covariance(np.outer(values, values))
    assert (covariance == np.outer(full.ravel(), full.ravel())).all()
    for wrong in (values[1:], np.append(values, 1), values[:1].repeat(layout.cell_count + 1)):
        with pytest.raises(ValueError, match="cells, got"):
            layout.expand(wrong)
    with pytest.raises(ValueError, match="cells, got"):
        layout.expand_covariance(np.zeros((layout.cell_count, 1 + layout.cell_count)))


def test_a_layout_says_what_it_tells_apart() -> None:
    """A set is known where it is made up of whole groups."""
    layout = HistogramLayout.of_groups(2, [(0, 1), (2,)], latency_bins=3)
    assert layout.shape == (2, 3, 3, 1)
    assert layout.cell_count == 2 * (3 + 1)
    assert [layout.tells_apart(asked) for asked in ((0, 1), (2,), (0, 1, 2), (0,), (1, 2), (3,))] == [
        True, True, True, False, False, False
    ]  # fmt: skip
    for groups in ((), ((),), ((0, 1), (1,)), ((-1,),)):
        with pytest.raises(ValueError, match="groups of outcomes"):
            HistogramLayout.of_groups(2, groups)
