"""Lists the tags, and defines the shape of each version of the model; needs no torch."""

from dataclasses import asdict, dataclass
from typing import Any, Final

# fmt: off
TAGS: Final = (
    "animal", "bird", "boat", "bridge", "building", "cat", "clothing", "container", "dog", "drink", "electronics",
    "fish", "food", "fruit_vegetable", "indoor_furniture", "insect_bug", "kitchen", "landscape", "mammal",
    "marine_life", "mountain", "musical_instrument", "plant_fungus", "reptile_amphibian", "road_vehicle",
    "shop_or_room", "sports", "street", "text_or_screen", "train", "water_scene",
)
# fmt: on
"""In the order of the model's outputs: all tags of the training data (CARD.md), sorted."""

EMBEDDING: Final = 128
"""Numbers in an embedding; its length is 1."""

CLASSES: Final = 200 + 6 + 10
"""Classes that training tells apart beside the tags: Tiny ImageNet's, the scenes', CIFAR-10's."""

LEFT_OUT: Final = tuple(range(5, 200, 10))
"""Labels of Tiny ImageNet whose pictures no training sees: every tenth. New tags are tried on them."""


@dataclass(frozen=True)
class ModelConfig:
    """The shape of one version: stages of inverted residuals, each behind a 3x3 convolution that may halve the picture.

    Attributes:
        version: of the feature, "MAJOR.MINOR.PATCH".
        size: width and height of the picture that the program takes, in pixels, after `picture.fit`.
        widths: channels of the first convolution and of each stage.
        depths: inverted residuals in each stage.
        strides: of the convolutions before the stages; the one before them all has 2.
        expansions: how many times wider they are inside.
        head: channels of the last feature map, which tags are read from.
        plain: channels of the plain network that it is compared with: pairs of 3x3 convolutions, the first of which
            has the stage's stride.
    """

    version: str
    size: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    strides: tuple[int, ...]
    expansions: tuple[int, ...]
    head: int
    plain: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for run records."""
        return asdict(self)


CONFIGS: Final = {
    "1.1.0": ModelConfig(
        version="1.1.0",
        size=64,
        widths=(24, 48, 80, 144),
        depths=(2, 3, 3),
        strides=(2, 2, 1),
        expansions=(3, 4, 4),
        head=576,
        plain=(24, 58, 118, 228),
    ),
}
"""By version."""

DEFAULT_VERSION: Final = "1.1.0"
