"""Makes the challenges that a platform's evidence is about, and knows them again without a row for each.

A challenge is when it ends, random bytes, and a tag over both by a secret of all servers of a database.
"""

import hmac
from typing import Final

from alcove.platform.domain.errors import IssuanceRefusedError
from alcove.privacy.entropy import Entropy

__all__ = ["SECRET_BYTES", "check_challenge", "make_challenge"]

SECRET_BYTES: Final = 32
VALID_S: Final = 600
"""Seconds in which a platform gives its evidence; Play Integrity takes some, and may ask to be asked again."""

_RANDOM_BYTES: Final = 16
_TAG_BYTES: Final = 16


def make_challenge(secret: bytes, now_s: int, entropy: Entropy) -> bytes:
    """Return a challenge that is good for `VALID_S` seconds."""
    content = (now_s + VALID_S).to_bytes(8, "big") + entropy.random_bytes(_RANDOM_BYTES)
    return content + _tag(secret, content)


def check_challenge(challenge: bytes, secret: bytes, now_s: int) -> None:
    """Return if the challenge is one of ours and of now.

    Raises:
        IssuanceRefusedError: it is not.
    """
    content, tag = challenge[:-_TAG_BYTES], challenge[-_TAG_BYTES:]
    is_ours = len(content) == 8 + _RANDOM_BYTES and hmac.compare_digest(_tag(secret, content), tag)
    if not is_ours or not now_s <= int.from_bytes(content[:8], "big") <= now_s + VALID_S:
        reason, bound = "challenge", f"one of this issuer, at most {VALID_S} s old"
        raise IssuanceRefusedError(reason, bound)


def _tag(secret: bytes, content: bytes) -> bytes:
    return hmac.digest(secret, content, "sha256")[:_TAG_BYTES]
