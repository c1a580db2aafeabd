"""Who has m enrolled installations of n has m reports counted, whatever else is sent."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from alcove.platform.domain.errors import IssuanceRefusedError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.platform.issuer.everybody import Everybody, open_everybody
from tests.platform.issuer.test_issuer import Device


@pytest.fixture
async def everybody(tmp_path: Path) -> AsyncIterator[Everybody]:
    """Devices, issuer and aggregators."""
    async with open_everybody(tmp_path) as opened:
        yield opened


async def test_m_enrollments_move_a_share_by_m_of_n_whatever_they_send(everybody: Everybody) -> None:
    """A forger with 4 enrollments of 104 sends hundreds of reports: 4 are counted, at both aggregators alike."""
    honest = [await everybody.desk.enroll(f"honest {at}") for at in range(100)]
    for at, device in enumerate(honest):
        token = await everybody.get_token(device)
        assert await everybody.seats.upload(everybody.report(at % 2, token)) == ()
    forger = [await everybody.desk.enroll(f"forger {at}") for at in range(4)]
    tokens = [await everybody.get_token(device) for device in forger]
    for device in forger:  # a second token of each
        with pytest.raises(IssuanceRefusedError):
            await everybody.get_token(device)
        again = await everybody.desk.enroll(f"forger {forger.index(device)}")
        with pytest.raises(IssuanceRefusedError):
            await everybody.get_token(again)
    stranger = Device(bytes(32), Ed25519PrivateKey.generate())
    with pytest.raises(IssuanceRefusedError):
        await everybody.get_token(stranger)
    changed = [replace(token, token=replace(token.token, authenticator=bytes(256))) for token in tokens]
    floods = [everybody.report(3, token) for token in tokens * 20 + changed * 20]
    bare = [everybody.report(3, None) for _ in range(40)]
    refused = await everybody.seats.upload(*floods, *bare)
    assert len(refused) == len(floods) + len(bare) - 4
    assert everybody.seats.uploads.refused == {"token_spent": 76, "token_invalid": 80, "token_absent": 40}
    found = await everybody.release()
    assert (found.reports, found.sums) == (104, (50, 50, 0, 4, 0))
    assert everybody.seats.helper.added == 104
