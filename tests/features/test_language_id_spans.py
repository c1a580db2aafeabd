"""`detect_spans` finds where a text changes its language, for mixed, long and letterless texts."""

import json
from dataclasses import asdict
from itertools import pairwise, product

import numpy as np
import pytest
from alcove.features.language_id import LanguageId
from alcove.features.language_id.config import DEFAULT_VERSION, LANGUAGES, UNKNOWN_BELOW
from alcove.features.language_id.contract import SENTENCES, program_path
from alcove.features.language_id.evaluate import share_of_spans_right, texts_of_tsv
from alcove.features.language_id.spans import BLOCK, WORD, LanguageSpan, Run, detect_spans, evidence, likeliest_path
from alcove.runtime import InvalidTextError, load


@pytest.fixture(scope="module")
def session() -> Run:
    """The default program."""
    return load(program_path(DEFAULT_VERSION)).session()


@pytest.mark.parametrize(
    "parts",
    [
        [("en", "He said"), ("fr", "ce n'est pas possible du tout"), ("en", "and then he left the room")],
        [("zh", "我爱你"), ("en", "and I love you too")],
        [("ja", "今日は良い天気ですね"), ("en", "hello my friend, how are you")],
        [("de", "Das habe ich gestern schon gesagt"), ("ru", "но он меня не услышал")],
        [("fi", "Hyvää huomenta kaikille")],
    ],
)
def test_parts_of_a_mixed_text_are_found_with_their_places(parts: list[tuple[str, str]], session: Run) -> None:
    """Language, first and last character of each; punctuation between them belongs to none."""
    text = ": ".join(part for _, part in parts)
    spans = LanguageId().detect_spans(session, text)
    assert [(span.language, text[span.start : span.end]) for span in spans] == parts
    assert not any(span.is_unknown for span in spans)


def test_a_borrowed_word_makes_no_span(session: Run) -> None:
    """One language is left, over all words."""
    text = "Das Meeting von gestern war leider nicht besonders cool."
    (span,) = detect_spans(session, text)
    assert (span.language, span.start, span.end) == ("de", 0, len(text) - 1)


@pytest.mark.parametrize("text", ["", " \n", "😀👍🏽❤️", "1234 5678", "?!… — „“", "\0"])
def test_a_text_without_letters_has_no_spans(text: str, session: Run) -> None:
    """Nothing is made up."""
    assert detect_spans(session, text) == ()


def test_words_of_two_demo_sentences_in_one_text_mostly_get_the_right_language(session: Run) -> None:
    """The figure of the card, on texts that come with alcove; giving all of it one language gets about half."""
    assert share_of_spans_right(session, texts_of_tsv(SENTENCES)[::3]) > 0.95


def test_a_long_text_is_decided_in_blocks_and_its_spans_cover_every_word(session: Run) -> None:
    """Longer than a block: spans in order, no two neighbours alike, each word in one of them."""
    text = ("Der Zug fährt heute nicht. " * 60 + "Le train ne circule pas aujourd'hui. " * 60) * 7
    words = [match.span() for match in WORD.finditer(text)]
    assert len(words) > BLOCK
    spans = detect_spans(session, text)
    assert [span.language for span in spans] == ["de", "fr"] * 7
    assert all(one.end <= two.start for one, two in pairwise(spans))
    assert all(any(span.start <= start and end <= span.end for span in spans) for start, end in words)


def test_a_lone_surrogate_is_a_typed_error(session: Run) -> None:
    """As it is for the whole text."""
    with pytest.raises(InvalidTextError) as caught:
        detect_spans(session, "ab\ud800")
    assert caught.value.position == 2


def test_a_guess_that_is_unlikely_says_so() -> None:
    """The probability is that of the stretch by itself; under the feature's threshold it is unknown."""
    (span,) = detect_spans(lambda _: [np.array([[UNKNOWN_BELOW - 0.01]], np.float32), np.array([["eo"]])], "ab cd")
    assert (span.language, span.start, span.end, span.is_unknown) == ("eo", 0, 5, True)
    assert span.probability == pytest.approx(UNKNOWN_BELOW - 0.01)
    assert LanguageSpan(**json.loads(json.dumps(asdict(span)))) == span


def test_evidence_is_the_mean_over_the_windows_of_a_word() -> None:
    """Three words, windows of one and two: the middle word is in three, the others in two."""
    sure = {"a": 0.5, "b": 0.9, "c": 0.5, "a b": 0.8, "b c": 0.6}

    def run(text: str) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
        return [np.array([[sure[text]]], np.float32), np.array([["de"]])]

    found = evidence(run, "a b c", [(0, 1), (2, 3), (4, 5)], widest=2)
    german = found[:, LANGUAGES.index("de")]
    assert german[0] == pytest.approx(np.log([0.5, 0.8]).mean(), rel=1e-5)
    assert german[1] == pytest.approx(np.log([0.9, 0.8, 0.6]).mean(), rel=1e-5)
    others = np.delete(found, LANGUAGES.index("de"), axis=1)
    assert others[0] == pytest.approx(np.log([0.5 / 74, 0.2 / 74]).mean(), rel=1e-4)


def test_path_is_the_best_of_all_paths() -> None:
    """Against every path, on small random scores and several costs."""
    rng = np.random.default_rng(7)
    for cost in (0.0, 0.4, 1.5, 9.0):
        for _ in range(20):
            scores = rng.normal(size=(5, 3))

            def value(path: tuple[int, ...], scores: np.ndarray[tuple[int, int]] = scores, cost: float = cost) -> float:
                changes = sum(one != two for one, two in pairwise(path))
                return float(sum(scores[i, choice] for i, choice in enumerate(path)) - cost * changes)

            best = max(product(range(3), repeat=5), key=value)
            assert tuple(likeliest_path(scores, cost).tolist()) == best
    assert likeliest_path(np.zeros((0, 3))).shape == (0,)
