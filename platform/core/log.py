"""Writes the server's log: one JSON line per event on standard error, with no secret, no address and no content."""

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

__all__ = ["configure_log", "silence_grpc", "without_secrets"]

_TOKEN = re.compile(r"alc_[0-9a-f]{16}_[0-9a-f]{64}")
_ADDRESS_FIELDS = ("peer", "remote", "address", "ip")


def without_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Blacken tokens in every text and drop every field that could name a caller's address."""
    for name in _ADDRESS_FIELDS:
        event.pop(name, None)
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = _TOKEN.sub("alc_***", value)
    return event


def silence_grpc() -> None:
    """Keep gRPC's own lines, which are no JSON, from standard error; only before gRPC is loaded does it listen.

    Who wants them sets GRPC_VERBOSITY.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


class _AsEvent(logging.Handler):
    """Writes what other libraries log as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        error = record.exc_info[1] if record.exc_info else None
        structlog.get_logger().log(record.levelno, record.getMessage(), library=record.name, exc_info=error)


def configure_log() -> None:
    """Send events to standard error as JSON, those of other libraries and Python's warnings too."""
    logging.basicConfig(handlers=[_AsEvent()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
