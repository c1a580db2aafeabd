"""The committed style program: size, certificate, looks, bad pictures, card, commands, and the example that uses it."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.features import catalogue
from alcove.features.card_figures import replace_figures
from alcove.features.errors import FieldError
from alcove.features.photo_enhance.drawn import png_of, scene
from alcove.features.style_transfer import STYLES, Look, PictureError, StyleTransfer
from alcove.features.style_transfer.card import TILE, figures
from alcove.features.style_transfer.config import COLUMNS, DEFAULT_VERSION, ROWS
from alcove.features.style_transfer.contract import PROGRAMS
from alcove.features.style_transfer.example import PaintedCamera
from alcove.platform.cli.feature import answers, app
from alcove.runtime import Model, load
from alcove.runtime.certificate import check_certificate
from alcove.sdk import Client
from numpy.typing import NDArray
from typer.testing import CliRunner

FOLDER = PROGRAMS.parent
LARGEST_SHEET = 150_000


@pytest.fixture(scope="module")
def model() -> Model:
    """The committed program, loaded."""
    return load(StyleTransfer.default_program)


@pytest.fixture(scope="module")
def painted(model: Model) -> dict[str, NDArray[np.uint8]]:
    """A drawn frame in each style."""
    feature, session, drawn = StyleTransfer(), model.session(), scene(ROWS, COLUMNS)
    return {name: feature.decode(session(*feature.prepare(drawn, Look(style=name)))).frame for name in STYLES}


def test_program_is_small_and_certified(model: Model) -> None:
    """At most 1.5 MB; a frame, weights of styles and a strength in, a frame out."""
    assert StyleTransfer.default_program.stat().st_size <= 1_500_000
    assert [port.shape for port in model.inputs] == [(ROWS, COLUMNS, 3), (1, len(STYLES)), (1,)]
    assert [port.shape for port in model.outputs] == [(ROWS, COLUMNS, 3)]
    assert check_certificate(model).licence == "procedural"
    model.verify_weights()


def test_record_card_and_sheet_are_of_the_committed_version(painted: dict[str, NDArray[np.uint8]]) -> None:
    """The card holds what the evaluation found, to the letter, and the sheet what the program paints."""
    from PIL import Image

    assert json.loads(StyleTransfer.default_program.with_suffix(".run.json").read_text())["version"] == DEFAULT_VERSION
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    assert (result["version"], result["bytes"]["int8"]) == (
        DEFAULT_VERSION,
        StyleTransfer.default_program.stat().st_size,
    )
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(result)) == card
    sheet = (FOLDER / "contact_sheet.svg").read_text(encoding="utf-8")
    assert len(sheet) <= LARGEST_SHEET
    shown = re.findall(r"base64,([^\"]+)", sheet)[1:]
    for data, frame in zip(shown, painted.values(), strict=True):
        small = np.asarray(Image.fromarray(frame).resize(TILE, Image.Resampling.BOX), np.float32)
        assert np.abs(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))) - small).mean() < 8


def test_each_style_paints_otherwise(painted: dict[str, NDArray[np.uint8]]) -> None:
    """No style leaves the picture as it is, and no two are the same."""
    frames = [scene(ROWS, COLUMNS), *painted.values()]
    for at, one in enumerate(frames):
        for other in frames[:at]:
            assert np.abs(one.astype(np.float32) - other).mean() > 4


def test_slider_goes_from_the_picture_to_the_painting(model: Model, painted: dict[str, NDArray[np.uint8]]) -> None:
    """At 0 the picture comes back to the bit at any size; half way the frame is the mean of both ends, but for int8."""
    feature, session = StyleTransfer(), model.session()
    for pixels in (scene(ROWS, COLUMNS), scene(75, 50)):
        still = feature.decode(session(*feature.prepare(pixels, Look(style="udnie", strength=0))))
        assert np.array_equal(still.apply(pixels), pixels)
    drawn = scene(ROWS, COLUMNS)
    half = feature.decode(session(*feature.prepare(drawn, Look(style="the_scream", strength=0.5)))).frame
    middle = (drawn.astype(np.float32) + painted["the_scream"]) / 2
    assert np.abs(half - middle).mean() < 2


def test_mix_lies_between_its_styles(model: Model, painted: dict[str, NDArray[np.uint8]]) -> None:
    """Nearer to each of two styles than they are to one another; the sum of weights does not matter."""
    feature, session, drawn = StyleTransfer(), model.session(), scene(ROWS, COLUMNS)
    one, other = painted["starry_night"].astype(np.float32), painted["the_scream"].astype(np.float32)
    mixes = [Look(style={"starry_night": weight, "the_scream": weight}) for weight in (0.5, 30)]
    first, second = (feature.decode(session(*feature.prepare(drawn, look))).frame for look in mixes)
    assert np.array_equal(first, second)
    assert max(np.abs(first - one).mean(), np.abs(first - other).mean()) < np.abs(one - other).mean()


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 900, 3), (700, 40, 4), (30, 50), (40, 20, 1), (400, 900, 3)])
def test_picture_of_any_size_comes_back_at_its_own(model: Model, shape: tuple[int, ...]) -> None:
    """One pixel, one row, upright, grey and large ones; alpha comes back as it was."""
    pixels = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    feature = StyleTransfer()
    found = feature.decode(model(*feature.prepare(pixels))).apply(pixels)
    assert found.shape == (*shape[:2], 4 if shape[2:] == (4,) else 3)
    if shape[2:] == (4,):
        assert np.array_equal(found[..., 3], pixels[..., 3])


def test_upright_picture_is_painted_as_its_mirror_over_the_diagonal(model: Model) -> None:
    """Whatever its strides are: what numpy shows counts, not how it lies in memory."""
    feature, pixels = StyleTransfer(), scene(90, 160)
    lying = feature.decode(model(*feature.prepare(pixels))).apply(pixels)
    upright = pixels.transpose(1, 0, 2)
    assert np.array_equal(feature.decode(model(*feature.prepare(upright))).apply(upright), lying.transpose(1, 0, 2))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((0, 0, 3), np.uint8),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.broadcast_to(np.uint8(0), (10_000, 10_000, 3)),
        "photo.jpg",
    ],
    ids=["no pixels", "two channels", "floats", "too large", "text"],
)
def test_what_is_no_picture_is_refused(pixels: Any) -> None:
    """A typed error, before the program runs."""
    with pytest.raises(PictureError):
        StyleTransfer().prepare(pixels)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"strength": float("nan")}, "strength"),
        ({"strength": 1.01}, "strength"),
        ({"strength": True}, "strength"),
        ({"style": "sunflowers"}, "style"),
        ({"style": {"udnie": 1, "sunflowers": 1}}, "style"),
        ({"style": {"udnie": -1}}, r"style\.udnie"),
        ({"style": {"udnie": float("inf")}}, r"style\.udnie"),
        ({"style": {"udnie": 0}}, "style"),
        ({"style": {}}, "style"),
        ({"style": 3}, "style"),
    ],
)
def test_look_out_of_its_bounds_is_refused(given: dict[str, Any], field: str) -> None:
    """The error names the field, also where the look is a line's."""
    with pytest.raises(FieldError, match=f"^{field}: "):
        Look(**given)
    with pytest.raises(FieldError):
        StyleTransfer().parse(json.dumps({"photo": "none.png"} | given).encode())


def test_outputs_of_another_program_are_refused() -> None:
    """Another shape or type, or more of them."""
    for outputs in ([np.zeros((ROWS, COLUMNS, 3), np.float32)], [np.zeros((8, 8, 3), np.uint8)], []):
        with pytest.raises(ValueError, match="style_transfer expects"):
            StyleTransfer().decode(outputs)


def test_commands_answer_lines_and_write_a_painted_file(tmp_path: Path) -> None:
    """As JSON without pixels; --style and --strength are the look, and features without them say so."""
    from PIL import Image

    path, out = tmp_path / "coast.png", tmp_path / "painted.png"
    path.write_bytes(png_of(scene(48, 64)))
    line = json.dumps({"photo": str(path), "style": "great_wave", "strength": 0.5}).encode()
    first, second, last = answers("style_transfer", iter([str(path).encode(), line, b'{"photo": 1}']))
    assert sorted(first["value"]) == sorted(second["value"]) == ["blue", "green", "red"]
    assert first["value"] != second["value"]
    assert last["error"]["type"] == "FieldError"
    run = ["run", "style_transfer", "-i", str(path), "-o", str(out), "--style", "udnie"]
    assert CliRunner().invoke(app, [*run, "--strength", "0"]).exit_code == 0
    assert np.array_equal(np.asarray(Image.open(out)), scene(48, 64))
    refused = CliRunner().invoke(app, [*run, "--strength", "nan"])
    assert (refused.exit_code, "FieldError" in refused.output) == (1, True)
    other = ["run", "photo_enhance", "-i", str(path), "-o", str(out), "--style", "udnie"]
    assert CliRunner().invoke(app, other).exit_code == 2


def test_example_paints_a_stream_whose_resolution_changes(tmp_path: Path) -> None:
    """Each frame comes back at its size, painted; a bad one is refused and the next one painted."""
    with Client("camera", tmp_path, "http://127.0.0.1:1", b"{}", max_stale_s=None) as client:
        handle = client.feature("style_transfer")
        with PaintedCamera(handle, deadline_ms=None) as camera:
            for pixels in (scene(90, 160), scene(72, 96)):
                found = camera.paint(pixels, Look(style="starry_night"))
                assert found.shape == pixels.shape
                assert np.abs(found.astype(np.float32) - pixels).mean() > 4
            with pytest.raises(PictureError):
                camera.paint(np.zeros((0, 5, 3), np.uint8), Look())
            assert camera.paint(scene(90, 160), Look()).shape == (90, 160, 3)


def test_feature_is_in_the_catalogue_under_its_name() -> None:
    """With the version whose configuration there is."""
    feature = catalogue()["style_transfer"]
    assert (feature.name, feature.default_version) == ("style_transfer", DEFAULT_VERSION)
