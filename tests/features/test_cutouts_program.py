"""The committed cutouts program: size, certificate, answers, taps, bad pictures, card, and the example that uses it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.features import catalogue
from alcove.features.card_figures import replace_figures
from alcove.features.cutouts import Box, Cutouts, Cutting, PictureError, Tap
from alcove.features.cutouts.card import figures, sheet
from alcove.features.cutouts.config import DEFAULT_VERSION, MASK, SIZE, TAPS
from alcove.features.cutouts.contract import PROGRAMS, CutoutAnswer
from alcove.features.cutouts.drawn import Drawing, drawings
from alcove.features.cutouts.example import StickerMaker
from alcove.features.cutouts.matte import png_of
from alcove.features.cutouts.metrics import iou
from alcove.features.errors import FieldError
from alcove.platform.cli.feature import answers
from alcove.runtime import InputError, Model, load
from alcove.runtime.certificate import check_certificate
from alcove.sdk import Client

FOLDER = PROGRAMS.parent
LARGEST_SHEET = 150_000


@pytest.fixture(scope="module")
def model() -> Model:
    """The committed program, loaded."""
    return load(Cutouts.default_program)


@pytest.fixture(scope="module")
def pictures() -> dict[str, Drawing]:
    """The drawn pictures."""
    return drawings()


@pytest.fixture(scope="module")
def answers_by_name(model: Model, pictures: dict[str, Drawing]) -> dict[str, CutoutAnswer]:
    """What it cuts out of them."""
    feature, session = Cutouts(), model.session()
    return {name: feature.decode(session(*feature.prepare(each.pixels, each.taps))) for name, each in pictures.items()}


def test_program_is_small_and_certified(model: Model) -> None:
    """At most 6 MB; two methods, of which the second takes the maps that the first gives."""
    assert Cutouts.default_program.stat().st_size <= 6_000_000
    assert model.methods == ("forward", "tap")
    assert [port.shape for port in model.inputs] == [(SIZE, SIZE, 3), (TAPS, 3), (4,), (MASK, MASK)]
    shapes = [port.shape for port in model.outputs]
    assert shapes[:2] == [(MASK, MASK), (2, MASK, MASK)]
    assert [port.shape for port in model.method("tap").inputs][3:] == shapes[2:]
    report = check_certificate(model)
    assert report.samples >= 8
    assert report.licence == "procedural"
    model.verify_weights()


def test_record_card_and_sheet_are_of_the_committed_version(answers_by_name: dict[str, CutoutAnswer]) -> None:
    """The card holds what the evaluation found, to the letter, and the sheet what the program cuts out."""
    assert json.loads(Cutouts.default_program.with_suffix(".run.json").read_text())["version"] == DEFAULT_VERSION
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    assert result["version"] == DEFAULT_VERSION
    assert result["bytes"]["int8"] == Cutouts.default_program.stat().st_size
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(result)) == card
    committed = (FOLDER / "contact_sheet.svg").read_text(encoding="utf-8")
    assert committed == sheet(answers_by_name)
    assert len(committed) <= LARGEST_SHEET


def test_drawn_things_are_cut_out(answers_by_name: dict[str, CutoutAnswer], pictures: dict[str, Drawing]) -> None:
    """Most of the six, with edges at the picture's size; alpha is between 0 and 1."""
    overlaps = []
    for name, answer in answers_by_name.items():
        alpha = answer.alpha(pictures[name].pixels)
        assert alpha.shape == pictures[name].truth.shape
        assert alpha.min() >= 0
        assert alpha.max() <= 1
        overlaps.append(iou(alpha >= 0.5, pictures[name].truth))
    assert sorted(overlaps)[2] >= 0.6


def test_runs_bounds_and_share_are_of_one_mask(answers_by_name: dict[str, CutoutAnswer]) -> None:
    """What an answer says in JSON is what its mask shows."""
    for answer in answers_by_name.values():
        mask = answer.mask()
        assert mask.mean() == pytest.approx(answer.share)
        if answer.bounds is not None:
            rows = np.flatnonzero(mask.any(axis=1))
            assert (answer.bounds.top, answer.bounds.bottom) == (rows[0] / MASK, (rows[-1] + 1) / MASK)
        assert 0 <= answer.certainty <= 1


def test_tap_alone_gives_what_picture_and_tap_give(model: Model, pictures: dict[str, Drawing]) -> None:
    """Maps that are kept are as good as the picture: the same mask but for the rounding of int8 in two methods."""
    pixels = pictures["one of three fruits"].pixels
    warm = Cutting(model, pixels)
    warm.cut()
    again, first = warm.cut([Tap(0.5, 0.5)], anew=True), Cutting(model, pixels).cut([Tap(0.5, 0.5)])
    assert iou(again.mask(), first.mask()) > 0.97
    assert np.abs(again.alpha(pixels) - first.alpha(pixels)).mean() < 0.02


def test_tap_decides_and_a_removing_tap_corrects(model: Model) -> None:
    """Of two balls most of the tapped one comes out, and the other one no more once it is tapped away."""
    y, x = np.mgrid[0:224, 0:288]
    pixels = np.full((224, 288, 3), (120, 165, 150), np.uint8)
    pixels[..., 1] = 165 - y // 8
    balls = [np.hypot(x - middle, y - 118) < 44 for middle in (66, 222)]
    pixels[balls[0]], pixels[balls[1]] = (225, 60, 50), (40, 70, 160)
    cutting = Cutting(model, pixels)
    for own, other, place in ((*balls, 66 / 288), (*balls[::-1], 222 / 288)):
        tap = Tap(place, 118 / 224)
        mask = cutting.cut([tap], anew=True).alpha(pixels) >= 0.5
        assert iou(mask, own) > iou(mask, other) + 0.15
        corrected = cutting.cut([tap, Tap(1 - place, 118 / 224, adds=False)]).alpha(pixels) >= 0.5
        assert iou(corrected, own) > 0.85
        assert iou(corrected, other) < 0.05


def test_app_that_keeps_the_mask_corrects_it_through_predict_alone(model: Model, pictures: dict[str, Drawing]) -> None:
    """The mask so far is an input: with it the first method answers as the second one."""
    drawing = pictures["ball, nothing tapped"]
    feature, session, tap = Cutouts(), model.session(), Tap(146 / 288, 118 / 224)
    first = feature.decode(session(*feature.prepare(drawing.pixels, [tap])))
    away = [tap, Tap(tap.across, tap.down, adds=False)]
    before = first.mask().astype(np.float32)
    assert feature.decode(session(*feature.prepare(drawing.pixels, away, before=before))).share < first.share


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 3000, 3), (7, 5, 3), (2000, 1500, 3)])
def test_picture_of_any_size_is_answered(model: Model, shape: tuple[int, int, int]) -> None:
    """One pixel, one row, and large ones: alpha is as large as the picture."""
    pixels = np.full(shape, 90, np.uint8)
    assert Cutting(model, pixels).cut(box=Box(0.2, 0.2, 0.8, 0.8)).alpha(pixels).shape == shape[:2]


def test_array_with_strides_is_read_as_its_copy() -> None:
    """Every second pixel, or mirrored: what numpy shows counts, not how it lies in memory."""
    whole = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    for view in (whole[::2, ::-1], whole[:, :, ::-1], whole.transpose(1, 0, 2)):
        assert (Cutouts().prepare(view)[0] == Cutouts().prepare(np.ascontiguousarray(view))[0]).all()


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((0, 0, 3), np.uint8),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.broadcast_to(np.uint8(0), (10_000, 10_000, 3)),
        "photo.jpg",
    ],
    ids=["no pixels", "grey", "alpha", "floats", "too large", "text"],
)
def test_what_is_no_picture_is_refused(model: Model, pixels: Any) -> None:
    """A typed error, before the program runs; alpha refuses the same."""
    with pytest.raises(PictureError):
        Cutouts().prepare(pixels)
    with pytest.raises(PictureError):
        Cutting(model, pixels)


def test_wrong_inputs_and_outputs_are_refused(model: Model, answers_by_name: dict[str, CutoutAnswer]) -> None:
    """By the program and by the contract; an answer without edges has no alpha."""
    given = Cutouts().prepare(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(InputError):
        model(given[0][:-1], *given[1:])
    with pytest.raises(ValueError, match="cutouts expects"):
        Cutouts().decode([np.zeros((MASK, MASK + 1), np.float32), np.zeros((2, MASK, MASK), np.float32)])
    with pytest.raises(ValueError, match="finite"):
        Cutouts().decode([np.full((MASK, MASK), np.nan, np.float32), np.zeros((2, MASK, MASK), np.float32)])
    bare = CutoutAnswer(is_found=False, share=0, certainty=1, bounds=None, runs=(MASK * MASK,))
    with pytest.raises(ValueError, match="no edges"):
        bare.alpha(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(FieldError, match="runs"):
        CutoutAnswer(is_found=False, share=0, certainty=1, bounds=None, runs=(MASK,))
    with pytest.raises(FieldError, match="border"):
        answers_by_name["stop sign"].sticker(np.zeros((8, 8, 3), np.uint8), border=0.2)


def test_command_answers_paths_and_lines_with_taps(tmp_path: Path, pictures: dict[str, Drawing]) -> None:
    """As JSON that holds the mask as runs; a bad line gets its error, and the next one its answer."""
    path = tmp_path / "ball.png"
    path.write_bytes(png_of(pictures["ball, nothing tapped"].pixels))
    tapped = json.dumps({"photo": str(path), "add": [[0.5, 0.5]]}).encode()
    bad = json.dumps({"photo": str(path), "add": [[0.5, 1.5]]}).encode()
    first, second, third, last = answers("cutouts", iter([str(path).encode(), tapped, bad, b"nowhere.png\n"]))
    for found in (first, second):
        assert sum(json.loads(json.dumps(found))["value"]["runs"]) == MASK * MASK
    assert third["error"]["type"] == "FieldError"
    assert last["error"]["type"] == "MissingPictureError"


def test_example_makes_a_sticker_through_the_sdk(tmp_path: Path, pictures: dict[str, Drawing]) -> None:
    """Tap, undo, sticker: the app's handle answers with the shipped program, without a server."""
    drawing = pictures["one of three fruits"]
    with Client("stickers", tmp_path, "http://127.0.0.1:1", b"{}", max_stale_s=None) as client:
        maker = StickerMaker(client.feature("cutouts"))
        with pytest.raises(ValueError, match="no photo is open"):
            maker.tap(0.5, 0.5)
        maker.open(drawing.pixels)
        assert maker.tap(0.5, 0.5)
        assert maker.sticker().startswith(b"\x89PNG")
        with pytest.raises(FieldError):
            maker.tap(0.5, 1.5)
        before = maker.sticker()
        maker.tap(0.02, 0.02, adds=False)
        maker.undo()
        assert maker.sticker() == before


def test_feature_is_in_the_catalogue_under_its_name() -> None:
    """With the version whose configuration there is."""
    feature = catalogue()["cutouts"]
    assert (feature.name, feature.default_version) == ("cutouts", DEFAULT_VERSION)
