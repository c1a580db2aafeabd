"""Lists the kinds of untrusted document that Python parses, with examples, and mutates them for fuzzing.

Documents change as JSON (a value becomes another, a key goes, comes or doubles) and as bytes; changed JSON is
written canonically again most times, so that it gets past the spelling and meets the rules of the document.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.privacy.errors import AlcovePrivacyError
from alcove.privacy.report import Report, report_from_bytes, report_to_bytes
from alcove.registry._tuf import Root, Snapshot, Targets, Timestamp
from alcove.registry.canonical import canonical_json
from alcove.registry.delta import apply_delta, make_delta
from alcove.registry.errors import RegistryError
from alcove.registry.manifest import Manifest
from alcove.registry.package import read_package, write_package
from alcove.registry.policy import parse_audience
from alcove.registry.policy.audience_text import parse_attributes
from alcove.registry.policy.document import Halt, halt_from_bytes, policy_from_bytes, policy_to_bytes
from alcove.registry.signing_request import SigningRequest
from alcove.registry.testing import RepositoryFixture
from alcove.registry.trust import parse
from alcove.runtime.certificate.document import parse as parse_certificate
from alcove.runtime.errors import AlcoveRuntimeError
from alcove.runtime.format.records import SectionKind
from alcove.runtime.testing import section

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parent.parent
TYPED: Final = (RegistryError, AlcovePrivacyError, AlcoveRuntimeError)
_METADATA_BYTES: Final = 1 << 20
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, "", "x", "..",
    "/etc", "a/../b", "\0", "\ud800", "é", "0" * 64, "f" * 64, "1.0.0", "x" * 5000, [], {}, [[]], {"": None}, [0] * 300,
)  # fmt: skip
_WORDS: Final = [
    "and",
    "not",
    "in",
    "(",
    ")",
    ",",
    "==",
    "!=",
    "<",
    ">=",
    "os",
    "app_version",
    "locale",
    "memory_mb",
    "2.3.0",
    "999999999999",
    "é",
]


def _certificate() -> bytes:
    program = next((ROOT / "features/language_id/programs").glob("*.alc")).read_bytes()
    offset, size = section(program, SectionKind.CERTIFICATE)
    return program[offset : offset + size]


class Kind:
    """A kind of document: how it is read, and examples of it."""

    def __init__(self, name: str, read: Callable[[bytes], object], *examples: bytes) -> None:
        self.name, self.read, self.examples = name, read, examples


def kinds(folder: Path) -> tuple[Kind, ...]:
    """Return all kinds, with examples that a registry in `folder` has made."""
    world = RepositoryFixture(folder / "world")
    package = world.package()
    world.push(package)
    metadata = {
        role: max(folder.rglob(f"*{role}.json"), key=lambda path: path.stat().st_size).read_bytes()
        for role in ("root", "targets", "snapshot", "timestamp")
    }
    packed = folder / "package"
    write_package(package, packed)
    manifest = package.manifest.to_bytes()

    def unpack(data: bytes) -> object:
        (packed / "manifest.json").write_bytes(data)
        return read_package(packed)

    base, program = hashlib.sha256(b"base").digest() * 99, hashlib.sha256(b"base").digest() * 98 + b"other"
    return (
        Kind("manifest", Manifest.from_bytes, manifest),
        Kind("package", unpack, manifest),
        Kind("policy", policy_from_bytes, policy_to_bytes(world.policy(1))),
        Kind(
            "halt",
            halt_from_bytes,
            Halt(app="messenger", serial=1, halted=(), frozen=("language_id",)).to_bytes(),
        ),
        Kind("root metadata", lambda data: parse(Root, "root", data, _METADATA_BYTES), metadata["root"]),
        Kind("targets metadata", lambda data: parse(Targets, "targets", data, _METADATA_BYTES), metadata["targets"]),
        Kind(
            "snapshot metadata", lambda data: parse(Snapshot, "snapshot", data, _METADATA_BYTES), metadata["snapshot"]
        ),
        Kind(
            "timestamp metadata",
            lambda data: parse(Timestamp, "timestamp", data, _METADATA_BYTES),
            metadata["timestamp"],
        ),
        Kind(
            "change",
            SigningRequest.parse,
            canonical_json(
                {"format": 1, "kind": "change", "roles": {"targets": json.loads(metadata["targets"])}, "current": {}}
            ),
        ),
        Kind("certificate", parse_certificate, _certificate()),
        Kind(
            "audience",
            lambda data: parse_audience(data.decode("utf-8", "replace")),
            b"os in (ios, android) and app_version >= 2.3.0",
            b"locale not in (de, fr-FR)",
        ),
        Kind(
            "attributes",
            lambda data: parse_attributes(data.decode("utf-8", "replace")),
            b"os=ios,app_version=2.3.0,memory_mb=4096",
        ),
        Kind("report", report_from_bytes, report_to_bytes(Report(bytes(32), 1, 2))),
        Kind("delta", lambda data: apply_delta(base, data, len(program)), make_delta(base, program)),
    )


def change(choose: random.Random, example: bytes) -> bytes:
    """Return a variant of a document."""
    if example[:1] == b"{" and choose.random() < 0.8:
        try:
            document = json.loads(example)
            for _ in range(choose.choice([1, 1, 2, 3])):
                document = _change_value(choose, document)
            return canonical_json(document) if choose.random() < 0.8 else json.dumps(document).encode("utf-8")
        except (ValueError, TypeError, RecursionError, OverflowError):
            pass
    return _change_bytes(choose, example)


def _change_value(choose: random.Random, value: Any) -> Any:  # noqa: PLR0911 - one for each kind of change
    if isinstance(value, dict) and value and choose.random() < 0.92:
        key = choose.choice(list(value))
        action = choose.random()
        if action < 0.06:
            return {k: v for k, v in value.items() if k != key}
        if action < 0.1:
            return {**value, choose.choice(["", "x", "é", key + "x"]): value[key]}
        return {**value, key: _change_value(choose, value[key])}
    if isinstance(value, list) and value and choose.random() < 0.92:
        at = choose.randrange(len(value))
        if choose.random() < 0.15:
            return [*value, value[at]] if choose.random() < 0.5 else value[:at] + value[at + 1 :]
        return [*value[:at], _change_value(choose, value[at]), *value[at + 1 :]]
    if isinstance(value, int) and choose.random() < 0.5:
        return value + choose.choice([-1, 1, 2**32])
    if isinstance(value, str) and value and choose.random() < 0.5:
        at = choose.randrange(len(value))
        return value[:at] + choose.choice(["", "x", "\0", "é", "0", value]) + value[at + 1 :]
    if choose.random() < 0.02:
        return json.loads("[" * 900 + "]" * 900)
    return choose.choice(_VALUES)


def _change_bytes(choose: random.Random, example: bytes) -> bytes:
    data = bytearray(example)
    for _ in range(choose.choice([1, 1, 2, 4, 8])):
        at = choose.randrange(len(data) + 1)
        action = choose.randrange(5)
        if action == 0:
            data[at : at + 1] = choose.randbytes(1)
        elif action == 1:
            del data[at : at + choose.randrange(1, 9)]
        elif action == 2:
            data[at:at] = choose.choice(_WORDS).encode("utf-8") + b" "
        elif action == 3:
            data[at:at] = data[: choose.randrange(64)]
        elif choose.random() < 0.02:
            data[at:at] = b"[" * 100_000
    return bytes(data)
