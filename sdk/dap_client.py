"""Speaks DAP with two aggregators, as a device does: asks for their keys, and uploads one report in a request.

Nothing of the device is in either request.  An answer that is none of DAP is a `TransportError`, like one that broke
off: the next turn tries again.

Source: draft-ietf-ppm-dap-18, sections 4.4.1 to 4.4.3.
"""

import base64
from typing import Final

from alcove.privacy import hpke
from alcove.privacy.dap.messages import MEDIA_TYPE, HpkeConfig, HpkeConfigList, Report, ReportError, UploadErrors
from alcove.privacy.dap.reports import Recipients, choose_config
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapMessageError, HpkeError
from alcove.runtime.clock import Clock
from alcove.sdk.errors import TransportError
from alcove.sdk.limits import MAX_HPKE_CONFIG_BYTES, MAX_HPKE_CONFIG_S
from alcove.sdk.transport import OpenTransport, Transport

__all__ = ["KeyCache", "upload"]

_NS: Final = 1_000_000_000


class KeyCache:
    """The keys of aggregators, each for a day at most; in memory alone, used by one thread at a time.

    Args:
        clock: its monotonic clock measures their age.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._configs: dict[str, tuple[HpkeConfig, int]] = {}

    def find(self, task: DapTask, open_transport: OpenTransport) -> Recipients:
        """Return the keys of a task's aggregators; those that are not known are asked for.

        Raises:
            RemoteError: an aggregator does not answer with keys that can be used.
        """
        return Recipients(*(self._find(url, open_transport) for url in _addresses(task)))

    def forget(self, task: DapTask) -> None:
        """Ask for the keys of a task's aggregators again before the next use."""
        for url in _addresses(task):
            self._configs.pop(url, None)

    def _find(self, url: str, open_transport: OpenTransport) -> HpkeConfig:
        now_ns = self._clock.monotonic_ns()
        config, asked_ns = self._configs.get(url, (None, 0))
        if config is None or not 0 <= now_ns - asked_ns < MAX_HPKE_CONFIG_S * _NS:
            config = _fetch_config(open_transport(url))
            self._configs[url] = config, now_ns
        return config


def upload(transport: Transport, task_id: bytes, report: bytes) -> ReportError | None:
    """Send a report to the leader; return why it refuses it, None if the leader has it.

    Args:
        transport: the way to the leader.
        task_id: of DAP.
        report: its bytes; a request of one report is nothing else.

    Raises:
        RemoteError: try again later with the same bytes.
    """
    path = f"/tasks/{base64.urlsafe_b64encode(task_id).decode().rstrip('=')}/reports"
    reply = transport.post(path, report, f"{MEDIA_TYPE};message=upload-req")
    if not reply.body:
        return None
    _check_type("POST", path, reply.content_type, "upload-errors")
    report_id = Report.from_bytes(report).metadata.report_id
    try:
        statuses = {status.report_id: status.error for status in UploadErrors.from_bytes(reply.body).status}
    except DapMessageError as error:
        raise TransportError(method="POST", path=path, reason=str(error)) from error
    if report_id not in statuses:
        raise TransportError(method="POST", path=path, reason="the answer is about another report")
    return statuses[report_id]


def _fetch_config(transport: Transport) -> HpkeConfig:
    """Return an aggregator's key.

    Raises:
        RemoteError: it gives none that can be used.
    """
    path = "/hpke_config"
    with transport.get(path, max_bytes=MAX_HPKE_CONFIG_BYTES) as download:
        _check_type("GET", path, download.content_type, "hpke-config-list")
        body = b"".join(download.chunks)
    try:
        config = choose_config(HpkeConfigList.from_bytes(body))
        # Found out here, a key to which nothing can be sealed costs no budget.
        hpke.seal(config.public_key, b"", b"", b"")
    except (DapMessageError, HpkeError) as error:
        raise TransportError(method="GET", path=path, reason=str(error)) from error
    return config


def _check_type(method: str, path: str, given: str, message: str) -> None:
    expected = f"{MEDIA_TYPE};message={message}"
    if given.replace(" ", "") != expected:
        raise TransportError(method=method, path=path, reason=f"an answer of type {given!r}, not {expected}")


def _addresses(task: DapTask) -> tuple[str, str]:
    return task.configuration.leader_url.decode(), task.configuration.helper_url.decode()
