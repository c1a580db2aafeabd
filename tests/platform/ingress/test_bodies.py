"""A body that does not come to its end leaves nothing behind, whatever keeps the error that ended it."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web
from alcove.platform.ingress.resources import receive_body


class Chunk(bytearray):
    """What came of a body, as something whose end can be seen."""


class Reader:
    """Has received a part of a body when it fails; it keeps the error of its connection, as aiohttp's reader does."""

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind
        self.error = ConnectionResetError("gone")
        self.chunk: weakref.ref[Chunk] | None = None

    async def readexactly(self, size_bytes: int) -> bytes:
        """Take a chunk, then fail."""
        chunk = Chunk(b"megabytes")
        self.chunk = weakref.ref(chunk)
        if self.kind is ConnectionResetError:
            raise self.error
        raise asyncio.IncompleteReadError(b"", size_bytes)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Cycles stay: that the collector comes is a matter of how many objects there are, not of how large."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("kind", [ConnectionResetError, web.HTTPBadRequest])
async def test_body_that_ends_too_soon_is_not_kept(kind: type[Exception]) -> None:
    """Strangers that sent most of a large body and went away cost the memory of all that they had sent."""
    reader = Reader(kind)
    request = cast("web.Request", SimpleNamespace(content=reader))
    with pytest.raises(kind) as caught:
        await receive_body(request, 4_194_304, 60.0)
    assert caught.value.__context__ is None
    assert reader.chunk is not None
    assert reader.chunk() is None
