"""Summarizes what left this device, in numbers that the egress and the ledger counted themselves."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from alcove.sdk.limits import MAX_QUESTIONS
from alcove.sdk.transport import OutboundRequest

PROMISE = (
    "Inputs and answers never leave this device. A report is one cell of arm x outcome x latency. It is randomized:"
    " whatever the servers do, it changes what anyone can infer about this device by at most a factor e^epsilon. Or,"
    " where the policy names two aggregators that this app trusts, it is shared between them: neither can read it, only"
    " noised sums of many devices are released, and what anyone can infer from them changes by at most that factor, for"
    " everybody but the two together; every window is then reported, whether anything happened or not. That"
    " there is a report, or a download of a version too large for everybody, tells that the device takes part: it is"
    " in the audience that the policy names, and where arms are too large to hide, in which arm. A device gives at"
    f" most {MAX_QUESTIONS} such answers, yes or no, in 30 days. Downloads tell besides, coarsely, what variants need:"
    " memory, cores, instruction set."
)


@dataclass(frozen=True, slots=True)
class RequestCount:
    """Requests of one kind.

    Attributes:
        method: "GET" or "POST".
        kind: first folder of the path: "metadata", "targets", "blobs", "reports"; at aggregators "hpke_config" and
            "tasks".
        count: requests.
        bytes_sent: every byte of them, headers included, before encryption.
    """

    method: str
    kind: str
    count: int
    bytes_sent: int


@dataclass(frozen=True, slots=True)
class PrivacySummary:
    """What left the device.

    Attributes:
        bytes_sent: every byte since this client was made.
        requests: the same, by kind.
        report_bytes_sent: bytes of the reports themselves, bodies only, since this client was made.
        reports_made: reports that the ledger paid for, ever.
        epsilon_day, epsilon_30_days, epsilon_total: budget spent in the last 24 hours, the last 30 days, and ever.
        epsilon_cap_day, epsilon_cap_30_days: the caps over all tasks; that of a day is the largest report's where the
            app allows one that is larger.
        is_reporting: the device may record and report; False: its user opted out, or something is pinned on it.
        answers_30_days: audiences, and arms too large to hide, that the device answered to in the last 30 days.
        answers_cap_30_days: the cap over all features.
        debug_overrides: what is pinned on a test device, by feature: "version 1.1.0"; empty on any other.
        promise: the guarantee as a sentence for people.
    """

    bytes_sent: int
    requests: tuple[RequestCount, ...]
    report_bytes_sent: int
    reports_made: int
    epsilon_day: Fraction
    epsilon_30_days: Fraction
    epsilon_total: Fraction
    epsilon_cap_day: Fraction
    epsilon_cap_30_days: Fraction
    is_reporting: bool
    answers_30_days: int
    answers_cap_30_days: int
    debug_overrides: Mapping[str, str] = field(default_factory=dict)
    promise: str = PROMISE

    def to_json(self) -> dict[str, Any]:
        """Return the same as values that `json.dumps` takes; epsilon as exact text, "2" or "1/4"."""
        values = {name: str(value) if isinstance(value, Fraction) else value for name, value in asdict(self).items()}
        return values | {"requests": [asdict(request) for request in self.requests]}


class RequestCounter:
    """Counts requests as they leave; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()
        self._body_bytes = 0

    def __call__(self, sent: OutboundRequest) -> None:
        """Count one request."""
        kind = (sent.method, sent.path.lstrip("/").partition("/")[0])
        with self._lock:
            self._counts[kind] += 1
            self._bytes[kind] += len(sent.wire)
            self._body_bytes += len(sent.body)

    def requests(self) -> tuple[RequestCount, ...]:
        """Return the counts so far, by kind."""
        with self._lock:
            return tuple(RequestCount(*kind, self._counts[kind], self._bytes[kind]) for kind in sorted(self._counts))

    @property
    def body_bytes(self) -> int:
        """Return the bytes of all bodies so far."""
        with self._lock:
            return self._body_bytes
