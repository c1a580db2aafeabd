"""Refits the embedding's layer in closed form, so that it separates classes that training never saw.

Training turns embeddings towards its own classes, and most of their length into what all pictures share.  Afterwards
the layer is set to the directions along which the classes' means differ most, where the spread of pictures about their
class is made the same in every direction: linear discriminant analysis, Fisher, "The use of multiple measurements in
taxonomic problems" (1936), Rao (1948).  The spread is estimated from few pictures and so drawn towards a ball.

The classes' mean directions are kept: a picture that is near to many of them is near to a new tag for no reason of the
tag's (`model.SceneModule` makes `commonness` of them).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from alcove.features.scene_tags.config import CLASSES, EMBEDDING
from alcove.features.scene_tags.dataset import Pictures
from alcove.features.scene_tags.network import SceneNetwork, normalize
from numpy.typing import NDArray
from torch.nn import functional

SHRINKAGE: Final = 0.1
"""Of the mean variance, added to the spread in every direction."""
PER_CLASS: Final = 100
"""Pictures of a class, the first ones, so that large sets count no more than small ones."""
AT_ONCE: Final = 64


def refit(network: SceneNetwork, sets: Mapping[str, Pictures], size: int) -> None:
    """Set the layers of the embedding and of the classes from pictures that were trained on; twice changes nothing.

    A class without a picture gets a row of zeros.

    Args:
        network: trained; only its feature maps are used.
        sets: pictures by set, whose classes have numbers of their own over all sets.
        size: of the pictures that the program takes, in pixels.
    """
    chosen = [pictures.where(is_early(pictures.classes, PER_CLASS)) for pictures in sets.values()]
    features = np.concatenate([means_of(network, each, size) for each in chosen])
    classes = np.concatenate([each.classes for each in chosen])
    weight, bias = discriminants(features, classes, EMBEDDING)
    with torch.no_grad():
        network.embedding.weight.copy_(torch.from_numpy(weight))
        network.embedding.bias.copy_(torch.from_numpy(bias))
        network.classes.weight.copy_(torch.from_numpy(mean_directions(features @ weight.T + bias, classes, CLASSES)))


def mean_directions(rows: NDArray[np.float32], classes: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """Return the mean direction of each class, f32 [count, width], of length 1; zeros for a class without rows.

    Args:
        rows: f32 [n, width].
        classes: int64 [n], in [0, count).
        count: of classes.
    """
    means = np.zeros((count, rows.shape[1]))
    np.add.at(means, classes, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return (means / np.where(lengths == 0, 1.0, lengths)).astype(np.float32)


def discriminants(
    features: NDArray[np.float32], classes: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weight [count, channels] and bias [count] of a layer that gives the most telling directions.

    Args:
        features: f32 [n, channels].
        classes: int64 [n].
        count: of directions; beyond the number of channels they are zero.
    """
    x = features.astype(np.float64)
    centre = x.mean(axis=0)
    _, own, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    means = np.zeros((len(sizes), x.shape[1]))
    np.add.at(means, own, x)
    means /= sizes[:, None]
    apart = x - means[own]
    within = apart.T @ apart / len(x)
    variance, axes = np.linalg.eigh(within + SHRINKAGE * np.trace(within) / len(within) * np.eye(len(within)))
    whiten = axes @ np.diag(variance**-0.5) @ axes.T
    between = (means - centre) @ whiten
    _, directions = np.linalg.eigh(between.T @ between)
    weight = np.zeros((count, x.shape[1]))
    weight[: x.shape[1]] = (whiten @ directions[:, ::-1][:, :count]).T
    weight *= np.where(weight.sum(axis=1) < 0, -1.0, 1.0)[:, None]  # whose signs eigh leaves open
    return weight.astype(np.float32), (-weight @ centre).astype(np.float32)


def is_early(classes: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Return which pictures are among the first `most` of their class, bool [n]."""
    mask = np.zeros(len(classes), bool)
    for label in np.unique(classes):
        mask[np.flatnonzero(classes == label)[:most]] = True
    return mask


@torch.no_grad()
def means_of(network: SceneNetwork, pictures: Pictures, size: int) -> NDArray[np.float32]:
    """Return what the embedding's layer is given, f32 [n, channels]."""
    given = torch.from_numpy(pictures.squares(size)).permute(0, 3, 1, 2).float()
    maps = (network.features(normalize(each)) for each in torch.split(given, AT_ONCE))
    return np.concatenate([functional.adaptive_avg_pool2d(each, 1).flatten(1).numpy() for each in maps])
