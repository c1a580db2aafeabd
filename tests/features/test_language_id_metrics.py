"""The figures of the language_id card match their definitions, and are written into the card and its picture."""

import sys
from pathlib import Path

import pytest
from alcove.features.card_figures import BEGIN, END, replace_figures
from alcove.features.language_id.card import accuracy_picture, figures
from alcove.features.language_id.card_near import near_figures, near_trials, percent, temperature_figures
from alcove.features.language_id.config import DEFAULT_VERSION
from alcove.features.language_id.contract import program_path
from alcove.features.language_id.metrics import (
    Prediction,
    accuracy_by_language,
    auroc,
    confusions,
    expected_calibration_error,
    group_accuracies,
    mean_accuracy,
    share_below,
)
from alcove.features.language_id.overlap import shared_words
from alcove.features.language_id.peers import compare, sample, summary

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


def test_auroc_is_the_share_of_pairs_in_order() -> None:
    """Apart: 1; the wrong way round: 0; all alike: a half; one tie among four pairs counts half."""
    assert auroc([0.9, 0.8], [0.1, 0.2]) == 1
    assert auroc([0.1, 0.2], [0.9, 0.8]) == 0
    assert auroc([0.5, 0.5], [0.5]) == 0.5
    assert auroc([0.9, 0.4], [0.4, 0.5]) == pytest.approx((2 + 0 + 0.5) / 4)
    with pytest.raises(ValueError, match="tell apart"):
        auroc([], [0.5])


def test_a_group_of_languages_has_the_mean_of_their_accuracies() -> None:
    """By its codes; a language without texts is left out, a group without any is absent."""
    by_language = {"bs": 0.25, "hr": 0.75, "yo": 1.0}
    groups = [("bs", "hr"), ("yo", "ig"), ("xh", "zu")]
    assert group_accuracies(by_language, groups) == {"bs, hr": 0.5, "yo, ig": 1.0}


def test_words_that_near_languages_share_are_counted_by_language() -> None:
    """Two of four and two of two: 0.75; a group of one, or with one that has words, has nothing to share."""
    words = {"hr": {"kuća", "voda", "tisuća", "vlak"}, "bs": {"kuća", "voda"}, "yo": {"ilé"}, "xh": {"indlu"}}
    assert shared_words(words, [("bs", "hr"), ("yo",), ("xh", "zu")]) == {"bs, hr": 0.75}


def test_the_card_shows_near_languages_beside_the_best_other_library() -> None:
    """A row for each group and kind; of the others the best one of each cell."""
    own = {"texts": 40, "accuracy": 0.5, "in_group": 0.9, "held": 0.8, "several": 0.7, "over_confidence": -0.01}
    left_out = {"version": "9.9.9", "near": {"bs, hr": {"words": own}}}

    def row(name: str, share: float) -> dict[str, object]:
        return {"name": name, "kinds": {"words": {"near": {"bs, hr": share}}}}

    peers = {"rows": [row("alcove", 0.41), row("one", 0.39), row("two", 0.4), {"name": "x", "error": "no wheel"}]}
    text = near_figures(left_out, {"source": "ntrex", "shared_words": {"bs, hr": 0.61}, "peers": peers})
    assert "| bs, hr | words | 40 | 50.0 | 90.0 | 80.0 | 70.0 | -1.0 |" in text
    assert "| bs, hr | 61.0 | 41.0 | 40.0 (two) |" in text
    assert "best other" not in near_figures(left_out, None)


def test_the_card_compares_temperatures() -> None:
    """A column for each way to fit them."""
    figures = {"source": 0.03, "worst_source": 0.13, "worst_kind": 0.015, "near": 0.06, "near_held": 0.9}
    left_out = {"temperatures": {"one for all": figures, "one a language": figures | {"near": 0.025}}}
    text = temperature_figures(left_out)
    assert "|  | one for all | one a language |" in text
    assert "mean of groups and kinds | 6.0 | 2.5 |" in text


def test_the_card_shows_trials_by_their_seeds() -> None:
    """One seed is a figure, several a mean with the least and the most; what was not measured is a dash."""
    one = {"what": "as it was", "mean": [0.85], "words": [0.5], "words_between": [0.65]}
    three = {"what": "more of them", "mean": [0.84, 0.85, 0.86], "words_between": [0.6, 0.66]}
    text = near_trials({"near_texts": 400, "near": [one, three]})
    assert "| as it was | 1 | 85.0 | 50.0 | 65.0 | – | – | – |" in text
    assert "| more of them | 3 | 85.0 (84.0 to 86.0) | – | 63.0 (60.0 to 66.0) |" in text


KNOWN_TEXTS = [("words", "de", "wort"), ("words", "nl", "woord"), ("sentences", "de", "ein satz")]


def test_a_library_is_scored_on_all_languages_and_on_those_it_names() -> None:
    """Each kind by itself, each language the same; a language never named counts as wrong, then not at all."""
    answers = {
        "guesses": ["de", "de", ""],
        "texts": {"words": 2, "sentences": 1},
        "seconds": {"words": 0.5, "sentences": 0.25},
        "package": "some-library",
        "version": "9",
        "memory_bytes": 5_000_000,
    }
    row = summary("some", answers, KNOWN_TEXTS)
    assert row["kinds"]["words"] == {"accuracy": 0.5, "accuracy_known": 1.0, "texts_per_s": 4, "near": {}}
    assert row["kinds"]["sentences"]["accuracy"] == 0
    assert (row["languages"], row["mean_accuracy"], row["mean_accuracy_known"]) == (1, 0.25, 0.5)
    peers = {"per_language": 9, "rows": [row, {"name": "other", "error": "no wheel"}]}
    line = "| some 9 | 50.0 | 0.0 | **25.0** | 1 | 50.0 | 5 | 4 |"
    text = figures([result("1.0.0")], peers=peers)
    assert line in text
    assert "- other: no wheel" in text
    text = figures([result("1.0.0")], held_out=held_out("1.0.0") | {"peers": peers})
    assert "Beside other libraries, at most 9 of these texts" in text
    assert line in text


def test_the_sample_is_balanced_and_the_same_each_time() -> None:
    """At most so many texts of each language and kind, kinds one after the other."""
    kinds = {"words": [("de", f"w{i}") for i in range(9)] + [("nl", "x")], "sentences": [("nl", "y")]}
    chosen = sample(kinds, 3)
    assert [(kind, language) for kind, language, _ in chosen] == [("words", "de")] * 3 + [
        ("words", "nl"),
        ("sentences", "nl"),
    ]
    assert chosen == sample(kinds, 3)


def test_a_library_that_is_not_there_is_named_with_its_error() -> None:
    """Our own program is measured all the same; its guesses are right."""
    texts = [("sentences", "de", "Ich habe heute leider keine Zeit, vielleicht morgen.")]
    program = program_path(DEFAULT_VERSION)
    ours, *others = compare(Path(sys.executable), program, texts)
    assert ours["mean_accuracy"] == 1
    assert ours["memory_bytes"] > 0
    assert {row["name"] for row in others} >= {"lingua, high accuracy", "CLD2"}
    for row in others:
        assert "error" in row or row["mean_accuracy"] in {0, 1}
    absent = next(row for row in others if row["name"] == "CLD2")
    assert "pycld2" in absent["error"]


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
        "others": {"taught": {"unknown": 0.875, "auroc": 0.96, "unknown_by_language": {"gl": 0.5, "mt": 1.0}}},
    }


def held_out(version: str) -> dict[str, object]:
    """Return a small evaluation on a source that training never saw."""
    kind = {"accuracy": 0.75, "calibration_error": 0.03, "over_confidence": -0.02}
    kinds = {"words": kind, "sentences": kind}
    what = {"version": version, "source": "ntrex", "steps": 9000, "languages": 70, "mean_accuracy": 0.75}
    return what | {"kinds": kinds}


def test_card_figures_name_every_version_language_and_confusion() -> None:
    """A language without words has a dash there."""
    text = figures([result("1.0.0"), result("2.0.0")])
    assert "|  | 1.0.0 | 2.0.0 |" in text
    assert "| zh | – | 0.0 |" in text
    assert "| de | 25.0 | 100.0 |" in text
    assert "counted as unknown, sentences in 24 languages taught as none of the 75 (%) | 87.5 | 87.5 |" in text
    assert "gl 50, mt 100" in text
    assert "zh → ja 3" in text
    assert "1,234,567" in text
    assert percent(0.875) in text


def test_card_shows_a_source_never_seen_where_it_was_measured() -> None:
    """By kind, with how far it was too sure."""
    text = figures([result("3.0.0")], held_out=held_out("3.0.0"))
    assert "trained without ntrex" in text
    assert "| accuracy (%) | 75.0 | 75.0 | 75.0 |" in text
    assert "| mean probability less accuracy (%) | -2.0 | -2.0 |  |" in text


def left_out() -> dict[str, object]:
    """Return a small cross-validation: one fold without words."""
    kind = {"texts": 90, "accuracy": 0.9, "calibration_error": 0.01, "over_confidence": 0.0}
    folds = {
        "ntrex": {"languages": 70, "steps": 900, "mean_accuracy": 0.9, "kinds": {"words": kind, "sentences": kind}},
        "asp": {"languages": 4, "steps": 1200, "mean_accuracy": 0.8, "kinds": {"sentences": {**kind, "accuracy": 0.8}}},
    }
    every = {"words": kind, "sentences": {**kind, "accuracy": 0.85, "calibration_error": 0.03}}
    return {"version": "4.1.0", "folds": folds, "all": every, "mean_accuracy": 0.875}


def test_card_begins_with_the_goals_and_says_which_are_missed() -> None:
    """Each goal with its bound, what was reached, yes or no."""
    text = figures([result("4.1.0")], left_out=left_out())
    assert text.startswith("| goal of 4.1.0 |")
    assert "| sources never seen, mean over sources and kinds (%) | ≥ 87.0 | 87.5 | yes |" in text
    assert "| development texts, mean over kinds (%) | ≥ 92.5 | 50.0 | no |" in text
    assert "| calibration error on sources never seen, worst kind (%) | ≤ 2.0 | 3.0 | no |" in text
    assert "| right answers hidden as unknown, mean over kinds (points) | ≤ 0.5 | 5.0 | no |" in text
    assert "| program (bytes) | ≤ 3,000,000 | 1,234,567 | yes |" in text


def test_card_shows_each_source_left_out_and_all_together() -> None:
    """A kind that a fold lacks is a dash; the steps are a range."""
    text = figures([result("4.1.0")], left_out=left_out())
    assert "2 models of 900 to 1,200 steps" in text
    assert "| ntrex | 70 | 90.0 | 90.0 | 90.0 | 1.0 | 1.0 |" in text
    assert "| asp | 4 | – | 80.0 | 80.0 | – | 1.0 |" in text
    assert "| **all** |  | 90.0 | 85.0 | **87.5** | 1.0 | 3.0 |" in text


def test_card_shows_changed_texts_single_characters_and_trials() -> None:
    """Where they were measured."""
    measured = result("4.1.0") | {
        "robustness": {"upper case": {"words": 0.5, "sentences": 0.75}},
        "characters": {"kana": {"characters": 1133, "ja": 0.9, "zh": 0.05}},
    }
    row = {"what": "plain", "seed": 2, "steps": 1500, "texts": "ntrex", "words": 0.7, "pairs": 0.8, "sentences": 0.9}
    text = figures([measured], trials={"development_texts": 150, "rows": [row | {"mean": 0.8}]})
    assert "| upper case | 50.0 | 75.0 |" in text
    assert "| kana | 1,133 | 90.0 | 5.0 | 95.0 |" in text
    assert "| plain, seed 2 | ntrex | 1,500 | 70.0 | 80.0 | 90.0 | 80.0 |" in text


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
