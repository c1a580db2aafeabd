"""The losses, data and training of style transfer."""

from pathlib import Path
from typing import Final

import numpy as np
import pytest
import torch
from alcove.features.scene_tags.networks.mobilenet_v2 import MobileNetV2
from alcove.features.style_transfer.config import STYLES, ModelConfig
from alcove.features.style_transfer.dataset import Photos, find_photos, read_painting
from alcove.features.style_transfer.losses import (
    PerceptualMaps,
    camera_motion,
    content_loss,
    gram,
    load_maps,
    move,
    style_loss,
    temporal_loss,
    variation_loss,
)
from alcove.features.style_transfer.network import StyleNetwork
from alcove.features.style_transfer.train import StyleTraining, TrainingPlan
from numpy.typing import NDArray
from torch import Tensor

DATA: Final = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is absent")


class DrawnPicture:
    """A picture that needs no file."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def pixels(self) -> NDArray[np.uint8]:
        """Stripes and noise, uint8 [40, 70, 3]."""
        noise = np.random.default_rng(self._seed).integers(0, 128, (40, 70, 3), np.uint8)
        stripes = (np.arange(70) // 5 % 2 * 127).astype(np.uint8)
        return noise + stripes[None, :, None]


def make_photos(count: int) -> Photos:
    """Photos that need no file."""
    return Photos([DrawnPicture(seed) for seed in range(count)])  # type: ignore[misc]


@pytest.fixture(scope="module")
def maps() -> PerceptualMaps:
    """Maps of a network with weights of chance."""
    torch.manual_seed(0)
    return PerceptualMaps(MobileNetV2())


def test_maps_halve_their_size_and_are_within_relu6(maps: PerceptualMaps) -> None:
    """Two at 1/2, then 1/4, 1/8 and 1/16; nothing of the network is trained."""
    found = maps(torch.rand(2, 3, 64, 96))
    assert [tuple(each.shape[2:]) for each in found] == [(32, 48), (32, 48), (16, 24), (8, 12), (4, 6)]
    assert all(float(each.min()) >= 0.0 and float(each.max()) <= 6.0 for each in found)
    assert not any(parameter.requires_grad for parameter in maps.parameters())


def test_a_manner_does_not_depend_on_places_and_content_does(maps: PerceptualMaps) -> None:
    """A mirrored picture has the Gram matrices of its maps, and other content; the picture itself has no loss."""
    found = [torch.rand(1, channels, 8, 8) for channels in (3, 4, 5, 6, 7)]
    mirrored = [each.flip(3) for each in found]
    targets = [gram(each) for each in found]
    assert float(style_loss(mirrored, targets)) == pytest.approx(0.0, abs=1e-6)
    assert float(content_loss(mirrored, found)) > 0.01
    assert float(content_loss(found, found)) == 0.0
    assert float(style_loss([2.0 * each for each in found], targets)) == pytest.approx(9.0, rel=1e-3)


def test_gram_matrices_are_means_of_products() -> None:
    """As written out by hand, whatever the map's size."""
    x = torch.tensor([[[[1.0, 2.0]], [[3.0, -1.0]]]])
    assert torch.allclose(gram(x), torch.tensor([[[2.5, 0.5], [0.5, 5.0]]]))
    assert torch.allclose(gram(x.repeat(1, 1, 4, 1)), gram(x))


def test_a_smooth_picture_varies_less() -> None:
    """Nothing for one color; a checkerboard of 0 and 1 has both parts at 1."""
    assert float(variation_loss(torch.full((1, 3, 8, 8), 0.3))) == 0.0
    board = ((torch.arange(8)[:, None] + torch.arange(8)) % 2).float()[None, None]
    assert float(variation_loss(board)) == 2.0


def test_a_picture_that_moves_with_the_camera_has_no_loss_of_time() -> None:
    """The painted second frame is the first one moved; where the camera sees what was not there nothing counts."""
    first = torch.rand(2, 3, 32, 48)
    motion = camera_motion(2, torch.Generator().manual_seed(1))
    second, is_seen = move(first, motion)
    assert float(temporal_loss(first, second, motion)) == pytest.approx(0.0, abs=1e-9)
    assert 0.8 < float(is_seen.mean()) < 1.0
    unseen_changed = second + (1.0 - is_seen)
    assert float(temporal_loss(first, unseen_changed, motion)) == pytest.approx(0.0, abs=1e-9)
    assert float(temporal_loss(first, first, motion)) > 0.01
    assert float(temporal_loss(first, second + 0.1 * is_seen, motion)) == pytest.approx(0.01, rel=1e-4)


def test_a_camera_moves_as_little_as_it_should() -> None:
    """Neither shift nor zoom beyond the bounds; without them it stands still."""
    motion = camera_motion(500, torch.Generator().manual_seed(2), shift=0.05, zoom=0.02)
    assert float(motion[:, :, 2].abs().max()) <= 0.05
    assert float((torch.linalg.det(motion[:, :, :2]).sqrt() - 1.0).abs().max()) <= 0.02 + 1e-6
    still = camera_motion(3, torch.Generator().manual_seed(2), shift=0.0, zoom=0.0)
    picture = torch.rand(3, 3, 16, 16)
    assert torch.allclose(move(picture, still)[0], picture, atol=1e-5)


@pytest.mark.parametrize("side", [16, 64])
def test_a_square_is_of_the_photo_even_where_the_photo_is_smaller(side: int) -> None:
    """40 rows give 64 by reflection; the same chance gives the same square."""
    photos = make_photos(2)
    one = photos.square(1, side, np.random.default_rng(5))
    assert one.shape == (side, side, 3)
    assert np.array_equal(one, photos.square(1, side, np.random.default_rng(5)))
    assert np.isin(one, DrawnPicture(1).pixels()).all()


def make_training(folder: Path, maps: PerceptualMaps) -> StyleTraining:
    """Training of a tiny network in two styles."""
    torch.manual_seed(1)
    network = StyleNetwork(ModelConfig(width=8, blocks=1), styles=2)
    plan = TrainingPlan(steps=12, batch_size=2, side=32, checkpoint_every=3, report_every=2, warmup_steps=1)
    paintings = [torch.rand(1, 3, 48, 48, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    return StyleTraining(plan, folder, network, maps=maps, photos=make_photos(3), paintings=paintings)


def weights(training: StyleTraining) -> list[Tensor]:
    """Copies of the weights."""
    return [parameter.detach().clone() for parameter in training.network.parameters()]


def test_training_that_was_cut_off_ends_with_the_same_weights(tmp_path: Path, maps: PerceptualMaps) -> None:
    """It continues at its checkpoint; each batch depends on the seed and its step alone."""
    whole = make_training(tmp_path / "whole", maps)
    whole.run()
    cut = make_training(tmp_path / "cut", maps)
    cut.run(until=5)
    again = make_training(tmp_path / "cut", maps)
    assert again.resume()
    assert again.step == 5
    again.run()
    assert all(torch.equal(one, other) for one, other in zip(weights(whole), weights(again), strict=True))


def test_training_lowers_the_loss_of_frames_it_does_not_learn_from(tmp_path: Path, maps: PerceptualMaps) -> None:
    """After twelve steps, on a batch of a later step."""
    training = make_training(tmp_path, maps)
    before = float(training.loss(1000).detach())
    training.run()
    assert float(training.loss(1000).detach()) < before


def test_a_second_frame_is_the_first_one_moved_with_a_sensors_noise(tmp_path: Path, maps: PerceptualMaps) -> None:
    """So that a network that repeats noise pays for it."""
    first, second, motion, numbers = make_training(tmp_path, maps).frames(4)
    moved, _ = move(first, motion)
    assert 0.005 < float((second - moved).std()) < 0.015
    assert set(numbers.tolist()) <= {0, 1}


@needs_data
def test_photos_are_free_and_of_their_split() -> None:
    """Fewer than all, none in both splits, and each can be read."""
    train, dev = (find_photos(DATA / "person_seg", split) for split in ("train", "dev"))
    assert 200 < len(train) < 1348
    assert not set(train) & set(dev)
    assert train[0].pixels().ndim == 3


@needs_data
def test_every_style_has_a_painting() -> None:
    """With the shorter side that was asked for."""
    for name in STYLES:
        assert min(read_painting(DATA / "style", name, 96).shape[:2]) == 96
    with pytest.raises(ValueError, match="starry_night"):
        read_painting(DATA / "style", "sunflowers", 96)


@needs_data
def test_published_maps_know_a_painting_by_a_part_of_it() -> None:
    """A crop is nearer to its own painting's manner than to each other one's: what training follows means something."""
    found = load_maps(DATA / "pretrained")
    paintings = [
        torch.from_numpy(read_painting(DATA / "style", name, 160).copy()).permute(2, 0, 1)[None] / 255.0
        for name in STYLES[:3]
    ]
    targets = [[gram(each) for each in found(painting)] for painting in paintings]
    for number, painting in enumerate(paintings):
        part = found(painting[:, :, 16:144, 16:144])
        losses = [float(style_loss(part, target)) for target in targets]
        assert losses.index(min(losses)) == number


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    """The message says which folder is asked for."""
    with pytest.raises(FileNotFoundError, match="--weights"):
        load_maps(tmp_path)
