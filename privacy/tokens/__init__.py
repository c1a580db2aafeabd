"""Provides one-use anonymous tokens: an issuer knows which devices may have one, and cannot tell which one spent it.

    challenge = make_challenge(issuer_name, task_id, window)       # the device, and each aggregator for itself
    pending = request_token(challenge, issuer_key, entropy)        # the device
    response = issuer.issue(pending.request)                       # the issuer, for a device that is enrolled
    token = finish_token(pending, response, issuer_key)            # the device
    verify_token(token, challenge.digest, issuer_key)              # each aggregator

A report of DAP carries `token.to_bytes()` as the data of a public extension, where both aggregators see it, and where
HPKE binds it to the report. Before an aggregator takes the report it

1. reads the token (`Token.from_bytes`) and verifies it for the challenge of the report's task and window;
2. records `token.input.nonce` as spent, in the transaction that takes the report, unless it is recorded already: then
   the report is refused. What counts is the nonce, not the token's bytes. It can be forgotten when no report of
   the window is taken any more.

`TokenError` covers all that can be wrong with a token.

What tokens do not do:

- A token by itself is not bound to what is reported: a leader could leave a device's report out and spend its token on
  another. Reports of DAP bind it by a secret for the helper (`alcove.privacy.dap.report_tokens`).
- They do not hide the moment. A device requests its tokens beforehand, not when it sends a report.
- They do not hide the key. An issuer with a key for each device could tell devices apart: a device takes the key from
  where all devices read it.
"""

from alcove.privacy.tokens.privacy_pass import (
    Issuer,
    PendingToken,
    Token,
    TokenChallenge,
    TokenKey,
    TokenRequest,
    TokenResponse,
    finish_token,
    make_challenge,
    request_token,
    verify_token,
)

__all__ = [
    "Issuer",
    "PendingToken",
    "Token",
    "TokenChallenge",
    "TokenKey",
    "TokenRequest",
    "TokenResponse",
    "finish_token",
    "make_challenge",
    "request_token",
    "verify_token",
]
