"""`alcove demo --all` shows every feature of the catalog, with answers that fit the input."""

import pytest
from alcove.features import catalogue
from alcove.platform.cli.demo.features import SHOWS, Shown, show_all
from rich.console import Console


@pytest.fixture(scope="module")
def shown() -> dict[str, Shown]:
    """What is shown, by feature."""
    return {each.feature: each for each in show_all(Console(quiet=True))}


def test_every_feature_that_comes_with_alcove_is_shown(shown: dict[str, Shown]) -> None:
    """A feature without a show would be missed by those who look here for what there is."""
    assert set(shown) == set(SHOWS) == set(catalogue())
    assert all(each.version == catalogue()[name].default_version for name, each in shown.items())
    assert all(each.median_us > 0 for each in shown.values())


def test_sentences_come_out_in_their_languages(shown: dict[str, Shown]) -> None:
    """The answer begins with what the writer knows, with one exception at most."""
    rows = shown["language_id"].rows
    assert len(rows) >= 5
    assert sum(answer.split()[0] == language for _, language, answer in rows) >= len(rows) - 1


def test_the_estimate_follows_a_capacity_that_halves(shown: dict[str, Shown]) -> None:
    """Every two seconds of a call of 20: at its end the estimate is nearer to the half than to the whole."""
    rows = shown["bandwidth"].rows
    assert len(rows) == 10
    truth = [float(capacity.replace(",", "")) for _, capacity, _, _ in rows]
    estimates = [float(safe.replace(",", "")) for _, _, safe, _ in rows]
    likely = [float(middle.split(" ± ")[0].replace(",", "")) for _, _, _, middle in rows]
    assert all(safe <= middle for safe, middle in zip(estimates, likely, strict=True))
    assert truth[-1] == pytest.approx(truth[0] / 2, rel=0.01)
    assert abs(estimates[-1] - truth[-1]) < abs(estimates[-1] - truth[0])


def test_the_feed_follows_the_history(shown: dict[str, Shown]) -> None:
    """Without one what is popular, without a reason; with one, reasons from it and another order."""
    rows = shown["feed_ranking"].rows
    assert rows[0][0] == "none"
    assert rows[0][2] == "popular"
    assert len({ranked for _, ranked, _ in rows}) == len(rows)
    for history, _, because in rows[1:]:
        assert set(because.split(", ")) <= {*history.split(", "), "popular"}
    assert any(because != "popular" for _, _, because in rows[1:])
