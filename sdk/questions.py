"""Counts how often a device reveals an attribute by what its policy asks, and refuses beyond a bound.

    a policy's audience ─▶ compared here ─▶ answer known before? ─ yes ─▶ act on it: nothing new is revealed
                                                  └─ no ─▶ debit ─ paid ─▶ act on it
                                                             └─ budget spent ─▶ as a device that is not in it

Where versions are small every device fetches all that any audience of its policy could need, so downloads tell nothing.
But a report names its task, so that it tells whom the task is for; and versions above `ALL_VERSIONS_BYTES` are fetched
by those alone who run them.  The author of the policies could then ask for one attribute after the other.  So every
audience is a question, whatever would show the answer, and so is every arm that is fetched alone.

Q1  In any 30 days, by the ledger's clock, at most `MAX_QUESTIONS` new answers are acted on; yes and no cost alike.
Q2  The debit is on the disk before the answer is acted on.
Q3  Without budget, and where the ledger cannot be written, a device does as those do who answer no; of a dimension,
    who have none of the named values.
Q4  A question that was answered costs nothing while its answer stays the same: repeating it tells nothing new.
Q5  The file has a digest for each question and its answer; nothing of it is ever sent.
Q6  As which value of a dimension a device takes part in an experiment is asked once (`strata.py`).
"""

import hashlib
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from alcove.privacy.budget import BudgetLimits
from alcove.privacy.errors import AlcovePrivacyError
from alcove.privacy.ledger import Ledger, LogFile
from alcove.privacy.limits import EPSILON_PER_DAY
from alcove.registry.limits import DIMENSION_VALUES_MAX
from alcove.registry.policy.attributes import DeviceAttributes
from alcove.runtime.clock import Clock
from alcove.sdk.limits import MAX_QUESTIONS
from alcove.sdk.strata import Strata

if TYPE_CHECKING:
    from alcove.registry.policy.audience import Audience
    from alcove.registry.policy.dimension import Dimension

_NO: Final = "no"
_YES: Final = "yes"
_ANSWERS: Final = (_NO, _YES, *map(str, range(DIMENSION_VALUES_MAX + 1)))
"""What may be answered: to an audience no or yes, to a dimension the number of a value."""

_COST: Final = EPSILON_PER_DAY / MAX_QUESTIONS
"""What an answer costs in the ledger's own unit; its caps of a day and of 30 days are both `MAX_QUESTIONS` of it, of
which no reserve is kept."""

_CAPS: Final = BudgetLimits(per_day=_COST * MAX_QUESTIONS, per_30_days=_COST * MAX_QUESTIONS)


class Questions:
    """What one device has revealed.

    Args:
        log: the ledger of answers.
        clock: the device's clocks.
        attributes: what the app says of the device.
        strata: the values that were settled.
    """

    def __init__(self, log: LogFile, clock: Clock, attributes: DeviceAttributes, strata: Strata) -> None:
        self._ledger = Ledger(log, _CAPS, clock)
        self._attributes = attributes
        self._strata = strata

    def is_in(self, audience: "Audience") -> bool:
        """Tell whether the device acts as one of the audience; a new answer is paid for."""
        is_in = audience.matches(self._attributes)
        return self._may_answer(_audience_question(audience), _YES if is_in else _NO) and is_in

    def shows_arm(self, part_id: str) -> bool:
        """Tell whether the device may fetch its own arm of an experiment or a rollout alone; it is paid for once."""
        return self._may_answer(f"arm {part_id}", _YES)

    def settle_value(self, experiment_id: str, dimension: "Dimension") -> int:
        """Return the number of the value as which the device takes part (Q6); a new answer is paid for.

        Raises:
            DeviceStorageError: the disk failed; the device takes part as none.
        """

        def answer() -> int:
            value = dimension.value_of(self._attributes)
            return value if self._may_answer(_dimension_question(dimension), str(value)) else len(dimension.audiences)

        return self._strata.settle(experiment_id, answer, count=len(dimension.names))

    def settled_value(self, experiment_id: str) -> int | None:
        """Return the number of the value as which the device takes part; None: it was not asked.  Pays nothing.

        Raises:
            DeviceStorageError: the disk failed.
        """
        return self._strata.find(experiment_id)

    def keep_values(self, experiment_ids: Collection[str]) -> None:
        """Forget the values of all other experiments.

        Raises:
            DeviceStorageError: the disk failed.
        """
        self._strata.keep_only(experiment_ids)

    def was_in(self, audience: "Audience") -> bool:
        """Tell whether the device acts as one of the audience since it was last asked; pays nothing.

        Raises:
            LedgerStorageError: the ledger could not be read.
        """
        if not audience.matches(self._attributes):
            return False
        return self._last_answer(_audience_question(audience)) == _YES

    def count_answers(self) -> int:
        """Return how many answers were given in the last 30 days.

        Raises:
            LedgerStorageError: the ledger could not be read.
        """
        return -(-self._ledger.spending().thirty_days // _COST)

    def _may_answer(self, question: str, answer: str) -> bool:
        """Tell whether the answer is known already or is paid for now."""
        try:
            self._ledger.note_time()
            if self._last_answer(question) == answer:
                return True
            keys = _keys(question)
            window = sum(debit.task_id in keys for debit in self._ledger.debits())
            (key,) = (key for key, one in keys.items() if one == answer)
            self._ledger.debit(key, window, _COST, may_use_reserve=True)
        except AlcovePrivacyError:
            return False
        return True

    def _last_answer(self, question: str) -> str | None:
        """Return the answer that was given last; None: none ever was."""
        keys = _keys(question)
        given = [keys[debit.task_id] for debit in self._ledger.debits() if debit.task_id in keys]
        return given[-1] if given else None


def _audience_question(audience: "Audience") -> str:
    """Return the one text of an audience: who asks it again, in another part or feature, learns nothing new."""
    return "audience " + json.dumps(audience.to_json(), sort_keys=True)


def _dimension_question(dimension: "Dimension") -> str:
    """Return the one text of a dimension, for the same reason."""
    return "dimension " + json.dumps(dimension.to_json(), sort_keys=True)


def _keys(question: str) -> dict[bytes, str]:
    """Return what stands in the ledger for each answer that a question can have."""
    return {hashlib.sha256(f"alcove question\0{one}\0{question}".encode()).digest(): one for one in _ANSWERS}
