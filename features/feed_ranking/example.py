"""Shows how an app uses the feature: a reader's feed, ordered on the device by what the reader opened before.

    handle = Client(app="reader", …).feature(FeedRanking)
    feed = Feed(handle)
    first = feed.order(candidates=[17, 4, 99, …], age_h={17: 0.5})     # ids to show, and why each is there
    feed.was_opened(17)                                                # joins the history, which stays here

What was shown and not opened sinks for a day; what was opened is not shown again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from alcove.features.feed_ranking.config import HISTORY
from alcove.features.feed_ranking.contract import FeedAnswer, FeedRanking, RankedItem
from alcove.features.feed_ranking.delta import ItemDelta
from alcove.features.feed_ranking.request import FeedRequest

FORGOTTEN_H: Final = 24.0 * 30
"""Hours after which it no longer counts that an item was shown."""


class Handle(Protocol):
    """What is used of `alcove.sdk.FeatureHandle`."""

    def predict(self, *inputs: Any) -> Any:
        """Return an `alcove.sdk.Answer`, whose `value` is a `FeedAnswer`; never uses the network."""
        ...

    def record_outcome(self, accepted: bool) -> Any:
        """Note whether people took what the answer led to; kept on the device."""
        ...


class Feed:
    """Orders candidates, and remembers in memory what was opened and shown.

    Args:
        handle: of the feature.
        history: ids of what was opened before, the latest last.
        delta: items that came after the program.
    """

    def __init__(self, handle: Handle, history: Sequence[int] = (), delta: ItemDelta | None = None) -> None:
        self._handle = handle
        self._history = list(history)[-HISTORY:]
        self._delta = delta
        self._shown_at_h: dict[int, float] = {}

    def order(
        self, candidates: Sequence[int], now_h: float = 0.0, age_h: Mapping[int, float] | None = None, limit: int = 10
    ) -> tuple[RankedItem, ...]:
        """Return what to show, the first first; of what was opened nothing.

        Args:
            candidates: ids, up to 1,000 that were not opened.
            now_h: the time, hours from any beginning.
            age_h: hours since some of them were published.
            limit: how many to show.

        Raises:
            FieldError: too many candidates, or an id or a time that cannot be.
        """
        opened = set(self._history)
        left = [item for item in candidates if item not in opened]
        if not left:
            return ()
        self._shown_at_h = {i: at for i, at in self._shown_at_h.items() if now_h - at < FORGOTTEN_H}
        request = FeedRequest(
            history=self._history,
            candidates=left,
            seen_h=[max(0.0, now_h - self._shown_at_h[i]) if i in self._shown_at_h else None for i in left],
            age_h=[(age_h or {}).get(item) for item in left],
            limit=limit,
        )
        answer: FeedAnswer = self._handle.predict(*FeedRanking().inputs(request, delta=self._delta)).value
        self._shown_at_h |= {entry.item: now_h for entry in answer.ranked}
        return answer.ranked

    def was_opened(self, item: int) -> None:
        """Note that the reader opened an item that was shown."""
        self._history = [*self._history, item][-HISTORY:]
        self._handle.record_outcome(True)

    def was_left(self) -> None:
        """Note that the reader opened nothing of what was shown."""
        self._handle.record_outcome(False)
