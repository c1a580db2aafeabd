"""Runs alerts while a server runs: looks at what is new, and sends it, beside everything else.

Where the database itself is away, nothing can be queued: that one alert goes to its destinations directly, from memory,
until it arrives or the database is back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog
from alcove.platform.alerts.config import AlertsConfig, EmailConfig, WebhookConfig
from alcove.platform.alerts.mail import Mail
from alcove.platform.alerts.monitors import Monitors
from alcove.platform.alerts.outbox import AlertOutbox
from alcove.platform.alerts.sender import AlertPort, AlertSender, CountOutcome
from alcove.platform.alerts.webhook import Webhook
from alcove.platform.core.repeating import repeating
from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.domain.errors import ServerError
from alcove.platform.store import Store
from alcove.platform.store.alerts import find_due_destinations
from alcove.runtime.clock import Clock

if TYPE_CHECKING:
    from alcove.platform.alerts.outcomes import Outcome

__all__ = ["DATABASE", "Alerts", "make_port", "run_alerts"]

DATABASE: Final = "the database"
LOOK_S: Final = 1.0  # seconds between two looks; each is two small reads
CONDITIONS_S: Final = 60  # seconds between two looks at what expires
FORGET_S: Final = 86_400
_log = structlog.get_logger()

FindConditions = Callable[[], Awaitable[list[Alert]]]
"""Finds alerts of what holds now."""


def make_port(config: WebhookConfig | EmailConfig, *, source: str, console: str, clock: Clock) -> AlertPort:
    """Return what sends to a destination."""
    if isinstance(config, EmailConfig):
        return Mail(config, source=source, console=console)
    return Webhook(config, source=source, console=console, now=clock.now_s)


class Alerts:
    """The alerts of one server.

    Args:
        config: says which go where.
        store: of the audit log and of what is to be sent.
        clock: dates them.
        monitors: say what of the server fails.
        find_conditions: finds what expires.
        count: is called for each attempt.
    """

    def __init__(
        self,
        config: AlertsConfig,
        store: Store,
        clock: Clock,
        *,
        monitors: Monitors,
        find_conditions: FindConditions,
        count: CountOutcome,
    ) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._monitors = monitors
        self._find_conditions = find_conditions
        self._outbox = AlertOutbox(store, config, clock)
        self._ports = {
            each.name: make_port(each, source=config.source, console=config.console, clock=clock)
            for each in config.destinations
        }
        self._senders = {
            each.name: AlertSender(
                store, each.name, self._ports[each.name], clock, timeout_s=each.timeout_s, count=count
            )
            for each in config.destinations
        }
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._direct: dict[str, asyncio.Task[Outcome]] = {}
        self._was_away = False
        self._conditions_at_s = 0
        self._forget_at_s = 0

    async def run(self) -> None:
        """Look once at what is new, and let it be sent."""
        try:
            await self._outbox.follow_audit()
            self._note_return()
            await self._add_conditions()
            async with self._store.read() as session:
                due = await find_due_destinations(session, self._clock.now_s())
            for name in due - self._senders.keys():
                await self._outbox.bury(name)
        except ServerError as error:
            self._monitors.note(DATABASE, str(error))
            await self._say_directly()
            return
        for name in due & self._senders.keys():
            if name not in self._sending or self._sending[name].done():
                self._sending[name] = asyncio.create_task(self._send(name))

    def stop(self) -> None:
        """End attempts that are under way; they are made again after the next start."""
        for sender in self._senders.values():
            sender.stop()
        for task in self._direct.values():
            task.cancel()

    async def finish(self) -> None:
        """Wait until what was stopped has ended."""
        await asyncio.gather(*self._sending.values(), *self._direct.values(), return_exceptions=True)

    async def _send(self, name: str) -> None:
        try:
            await self._senders[name].run()
        except ServerError as error:
            _log.warning("alerts wait for the database", destination=name, problem=str(error))
        except Exception as error:  # noqa: BLE001 - other destinations, and the next look, go on
            _log.error("sending alerts failed, will be tried again", destination=name, exc_info=error)

    def _note_return(self) -> None:
        """Note that the database is there; whoever has not heard that it was away hears that it is back."""
        if self._was_away:
            self._monitors.mark(DATABASE)
            self._was_away = False
            self._direct = {}
        self._monitors.note(DATABASE, "")

    async def _add_conditions(self) -> None:
        now_s = self._clock.now_s()
        found = self._monitors.find_alerts(self._config.source)
        alerts = list(found.values())
        if now_s >= self._conditions_at_s:
            self._conditions_at_s = now_s + CONDITIONS_S
            try:
                alerts += await self._find_conditions()
            except ServerError:
                raise
            except Exception as error:  # noqa: BLE001 - a damaged tree is another monitor's
                _log.error("what expires cannot be found", exc_info=error)
        await self._outbox.add(alerts)
        for name in found:
            self._monitors.mark(name)
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + FORGET_S
            await self._outbox.forget()

    async def _say_directly(self) -> None:
        """Send that the database is away to those who have not heard it; what fails is tried again at the next look."""
        alert = self._monitors.find_alerts(self._config.source).get(DATABASE)
        if alert is None:
            return
        self._was_away = True
        for name in self._config.names_for(alert):
            last = self._direct.get(name)
            if last is None or (last.done() and last.result().problem):
                self._direct[name] = asyncio.create_task(self._ports[name].send(alert))


@asynccontextmanager
async def run_alerts(alerts: Alerts, *, look_s: float = LOOK_S) -> AsyncIterator[None]:
    """Run alerts inside the block."""
    await alerts.run()
    try:
        async with repeating(look_s, alerts.run):
            try:
                yield
            finally:
                alerts.stop()
    finally:
        await alerts.finish()
