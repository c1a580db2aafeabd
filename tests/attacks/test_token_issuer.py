"""The issuer of tokens knows who takes part; with all transcripts it cannot tell which report is whose."""

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from alcove.platform.store.tables import EnrollmentRow, IssuedTokenRow
from alcove.privacy.dap.messages import Report
from alcove.privacy.dap.report_tokens import request_report_token
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.tokens import PendingToken, Token, TokenKey
from alcove.privacy.tokens.blind_rsa import encode_pss
from sqlalchemy import select

from tests.platform.issuer.everybody import TASK, Everybody, open_everybody
from tests.platform.issuer.test_issuer import TIME


@pytest.fixture
async def everybody(tmp_path: Path) -> AsyncIterator[Everybody]:
    """Devices, issuer and aggregators."""
    async with open_everybody(tmp_path) as opened:
        yield opened


def _common_parts(left: bytes, right: bytes, size: int = 8) -> set[bytes]:
    """Return the byte strings of a size that are in both."""
    parts = [{data[at : at + size] for at in range(len(data) - size + 1)} for data in (left, right)]
    return parts[0] & parts[1]


async def _transcripts(everybody: Everybody) -> list[bytes]:
    """Return all that the issuer ever had of each installation, its rows included."""
    found = []
    async with everybody.desk.store.read() as session:
        enrollments = {row.public_key: row for row in await session.scalars(select(EnrollmentRow))}
        issued = {row.installation: row for row in await session.scalars(select(IssuedTokenRow))}
    for device, order, answer in everybody.orders:
        row = enrollments[order.public_key]
        parts = [order.to_bytes(), answer.to_bytes(), row.installation, issued[row.installation].request_sha256]
        found.append(b" ".join([*parts, device.enrollment(b"c").evidence]))
    return found


async def test_issuer_cannot_link_a_token_to_a_report(everybody: Everybody) -> None:
    """Given all that issuer and aggregators saw, each installation could have made each report, with one blinding each.

    The blinding factor is uniform among the units, so that all pairings are equally likely; and no byte string of an
    installation's transcript is in one report and not in the others.
    """
    for at in range(4):
        device = await everybody.desk.enroll(f"{at}")
        everybody.report(at, await everybody.get_token(device))
    key = await everybody.desk.issuer.find_key(TASK.task_id, TIME)
    modulus = key.public_key.public_numbers().n
    for _, order, answer in everybody.orders:
        blinded = int.from_bytes(order.request.blinded_message, "big")
        for report in everybody.reports:
            token = _token_of(report)
            signature = int.from_bytes(token.authenticator, "big")
            factor = int.from_bytes(answer.blind_signature, "big") * pow(signature, -1, modulus) % modulus
            message = pow(signature, 65537, modulus)
            assert message * pow(factor, 65537, modulus) % modulus == blinded
            assert _is_encoding(message, token.input.to_bytes())
    for transcript in await _transcripts(everybody):
        found = {frozenset(_common_parts(transcript, report.to_bytes())) for report in everybody.reports}
        assert len(found) == 1


def _token_of(report: Report) -> Token:
    return Token.from_bytes(report.metadata.public_extensions[0].extension_data)


def _is_encoding(message: int, content: bytes) -> bool:
    """Tell whether a number is an encoding of a token's input, by the salt that it has."""
    encoded = message.to_bytes(256, "big")
    block, digest = encoded[:-49], encoded[-49:-1]
    mask = b"".join(hashlib.sha384(digest + number.to_bytes(4, "big")).digest() for number in range(5))
    salt = bytes(one ^ other for one, other in zip(block, mask, strict=False))[-48:]
    return encode_pss(content, salt, 256) == encoded


async def test_client_whose_secret_is_its_enrolled_key_would_be_linked(everybody: Everybody) -> None:
    """A wrong client is found by the same search: its nonce is the digest of what the issuer knows."""

    def request_wrongly(public_key: bytes) -> Callable[[TokenKey], tuple[PendingToken, bytes]]:
        class Fixed:
            """Gives the enrolled key first."""

            calls = 0

            def random_bytes(self, size_bytes: int) -> bytes:
                """Return it, then others."""
                self.calls += 1
                return public_key if self.calls == 1 else OsEntropy().random_bytes(size_bytes)

        return lambda key: request_report_token(TASK, TIME, key, Fixed())

    for at in range(3):
        device = await everybody.desk.enroll(f"{at}")
        public_key = device.key.public_key().public_bytes_raw()
        everybody.report(at, await everybody.get_token(device, request_wrongly(public_key)))
    links = [
        [hashlib.sha256(order.public_key).digest() in report.to_bytes() for report in everybody.reports]
        for _, order, _ in everybody.orders
    ]
    assert links == [[row == column for column in range(3)] for row in range(3)]


def test_rows_of_the_issuer_have_no_place_for_an_address() -> None:
    """What it keeps of a device are the names that stand here: of the moments only that of the enrollment."""
    rows = (EnrollmentRow.__table__, IssuedTokenRow.__table__)
    assert [sorted(column.name for column in row.columns) for row in rows] == [
        ["enrolled_at_s", "installation", "public_key"],
        ["installation", "request_sha256", "task_id", "time"],
    ]
