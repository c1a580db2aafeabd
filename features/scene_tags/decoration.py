"""Says when a picture is better left without stickers, frames and music: the bounds are few and written down here."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from numpy.typing import NDArray

SIGNS: Final = ("face", "document", "brightness", "contrast", "detail", "white")
"""What the program gives, in its order: share of the picture of the largest face, probability of a document, mean
luminance, its deviation, mean difference of neighbors, share of paper white."""
FACE_FROM: Final = 0.08
"""Share of the picture from which on a face is close up."""
PERSON_FROM: Final = 0.25
"""Score of the tag "person" from which on a face is believed: flowers and cats have faces too."""
DOCUMENT_FROM: Final = 0.5
DARK_BELOW: Final = 0.13
"""Mean luminance."""
CONTRAST_BELOW: Final = 0.05
"""Deviation of luminance under which a picture is sparse,"""
DETAIL_BELOW: Final = 0.008
"""and mean difference of neighbors: a wall, a clear sky, a lens cap."""

Reason = Literal["face close up", "document", "dark", "sparse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoration:
    """Whether decoration suits a picture.

    Attributes:
        suits: there is no reason against it.
        reasons: against it.
        signs: what was seen, by its name in `SIGNS`; all in [0, 1].
    """

    suits: bool
    reasons: tuple[Reason, ...]
    signs: dict[str, float] = field(default_factory=dict)


def decoration_of(signs: NDArray[Any], person: float) -> Decoration:
    """Return whether decoration suits a picture.

    Args:
        signs: f32 [6], as `SIGNS` names them.
        person: score of the tag "person".
    """
    seen = {name: round(float(value), 4) for name, value in zip(SIGNS, signs, strict=True)}
    against: list[Reason] = []
    if seen["face"] >= FACE_FROM and person >= PERSON_FROM:
        against.append("face close up")
    if seen["document"] >= DOCUMENT_FROM:
        against.append("document")
    if seen["brightness"] < DARK_BELOW:
        against.append("dark")
    if seen["contrast"] < CONTRAST_BELOW or seen["detail"] < DETAIL_BELOW:
        against.append("sparse")
    return Decoration(suits=not against, reasons=tuple(against), signs=seen)
