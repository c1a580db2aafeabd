"""What does the server write down?  One JSON line per event on standard error: no secret, no address, no content."""

import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

__all__ = ["configure_log", "without_secrets"]

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


def configure_log() -> None:
    """Send events to standard error as JSON."""
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
