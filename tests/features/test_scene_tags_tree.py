"""The tree of scene_tags holds together, and its ranking shows what is known, no more and no less."""

import numpy as np
import pytest
from alcove.features.scene_tags.config import CATEGORIES, SCENES
from alcove.features.scene_tags.decoration import SIGNS, decoration_of
from alcove.features.scene_tags.ranking import NAMED_FROM, rank_tags
from alcove.features.scene_tags.tags import PLACES, ROOTS, TAGS, TREE, ancestors, mood, subtree


def scores(**given: float) -> np.ndarray:
    """Return the scores of a picture; "_" stands for a blank in a tag's name."""
    row = np.full(len(TAGS), 0.001, np.float32)
    for tag, score in given.items():
        row[TAGS.index(tag.replace("_", " "))] = score
    return row


def show(row: np.ndarray, count: int = 8) -> list[str]:
    """Return the tags that are shown."""
    return [TAGS[at] for at in rank_tags(row, count)]


def test_every_tag_has_a_parent_before_it_and_something_that_shows_it() -> None:
    """Plain words, each once; depth first, so that a subtree stands together; three hundred and more."""
    assert len(TAGS) == len(set(TAGS)) >= 300
    assert set(PLACES) <= ROOTS
    for at, tag in enumerate(TREE):
        assert tag.name.strip() == tag.name != ""
        assert not tag.parent or tag.parent in TAGS[:at]
        assert subtree(tag.name) == tuple(range(at, at + len(subtree(tag.name))))
        below = [TREE[each] for each in subtree(tag.name)]
        assert any(each.classes or each.category or each.name in SCENES for each in below), tag.name
        assert not {number for each in below[1:] for number in each.classes} & set(tag.classes)


def test_all_categories_and_nearly_all_classes_are_expressed() -> None:
    """The 80 of COCO, each by one tag; of ImageNet's 1,000 classes those that are a plain word."""
    named = [tag.category for tag in TREE if tag.category]
    assert sorted(named) == sorted(CATEGORIES)
    classes = {number for tag in TREE for number in tag.classes}
    assert len(classes) >= 900
    assert min(classes) == 0
    assert max(classes) == 999


def test_moods_are_inherited_and_within_bounds() -> None:
    """A poodle has a dog's mood; a root without one says nothing."""
    for tag in TAGS:
        assert all(-1 <= value <= 1 for value in mood(tag))
    assert mood("polar bear") == mood("bear")
    with pytest.raises(KeyError):
        ancestors("no such tag")


def test_tag_gives_way_to_one_below_it_that_is_more_likely_than_not() -> None:
    """A picture shows a dog, not a mammal; and a mammal where nobody can tell which."""
    sure = scores(dog=0.8, mammal=0.9, animal=0.95)
    assert show(sure)[0] == "dog"
    assert not {"mammal", "animal"} & set(show(sure))
    unsure = scores(dog=0.4, cat=0.35, mammal=0.9, animal=0.95)
    assert show(unsure)[:3] == ["mammal", "dog", "cat"]
    assert "animal" not in show(unsure)


def test_things_come_before_the_places_that_they_are_in() -> None:
    """A bus in a street is a picture of a bus."""
    assert show(scores(bus=0.6, street=0.95))[:2] == ["bus", "street"]


def test_roots_are_never_shown_and_no_more_than_asked() -> None:
    """Whatever the scores are."""
    for seed in range(20):
        row = np.random.default_rng(seed).random(len(TAGS)).astype(np.float32)
        found = show(row, 5)
        assert len(found) <= 5
        assert not set(found) & ROOTS
        for tag in found:
            assert not any(row[at] >= NAMED_FROM for at in subtree(tag)[1:])


def signs(**given: float) -> np.ndarray:
    """Return the signs of an ordinary picture but for those given."""
    usual = {"face": 0.0, "document": 0.0, "brightness": 0.5, "contrast": 0.2, "detail": 0.04, "white": 0.1}
    return np.array([(usual | given)[name] for name in SIGNS], np.float32)


@pytest.mark.parametrize(
    ("given", "person", "reasons"),
    [
        ({}, 0.0, ()),
        ({"face": 0.2}, 0.9, ("face close up",)),
        ({"face": 0.2}, 0.1, ()),  # a flower's
        ({"document": 0.9}, 0.0, ("document",)),
        ({"brightness": 0.05, "contrast": 0.03}, 0.0, ("dark", "sparse")),
        ({"detail": 0.001}, 0.0, ("sparse",)),
    ],
)
def test_decoration_is_advised_against_for_a_reason(
    given: dict[str, float], person: float, reasons: tuple[str, ...]
) -> None:
    """Faces near the camera, documents, the dark, a wall."""
    answer = decoration_of(signs(**given), person)
    assert answer.reasons == reasons
    assert answer.suits == (not reasons)
