"""Finds what an app calls a feature with, so that no version is installed that takes or gives something else.

    contract ─▶ baseline ─▶ current slot ─▶ previous slot: the first that says it; none: any version is taken

A contract with a signature (`contract.py`) is what the app was built with.  The baseline ships with the app, so it is
called as the app calls.  Without one the slots say it, as long as they take what the app passes: an app that was built
anew for another signature is not held to what it had before.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.registry.errors import RegistryError
from alcove.sdk.engine import Engine
from alcove.sdk.errors import DeviceStorageError
from alcove.sdk.slots import SlotStore

if TYPE_CHECKING:
    from alcove.registry.compatibility import Signature as CalledSignature
    from alcove.registry.manifest import ModelSignature
    from alcove.sdk.contract import Signature

__all__ = ["CalledSignatures"]


class CalledSignatures:
    """What an app calls each of its features with.

    Args:
        slots: where versions live.
        engine: reads the signature of a baseline.
        contract_signature: returns what a contract of the app says, or None.
        baseline_path: returns the program that ships for a feature, or None.
        is_refused: tells whether the app passed what no slot of a feature takes.
    """

    def __init__(
        self,
        slots: SlotStore,
        engine: Engine,
        contract_signature: Callable[[str], "Signature | None"],
        baseline_path: Callable[[str], Path | None],
        is_refused: Callable[[str], bool],
    ) -> None:
        self._slots = slots
        self._engine = engine
        self._contract_signature = contract_signature
        self._baseline_path = baseline_path
        self._is_refused = is_refused
        self._baselines: dict[Path, ModelSignature | None] = {}

    def find(self, feature: str) -> "CalledSignature | None":
        """Return what the app calls a feature with; None: nothing here says it."""
        said = self._contract_signature(feature)
        if said is not None:
            return said
        path = self._baseline_path(feature)
        baseline = None if path is None else self._read_baseline(path)
        if baseline is not None or self._is_refused(feature):
            return baseline
        slots = self._slots.read_state().slots(feature)
        found = (self._read_slot(feature, slot.manifest_sha256) for slot in (slots.current, slots.previous) if slot)
        return next((signature for signature in found if signature is not None), None)

    def _read_baseline(self, path: Path) -> "ModelSignature | None":
        if path not in self._baselines:
            self._baselines[path] = None
            with suppress(RegistryError, OSError, MemoryError):
                self._baselines[path] = self._engine.verifier.inspect("baseline", path.read_bytes()).signature
        return self._baselines[path]

    def _read_slot(self, feature: str, manifest_sha256: str) -> "ModelSignature | None":
        from alcove.registry.manifest import Manifest  # noqa: PLC0415 - loads pydantic

        with suppress(RegistryError, DeviceStorageError, OSError):
            data = self._slots.read_manifest(feature, manifest_sha256)
            return None if data is None else Manifest.from_bytes(data).signature
        return None
