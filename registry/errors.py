"""Defines the errors between a team, the registry and a device.

::

    RegistryError
    ├── with them: what was read is not acceptable
    │   ├── DocumentError           a manifest, policy or halt that says something impossible
    │   │   └── DocumentTooLargeError
    │   ├── MetadataError           the signed tree
    │   │   ├── SignatureError      not signed by the keys that the tree delegates to
    │   │   ├── ExpiredMetadataError
    │   │   ├── RollbackError       older than what was accepted before
    │   │   ├── MissingTargetError  the tree names no such document
    │   │   ├── IntegrityError      bytes differ from the signed digest or size
    │   │   └── WrongSubjectError   signed, but about another feature, version, team or app
    │   ├── PackageError            a package that must not be published
    │   │   └── ProgramRefusedError the runtime, its certificate or its size refuses one variant
    │   ├── DeltaError              bytes that should turn one program into another do not
    │   └── PublishError            a publication that breaks a rule of the tree
    │       ├── VersionExistsError  versions are immutable
    │       ├── StaleMetadataError  signed on top of metadata that is no longer current
    │       └── MissingBlobError    a manifest names bytes that were not uploaded
    ├── with us
    │   ├── FetchError              the network or the server (transient; try again)
    │   ├── StorageError            our disk
    │   ├── KeyFileError            a private key that is absent, malformed or readable by others
    │   └── SigningError            a key that does not sign now: its service does not answer
    └── with the call
        ├── FeatureUnknownError     the policy does not know the feature
        ├── VersionHaltedError      nothing may run that the policy would choose
        ├── AudienceError           an audience, or a device's description, that means nothing
        │   ├── AudienceSyntaxError text that does not read as an audience
        │   ├── UnknownAttributeError an attribute that no device has
        │   ├── AttributeValueError a value of another type than its attribute's
        │   ├── EmptyAudienceError  no device can be in it
        │   └── DimensionError      values by which reports cannot be told apart
        └── ReadOnlyRepositoryError       publishing without the online keys
"""

from __future__ import annotations


class RegistryError(Exception):
    """Anything that the registry refuses; every subclass carries fields besides its message."""


class DocumentError(RegistryError):
    """A document's bytes are not the canonical form of an acceptable document.

    Attributes:
        document: kind of document ("policy", "manifest", ...).
        where: dotted path of the offending field, "" for the whole.
        problem: what is wrong, with the bound and the value.
    """

    def __init__(self, document: str, where: str, problem: str) -> None:
        self.document, self.where, self.problem = document, where, problem
        place = f" at {where}" if where else ""
        super().__init__(f"{document}{place}: {problem}")


class DocumentTooLargeError(DocumentError):
    """A document is larger than its hard cap; it was not parsed."""

    def __init__(self, document: str, *, limit_bytes: int, size_bytes: int) -> None:
        self.limit_bytes, self.size_bytes = limit_bytes, size_bytes
        super().__init__(document, "", f"at most {limit_bytes} bytes are read, it has {size_bytes}")


class MetadataError(RegistryError):
    """The signed tree cannot be accepted.

    Attributes:
        role: the TUF role concerned, "" when the error is not about one role.
        problem: what is wrong, without the role.
    """

    def __init__(self, role: str, problem: str) -> None:
        self.role, self.problem = role, problem
        super().__init__(f"{role}: {problem}" if role else problem)


class SignatureError(MetadataError):
    """Metadata is not signed by enough of the keys that its delegator names."""


class ExpiredMetadataError(MetadataError):
    """Metadata is past its date; `expired_at_s` and `version` are None where the reader could not tell."""

    def __init__(self, role: str, *, version: int | None = None, expired_at_s: int | None = None) -> None:
        self.version, self.expired_at_s = version, expired_at_s
        number = "" if version is None else f"version {version} "
        moment = "" if expired_at_s is None else f" at {expired_at_s} s since 1970"
        super().__init__(role, f"{number}expired{moment}")


class RollbackError(MetadataError):
    """Something older than, or different from, what was accepted before under the same number."""


class MissingTargetError(MetadataError):
    """No trusted role of the tree names this path; `advice` says what to do about it, where that is known."""

    def __init__(self, path: str, advice: str = "") -> None:
        self.path = path
        super().__init__("", f"the tree holds no {path}{advice and ': '}{advice}")


class IntegrityError(MetadataError):
    """Bytes are not the ones that were signed.

    Attributes:
        thing: what was read (a path or a digest).
        expected: signed digest or size.
        seen: digest or size of the bytes that came.
    """

    def __init__(self, thing: str, *, expected: str, seen: str) -> None:
        self.thing, self.expected, self.seen = thing, expected, seen
        super().__init__("", f"{thing}: expected {expected}, seen {seen}")


class WrongSubjectError(MetadataError):
    """A signed document that speaks of something else than its place in the tree says."""

    def __init__(self, document: str, *, field: str, expected: str, seen: str) -> None:
        self.document, self.field, self.expected, self.seen = document, field, expected, seen
        super().__init__("", f"{document}: {field} should be {expected!r}, it says {seen!r}")


class PackageError(RegistryError):
    """A package that must not be published; `problem` names the thing, the bound and the value."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class ProgramRefusedError(PackageError):
    """One variant's program is not acceptable."""

    def __init__(self, variant: str, reason: str) -> None:
        self.variant, self.reason = variant, reason
        super().__init__(f"variant {variant!r}: {reason}")


class DeltaError(RegistryError):
    """Bytes that should turn one program into another do not; `problem` names the bound and the value."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"delta: {problem}")


class PublishError(RegistryError):
    """A publication that breaks a rule of the tree; nothing was changed."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class VersionExistsError(PublishError):
    """A version was published before; versions are immutable."""

    def __init__(self, feature: str, version: str) -> None:
        self.feature, self.version = feature, version
        super().__init__(f"{feature} {version} exists already; a version never changes")


class StaleMetadataError(PublishError):
    """Metadata or a document does not follow the current one: read the current one and sign again."""

    def __init__(self, role: str, *, expected_version: int, seen_version: int) -> None:
        self.role, self.expected_version, self.seen_version = role, expected_version, seen_version
        super().__init__(f"{role}: the next number is {expected_version}, got {seen_version}")


class MissingBlobError(PublishError):
    """A manifest names bytes that are not in the blob store."""

    def __init__(self, owner: str, sha256: str) -> None:
        self.owner, self.sha256 = owner, sha256
        super().__init__(f"{owner} needs blob {sha256}, which was not uploaded")


class FetchError(RegistryError):
    """The network or the server failed; nothing was learnt about the tree.

    Attributes:
        status: HTTP status where there was one.
    """

    def __init__(self, problem: str, *, status: int | None = None) -> None:
        self.problem, self.status = problem, status
        super().__init__(problem)


class StorageError(RegistryError):
    """A local file could not be read or written."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class KeyFileError(RegistryError):
    """A private key file is absent, malformed, in the way, or open to others."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class SigningError(RegistryError):
    """A key did not sign, or what its service sent back is no signature by it; nothing was published with it."""

    def __init__(self, role: str, keyid: str, problem: str) -> None:
        self.role, self.keyid, self.problem = role, keyid, problem
        super().__init__(f"key {keyid} of {role} does not sign: {problem}")


class FeatureUnknownError(RegistryError):
    """The policy says nothing about this feature."""

    def __init__(self, app: str, feature: str) -> None:
        self.app, self.feature = app, feature
        super().__init__(f"the policy of {app!r} does not know the feature {feature!r}")


class VersionHaltedError(RegistryError):
    """Every version that the policy would choose is halted; the device falls back to what it has."""

    def __init__(self, feature: str, version: str) -> None:
        self.feature, self.version = feature, version
        super().__init__(f"{feature} {version} is halted")


class AudienceError(RegistryError):
    """An audience, or a device's description, that means nothing."""


class AudienceSyntaxError(AudienceError):
    """Text that does not read as an audience.

    Attributes:
        text: what was read.
        position: of the fault, in characters from 0.
        expected: what could stand there.
        found: what stands there; "" at the end.
    """

    def __init__(self, text: str, *, position: int, expected: str, found: str) -> None:
        self.text, self.position, self.expected, self.found = text, position, expected, found
        seen = f"{found!r}" if found else "the end"
        super().__init__(f"audience, character {position + 1}: expected {expected}, found {seen}")


class UnknownAttributeError(AudienceError):
    """An attribute that no device has; `position` is its first character in the text, 0 where there is none."""

    def __init__(self, attribute: str, *, known: tuple[str, ...], position: int = 0) -> None:
        self.attribute, self.known, self.position = attribute, known, position
        super().__init__(f"no device has the attribute {attribute!r}; there are {', '.join(known)}")


class AttributeValueError(AudienceError):
    """A value of another type, or outside the bounds, of its attribute."""

    def __init__(self, attribute: str, *, expected: str, value: object) -> None:
        self.attribute, self.expected, self.value = attribute, expected, value
        super().__init__(f"{attribute} is {expected}, got {value!r}")


class EmptyAudienceError(AudienceError):
    """No device can meet all that is asked of one attribute."""

    def __init__(self, attribute: str, problem: str) -> None:
        self.attribute, self.problem = attribute, problem
        super().__init__(f"no device can be in this audience: {attribute}: {problem}")


class DimensionError(AudienceError):
    """Values of an attribute by which reports cannot be told apart."""

    def __init__(self, bound: str, value: object) -> None:
        self.bound, self.value = bound, value
        super().__init__(f"a dimension has {bound}, got {value}")


class ReadOnlyRepositoryError(RegistryError):
    """This tree was opened without the online keys."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(f"publishing needs the key of {role!r}; this tree was opened for reading only")
