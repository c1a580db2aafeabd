"""Runs moto's server, whose buckets can be set to be full: `python -m alcove.platform.testing.s3_server`.

PUT /-full/NAME: from now on the bucket takes no object; DELETE /-full/NAME: it does again.  The refusal is MinIO's
(cmd/api-errors.go, `XMinioStorageFull`, status 507).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from alcove.platform.testing.s3 import FULL_PREFIX
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

__all__ = ["Limited"]

_REFUSAL: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>XMinioStorageFull</Code>'
    b"<Message>Storage backend has reached its minimum free drive threshold.</Message></Error>"
)
_StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Limited:
    """The store, with full buckets."""

    def __init__(self) -> None:
        self._store = DomainDispatcherApplication(create_backend_app)
        self._full: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        path, method = str(environ["PATH_INFO"]), environ["REQUEST_METHOD"]
        if path.startswith(FULL_PREFIX):
            name = path.removeprefix(FULL_PREFIX)
            self._full = self._full | {name} if method == "PUT" else self._full - {name}
            start_response("204 No Content", [])
            return []
        bucket, _, key = path.lstrip("/").partition("/")
        if key and method in {"PUT", "POST"} and bucket in self._full:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("507 Insufficient Storage", [("Content-Type", "application/xml")])
            return [_REFUSAL]
        return self._store(environ, start_response)  # type: ignore[no-any-return]


if __name__ == "__main__":
    run_simple("127.0.0.1", 0, Limited(), threaded=True, request_handler=MotoRequestHandler)
