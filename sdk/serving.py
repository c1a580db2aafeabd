"""Chooses which program answers for a feature on this device, and from when on another does.

    state ─▶ current ─▶ previous ─▶ baseline: the first that is there, is not on its last try, and loads ─▶ Serving
    overdue (freshness.py) ─▶ baseline alone; slots and files stay, so that the next word of the server gives them back
    sync ─▶ follow(): every handle answers with what the state says then

No network, and nothing is loaded under the lock.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from alcove.runtime.errors import AlcoveRuntimeError
from alcove.sdk.contract import Contract, default_baseline, known_contracts
from alcove.sdk.engine import Engine, Runnable
from alcove.sdk.errors import UnknownFeatureError
from alcove.sdk.handle import STALE, Reference, Serving
from alcove.sdk.slots import SlotStore
from alcove.sdk.state import Slot, State
from alcove.sdk.tries import Trial

UNAVAILABLE = Serving(None, "", "unavailable")
"""Answers for a feature of which nothing could be loaded."""

SILENT = Serving(None, "", STALE)
"""Answers for a feature without a baseline while the server was not heard for too long."""


class Servings:
    """What answers for each feature, shared by all its handles; safe for several threads.

    Args:
        slots: what is installed.
        engine: runs programs.
        baselines: programs that ship with the app, by feature; beside them the features that alcove brings.
        is_overdue: tells whether the server was not heard for too long to trust what is installed.
    """

    def __init__(
        self, slots: SlotStore, engine: Engine, baselines: Mapping[str, Path], is_overdue: Callable[[], bool]
    ) -> None:
        self._slots = slots
        self._engine = engine
        self._baselines = baselines
        self._is_overdue = is_overdue
        self._lock = threading.Lock()
        self._swaps = 0
        self._references: dict[str, Reference] = {}
        self._contracts: dict[str, Contract[Any]] = {}

    def remember(self, name: str, contract: Contract[Any]) -> None:
        """Know a feature's contract from now on."""
        self._contracts[name] = contract

    def reference(self, name: str, contract: Contract[Any] | None) -> Reference:
        """Return what all handles of a feature share; made again where a sync swapped versions meanwhile.

        Raises:
            UnknownFeatureError: neither installed nor shipped.
            StorageError: the disk failed.
        """
        while True:
            with self._lock:
                if name in self._references:
                    return self._references[name]
                swaps = self._swaps
            state = self._slots.read_state()
            if self._baseline(name, contract) is None and state.slots(name).current is None:
                raise UnknownFeatureError(feature=name, known={*self._baselines, *state.features})
            reference = Reference(self._serve(name, state))
            with self._lock:
                if swaps == self._swaps:
                    return self._references.setdefault(name, reference)

    def known_contract(self, name: str) -> Contract[Any] | None:
        """Return the contract of a feature: what the app gave, else alcove's own; None if nobody knows one."""
        return self._contracts.get(name) or known_contracts().get(name)

    def _baseline(self, name: str, contract: Contract[Any] | None) -> tuple[Path, str] | None:
        """Return the program that ships for a feature, and its version's name: the app's own before alcove's."""
        if name in self._baselines:
            return self._baselines[name], "baseline"
        path = default_baseline(contract)
        return None if path is None else (path, str(getattr(contract, "default_version", "baseline")))

    def _serve(self, name: str, state: State) -> Serving:
        """Return what answers for a feature: the first of current, previous and baseline that loads and is trusted."""
        if self._is_overdue():
            return self._serve_overdue(name)
        slots = state.slots(name)
        left = slots.left
        for slot, reason in ((slots.current, ""), (slots.previous, "fallback")):
            if slot is not None:
                path = self._slots.program_path(name, slot.manifest_sha256)
                file = _file_identity(path)
                trial = self._slots.tries.begin(slot.manifest_sha256) if file[0] else None
                if file[0] and trial is None and slot is slots.current and slot.task is not None:
                    left = slot
                model = None if trial is None else self._load(path)
                if trial is not None and model is not None:
                    trial.leave(is_healthy=False)
                    return _serving(slot, model, file, reason, trial, left=left)
                if trial is not None:
                    trial.abandon()
        baseline = self._baseline(name, self.known_contract(name))
        model = None if baseline is None else self._load(baseline[0])
        if baseline is None or model is None:
            return UNAVAILABLE
        return _in_left_arm(Serving(model, baseline[1], "baseline"), left)

    def _serve_overdue(self, name: str) -> Serving:
        """Return the baseline, in no arm: its outcomes are not those of the version that should have answered."""
        baseline = self._baseline(name, self.known_contract(name))
        model = None if baseline is None else self._load(baseline[0])
        return SILENT if baseline is None or model is None else Serving(model, baseline[1], STALE)

    def _load(self, path: Path) -> Runnable | None:
        with suppress(AlcoveRuntimeError, OSError, MemoryError):
            return self._engine.load(path)
        return None

    def follow(self) -> None:
        """Let every handle answer with what the state says; a running prediction ends with what it began with.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            self._swaps += 1
            references = dict(self._references)
        state = self._slots.read_state()
        for name, reference in references.items():
            current = state.slots(name).current
            now = reference.serving
            if self._is_overdue() or now.reason == STALE:
                if now.reason != STALE or not self._is_overdue():
                    now.trial.abandon()
                    reference.serving = self._serve(name, state)
            elif current is not None and now.model is not None and self._is_loaded(name, current, now):
                reference.serving = _serving(current, now.model, now.file, "", now.trial, left=state.slots(name).left)
            elif current is not None or now.key or now.has_left:
                reference.serving = self._serve(name, state)

    def _is_loaded(self, name: str, slot: Slot, now: Serving) -> bool:
        path = self._slots.program_path(name, slot.manifest_sha256)
        return slot.manifest_sha256 == now.key and _file_identity(path) == now.file


def _serving(
    slot: Slot, model: Runnable, file: tuple[int, int], reason: str, trial: Trial, *, left: Slot | None
) -> Serving:
    """Return the serving of a slot; a fallback is in no arm, unless in that whose version it stands in for."""
    if reason or left is not None:
        serving = Serving(model, slot.version, reason or slot.reason, slot.manifest_sha256, file, trial=trial)
        return _in_left_arm(serving, left)
    return Serving(model, slot.version, slot.reason, slot.manifest_sha256, file, slot.arm, slot.task, trial)


def _in_left_arm(serving: Serving, left: Slot | None) -> Serving:
    return serving if left is None else replace(serving, arm=left.arm, task=left.task, has_left=True)


def _file_identity(path: Path) -> tuple[int, int]:
    """Return inode and time of change; zeros when absent."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
