"""Defines the errors that a call to the server can end with.

ClientError                     every one has .status, .kind (the server's name of the error) and .message
├── InvalidRequestError         a field or document is malformed
├── NotFoundError               names something that does not exist
├── AlreadyExistsError          a version that exists, a request id used before
├── FailedPreconditionError     the present state forbids it
├── ConflictError               somebody else was first: read again and repeat
├── TooLargeError               more than the server takes
├── TooManyCallsError           more calls a second, or at once, than it takes; .retry_after_s says when to try again
├── UnauthenticatedError        no valid token
├── PermissionDeniedError       the token's role may not, or a signature is not the team's
├── UnavailableError            no server, or its disk fails; repeating the same request is safe
├── DeadlineError               no answer in time; repeating the same request is safe
└── RemoteInternalError         the server's fault, or an answer that makes no sense
"""

from types import MappingProxyType
from typing import Any, Final

import grpc
from alcove.platform.domain.errors import ERROR_KEY, PUSHBACK_KEY

__all__ = [
    "AlreadyExistsError",
    "ClientError",
    "ConflictError",
    "DeadlineError",
    "FailedPreconditionError",
    "InvalidRequestError",
    "NotFoundError",
    "PermissionDeniedError",
    "RemoteInternalError",
    "TooLargeError",
    "TooManyCallsError",
    "UnauthenticatedError",
    "UnavailableError",
    "error_of",
]


class ClientError(Exception):
    """A call that failed.

    Attributes:
        status: name of the gRPC status, such as "NOT_FOUND".
        kind: the server's name of the error, such as "VersionExistsError"; "" when the server did not answer.
        message: what happened, with the thing, the bound and the value.
    """

    def __init__(self, status: str, kind: str, message: str) -> None:
        self.status, self.kind, self.message = status, kind, message
        super().__init__(f"{kind or status}: {message}")


class InvalidRequestError(ClientError):
    """A field or document is malformed."""


class NotFoundError(ClientError):
    """The call names something that does not exist."""


class AlreadyExistsError(ClientError):
    """A version that exists, or a request id that was used for something else."""


class FailedPreconditionError(ClientError):
    """The present state forbids it."""


class ConflictError(ClientError):
    """Another caller was first: read again and repeat."""


class TooLargeError(ClientError):
    """More than the server takes."""


class TooManyCallsError(ClientError):
    """More calls a second or at once than the server takes of one caller, or of all.

    Attributes:
        retry_after_s: seconds after which the next one passes; 0: it did not say.
    """

    retry_after_s: float = 0.0


class UnauthenticatedError(ClientError):
    """No valid token."""


class PermissionDeniedError(ClientError):
    """The token's role may not do this, or a signature is not the team's."""


class UnavailableError(ClientError):
    """No server answered, it is stopping, or its disk fails; repeating the same request is safe."""


class DeadlineError(ClientError):
    """No answer in time; repeating the same request is safe."""


class RemoteInternalError(ClientError):
    """The server's fault, or an answer that makes no sense."""


_S = grpc.StatusCode
_CLASSES: Final = MappingProxyType(
    {
        _S.INVALID_ARGUMENT: InvalidRequestError,
        _S.OUT_OF_RANGE: InvalidRequestError,
        _S.NOT_FOUND: NotFoundError,
        _S.ALREADY_EXISTS: AlreadyExistsError,
        _S.FAILED_PRECONDITION: FailedPreconditionError,
        _S.ABORTED: ConflictError,
        _S.RESOURCE_EXHAUSTED: TooLargeError,
        _S.UNAUTHENTICATED: UnauthenticatedError,
        _S.PERMISSION_DENIED: PermissionDeniedError,
        _S.UNAVAILABLE: UnavailableError,
        _S.CANCELLED: UnavailableError,  # it came between a server's last call and its end
        _S.DEADLINE_EXCEEDED: DeadlineError,
    }
)


def error_of(failure: grpc.RpcError) -> ClientError:
    """Return the typed error of a failed call."""
    call: Any = failure  # a failed call is a grpc.Call too, which its stubs cannot say
    status: grpc.StatusCode = call.code()
    trailing = dict(call.trailing_metadata() or ())
    kind, details = str(trailing.get(ERROR_KEY, "")), call.details() or "no details"
    # Both more than a caller may make and more than the server takes of all together.
    if kind in ("TooManyCallsError", "BusyCallerError", "ServerFullError", "ChecksFullError"):
        error = TooManyCallsError(status.name, kind, details)
        error.retry_after_s = int(trailing.get(PUSHBACK_KEY, 0)) / 1000
        return error
    return _CLASSES.get(status, RemoteInternalError)(status.name, kind, details)
