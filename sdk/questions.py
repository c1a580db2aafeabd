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
Q3  Without budget, and where the ledger cannot be written, a device does as those do who answer no.
Q4  A question that was answered costs nothing while its answer stays the same: repeating it tells nothing new.
Q5  The file has a digest for each question and its answer; nothing of it is ever sent.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Final

from alcove.privacy.budget import BudgetLimits
from alcove.privacy.errors import AlcovePrivacyError
from alcove.privacy.ledger import Ledger, LogFile
from alcove.privacy.limits import EPSILON_PER_DAY
from alcove.registry.policy.attributes import DeviceAttributes
from alcove.runtime.clock import Clock
from alcove.sdk.limits import MAX_QUESTIONS

if TYPE_CHECKING:
    from alcove.registry.policy.audience import Audience

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
    """

    def __init__(self, log: LogFile, clock: Clock, attributes: DeviceAttributes) -> None:
        self._ledger = Ledger(log, _CAPS, clock)
        self._attributes = attributes

    def is_in(self, audience: "Audience") -> bool:
        """Tell whether the device acts as one of the audience; a new answer is paid for."""
        is_in = audience.matches(self._attributes)
        return self._may_answer(_audience_question(audience), is_answer=is_in) and is_in

    def shows_arm(self, part_id: str) -> bool:
        """Tell whether the device may fetch its own arm of an experiment or a rollout alone; it is paid for once."""
        return self._may_answer(f"arm {part_id}", is_answer=True)

    def was_in(self, audience: "Audience") -> bool:
        """Tell whether the device acts as one of the audience since it was last asked; pays nothing.

        Raises:
            LedgerStorageError: the ledger could not be read.
        """
        if not audience.matches(self._attributes):
            return False
        return self._last_answer(_audience_question(audience)) is True

    def count_answers(self) -> int:
        """Return how many answers were given in the last 30 days.

        Raises:
            LedgerStorageError: the ledger could not be read.
        """
        return -(-self._ledger.spending().thirty_days // _COST)

    def _may_answer(self, question: str, *, is_answer: bool) -> bool:
        """Tell whether the answer is known already or is paid for now."""
        try:
            self._ledger.note_time()
            if self._last_answer(question) is is_answer:
                return True
            window = sum(debit.task_id in _keys(question) for debit in self._ledger.debits())
            self._ledger.debit(_keys(question)[is_answer], window, _COST, may_use_reserve=True)
        except AlcovePrivacyError:
            return False
        return True

    def _last_answer(self, question: str) -> bool | None:
        """Return the answer that was given last; None: none ever was."""
        no, yes = _keys(question)
        given = [debit.task_id == yes for debit in self._ledger.debits() if debit.task_id in (no, yes)]
        return given[-1] if given else None


def _audience_question(audience: "Audience") -> str:
    """Return the one text of an audience: who asks it again, in another part or feature, learns nothing new."""
    return "audience " + json.dumps(audience.to_json(), sort_keys=True)


def _keys(question: str) -> tuple[bytes, bytes]:
    """Return what stands in the ledger for no and for yes."""
    no, yes = (hashlib.sha256(f"alcove question\0{answer}\0{question}".encode()).digest() for answer in ("no", "yes"))
    return no, yes
