"""What of a server expires is found: signatures that people renew, tokens, and the certificate."""

from pathlib import Path

import trustme
from alcove.platform.alerts.expiries import find_expiries
from alcove.platform.alerts.monitors import Monitors
from alcove.platform.domain.alerts.alert import Alert, AlertKind
from alcove.platform.domain.principal import Role
from alcove.platform.server.alerting import ask_for_windows, note_unanalyzed
from alcove.platform.services.auth.tokens import issue_session, issue_token
from alcove.platform.store import Store
from alcove.platform.store.tokens import TokenSummary, add_token, revoke_token, summarize_tokens
from alcove.platform.testing import ServerWorld
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.testing_seams import ManualClock

DAY_S = 86_400


async def find(store: Store, world: ServerWorld, now_s: int, certificate: Path | None = None) -> list[Alert]:
    """What expires at a time."""
    return await find_expiries(store, world.tree, certificate=certificate, source="alcove", now_s=now_s)


async def test_signatures_of_people_are_announced_before_they_end(store: Store, world: ServerWorld) -> None:
    """Root and targets, and each team's; what the server renews itself is not among them."""
    now_s = SYSTEM_CLOCK.now_s()
    assert await find(store, world, now_s) == []
    late = await find(store, world, now_s + 3650 * DAY_S)
    assert {alert.kind for alert in late} == {AlertKind.METADATA_EXPIRING}
    subjects = " ".join(alert.subject for alert in late)
    assert "role root" in subjects
    assert "role targets" in subjects
    assert "timestamp" not in subjects


async def test_tokens_are_announced_in_their_last_third_until_they_are_gone(store: Store, world: ServerWorld) -> None:
    """By id, name and role; not revoked ones, not those that ended long ago, and never the secret."""
    now_s = SYSTEM_CLOCK.now_s()
    issued = issue_token(Role.parse("operator"), now_s=now_s, lifetime_s=30 * DAY_S, name="release job")
    revoked = issue_token(Role.parse("reader"), now_s=now_s, lifetime_s=30 * DAY_S, name="")
    async with store.write() as session:
        for each in (issued, revoked):
            await add_token(session, each.record)
        await revoke_token(session, revoked.record.token_id, now_s)
    assert await find(store, world, now_s + 15 * DAY_S) == []
    (alert,) = await find(store, world, now_s + 25 * DAY_S)
    assert alert.summary.startswith(
        f"API token {issued.record.token_id} (release job) of role operator expires in 5 days, at "
    )
    assert issued.text not in alert.summary
    assert await find(store, world, now_s + 32 * DAY_S) == []


async def test_a_browsers_session_is_no_key_that_somebody_renews(store: Store, world: ServerWorld) -> None:
    """It ends after hours as it should; its token, which has a month left, is not announced either."""
    now_s = SYSTEM_CLOCK.now_s()
    token = issue_token(Role.parse("operator"), now_s=now_s, lifetime_s=60 * DAY_S)
    session_of_it = issue_session(token.record, now_s=now_s, lifetime_s=12 * 3600)
    async with store.write() as session:
        for each in (token, session_of_it):
            await add_token(session, each.record)
    assert await find(store, world, now_s + 11 * 3600) == []
    async with store.read() as session:
        assert await summarize_tokens(session, now_s + 11 * 3600) == TokenSummary(1, 0, 0)
        late = await summarize_tokens(session, now_s + 45 * DAY_S)
    assert late == TokenSummary(1, 1, token.record.expires_at_s)


async def test_the_certificate_is_announced(store: Store, world: ServerWorld, tmp_path: Path) -> None:
    """In its last third, and when it has ended."""
    path = tmp_path / "chain.pem"
    made = trustme.CA().issue_cert("localhost")
    made.cert_chain_pems[0].write_to_path(str(path))
    (alert,) = [each for each in await find(store, world, 10**11, path) if "certificate" in each.subject]
    assert alert.kind is AlertKind.KEY_EXPIRING
    assert alert.summary.startswith("The TLS certificate of the server expired at ")


async def test_an_analysis_that_fails_and_a_leader_that_is_away_are_noted() -> None:
    """Each rollout by itself, the leader with its problem; what works again is forgotten."""
    clock = ManualClock(1_800_000_000)
    monitors = Monitors(clock, after_s=0)
    note_unanalyzed(monitors, "rollout", ["ro-1", "ro-2"], ["ro-2"])

    class Away:
        """A collector whose leader is away."""

        away_problem = "it does not answer"

        async def run(self) -> None:
            """Ask in vain."""

    await ask_for_windows(Away(), monitors)()  # type: ignore[arg-type]
    assert set(monitors.find_alerts("s")) == {"the analysis of rollout ro-1", "the leading aggregator"}
    note_unanalyzed(monitors, "rollout", ["ro-1"], ["ro-1"])
    assert set(monitors.find_alerts("s")) == {"the leading aggregator"}
