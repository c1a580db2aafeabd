"""Provides the client that an app holds: it syncs, makes feature handles, and reports.

    Client ─┬─ sync() ─────▶ sync.py ─▶ installer.py ─▶ slots.py          network: here and in report() only
            ├─ feature() ──▶ active_models.py ─▶ handle.py, engine.py           disk and runtime only
            ├─ report() ───▶ reports.py ─▶ privacy/
            └─ privacy_summary()

An outcome that the app records goes to history.py, and where the device is in a comparison to reports.py.

Importing this loads neither the network's libraries nor the signed tree's nor the runtime; each comes with the first
call that needs it.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from alcove.privacy.entropy import Entropy, OsEntropy
from alcove.registry.policy.attributes import NO_ATTRIBUTES, DeviceAttributes, coarse
from alcove.registry.policy.outcome import Outcome
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.clock import Clock, SystemClock
from alcove.sdk.active_models import ActiveModels
from alcove.sdk.consent import Consent
from alcove.sdk.contract import Contract, generic_value
from alcove.sdk.engine import Engine, NativeEngine, Runnable
from alcove.sdk.errors import (
    ClosedError,
    DeviceStorageError,
    OutOfBoundError,
    StatusError,
    TransportError,
)
from alcove.sdk.freshness import Freshness
from alcove.sdk.handle import FeatureHandle, Measurement
from alcove.sdk.history import History
from alcove.sdk.identity import installation_secret
from alcove.sdk.limits import ASYNC_WORKERS, CLOSE_WAIT_S, MAX_DEADLINE_MS, MAX_QUESTIONS, MAX_STALE_S
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files
from alcove.sdk.summary import PrivacySummary, RequestCounter
from alcove.sdk.transport import OutboundRequest, RequestObserver, TrafficStats, Transport, check_server

if TYPE_CHECKING:
    from alcove.privacy.ledger import BudgetLimits
    from alcove.registry.client import RepositoryClient
    from alcove.sdk.assignments import Assignments
    from alcove.sdk.background import BackgroundSync, Turn
    from alcove.sdk.bounded import BoundedTransport
    from alcove.sdk.questions import Questions
    from alcove.sdk.reports import Reporter, ReportResult
    from alcove.sdk.sync import SyncResult

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)


class Client:
    """An app's client; safe for several threads, and for several processes with one data folder, forked ones too.

    A forked child syncs and reports in the background only where it begins to itself.

    Nothing leaves the device before `sync`, `report` or `start_background_sync` is called.  Features, predictions and
    outcomes never wait for a sync.

    Args:
        app: the app's name in the policy.
        data_dir: the app's private folder for this client, and nothing else's; made when absent.
        server: address of the static tree; https, or http for loopback.
        trusted_root: root metadata that ships with the app: a path or the bytes; read at the first sync.
        baselines: programs that ship with the app, by feature; beside them the features that alcove brings.
        device: what the app knows of the device, for audiences.  It is compared here, memory in coarse steps, and never
            sent; that the device takes part in something tells that it is in its audience, at most four such answers
            in 30 days.
        max_stale_s: longest time, in seconds, for which what was installed answers without word from the server; then
            the app's own models do, with the reason "stale", until the next sync that goes well.  At least a day; None:
            for ever, so that anyone who holds the network can hide a halt for ever.
        clock: the device's clocks.
        entropy: source of unpredictable bytes.
        limits: the caps of the privacy budget; the defaults if omitted.
        observer: hears of every request that leaves.
        files: the disk.
        engine: runs programs.
        transport: makes the way to the server from its counters; HTTP unless tests bring their own.

    Raises:
        InsecureServerError: the server's address is refused.
        ForeignFolderError: the data folder holds something that is not the SDK's; nothing in it was touched.
        OutOfBoundError: `max_stale_s` is below a day, or no number.
        DeviceStorageError: the data folder cannot be made.
    """

    def __init__(
        self,
        app: str,
        data_dir: Path | str,
        server: str,
        trusted_root: Path | str | bytes,
        *,
        baselines: Mapping[str, Path] | None = None,
        device: DeviceAttributes = NO_ATTRIBUTES,
        max_stale_s: float | None = MAX_STALE_S,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        limits: "BudgetLimits | None" = None,
        observer: RequestObserver | None = None,
        files: Files | None = None,
        engine: Engine | None = None,
        transport: Callable[[TrafficStats, RequestObserver], Transport] | None = None,
    ) -> None:
        self.app = app
        self.server = check_server(server)
        self._trusted_root = trusted_root
        self._device = coarse(device)
        self._clock = clock or SystemClock()
        self._entropy = entropy or OsEntropy()
        self._limits = limits
        self._observer = observer
        self._files = files or Files()
        self._closing = Cancellation()
        self._engine = engine or NativeEngine(self._closing)
        self._make_transport = transport
        self._slots = SlotStore(Path(data_dir), self._files)
        self._freshness = Freshness(Path(data_dir), self._files, self._clock, max_stale_s)
        self._slots.prepare()
        self._freshness.check()
        self._history = History(self._slots.folder / "reports", self._files)
        self._consent = Consent(self._slots.folder / "reports", self._files)
        shipped = MappingProxyType({name: Path(path) for name, path in (baselines or {}).items()})
        self._active_models = ActiveModels(self._slots, self._engine, shipped, lambda: self._freshness.is_overdue)
        self._traffic = TrafficStats()
        self._sent = RequestCounter()
        # A sync holds the first for long.  Nobody loads, imports or waits for the network under the last.
        self._sync_lock = threading.Lock()
        self._transport_lock = threading.Lock()
        self._reporter_lock = threading.Lock()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[SyncResult], None]] = []
        self._is_current = False
        self._last_sync: SyncResult | None = None
        self._transport: Transport | None = None
        self._updater: Callable[[], SyncResult] | None = None
        self._bounds: BoundedTransport | None = None
        self._reporter: Reporter | None = None
        self._executor: Executor | None = None
        self._background: tuple[BackgroundSync, ...] = ()
        self._is_closed = False
        _LIVING.add(self)

    @overload
    def feature(self, feature: str, *, deadline_ms: float | None = None) -> FeatureHandle[Any]: ...
    @overload
    def feature(self, feature: type[Contract[T]], *, deadline_ms: float | None = None) -> FeatureHandle[T]: ...
    @overload
    def feature(self, feature: Contract[T], *, deadline_ms: float | None = None) -> FeatureHandle[T]: ...
    def feature(self, feature: Any, *, deadline_ms: float | None = None) -> FeatureHandle[Any]:
        """Return the handle of a feature, ready to answer; never uses the network.

        Args:
            feature: its name, or its contract (`LanguageId`), which makes answers typed.
            deadline_ms: longest time that a prediction of this handle may take, in milliseconds, > 0; a later one
                answers with `AnswerError.DEADLINE_EXCEEDED`.  None, as by default: however long it takes.

        Raises:
            OutOfBoundError: the deadline is not positive, or no number.
            UnknownFeatureError: neither installed nor shipped with the app or alcove.
            ClosedError: the client was closed.
        """
        self._check_open()
        if deadline_ms is not None and not 0 < deadline_ms <= MAX_DEADLINE_MS:
            raise OutOfBoundError(name="deadline_ms", bound=f"above 0, at most {MAX_DEADLINE_MS}", value=deadline_ms)
        contract: Contract[Any] | None = None
        if isinstance(feature, str):
            name = feature
        else:
            contract = made = feature() if isinstance(feature, type) else feature
            name = made.name
        contract = contract or self._active_models.known_contract(name)
        if contract is not None:
            self._active_models.register_contract(name, contract)
        model_ref = self._active_models.model_ref(name, contract)
        decode = _generic_decode if contract is None else partial(_typed_decode, contract)
        return FeatureHandle(
            name,
            model_ref,
            decode=decode,
            clock=self._clock,
            executor=self._open_executor,
            record=self._record,
            closing=self._closing,
            watch=self._watch,
            deadline_s=None if deadline_ms is None else deadline_ms / 1000,
        )

    def sync(self) -> "SyncResult":
        """Read the signed tree and install what the policy says; handles answer with it from then on.

        Raises nothing for transient failures, a refused version or a full disk: the result has the error, and what was
        installed before stays.  One sync at a time; others wait for it.

        Raises:
            ClosedError: the client was closed.
        """
        self._check_open()
        with self._sync_lock:
            self._traffic.asked_wait_s = 0.0
            before = replace(self._traffic)
            run = self._make_updater()
            self._check_open()
            result = run()
            self._last_sync = result
            self._freshness.check()
            self._active_models.refresh()
            # A version that was refused leaves the policy as true as it was.
            self._is_current = result.error is None or bool(result.refused)
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(result)
        return replace(
            result,
            bytes_received=self._traffic.received_bytes - before.received_bytes,
            bytes_sent=self._traffic.sent_bytes - before.sent_bytes,
            retry_after_s=self._traffic.asked_wait_s,
        )

    @property
    def is_stale(self) -> bool:
        """Tell whether what this device knows of the server has expired; False before anything was ever installed.

        A tree is fresh for a day.  While this is True a halt may have been missed: anyone who holds the network can
        hide one.  After `max_stale_s` the app's own models answer.  It is kept on the disk, and no clock that is held
        or set back makes it False; one that is set forward makes it True.
        """
        return self._freshness.is_stale

    @property
    def last_sync(self) -> "SyncResult | None":
        """Return how the last sync of this process went, in the background too; None before the first."""
        return self._last_sync

    def assignments(self) -> "Assignments | None":
        """Return what the policy on this device assigns to it; None before one was ever seen; uses no network.

        Raises:
            DeviceStorageError: the disk failed.
            ClosedError: the client was closed.
        """
        from alcove.privacy.errors import LedgerStorageError  # noqa: PLC0415
        from alcove.registry.errors import RegistryError  # noqa: PLC0415 - loaded by the sync
        from alcove.sdk.assignments import assignments_of  # noqa: PLC0415 - loads pydantic

        self._check_open()
        tree = self._open_repository(self._open_transport())
        try:
            policy, halt = tree.read_stored_policy(self.app), tree.read_stored_halt(self.app)
        except RegistryError as error:
            raise DeviceStorageError(step="read", path="metadata", reason=str(error)) from error
        if policy is None:
            return None
        secret = installation_secret(self._slots.identity_path, self._files, self._entropy)
        try:
            return assignments_of(
                policy,
                halt,
                secret,
                self._open_questions().was_in,
                is_current=self._is_current,
                is_in_experiments=self._consent.is_given,
            )
        except LedgerStorageError as error:
            raise DeviceStorageError(step="read", path=error.path, reason=error.reason) from error

    def add_sync_listener(self, listener: "Callable[[SyncResult], None]") -> Callable[[], None]:
        """Have `listener` called after each sync, on the thread that synced; return what ends that.

        The result it hears counts no bytes yet.  What it raises, the caller of `sync` gets.
        """
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def report(self) -> "ReportResult":
        """Send what is due of the recorded outcomes: one randomized cell a task and window, paid for beforehand.

        All at once, each on a connection of its own.  Where a device takes part in several comparisons, the background
        (`start_background_sync`) sends them one at a time at random, so that their moment does not tie them together.

        Raises nothing for transient failures or a spent budget: the result says it.

        Raises:
            ClosedError: the client was closed.
        """
        self._check_open()
        return self._open_reporter().report(self._open_transport())

    @property
    def reports(self) -> bool:
        """Tell whether this device may record and report; True until `set_reports(False)`."""
        return self._consent.is_given

    def set_reports(self, is_on: bool) -> None:
        """Let this device report, or let it not: because its user opted in or out.  It is kept on the disk.

        Off: what was recorded and not sent is removed, as by `forget_reports`; nothing is recorded and nothing is sent,
        by this process or another, until it is on again; and from the next sync on the device takes part in no
        experiment, so that it downloads nothing for any and answers none of their audiences.  It follows rollouts as
        before, because they bring the versions that it is to have, and reports nothing of them.  A report that is on
        its way to the server at that moment arrives.  An app that needs consent turns reports off before any sync.

        Raises:
            DeviceStorageError: the disk failed; off, nothing is sent by this process all the same, but the next may.
            ClosedError: the client was closed.
        """
        self._check_open()
        if is_on:
            self._consent.give()
            return
        try:
            self._consent.refuse()
        finally:
            self._open_reporter().forget()

    def forget_reports(self) -> None:
        """Remove what was recorded and not sent; spent budget stays spent, and the next outcome is recorded again.

        How earlier answers fared is forgotten too.  A user who wants no more reports: `set_reports(False)`.

        Raises:
            DeviceStorageError: the disk failed.
            ClosedError: the client was closed.
        """
        self._check_open()
        self._open_reporter().forget()

    def privacy_summary(self) -> PrivacySummary:
        """Return what left this device, in numbers.

        Raises:
            LedgerStorageError: the ledger cannot be read.
        """
        spent = self._open_reporter().ledger.spending()
        limits = self._budget_limits()
        return PrivacySummary(
            bytes_sent=self._traffic.sent_bytes,
            requests=self._sent.requests(),
            report_bytes_sent=self._sent.body_bytes,
            reports_made=spent.reports,
            epsilon_day=spent.day,
            epsilon_30_days=spent.thirty_days,
            epsilon_total=spent.total,
            epsilon_cap_day=limits.per_day,
            epsilon_cap_30_days=limits.per_30_days,
            is_reporting=self._consent.is_given,
            answers_30_days=self._open_questions().count_answers(),
            answers_cap_30_days=MAX_QUESTIONS,
        )

    def start_background_sync(self, interval_s: float) -> None:
        """Sync and report, each on its own thread, about every `interval_s` seconds; again: with another interval.

        Reports go one at a time, at times drawn at random over the interval.

        While the server cannot be reached or refuses, the interval doubles each time, up to 16 hours; where it says
        how long it wants to be left alone, no sync comes before, except for at most 12 hours.  With the jitter two
        syncs are a day apart at most, unless the interval is longer.

        Raises:
            OutOfBoundError: the interval is shorter than a second.
            ClosedError: the client was closed.
        """
        from alcove.sdk.background import BackgroundSync  # noqa: PLC0415 - many apps schedule syncs themselves

        self._check_open()
        background = (
            BackgroundSync(self._sync_turn, interval_s, self._entropy),
            BackgroundSync(self._report_turn, interval_s, self._entropy, name="alcove-report"),
        )
        with self._lock:
            before, self._background = self._background, background
        for thread in before:
            thread.cancel()
        for thread in background:
            thread.start()

    def stop_background_sync(self) -> None:
        """End the background sync; nothing if there is none.

        The one at hand is cancelled (what was downloaded stays) and waited for, a second at most.
        """
        with self._lock:
            background, self._background = self._background, ()
        for thread in background:
            thread.cancel()
        if background:
            self._cancel_sync()
        for thread in background:
            thread.stop(CLOSE_WAIT_S / len(background))

    def close(self) -> None:
        """Let go of threads and connections; handles made before still predict, on the caller's thread.

        A sync at hand, on whichever thread, is cancelled: its result has a `ClosedError`; what was downloaded stays.
        So is what runs on this client's threads: a prediction there answers with `AnswerError.CANCELLED`, a check of a
        program ends with nothing learned.
        """
        self._closing.cancel()
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
        self._cancel_sync(is_for_good=True)
        with self._transport_lock:
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        self.stop_background_sync()
        if executor is not None:
            executor.shutdown()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_in_child(self) -> None:
        """Hold nothing in a forked child that only the parent's threads could give back, nor a socket of theirs."""
        self._sync_lock, self._transport_lock = threading.Lock(), threading.Lock()
        self._reporter_lock, self._lock = threading.Lock(), threading.Lock()
        self._freshness.begin_in_child()
        self._transport = self._updater = self._bounds = self._reporter = self._executor = None
        self._background = ()

    def _cancel_sync(self, *, is_for_good: bool = False) -> None:
        bounds = self._bounds
        if bounds is not None:
            bounds.cancel(is_for_good=is_for_good)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError

    def _watch(self, reading_ns: int) -> None:
        """Let go of what is installed once the server was not heard for too long (freshness.py)."""
        if reading_ns >= self._freshness.overdue_at_ns and self._freshness.check():
            self._active_models.refresh()

    def _forget_if_refused(self) -> None:
        if not self._consent.is_given:  # the user said no meanwhile
            self._history.forget()

    def _record(self, measurement: Measurement) -> None:
        if not self._consent.is_given:
            return
        if measurement.outcome in (Outcome.ACCEPTED, Outcome.REFUSED):
            self._history.note(measurement.feature, is_accepted=measurement.outcome is Outcome.ACCEPTED)
            self._forget_if_refused()
        if measurement.active.task is not None:
            self._open_reporter().record(measurement)

    def _sync_turn(self) -> "Turn":
        from alcove.registry.errors import FetchError  # noqa: PLC0415 - loaded by the sync
        from alcove.sdk.background import Turn  # noqa: PLC0415 - loaded by the caller that started it

        with suppress(ClosedError):
            result = self.sync()
            if result.error is not None and not isinstance(result.error, ClosedError):
                # Its fields are the server's and the disk's; nothing that a person wrote is in a sync.
                stale = "; what is installed is stale" if self.is_stale else ""
                _LOG.warning("a background sync ended: %s: %s%s", type(result.error).__name__, result.error, stale)
            is_failed = isinstance(result.error, (TransportError, StatusError, FetchError))
            return Turn(is_failed=is_failed, asked_wait_s=result.retry_after_s)
        return Turn()

    def _report_turn(self) -> "Turn":
        """Send one of the reports that wait."""
        from alcove.sdk.background import Turn  # noqa: PLC0415 - loaded by the caller that started it

        with suppress(ClosedError):
            self._check_open()
            result = self._open_reporter().report(self._open_transport(), most=1)
            asked_wait_s = result.error.retry_after_s if isinstance(result.error, StatusError) else None
            is_failed = isinstance(result.error, (TransportError, StatusError))
            return Turn(is_failed=is_failed, asked_wait_s=asked_wait_s or 0.0, left=result.waiting)
        return Turn()

    def _open_transport(self) -> Transport:
        with self._transport_lock:
            self._check_open()
            if self._transport is None:
                if self._make_transport is not None:
                    self._transport = self._make_transport(self._traffic, self._on_sent)
                else:
                    from alcove.sdk.egress import Egress  # noqa: PLC0415 - loads the network's libraries

                    self._transport = Egress(self.server, traffic=self._traffic, observer=self._on_sent)
            return self._transport

    def _on_sent(self, sent: OutboundRequest) -> None:
        self._sent(sent)
        if self._observer is not None:
            self._observer(sent)

    def _make_updater(self) -> "Callable[[], SyncResult]":
        """Return what syncs, made once; its caller holds `_sync_lock`."""
        if self._updater is None:
            from alcove.sdk.bounded import BoundedTransport  # noqa: PLC0415 - as the sync
            from alcove.sdk.installer import Installer  # noqa: PLC0415 - loads pydantic
            from alcove.sdk.sync import Updater  # noqa: PLC0415

            transport = self._open_transport()
            bounds = self._bounds = BoundedTransport(transport, self._clock)
            self._updater = Updater(
                self.app,
                self._slots,
                Installer(self._slots, self._files, bounds, self._engine),
                partial(self._open_repository, bounds),
                partial(installation_secret, self._slots.identity_path, self._files, self._entropy),
                bounds=bounds,
                on_withdrawn=self._active_models.refresh,
                freshness=self._freshness,
                history=self._history,
                questions=self._open_questions(),
                consent=self._consent,
            ).run
        return self._updater

    def _open_questions(self) -> "Questions":
        from alcove.sdk.ledger_file import LedgerFile  # noqa: PLC0415 - loaded by the sync
        from alcove.sdk.questions import Questions  # noqa: PLC0415

        log = LedgerFile(self._slots.folder / "reports" / "questions.jsonl", self._files)
        return Questions(log, self._clock, self._device)

    def _open_repository(self, transport: Transport) -> "RepositoryClient":
        from alcove.sdk.repository import open_repository  # noqa: PLC0415 - loads tuf

        return open_repository(
            self._slots.metadata_folder,
            server=self.server,
            trusted_root=self._root_bytes(),
            transport=transport,
            clock=self._clock,
            floor=self._freshness.floor_s,
            files=self._files,
        )

    def _root_bytes(self) -> bytes:
        if isinstance(self._trusted_root, bytes):
            return self._trusted_root
        path = Path(self._trusted_root)
        try:
            return path.read_bytes()
        except OSError as error:
            raise DeviceStorageError(step="read", path=path.name, reason=str(error)) from error

    def _open_reporter(self) -> "Reporter":
        with self._reporter_lock:
            if self._reporter is None:
                from alcove.sdk.reports import Reporter  # noqa: PLC0415 - loads numpy and pydantic

                self._reporter = Reporter(
                    self._slots.folder / "reports",
                    self._files,
                    self._clock,
                    self._entropy,
                    self._budget_limits(),
                    history=self._history,
                    consent=self._consent,
                )
            return self._reporter

    def _budget_limits(self) -> "BudgetLimits":
        from alcove.privacy.ledger import BudgetLimits  # noqa: PLC0415

        return self._limits or BudgetLimits()

    def _open_executor(self) -> Executor:
        with self._lock:
            self._check_open()
            if self._executor is None:
                self._executor = ThreadPoolExecutor(ASYNC_WORKERS, thread_name_prefix="alcove-predict")
            return self._executor


_LIVING: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _begin_all_in_child() -> None:
    for client in list(_LIVING):
        client._begin_in_child()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_begin_all_in_child)


def _typed_decode(contract: Contract[T], _: Runnable, outputs: list[Any]) -> T:
    return contract.decode(outputs)


def _generic_decode(model: Runnable, outputs: list[Any]) -> dict[str, Any]:
    return generic_value(model.outputs, outputs)
