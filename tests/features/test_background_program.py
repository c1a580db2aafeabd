"""The committed background program: size, certificate, state, answers, flicker, card, command, and the app's camera."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.features import catalogue
from alcove.features.background import Background, BackgroundStream, Blur
from alcove.features.background.answer import PROGRAMS, BackgroundAnswer
from alcove.features.background.card import figures, sheet
from alcove.features.background.config import DEFAULT_VERSION, HEIGHT, WIDTH
from alcove.features.background.drawn import LOOKS, DrawnFrame, draw_clip, draw_slide
from alcove.features.background.example import CallCamera
from alcove.features.background.frames import shrink, to_bytes
from alcove.features.card_figures import replace_figures
from alcove.features.cutouts.matte import png_of
from alcove.features.cutouts.metrics import iou
from alcove.features.errors import FieldError
from alcove.features.picture import read_picture
from alcove.platform.cli.feature import answers
from alcove.platform.cli.main import app_of
from alcove.runtime import InputError, Model, load
from alcove.runtime.certificate import check_certificate
from alcove.sdk import Client
from numpy.typing import NDArray
from typer.testing import CliRunner

from tests.features.exported import assert_exported_again

FOLDER = PROGRAMS.parent
SHARED = FOLDER.parent.parent.parent / "shared" / "data"
LARGEST_SHEET = 150_000
LOOK = "blue shirt"


@pytest.fixture(scope="module")
def model() -> Model:
    """The committed program, loaded."""
    return load(Background.default_program)


@pytest.fixture(scope="module")
def clip() -> list[DrawnFrame]:
    """Somebody who sits still, before a camera with noise."""
    return draw_clip(LOOK, 8)


def mattes(model: Model, frames: list[NDArray[np.uint8]], *, is_apart: bool = False) -> list[NDArray[np.float32]]:
    """Return the mattes of frames, of one stream or each of its own."""
    session, found = model.session(), []
    for frame in frames:
        if is_apart:
            session.reset()
        found.append(np.array(session(shrink(frame))[0]))
    return found


def test_program_is_small_certified_and_remembers(model: Model) -> None:
    """Bytes of a frame in, a matte out; the matte before and the picture before are its state."""
    assert Background.default_program.stat().st_size <= 3_000_000
    assert [port.shape for port in model.inputs] == [(HEIGHT, WIDTH, 3)]
    assert [port.shape for port in model.outputs] == [(HEIGHT, WIDTH)]
    assert set(model.states) == {"before", "picture", "seen"}
    report = check_certificate(model)
    assert report.samples >= 6
    assert report.licence == "procedural"
    model.verify_weights()


def test_record_card_and_sheet_are_of_the_committed_version() -> None:
    """The card holds what the evaluation found, to the letter, and the sheet what the program answers."""
    assert json.loads(Background.default_program.with_suffix(".run.json").read_text())["version"] == DEFAULT_VERSION
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    assert result["version"] == DEFAULT_VERSION
    assert result["bytes"] == Background.default_program.stat().st_size
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(result)) == card
    committed = (FOLDER / "contact_sheet.svg").read_text(encoding="utf-8")
    assert committed == sheet()
    assert len(committed) <= LARGEST_SHEET


def test_drawn_people_are_found_and_the_room_is_not(model: Model) -> None:
    """In the first frame, most of two of the three; hardly anything of the room of all."""
    overlaps = []
    for look in LOOKS:
        [frame] = draw_clip(look, 1)
        answer = Background().decode(model(*Background().prepare(frame.pixels)))
        found = answer.alpha(frame.pixels) >= 128
        assert answer.is_seen
        assert answer.share == pytest.approx(found.mean(), abs=0.01)
        assert (found & ~frame.truth).mean() < 0.05
        overlaps.append(iou(found, frame.truth))
    assert sorted(overlaps)[1] > 0.8


def test_stream_flickers_at_most_half_as_much_as_frames_apart(model: Model, clip: list[DrawnFrame]) -> None:
    """Where nothing but noise changes: the mean change of alpha from a frame to the next."""
    frames = [frame.pixels for frame in clip]
    flicker = [
        np.mean(
            [np.abs(after - before).mean() for before, after in itertools.pairwise(mattes(model, frames, is_apart=x))]
        )
        for x in (False, True)
    ]
    assert flicker[1] > 0
    assert flicker[0] <= 0.5 * flicker[1]


def test_somebody_who_moves_is_not_smeared(model: Model) -> None:
    """The stream's masks are as right as those of frames apart, but for a hundredth."""
    moving = draw_clip("blue shirt", 5, sway=12)
    frames = [frame.pixels for frame in moving]
    overlaps = [
        np.mean([iou(matte >= 0.5, _small(frame.truth)) for matte, frame in zip(found, moving, strict=True)])
        for found in (mattes(model, frames), mattes(model, frames, is_apart=True))
    ]
    assert overlaps[0] > overlaps[1] - 0.01


def _small(truth: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return shrink(np.repeat(truth[..., None] * np.uint8(255), 3, axis=2))[..., 0] >= 128


def test_cut_resets_the_state_by_itself(model: Model, clip: list[DrawnFrame]) -> None:
    """After a picture of another scene nothing of the scene before is left, as after `reset`."""
    dark = np.zeros((180, 320, 3), np.uint8)
    session = model.session()
    for frame in (dark, 255 - dark, clip[0].pixels):
        session(shrink(frame))
    bright = np.full((180, 320, 3), 255, np.uint8)
    after_cut = np.array(session(shrink(bright))[0])
    np.testing.assert_allclose(after_cut, mattes(model, [bright])[0], atol=1e-6)


def test_reset_forgets_the_stream(model: Model, clip: list[DrawnFrame]) -> None:
    """A new call begins as the first one did, to the bit."""
    session = model.session()
    first = [np.array(session(shrink(frame.pixels))[0]) for frame in clip[:3]]
    session.reset()
    np.testing.assert_array_equal(first, [np.array(session(shrink(frame.pixels))[0]) for frame in clip[:3]])
    assert (first[1] != mattes(model, [clip[1].pixels])[0]).any()


def test_another_size_in_the_middle_of_a_stream_resets_it(model: Model, clip: list[DrawnFrame]) -> None:
    """The frame is answered as the first of a stream, and counted; one that is refused changes nothing."""
    stream = BackgroundStream(model, Blur())
    stream.show(clip[0].pixels)
    with pytest.raises(ValueError, match="uint8"):
        stream.show(np.zeros((4, 4), np.uint8))
    assert stream.resets == 0
    upright = np.ascontiguousarray(clip[1].pixels[:, 90:190])
    shown = stream.show(upright)
    assert shown.shape == upright.shape
    assert stream.resets == 1
    np.testing.assert_array_equal(shown, BackgroundStream(model, Blur()).show(upright))
    stream.reset()
    assert stream.answer is None


def test_wrong_inputs_and_outputs_are_refused(model: Model) -> None:
    """By the program and by the contract; an answer without a matte has no alpha."""
    with pytest.raises(InputError):
        model(np.zeros((HEIGHT, WIDTH + 1, 3), np.uint8))
    feature = Background()
    with pytest.raises(ValueError, match="background expects"):
        feature.decode([np.zeros((HEIGHT, WIDTH + 1), np.float32)])
    for bad in (np.nan, 1.5, -0.5):
        with pytest.raises(ValueError, match="in \\[0, 1\\]"):
            feature.decode([np.full((HEIGHT, WIDTH), bad, np.float32)])
    with pytest.raises(FieldError, match="share"):
        BackgroundAnswer(is_seen=True, share=1.5, certainty=1)
    with pytest.raises(ValueError, match="no matte"):
        BackgroundAnswer(is_seen=True, share=0.5, certainty=1).alpha(np.zeros((8, 8, 3), np.uint8))


def test_lines_are_frames_of_one_stream(tmp_path: Path, clip: list[DrawnFrame]) -> None:
    """Paths of pictures, answered as small JSON; a bad line gets its error, and the next one its answer."""
    path = tmp_path / "frame.png"
    path.write_bytes(png_of(clip[0].pixels))
    first, second, empty, bad = answers("background", iter([f"{path}\n".encode(), b"none.png", b"\n", b"\xff"]))
    assert set(json.loads(json.dumps(first))["value"]) == {"is_seen", "share", "certainty"}
    assert {each["error"]["type"] for each in (second, empty, bad)} == {"MissingPictureError"}


def test_command_writes_a_picture_and_a_folder_of_frames(tmp_path: Path, clip: list[DrawnFrame]) -> None:
    """In three modes; a stage has the size of its picture, and what is missing is named."""
    pytest.importorskip("PIL", reason="writing pictures needs Pillow")
    slide, frames = tmp_path / "slide.png", tmp_path / "frames"
    slide.write_bytes(png_of(draw_slide()))
    frames.mkdir()
    for number, frame in enumerate(clip[:2]):
        (frames / f"{number}.png").write_bytes(png_of(frame.pixels[::2, ::2]))

    def run(source: Path, target: str, *options: str) -> Any:
        command = ["feature", "run", "background", "--input", str(source), "--output", str(tmp_path / target), *options]
        return CliRunner().invoke(app_of("feature"), command)

    assert run(frames / "0.png", "blurred.png").exit_code == 0
    assert read_picture(tmp_path / "blurred.png").shape == (90, 160, 3)
    assert run(frames, "out", "--mode", "stage", "--picture", str(slide)).exit_code == 0
    assert [read_picture(tmp_path / "out" / f"{at}.png").shape for at in (0, 1)] == [(180, 320, 3)] * 2
    assert "FieldError" in run(frames, "out", "--mode", "replace").output
    assert "MissingPictureError" in run(tmp_path / "out", "slide.png/x", "--mode", "blur").output
    assert run(tmp_path / "nowhere", "out").exit_code != 0


def test_another_feature_has_no_mode(tmp_path: Path) -> None:
    """The option is refused by name."""
    (tmp_path / "photo.png").write_bytes(png_of(draw_slide()))
    command = ["feature", "run", "photo_enhance", "--input", str(tmp_path / "photo.png"), "--output", "o.png"]
    refused = CliRunner().invoke(app_of("feature"), [*command, "--mode", "blur"])
    assert refused.exit_code == 2
    assert "photo_enhance has no mode" in refused.output


def test_camera_of_a_call_sends_frames_and_counts_what_it_dropped(tmp_path: Path, clip: list[DrawnFrame]) -> None:
    """Through the SDK's stream: at most one waits; what went out has the frame's size, and the rest is counted."""
    sent: list[NDArray[np.uint8]] = []
    with Client("calls", tmp_path, "http://127.0.0.1:1", b"{}", max_stale_s=None) as client:
        camera = CallCamera(client.feature("background"), Blur(), sent.append, deadline_ms=None)
        for frame in clip:
            camera.on_frame(frame.pixels)
        with pytest.raises(ValueError, match="uint8"):
            camera.on_frame(np.zeros((4, 4), np.uint8))
        camera.finish()
        lost = camera.close()
    assert sent
    assert all(each.shape == clip[0].pixels.shape for each in sent)
    assert lost == pytest.approx(1 - len(sent) / len(clip))


def test_stream_of_the_sdk_answers_as_the_session_does(tmp_path: Path, model: Model, clip: list[DrawnFrame]) -> None:
    """Frame after frame with state; the first is fresh, and one that is refused leaves the state as it was."""
    expected = mattes(model, [frame.pixels for frame in clip[:3]])
    with Client("calls", tmp_path, "http://127.0.0.1:1", b"{}", max_stale_s=None) as client:
        stream = client.feature("background").stream(warm_up=False)
        with stream:
            first = stream.process(clip[0].pixels)
            with pytest.raises(ValueError, match="uint8"):
                stream.process(np.zeros((0, 0, 3), np.float32))
            rest = [stream.process(frame.pixels) for frame in clip[1:3]]
    assert first.is_fresh
    for answer, matte in zip([first, *rest], expected, strict=True):
        assert answer.value is not None
        np.testing.assert_array_equal(answer.value.alpha(np.zeros((HEIGHT, WIDTH, 3), np.uint8)), to_bytes(matte))


def test_feature_is_in_the_catalogue_under_its_name() -> None:
    """With the version whose configuration there is."""
    feature = catalogue()["background"]
    assert (feature.name, feature.default_version) == ("background", DEFAULT_VERSION)


@pytest.mark.thorough
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the photos and published weights of ../shared/data")
def test_committed_program_is_exported_again_to_the_same_bytes() -> None:
    """From the decoder's weights that lie beside it, the published weights, and the photos that ranges come from."""
    pytest.importorskip("torch", reason="exporting needs torch: install alcove-platform[export]")
    from alcove.features.background.build import build

    made = build(DEFAULT_VERSION, SHARED / "pretrained", SHARED / "person_seg")
    assert_exported_again(bytes(made), Background.default_program.read_bytes())
