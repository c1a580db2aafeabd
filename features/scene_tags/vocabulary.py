"""How does a product team add tags of its own, without training?  Five pictures make one.

    vocabulary = Vocabulary().with_tag("our mascot", [answer.embedding for answer in five])
    path.write_bytes(vocabulary.to_bytes())          # a file that ships with the app
    Vocabulary.from_bytes(path.read_bytes()).ranked(answer.embedding)

A tag is the mean direction of its pictures' embeddings (prototypes: Snell, Swersky and Zemel, "Prototypical networks
for few-shot learning", 2017).  A picture has the tag if it is about as near to it as those pictures are to each other.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Self

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
ALONE: Final = 0.6
"""Least similarity of a tag that one picture made: nothing tells how far its like are spread."""


class VocabularyError(ValueError):
    """A vocabulary, or what should become part of it, is not as it must be; the message names tag, bound and value."""


class OwnTag(BaseModel):
    """A tag that a team made.

    Attributes:
        name: 1 to 64 characters.
        prototype: mean direction of its pictures, 128 numbers, of length 1.
        least_similarity: cosine from which on a picture has the tag.
        pictures: how many made it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=MAX_NAME)
    prototype: tuple[float, ...] = Field(min_length=EMBEDDING, max_length=EMBEDDING)
    least_similarity: float = Field(ge=-1, le=1)
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
        similarity: cosine of picture and prototype, -1 to 1.
        fits: it is as near as the tag's own pictures are to each other.
    """

    model_config = ConfigDict(frozen=True)

    tag: str
    similarity: float = Field(ge=-1, le=1)
    fits: bool


class Vocabulary(BaseModel):
    """A team's tags, which belong to one version of the model: another's embeddings mean something else.

    Attributes:
        format: of the file.
        model: version of the feature whose embeddings these are.
        tags: with names of their own, at most 1,000.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(default=1, ge=1, le=1)
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

    def with_tag(self, name: str, embeddings: Sequence[Sequence[float]] | NDArray[Any]) -> "Vocabulary":
        """Return a vocabulary with one tag more.

        Args:
            name: not yet taken.
            embeddings: of pictures that have the tag, [n, 128], each of length 1; five are usual, 1 to 1,000 allowed.

        Raises:
            VocabularyError: the name is taken or too long, the embeddings are none, or point in opposite directions.
        """
        try:
            rows = np.asarray(embeddings, np.float64)
        except ValueError:
            raise VocabularyError(f"tag {name!r}: embeddings are rows of {EMBEDDING} numbers") from None
        if rows.ndim != 2 or rows.shape[1] != EMBEDDING or not 1 <= len(rows) <= MAX_PICTURES:
            wanted = f"[1 to {MAX_PICTURES}, {EMBEDDING}]"
            raise VocabularyError(f"tag {name!r}: embeddings must be {wanted}, not {list(rows.shape)}")
        if not np.isfinite(rows).all():
            raise VocabularyError(f"tag {name!r}: an embedding holds NaN or infinity")
        lengths = np.linalg.norm(rows, axis=1)
        if np.abs(lengths - 1).max() > LENGTH_WITHIN:
            worst = lengths[np.argmax(np.abs(lengths - 1))]
            raise VocabularyError(f"tag {name!r}: an embedding's length is 1, not {worst:.4g}")
        total = rows.sum(axis=0)
        if np.linalg.norm(total) < LENGTH_WITHIN:
            raise VocabularyError(f"tag {name!r}: its pictures have nothing in common")
        prototype = total / np.linalg.norm(total)
        try:
            tag = OwnTag(
                name=name,
                prototype=tuple(round(float(each), 6) for each in prototype),
                least_similarity=_least_similarity(rows),
                pictures=len(rows),
            )
            return Vocabulary(model=self.model, tags=(*self.tags, tag))
        except ValidationError as error:
            raise VocabularyError(_sentence(error)) from None

    def ranked(self, embedding: Sequence[float] | NDArray[Any]) -> tuple[FoundTag, ...]:
        """Return all tags, the one that fits best first.

        Args:
            embedding: of a picture, 128 numbers, of length 1.

        Raises:
            VocabularyError: it is no such embedding.
        """
        row = np.asarray(embedding, np.float64)
        if row.shape != (EMBEDDING,) or not np.isfinite(row).all() or abs(np.linalg.norm(row) - 1) > LENGTH_WITHIN:
            raise VocabularyError(f"an embedding is {EMBEDDING} finite numbers of length 1; this is {list(row.shape)}")
        if not self.tags:
            return ()
        similarities = np.clip(np.array([tag.prototype for tag in self.tags]) @ row, -1, 1)
        order = np.argsort(-similarities, kind="stable")
        return tuple(
            FoundTag(
                tag=self.tags[at].name,
                similarity=float(similarities[at]),
                fits=bool(similarities[at] >= self.tags[at].least_similarity),
            )
            for at in order
        )


def _least_similarity(rows: NDArray[np.float64]) -> float:
    """Return the mean cosine of each row with the mean direction of the others, less one standard deviation."""
    if len(rows) == 1:
        return ALONE
    others = rows.sum(axis=0) - rows
    lengths = np.maximum(np.linalg.norm(others, axis=1), LENGTH_WITHIN)
    cosines = (rows * others).sum(axis=1) / lengths
    return round(float(np.clip(cosines.mean() - cosines.std(), -1, 1)), 6)


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(each) for each in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
