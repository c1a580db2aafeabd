"""The sheet of photos in the card of scene_tags: what it shows is what was said, judged by one rule."""

import base64
import io
import json
import re

import numpy as np
import pytest
from alcove.features.card_figures import replace_figures
from alcove.features.scene_tags import SceneTags
from alcove.features.scene_tags.config import DEFAULT_VERSION
from alcove.features.scene_tags.photo_sheet import (
    CARD_BLOCK,
    FIGURES,
    FOLDER,
    SHEET,
    WRITER,
    Said,
    ShownPhoto,
    figures,
    judge,
    judge_photo,
    say,
    sheet,
    shown_photos,
)
from alcove.runtime import load

LICENSES = {"public domain", "CC0", "CC BY 2.0", "no known restrictions"}


@pytest.fixture(scope="module")
def said() -> dict[str, Said]:
    """What the committed figures say of each photo."""
    record = json.loads((FOLDER / FIGURES).read_text(encoding="utf-8"))
    assert record["version"] == DEFAULT_VERSION
    return {name: Said(tags=tags) for name, tags in record["said"].items()}


@pytest.fixture(scope="module")
def committed() -> str:
    """The committed sheet."""
    return (FOLDER / SHEET).read_text(encoding="utf-8")


def test_photos_may_be_passed_on_and_say_whose_they_are() -> None:
    """Each under one of four terms; attribution where it is asked for; no name twice."""
    photos = shown_photos()
    assert len({photo.name for photo in photos}) == len(photos) >= 25
    assert {photo.license for photo in photos} <= LICENSES
    assert all(photo.by for photo in photos)


def test_sheet_and_card_are_what_the_figures_say(said: dict[str, Said], committed: str) -> None:
    """The same text again, and no more than 250 kB of it."""
    photos = shown_photos()
    assert [photo.name for photo in photos] == list(said)
    again = sheet(photos, [said[photo.name] for photo in photos], [(b"", 1, 1)] * len(photos))
    texts = re.compile(r"<text.*?</text>")
    assert texts.findall(committed) == texts.findall(again)
    assert len(committed.encode()) <= 250_000
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(photos, said), CARD_BLOCK, WRITER) == card


def test_verdicts_go_up_the_tree_and_spare_what_is_not_claimed() -> None:
    """A fox is a mammal, none of the other mammals, and not every mammal is a fox; "animal" says nothing."""
    fox = ShownPhoto("a fox", "", ("fox",), "", "")
    assert judge("fox", 0.9, fox) == judge("mammal", 0.9, fox) == "right"
    assert judge("dog", 0.9, fox) == judge("animal", 0.9, fox) == "wrong"
    assert judge("dog", 0.4, fox) == "not sure"
    assert judge("fox", 0.9, ShownPhoto("a raccoon", "", ("mammal",), "", "")) == "wrong"
    assert judge_photo(fox, Said(tags=(("dog", 0.4), ("fox", 0.6)))) == "right"
    assert judge_photo(fox, Said(tags=(("dog", 0.4),))) == "not sure"


def test_committed_program_says_about_the_same_of_the_small_photos(said: dict[str, Said], committed: str) -> None:
    """Of the sheet's own pictures, which are small and packed hard, three of five verdicts are the same."""
    image = pytest.importorskip("PIL.Image", reason="WebP needs Pillow: make setup")
    feature = SceneTags()
    session = load(feature.default_program).session()
    packed = re.findall(r'href="data:image/webp;base64,([^"]+)"', committed)
    same = []
    for photo, data in zip(shown_photos(), packed, strict=True):
        pixels = np.asarray(image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
        small = say(feature.decode(session(feature.prepare(pixels))))
        same.append(judge_photo(photo, small) == judge_photo(photo, said[photo.name]))
    assert np.mean(same) >= 0.6
