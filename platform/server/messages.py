"""Reads requests within their bounds, and lets go of them when their calls end.

Parsing may take thirty times a message's bytes, and checking it a second: an empty message in a list is two bytes on
the wire.  So what is longer than its method has use for is refused unread.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from google.protobuf.message import DecodeError, Message

__all__ = ["LONG", "deserializer", "forgetting"]

LONG: Final = ("/PublishVersion", "/UploadBlob")  # of a few fields of bytes, which are read as they are

_Call = Callable[[AsyncIterator[Any], Any], Awaitable[None]]


def deserializer(method: str, parse: Callable[[bytes], Message]) -> Callable[[bytes], Message | InvalidFieldError]:
    """Return what reads a method's requests; an error comes in the place of a malformed one, as for any wrong field."""
    most_bytes = limits.MESSAGE_BYTES if method.endswith(LONG) else limits.REQUEST_BYTES

    def parse_message(data: bytes) -> Message | InvalidFieldError:
        if len(data) > most_bytes:
            return InvalidFieldError("request", f"at most {most_bytes} bytes", len(data))
        try:
            return parse(data)
        except DecodeError as error:
            return InvalidFieldError("request", "a message of the method's kind", error)

    return parse_message


def forgetting(call: _Call) -> _Call:
    """Return a call that nothing refers to when it has ended with an error.

    gRPC keeps the error that ends a call with the call; the error has the frames that it came through, and those have
    the request and the call.  Such a ring stays until Python's collector looks for it, which knows objects and no
    bytes: some thousand requests later.
    """

    async def lean(requests: AsyncIterator[Any], context: Any) -> None:
        try:
            await call(requests, context)
        except grpc.aio.AbortError as error:
            error.__context__ = error.__cause__ = None
            raise error.with_traceback(None)  # noqa: B904 - it is the same error
        finally:
            del requests, context

    return lean
