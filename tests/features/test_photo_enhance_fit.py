"""Needs are fitted on one kind of worse photos and judged on another; figures are what their definitions say."""

import json
from pathlib import Path

import numpy as np
import pytest
from alcove.features.photo_enhance.baselines import equalize
from alcove.features.photo_enhance.degrade import FIT, HELD, mild
from alcove.features.photo_enhance.drawn import scene
from alcove.features.photo_enhance.fit import NEEDS_FILE, balanced_accuracy, regress
from alcove.features.photo_enhance.metrics import luma, psnr, ssim
from alcove.features.photo_enhance.weights import FOLDERS, load_networks


def test_every_way_keeps_the_range_and_is_the_same_for_a_seed() -> None:
    """Worse pictures are pictures, and no way is in both halves."""
    picture = (scene(32, 40) / 255).astype(np.float32)
    for way in [*FIT.values(), *HELD.values(), mild]:
        first, again = (way(picture, np.random.default_rng(3)) for _ in range(2))
        assert first.dtype == np.float32
        assert 0 <= first.min() <= first.max() <= 1
        assert np.array_equal(first, again)
    assert not set(FIT.values()) & set(HELD.values())


def test_regression_finds_the_line_between_two_groups() -> None:
    """Also where one group is a tenth of the other."""
    rng = np.random.default_rng(0)
    terms = np.concatenate([rng.normal(0, 1, (400, 2)), rng.normal([4, 0], 1, (40, 2))])
    truth = np.arange(440) >= 400
    weights, bias = regress(terms, truth)
    assert abs(-bias / weights[0] - 2) < 0.5
    fitted = {"weights": [weights] * 3, "bias": [bias] * 3}
    found = balanced_accuracy(terms, np.stack([truth] * 3, 1), fitted)
    assert min(found.values()) > 0.95
    turned = {"weights": [-weights] * 3, "bias": [-bias] * 3}
    assert max(balanced_accuracy(terms, np.stack([truth] * 3, 1), turned).values()) < 0.05


def test_committed_needs_are_better_than_chance_on_what_they_were_not_fitted_on() -> None:
    """And are no better there than on what they were fitted on, all together."""
    needs = json.loads(NEEDS_FILE.read_text(encoding="utf-8"))
    assert np.shape(needs["weights"]) == (3, 12)
    assert min(needs["held"].values()) > 0.8
    assert sum(needs["held"].values()) < sum(needs["fitted"].values())


def test_metrics_are_what_their_definitions_say() -> None:
    """An error of 1 is 48.13 dB; a picture is like itself, less like one with noise, and unlike its negative."""
    pixels = scene(48, 64)
    assert psnr(pixels, pixels) == 99
    assert psnr(np.full((9, 9), 10.0), np.full((9, 9), 11.0)) == pytest.approx(48.1308, abs=1e-3)
    light = luma(pixels)
    assert ssim(light, light) == pytest.approx(1)
    noisy = light + np.random.default_rng(0).normal(0, 20, light.shape)
    assert -1 <= ssim(255 - light, light) < ssim(noisy, light) < 1


def test_equalization_spreads_the_luma_over_the_range() -> None:
    """Dark pictures become bright; one color stays one."""
    dark = np.rint(scene() * 0.2).astype(np.uint8)
    assert 90 < luma(equalize(dark)).mean() < 150
    assert len(np.unique(equalize(np.full((9, 9, 3), 40, np.uint8)))) == 1


def test_published_weights_load_by_their_names(tmp_path: Path) -> None:
    """Every tensor has its place; a missing file is named."""
    with pytest.raises(FileNotFoundError, match="--weights"):
        load_networks(tmp_path)
    folder = Path(__file__).parents[3] / "shared" / "data" / "pretrained"
    if not all((folder / each).is_dir() for each in FOLDERS.values()):
        pytest.skip("the published weights are not beside the repository")
    counts = [sum(each.numel() for each in network.parameters()) for network in load_networks(folder)]
    assert counts[2] == 317_218
