"""Defines scene tags for apps: one picture in; tags, embedding, crop, mood and whether to decorate it out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.picture import MissingPictureError, fit, read_picture
from alcove.features.scene_tags.config import DEFAULT_VERSION, EMBEDDING, MAP, SIZE
from alcove.features.scene_tags.crop import Crop, box_of, window_of
from alcove.features.scene_tags.decoration import SIGNS, Decoration, decoration_of
from alcove.features.scene_tags.mood import Mood, mood_of
from alcove.features.scene_tags.ranking import NAMED_FROM, rank_tags
from alcove.features.scene_tags.tags import TAGS, ancestors
from numpy.typing import NDArray

RANKED: Final = 8
"""Tags in an answer, at most."""
ROUNDING: Final = 1e-3
PERSON: Final = TAGS.index("person")

PROGRAMS: Final = Path(__file__).parent / "programs"


def program_path(version: str, variant: str = "full") -> Path:
    """Return where the committed program of a variant lies, whether or not there is one."""
    return PROGRAMS / f"scene_tags-{version}{'' if variant == 'full' else f'-{variant}'}.alc"


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneTag:
    """A tag and how likely the picture has it.

    Attributes:
        tag: one of `tags.TAGS`.
        score: in [0, 1]; of ordinary photos with score p, about p have the tag.
        broader: the tags above it, the nearest first.

    Raises:
        FieldError: the score is none.
    """

    tag: str
    score: float
    broader: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.score <= 1:
            raise FieldError("score", "0 to 1", self.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneAnswer:
    """What is in a picture.

    Attributes:
        tags: at most eight, best first, things before the places that they are in; no root of the tree, and none that
            one below it makes unnecessary. `named` are those that the picture counts as having.
        embedding: 128 numbers, of length 1: pictures alike have a high cosine. For search, and for a `Vocabulary`.
        commonness: how like the picture is to what the model knows, in [-1, 1]: about log(mean(exp(8 cosine))) / 8 of
            its embedding and the known classes. A `Vocabulary` judges by cosines less it.
        saliency: rows of a coarse map of where the tags come from, from the upper left corner: shares, which add up to
            nearly 1; to nearly 0 where no tag is to be seen.
        crop: the smallest part that holds most of the map; `crop_to` for a part of a given aspect.
        mood: of music that goes with it.
        decoration: whether stickers and frames suit the picture, and why not.

    Raises:
        FieldError: the embedding or the map has another size, or the commonness is out of its bounds.
    """

    tags: tuple[SceneTag, ...]
    embedding: tuple[float, ...]
    commonness: float
    saliency: tuple[tuple[float, ...], ...]
    crop: Crop
    mood: Mood
    decoration: Decoration

    def __post_init__(self) -> None:
        if len(self.embedding) != EMBEDDING:
            raise FieldError("embedding", f"{EMBEDDING} numbers", len(self.embedding))
        if not -1 - ROUNDING <= self.commonness <= 1 + ROUNDING:
            raise FieldError("commonness", "-1 to 1", self.commonness)
        if not self.saliency:
            raise FieldError("saliency", "at least one row", self.saliency)

    @property
    def named(self) -> tuple[str, ...]:
        """The tags that are more likely than not, best first; none where the feature is not sure."""
        return tuple(each.tag for each in self.tags if each.score >= NAMED_FROM)

    def crop_to(self, width: int, height: int, aspect: float) -> Crop:
        """Return the part of a width x height picture, width over height = `aspect`, that matters most.

        Raises:
            ValueError: the aspect is not a positive, finite number, or the picture has no pixels.
        """
        return window_of(np.array(self.saliency), width, height, aspect)


class SceneTags:
    """Scene tags: one picture in, `SceneAnswer` out."""

    name: ClassVar[str] = "scene_tags"
    summary: ClassVar[str] = (
        f"Gives a picture's tags (of {len(TAGS)}), the part of it to keep, and the mood of music that fits."
    )
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[NDArray[np.uint8]]:
        """Return the program's input for a line that holds the path of a picture.

        Raises:
            PictureError: the line is no path, or there is no picture that can be read (`picture.PictureError`).
        """
        try:
            path = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise MissingPictureError("a line holds the path of a picture, in UTF-8") from None
        if not path:
            raise MissingPictureError("a line holds the path of a picture; this one is empty")
        return (self.prepare(read_picture(Path(path))),)

    def prepare(self, pixels: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the program's input for a picture of any size, uint8 [height, width, 3]; `picture.fit`.

        Raises:
            PictureError: it is no such array, has no pixels or too many.
        """
        return fit(pixels, SIZE)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> SceneAnswer:
        """Return the answer in a program's outputs.

        Args:
            outputs: scores f32 [1, tags], embedding f32 [1, 128], map f32 [1, 11, 11], commonness f32 [1, 1], signs
                f32 [1, 6].

        Raises:
            ValueError: the outputs are not those, or hold what is no score.
        """
        wanted = [(1, len(TAGS)), (1, EMBEDDING), (1, MAP, MAP), (1, 1), (1, len(SIGNS))]
        shapes = [np.shape(output) for output in outputs]
        if shapes != wanted:
            raise ValueError(f"scene_tags expects {wanted}; the program gave {shapes}")
        scores, embedding, saliency, commonness, signs = (np.asarray(output[0]) for output in outputs)
        if not np.isfinite(np.concatenate([np.ravel(output) for output in outputs])).all():
            raise ValueError("scene_tags expects finite numbers; the program gave others")
        if scores.min() < 0 or scores.max() > 1:
            raise ValueError(f"scene_tags expects scores in [0, 1]; the program gave {scores.min()} to {scores.max()}")
        ranked = [(TAGS[at], float(scores[at])) for at in rank_tags(scores, RANKED)]
        saliency = np.maximum(saliency, 0)
        return SceneAnswer(
            tags=tuple(SceneTag(tag=tag, score=score, broader=ancestors(tag)) for tag, score in ranked),
            embedding=tuple(embedding.tolist()),
            commonness=float(commonness[0]),
            saliency=tuple(map(tuple, saliency.tolist())),
            crop=box_of(saliency),
            mood=mood_of(dict(ranked)),
            decoration=decoration_of(signs, float(scores[PERSON])),
        )
