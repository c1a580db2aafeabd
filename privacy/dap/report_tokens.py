"""Puts a token into a report, and checks it: the right of one device to be counted once in a task's window.

    public extension 0xff01         the token: both aggregators verify and spend it
    helper's extension 0xff02       a secret whose SHA-256 digest is the token's nonce

The leader does not see the secret, so it cannot put another report in the place of a device's under the device's
token: the helper, which opens the secret, would refuse that. A task that names an issuer has both extensions in each
report and no other; any other task has none.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from alcove.privacy.dap.messages import Extension, PlaintextInputShare, ReportError, ReportMetadata, Role
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import ReportRejectedError, TokenError
from alcove.privacy.tokens import (
    PendingToken,
    Token,
    TokenChallenge,
    TokenKey,
    make_challenge,
    request_token,
    verify_token,
)
from alcove.privacy.tokens.blind_rsa import PYTHON, Arithmetic

TOKEN_EXTENSION: Final = 0xFF01
"""Type of the public extension; the draft's registry assigns none that high."""

SECRET_EXTENSION: Final = 0xFF02
"""Type of the extension in the helper's share."""

SECRET_BYTES: Final = 32


@dataclass(frozen=True)
class ReportToken:
    """A token with the secret behind its nonce, for `make_report`.

    Attributes:
        token: for everybody who takes part.
        secret: for the helper.
    """

    token: Token
    secret: bytes

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """The public extensions."""
        return (Extension(TOKEN_EXTENSION, self.token.to_bytes()),)

    @property
    def helper_extensions(self) -> tuple[Extension, ...]:
        """Those of the helper's share."""
        return (Extension(SECRET_EXTENSION, self.secret),)


def make_report_challenge(task: DapTask, time: int) -> TokenChallenge:
    """Return what the tokens of a task's reports of one time are made for.

    Raises:
        ValueError: the task names no issuer.
    """
    if task.info.token_issuer is None:
        raise ValueError("the task names no issuer of tokens")
    return make_challenge(task.info.token_issuer.encode(), task.task_id, time)


def request_report_token(
    task: DapTask, time: int, key: TokenKey, entropy: Entropy, arithmetic: Arithmetic = PYTHON
) -> tuple[PendingToken, bytes]:
    """Return what a device keeps of a new token, and the secret behind the token's nonce.

    Args:
        task: of the report.
        time: of the report.
        key: of the issuer for both.
        entropy: source of the secret and of the blinding.
        arithmetic: computes.

    Raises:
        ValueError: the task names no issuer.
        TokenKeyError: the key's modulus has a factor that was met by chance.
    """
    secret = entropy.random_bytes(SECRET_BYTES)
    challenge = make_report_challenge(task, time)
    return request_token(challenge, key, entropy, nonce=hashlib.sha256(secret).digest(), arithmetic=arithmetic), secret


def token_key_path(task_id: bytes, time: int) -> str:
    """Return where issuer, leader and helper have the public key for a task and time, each below its own address."""
    return f"tasks/{base64.urlsafe_b64encode(task_id).rstrip(b'=').decode()}/token_keys/{time}"


def public_extension_types(task: DapTask) -> tuple[int, ...]:
    """Return the types of the public extensions that each report of a task has."""
    return () if task.info.token_issuer is None else (TOKEN_EXTENSION,)


def private_extension_types(task: DapTask, role: Role) -> tuple[int, ...]:
    """Return the types of the private extensions in the share of an aggregator."""
    return () if task.info.token_issuer is None or role is not Role.HELPER else (SECRET_EXTENSION,)


def check_extensions(extensions: Sequence[Extension], types: Sequence[int]) -> None:
    """Return if the extensions have these types, in this order.

    Raises:
        ReportRejectedError: they have not.
    """
    if [extension.extension_type for extension in extensions] == list(types):
        return
    label = "token_absent" if types and not extensions else None
    raise ReportRejectedError(ReportError.INVALID_MESSAGE, "its extensions are not those of the task", label)


def read_nonce(metadata: ReportMetadata) -> bytes:
    """Return the nonce of a report's token, by which it is spent.

    Raises:
        ReportRejectedError: the report has no token.
    """
    return _read_token(metadata).input.nonce


def check_token(task: DapTask, metadata: ReportMetadata, key: TokenKey | None) -> None:
    """Return if a report's token was issued for the report's task and time; not whether it was spent.

    Args:
        task: of the report, with an issuer.
        metadata: of the report.
        key: of the issuer for the task and the report's time; None: it has none.

    Raises:
        ReportRejectedError: it was not, or there is none.
    """
    token = _read_token(metadata)
    try:
        if key is None:
            raise _refuse_token("no key of the issuer is known for its time")
        verify_token(token, make_report_challenge(task, metadata.time).digest, key)
    except TokenError as error:
        raise _refuse_token(str(error)) from None


def check_secret(metadata: ReportMetadata, share: PlaintextInputShare) -> None:
    """Return if the helper's share has the secret behind the token's nonce.

    Raises:
        ReportRejectedError: it has not: somebody else than the token's owner made the report.
    """
    check_extensions(share.private_extensions, (SECRET_EXTENSION,))
    digest = hashlib.sha256(share.private_extensions[0].extension_data).digest()
    if not hmac.compare_digest(digest, read_nonce(metadata)):
        reason = "the token is not of who made the report"
        raise ReportRejectedError(ReportError.INVALID_MESSAGE, reason, "token_of_another")


def refuse_spent() -> ReportRejectedError:
    """Return why a report is left out whose token another report has spent."""
    return ReportRejectedError(ReportError.REPORT_REPLAYED, "another report has spent its token", "token_spent")


def _read_token(metadata: ReportMetadata) -> Token:
    check_extensions(metadata.public_extensions, (TOKEN_EXTENSION,))
    try:
        return Token.from_bytes(metadata.public_extensions[0].extension_data)
    except TokenError as error:
        raise _refuse_token(str(error)) from None


def _refuse_token(reason: str) -> ReportRejectedError:
    return ReportRejectedError(ReportError.INVALID_MESSAGE, reason, "token_invalid")
