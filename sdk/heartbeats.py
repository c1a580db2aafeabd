"""Notes in memory that a version answered, so that a device is counted though its app notes no outcome.

    predict ─▶ note: look-ups in memory, no file and no lock ─▶ take (turns of sync and report, close) ─▶ reports.py

Of each task and window there is one heartbeat: its latency is drawn evenly from all answers of the window so far.  A
process that ends before it is taken loses it, which costs the window's report unless another outcome is noted.

Several threads may note at a time.  Each step is one operation on a dictionary; two at the same moment may count one
answer less, and nothing else.
"""

import json
from dataclasses import dataclass
from typing import Final

from alcove.privacy.entropy import Entropy, random_word
from alcove.registry.policy.outcome import Outcome
from alcove.runtime.clock import Clock
from alcove.sdk.handle import ActiveModel

__all__ = ["Heartbeat", "Heartbeats"]

MAX_HEARTBEATS: Final = 64
"""Tasks times windows in memory; a device has a task for each feature, and turns come more often than windows end."""


@dataclass(slots=True)
class Heartbeat:
    """The use of a version in one window of a task.

    Attributes:
        active: what answered.
        window: number of the window.
        outcome: ANSWERED, or FALLBACK where another version stood in for the arm's.
        latency_ms: of one of the answers.
        seen: out of how many it was drawn.
        next_seen: which answer takes its place.
    """

    active: ActiveModel
    window: int
    outcome: Outcome
    latency_ms: float
    seen: int
    next_seen: int


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a task says of windows, and which outcomes it counts."""

    first_window_start_s: int
    window_s: int
    counted: frozenset[int]


class Heartbeats:
    """The heartbeats of one process.

    Args:
        clock: gives the windows.
        entropy: source of the draws.
    """

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._terms: dict[str, _Terms | None] = {}
        self._noted: dict[tuple[str, int], Heartbeat] = {}

    def note(self, active: ActiveModel, latency_ms: float) -> None:
        """Note an answer; without a task that counts it, nothing."""
        task = active.task
        if task is None or active.arm is None:
            return
        terms = self._terms[task] if task in self._terms else self._read_terms(task)
        outcome = Outcome.FALLBACK if active.has_abandoned_arm else Outcome.ANSWERED
        if terms is None or outcome not in terms.counted:
            return
        window = (self._clock.now_s() - terms.first_window_start_s) // terms.window_s
        noted = self._noted
        one = noted.get((task, window))
        if one is None or (outcome is Outcome.FALLBACK and one.outcome is not outcome):
            if len(noted) >= MAX_HEARTBEATS:
                noted.clear()
            if window >= 0:
                noted[task, window] = Heartbeat(active, window, outcome, latency_ms, 1, self._draw_next(1))
        elif one.outcome is outcome:
            one.seen += 1
            if one.seen >= one.next_seen:
                one.active, one.latency_ms, one.next_seen = active, latency_ms, self._draw_next(one.seen)

    def take(self) -> list[Heartbeat]:
        """Return the heartbeats so far, and begin anew."""
        noted, self._noted = self._noted, {}
        return list(noted.values())

    def _draw_next(self, seen: int) -> int:
        """Return which answer is drawn after the one of number `seen`, so that each is kept with the same chance.

        It is beyond the m-th with probability seen / m (Vitter, 1985, "Random sampling with a reservoir": a few draws
        for any number of answers).
        """
        return (seen << 64) // (random_word(self._entropy) + 1) + 1

    def _read_terms(self, task: str) -> _Terms | None:
        """Return what a task says, and remember it."""
        terms: _Terms | None = None
        try:
            fields = json.loads(task)
            counted = frozenset(int(outcome) for group in fields["outcome_groups"] for outcome in group)
            if fields.get("metric") is not None:  # of a task of a metric every use counts
                counted = frozenset((Outcome.ANSWERED, Outcome.FALLBACK))
            start_s, window_s = int(fields["first_window_start_s"]), int(fields["window_s"])
            terms = _Terms(start_s, window_s, counted) if window_s > 0 else None
        except (ValueError, KeyError, TypeError, RecursionError):
            pass  # reports.py reads tasks strictly; what it refuses has no heartbeat
        if len(self._terms) >= MAX_HEARTBEATS:
            self._terms.clear()
        self._terms[task] = terms
        return terms
