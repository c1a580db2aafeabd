"""Takes what an app says of its answers, as far as the device's user consents, and sends what is due.

record ─▶ consent ─ yes ─┬─▶ history.py: how a feature's answers fared
              └ no: gone └─▶ reports.py: where the device is in a comparison; loaded when it first is
note ─▶ heartbeats.py: in memory, that a version answered ─▶ write_heartbeats ─▶ reports.py
"""

import threading
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.privacy.entropy import Entropy
from alcove.registry.policy.outcome import Outcome
from alcove.runtime.clock import Clock
from alcove.sdk.aggregators import AggregatorPair
from alcove.sdk.consent import Consent
from alcove.sdk.handle import ActiveModel, Measurement
from alcove.sdk.heartbeats import Heartbeats
from alcove.sdk.history import History
from alcove.sdk.metric_records import MetricCounter, MetricRecord, is_asked, is_fit
from alcove.sdk.participation import Participation
from alcove.sdk.storage import Files

if TYPE_CHECKING:
    from alcove.privacy.budget import BudgetLimits
    from alcove.sdk.reports import Reporter
    from alcove.sdk.tokens import Attestation

__all__ = ["Outcomes"]


class Outcomes:
    """What was recorded on one device; safe for several threads.

    Attributes:
        history: how answers fared.
        consent: whether the device may record and report.
        participation: the tasks with aggregators that the device takes part in.
        metrics: what became of records of the app's own metrics, in this process.

    Args:
        folder: of the reports; it exists.
        files: the disk.
        clock: gives the windows.
        entropy: source of unpredictable bytes.
        limits: the caps of the privacy budget; None: the defaults.
        aggregators: those that the app names.
        attestation: gives the platform's evidence to an issuer of tokens; None: there is none.
    """

    def __init__(
        self,
        folder: Path,
        files: Files,
        clock: Clock,
        entropy: Entropy,
        limits: "BudgetLimits | None",
        *,
        aggregators: Collection[AggregatorPair] = (),
        attestation: "Attestation | None" = None,
    ) -> None:
        self.history = History(folder, files)
        self.consent = Consent(folder, files)
        self.participation = Participation(folder, files, clock, entropy, consent=self.consent)
        self.metrics = MetricCounter()
        self._aggregators = aggregators
        self._attestation = attestation
        self._folder = folder
        self._files = files
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._lock = threading.Lock()
        self._reporter: Reporter | None = None
        self._heartbeats = Heartbeats(clock, entropy)

    @property
    def limits(self) -> "BudgetLimits":
        """The caps of the privacy budget."""
        from alcove.privacy.budget import BudgetLimits  # noqa: PLC0415 - loaded with the reports

        return self._limits or BudgetLimits()

    def record(self, measurement: Measurement) -> None:
        """Keep an outcome, unless the user said no."""
        if not self.consent.is_given:
            return
        if measurement.outcome in (Outcome.ACCEPTED, Outcome.REFUSED):
            self.history.note(measurement.feature, is_accepted=measurement.outcome is Outcome.ACCEPTED)
            self._forget_if_refused()
        if measurement.active.task is not None:
            self.open_reporter().record(measurement)

    def record_metric(self, record: MetricRecord) -> None:
        """Keep a record of a metric that the device's task asks for, unless the user said no."""
        if not self.consent.is_given:
            return
        if not is_asked(record):
            self.metrics.count(record, "unasked")
        elif not is_fit(record):
            self.metrics.count(record, "unfit")
        else:
            self.metrics.count(record, "kept")
            self.open_reporter().record_metric(record)

    def note(self, active: ActiveModel, latency_ms: float) -> None:
        """Note in memory that a version answered."""
        self._heartbeats.note(active, latency_ms)

    def write_heartbeats(self) -> None:
        """Keep what was noted in memory, unless the user said no; nothing noted: nothing is loaded or written."""
        heartbeats = self._heartbeats.take()
        if heartbeats and self.consent.is_given:
            self.open_reporter().record_heartbeats(heartbeats)

    def forget(self) -> None:
        """Remove what was recorded and not sent; spent budget stays spent.

        Raises:
            DeviceStorageError: the disk failed.
        """
        self._heartbeats.take()
        self.open_reporter().forget()

    def set_consent(self, is_given: bool) -> None:
        """Let the device record and report, or let it not and remove what was kept.

        Raises:
            DeviceStorageError: the disk failed; a no holds for this process.
        """
        if is_given:
            self.consent.give()
            return
        try:
            self.consent.refuse()
        finally:
            self.forget()
            self.participation.forget()

    def open_reporter(self) -> "Reporter":
        """Return what sends the reports, made once."""
        with self._lock:
            if self._reporter is None:
                from alcove.sdk.reports import Reporter  # noqa: PLC0415 - loads numpy and pydantic

                self._reporter = Reporter(
                    self._folder,
                    self._files,
                    self._clock,
                    self._entropy,
                    self.limits,
                    history=self.history,
                    consent=self.consent,
                    participation=self.participation,
                    aggregators=self._aggregators,
                    attestation=self._attestation,
                )
            return self._reporter

    def begin_in_child(self) -> None:
        """Hold no lock of the parent in a forked child."""
        self._lock = threading.Lock()
        self._reporter = None
        self.metrics.begin_in_child()
        self._heartbeats.take()

    def _forget_if_refused(self) -> None:
        if not self.consent.is_given:  # the user said no meanwhile
            self.history.forget()
