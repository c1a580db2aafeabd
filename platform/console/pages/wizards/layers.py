"""Shows which running experiments hold which buckets of a layer, and whether a new one would meet them."""

from collections.abc import Sequence
from dataclasses import dataclass

from alcove.platform.client import Claim, Layer, Segment

__all__ = ["Strip", "strips_of"]

CELLS = 50
BUCKETS = 10_000


@dataclass(frozen=True)
class Strip:
    """A layer as a strip of cells of equal width.

    Attributes:
        layer: that it shows.
        cells: of each: "free", "taken", "new" where the experiment that is written would be, "conflict" for both.
        conflicts: claims that the new segment meets.
        is_chosen: whether the new segment is of this layer.
    """

    layer: Layer
    cells: tuple[str, ...]
    conflicts: tuple[Claim, ...]
    is_chosen: bool

    @property
    def free(self) -> tuple[tuple[int, int], ...]:
        """Runs of buckets that nobody holds: first, and the one behind the last."""
        found, place = [], 0
        for claim in sorted(self.layer.claims, key=lambda one: one.first):
            if claim.first > place:
                found.append((place, claim.first))
            place = max(place, claim.first + claim.count)
        return (*found, (place, BUCKETS)) if place < BUCKETS else tuple(found)


def strips_of(layers: Sequence[Layer], segment: Segment | None) -> list[Strip]:
    """Return the layers of an app, with the part that a new experiment asks for."""
    return [_strip(layer, segment if segment is not None and segment.layer == layer.name else None) for layer in layers]


def _strip(layer: Layer, segment: Segment | None) -> Strip:
    width = BUCKETS // CELLS
    spans = [(claim.first, claim.first + claim.count) for claim in layer.claims]
    new = [] if segment is None else [(segment.first, segment.first + segment.count)]
    cells = []
    for first in range(0, BUCKETS, width):
        is_taken, is_new = (_do_meet(first, first + width, some) for some in (spans, new))
        cells.append(("conflict" if is_taken else "new") if is_new else "taken" if is_taken else "free")
    conflicts = [one for one in layer.claims if _do_meet(one.first, one.first + one.count, new)]
    return Strip(layer, tuple(cells), tuple(conflicts), segment is not None)


def _do_meet(first: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(first < high and low < end for low, high in spans)
