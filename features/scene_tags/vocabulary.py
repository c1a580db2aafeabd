"""Adds a product team's own tags without training: five pictures make one.

    vocabulary = Vocabulary().with_tag("our mascot", five_answers)
    path.write_bytes(vocabulary.to_bytes())          # a file that ships with the app
    Vocabulary.from_bytes(path.read_bytes()).ranked(answer)

A tag is the mean direction of its pictures' embeddings (prototypes: Snell, Swersky and Zemel, "Prototypical networks
for few-shot learning", 2017).  What counts is the margin: a picture's cosine with it, less the picture's commonness,
because pictures that are near to everything are near to a new tag too.  A picture has the tag if its margin is no less
than that of the tag's own pictures on average, each against the others.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol, Self

import numpy as np
from alcove.features.scene_tags.config import DEFAULT_VERSION, EMBEDDING
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

MAX_BYTES: Final = 8 << 20
"""Of a file: a thousand tags take about 2.5 MB."""
MAX_TAGS: Final = 1000
MAX_PICTURES: Final = 1000
MAX_NAME: Final = 64
LENGTH_WITHIN: Final = 1e-3
"""How far the length of an embedding may be from 1."""
ALONE: Final = 0.15
"""Least margin of a tag that one picture made: nothing tells how far its like are spread."""


class Described(Protocol):
    """What is read of a `SceneAnswer`."""

    @property
    def embedding(self) -> Sequence[float]:
        """128 numbers, of length 1."""
        ...

    @property
    def commonness(self) -> float:
        """How near it is to what the model knows; in [-1, 1]."""
        ...


class VocabularyError(ValueError):
    """A vocabulary, or what should become part of it, is not as it must be; the message names tag, bound and value."""


class OwnTag(BaseModel):
    """A tag that a team made.

    Attributes:
        name: 1 to 64 characters.
        prototype: mean direction of its pictures, 128 numbers, of length 1.
        least_margin: cosine less commonness from which on a picture has the tag.
        pictures: how many made it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=MAX_NAME)
    prototype: tuple[float, ...] = Field(min_length=EMBEDDING, max_length=EMBEDDING)
    least_margin: float = Field(ge=-2, le=2)
    pictures: int = Field(ge=1, le=MAX_PICTURES)

    @field_validator("prototype")
    @classmethod
    def _has_length_one(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        length = float(np.linalg.norm(value))
        if abs(length - 1) > LENGTH_WITHIN:
            raise ValueError(f"a prototype's length is 1, not {length:.4g}")
        return value


class FoundTag(BaseModel):
    """How well one of a team's tags fits a picture.

    Attributes:
        tag: its name.
        margin: cosine of picture and prototype less the picture's commonness, -2 to 2.
        fits: it is no less than the tag's own pictures have it on average.
    """

    model_config = ConfigDict(frozen=True)

    tag: str
    margin: float = Field(ge=-2, le=2)
    fits: bool


class Vocabulary(BaseModel):
    """A team's tags, which belong to one version of the model: another's embeddings mean something else.

    Attributes:
        format: of the file.
        model: version of the feature whose embeddings these are.
        tags: with names of their own, at most 1,000.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(default=2, ge=2, le=2)
    model: str = DEFAULT_VERSION
    tags: tuple[OwnTag, ...] = Field(default=(), max_length=MAX_TAGS)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = Counter(tag.name for tag in self.tags)
        twice = sorted(name for name, count in names.items() if count > 1)
        if twice:
            raise ValueError(f"names must differ; twice or more: {', '.join(twice)}")
        return self

    @classmethod
    def from_bytes(cls, data: bytes, model: str = DEFAULT_VERSION) -> Self:
        """Return the vocabulary of a file, checked.

        Args:
            data: of the file.
            model: version of the feature that it will be used with.

        Raises:
            VocabularyError: too large, not in this format, of another version, or a tag is not as it must be.
        """
        if len(data) > MAX_BYTES:
            raise VocabularyError(f"a vocabulary has at most {MAX_BYTES:,} bytes, not {len(data):,}")
        try:
            found = cls.model_validate_json(data)
        except ValidationError as error:
            raise VocabularyError(_sentence(error)) from None
        if found.model != model:
            raise VocabularyError(f"it belongs to scene_tags {found.model}, not {model}: make it again from pictures")
        return found

    def to_bytes(self) -> bytes:
        """Return the file: JSON, the same bytes for the same tags."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1).encode() + b"\n"

    def with_tag(self, name: str, pictures: Sequence[Described]) -> "Vocabulary":
        """Return a vocabulary with one tag more.

        Args:
            name: not yet taken.
            pictures: answers for pictures that have the tag; five are usual, 1 to 1,000 allowed.

        Raises:
            VocabularyError: the name is taken or too long, there is no picture or too many, an embedding is not 128
                finite numbers of length 1, or they point in opposite directions.
        """
        if not 1 <= len(pictures) <= MAX_PICTURES:
            raise VocabularyError(f"tag {name!r}: 1 to {MAX_PICTURES} pictures make a tag, not {len(pictures)}")
        try:
            rows = np.stack([_row(each) for each in pictures])
        except VocabularyError as error:
            raise VocabularyError(f"tag {name!r}: {error}") from None
        total = rows.sum(axis=0)
        if np.linalg.norm(total) < LENGTH_WITHIN:
            raise VocabularyError(f"tag {name!r}: its pictures have nothing in common")
        prototype = total / np.linalg.norm(total)
        try:
            tag = OwnTag(
                name=name,
                prototype=tuple(round(float(each), 6) for each in prototype),
                least_margin=_least_margin(rows, np.array([each.commonness for each in pictures])),
                pictures=len(rows),
            )
            return Vocabulary(model=self.model, tags=(*self.tags, tag))
        except ValidationError as error:
            raise VocabularyError(_sentence(error)) from None

    def rank(self, picture: Described) -> tuple[FoundTag, ...]:
        """Return all tags, the one that fits best first.

        Args:
            picture: the answer for it.

        Raises:
            VocabularyError: its embedding is not 128 finite numbers of length 1.
        """
        row = _row(picture)
        if not self.tags:
            return ()
        cosines = np.clip(np.array([tag.prototype for tag in self.tags]) @ row, -1, 1)
        margins = cosines - float(np.clip(picture.commonness, -1, 1))
        order = np.argsort(-margins, kind="stable")
        return tuple(
            FoundTag(
                tag=self.tags[at].name,
                margin=float(margins[at]),
                fits=bool(margins[at] >= self.tags[at].least_margin),
            )
            for at in order
        )


def _row(picture: Described) -> NDArray[np.float64]:
    row = np.asarray(picture.embedding, np.float64)
    length = float(np.linalg.norm(row))
    if row.shape != (EMBEDDING,) or not np.isfinite(row).all() or abs(length - 1) > LENGTH_WITHIN:
        wanted = f"{EMBEDDING} finite numbers of length 1"
        raise VocabularyError(f"an embedding is {wanted}; this is {list(row.shape)} of length {length:.4g}")
    if not np.isfinite(picture.commonness):
        raise VocabularyError(f"commonness is a finite number, not {picture.commonness}")
    return row


def _least_margin(rows: NDArray[np.float64], commonness: NDArray[np.float64]) -> float:
    """Return the mean of the margins that each row has to the mean direction of the others."""
    if len(rows) == 1:
        return ALONE
    others = rows.sum(axis=0) - rows
    lengths = np.maximum(np.linalg.norm(others, axis=1), LENGTH_WITHIN)
    margins = (rows * others).sum(axis=1) / lengths - np.clip(commonness, -1, 1)
    return round(float(np.clip(margins.mean(), -2, 2)), 6)


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(each) for each in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
