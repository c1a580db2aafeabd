"""Defines what is published as one version: a manifest and the files that it names, as a value or as a folder.

A package's folder holds `manifest.json`, `CARD.md`, one program per variant under `programs/`, and under `deltas/` what
makes a program of one that devices may have already.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from alcove.registry import limits
from alcove.registry.canonical import fault_text
from alcove.registry.errors import IntegrityError, PackageError, StorageError
from alcove.registry.manifest import MIN_RUNTIME, Lineage, Manifest, PrivacyManifest
from alcove.runtime.files import DISK, read_bounded, replace_file
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from alcove.registry.manifest import Requirements, Variant
    from alcove.registry.parameters import Parameter
    from alcove.registry.program_verification import ProgramFacts, ProgramVerifier

MANIFEST_FILE: Final = "manifest.json"
CARD_FILE: Final = "CARD.md"


@dataclass(frozen=True, slots=True)
class Package:
    """A manifest and the bytes that it names.

    Attributes:
        files: `CARD.md`, `programs/<variant>.alc` and `deltas/<base's digest>.<variant>`, by path inside the package.
    """

    manifest: Manifest
    files: Mapping[str, bytes]

    def blobs(self) -> Mapping[str, bytes]:
        """Return the files by SHA-256, as the blob store keeps them."""
        return {hashlib.sha256(data).hexdigest(): data for data in self.files.values()}

    def program(self, variant: str) -> bytes:
        """Return the program of one variant.

        Raises:
            PackageError: there is no such variant.
        """
        try:
            return self.files[program_file(variant)]
        except KeyError:
            known = ", ".join(item.name for item in self.manifest.variants)
            msg = f"the package has no variant {variant!r}; it has {known}"
            raise PackageError(msg) from None


def program_file(variant: str) -> str:
    """Return the path of a variant's program inside a package."""
    return f"programs/{variant}.alc"


def delta_file(variant: str, base_sha256: str) -> str:
    """Return the path of a delta inside a package."""
    return f"deltas/{base_sha256}.{variant}"


def create_package(
    *,
    feature: str,
    team: str,
    version: str,
    programs: Mapping[str, bytes],
    card: str,
    min_runtime: str = MIN_RUNTIME,
    privacy: PrivacyManifest | None = None,
    lineage: Lineage | None = None,
    bases: Mapping[str, Sequence[bytes]] | None = None,
    requirements: Mapping[str, Requirements] | None = None,
    verifier: ProgramVerifier | None = None,
    parameters: Sequence[Parameter] = (),
) -> Package:
    """Return a package whose manifest states what the programs themselves say.

    Args:
        feature: name of the feature.
        team: the team that owns it.
        version: "MAJOR.MINOR.PATCH".
        programs: the program of each variant, by the variant's name.
        card: the model card, Markdown.
        min_runtime: oldest runtime that can run every variant.
        privacy: what may leave the device; the default is the three parts of a report.
        lineage: where the version comes from; None: not stated.
        bases: programs that devices may have, by the name of the variant that comes after them, the likeliest first;
            a delta is made from each of the first `limits.DELTAS_MAX` that are long enough to win, and kept where it is
            much smaller than the program.
        requirements: what a device must have for a variant, by the variant's name.
        verifier: reads programs; the runtime by default.
        parameters: what a policy may change, within these bounds.

    Raises:
        ProgramRefusedError: the runtime does not load a program.
        PackageError: a name, number or size is out of its bounds, or the variants disagree about the signature.
    """
    from alcove.registry.program_verification import RuntimeVerifier  # noqa: PLC0415 - a device reads manifests without it

    reader = verifier or RuntimeVerifier()
    facts = {name: reader.inspect(name, program) for name, program in sorted(programs.items())}
    _check_signatures(facts)
    card_bytes = card.encode("utf-8")
    unknown = sorted((requirements or {}).keys() - programs.keys())
    if unknown:
        msg = f"requirements are given for {', '.join(unknown)}, which the package does not have"
        raise PackageError(msg)
    files = {CARD_FILE: card_bytes} | {program_file(name): program for name, program in programs.items()}
    deltas = {name: _deltas(programs[name], (bases or {}).get(name, ())) for name in facts}
    files |= {delta_file(name, base): data for name, made in deltas.items() for base, data in made.items()}
    try:
        # As plain values, so that an error says where in the manifest it is.
        manifest = Manifest.model_validate(
            {
                "feature": feature,
                "team": team,
                "version": version,
                "signature": next(iter(facts.values())).signature,
                "variants": [
                    _variant(name, programs[name], seen, deltas[name]) | {"needs": (requirements or {}).get(name)}
                    for name, seen in facts.items()
                ],
                "card": {"sha256": hashlib.sha256(card_bytes).hexdigest(), "size_bytes": len(card_bytes)},
                "privacy": privacy or PrivacyManifest(),
                "min_runtime": min_runtime,
                "lineage": lineage,
                "parameters": [parameter.model_dump() for parameter in parameters],
            }
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        msg = f"manifest at {where}: expected {fault_text(fault)}, got {str(fault['input'])[:100]!r}"
        raise PackageError(msg) from None
    size_bytes = len(manifest.to_bytes())
    if size_bytes > limits.MANIFEST_MAX_BYTES:
        msg = f"a manifest has at most {limits.MANIFEST_MAX_BYTES} bytes, this one {size_bytes}"
        raise PackageError(msg)
    return Package(manifest, files)


def _check_signatures(facts: Mapping[str, ProgramFacts]) -> None:
    if not facts:
        msg = "a package has at least one program"
        raise PackageError(msg)
    (first, reference), *others = facts.items()
    for name, seen in others:
        if seen.signature != reference.signature:
            msg = f"variants must agree about inputs and outputs; {name!r} differs from {first!r}"
            raise PackageError(msg)


def _deltas(program: bytes, bases: Sequence[bytes]) -> dict[str, bytes]:
    """Return the deltas that are worth their requests, by the digest of their base, in order."""
    if not bases:
        return {}
    from alcove.registry.delta import WORTH, can_win, make_delta  # noqa: PLC0415 - loads Zstandard

    likely = [base for base in bases if base != program and can_win(base, program)]
    others = {hashlib.sha256(base).hexdigest(): base for base in likely}
    made = {digest: make_delta(base, program) for digest, base in list(others.items())[: limits.DELTAS_MAX]}
    return {digest: delta for digest, delta in sorted(made.items()) if len(delta) < WORTH * len(program)}


def _variant(name: str, program: bytes, facts: ProgramFacts, deltas: Mapping[str, bytes]) -> dict[str, object]:
    return {
        "name": name,
        "sha256": hashlib.sha256(program).hexdigest(),
        "size_bytes": len(program),
        "memory_ceiling_bytes": facts.memory_ceiling_bytes,
        "certificate_sha256": facts.certificate_sha256,
        "deltas": [
            {"base_sha256": base, "sha256": hashlib.sha256(delta).hexdigest(), "size_bytes": len(delta)}
            for base, delta in deltas.items()
        ],
    }


@dataclass(frozen=True, slots=True)
class VariantReport:
    """One variant that passed every check."""

    name: str
    sha256: str
    size_bytes: int
    memory_ceiling_bytes: int


@dataclass(frozen=True, slots=True)
class PackageReport:
    """What was verified: every digest and size, the structure and weights of each program, its certificate."""

    feature: str
    team: str
    version: str
    manifest_sha256: str
    variants: tuple[VariantReport, ...]


def verify_package(
    package: Package,
    *,
    verifier: ProgramVerifier | None = None,
    base: Callable[[str], bytes | None] = lambda _sha256: None,
) -> PackageReport:
    """Return what `package` holds after checking all of it, as a device would at installation.

    Args:
        package: what is to be published.
        verifier: reads programs; the runtime by default.
        base: returns the program that a delta starts from, or None where it is not at hand: the delta is then taken
            as it is, and a device that it fails fetches the whole program.

    Raises:
        DeltaError: a delta makes nothing of its base.
        IntegrityError: a file is not the one that the manifest names.
        PackageError: a file is absent or superfluous.
        ProgramRefusedError: the runtime, a weight's digest, the certificate or the stated memory refuses a program.
    """
    from alcove.registry.program_verification import RuntimeVerifier  # noqa: PLC0415 - a device reads manifests without it

    reader = verifier or RuntimeVerifier()
    manifest = package.manifest
    _check_files(package)
    for variant in manifest.variants:
        verify_variant(
            manifest,
            variant,
            package.program(variant.name),
            delta=partial(_delta_of, package, variant),
            base=base,
            verifier=reader,
        )
    return PackageReport(
        feature=manifest.feature,
        team=manifest.team,
        version=manifest.version,
        manifest_sha256=manifest.sha256,
        variants=tuple(
            VariantReport(item.name, item.sha256, item.size_bytes, item.memory_ceiling_bytes)
            for item in manifest.variants
        ),
    )


def _check_files(package: Package) -> None:
    expected = {CARD_FILE: package.manifest.card.sha256}
    for variant in package.manifest.variants:
        expected[program_file(variant.name)] = variant.sha256
        expected |= {delta_file(variant.name, delta.base_sha256): delta.sha256 for delta in variant.deltas}
    if package.files.keys() != expected.keys():
        msg = f"the manifest names {sorted(expected)}, the package holds {sorted(package.files)}"
        raise PackageError(msg)
    sizes = package.manifest.blobs()
    for path, digest in expected.items():
        data = package.files[path]
        if len(data) != sizes[digest]:
            raise IntegrityError(path, expected=f"{sizes[digest]} bytes", seen=f"{len(data)} bytes")
        seen = hashlib.sha256(data).hexdigest()
        if seen != digest:
            raise IntegrityError(path, expected=digest, seen=seen)


def verify_variant(
    manifest: Manifest,
    variant: Variant,
    program: bytes,
    *,
    delta: Callable[[str], bytes],
    base: Callable[[str], bytes | None],
    verifier: ProgramVerifier,
) -> None:
    """Check one program and the deltas that make it; `verify_package` compares the digests of all files before.

    Args:
        manifest: names the variant.
        variant: what the program is to be.
        program: bytes of the whole program.
        delta: returns a delta by its digest.
        base: returns the program that a delta starts from, None where it is not at hand.
        verifier: reads programs.

    Raises:
        DeltaError: a delta makes nothing of its base.
        IntegrityError: a delta makes another program.
        ProgramRefusedError: as `inspection.verify_program`.
    """
    from alcove.registry.program_verification import verify_program  # noqa: PLC0415 - a device reads manifests without it

    verify_program(verifier, manifest, variant, program)
    for item in variant.deltas:
        start = base(item.base_sha256)
        if start is None:
            continue
        from alcove.registry.delta import apply_delta  # noqa: PLC0415 - loads Zstandard

        made = apply_delta(start, delta(item.sha256), variant.size_bytes)
        seen = hashlib.sha256(made).hexdigest()
        if seen != variant.sha256:
            what = f"what {delta_file(variant.name, item.base_sha256)} makes"
            raise IntegrityError(what, expected=variant.sha256, seen=seen)


def _delta_of(package: Package, variant: Variant, sha256: str) -> bytes:
    base = next(item.base_sha256 for item in variant.deltas if item.sha256 == sha256)
    return package.files[delta_file(variant.name, base)]


def write_package(package: Package, folder: Path) -> None:
    """Write `package` into `folder`; the manifest comes last, so a folder with a manifest is complete.

    Raises:
        PackageError: `folder` holds another package.
        StorageError: a file could not be written.
    """
    manifest_file = folder / MANIFEST_FILE
    if manifest_file.exists() and manifest_file.read_bytes() != package.manifest.to_bytes():
        msg = f"{folder} holds another package; choose an empty folder"
        raise PackageError(msg)
    try:
        for path, data in package.files.items():
            replace_file(DISK, folder / path, data)
        replace_file(DISK, manifest_file, package.manifest.to_bytes())
    except OSError as error:
        raise StorageError(str(error.filename or folder), str(error)) from error


def read_package(folder: Path) -> Package:
    """Return the package in `folder`; `verify_package` judges it.

    Raises:
        DocumentError: the manifest is not acceptable.
        PackageError: a file is larger than its bound.
        StorageError: a file is absent or cannot be read.
    """
    manifest = Manifest.from_bytes(_read(folder / MANIFEST_FILE, limits.MANIFEST_MAX_BYTES))
    files = {CARD_FILE: _read(folder / CARD_FILE, limits.CARD_MAX_BYTES)}
    for variant in manifest.variants:
        path = program_file(variant.name)
        files[path] = _read(folder / path, limits.PROGRAM_MAX_BYTES)
        for delta in variant.deltas:
            path = delta_file(variant.name, delta.base_sha256)
            files[path] = _read(folder / path, limits.PROGRAM_MAX_BYTES)
    return Package(manifest, files)


def _read(path: Path, limit_bytes: int) -> bytes:
    try:
        data = read_bounded(path, limit_bytes)
    except OSError as error:
        raise StorageError(str(path), error.strerror or str(error)) from error
    if data is None:
        msg = f"{path} has more than {limit_bytes} bytes"
        raise PackageError(msg)
    return data
