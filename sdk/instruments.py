"""Tells an app's own monitoring how the client fares, through two methods that counters and histograms of any kind fit.

    name                          kind        unit          attributes
    alcove.predictions            counter     {prediction}  feature, version, reason; error.type where there is no value
    alcove.prediction.duration    histogram   s             the same
    alcove.syncs                  counter     {sync}        error.type where one ended it
    alcove.sync.duration          histogram   s             the same
    alcove.version.changes        counter     {change}      feature, before, after, reason
    alcove.version.refusals       counter     {refusal}     feature, version, error.type
    alcove.requests               counter     {request}     method, kind: the first folder of the path
    alcove.requests.size          counter     By            the same

Nothing of an input or an answer is among them.  The version and its reason tell which arm the device is in, which
alcove itself never sends: an app that exports these from its users' devices decides to.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from alcove.sdk.sync import SyncResult
    from alcove.sdk.transport import OutboundRequest

__all__ = ["Instruments", "Recorder"]

_LOG: Final = logging.getLogger(__name__)

ERROR: Final = "error.type"
"""The attribute that OpenTelemetry's semantic conventions name so."""


class Instruments(Protocol):
    """An app's counters and histograms, called on whichever thread the event is; they must not wait."""

    def add(self, name: str, amount: int, attributes: Mapping[str, str]) -> None:
        """Add to a counter; `amount` is at least 0."""
        ...

    def record(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Record one value in a histogram."""
        ...


class Recorder:
    """Records a client's events in the app's instruments; what those raise is logged by its type, and goes no further.

    Args:
        instruments: the app's.
    """

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def prediction(self, feature: str, version: str, reason: str, *, latency_ms: float, error: str | None) -> None:
        """Record one answer."""
        attributes = {"feature": feature, "version": version, "reason": reason} | _error(error)
        self._add("alcove.predictions", 1, attributes)
        self._record("alcove.prediction.duration", latency_ms / 1000, attributes)

    def sync(self, result: "SyncResult", seconds: float) -> None:
        """Record one sync and what it changed."""
        attributes = _error(None if result.error is None else type(result.error).__name__)
        self._add("alcove.syncs", 1, attributes)
        self._record("alcove.sync.duration", seconds, attributes)
        for change in result.changed:
            moved = {"before": change.before, "after": change.after, "reason": change.reason}
            self._add("alcove.version.changes", 1, {"feature": change.feature, **moved})
        for refusal in result.refused:
            refused = {"feature": refusal.feature, "version": refusal.version}
            self._add("alcove.version.refusals", 1, refused | _error(type(refusal.error).__name__))

    def request(self, sent: "OutboundRequest") -> None:
        """Record one request that leaves."""
        attributes = {"method": sent.method, "kind": sent.path.lstrip("/").partition("/")[0]}
        self._add("alcove.requests", 1, attributes)
        self._add("alcove.requests.size", len(sent.wire), attributes)

    def _add(self, name: str, amount: int, attributes: Mapping[str, str]) -> None:
        try:
            self._instruments.add(name, amount, attributes)
        except Exception as error:  # noqa: BLE001 - the app's code; a prediction or a sync must not fail by it
            _log(name, error)

    def _record(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        try:
            self._instruments.record(name, value, attributes)
        except Exception as error:  # noqa: BLE001 - as above
            _log(name, error)


def _error(name: str | None) -> dict[str, str]:
    return {} if name is None else {ERROR: name}


def _log(name: str, error: Exception) -> None:
    _LOG.warning("the app's instrument %s raised %s", name, type(error).__name__)
