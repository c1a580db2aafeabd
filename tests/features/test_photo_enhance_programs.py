"""The committed program sees what photos need, and changes photos of any size and form by it."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from alcove.features.errors import FieldError
from alcove.features.photo_enhance.contract import EnhanceAnswer, PhotoEnhance, Recipe
from alcove.features.photo_enhance.drawn import drawings, png_of, scene
from alcove.features.photo_enhance.enhance import Enhancer, between
from alcove.features.photo_enhance.example import Gallery
from alcove.features.photo_enhance.metrics import psnr
from alcove.features.picture import PictureTooLargeError, read_picture, resize
from alcove.platform.cli.main import app_of
from numpy.typing import NDArray
from typer.testing import CliRunner


@cache
def enhancer() -> Enhancer:
    """Return one with the committed program."""
    return Enhancer()


def by_hand(pixels: NDArray[np.uint8], answer: EnhanceAnswer, recipe: Recipe) -> NDArray[np.float64]:
    """Return what the change of light and colors is, by its formula, f64 [height, width, 3] in [0, 255]."""
    height, width = pixels.shape[:2]
    missing = between(vars(answer)["missing_light"], 0, height, height)
    missing = between(missing.transpose(1, 0, 2), 0, width, width).transpose(1, 0, 2)
    picture = pixels / 255.0
    bright = np.clip(picture / np.clip(picture + missing, 0.0001, 1), 0, 1)
    lit = picture + (bright - picture) * recipe.light
    table: NDArray[np.float32] = vars(answer)["color_table"]
    place = lit * 32
    corner = np.minimum(place.astype(int), 31)
    share = place - corner
    colored = np.zeros_like(lit)
    for red, green, blue in np.ndindex(2, 2, 2):
        weights = [np.abs(1 - at - share[..., axis]) for axis, at in enumerate((red, green, blue))]
        values = table[:, corner[..., 2] + blue, corner[..., 1] + green, corner[..., 0] + red]
        colored += np.prod(weights, axis=0)[..., None] * values.transpose(1, 2, 0)
    found: NDArray[np.float64] = np.clip(lit + (colored - lit) * recipe.colors, 0, 1) * 255
    return found


def test_the_need_of_each_drawing_is_seen() -> None:
    """Little light is the need of the dark one alone, and noise is seen in the noisy one alone."""
    answers = {name: enhancer().analyze(pixels) for name, pixels in drawings().items()}
    assert {name for name, each in answers.items() if each.low_light >= 0.5} == {"in little light"}
    assert {name for name, each in answers.items() if each.clean < 0.5} == {"with noise"}
    assert answers["flat"].retouch > answers["a coast"].retouch
    assert answers["with noise"].recipe_for(240, 180).scale == 1
    assert [answers["a coast"].recipe_for(side, 100).scale for side in (512, 513, 1024, 1025)] == [4, 2, 2, 1]


def test_dark_pictures_are_brightened_towards_what_they_were() -> None:
    """The automatic choice brings a dark picture nearer to the one in full light."""
    dark, truth = drawings()["in little light"], scene()
    changed = enhancer().enhance(dark)
    assert changed.mean() > 1.5 * dark.mean()
    assert psnr(changed, truth) > psnr(dark, truth)


@pytest.mark.parametrize("size", [(1, 1), (70, 530), (129, 40)])
def test_blocks_are_the_formula_at_every_pixel(size: tuple[int, int]) -> None:
    """No seam where blocks meet: each pixel is what the formula over the whole picture gives."""
    pixels = np.random.default_rng(5).integers(0, 256, (*size, 3), np.uint8)
    answer = enhancer().analyze(pixels)
    recipe = Recipe(light=0.7, colors=0.6)
    assert np.abs(enhancer().enhance(pixels, recipe, answer) - by_hand(pixels, answer, recipe)).max() <= 0.51


def test_no_strength_gives_the_picture_itself_in_memory_of_its_own() -> None:
    """What needs nothing is not rounded, and not shared."""
    pixels = scene(30, 40)
    same = enhancer().enhance(pixels, Recipe(light=0, colors=0))
    assert np.array_equal(same, pixels)
    assert not np.shares_memory(same, pixels)


def test_grey_alpha_and_strides_are_kept() -> None:
    """Grey stays grey, alpha is as it was, a mirrored view is the mirrored picture."""
    recipe = Recipe(light=1, colors=1)
    pixels = scene(40, 60)
    grey = enhancer().enhance(pixels[..., 0], recipe)
    assert grey.shape == (40, 60)
    assert enhancer().enhance(pixels[..., :1], recipe).shape == (40, 60, 1)
    alpha = np.dstack([pixels, np.arange(2400, dtype=np.uint16).reshape(40, 60).astype(np.uint8)])
    answer = enhancer().analyze(pixels)
    both = enhancer().enhance(alpha, recipe, answer)
    assert np.array_equal(both[..., 3], alpha[..., 3])
    assert np.array_equal(both[..., :3], enhancer().enhance(pixels, recipe, answer))
    turned = pixels[::-1, ::-1]
    expected = enhancer().enhance(np.ascontiguousarray(turned), recipe)
    assert np.array_equal(enhancer().enhance(turned, recipe), expected)


def test_enlarging_is_nearer_to_the_truth_than_straight_lines() -> None:
    """Four times and twice, in tiles, of a drawing that was made smaller; alpha and grey come along."""
    truth = scene(240, 336)
    for scale in (4, 2):
        small = resize(truth, 240 // scale, 336 // scale)
        larger = enhancer().upscale(small, scale)
        assert psnr(larger, truth) > psnr(resize(small, 240, 336), truth)
    recipe = Recipe(light=0, colors=0, scale=2)
    for shape in [(1, 1, 3), (3, 5), (9, 20, 4)]:
        larger = enhancer().enhance(np.full(shape, 90, np.uint8), recipe)
        assert larger.shape == (2 * shape[0], 2 * shape[1], *shape[2:])
        assert abs(int(larger.ravel()[0]) - 90) <= 6


def test_results_that_are_too_large_are_refused_before_work() -> None:
    """The bound holds for what comes back."""
    large = np.broadcast_to(np.zeros(3, np.uint8), (5000, 5000, 3))
    with pytest.raises(PictureTooLargeError, match="20000 x 20000"):
        enhancer().upscale(large, 4)
    with pytest.raises(ValueError, match="2 or 4"):
        enhancer().upscale(scene(20, 20), 3)


@pytest.mark.parametrize("fields", [{"light": 1.1}, {"colors": -0.1}, {"scale": 3}])
def test_a_recipe_out_of_bounds_is_refused(fields: dict[str, float]) -> None:
    """With the field that is wrong."""
    with pytest.raises(FieldError, match=next(iter(fields))):
        Recipe(**{"light": 0, "colors": 0, **fields})  # type: ignore[arg-type] # what is tested


def test_outputs_of_another_program_are_refused() -> None:
    """Shapes are named."""
    with pytest.raises(ValueError, match="photo_enhance gives"):
        PhotoEnhance().decode([np.zeros(3, np.float32)])


def test_command_writes_the_picture_and_prints_the_answer(tmp_path: Path) -> None:
    """`alcove feature run photo_enhance --input a.png --output b.png`; errors are in the line, and the exit code 1."""
    given, made = tmp_path / "a.png", tmp_path / "b.png"
    given.write_bytes(png_of(np.rint(scene(60, 80) * 0.2).astype(np.uint8)))
    run = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "photo_enhance", "--input", str(given), "--output", str(made)]
    )
    assert run.exit_code == 0, run.output
    answer = json.loads(run.stdout)["value"]
    assert answer["low_light"] >= 0.5
    assert read_picture(made).shape[2] == 3
    (tmp_path / "bad.png").write_bytes(b"no picture")
    command = ["feature", "run", "photo_enhance", "--input", str(tmp_path / "bad.png"), "--output", str(made)]
    refused = CliRunner().invoke(app_of("feature"), command)
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["type"]) == (1, "NotAPictureError")
    other = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "language_id", "--input", str(given), "--output", str(made)]
    )
    assert other.exit_code == 2


class Handle:
    """Answers by the committed program, as the SDK does."""

    def predict(self, *inputs: object) -> object:
        """Return an object with the answer as `value`."""
        own = enhancer()

        class Found:
            value = PhotoEnhance().decode(own._forward(*inputs))

        return Found


def test_gallery_offers_only_what_is_needed_and_as_much_as_is_wanted() -> None:
    """The example that the card names."""
    gallery = Gallery(Handle(), enhancer())
    dark = drawings()["in little light"]
    offer = gallery.offer(dark)
    assert offer is not None
    means = [gallery.apply(dark, offer, amount=amount).mean() for amount in (0, 0.5, 1)]
    assert means == sorted(means)
    assert means[0] == dark.mean()
    assert gallery.offer(drawings()["a coast"]) is None
