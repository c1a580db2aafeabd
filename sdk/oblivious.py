"""Reaches aggregators through the relays that the app names: each request is encapsulated, as RFC 9458 says.

    dap_client, tokens ── get, post ──▶ encapsulated ──▶ relay ──▶ gateway of the aggregator

An aggregator for which the app names a relay is never connected to, also while the relay is away.
"""

import contextlib
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

from alcove.privacy.binary_http import HttpRequest, HttpResponse, read_response, write_request
from alcove.privacy.errors import HpkeError, ObliviousMessageError, ParameterError
from alcove.privacy.ohttp import KEYS_TYPE, REQUEST_TYPE, RESPONSE_TYPE, KeyConfig, read_key_configs, seal_request
from alcove.runtime.clock import Clock
from alcove.sdk.aggregators import AggregatorPair, ObliviousRelay
from alcove.sdk.errors import ResponseTooLargeError, StatusError, TransportError
from alcove.sdk.limits import MAX_HPKE_CONFIG_BYTES, MAX_HPKE_CONFIG_S
from alcove.sdk.transport import OCTETS, Download, OpenTransport, Reply, Transport

__all__ = ["ObliviousWays"]

REQUEST_MULTIPLE_BYTES: Final = 1024
"""Requests are padded to a multiple of it: the relay sees which task a report is of by its size at most."""

_NS: Final = 1_000_000_000
_SUCCESS: Final = range(200, 300)
_KEY_REFUSED: Final = (400, 422)


class ObliviousWays:
    """The ways to aggregators, through relays where the app names some; used by one thread at a time.

    Args:
        pairs: of aggregators that the app names.
        clock: its monotonic clock ages keys that were fetched.
    """

    def __init__(self, pairs: Collection[AggregatorPair], clock: Clock) -> None:
        self._relays: dict[str, ObliviousRelay] = {}
        for pair in pairs:
            for url, relay in ((pair.leader_url, pair.leader_relay), (pair.helper_url, pair.helper_relay)):
                if relay is not None:
                    self._relays[url] = relay
        self._keys = _GatewayKeys(clock)

    def through(self, open_transport: OpenTransport) -> OpenTransport:
        """Return what gives the way to each party: to an aggregator with a relay, that through the relay."""

        def open_way(url: str) -> Transport:
            relay = self._relays.get(url)
            return open_transport(url) if relay is None else _ObliviousWay(url, relay, open_transport, self._keys)

        return open_way


class _GatewayKeys:
    """Keys of gateways: those that the app names, and for a day at most those that relays gave."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fetched: dict[str, tuple[KeyConfig, int]] = {}

    def find(self, relay: ObliviousRelay, transport: Transport, path: str) -> KeyConfig:
        """Return the key of the gateway behind a relay.

        Raises:
            RemoteError: the relay gives none that can be used.
        """
        now_ns = self._clock.monotonic_ns()
        config, asked_ns = self._fetched.get(relay.url, (None, 0))
        if config is None or not 0 <= now_ns - asked_ns < MAX_HPKE_CONFIG_S * _NS:
            config = _fetch_key(relay, transport, path)
            self._fetched[relay.url] = config, now_ns
        return config

    def forget(self, relay: ObliviousRelay) -> None:
        """Ask again before the next use."""
        self._fetched.pop(relay.url, None)


def _fetch_key(relay: ObliviousRelay, transport: Transport, path: str) -> KeyConfig:
    try:
        if relay.key_config is not None:
            return KeyConfig.from_bytes(relay.key_config)
        with transport.get(path, max_bytes=MAX_HPKE_CONFIG_BYTES) as download:
            if download.content_type != KEYS_TYPE:
                reason = f"an answer of type {download.content_type!r}, not {KEYS_TYPE}"
                raise TransportError(method="GET", path=path, reason=reason)
            return read_key_configs(b"".join(download.chunks))
    except ObliviousMessageError as error:
        raise TransportError(method="GET", path=path, reason=str(error)) from error


class _ObliviousWay:
    """A `Transport` to an aggregator through its relay."""

    def __init__(self, url: str, relay: ObliviousRelay, open_transport: OpenTransport, keys: _GatewayKeys) -> None:
        self._target = urlsplit(url)
        self._relay = relay
        place = urlsplit(relay.url)
        self._path = place.path or "/"
        self._transport = open_transport(f"{place.scheme}://{place.netloc}")
        self._keys = keys

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Give the answer to a GET; see `Transport.get`."""
        if start:
            raise TransportError(method="GET", path=path, reason="nothing is continued through a relay")
        response = self._ask("GET", path, (), b"")
        if len(response.content) > max_bytes:
            raise ResponseTooLargeError(path=path, limit_bytes=max_bytes)
        yield Download(0, iter((response.content,)), response.field("content-type"))

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Send `body`; see `Transport.post`."""
        response = self._ask("POST", path, (("content-type", content_type),), body)
        return Reply(response.field("content-type"), response.content)

    def close(self) -> None:
        """Do nothing: the way to the relay is its owner's."""

    def _ask(self, method: str, path: str, fields: tuple[tuple[str, str], ...], body: bytes) -> HttpResponse:
        config = self._keys.find(self._relay, self._transport, self._path)
        target = self._target
        request = HttpRequest(method, target.scheme, target.netloc, target.path + path, fields, body)
        try:
            sealed, opener = seal_request(config, write_request(request, REQUEST_MULTIPLE_BYTES))
            reply = self._transport.post(self._path, sealed, REQUEST_TYPE)
            if reply.content_type != RESPONSE_TYPE:
                reason = f"the relay's answer is of type {reply.content_type!r}, not {RESPONSE_TYPE}"
                raise TransportError(method=method, path=path, reason=reason)
            response = read_response(opener.open(reply.body))
        except StatusError as error:
            if error.status in _KEY_REFUSED:
                self._keys.forget(self._relay)  # the gateway has another by now
            raise
        except (ObliviousMessageError, HpkeError, ParameterError) as error:
            raise TransportError(method=method, path=path, reason=str(error)) from error
        if response.status not in _SUCCESS:
            raise StatusError(method=method, path=path, status=response.status, retry_after_s=_read_wait(response))
        return response


def _read_wait(response: HttpResponse) -> float | None:
    """Return the seconds for which the aggregator asks to be left alone; None: it does not say."""
    text = response.field("retry-after")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
