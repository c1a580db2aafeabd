"""Chooses which program answers for a feature on this device, and replaces it when a sync does.

    state ─▶ current ─▶ previous ─▶ baseline: the first that is there, is in no crash loop, and loads ─▶ ActiveModel
    overdue (freshness.py) ─▶ baseline alone; slots and files stay, so that the next word of the server gives them back
    sync ─▶ refresh(): every handle answers with what the state says then

No network, and nothing is loaded under the lock.
"""

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from alcove.runtime.errors import AlcoveRuntimeError
from alcove.sdk.contract import Contract, Signature, default_baseline, known_contracts, signature_of
from alcove.sdk.debug import DEBUG
from alcove.sdk.engine import Engine, Runnable
from alcove.sdk.errors import DeviceStorageError, UnknownFeatureError
from alcove.sdk.handle import STALE, ActiveModel, ModelRef
from alcove.sdk.load_attempts import LoadAttempt
from alcove.sdk.slots import SlotStore
from alcove.sdk.state import FeatureSlots, Slot, State

_LOG: Final = logging.getLogger(__name__)

UNAVAILABLE = ActiveModel(None, "", "unavailable")
"""Answers for a feature of which nothing could be loaded."""

STALE_MODEL = ActiveModel(None, "", STALE)
"""Answers for a feature without a baseline while the server was not heard for too long."""


class ActiveModels:
    """What answers for each feature, shared by all its handles; safe for several threads.

    Args:
        slots: what is installed.
        engine: runs programs.
        baselines: programs that ship with the app, by feature; beside them the features that alcove brings.
        is_overdue: tells whether the server was not heard for too long to trust what is installed.
        pinned: features whose version is pinned on a test device; of no other does a pinned version answer.
    """

    def __init__(
        self,
        slots: SlotStore,
        engine: Engine,
        baselines: Mapping[str, Path],
        is_overdue: Callable[[], bool],
        pinned: Collection[str] = (),
    ) -> None:
        self._slots = slots
        self._engine = engine
        self._baselines = baselines
        self._is_overdue = is_overdue
        self._pinned = pinned
        self._lock = threading.Lock()
        self._swaps = 0
        self._model_refs: dict[str, ModelRef] = {}
        self._contracts: dict[str, Contract[Any]] = {}
        self._signatures: dict[str, Signature] = {}

    def register_contract(self, name: str, contract: Contract[Any]) -> None:
        """Register a feature's contract."""
        self._contracts[name] = contract
        signature = signature_of(contract)
        if signature is not None:
            self._signatures[name] = signature

    def model_ref(self, name: str, contract: Contract[Any] | None) -> ModelRef:
        """Return what all handles of a feature share; made again where a sync swapped versions meanwhile.

        Raises:
            UnknownFeatureError: never installed, nor shipped.
            DeviceStorageError: the disk failed.
        """
        while True:
            with self._lock:
                shared, swaps = self._model_refs.get(name), self._swaps
            if shared is not None:
                self._fit(name, shared)
                return shared
            state = self._slots.read_state()
            # One that was installed once is known: its version may have been halted, and the app cannot know that.
            if self._baseline(name, contract) is None and name not in state.features:
                known = {*self._baselines, *state.features}
                raise UnknownFeatureError(feature=name, known=known, has_synced=bool(state.features))
            model_ref = ModelRef(self._activate(name, state))
            with self._lock:
                if swaps == self._swaps:
                    return self._model_refs.setdefault(name, model_ref)

    def baseline_path(self, name: str) -> Path | None:
        """Return the program that ships for a feature, or None."""
        baseline = self._baseline(name, self.known_contract(name))
        return None if baseline is None else baseline[0]

    def is_refused(self, name: str) -> bool:
        """Tell whether the app passed last what no version here takes."""
        with self._lock:
            model_ref = self._model_refs.get(name)
        return model_ref is not None and model_ref.is_refused

    def stand_ins(self, name: str) -> Iterator[ActiveModel]:
        """Give what may answer in the place of a current version that does not take what the app passes.

        Each is in the version's arm, as one that the device had to leave.
        """
        state = self._slots.read_state()
        slots = state.slots(name)
        left = slots.current if slots.current is not None and slots.current.task is not None else slots.abandoned_arm
        for active in self._candidates(name, replace(slots, current=None, abandoned_arm=left)):
            if active.model is not None:
                yield active

    def other_arm(self, name: str) -> ActiveModel | None:
        """Return the version that a device whose task asks for a preference compares its own with; None: there is none.

        Devices fetch the versions of all arms, and keep them whatever their own arm is (`state.py`).  Where they are
        not two, as with a second experiment of the feature, nothing says which one is meant.
        """
        slots = self._slots.read_state().slots(name)
        if slots.current is None or not slots.recent:
            return None
        others = slots.recent[0] - {slots.current.manifest_sha256}
        if len(others) != 1:
            return None
        (digest,) = others
        slot = Slot(self._version_of(name, digest), digest, slots.current.reason, None, None)
        found = next(self._candidates(name, FeatureSlots(slot)))
        return found if found.model is not None and found.key == digest else None

    def _version_of(self, name: str, digest: str) -> str:
        """Return the version that a manifest on the disk names; "" where it cannot be read."""
        try:
            return str(json.loads(self._slots.read_manifest(name, digest) or b"{}").get("version", ""))
        except (DeviceStorageError, ValueError, AttributeError, RecursionError):
            return ""

    def called_signature(self, name: str) -> Signature | None:
        """Return what a contract of the app says it calls a feature with; None: no contract says it."""
        return self._signatures.get(name)

    def _fit(self, name: str, model_ref: ModelRef) -> None:
        """Let a program that the app's contract can call answer, where another does so far."""
        active = model_ref.active
        if active.model is not None and self._mismatch(name, active.model):
            active.attempt.abandon()
            model_ref.active = self._activate(name, self._slots.read_state())

    def _mismatch(self, name: str, model: Runnable) -> str:
        """Return how a program is not what the app's contract calls; "" where it is, or no contract says it."""
        signature = self._signatures.get(name)
        return "" if signature is None else signature.mismatch(model)

    def known_contract(self, name: str) -> Contract[Any] | None:
        """Return the contract of a feature: what the app gave, else alcove's own; None if nobody knows one."""
        return self._contracts.get(name) or known_contracts().get(name)

    def _baseline(self, name: str, contract: Contract[Any] | None) -> tuple[Path, str] | None:
        """Return the program that ships for a feature, and its version's name: the app's own before alcove's."""
        if name in self._baselines:
            return self._baselines[name], "baseline"
        path = default_baseline(contract)
        return None if path is None else (path, str(getattr(contract, "default_version", "baseline")))

    def _activate(self, name: str, state: State) -> ActiveModel:
        """Return what answers for a feature: the first of current, previous and baseline that loads and is trusted."""
        if self._is_overdue():
            return self._activate_baseline(name)
        return next(self._candidates(name, state.slots(name)))

    def _candidates(self, name: str, slots: FeatureSlots) -> Iterator[ActiveModel]:
        """Give what could answer for a feature, the best first; nothing at last."""
        abandoned_arm = slots.abandoned_arm
        for slot, reason in ((slots.current, ""), (slots.previous, "fallback")):
            if slot is not None and (slot.reason != DEBUG or name in self._pinned):
                path = self._slots.program_path(name, slot.manifest_sha256)
                file = _file_identity(path)
                attempt = self._slots.attempts.begin(slot.manifest_sha256) if file[0] else None
                if file[0] and attempt is None and slot is slots.current and slot.task is not None:
                    abandoned_arm = slot
                model = None if attempt is None else self._load_any(name, path)
                if model is not None and self._mismatch(name, model):
                    abandoned_arm = slot if slot is slots.current and slot.task is not None else abandoned_arm
                    self._log_refusal(name, slot.version, model)
                    model = None
                if attempt is not None and model is not None:
                    attempt.leave(is_healthy=False)
                    yield _active_model(slot, model, file, reason, attempt, abandoned_arm=abandoned_arm)
                elif attempt is not None:
                    attempt.abandon()
        baseline = self._baseline(name, self.known_contract(name))
        model = None if baseline is None else self._load(name, baseline[0])
        if baseline is not None and model is not None:
            yield _in_abandoned_arm(ActiveModel(model, baseline[1], "baseline"), abandoned_arm)
        yield UNAVAILABLE

    def _activate_baseline(self, name: str) -> ActiveModel:
        """Return the baseline, in no arm: its outcomes are not those of the version that should have answered."""
        baseline = self._baseline(name, self.known_contract(name))
        model = None if baseline is None else self._load(name, baseline[0])
        return STALE_MODEL if baseline is None or model is None else ActiveModel(model, baseline[1], STALE)

    def _load_any(self, name: str, path: Path) -> Runnable | None:
        try:
            model = self._engine.load(path)
        except (AlcoveRuntimeError, OSError, MemoryError) as error:
            _LOG.warning("a program of %s cannot be loaded: %s: %s", name, type(error).__name__, error)
            return None
        return model

    def _load(self, name: str, path: Path) -> Runnable | None:
        """Return a program that ships with the app; None where it cannot be loaded, or called by the app's contract."""
        model = self._load_any(name, path)
        if model is None or not self._mismatch(name, model):
            return model
        self._log_refusal(name, "baseline", model)
        return None

    def _log_refusal(self, name: str, version: str, model: Runnable) -> None:
        """Log why a program does not answer."""
        _LOG.warning("%s %s is not called as this app calls it: %s", name, version, self._mismatch(name, model))

    def refresh(self) -> None:
        """Let every handle answer with what the state says; a running prediction ends with what it began with.

        Raises:
            DeviceStorageError: the disk failed.
        """
        with self._lock:
            self._swaps += 1
            model_refs = dict(self._model_refs)
        state = self._slots.read_state()
        for name, model_ref in model_refs.items():
            current = state.slots(name).current
            now = model_ref.active
            if self._is_overdue() or now.reason == STALE:
                if now.reason != STALE or not self._is_overdue():
                    now.attempt.abandon()
                    model_ref.active = self._activate(name, state)
            elif current is not None and now.model is not None and self._is_loaded(name, current, now):
                model_ref.active = _active_model(
                    current, now.model, now.file, "", now.attempt, abandoned_arm=state.slots(name).abandoned_arm
                )
            elif current is not None or now.key or now.has_abandoned_arm:
                model_ref.active = self._activate(name, state)

    def _is_loaded(self, name: str, slot: Slot, now: ActiveModel) -> bool:
        path = self._slots.program_path(name, slot.manifest_sha256)
        return slot.manifest_sha256 == now.key and _file_identity(path) == now.file


def _active_model(
    slot: Slot, model: Runnable, file: tuple[int, int], reason: str, attempt: LoadAttempt, *, abandoned_arm: Slot | None
) -> ActiveModel:
    """Return the active model of a slot; a fallback is in no arm, unless in that whose version it stands in for."""
    config = MappingProxyType(dict(slot.config))
    if reason or abandoned_arm is not None:
        active = ActiveModel(
            model, slot.version, reason or slot.reason, slot.manifest_sha256, file, attempt=attempt, config=config
        )
        return _in_abandoned_arm(active, abandoned_arm)
    return ActiveModel(
        model, slot.version, slot.reason, slot.manifest_sha256, file, slot.arm, slot.task, attempt, config=config
    )


def _in_abandoned_arm(active: ActiveModel, abandoned_arm: Slot | None) -> ActiveModel:
    return (
        active
        if abandoned_arm is None
        else replace(active, arm=abandoned_arm.arm, task=abandoned_arm.task, has_abandoned_arm=True)
    )


def _file_identity(path: Path) -> tuple[int, int]:
    """Return inode and time of change; zeros when absent."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
