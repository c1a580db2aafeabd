"""The committed scene_tags program: size, certificate, answers, card figures, and the example album that uses it."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from alcove.features import catalogue
from alcove.features.card_figures import replace_figures
from alcove.features.picture import PictureError
from alcove.features.scene_tags import SceneTags
from alcove.features.scene_tags.card import FLOAT, FULL, SMALL, figures, sheet
from alcove.features.scene_tags.config import DEFAULT_VERSION, EMBEDDING, MAP, SIZE, VARIANTS
from alcove.features.scene_tags.contract import PROGRAMS, SceneAnswer, program_path
from alcove.features.scene_tags.decoration import SIGNS
from alcove.features.scene_tags.drawn import drawings, png_of
from alcove.features.scene_tags.example import Album
from alcove.features.scene_tags.tags import TAGS
from alcove.features.scene_tags.vocabulary import VocabularyError
from alcove.platform.cli.feature import answers
from alcove.registry.manifest import Requirements
from alcove.registry.package import create_package
from alcove.runtime import InputError, Model, load
from alcove.runtime.certificate import check_certificate
from alcove.sdk import Client

FOLDER = PROGRAMS.parent


@pytest.fixture(scope="module")
def model() -> Model:
    """The committed program, loaded."""
    return load(SceneTags.default_program)


@pytest.fixture(scope="module")
def answers_by_name(model: Model) -> dict[str, SceneAnswer]:
    """What it says of the drawn pictures."""
    feature, session = SceneTags(), model.session()
    return {name: feature.decode(session(feature.prepare(pixels))) for name, pixels in drawings().items()}


def test_feature_is_in_the_catalogue_under_its_name() -> None:
    """With the version whose configuration there is."""
    feature = catalogue()["scene_tags"]
    assert feature.name == "scene_tags"
    assert feature.default_version == DEFAULT_VERSION


@pytest.mark.parametrize(("variant", "most"), [("full", 4_500_000), ("small", 2_000_000)])
def test_program_is_small_and_certified(variant: str, most: int) -> None:
    """Bytes of a picture in; scores, embedding, map, commonness and signs out: the same of both variants."""
    path = program_path(DEFAULT_VERSION, variant)
    assert path.stat().st_size <= most
    model = load(path)
    assert [port.shape for port in model.inputs] == [(SIZE, SIZE, 3)]
    shapes = [(1, len(TAGS)), (1, EMBEDDING), (1, MAP, MAP), (1, 1), (1, len(SIGNS))]
    assert [port.shape for port in model.outputs] == shapes
    report = check_certificate(model)
    assert report.samples >= 10
    assert report.licence == "procedural"
    model.verify_weights()


def test_record_and_figures_are_of_the_committed_version() -> None:
    """The record tells what was fitted on; the card holds what the evaluation found, to the letter."""
    record = json.loads(SceneTags.default_program.with_suffix(".run.json").read_text(encoding="utf-8"))
    assert record["version"] == DEFAULT_VERSION
    assert record["pictures"]["photos"] == 92
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    assert result["version"] == DEFAULT_VERSION
    assert result["tags"] == len(TAGS)
    for variant in VARIANTS:
        assert result[variant]["bytes"] == program_path(DEFAULT_VERSION, variant).stat().st_size
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(result)) == card


def test_figures_keep_what_the_card_promises() -> None:
    """What is met stays met, and what is not does not get worse."""
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    full, exact, small = (result["programs"][name] for name in (FULL, FLOAT, SMALL))
    assert full["map"] >= 0.72
    assert exact["map"] - full["map"] <= 0.005
    assert full["right_first"] >= 0.84
    assert full["nothing_named"] <= 0.08
    assert full["few_shot"]["left_out_only"] >= 0.8
    assert small["map"] >= 0.45


def test_variants_agree_about_what_is_plain_to_see() -> None:
    """The small one names less, and of a lemon's embedding about the same."""
    feature = SceneTags()
    picture = feature.prepare(drawings()["lemon"])
    rows = [
        np.array(feature.decode(load(program_path(DEFAULT_VERSION, variant)).session()(picture)).embedding)
        for variant in VARIANTS
    ]
    assert rows[0] @ rows[1] > 0.4


def test_both_variants_make_one_version_whose_small_one_asks_nothing_of_a_device() -> None:
    """They agree about inputs and outputs; a device with little memory is left the small one."""
    programs = {variant: program_path(DEFAULT_VERSION, variant).read_bytes() for variant in VARIANTS}
    package = create_package(
        feature="scene_tags",
        team="pictures",
        version=DEFAULT_VERSION,
        programs=programs,
        card="# scene_tags",
        requirements={"full": Requirements(memory_bytes=4 << 30)},
    )
    needs = {variant.name: variant.requirements for variant in package.manifest.variants}
    assert needs["full"] is not None
    assert needs["small"] is None


def test_contact_sheet_is_what_the_program_says_of_drawn_pictures(answers_by_name: dict[str, SceneAnswer]) -> None:
    """The same text again; pictures may differ in how they are packed."""
    committed = (FOLDER / "contact_sheet.svg").read_text(encoding="utf-8").splitlines()
    assert [line for line in committed if "<text" in line] == [
        line for line in sheet(answers_by_name).splitlines() if "<text" in line
    ]


def test_answers_of_different_pictures_differ_and_hold_together(answers_by_name: dict[str, SceneAnswer]) -> None:
    """Embeddings of length 1; two drawings of fruit are more alike than fruit and a keyboard."""
    rows = {name: np.array(answer.embedding) for name, answer in answers_by_name.items()}
    assert all(np.linalg.norm(row) == pytest.approx(1, abs=0.02) for row in rows.values())
    assert rows["lemon"] @ rows["oranges"] > rows["lemon"] @ rows["keyboard"]
    assert len({answer.tags[0].tag for answer in answers_by_name.values()}) >= 3
    assert all(np.array(answer.saliency).sum() > 0 for answer in answers_by_name.values())


def test_picture_of_one_pixel_and_of_one_colour_are_answered(model: Model) -> None:
    """Something faint rather than nothing: every score is a probability."""
    feature, session = SceneTags(), model.session()
    for value in (0, 127, 255):
        answer = feature.decode(session(feature.prepare(np.full((1, 1, 3), value, np.uint8))))
        assert all(0 <= each.score <= 1 for each in answer.tags)


def test_pixels_of_another_size_or_type_are_refused_by_the_program(model: Model) -> None:
    """What did not go through `prepare`."""
    for wrong in (
        np.zeros((SIZE, SIZE, 4), np.uint8),
        np.zeros((224, 224, 3), np.uint8),
        np.zeros((SIZE, SIZE, 3), "f4"),
    ):
        with pytest.raises(InputError):
            model(wrong)


def test_lines_are_paths_and_bad_ones_are_answered_with_their_error(tmp_path: Path) -> None:
    """A picture between a missing one, one cut short and a text: each in its place."""
    data = png_of(drawings()["lemon"])
    (tmp_path / "good.png").write_bytes(data)
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.jpg").write_bytes(b"hello " * 50)
    pytest.importorskip("PIL", reason="PNG needs Pillow")
    names = ("good.png", "none.png", "cut.png", "text.jpg", "good.png")
    found = list(answers("scene_tags", (f"{tmp_path / name}\n".encode() for name in names)))
    kinds = [each.get("error", {}).get("type") for each in found]
    assert kinds == [None, "MissingPictureError", "TruncatedPictureError", "NotAPictureError", None]
    assert found[0] == found[-1]
    assert set(found[0]["value"]) == {"tags", "embedding", "commonness", "saliency", "crop", "mood", "decoration"}


@pytest.fixture
def album(tmp_path: Path) -> Iterator[Album]:
    """The app of the example, of a client that never reaches a server, with the drawn pictures in it."""
    with Client("stories", tmp_path / "data", "https://models.example.org", b"") as client:
        album = Album(client.feature(SceneTags))
        for name, pixels in drawings().items():
            assert album.add(name, pixels)
        yield album


def test_story_page_is_cut_to_its_aspect_inside_the_picture(album: Album) -> None:
    """Upright and wide; the mood is one that there is."""
    height, width = drawings()["lemon"].shape[:2]
    for aspect in (9 / 16, 1.0, 2.0):
        page = album.page("lemon", aspect=aspect)
        assert 0 <= page.left < page.right <= width
        assert 0 <= page.top < page.bottom <= height
        assert (page.right - page.left) / (page.bottom - page.top) == pytest.approx(aspect, rel=0.02)
        assert page.mood in {"upbeat", "calm", "tense", "melancholic", "neutral"}


@pytest.mark.thorough
def test_own_tag_is_found_and_a_second_of_its_name_refused(album: Album) -> None:
    """Taught from the two drawings of fruit, it finds at least one of them before anything else."""
    album.teach("fruit bowl", ["lemon", "oranges"])
    assert album.find("fruit bowl")[0] in {"lemon", "oranges"}
    assert album.find("no such tag") == []
    assert set(album.like("lemon")) == set(drawings()) - {"lemon"}
    with pytest.raises(VocabularyError, match="twice or more: fruit bowl"):
        album.teach("fruit bowl", ["lemon"])


def test_feature_tags_find_what_counts_as_having_them(album: Album, answers_by_name: dict[str, SceneAnswer]) -> None:
    """Those that are named in the answers, the surest first."""
    for tag in TAGS:
        found = album.find(tag)
        assert set(found) == {name for name, answer in answers_by_name.items() if tag in answer.named}


def test_what_is_no_picture_never_enters_the_album(album: Album) -> None:
    """The error says what a picture is."""
    with pytest.raises(PictureError, match="red, green, blue"):
        album.add("grey", np.zeros((5, 5), np.uint8))
