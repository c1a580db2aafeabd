"""Signs the bodies of webhooks.

Source: Standard Webhooks 1.0.0, sections "Webhook metadata" and "Signature scheme"; tested with its reference vector.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

__all__ = ["SECRET_BYTES", "parse_secret", "sign"]

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = (24, 64)  # bytes of a secret: 192 to 512 bits, as the specification asks


def parse_secret(text: str) -> bytes:
    """Return the bytes of a secret "whsec_<base64>".

    Raises:
        ValueError: it is none; the message does not repeat it.
    """
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        secret = b""
    if not text.startswith(PREFIX) or not SECRET_BYTES[0] <= len(secret) <= SECRET_BYTES[1]:
        message = f"a secret is {PREFIX} and {SECRET_BYTES[0]} to {SECRET_BYTES[1]} bytes in base64"
        raise ValueError(message)
    return secret


def sign(secrets: Iterable[str], *, message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request: its id, its time, and one signature for each secret.

    Args:
        secrets: each "whsec_<base64>".
        message_id: the same at each attempt; without a full stop.
        at_s: when this attempt is made, seconds since 1970-01-01 UTC.
        body: exactly as it is sent.

    Raises:
        ValueError: a secret is none.
    """
    signed = f"{message_id}.{at_s}.".encode() + body
    marks = [
        f"v1,{base64.b64encode(hmac.new(parse_secret(secret), signed, hashlib.sha256).digest()).decode()}"
        for secret in secrets
    ]
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at_s)}
    return headers | ({"webhook-signature": " ".join(marks)} if marks else {})
