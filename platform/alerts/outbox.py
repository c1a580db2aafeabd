"""Writes what is to be sent: alerts of new audit entries and of conditions, for each destination that wants them.

O1  The audit log is the first half of the outbox: an entry is written in the transaction of its change, and read here
    afterwards.  No change waits for an alert, and none is without its own.
O2  Deliveries and the cursor move in one transaction: each entry is read once, whenever a server is killed and however
    many servers share the database.  Writers commit in the order of the numbers that they gave, so none is passed over.
O3  The first start begins at the end of the log.  Entries older than `OLDEST_S` are passed over: a server that ran
    without alerts for a month says nothing of that month.
"""

from collections.abc import Iterable
from typing import Final

import structlog
from alcove.platform.alerts.config import AlertsConfig
from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.domain.alerts.from_audit import alert_of_entry, can_alert
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.records import ExperimentRecord, Page, RolloutRecord
from alcove.platform.store import Store
from alcove.platform.store.alerts import (
    DeliveryState,
    add_deliveries,
    claim_deliveries,
    end_delivery,
    forget_deliveries,
    move_cursor,
    newest_sequence,
    read_cursor,
)
from alcove.platform.store.audit import AuditEntry, list_audit
from alcove.platform.store.experiments import get_experiment
from alcove.platform.store.rollouts import get_rollout
from alcove.runtime.clock import Clock
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["OLDEST_S", "AlertOutbox"]

OLDEST_S: Final = 3 * 86_400  # seconds; a weekend without a server
BATCH: Final = 256  # entries read in one transaction
_log = structlog.get_logger()


class AlertOutbox:
    """The rows of what is to be sent.

    Args:
        store: of the audit log and of the rows.
        config: says which alerts go where.
        clock: dates them.
    """

    def __init__(self, store: Store, config: AlertsConfig, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    async def follow_audit(self) -> None:
        """Write the alerts of entries that are new in the audit log.

        Raises:
            ServerError: the database does not take it now; nothing is lost, and repeating helps.
        """
        async with self._store.read() as session:
            is_new = await read_cursor(session) != await newest_sequence(session)
        while is_new:
            async with self._store.write() as session:
                is_new = await self._follow(session)

    async def add(self, alerts: Iterable[Alert]) -> None:
        """Write alerts of conditions; those that are there already stay as they are.

        Raises:
            ServerError: the database does not take it now.
        """
        wanted = [(alert, names) for alert in alerts if (names := self._config.names_for(alert))]
        if not wanted:
            return
        async with self._store.write() as session:
            for alert, names in wanted:
                await add_deliveries(session, alert, names, now_s=self._clock.now_s())

    async def bury(self, destination: str) -> None:
        """Note that what is to be sent to a destination is dead: the configuration has none of this name any more.

        Raises:
            ServerError: the database does not take it now.
        """
        now_s = self._clock.now_s()
        problem = f"the configuration has no destination named {destination}"
        async with self._store.write() as session:
            for claimed in await claim_deliveries(session, destination, now_s=now_s, until_s=now_s + 1, size=BATCH):
                await end_delivery(session, claimed, DeliveryState.DEAD, now_s=now_s, problem=problem)

    async def forget(self) -> None:
        """Remove the rows of what ended long ago.

        Raises:
            ServerError: the database does not take it now.
        """
        async with self._store.write() as session:
            await forget_deliveries(session, now_s=self._clock.now_s())

    async def _follow(self, session: AsyncSession) -> bool:
        """Write the alerts of the next entries; return whether there may be more."""
        cursor, now_s = await read_cursor(session), self._clock.now_s()
        if cursor is None:
            await move_cursor(session, await newest_sequence(session))
            return False
        entries = await list_audit(session, Page(cursor, BATCH))
        for entry in entries:
            if entry.at_s < now_s - OLDEST_S or not can_alert(entry.action):
                continue
            alert = self._derive(entry, await _find_thing(session, entry))
            if alert is not None:
                await add_deliveries(session, alert, self._config.names_for(alert), now_s=now_s)
        if entries:
            await move_cursor(session, entries[-1].sequence)
        elif await newest_sequence(session) < cursor:  # a restored backup
            await move_cursor(session, await newest_sequence(session))
        return len(entries) == BATCH

    def _derive(self, entry: AuditEntry, thing: RolloutRecord | ExperimentRecord | None) -> Alert | None:
        """Return the alert of an entry; one that cannot be derived is logged, and holds up no other."""
        try:
            return alert_of_entry(self._config.source, entry, thing)
        except Exception as error:  # noqa: BLE001 - what is written in the log stays there, and the next entries wait
            _log.error("an audit entry gives no alert", sequence=entry.sequence, exc_info=error)
            return None


async def _find_thing(session: AsyncSession, entry: AuditEntry) -> RolloutRecord | ExperimentRecord | None:
    """Return the rollout or experiment that an entry is about, as it is now."""
    try:
        if entry.subject.startswith("ro-"):
            return await get_rollout(session, entry.subject)
        if entry.subject.startswith("ex-"):
            return await get_experiment(session, entry.subject)
    except ResourceNotFoundError:
        pass
    return None
