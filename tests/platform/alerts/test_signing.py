"""Signatures of webhooks, by the specification's own vector and by a second way to compute them."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from alcove.platform.alerts.signing import parse_secret, sign
from hypothesis import given
from hypothesis import strategies as st

from tests.platform.alerts.receivers import SECRET


def test_the_reference_vector_is_signed_as_others_sign_it() -> None:
    """Vector of the reference implementations of Standard Webhooks (their test suites, `test_sign_function`)."""
    body = b'{"test": 2432232314}'
    headers = sign([SECRET], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_s=1614265330, body=body)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.lists(st.binary(min_size=24, max_size=64), min_size=1, max_size=3), st.binary(max_size=200))
def test_each_secret_has_its_signature(secrets: list[bytes], body: bytes) -> None:
    """A receiver with any of the secrets finds its own signature: so one is replaced without a gap."""
    texts = [f"whsec_{base64.b64encode(secret).decode()}" for secret in secrets]
    headers = sign(texts, message_id="m", at_s=7, body=body)
    marks = headers["webhook-signature"].split(" ")
    for secret in secrets:
        wanted = hmac.digest(secret, b"m.7." + body, "sha256")
        assert f"v1,{base64.b64encode(wanted).decode()}" in marks


@pytest.mark.parametrize("change", ["id", "time", "body"])
def test_whatever_is_changed_has_another_signature(change: str) -> None:
    """Id, time and body are all signed."""
    given_parts: dict[str, Any] = {"message_id": "m", "at_s": 7, "body": b"x"}
    changes: dict[str, dict[str, Any]] = {"id": {"message_id": "n"}, "time": {"at_s": 8}, "body": {"body": b"y"}}
    marks = {sign([SECRET], **parts)["webhook-signature"] for parts in (given_parts, given_parts | changes[change])}
    assert len(marks) == 2


def test_without_a_secret_nothing_pretends_to_be_signed() -> None:
    """Chat services get id and time, and no signature."""
    assert "webhook-signature" not in sign([], message_id="m", at_s=7, body=b"")
    assert hashlib.sha256(parse_secret(SECRET)).digest_size == 32
