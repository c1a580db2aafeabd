"""Defines the root of the server's errors."""

from typing import Final

ERROR_KEY: Final = "alcove-error"  # trailing metadata that carries the class of an error to clients
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"  # likewise when to try again; gRPC's own retries read it


class PlatformError(Exception):
    """Root of everything that the server refuses or fails at."""
