"""Reads what requests of devices and partners name, and their bodies: the same for all who answer strangers."""

import asyncio
import base64
import binascii
import re
from typing import Final

from aiohttp import web
from alcove.platform.listening.allowance import waiting_for_body

__all__ = ["MAX_TIME", "decode_id", "decode_time", "read_id", "read_time", "receive_body"]

MAX_TIME: Final = 1 << 62
"""Behind all times that are kept; a database's integers are signed."""

_TIME: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def read_id(request: web.Request, name: str, size_bytes: int) -> bytes:
    """Return an id of the URL, in base64url without padding.

    Raises:
        web.HTTPNotFound: it has another size or alphabet, or padding.
    """
    return decode_id(request.match_info[name], size_bytes)


def decode_id(text: str, size_bytes: int) -> bytes:
    """Return an id in base64url without padding.

    Raises:
        web.HTTPNotFound: it has another size or alphabet, or padding.
    """
    try:
        identifier = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise web.HTTPNotFound from None
    if len(identifier) != size_bytes or base64.urlsafe_b64encode(identifier).rstrip(b"=") != text.encode():
        raise web.HTTPNotFound
    return identifier


def read_time(request: web.Request) -> int:
    """Return the time of the URL.

    Raises:
        web.HTTPNotFound: it is none, or is spelled otherwise.
    """
    return decode_time(request.match_info["time"])


def decode_time(text: str) -> int:
    """Return a time in decimal.

    Raises:
        web.HTTPNotFound: it is none, or is spelled otherwise.
    """
    if not _TIME.fullmatch(text) or int(text) >= MAX_TIME:
        raise web.HTTPNotFound
    return int(text)


async def receive_body(request: web.Request, size_bytes: int, timeout_s: float) -> bytes:
    """Return a body of a length that is known.

    Raises:
        web.HTTPException: it does not come in time, or ends too soon.
    """
    # An error's traceback keeps the frames that hold what has come, megabytes, until the garbage collector finds them:
    # the reader keeps the error of its connection, and an answer raised below another error keeps that.
    try:
        async with asyncio.timeout(timeout_s):
            with waiting_for_body():
                return await request.content.readexactly(size_bytes)
    except ConnectionError as error:
        raise error.with_traceback(None) from None
    except TimeoutError:
        problem: web.HTTPException = web.HTTPRequestTimeout(text=f"a body comes within {timeout_s:.0f} s\n")
    except asyncio.IncompleteReadError:
        problem = web.HTTPBadRequest(text="the body ended too soon\n")
    raise problem
