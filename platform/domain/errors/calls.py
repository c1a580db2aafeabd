"""Defines what is wrong with a call, or with what a device sends: repeat it differently."""

from collections.abc import Mapping

from alcove.platform.domain.errors.root import PlatformError


class CallError(PlatformError):
    """The call itself is wrong."""


class InvalidFieldError(CallError):
    """A field is missing or outside its bound."""

    def __init__(self, field: str, bound: str, value: object) -> None:
        self.field, self.bound, self.value = field, bound, value
        # Whole records are not what anybody wrote; their parts that matter are in `bound`.
        seen = "" if isinstance(value, Mapping) else f", got {value!r:.120}"
        super().__init__(f"{field}: expected {bound}{seen}")


class ResourceNotFoundError(CallError):
    """Something named in the call does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"no {kind} named {name!r:.120}")


class RequestIdReusedError(CallError):
    """The request id was used before for another content."""

    def __init__(self, request_id: str, method: str) -> None:
        self.request_id, self.method = request_id, method
        super().__init__(f"request_id {request_id!r} was used before for another {method}; use a new one")


class BlobTooLargeError(CallError):
    """An upload is larger than the limit or than its header said."""

    def __init__(self, limit_bytes: int, size_bytes: int) -> None:
        self.limit_bytes, self.size_bytes = limit_bytes, size_bytes
        super().__init__(f"blob: at most {limit_bytes} bytes, got {size_bytes} or more")


class OffsetError(CallError):
    """Bytes are asked for, or sent, from beyond what is there."""

    def __init__(self, field: str, there_bytes: int, offset_bytes: int) -> None:
        self.field, self.there_bytes, self.offset_bytes = field, there_bytes, offset_bytes
        super().__init__(f"{field}: {there_bytes} bytes are there, expected 0 to {there_bytes}, got {offset_bytes}")


class TooManyCallsError(CallError):
    """One caller makes more calls than it may; `retry_after_s` says when the next one passes."""

    def __init__(self, caller: str, per_second: int) -> None:
        self.caller, self.per_second, self.retry_after_s = caller, per_second, 1 / per_second
        super().__init__(f"calls of {caller}: at most {per_second} a second; wait and try again")


class BusyCallerError(CallError):
    """One caller has as many calls of a kind under way as it may."""

    def __init__(self, caller: str, what: str, most: int) -> None:
        self.caller, self.what, self.most = caller, what, most
        super().__init__(f"{what} of {caller}: at most {most} at once; end one and try again")


class LateRequestError(CallError):
    """A call began, and its request, or the next piece of it, did not come."""

    def __init__(self, method: str, limit_s: float) -> None:
        self.method, self.limit_s = method, limit_s
        super().__init__(f"{method}: nothing came for {limit_s:g} s, the server's limit")


class QuotaError(CallError):
    """A team holds as much as it may of something that takes room on the server's disk."""

    def __init__(self, team: str, what: str, most: int, wanted: int) -> None:
        self.team, self.what, self.most, self.wanted = team, what, most, wanted
        super().__init__(
            f"{what}, of {team}: at most {most}, this would be {wanted}; publish them, or wait until they are collected"
        )


class ChecksFullError(CallError):
    """The queue of programs to check is full, of this team or of all."""

    def __init__(self, team: str, most: int) -> None:
        self.team, self.most = team, most
        super().__init__(f"programs to be checked, of team {team!r}: at most {most} wait; try again when one is done")


class CheckBoundError(CallError):
    """Opening and running a program took more than it may, or ended the process that did it.

    Attributes:
        variant: whose program.
        bound: what it ran into, with the figure.
    """

    def __init__(self, variant: str, bound: str) -> None:
        self.variant, self.bound = variant, bound
        super().__init__(f"variant {variant!r}: checking its program was ended: {bound}")


class CallTooLongError(CallError):
    """The call ran for longer than the server lets one run, whatever deadline its caller gave it."""

    def __init__(self, method: str, limit_s: float) -> None:
        self.method, self.limit_s = method, limit_s
        super().__init__(f"{method} ran for more than {limit_s:g} s, the server's limit")


class BlobMismatchError(CallError):
    """Uploaded bytes do not have the announced digest or length."""

    def __init__(self, field: str, announced: str, seen: str) -> None:
        self.field, self.announced, self.seen = field, announced, seen
        super().__init__(f"blob {field}: announced {announced}, got {seen}")


class ReportRefusedError(PlatformError):
    """A body of reports is refused as a whole; `reason` is one of a fixed few."""

    def __init__(self, reason: str, bound: str) -> None:
        self.reason, self.bound = reason, bound
        super().__init__(f"{reason}: expected {bound}")


class IssuanceRefusedError(PlatformError):
    """A device is not enrolled, or gets no token; `reason` is one of a fixed few."""

    def __init__(self, reason: str, bound: str) -> None:
        self.reason, self.bound = reason, bound
        super().__init__(f"{reason}: expected {bound}")
