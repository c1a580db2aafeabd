"""Are the card's figures computed as it says?"""

import pytest
from alcove.features.language_id.card import BEGIN, END, accuracy_picture, figures, percent, replace_figures
from alcove.features.language_id.metrics import (
    Prediction,
    accuracy_by_language,
    confusions,
    expected_calibration_error,
    mean_accuracy,
    share_below,
)

PREDICTIONS = [
    Prediction("de", "de", 0.9),
    Prediction("de", "nl", 0.6),
    Prediction("de", "nl", 0.4),
    Prediction("de", "de", 0.8),
    Prediction("nl", "nl", 1.0),
    Prediction("nl", "af", 0.2),
]


def test_each_language_counts_the_same_in_the_mean() -> None:
    """Four texts of one and two of another: the mean of 1/2 and 1/2, then of 1/2 and 1."""
    assert accuracy_by_language(PREDICTIONS) == {"de": 0.5, "nl": 0.5}
    assert mean_accuracy(PREDICTIONS[:5]) == pytest.approx(0.75)


def test_confusions_are_the_most_frequent_first() -> None:
    """Ties by code."""
    assert confusions(PREDICTIONS, 5) == [("de", "nl", 2), ("nl", "af", 1)]
    assert confusions(PREDICTIONS, 1) == [("de", "nl", 2)]


def test_calibration_error_is_zero_for_honest_probabilities() -> None:
    """Three of four right at 0.75: no gap. All right at 0.75: a gap of 0.25."""
    honest = [Prediction("a", "a", 0.75)] * 3 + [Prediction("a", "b", 0.75)]
    assert expected_calibration_error(honest) == pytest.approx(0)
    assert expected_calibration_error(honest[:3]) == pytest.approx(0.25)
    assert expected_calibration_error([Prediction("a", "a", 1.0)]) == pytest.approx(0)


def test_nothing_to_measure_is_an_error() -> None:
    """An empty set has no accuracy and no calibration; none of it is under a threshold."""
    with pytest.raises(ValueError, match="no predictions"):
        mean_accuracy([])
    with pytest.raises(ValueError, match="no predictions"):
        expected_calibration_error([])
    assert share_below([], 0.5) == 0


def test_share_below_counts_what_is_unknown() -> None:
    """Strictly under the threshold."""
    assert share_below(PREDICTIONS, 0.6) == pytest.approx(2 / 6)


def result(version: str) -> dict[str, object]:
    """Return a small evaluation."""
    kind = {
        "accuracy": 0.5,
        "calibration_error": 0.01,
        "right_unknown": 0.1,
        "wrong_unknown": 0.6,
        "latency_us": 9.6,
        "by_language": {"de": 1.0, "zh": 0.0},
        "confusions": [("zh", "ja", 3)],
    }
    words = {**kind, "by_language": {"de": 0.25}}
    return {
        "version": version,
        "size_bytes": 1234567,
        "memory_ceiling_bytes": 20000,
        "kinds": {"words": words, "sentences": kind},
        "mean_accuracy": 0.5,
        "others_unknown": 0.875,
    }


def test_card_figures_name_every_version_language_and_confusion() -> None:
    """A language without words has a dash there."""
    text = figures([result("1.0.0"), result("2.0.0")])
    assert "|  | 1.0.0 | 2.0.0 |" in text
    assert "| zh | – | 0.0 |" in text
    assert "| de | 25.0 | 100.0 |" in text
    assert "zh → ja 3" in text
    assert "1,234,567" in text
    assert percent(0.875) in text


def test_figures_go_between_the_markers_and_nowhere_else() -> None:
    """Writing twice changes nothing; a card without markers is refused."""
    card = f"# Card\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_figures(card, "new")
    assert once == f"# Card\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replace_figures(once, "new") == once
    for broken in ("# Card", BEGIN, END):
        with pytest.raises(ValueError, match="must hold the lines"):
            replace_figures(broken, "new")


def test_picture_has_a_row_for_each_language() -> None:
    """One dot for each kind that the language has."""
    picture = accuracy_picture(result("2.0.0"))
    assert picture.startswith("<svg")
    assert picture.count("<circle") == 3
    assert ">zh</text>" in picture
