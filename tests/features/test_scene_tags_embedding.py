"""The embedding layer of scene_tags, fitted in closed form, separates classes that it was not fitted to."""

import numpy as np
import pytest
from alcove.features.scene_tags.config import CONFIGS, DEFAULT_VERSION, EMBEDDING, TAGS

torch = pytest.importorskip("torch", reason="the fit of the embedding needs torch: install alcove[export]")

from alcove.features.scene_tags.dataset import Pictures  # noqa: E402
from alcove.features.scene_tags.embedding import discriminants, is_early, mean_directions, refit  # noqa: E402
from alcove.features.scene_tags.model import SceneModule  # noqa: E402
from alcove.features.scene_tags.network import SceneNetwork  # noqa: E402

CHANNELS, TELLING = 24, 6
"""Of these channels the first ones differ between classes; the others only differ from picture to picture, and more."""


def draw_features(classes: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features [n, CHANNELS] and classes of made-up pictures; channels are turned the same way for all seeds."""
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(CHANNELS, CHANNELS)))[0]
    rng = np.random.default_rng(seed)
    means = np.zeros((classes, CHANNELS))
    means[:, :TELLING] = rng.normal(size=(classes, TELLING))
    spread = np.where(np.arange(CHANNELS) < TELLING, 0.3, 1.0)
    own = np.repeat(np.arange(classes), each)
    features = means[own] + spread * rng.normal(size=(len(own), CHANNELS))
    return (5 + features @ turned).astype(np.float32), own


def share_of_nearest_right(embeddings: np.ndarray, classes: np.ndarray) -> float:
    """Return how often the most similar other picture is of the same class."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    similarities = unit @ unit.T
    np.fill_diagonal(similarities, -2)
    return float((classes[similarities.argmax(axis=1)] == classes).mean())


def test_classes_never_seen_are_distinguished_better_than_by_the_features() -> None:
    """Fitted to some classes, tried on others; what only differs from picture to picture is left out."""
    weight, bias = discriminants(*draw_features(40, 30, seed=1), TELLING)
    features, classes = draw_features(20, 30, seed=2)
    before = share_of_nearest_right(features, classes)
    after = share_of_nearest_right(features @ weight.T + bias, classes)
    assert before < 0.6
    assert after > before + 0.2


def test_pictures_of_the_fit_have_their_centre_at_nought_and_one_spread_in_every_direction() -> None:
    """What all pictures share is gone: an angle between embeddings then means something."""
    features, classes = draw_features(40, 50, seed=1)
    weight, bias = discriminants(features, classes, TELLING)
    embeddings = features @ weight.T + bias
    assert np.abs(embeddings.mean(axis=0)).max() < 1e-3
    means = np.stack([embeddings[classes == label].mean(axis=0) for label in range(40)])
    spread = np.cov((embeddings - means[classes]).T)
    assert np.diag(spread).max() < 1.2 * np.diag(spread).min()
    assert 0.3 < np.diag(spread).mean() <= 1.1  # drawn towards a ball, so less than 1
    assert np.abs(spread - np.diag(np.diag(spread))).max() < 0.1


def test_more_directions_than_channels_are_zero() -> None:
    """They add nothing to a length or an angle."""
    weight, bias = discriminants(*draw_features(40, 5, seed=1), CHANNELS + 8)
    assert weight.shape == (CHANNELS + 8, CHANNELS)
    assert not weight[CHANNELS:].any()
    assert not bias[CHANNELS:].any()


def test_first_pictures_of_each_class_count() -> None:
    """In the order of the set."""
    assert is_early(np.array([3, 3, 1, 3, 1, 1, 2]), 2).tolist() == [True, True, True, False, True, False, True]


def test_mean_directions_are_of_length_one_and_of_their_class() -> None:
    """Rows count by direction, not by length; a class without rows has none."""
    rows = np.array([[2.0, 0.0], [0.0, 0.5], [0.0, -3.0]], np.float32)
    found = mean_directions(rows, np.array([0, 0, 3]), 4)
    assert found == pytest.approx(np.array([[0.5**0.5, 0.5**0.5], [0, 0], [0, 0], [0, -1]]))


def test_fit_changes_the_layers_of_embedding_and_classes_alone_and_once() -> None:
    """Twice is the same; tags, maps and the rest of the network stay; a class without pictures is not known."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (24, 64, 64, 3), np.uint8)
    sets = {"tiny": Pictures(pixels, np.arange(24) % 6, np.zeros((24, len(TAGS)), np.float32))}
    network = SceneNetwork(CONFIGS[DEFAULT_VERSION]).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    refit(network, sets, 64)
    once = {name: value.clone() for name, value in network.state_dict().items()}
    changed = {name for name in before if not torch.equal(before[name], once[name])}
    assert changed == {"embedding.weight", "embedding.bias", "classes.weight"}
    assert SceneModule(network).known.shape == (6, EMBEDDING)
    assert once["embedding.weight"].shape[0] == EMBEDDING
    refit(network, sets, 64)
    assert all(torch.equal(once[name], value) for name, value in network.state_dict().items())
