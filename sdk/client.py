"""Provides the client that an app holds: it syncs, makes feature handles, and reports.

    Client ─┬─ sync() ─────▶ synchronizer.py ─▶ sync.py ─▶ installer.py ─▶ slots.py      network: here and in report()
            ├─ feature() ──▶ active_models.py ─▶ handle.py, engine.py                disk and runtime only
            ├─ report() ───▶ outcomes.py ─▶ reports.py ─▶ privacy/
            └─ privacy_summary()

Importing this loads neither the network's libraries nor the signed tree's nor the runtime; each comes with the first
call that needs it.
"""

import logging
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from alcove.privacy.entropy import Entropy, OsEntropy
from alcove.registry.limits import APP_NAME, APP_NAME_BOUND
from alcove.registry.policy.attributes import NO_ATTRIBUTES, DeviceAttributes, coarse
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.clock import Clock, SystemClock
from alcove.sdk.active_models import ActiveModels
from alcove.sdk.aggregators import AggregatorPair
from alcove.sdk.connection import Connection, TransportMaker
from alcove.sdk.contract import Contract, StreamingContract, TypedContract, decoder_of, known_contracts
from alcove.sdk.debug import NOTHING_PINNED, DebugOverrides
from alcove.sdk.engine import Engine, NativeEngine
from alcove.sdk.errors import OutOfBoundError
from alcove.sdk.freshness import Freshness
from alcove.sdk.handle import FeatureHandle, StreamingHandle, TypedHandle
from alcove.sdk.instruments import Instruments, Recorder
from alcove.sdk.limits import ASYNC_WORKERS, CLOSE_WAIT_S, MAX_DEADLINE_MS, MAX_QUESTIONS, MAX_STALE_S
from alcove.sdk.outcomes import Outcomes
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files
from alcove.sdk.summary import PrivacySummary
from alcove.sdk.synchronizer import Synchronizer
from alcove.sdk.transport import RequestObserver, check_server

if TYPE_CHECKING:
    from alcove.privacy.budget import BudgetLimits
    from alcove.sdk.assignments import Assignments
    from alcove.sdk.background import BackgroundSync
    from alcove.sdk.metric_records import RecordedMetric
    from alcove.sdk.reports import ReportResult
    from alcove.sdk.sync import SyncResult
    from alcove.sdk.tokens import Attestation

P = ParamSpec("P")
F = TypeVar("F")
V = TypeVar("V")
T = TypeVar("T")

logging.getLogger("alcove").addHandler(logging.NullHandler())  # an app that wants no log of ours gets none


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
        aggregators: pairs of aggregators that the app trusts not to conspire; the device reports through these alone,
            whatever the policy names.  Without them it makes no report of a task that names aggregators.
        attestation: gives the platform's evidence (App Attest, Play Integrity) that this is the genuine app, over 32
            bytes that it is called with; asked once, when a task first asks for tokens, on the thread that reports.
            Without it the device makes no report of such a task.
        observer: hears of every request that leaves.
        debug: versions and arms that are pinned on a test device (`debug.py`), which then reports nothing; only builds
            for testers pass it.
        instruments: the app's counters and histograms, for its own monitoring (`instruments.py` lists them).
        files: the disk.
        engine: runs programs.
        transport: makes the way to a server from its address and counters; HTTP unless tests bring their own.

    Raises:
        InsecureServerError: the server's address is refused.
        ForeignFolderError: the data folder holds something that is not the SDK's; nothing in it was touched.
        OutOfBoundError: the app's name is none, or `max_stale_s` is below a day, or no number.
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
        aggregators: Iterable[AggregatorPair] = (),
        attestation: "Attestation | None" = None,
        observer: RequestObserver | None = None,
        instruments: Instruments | None = None,
        debug: DebugOverrides = NOTHING_PINNED,
        files: Files | None = None,
        engine: Engine | None = None,
        transport: TransportMaker | None = None,
    ) -> None:
        if re.fullmatch(APP_NAME, app) is None:
            raise OutOfBoundError(name="app", bound=APP_NAME_BOUND, value=app)
        self.app = app
        self.server = check_server(server)
        self._clock = clock or SystemClock()
        self._entropy = entropy or OsEntropy()
        self._closing = Cancellation()
        self._recorder = None if instruments is None else Recorder(instruments)
        files, engine = files or Files(), engine or NativeEngine(self._closing)
        slots = SlotStore(Path(data_dir), files)
        self._freshness = Freshness(Path(data_dir), files, self._clock, max_stale_s)
        slots.prepare()
        self._freshness.check()
        self._outcomes = Outcomes(
            slots.folder / "reports",
            files,
            self._clock,
            self._entropy,
            limits,
            aggregators=frozenset(aggregators),
            attestation=attestation,
        )
        self._debug = debug
        if debug.pins:
            self._outcomes.consent.refuse_here()
        shipped = MappingProxyType({name: Path(path) for name, path in (baselines or {}).items()})
        self._active_models = ActiveModels(
            slots, engine, shipped, lambda: self._freshness.is_overdue, pinned=debug.pins.keys()
        )
        count = None if self._recorder is None else self._recorder.request
        observers = [one for one in (observer, count) if one is not None]
        self._connection = Connection(self.server, self._clock, self._closing, observers, transport)
        self._synchronizer = Synchronizer(
            app,
            self._connection,
            slots,
            trusted_root=trusted_root,
            files=files,
            clock=self._clock,
            entropy=self._entropy,
            engine=engine,
            device=coarse(device),
            freshness=self._freshness,
            active_models=self._active_models,
            outcomes=self._outcomes,
            recorder=self._recorder,
            debug=debug,
        )
        self._lock = threading.Lock()
        self._executor: Executor | None = None
        self._background: tuple[BackgroundSync, ...] = ()
        _LIVING.add(self)

    @overload
    def feature(self, feature: str, *, deadline_ms: float | None = None) -> FeatureHandle[Any]: ...
    @overload
    def feature(
        self, feature: type[StreamingContract[F, V, T]], *, deadline_ms: float | None = None
    ) -> StreamingHandle[F, V, T]: ...
    @overload
    def feature(
        self, feature: StreamingContract[F, V, T], *, deadline_ms: float | None = None
    ) -> StreamingHandle[F, V, T]: ...
    @overload
    def feature(self, feature: type[TypedContract[P, T]], *, deadline_ms: float | None = None) -> TypedHandle[P, T]: ...
    @overload
    def feature(self, feature: TypedContract[P, T], *, deadline_ms: float | None = None) -> TypedHandle[P, T]: ...
    @overload
    def feature(self, feature: type[Contract[T]], *, deadline_ms: float | None = None) -> FeatureHandle[T]: ...
    @overload
    def feature(self, feature: Contract[T], *, deadline_ms: float | None = None) -> FeatureHandle[T]: ...
    def feature(self, feature: Any, *, deadline_ms: float | None = None) -> FeatureHandle[Any]:
        """Return the handle of a feature, ready to answer; never uses the network.

        Args:
            feature: its name, or its contract (`LanguageId`), which makes the answers of this handle typed, and what it
                takes where the contract says it (`alcove model stub` writes one that does); by its name alone a feature
                of alcove has alcove's contract, any other has none.
            deadline_ms: longest time that a prediction of this handle may take, in milliseconds, > 0; a later one
                answers with `AnswerError.DEADLINE_EXCEEDED`.  None, as by default: however long it takes.

        Raises:
            OutOfBoundError: the deadline is not positive, or no number.
            UnknownFeatureError: neither installed nor shipped with the app or alcove.
            ClosedError: the client was closed.
        """
        self._connection.check_open()
        if deadline_ms is not None and not 0 < deadline_ms <= MAX_DEADLINE_MS:
            raise OutOfBoundError(name="deadline_ms", bound=f"above 0, at most {MAX_DEADLINE_MS}", value=deadline_ms)
        contract: Contract[Any] | None
        if isinstance(feature, str):
            name, contract = feature, known_contracts().get(feature)
        else:
            own: Contract[Any] = feature() if isinstance(feature, type) else feature
            name, contract = own.name, own
        if contract is not None:
            self._active_models.register_contract(name, contract)
        model_ref = self._active_models.model_ref(name, contract)
        encode, framing = getattr(contract, "encode", None), getattr(contract, "framing", None)
        kind: Callable[..., FeatureHandle[Any]] = FeatureHandle
        if framing is not None:
            kind = partial(StreamingHandle, framing=framing)
        elif encode is not None:
            kind = partial(TypedHandle, encode=encode)
        return kind(
            name,
            model_ref,
            decode=decoder_of(contract),
            clock=self._clock,
            executor=self._open_executor,
            record=self._outcomes.record,
            record_metric=self._outcomes.record_metric,
            note=self._outcomes.note,
            closing=self._closing,
            watch=self._watch,
            recorder=self._recorder,
            deadline_s=None if deadline_ms is None else deadline_ms / 1000,
            stand_ins=partial(self._active_models.stand_ins, name),
            other_arm=partial(self._active_models.other_arm, name),
        )

    def sync(self) -> "SyncResult":
        """Read the signed tree and install what the policy says; handles answer with it from then on.

        Raises nothing for transient failures, a refused version or a full disk: the result has the error, and what was
        installed before stays.  One sync at a time; others wait for it.

        Raises:
            ClosedError: the client was closed.
        """
        self._connection.check_open()
        self._outcomes.write_heartbeats()
        return self._synchronizer.run()

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
        return self._synchronizer.last_result

    def assignments(self) -> "Assignments | None":
        """Return what the policy on this device assigns to it; None before one was ever seen; uses no network.

        Raises:
            DeviceStorageError: the disk failed.
            ClosedError: the client was closed.
        """
        self._connection.check_open()
        return self._synchronizer.read_assignments()

    def add_sync_listener(self, listener: "Callable[[SyncResult], None]") -> Callable[[], None]:
        """Have `listener` called after each sync, on the thread that synced; return what ends that.

        The result it hears counts no bytes yet.  What it raises, the caller of `sync` gets.
        """
        return self._synchronizer.add_listener(listener)

    def report(self) -> "ReportResult":
        """Send what is due of the recorded outcomes: one cell a task and window, paid for beforehand.

        The cell is randomized, or, where the task names two aggregators that the app trusts, shared between them.  Of
        such a task every finished window is reported, also one in which nothing was recorded, at a time of the next
        window that was drawn at random: call this more often than once a window, or leave it to the background.

        All at once, each on a connection of its own.  Where a device takes part in several comparisons, the background
        (`start_background_sync`) sends them one at a time at random, so that their moment does not tie them together.

        Raises nothing for transient failures or a spent budget: the result says it.

        Raises:
            ClosedError: the client was closed.
        """
        return self._report()

    @property
    def reports(self) -> bool:
        """Tell whether this device may record and report; True until `set_reports(False)`."""
        return self._outcomes.consent.is_given

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
        self._connection.check_open()
        self._outcomes.set_consent(is_on)

    def forget_reports(self) -> None:
        """Remove what was recorded and not sent; spent budget stays spent, and the next outcome is recorded again.

        How earlier answers fared is forgotten too.  A user who wants no more reports: `set_reports(False)`.

        Raises:
            DeviceStorageError: the disk failed.
            ClosedError: the client was closed.
        """
        self._connection.check_open()
        self._outcomes.forget()

    def privacy_summary(self) -> PrivacySummary:
        """Return what left this device, in numbers.

        Raises:
            LedgerStorageError: the ledger cannot be read.
        """
        spent = self._outcomes.open_reporter().ledger.spending()
        limits, connection = self._outcomes.limits, self._connection
        return PrivacySummary(
            bytes_sent=connection.traffic.sent_bytes + connection.aggregator_traffic.sent_bytes,
            requests=connection.requests.requests(),
            report_bytes_sent=connection.requests.body_bytes,
            reports_made=spent.reports,
            epsilon_day=spent.day,
            epsilon_30_days=spent.thirty_days,
            epsilon_total=spent.total,
            epsilon_cap_day=limits.largest_report,
            epsilon_cap_30_days=limits.per_30_days,
            is_reporting=self._outcomes.consent.is_given,
            answers_30_days=self._synchronizer.open_questions().count_answers(),
            answers_cap_30_days=MAX_QUESTIONS,
            debug_overrides=self._debug.to_json(),
        )

    def recorded_metrics(self) -> "tuple[RecordedMetric, ...]":
        """Return what became of the records of the app's own metrics (`handle.record`), by name, in this process.

        A name that is never `kept` on any device is one that no task asks for, or that is spelled otherwise there.
        """
        return self._outcomes.metrics.records()

    def start_background_sync(self, interval_s: float) -> None:
        """Sync and report, each on its own thread, about every `interval_s` seconds; again: with another interval.

        Reports go one at a time, at times drawn at random over the interval; those of two aggregators over the window
        after their own.

        While the server cannot be reached or refuses, the interval doubles each time, up to 16 hours; where it says
        how long it wants to be left alone, no sync comes before, except for at most 12 hours.  With the jitter two
        syncs are a day apart at most, unless the interval is longer.

        Raises:
            OutOfBoundError: the interval is shorter than a second.
            ClosedError: the client was closed.
        """
        # Many apps schedule syncs themselves.
        from alcove.sdk.background import BackgroundSync, report_turn, sync_turn  # noqa: PLC0415

        self._connection.check_open()
        send = partial(report_turn, partial(self._report, most=1))
        background = (
            BackgroundSync(partial(sync_turn, self), interval_s, self._entropy),
            BackgroundSync(send, interval_s, self._entropy, name="alcove-report"),
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
            self._connection.cancel_sync()
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
            executor, self._executor = self._executor, None
        self._connection.close()
        self.stop_background_sync()
        if executor is not None:
            executor.shutdown()
        self._outcomes.write_heartbeats()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_in_child(self) -> None:
        """Hold nothing in a forked child that only the parent's threads could give back, nor a socket of theirs."""
        self._lock = threading.Lock()
        for part in (self._freshness, self._connection, self._outcomes, self._synchronizer):
            part.begin_in_child()
        self._executor = None
        self._background = ()

    def _watch(self, reading_ns: int) -> None:
        """Let go of what is installed once the server was not heard for too long (freshness.py)."""
        if reading_ns >= self._freshness.overdue_at_ns and self._freshness.check():
            self._active_models.refresh()

    def _report(self, most: int | None = None) -> "ReportResult":
        self._connection.check_open()
        self._outcomes.write_heartbeats()
        return self._outcomes.open_reporter().report(self._connection.open, most=most)

    def _open_executor(self) -> Executor:
        with self._lock:
            self._connection.check_open()
            if self._executor is None:
                self._executor = ThreadPoolExecutor(ASYNC_WORKERS, thread_name_prefix="alcove-predict")
            return self._executor


_LIVING: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _begin_all_in_child() -> None:
    for client in list(_LIVING):
        client._begin_in_child()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_begin_all_in_child)
