"""Runs a client's syncs one at a time, and keeps how the last one went.

    run ─▶ sync.py follows the server ─▶ freshness and models are read again ─▶ listeners

Nothing that a sync needs is loaded before the first.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.privacy.entropy import Entropy
from alcove.registry.policy.attributes import DeviceAttributes
from alcove.runtime.clock import Clock
from alcove.sdk.active_models import ActiveModels
from alcove.sdk.connection import Connection
from alcove.sdk.debug import NOTHING_PINNED, DebugOverrides
from alcove.sdk.engine import Engine
from alcove.sdk.errors import DeviceStorageError, ForeignFolderError
from alcove.sdk.freshness import Freshness
from alcove.sdk.identity import installation_secret
from alcove.sdk.outcomes import Outcomes
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport

if TYPE_CHECKING:
    from alcove.registry.client import RepositoryClient
    from alcove.sdk.assignments import Assignments
    from alcove.sdk.instruments import Recorder
    from alcove.sdk.questions import Questions
    from alcove.sdk.sync import SyncResult

__all__ = ["Synchronizer"]

_LOG: Final = logging.getLogger(__name__)


class Synchronizer:
    """The syncs of one client; safe for several threads.

    Attributes:
        trusted_root: root metadata that ships with the app: a path or the bytes; read when a tree is opened.
        last_result: how the last sync of this process went; None before the first.

    Args:
        app: the app's name.
        connection: the way to the server.
        slots: where versions live.
        trusted_root: see above.
        files: the disk.
        clock: the device's clocks.
        entropy: source of unpredictable bytes.
        engine: checks programs.
        device: what the app knows of the device, in coarse steps.
        freshness: how long ago the server was heard.
        active_models: what answers; read again after a sync.
        outcomes: what was recorded, and the user's consent.
        recorder: records syncs in the app's instruments.
        debug: what is pinned on a test device.
    """

    def __init__(
        self,
        app: str,
        connection: Connection,
        slots: SlotStore,
        *,
        trusted_root: Path | str | bytes,
        files: Files,
        clock: Clock,
        entropy: Entropy,
        engine: Engine,
        device: DeviceAttributes,
        freshness: Freshness,
        active_models: ActiveModels,
        outcomes: Outcomes,
        recorder: "Recorder | None" = None,
        debug: DebugOverrides = NOTHING_PINNED,
    ) -> None:
        self.trusted_root = trusted_root
        self.last_result: SyncResult | None = None
        self._app = app
        self._connection = connection
        self._slots = slots
        self._files = files
        self._clock = clock
        self._engine = engine
        self._device = device
        self._freshness = freshness
        self._active_models = active_models
        self._outcomes = outcomes
        self._recorder = recorder
        self._debug = debug
        self._secret = partial(installation_secret, slots.identity_path, files, entropy)
        # A sync holds the first for long.  Nobody loads, imports or waits for the network under the last.
        self._sync_lock = threading.Lock()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[SyncResult], None]] = []
        self._is_current = False
        self._updater: Callable[[], SyncResult] | None = None

    def run(self) -> "SyncResult":
        """Sync once, after any that is under way; see `Client.sync`.

        Raises:
            ClosedError: the client was closed.
        """
        traffic = self._connection.traffic
        with self._sync_lock:
            traffic.asked_wait_s = 0.0
            before = replace(traffic)
            run = self._make_updater()
            self._connection.check_open()
            start_ns = self._clock.monotonic_ns()
            result = run()
            seconds = (self._clock.monotonic_ns() - start_ns) / 1e9
            self.last_result = result
            if not isinstance(result.error, ForeignFolderError):
                self._freshness.check()
            self._active_models.refresh()
            # A version that was refused leaves the policy as true as it was.
            self._is_current = result.error is None or bool(result.refused)
            listeners = tuple(self._listeners)
        _log(result)
        if self._recorder is not None:
            self._recorder.sync(result, seconds)
        for listener in listeners:
            listener(result)
        return replace(
            result,
            bytes_received=traffic.received_bytes - before.received_bytes,
            bytes_sent=traffic.sent_bytes - before.sent_bytes,
            retry_after_s=traffic.asked_wait_s,
        )

    def add_listener(self, listener: "Callable[[SyncResult], None]") -> Callable[[], None]:
        """Have `listener` called after each sync, on the thread that synced; return what ends that."""
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def read_assignments(self) -> "Assignments | None":
        """Return what the policy that the syncs have left assigns to the device; None: there is none yet.

        Raises:
            DeviceStorageError: the disk failed.
            ClosedError: the client was closed.
        """
        from alcove.privacy.errors import LedgerStorageError  # noqa: PLC0415
        from alcove.registry.errors import RegistryError  # noqa: PLC0415 - loaded by the sync
        from alcove.sdk.assignments import assignments_of  # noqa: PLC0415 - loads pydantic

        tree = self._open_repository(self._connection.open())
        try:
            policy, halt = tree.read_stored_policy(self._app), tree.read_stored_halt(self._app)
        except RegistryError as error:
            raise DeviceStorageError(step="read", path="metadata", reason=str(error)) from error
        if policy is None:
            return None
        secret, questions = self._secret(), self.open_questions()
        try:
            found = assignments_of(
                policy,
                halt,
                secret,
                questions.was_in,
                questions.settled_value,
                now_s=self._clock.now_s(),
                is_current=self._is_current,
                is_in_experiments=self._outcomes.consent.is_given,
            )
            return replace(found, configs=self._read_configs(found))
        except LedgerStorageError as error:
            raise DeviceStorageError(step="read", path=error.path, reason=error.reason) from error

    def _read_configs(self, found: "Assignments") -> Mapping[str, Mapping[str, bool | int | float | str]]:
        """Return the values of what is assigned and installed."""
        state = self._slots.read_state()
        current = {feature: (one, state.slots(feature).current) for feature, one in found.resolutions.items()}
        return {
            feature: dict(slot.config)
            for feature, (one, slot) in current.items()
            if one is not None and slot is not None and slot.manifest_sha256 == one.version.manifest_sha256
        }

    def open_questions(self) -> "Questions":
        """Return what the device has revealed of its attributes."""
        from alcove.sdk.ledger_file import LedgerFile  # noqa: PLC0415 - loaded by the sync
        from alcove.sdk.questions import Questions  # noqa: PLC0415
        from alcove.sdk.strata import Strata  # noqa: PLC0415

        folder = self._slots.folder / "reports"
        log = LedgerFile(folder / "questions.jsonl", self._files)
        return Questions(log, self._clock, self._device, Strata(folder, self._files))

    def begin_in_child(self) -> None:
        """Hold no lock of the parent in a forked child, and nothing that uses its connection."""
        self._sync_lock, self._lock = threading.Lock(), threading.Lock()
        self._updater = None

    def _make_updater(self) -> "Callable[[], SyncResult]":
        """Return what syncs, made once; its caller holds `_sync_lock`."""
        if self._updater is None:
            from alcove.sdk.called_signature import CalledSignatures  # noqa: PLC0415 - loaded by the sync
            from alcove.sdk.installer import Installer  # noqa: PLC0415 - loads pydantic
            from alcove.sdk.sync import Updater  # noqa: PLC0415

            bounds = self._connection.open_bounded()
            models = self._active_models
            called = CalledSignatures(
                self._slots, self._engine, models.called_signature, models.baseline_path, models.is_refused
            )
            self._updater = Updater(
                self._app,
                self._slots,
                Installer(self._slots, self._files, bounds, self._engine, called.find),
                partial(self._open_checked_repository, bounds),
                self._secret,
                bounds=bounds,
                on_withdrawn=self._active_models.refresh,
                freshness=self._freshness,
                history=self._outcomes.history,
                questions=self.open_questions(),
                consent=self._outcomes.consent,
                participation=self._outcomes.participation,
                clock=self._clock,
                debug=self._debug,
            ).run
        return self._updater

    def _open_checked_repository(self, transport: Transport) -> "RepositoryClient":
        from alcove.sdk.repository import check_trusted_root  # noqa: PLC0415 - loads tuf

        check_trusted_root(self.trusted_root)
        return self._open_repository(transport)

    def _open_repository(self, transport: Transport) -> "RepositoryClient":
        from alcove.sdk.repository import open_repository  # noqa: PLC0415 - loads tuf

        return open_repository(
            self._slots.metadata_folder,
            server=self._connection.server,
            trusted_root=self.trusted_root,
            transport=transport,
            clock=self._clock,
            floor=self._freshness.floor_s,
            files=self._files,
        )


def _log(result: "SyncResult") -> None:
    """Log what a sync did; names and errors are the server's and the disk's, nothing that a person wrote."""
    for change in result.changed:
        _LOG.info("%s answers with %s in place of %s: %s", change.feature, change.after, change.before, change.reason)
    for refusal in result.refused:
        error = refusal.error
        _LOG.warning("%s %s was refused: %s: %s", refusal.feature, refusal.version, type(error).__name__, error)
    _LOG.debug("a sync ended: %s", "well" if result.error is None else f"{type(result.error).__name__}: {result.error}")
