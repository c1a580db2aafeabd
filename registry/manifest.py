"""Defines the manifest that a team signs for a version; it names everything else by size and SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping  # noqa: TC003 - kept beside what pydantic reads
from typing import Annotated, Any, Final, Literal, Self

from alcove.registry import limits
from alcove.registry.canonical import Digest, Document, FeatureName, Part, TeamName, VersionText, version_key
from alcove.registry.parameters import Parameter  # noqa: TC002 - pydantic reads it
from pydantic import Field, SerializerFunctionWrapHandler, StringConstraints, model_serializer, model_validator

VariantName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
PortName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Dimension = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]

# The first runtime that reads programs of format 1.
MIN_RUNTIME: Final = "0.1.0"
PARAMETERS_RUNTIME: Final = "0.1.0"
"""Oldest runtime whose devices read `parameters` of a manifest and `values` of a policy; an older one refuses both."""


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


class ModelSignature(Part):
    """The contract of a feature; the same for all variants of a version."""

    inputs: Annotated[tuple[PortSignature, ...], Field(min_length=1, max_length=limits.PORTS_MAX)]
    outputs: Annotated[tuple[PortSignature, ...], Field(min_length=1, max_length=limits.PORTS_MAX)]


class Delta(Part):
    """What makes a variant's program of one that devices may have already (`delta.py`).

    Attributes:
        base_sha256: of the program that it starts from.
        sha256, size_bytes: of the delta itself.
    """

    base_sha256: Digest
    sha256: Digest
    size_bytes: Annotated[int, Field(strict=True, ge=1, le=limits.PROGRAM_MAX_BYTES)]


class Requirements(Part):
    """What a device must have for a variant; 0 and "" ask for nothing.

    Attributes:
        isa: an instruction set that the runtime has kernels for. Answers are the same with each, to the bit: it says
            where a variant is fast enough.
        memory_bytes: of the device, in all.
        cores: that the app may use.
    """

    isa: Literal["", "avx2", "avx512", "avx512_vnni", "avx512_vbmi", "neon", "neon_dotprod", "neon_i8mm"] = ""
    memory_bytes: Annotated[int, Field(strict=True, ge=0, le=2**40)] = 0
    cores: Annotated[int, Field(strict=True, ge=0, le=1024)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.isa or self.memory_bytes or self.cores):
            msg = "requirements say at least one thing; leave them out if there is none to say"
            raise ValueError(msg)
        return self

    def __str__(self) -> str:
        """Return the requirements in words."""
        parts = (
            self.isa,
            self.memory_bytes and f"{self.memory_bytes} bytes of memory",
            self.cores and f"{self.cores} cores",
        )
        return ", ".join(str(part) for part in parts if part)


class Variant(Part):
    """One program, for one kind of device; without deltas or requirements it has no such field.

    Attributes:
        sha256, size_bytes: of the whole program file.
        memory_ceiling_bytes: most that one run needs besides the program.
        certificate_sha256: of the parity certificate inside the program.
        deltas: by the digest of their base, in order.
        requirements: what a device must have (`needs` in the signed bytes); None: any device will do.
    """

    name: VariantName
    engine: Literal["alcove"] = "alcove"
    sha256: Digest
    size_bytes: Annotated[int, Field(strict=True, ge=1, le=limits.PROGRAM_MAX_BYTES)]
    memory_ceiling_bytes: Annotated[int, Field(strict=True, ge=0, le=2**40)]
    certificate_sha256: Digest
    deltas: Annotated[tuple[Delta, ...], Field(max_length=limits.DELTAS_MAX)] = ()
    requirements: Requirements | None = Field(default=None, validation_alias="needs", serialization_alias="needs")

    @model_serializer(mode="wrap")
    def _without_absent(self, encode: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = encode(self)
        return {name: value for name, value in fields.items() if name not in ("deltas", "needs") or value}

    @model_validator(mode="after")
    def _check(self) -> Self:
        bases = [delta.base_sha256 for delta in self.deltas]
        if bases != sorted(set(bases)) or self.sha256 in bases:
            msg = f"deltas must have distinct bases, in order, and none is the program itself, got {bases}"
            raise ValueError(msg)
        for delta in self.deltas:
            if delta.size_bytes >= self.size_bytes:
                msg = f"a delta must be smaller than the program's {self.size_bytes} bytes, got {delta.size_bytes}"
                raise ValueError(msg)
        return self


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


class Lineage(Part):
    """Where a version comes from, as far as its team states; "" stands for what is not stated.

    Attributes:
        training_run: id of the run that made the weights.
        code_revision: of the code that ran.
        data: what was learnt from, in words.
        parent: version of the same feature that it was made from.
    """

    training_run: Annotated[str, StringConstraints(max_length=limits.LINEAGE_ID_LENGTH)] = ""
    code_revision: Annotated[str, StringConstraints(max_length=limits.LINEAGE_ID_LENGTH)] = ""
    data: Annotated[str, StringConstraints(max_length=limits.LINEAGE_DATA_LENGTH)] = ""
    parent: VersionText | Literal[""] = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not any((self.training_run, self.code_revision, self.data, self.parent)):
            msg = "a lineage says at least one thing; leave it out if there is none to say"
            raise ValueError(msg)
        return self


class Manifest(Document):
    """The signed description of one immutable version of a feature; without lineage or parameters it has no such field.

    Attributes:
        min_runtime: oldest runtime that runs it; of a version with parameters at least `PARAMETERS_RUNTIME`.
        parameters: what a policy may change, within the team's bounds; by rising name.
    """

    format: Literal[1] = 1
    feature: FeatureName
    team: TeamName
    version: VersionText
    signature: ModelSignature
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=limits.VARIANTS_MAX)]
    card: CardReference
    privacy: PrivacyManifest = PrivacyManifest()
    min_runtime: VersionText = MIN_RUNTIME
    lineage: Lineage | None = None
    parameters: Annotated[
        tuple[Parameter, ...], Field(max_length=limits.PARAMETERS_MAX, exclude_if=lambda value: not value)
    ] = ()

    @model_serializer(mode="wrap")
    def _without_absent(self, encode: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = encode(self)
        return {name: value for name, value in fields.items() if name != "lineage" or value is not None}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lineage is not None and self.lineage.parent == self.version:
            msg = f"version {self.version} cannot be its own parent"
            raise ValueError(msg)
        declared = [parameter.name for parameter in self.parameters]
        if declared != sorted(set(declared)):
            msg = f"parameters must have distinct names, in order, got {declared}"
            raise ValueError(msg)
        if self.parameters and version_key(self.min_runtime) < version_key(PARAMETERS_RUNTIME):
            bound = f"a min_runtime of at least {PARAMETERS_RUNTIME}"
            msg = f"a version with parameters has {bound}, got {self.min_runtime}"
            raise ValueError(msg)
        names = [variant.name for variant in self.variants]
        if names != sorted(set(names)):
            msg = f"variants must have distinct names, in order, got {names}"
            raise ValueError(msg)
        return self

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the manifest whose canonical bytes are `data`.

        Raises:
            DocumentTooLargeError: more than `limits.MANIFEST_MAX_BYTES`; nothing was parsed.
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
        sizes = {self.card.sha256: self.card.size_bytes} | {item.sha256: item.size_bytes for item in self.variants}
        return sizes | {delta.sha256: delta.size_bytes for item in self.variants for delta in item.deltas}


def manifest_path(feature: str, version: str) -> str:
    """Return the path of a version's manifest among the tree's targets."""
    return f"{feature}/{version}.json"
