"""Answers, crops, moods, vocabularies and metrics of scene_tags match their definitions; invalid ones are refused."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from alcove.features.scene_tags import SceneTags, Vocabulary
from alcove.features.scene_tags.config import EMBEDDING, MAP
from alcove.features.scene_tags.contract import RANKED, SceneAnswer
from alcove.features.scene_tags.crop import KEPT, Crop, box_of, window_of
from alcove.features.scene_tags.decoration import SIGNS
from alcove.features.scene_tags.metrics import average_precision, calibration_error, precision_at
from alcove.features.scene_tags.mood import mood_of
from alcove.features.scene_tags.tags import TAGS
from alcove.features.scene_tags.vocabulary import ALONE, MAX_BYTES, VocabularyError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter


def unit(seed: int, near: int | None = None, spread: float = 0.3) -> list[float]:
    """Return a direction, perhaps near another one's."""
    row = np.random.default_rng(seed).normal(size=EMBEDDING) / np.sqrt(EMBEDDING)
    if near is not None:
        row = np.array(unit(near)) + spread * row
    return list((row / np.linalg.norm(row)).tolist())


@dataclass(frozen=True)
class Look:
    """What a vocabulary reads of an answer."""

    embedding: list[float]
    commonness: float = 0.1


def look(seed: int, near: int | None = None, spread: float = 0.3, commonness: float = 0.1) -> Look:
    """Return a picture in some direction."""
    return Look(unit(seed, near, spread), commonness)


def outputs(**scores: float) -> list[np.ndarray[Any, Any]]:
    """Return what a program gives for a picture with these scores."""
    row = np.array([[scores.get(tag, 0.01) for tag in TAGS]], np.float32)
    saliency = np.zeros((1, MAP, MAP), np.float32)
    saliency[0, 1, 2] = 1.0
    signs = np.full((1, len(SIGNS)), 0.2, np.float32)
    return [row, np.array([unit(1)], np.float32), saliency, np.array([[0.25]], np.float32), signs]


def test_tags_come_ranked_and_named_from_a_half() -> None:
    """Eight of them; those below a half are ranked and not named; each says what is broader."""
    answer = SceneTags().decode(outputs(boat=0.7, sea=0.9, street=0.4))
    assert [each.tag for each in answer.tags[:3]] == ["boat", "sea", "street"]
    assert len(answer.tags) == RANKED
    assert answer.named == ("boat", "sea")
    assert answer.tags[1].broader == ("landscape", "nature")
    assert SceneTags().decode(outputs()).named == ()
    assert len(answer.embedding) == EMBEDDING
    assert answer.saliency[1][2] == 1.0
    assert answer.commonness == 0.25
    kept = TypeAdapter(SceneAnswer).dump_json(answer)
    assert TypeAdapter(SceneAnswer).validate_json(kept) == answer
    assert json.loads(kept) == json.loads(json.dumps(asdict(answer)))


def test_outputs_of_another_program_are_refused() -> None:
    """Too few, other shapes, NaN, a score above 1."""
    good = outputs(boat=0.7)
    nan, above = [each.copy() for each in good], [each.copy() for each in good]
    nan[2][0, 0, 0] = np.nan
    above[0][0, 3] = 1.5
    wrong = [[], good[:2], good[:4], [*good[:3], np.zeros((1, 2)), good[4]], [*good[:4], good[4][:, :3]]]
    wrong += [[good[0][:, :5], *good[1:]], [good[0], good[1][:, :5], *good[2:]]]
    for lost in (np.inf, 1.5):
        wrong.append([*good[:3], np.array([[lost]]), good[4]])
    for each in [*wrong, nan, above]:
        with pytest.raises(ValueError, match=r"scene_tags expects|expected"):
            SceneTags().decode(each)


def test_box_is_the_smallest_that_holds_most_of_the_map() -> None:
    """One bright cell; two of them at the ends of a row; an empty map keeps the whole picture."""
    saliency = np.zeros((4, 4))
    saliency[1, 2] = 1.0
    assert box_of(saliency) == Crop(left=0.5, top=0.25, right=0.75, bottom=0.5)
    saliency[1, 0] = 1.0
    assert box_of(saliency) == Crop(left=0.0, top=0.25, right=0.75, bottom=0.5)
    assert box_of(np.zeros((4, 4))) == Crop(left=0, top=0, right=1, bottom=1)


def test_box_is_the_one_that_trying_all_of_them_finds() -> None:
    """Smallest that holds enough; of those the one that holds most; of those the first."""
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (1, 5), (4, 4), (5, 3)) * 5:
        saliency = rng.integers(0, 4, (rows, columns)).astype(float)
        saliency[0, 0] += 1
        found = min(
            ((bottom - top) * (right - left), -saliency[top:bottom, left:right].sum(), top, left, bottom, right)
            for top in range(rows)
            for bottom in range(top + 1, rows + 1)
            for left in range(columns)
            for right in range(left + 1, columns + 1)
            if saliency[top:bottom, left:right].sum() >= KEPT * saliency.sum()
        )
        _, _, top, left, bottom, right = found
        assert box_of(saliency) == Crop(
            left=left / columns, top=top / rows, right=right / columns, bottom=bottom / rows
        )


@pytest.mark.parametrize(("aspect", "width", "height"), [(1.0, 400, 200), (9 / 16, 400, 200), (3.0, 300, 300)])
def test_window_has_its_aspect_and_holds_what_matters(aspect: float, width: int, height: int) -> None:
    """As large as fits, inside the picture, over the bright cell."""
    saliency = np.zeros((4, 4))
    saliency[3, 3] = 1.0
    crop = window_of(saliency, width, height, aspect)
    wide, high = (crop.right - crop.left) * width, (crop.bottom - crop.top) * height
    assert wide / high == pytest.approx(aspect)
    assert wide == pytest.approx(width) or high == pytest.approx(height)
    assert crop.right >= 1 - 1e-9 or wide == pytest.approx(width)
    assert crop.bottom >= 1 - 1e-9 or high == pytest.approx(height)


def test_window_of_an_even_map_is_the_middle() -> None:
    """Nothing says more for one side than for the other."""
    for saliency in (np.ones((4, 4)), np.zeros((4, 4))):
        assert window_of(saliency, 400, 200, 1.0) == Crop(left=0.25, top=0, right=0.75, bottom=1)


@pytest.mark.parametrize("aspect", [0.0, -1.0, float("nan"), float("inf")])
def test_aspect_that_no_picture_has_is_refused(aspect: float) -> None:
    """And a picture without pixels."""
    with pytest.raises(ValueError, match="aspect must be"):
        window_of(np.ones((4, 4)), 10, 10, aspect)
    with pytest.raises(ValueError, match="at least one pixel"):
        window_of(np.ones((4, 4)), 0, 10, 1.0)


@given(st.integers(1, 50), st.integers(1, 50), st.floats(0.01, 100), st.integers(0, 10))
def test_crop_in_pixels_is_inside_and_never_empty(width: int, height: int, aspect: float, seed: int) -> None:
    """1x1 pictures too."""
    saliency = np.random.default_rng(seed).random((4, 5))
    for crop in (window_of(saliency, width, height, aspect), box_of(saliency)):
        left, top, right, bottom = crop.pixels(width, height)
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height


def test_mood_follows_the_table() -> None:
    """A tag that is sure decides; faint ones say nothing; one without a mood has that of the broader one."""
    assert mood_of({"sport": 0.95}).name == "upbeat"
    assert mood_of({"sea": 0.9, "landscape": 0.9}).name == "calm"
    assert mood_of({"beetle": 0.9}).name == "tense"
    assert mood_of({"mountain": 0.9}).name == "melancholic"
    assert mood_of({"tennis racket": 0.9}) == mood_of({"sport": 0.9})
    assert mood_of({"sport": 0.1}).name == "neutral"
    assert mood_of({}).name == "neutral"
    assert mood_of({"a": 1.0, "b": 1.0}, {"a": (-1.0, -1.0)}).energy == -1


def test_five_pictures_make_a_tag_that_fits_their_like() -> None:
    """A picture near them fits; one elsewhere does not; a second tag is distinguished; the file gives the same."""
    made = Vocabulary().with_tag("mascot", [look(seed, near=1) for seed in range(10, 15)])
    made = made.with_tag("logo", [look(seed, near=2) for seed in range(20, 25)])
    for vocabulary in (made, Vocabulary.from_bytes(made.to_bytes())):
        mascot, logo = vocabulary.rank(look(99, near=1, spread=0.2))
        assert (mascot.tag, mascot.fits, logo.tag, logo.fits) == ("mascot", True, "logo", False)
        assert mascot.margin > 0.8
        assert not any(each.fits for each in vocabulary.rank(look(3)))
    assert Vocabulary().rank(look(3)) == ()
    assert made.to_bytes() == Vocabulary.from_bytes(made.to_bytes()).to_bytes()


def test_picture_near_to_everything_has_less_margin() -> None:
    """The same embedding: what is common is near to the tag for no reason of the tag's."""
    vocabulary = Vocabulary().with_tag("mascot", [look(seed, near=1) for seed in range(10, 15)])
    (rare,), (common,) = (vocabulary.rank(look(99, near=1, spread=0.2, commonness=each)) for each in (0.1, 0.6))
    assert rare.margin - common.margin == pytest.approx(0.5)
    assert (rare.fits, common.fits) == (True, False)


def test_one_picture_makes_a_tag_with_a_fixed_bound() -> None:
    """Nothing tells how far its like are spread."""
    assert Vocabulary().with_tag("only", [look(1)]).tags[0].least_margin == ALONE


@pytest.mark.parametrize(
    ("name", "pictures", "why"),
    [
        ("taken", [look(1)], "names must differ; twice or more: taken"),
        ("", [look(1)], "at least 1 character"),
        ("x" * 65, [look(1)], "at most 64 characters"),
        ("none", [], "'none': 1 to 1000 pictures make a tag, not 0"),
        ("short", [Look(unit(1)[:5])], r"'short': .* this is \[5\]"),
        ("ragged", [look(1), Look(unit(1)[:5])], r"'ragged': .* this is \[5\]"),
        ("long", [Look([2 * each for each in unit(1)])], r"'long': .* length 1; this is \[128\] of length 2"),
        ("nan", [Look([float("nan"), *unit(1)[1:]])], "'nan': .* of length nan"),
        ("common", [look(1, commonness=float("inf"))], "'common': commonness is a finite number, not inf"),
        ("against", [look(1), Look([-each for each in unit(1)])], "nothing in common"),
        ("many", [look(1)] * 1001, "1 to 1000 pictures make a tag, not 1001"),
    ],
)
def test_tag_that_cannot_be_is_refused_by_name(name: str, pictures: list[Look], why: str) -> None:
    """The message names the tag or the bound."""
    vocabulary = Vocabulary().with_tag("taken", [look(1)])
    with pytest.raises(VocabularyError, match=why):
        vocabulary.with_tag(name, pictures)


def change_vocabulary(**changes: Any) -> bytes:
    """Return a vocabulary's file with something else in it, or in its tag."""
    document = json.loads(Vocabulary().with_tag("taken", [look(1)]).to_bytes())
    for key, value in changes.items():
        (document if key in document or key == "extra" else document["tags"][0])[key] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "JSON"),
        (b"[1, 2", "JSON"),
        (b"[]", "object"),
        (b"\xff", "JSON"),
        (change_vocabulary(format=3), "format: .* less than or equal to 2"),
        (change_vocabulary(format=1), "format: .* greater than or equal to 2"),
        (change_vocabulary(model="9.9.9"), "belongs to scene_tags 9.9.9"),
        (change_vocabulary(extra=1), "extra: Extra inputs"),
        (change_vocabulary(name=""), "tags.0.name"),
        (change_vocabulary(prototype=[1.0]), "tags.0.prototype"),
        (change_vocabulary(prototype=[0.5] * 128), "length is 1, not 5.657"),
        (change_vocabulary(prototype=[float("nan")] * 128), "tags.0.prototype"),
        (change_vocabulary(prototype=["a"] * 128), "tags.0.prototype"),
        (change_vocabulary(least_margin=2.5), "tags.0.least_margin"),
        (change_vocabulary(pictures=0), "tags.0.pictures"),
        (change_vocabulary(tags=[json.loads(change_vocabulary())["tags"][0]] * 2), "twice or more: taken"),
        (change_vocabulary(tags=[json.loads(change_vocabulary())["tags"][0]] * 1001), "at most 1000"),
        (b" " * (MAX_BYTES + 1), "at most 8,388,608 bytes"),
    ],
)
def test_file_that_is_no_vocabulary_is_refused(data: bytes, why: str) -> None:
    """With where and why; the unchanged file is taken."""
    assert len(Vocabulary.from_bytes(change_vocabulary()).tags) == 1
    with pytest.raises(VocabularyError, match=why):
        Vocabulary.from_bytes(data)


def test_embedding_that_cannot_be_is_refused() -> None:
    """Of another length or size."""
    vocabulary = Vocabulary().with_tag("taken", [look(1)])
    for wrong in (unit(1)[:5], [0.0] * EMBEDDING, [float("inf")] * EMBEDDING):
        with pytest.raises(VocabularyError, match="128 finite numbers of length 1"):
            vocabulary.rank(Look(wrong))


def test_average_precision_is_that_of_the_definition() -> None:
    """Worked by hand; ties gain nothing; no positive is an error."""
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, 0, 1, 0])) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(np.ones(4), np.array([1, 0, 0, 0])) == 0.25
    with pytest.raises(ValueError, match="no picture"):
        average_precision(np.ones(4), np.zeros(4))


def test_other_metrics_are_those_of_their_definitions() -> None:
    """Calibrated scores have no error, sure and wrong ones all of it; ties of a search gain nothing."""
    assert calibration_error(np.full(10, 0.3), np.array([1] * 3 + [0] * 7)) == pytest.approx(0)
    assert calibration_error(np.ones(10), np.zeros(10)) == pytest.approx(1)
    is_right = np.array([True, False, True, False])
    assert precision_at(np.array([4, 3, 2, 1]), is_right, 2) == 0.5
    assert precision_at(np.ones(4), is_right, 2) == 0.0
