"""Defines the errors of the SDK on a device.

AlcoveSdkError
├── RemoteError                     them: the server or what it sent
│   ├── TransportError              no connection, a broken or a too slow one (transient; the next sync tries again)
│   │   └── TooSlowError            a file or a sync took longer than it may; what came of it stays
│   ├── StatusError                 an answer that is no success
│   ├── ResponseTooLargeError       more bytes than asked for
│   ├── TokenKeyMismatchError       issuer and aggregators name different keys for tokens
│   ├── AttestationError            the platform gives no evidence now
│   └── IncompatibleError           a version that this device cannot run
│       ├── RuntimeTooOldError      it needs a newer runtime
│       ├── NoVariantError          none of its variants is for this device
│       ├── OtherSignatureError     it takes or gives something else than this app passes and reads
│       └── QuarantinedError        it crashed this app three times in a row
├── DeviceError                     us: the device's own state
│   └── DeviceStorageError          the disk failed, or is full
│       └── NoSpaceError            too little is free for a download, which was not begun
└── CallError                       the call
    ├── InsecureServerError         a server address that would not be private
    ├── ForeignFolderError          a data folder that holds something else than ours
    ├── UnknownFeatureError         a feature that this app has neither installed nor shipped
    ├── NoPredictionError           an outcome with no prediction before it
    ├── OutOfBoundError             an argument out of its bound
    └── ClosedError                 the client was closed
        └── StreamClosedError       the stream was closed

Beside these, a sync may answer with an error of `alcove.registry.errors` (signatures, expiry, rollback,
`IntegrityError` for a tampered blob), and a report with one of `alcove.privacy.errors` (no budget).  A prediction never
raises for bad data: it answers with an error code.
"""

from collections.abc import Iterable


class AlcoveSdkError(Exception):
    """Every error of this package."""


class RemoteError(AlcoveSdkError):
    """The server, or what it sent."""


class TransportError(RemoteError):
    """A request got no whole answer; try again later."""

    def __init__(self, *, method: str, path: str, reason: str) -> None:
        self.method = method
        self.path = path
        self.reason = reason
        super().__init__(f"{method} {path}: {reason}")


class TooSlowError(TransportError):
    """A file or a whole sync took longer than it may; what came stays, and the next sync continues from there.

    Attributes:
        path: the file; "" for the whole sync.
        limit_s: longest time, in seconds.
    """

    def __init__(self, *, path: str, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(
            method="GET", path=path or "(sync)", reason=f"not within {limit_s:.0f} s; it continues next time"
        )
        self.path = path


class StatusError(RemoteError):
    """A request was answered with something else than success."""

    def __init__(self, *, method: str, path: str, status: int, retry_after_s: float | None = None) -> None:
        self.method = method
        self.path = path
        self.status = status
        self.retry_after_s = retry_after_s
        wait = "" if retry_after_s is None else f"; it asks to be left alone for {retry_after_s:.0f} s"
        super().__init__(f"{method} {path}: answered with status {status}{wait}")


class ResponseTooLargeError(RemoteError):
    """An answer has more bytes than asked for; the rest was not read."""

    def __init__(self, *, path: str, limit_bytes: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        super().__init__(f"{path}: the answer has more than {limit_bytes} bytes")


class TokenKeyMismatchError(RemoteError):
    """The issuer of tokens and both aggregators do not name one key for a window, so it could mark this device."""

    def __init__(self, *, issuer: str, path: str) -> None:
        self.issuer = issuer
        self.path = path
        super().__init__(f"{path}: leader, helper and {issuer} do not name the same key; no token is asked for")


class AttestationError(RemoteError):
    """The app's platform gives no evidence that this device is genuine; the next turn asks again."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no evidence of the platform: {reason}")


class IncompatibleError(RemoteError):
    """A version is in order, but not for this device; what the device has stays."""


class RuntimeTooOldError(IncompatibleError):
    """A version needs a newer runtime than this app carries."""

    def __init__(self, *, feature: str, version: str, needed: str, present: str) -> None:
        self.feature = feature
        self.version = version
        self.needed = needed
        self.present = present
        super().__init__(f"{feature} {version} needs runtime {needed} or newer; this is {present}")


class NoVariantError(IncompatibleError):
    """No variant of a version is for this device; `variants` says what each needs."""

    def __init__(self, *, feature: str, version: str, variants: Iterable[str]) -> None:
        self.feature = feature
        self.version = version
        self.variants = tuple(variants)
        super().__init__(f"{feature} {version} has no variant for this device: {'; '.join(self.variants)}")


class OtherSignatureError(IncompatibleError):
    """A version takes or gives something else than this app passes and reads; `differences` is a sentence each."""

    def __init__(self, *, feature: str, version: str, manifest_sha256: str, differences: Iterable[str]) -> None:
        self.feature = feature
        self.version = version
        self.manifest_sha256 = manifest_sha256
        self.differences = tuple(differences)
        super().__init__(f"{feature} {version} is not called as this app calls it: {'; '.join(self.differences)}")


class QuarantinedError(IncompatibleError):
    """A version crashed this app so often that it is never loaded or installed here again."""

    def __init__(self, *, feature: str, version: str, manifest_sha256: str, crashes: int) -> None:
        self.feature = feature
        self.version = version
        self.manifest_sha256 = manifest_sha256
        self.crashes = crashes
        super().__init__(f"{feature} {version} crashed this app {crashes} times; it needs another version")


class DeviceError(AlcoveSdkError):
    """The device's own state."""


class DeviceStorageError(DeviceError):
    """A step on the disk failed; what was installed before stands."""

    def __init__(self, *, step: str, path: str, reason: str) -> None:
        self.step = step
        self.path = path
        self.reason = reason
        super().__init__(f"{step} {path}: {reason}")


class NoSpaceError(DeviceStorageError):
    """A download was not begun, because too little of the disk is free."""

    def __init__(self, *, path: str, needed_bytes: int, free_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        super().__init__(step="reserve", path=path, reason=f"{needed_bytes} bytes are needed, {free_bytes} are free")


class CallError(AlcoveSdkError):
    """The call is wrong."""


class InsecureServerError(CallError):
    """A server address is not https:// (or, for a loopback address, http://), or says more than a place."""

    def __init__(self, *, server: str, problem: str) -> None:
        self.server = server
        self.problem = problem
        super().__init__(f"server {server!r}: {problem}")


class ForeignFolderError(CallError):
    """A data folder holds what is not ours, or leads elsewhere by a link; nothing in it was touched.

    Attributes:
        folder: the folder.
        found: names in it that are not ours, or links in the place of our folders.
    """

    def __init__(self, *, folder: str, found: Iterable[str]) -> None:
        self.folder = folder
        self.found = tuple(found)
        shown = ", ".join(repr(name) for name in self.found[:5]) + (", …" if len(self.found) > 5 else "")
        super().__init__(
            f"{folder} is not this client's: it holds {shown}; give it a folder of its own, absent or empty at first"
        )


class UnknownFeatureError(CallError):
    """This app has neither a baseline nor an installed version of a feature.

    Attributes:
        feature: its name.
        known: features that have one.
        has_synced: a sync has brought features to this device already.
    """

    def __init__(self, *, feature: str, known: Iterable[str], has_synced: bool) -> None:
        self.feature = feature
        self.known = tuple(sorted(known))
        self.has_synced = has_synced
        advice = "" if has_synced else "; nothing was synced yet, so call client.sync() first"
        super().__init__(f"no feature {feature!r} here; known: {', '.join(self.known) or 'none'}{advice}")


class NoPredictionError(CallError):
    """An outcome was recorded before anything was predicted."""

    def __init__(self, *, feature: str) -> None:
        self.feature = feature
        super().__init__(f"{feature}: predict first, then record the outcome of the answer")


class OutOfBoundError(CallError):
    """An argument is out of its bound."""

    def __init__(self, *, name: str, bound: str, value: object) -> None:
        self.name = name
        self.bound = bound
        self.value = value
        super().__init__(f"{name} must be {bound}, not {value!r}")


class ClosedError(CallError):
    """The client was closed."""

    def __init__(self) -> None:
        super().__init__("this client was closed")


class StreamClosedError(ClosedError):
    """The stream was closed, or finished; the client may be open."""

    def __init__(self, *, feature: str) -> None:
        self.feature = feature
        CallError.__init__(self, f"{feature}: this stream was closed; open another by handle.stream()")
