"""Posts alerts to a URL.

One attempt makes one connection to a checked address (`addresses`), follows no redirect, keeps no cookie, asks no
proxy, and reads a few kilobytes of the answer at most.  Nothing of the URL but its host is ever in a problem.
"""

import time
from collections.abc import Callable
from typing import Final

import aiohttp
from alcove.platform.alerts.addresses import GuardedResolver, RefusedAddressError
from alcove.platform.alerts.config import WebhookConfig
from alcove.platform.alerts.outcomes import LONGEST_WAIT_S, Outcome
from alcove.platform.alerts.signing import sign
from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.domain.alerts.rendering import render_event, render_text
from yarl import URL

__all__ = ["Webhook"]

ANSWER_BYTES: Final = 4096  # read of an answer, and thrown away: what counts is its status
_GONE: Final = 410  # Standard Webhooks: the receiver wants no more


class Webhook:
    """One URL.

    Args:
        config: says where, and signs.
        source: names the server in events.
        console: address of its console, for links.
        now: gives the time of an attempt, in seconds since 1970-01-01 UTC: receivers refuse another than their own.
    """

    def __init__(
        self, config: WebhookConfig, *, source: str, console: str, now: Callable[[], float] = time.time
    ) -> None:
        self._config = config
        self._source = source
        self._console = console
        self._now = now

    async def send(self, alert: Alert) -> Outcome:
        """Send an alert once, and return what came of it; never raises but for cancellation."""
        config, url = self._config, self._config.target
        host = url.host or ""
        if config.format == "text":
            body, media_type = render_text(alert, console=self._console), "application/json"
        else:
            body = render_event(alert, source=self._source, console=self._console)
            media_type = "application/cloudevents+json"
        secrets = [secret.get_secret_value() for secret in config.secrets]
        headers = sign(secrets, message_id=alert.alert_id, at_s=int(self._now()), body=body)
        headers |= {"Content-Type": media_type, "User-Agent": "alcove-alerts/1"}
        try:
            status, retry_after = await self._post(url, body, headers)
        except TimeoutError:
            return Outcome.failure(f"{host} did not answer within {config.timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Outcome.failure(_explain(host, error))
        return Outcome() if 200 <= status < 300 else _refusal(host, status, retry_after)

    async def _post(self, url: URL, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        """Return the status of the answer, and when it asks us to come again.

        Raises:
            OSError, aiohttp.ClientError: there is none, or the address may not be called.
        """
        resolver = GuardedResolver(self._config.allow_addresses)
        resolver.check_literal(url.host or "")
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=resolver, force_close=True, use_dns_cache=False, limit=1),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._config.timeout_s),
                auto_decompress=False,
                trust_env=False,
                max_line_size=ANSWER_BYTES,
                max_field_size=ANSWER_BYTES,
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            await answer.content.read(ANSWER_BYTES)  # the connection is closed with whatever else comes
            return answer.status, answer.headers.get("Retry-After", "")


def _explain(host: str, error: Exception) -> str:
    """Return why there is no answer; libraries' own words may hold the URL."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, RefusedAddressError):
        return str(cause)
    if isinstance(cause, OSError):
        return f"{host} cannot be reached: {cause.strerror or type(cause).__name__}"
    return f"{host} cannot be spoken to: {type(cause).__name__}"


def _refusal(host: str, status: int, retry_after: str) -> Outcome:
    if 300 <= status < 400:
        return Outcome.failure(f"{host} answered {status}: redirects are not followed, name the URL itself")
    wait_s = min(int(retry_after), LONGEST_WAIT_S) if retry_after.isascii() and retry_after[:9].isdigit() else 0
    return Outcome.failure(f"{host} answered {status}", is_final=status == _GONE, wait_s=wait_s)
