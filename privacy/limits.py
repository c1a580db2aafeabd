"""Defines the bounds of private measurement: each number with its unit and the reason for it."""

from fractions import Fraction
from typing import Final

MIN_EPSILON: Final = Fraction(1, 100)
"""Smallest epsilon of one report; below it a report says nothing and ledgers would grow without use."""

MAX_EPSILON: Final = Fraction(16)
"""Largest epsilon of one report; above it randomized response keeps the cell practically always."""

MAX_SENSITIVITY: Final = 512
"""Largest L1 change by one device, in counts: two for each cell of a multi-hot report of 256 cells."""

MIN_NOISE_SCALE: Final = 1 / MAX_EPSILON
"""Smallest scale of an aggregator's noise, in counts: sensitivity 1 at the largest epsilon."""

MAX_NOISE_SCALE: Final = MAX_SENSITIVITY / MIN_EPSILON
"""Largest scale of an aggregator's noise, in counts: the largest sensitivity at the smallest epsilon."""

MAX_NOISE_TERM: Final = 1 << 32
"""Largest numerator and denominator of that scale; times a small counter it stays below one 64-bit draw."""

MIN_CELLS: Final = 2
"""Fewest cells of a report; with one there is nothing to measure."""

MAX_CELLS: Final = 1 << 16
"""Most cells of a report; the cell travels as an unsigned 16-bit number."""

TASK_ID_BYTES: Final = 32
"""Size of a task's id: a SHA-256 digest of the task."""

MAX_WINDOW: Final = (1 << 32) - 1
"""Largest window index; it travels as an unsigned 32-bit number."""

REPORT_BYTES: Final = TASK_ID_BYTES + 4 + 2
"""Size of a report of one cell on the wire; equal for all, so that the size says nothing."""

MAX_SUBSET_CELLS: Final = 256
"""Most cells of which a report names a set: a bit for each; as many as a policy's task can have."""

MIN_SUBSET_BYTES: Final = 3
"""Least size of the bits of such a report: its size tells it from one of a single cell."""

MAX_REPORT_BYTES: Final = TASK_ID_BYTES + 4 + MAX_SUBSET_CELLS // 8
"""Size of the largest report on the wire."""

EPSILON_PER_DAY: Final = Fraction(2)
"""What a device spends in any 24 hours over all tasks, unless the app sets less."""

EPSILON_PER_30_DAYS: Final = Fraction(8)
"""What a device spends in any 30 days over all tasks, unless the app sets less."""

DAY_S: Final = 86_400
"""Seconds of a day."""

RESERVED_SHARE: Final = Fraction(1, 4)
"""Part of the 30 days' budget that experiments leave to guardrails: ε 2 of 8, a day's cap.  It is one report of a
rollout at its default ε of 2, or two of 1; a larger one would cost each experiment more devices."""

EXPERIMENTS_PERIOD_S: Final = 30 * 3600
"""Time in which experiments spend a day's cap at most: the last six of 30 hours are then left to guardrails.  Two
reports a day at ε 1 that leave in the first 18 hours of a day's windows never wait for it."""

MAX_BOOT_CHARACTERS: Final = 64
"""Longest name of a device's start that a ledger keeps; Linux has 36."""

MAX_LEDGER_LINE_BYTES: Final = 512
"""Longest line of a ledger (a written one has about 150 bytes); a longer one is damage, and is not parsed."""
