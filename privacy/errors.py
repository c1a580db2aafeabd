"""Defines the errors of private measurement.

AlcovePrivacyError
├── ParameterError            the call: an argument out of its bound
├── ReportFormatError         them: bytes that are no report
├── MessageError              them: bytes that are not the message that they should be
│   ├── DapMessageError       a message of DAP
│   ├── ObliviousMessageError a message of Oblivious HTTP, or the HTTP message in it
│   │   └── ObliviousKeyError one that is for no key of the gateway
│   └── TokenMessageError     a message of tokens; a TokenError, too
├── DapTaskError              them: a task that is unknown here, or that the rules of a party refuse
├── ReportRejectedError       them: a report of DAP that is left out, with the reason that the draft numbers
├── HpkeError                 them: a ciphertext or key that cannot be used
├── VdafError                 them: a share or message of Prio3
│   ├── VdafDecodeError       bytes that no such message has
│   └── VdafVerificationError a report that is not valid: to be left out
├── TokenError                them: a token, or a step to one
│   ├── TokenKeyError         a key that is none for tokens
│   ├── TokenIssuanceError    a request that cannot be answered, or an answer that is no signature
│   └── TokenVerificationError a token that is not valid here
└── LedgerError               us: the device's budget
    ├── BudgetExceededError   the report would cost more than is left in a period
    ├── AlreadyReportedError  this task's window has had its report
    └── LedgerStorageError    the ledger could not be read, written or synced
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.privacy.dap.messages import ReportError


class AlcovePrivacyError(Exception):
    """Every error of this package."""


class ParameterError(AlcovePrivacyError):
    """An argument is out of its bound."""

    def __init__(self, *, name: str, bound: str, value: object) -> None:
        self.name = name
        self.bound = bound
        self.value = value
        super().__init__(f"{name} must be {bound}, not {value!r}")


class ReportFormatError(AlcovePrivacyError):
    """Bytes are not a sequence of reports."""

    def __init__(self, *, bound: str, size_bytes: int) -> None:
        self.bound = bound
        self.size_bytes = size_bytes
        super().__init__(f"reports must have {bound}, not {size_bytes} bytes")


class MessageError(AlcovePrivacyError):
    """Bytes are not the message that they should be."""

    def __init__(self, message: str, field: str, reason: str) -> None:
        self.message = message
        self.field = field
        self.reason = reason
        super().__init__(f"{message}.{field}: {reason}")


class DapMessageError(MessageError):
    """Bytes are not the message of DAP that they should be."""


class ObliviousMessageError(MessageError):
    """Bytes are not the message of Oblivious HTTP, or of binary HTTP, that they should be."""


class ObliviousKeyError(ObliviousMessageError):
    """An encapsulated request is for a key that the gateway does not have."""


class DapTaskError(AlcovePrivacyError):
    """A task's configuration says what is not known here, or what a party does not take part in."""

    def __init__(self, *, what: str, bound: str, value: object) -> None:
        self.what = what
        self.bound = bound
        self.value = value
        super().__init__(f"the task's {what} must be {bound}, not {value!r}")


class ReportRejectedError(AlcovePrivacyError):
    """A report is left out of the batch.

    Attributes:
        error: a `ReportError` of `alcove.privacy.dap.messages`.
        label: under which it is counted; the error's name, unless there is a finer one.
    """

    def __init__(self, error: "ReportError", reason: str, label: str | None = None) -> None:
        self.error = error
        self.label = label or error.name.lower()
        self.reason = reason
        super().__init__(f"{error.name.lower()}: {reason}")


class HpkeError(AlcovePrivacyError):
    """A ciphertext cannot be opened, or a key is none."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class VdafError(AlcovePrivacyError):
    """A share or a message of Prio3 is unusable."""


class VdafDecodeError(VdafError):
    """Bytes are not the message that they should be."""

    def __init__(self, *, what: str, bound: str, value: object) -> None:
        self.what = what
        self.bound = bound
        self.value = value
        super().__init__(f"{what} must be {bound}, not {value!r}")


class VdafVerificationError(VdafError):
    """A report's proof does not hold, or its parts do not belong together; the report must not be counted."""

    def __init__(self, *, check: str, reason: str) -> None:
        self.check = check
        self.reason = reason
        super().__init__(f"the report is not valid: {check}: {reason}")


class TokenError(AlcovePrivacyError):
    """A token, or a step to one, is unusable."""


class TokenMessageError(TokenError, MessageError):
    """Bytes are not the message of tokens that they should be."""


class TokenKeyError(TokenError):
    """A key cannot serve for tokens."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the key is not for tokens: {reason}")


class TokenIssuanceError(TokenError):
    """A step from a request to a token failed; there is no token."""

    def __init__(self, *, step: str, reason: str) -> None:
        self.step = step
        self.reason = reason
        super().__init__(f"{step}: {reason}")


class TokenVerificationError(TokenError):
    """A token is not valid for what it is shown for."""

    def __init__(self, *, check: str, reason: str) -> None:
        self.check = check
        self.reason = reason
        super().__init__(f"the token is not valid: {check}: {reason}")


class LedgerError(AlcovePrivacyError):
    """The device's ledger gives no budget."""


class BudgetExceededError(LedgerError):
    """A debit would pass the cap of a period; nothing was spent."""

    def __init__(self, *, period: str, cap: str, spent: str, cost: str) -> None:
        self.period = period
        self.cap = cap
        self.spent = spent
        self.cost = cost
        super().__init__(f"epsilon per {period} is at most {cap}; {spent} is spent, and this report costs {cost}")


class AlreadyReportedError(LedgerError):
    """A window of a task has had its one report; nothing was spent."""

    def __init__(self, *, task_id: str, window: int) -> None:
        self.task_id = task_id
        self.window = window
        super().__init__(f"task {task_id} had its report for window {window}")


class LedgerStorageError(LedgerError):
    """The ledger could not be read, written or synced; what was in hand counts as spent if any byte was written."""

    def __init__(self, *, step: str, path: str, reason: str) -> None:
        self.step = step
        self.path = path
        self.reason = reason
        super().__init__(f"ledger {path}: {step} failed: {reason}")
