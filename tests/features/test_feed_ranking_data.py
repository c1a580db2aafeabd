"""The data of feed_ranking: files are parsed or refused by line, and metrics and baselines match their definitions."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from alcove.features.feed_ranking.dataset import (
    Lines,
    in_rows,
    questions_of_last,
    read_attributes,
    read_lines,
    read_questions,
    rows_of,
    table_ids,
)
from alcove.features.feed_ranking.harness import item_knn, popularity, score_of

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "ranking"


def lines_of(*rows: list[int]) -> Lines:
    """Users 0, 1, ... with these items."""
    return Lines(tuple(map(str, range(len(rows)))), tuple(np.array(row, np.int64) for row in rows))


@pytest.mark.parametrize("suffix", ["txt", "txt.xz"])
def test_lines_and_questions_are_read_plain_and_compressed(suffix: str, tmp_path: Path) -> None:
    """Blanks, tabs and commas; empty lines are none; a user without a line has no history."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.{suffix}"
        path.write_bytes(lzma.compress(text.encode()) if suffix.endswith("xz") else text.encode())
        return path

    lines = read_lines(write_file("train", "ann 5 6 7\n\nbob 6\n"))
    assert lines.users == ("ann", "bob")
    assert [row.tolist() for row in lines.items] == [[5, 6, 7], [6]]
    questions = read_questions(write_file("test", "bob\t9\t1 2 3\nann\t8\t1,2,3\neve\t8\t4\t5\t6\n"), lines)
    assert questions.rows.tolist() == [1, 0, -1]
    assert [history.tolist() for history in questions.histories] == [[6], [5, 6, 7], []]
    assert questions.candidates.tolist() == [[9, 1, 2, 3], [8, 1, 2, 3], [8, 4, 5, 6]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no line"),
        ("ann\n", "line 1: no item"),
        ("ann 1\nbob 0\n", "line 2: items must be"),
        ("ann 1 x\n", "line 1: items must be"),
        ("ann 1 -2\n", "items must be"),
        ("ann 99999999999\n", "items must be"),
    ],
)
def test_line_that_is_none_is_named(text: str, said: str, tmp_path: Path) -> None:
    """File and number of the line."""
    path = tmp_path / "train.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_lines(path)


def test_test_file_with_uneven_negatives_and_broken_files_are_refused(tmp_path: Path) -> None:
    """Figures over different numbers of negatives mean nothing."""
    path = tmp_path / "test.txt"
    path.write_text("0\t1\t2 3\n1\t1\t2\n")
    with pytest.raises(ValueError, match="line 2: 2 negatives expected, not 1"):
        read_questions(path, lines_of([1]))
    path.write_text("0\t1\n")
    with pytest.raises(ValueError, match="1 or more negatives expected, not 0"):
        read_questions(path, lines_of([1]))
    broken = tmp_path / "test.txt.xz"
    broken.write_bytes(b"no xz")
    with pytest.raises(ValueError, match=r"plain or \.xz"):
        read_lines(broken)


def test_attributes_are_lists_of_numbers(tmp_path: Path) -> None:
    """Anything else is refused with the item."""
    path = tmp_path / "attributes.json"
    path.write_text(json.dumps({"3": [1, 2], "4": []}))
    assert read_attributes(path) == {3: [1, 2], 4: []}
    for bad in ({"3": [-1]}, {"x": [1]}, {"3": 1}, {"3": [True]}):
        path.write_text(json.dumps(bad))
        with pytest.raises(ValueError, match="list of numbers"):
            read_attributes(path)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="object of lists"):
        read_attributes(path)


def test_question_about_the_last_item_has_negatives_that_were_never_touched() -> None:
    """Different ones; who has fewer than three items, or touched nearly everything, is not asked."""
    rng = np.random.default_rng(0)
    lines = lines_of(*(rng.integers(1, 60, size).tolist() for size in (2, 3, 10, 20, 300)))
    questions = questions_of_last(lines, 20, seed=3)
    assert questions.rows.tolist() == [1, 2, 3]
    for row, history, candidates in zip(questions.rows, questions.histories, questions.candidates, strict=True):
        touched = lines.items[row]
        assert history.tolist() == touched[:-1].tolist()
        assert candidates[0] == touched[-1]
        assert len(set(candidates.tolist())) == 21
        assert not set(candidates[1:].tolist()) & set(touched.tolist())
    assert [len(row) for row in lines.without_last().items] == [1, 2, 9, 19, 299]
    np.testing.assert_array_equal(questions.candidates, questions_of_last(lines, 20, seed=3).candidates)
    with pytest.raises(ValueError, match="nobody has 3 items or more and 200 of"):
        questions_of_last(lines, 200, seed=3)


def test_ids_become_rows_whatever_their_numbers() -> None:
    """Gaps do not matter; an id without a row is row 0."""
    lines = lines_of([1_000_000, 5], [7])
    every = table_ids(lines, [np.array([9])], {6: [1]})
    assert every.tolist() == [5, 6, 7, 9, 1_000_000]
    assert rows_of(np.array([5, 1_000_000, 8, 2_000_000, 1]), every).tolist() == [1, 5, 0, 0, 0]
    asked = in_rows(questions_of_last(lines_of([5, 7, 9], [1_000_000]), 1, 0), every)
    assert asked.candidates.tolist() == [[4, 5]]


def test_score_is_its_definition_and_a_tie_is_lost() -> None:
    """Places 0, 1, 9, 10 and a constant scorer: who says the same of all has found nothing."""
    scores = np.zeros((5, 12), np.float32)
    for row, place in enumerate((0, 1, 9, 10)):
        scores[row, 1 : 1 + place] = 1.0
        scores[row, 0] = 0.5
    found = score_of(scores)
    assert found.hit_rate == pytest.approx(3 / 5)
    assert found.first_rate == pytest.approx(1 / 5)
    assert found.gain == pytest.approx((1 + 1 / np.log2(3) + 1 / np.log2(11)) / 5)


def test_baselines_find_what_they_are_for() -> None:
    """Popularity the item of most users; item-kNN the companion of the latest item, though others are more popular."""
    lines = lines_of(*[[1, 2]] * 5, *[[3, 4]] * 3, *[[2, 5]] * 4)
    asked = questions_of_last(lines_of([9, 9, 3, 4], [9, 9, 1, 2]), 0, 0)
    candidates = np.array([[4, 2, 5, 1], [2, 4, 5, 3]])
    asked = type(asked)(asked.rows, asked.histories, candidates)
    assert popularity(lines, 10)(asked).argmax(axis=1).tolist() == [1, 0]
    assert item_knn(lines, 10)(asked).argmax(axis=1).tolist() == [0, 0]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the ranking sets are not beside the checkout ({DATA})")
def test_sets_of_the_data_folder_are_what_their_page_says() -> None:
    """Users and items; popularity alone is far above the tenth that chance gives."""
    lines = read_lines(DATA / "lastfm.train.txt.xz")
    attributes = read_attributes(DATA / "lastfm.item_attributes.json.xz")
    assert len(lines.users) == 1090
    every = table_ids(lines, (), attributes)
    assert len(every) == 3646
    questions = in_rows(questions_of_last(lines, 99, 1), every)
    known = Lines(lines.users, tuple(rows_of(row[:-1], every) for row in lines.items))
    assert 0.2 < score_of(popularity(known, 3647)(questions)).hit_rate < 0.5
