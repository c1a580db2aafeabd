"""What is published as one version: the manifest, and the files that it names.

A package is a folder (or a value) of `manifest.json`, `CARD.md` and one program per variant under `programs/`.  The
manifest is the only signed part: everything else is named in it by size and SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping  # noqa: TC003 - pydantic and dataclasses read it at run time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from alcove.registry import limits
from alcove.registry.canonical import Digest, Document, FeatureName, Part, TeamName, VersionText
from alcove.registry.errors import PackageError
from pydantic import Field, StringConstraints, ValidationError, model_validator

if TYPE_CHECKING:
    from alcove.registry.inspection import ProgramFacts, ProgramInspector

VariantName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
PortName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Dimension = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]

MANIFEST_FILE: Final = "manifest.json"
CARD_FILE: Final = "CARD.md"
# The first runtime that reads programs of format 1.
MIN_RUNTIME: Final = "0.1.0"


class PortSignature(Part):
    """One input or output: what a caller passes or gets.

    Attributes:
        is_ragged: the first dimension is an upper bound.
        labels: names that the output chooses from; () where it has none.
    """

    name: PortName
    dtype: Literal["f32", "i8", "i32", "i64", "u8", "bool", "text"]
    shape: Annotated[tuple[Dimension, ...], Field(max_length=limits.RANK_MAX)]
    is_ragged: Annotated[bool, Field(strict=True)] = False
    labels: Annotated[tuple[Label, ...], Field(max_length=limits.LABELS_MAX)] = ()


class Signature(Part):
    """The contract of a feature; the same for all variants of a version."""

    inputs: Annotated[tuple[PortSignature, ...], Field(min_length=1, max_length=limits.PORTS_MAX)]
    outputs: Annotated[tuple[PortSignature, ...], Field(min_length=1, max_length=limits.PORTS_MAX)]


class Variant(Part):
    """One program, for one kind of device.

    Attributes:
        sha256, size_bytes: of the whole program file.
        memory_ceiling_bytes: most that one run needs besides the program.
        certificate_sha256: of the parity certificate inside the program.
    """

    name: VariantName
    engine: Literal["alcove"] = "alcove"
    sha256: Digest
    size_bytes: Annotated[int, Field(strict=True, ge=1, le=limits.PROGRAM_MAX_BYTES)]
    memory_ceiling_bytes: Annotated[int, Field(strict=True, ge=0, le=2**40)]
    certificate_sha256: Digest


class CardReference(Part):
    """The model card, by content."""

    sha256: Digest
    size_bytes: Annotated[int, Field(strict=True, ge=1, le=limits.CARD_MAX_BYTES)]


class PrivacyManifest(Part):
    """What of a prediction may ever leave the device: never its input, at most these, only as noised reports."""

    is_input_private: Literal[True] = True
    reported: Annotated[tuple[Literal["arm", "outcome", "latency"], ...], Field(max_length=3)] = (
        "arm",
        "outcome",
        "latency",
    )


class Manifest(Document):
    """The signed description of one immutable version of a feature."""

    format: Literal[1] = 1
    feature: FeatureName
    team: TeamName
    version: VersionText
    signature: Signature
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=limits.VARIANTS_MAX)]
    card: CardReference
    privacy: PrivacyManifest = PrivacyManifest()
    min_runtime: VersionText = MIN_RUNTIME

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [variant.name for variant in self.variants]
        if names != sorted(set(names)):
            msg = f"variants must have distinct names, in order, got {names}"
            raise ValueError(msg)
        return self

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the manifest whose canonical bytes are `data`.

        Raises:
            DocumentTooLarge: more than `limits.MANIFEST_MAX_BYTES`; nothing was parsed.
            DocumentError: not the canonical encoding of an acceptable manifest.
        """
        return cls.parse(data, kind="manifest", max_bytes=limits.MANIFEST_MAX_BYTES)

    @property
    def sha256(self) -> str:
        """Digest of the canonical bytes, as `VersionRef.manifest_sha256` names it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def path(self) -> str:
        """Path of the manifest among the tree's targets."""
        return manifest_path(self.feature, self.version)

    def blobs(self) -> Mapping[str, int]:
        """Return the size in bytes of every file that the manifest names, by digest."""
        return {self.card.sha256: self.card.size_bytes} | {item.sha256: item.size_bytes for item in self.variants}


def manifest_path(feature: str, version: str) -> str:
    """Return the path of a version's manifest among the tree's targets."""
    return f"{feature}/{version}.json"


@dataclass(frozen=True, slots=True)
class Package:
    """A manifest and the bytes that it names.

    Attributes:
        files: `CARD.md` and `programs/<variant>.alc`, by path inside the package.
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


def create_package(
    *,
    feature: str,
    team: str,
    version: str,
    programs: Mapping[str, bytes],
    card: str,
    min_runtime: str = MIN_RUNTIME,
    privacy: PrivacyManifest | None = None,
    inspector: ProgramInspector | None = None,
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
        inspector: reads programs; the runtime unless told otherwise.

    Raises:
        ProgramRefusedError: the runtime does not load a program.
        PackageError: a name, number or size is out of its bounds, or the variants disagree about the signature.
    """
    from alcove.registry.inspection import RuntimeInspector  # noqa: PLC0415 - a device reads manifests without it

    reader = inspector or RuntimeInspector()
    facts = {name: reader.inspect(name, program) for name, program in sorted(programs.items())}
    _check_signatures(facts)
    card_bytes = card.encode("utf-8")
    files = {CARD_FILE: card_bytes} | {program_file(name): program for name, program in programs.items()}
    try:
        manifest = Manifest(
            feature=feature,
            team=team,
            version=version,
            signature=next(iter(facts.values())).signature,
            variants=tuple(_variant(name, programs[name], seen) for name, seen in facts.items()),
            card=CardReference(sha256=hashlib.sha256(card_bytes).hexdigest(), size_bytes=len(card_bytes)),
            privacy=privacy or PrivacyManifest(),
            min_runtime=min_runtime,
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        msg = f"manifest at {where}: {fault['msg']}"
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


def _variant(name: str, program: bytes, facts: ProgramFacts) -> Variant:
    return Variant(
        name=name,
        sha256=hashlib.sha256(program).hexdigest(),
        size_bytes=len(program),
        memory_ceiling_bytes=facts.memory_ceiling_bytes,
        certificate_sha256=facts.certificate_sha256,
    )
