"""A report of a task with an issuer counts with a token of its own, at each of the two aggregators for itself."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import SpentTokenRow, TokenKeyRow
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy.dap.messages import Extension, Report, ReportError
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.report_tokens import SECRET_EXTENSION, TOKEN_EXTENSION, ReportToken
from alcove.privacy.dap.reports import make_report
from sqlalchemy import delete, func, select

from tests.platform.aggregator.pair import TOKEN_TASK, WINDOW_S, Seats, open_seats
from tests.privacy.dap.party import (
    ISSUER_URL,
    TIME,
    CountingEntropy,
    make_issuer,
    make_token,
    make_token_task,
)

COUNTS = (40, 0, 61, 3)
OTHER_TASK = make_token_task(cells=5)


@pytest.fixture
async def token_seats(places: tuple[Path | str, Path | str]) -> AsyncIterator[Seats]:
    """Both aggregators, which take part in `TOKEN_TASK`, on either kind of database."""
    opened = await open_seats(*places, task=TOKEN_TASK)
    yield opened
    await opened.leader_database.close()
    await opened.helper_database.close()


@pytest.fixture
async def token_files(tmp_path: Path) -> AsyncIterator[Seats]:
    """The same over files: for what the kind of database does not change."""
    opened = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db", task=TOKEN_TASK)
    yield opened
    await opened.leader_database.close()
    await opened.helper_database.close()


def _report(seats: Seats, token: ReportToken, name: str, cell: int = 0) -> Report:
    return make_report(
        TOKEN_TASK,
        cell,
        TIME,
        seats.parties.recipients,
        CountingEntropy(name),
        extensions=token.extensions,
        helper_extensions=token.helper_extensions,
    )


async def _rows(database: AggregatorDatabase, table: type[SpentTokenRow] | type[TokenKeyRow]) -> int:
    async with database.read() as session:
        return int((await session.scalar(select(func.count()).select_from(table))) or 0)


async def _forget_spent(database: AggregatorDatabase) -> None:
    async with database.write() as session:
        await session.execute(delete(SpentTokenRow))


async def _believe(*_arguments: object) -> None:
    """Check no token, as a leader that colludes with forgers."""


async def test_batch_of_reports_with_tokens_is_released(token_seats: Seats) -> None:
    """Each report with a token of its own; nothing of a token is left when the window is collected."""
    await token_seats.upload_counts(COUNTS)
    await token_seats.aggregate()
    for database in (token_seats.leader_database, token_seats.helper_database):
        assert (await _rows(database, SpentTokenRow), await _rows(database, TokenKeyRow)) == (104, 1)
    assert await token_seats.collect() == Release(104, TIME, 1, COUNTS)
    assert (token_seats.aggregation.added, token_seats.helper.added) == (104, 104)
    for database in (token_seats.leader_database, token_seats.helper_database):
        assert await _rows(database, SpentTokenRow) == 0


def _wrong_tokens() -> dict[str, ReportToken]:
    """Tokens that are none for `TOKEN_TASK` and `TIME`, by what is wrong with them."""
    good = make_token(TOKEN_TASK, TIME, CountingEntropy("good"))
    elsewhere = make_token_task(cells=4, info=replace(TOKEN_TASK.info, token_issuer=f"{ISSUER_URL}/2"))
    forged = replace(good.token, authenticator=bytes(256))
    return {
        "task": make_token(OTHER_TASK, TIME, CountingEntropy("task")),
        "window": make_token(TOKEN_TASK, TIME - 1, CountingEntropy("window")),
        "issuer's name": make_token(elsewhere, TIME, CountingEntropy("name")),
        "issuer's key": make_token(TOKEN_TASK, TIME, CountingEntropy("key"), make_issuer("other")),
        "signature": replace(good, token=forged),
    }


async def test_report_without_a_token_of_its_task_window_and_issuer_is_left_out(
    token_files: Seats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader refuses each at upload; where a leader does not, the helper leaves it out of the batch."""
    wrong = [_report(token_files, token, name) for name, token in _wrong_tokens().items()]
    malformed = _report(token_files, ReportToken(make_token(TOKEN_TASK, TIME, CountingEntropy("m")).token, b""), "m")
    bytes_of_none = (Extension(TOKEN_EXTENSION, b"none"),)
    malformed = replace(malformed, metadata=replace(malformed.metadata, public_extensions=bytes_of_none))
    bare = make_report(TOKEN_TASK, 0, TIME, token_files.parties.recipients, CountingEntropy("bare"))
    statuses = await token_files.upload(*wrong, malformed, bare)
    assert {status.error for status in statuses} == {ReportError.INVALID_MESSAGE}
    assert token_files.uploads.refused == {"token_invalid": 6, "token_absent": 1}

    monkeypatch.setattr(token_files.uploads, "_check_tokens", _believe)
    await token_files.upload_counts(COUNTS)
    assert await token_files.upload(*wrong) == ()
    assert await token_files.collect() == Release(104, TIME, 1, COUNTS)
    assert token_files.helper.rejected == {"token_invalid": 5}


async def test_task_without_an_issuer_takes_no_tokens(files: Seats) -> None:
    """There an extension is unknown, as the draft asks."""
    token = make_token(TOKEN_TASK, TIME, CountingEntropy())
    report = files.report(0, "x")
    extended = replace(report, metadata=replace(report.metadata, public_extensions=token.extensions))
    (status,) = await files.upload(extended)
    assert status.error is ReportError.INVALID_MESSAGE
    assert files.uploads.refused == {"invalid_message": 1}


async def test_token_is_spent_once_and_the_same_report_again_is_the_same(token_seats: Seats) -> None:
    """In one request, in a later one, and by a leader that has forgotten: the helper remembers."""
    token = make_token(TOKEN_TASK, TIME, CountingEntropy("once"))
    first, second, third = (_report(token_seats, token, name, cell=1) for name in ("first", "second", "third"))
    (status,) = await token_seats.upload(first, second)
    assert (status.report_id, status.error) == (second.metadata.report_id, ReportError.REPORT_REPLAYED)
    assert await token_seats.upload(first) == ()
    (status,) = await token_seats.upload(third)
    assert status.error is ReportError.REPORT_REPLAYED
    assert token_seats.uploads.refused == {"token_spent": 2}
    await token_seats.aggregate()
    await _forget_spent(token_seats.leader_database)
    assert await token_seats.upload(third) == ()
    await token_seats.upload_counts(COUNTS)
    await token_seats.aggregate()
    assert token_seats.helper.rejected == {"token_spent": 1}
    assert await token_seats.collect() == Release(105, TIME, 1, (40, 1, 61, 3))


async def test_leader_that_puts_its_report_under_a_device_s_token_is_caught_by_the_helper(
    token_files: Seats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the token but not the secret behind it; the device's own report still counts."""
    token = make_token(TOKEN_TASK, TIME, CountingEntropy("device"))
    await token_files.upload_counts(COUNTS)
    guesses = [b"", bytes(32), token.token.input.nonce, token.token.to_bytes()]
    forged = [_report(token_files, replace(token, secret=guess), f"{guess!r}", cell=3) for guess in guesses]
    device = _report(token_files, token, "device", cell=1)
    mixed = replace(_report(token_files, token, "mixed"), helper_input_share=device.helper_input_share)
    for report in (*forged, mixed, device):
        await _forget_spent(token_files.leader_database)
        assert await token_files.upload(report) == ()
        await token_files.aggregate()
    assert await token_files.collect() == Release(105, TIME, 1, (40, 1, 61, 3))
    assert token_files.helper.rejected == {"token_of_another": 4, "hpke_decrypt_error": 1}


async def test_secret_of_the_helper_s_share_is_asked_for_in_the_helper_s_share_alone(token_files: Seats) -> None:
    """A report that has it elsewhere, or twice, or not, is left out by the helper."""
    token = make_token(TOKEN_TASK, TIME, CountingEntropy("x"))
    hidden = Extension(SECRET_EXTENSION, token.secret)
    for name, extensions in {"none": (), "twice": (hidden, hidden), "more": (hidden, Extension(0xFFFF, b""))}.items():
        report = make_report(
            TOKEN_TASK,
            0,
            TIME,
            token_files.parties.recipients,
            CountingEntropy(name),
            extensions=make_token(TOKEN_TASK, TIME, CountingEntropy(name)).extensions,
            helper_extensions=extensions,
        )
        assert await token_files.upload(report) == ()
    await token_files.aggregate()
    assert token_files.helper.rejected.total() == 3
    assert token_files.helper.added == 0


async def test_first_key_of_a_window_is_kept_whatever_the_issuer_says_later(token_files: Seats) -> None:
    """Another key comes too late, also after a restart; tokens made with it count nowhere."""
    (first,) = (await token_files.token_keys.find(TOKEN_TASK, [TIME])).values()
    token_files.issuer.keys[TIME] = make_issuer("other").key
    assert (await token_files.token_keys.find(TOKEN_TASK, [TIME]))[TIME] is first
    token_files.restart()
    assert (await token_files.token_keys.find(TOKEN_TASK, [TIME]))[TIME].encoded == first.encoded
    assert token_files.issuer.asked == [TIME]
    late = make_token(TOKEN_TASK, TIME, CountingEntropy("late"), make_issuer("other"))
    (status,) = await token_files.upload(_report(token_files, late, "late"))
    assert status.error is ReportError.INVALID_MESSAGE


async def test_keys_are_asked_for_around_the_present_alone(token_files: Seats) -> None:
    """A stranger who names other times makes nobody ask; a key that is not there is asked for again after a while."""
    now_s = [0.0]
    token_files.token_keys._monotonic_s = lambda: now_s[0]
    times = range(TIME - 5, TIME + 6)
    found = await token_files.token_keys.find(TOKEN_TASK, times)
    assert sorted(found) == token_files.issuer.asked == [TIME - 1, TIME, TIME + 1]
    token_files.clock.time_s += WINDOW_S
    token_files.issuer.keys[TIME + 2] = None
    for _ in range(3):
        assert TIME + 2 not in await token_files.token_keys.find(TOKEN_TASK, times)
    now_s[0] += 60
    del token_files.issuer.keys[TIME + 2]
    assert sorted(await token_files.token_keys.find(TOKEN_TASK, times)) == [TIME - 1, TIME, TIME + 1, TIME + 2]
    assert token_files.issuer.asked[3:] == [TIME + 2, TIME + 2]


async def test_issuer_that_is_away_puts_reports_off_and_loses_none(token_files: Seats) -> None:
    """Neither aggregator refuses a report because it cannot ask for the key: it is sent again, and counts."""
    token_files.issuer.problem = PeerUnavailableError(ISSUER_URL, "away")
    with pytest.raises(PeerUnavailableError):
        await token_files.upload_counts(COUNTS)
    token_files.issuer.problem = None
    with pytest.raises(PeerUnavailableError, match="a moment ago"):
        await token_files.upload_counts(COUNTS)
    token_files.restart()
    await token_files.upload_counts(COUNTS)
    token_files.issuer.problem = PeerUnavailableError(ISSUER_URL, "away")
    await token_files.aggregate()
    assert (token_files.aggregation.is_helper_away, token_files.helper.added) == (True, 0)
    token_files.issuer.problem = None
    token_files.restart()
    token_files.clock.time_s += 600
    assert await token_files.collect() == Release(104, TIME, 1, COUNTS)
