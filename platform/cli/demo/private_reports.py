"""Makes the fleet's reports for two aggregators, and uploads them to the leader, many in a request.

Each report is made by the function that devices make theirs by, from a seed of its own.  The native core shares; for
some devices Python does it, and both forms are compared byte for byte under the same seed.

A task with an issuer has a token in each report; a forger has none, and the leader refuses what he makes.

An upload that is not acknowledged is sent again, the same bytes: an aggregator that was killed takes each report once.
"""

from __future__ import annotations

import http.client
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import chain, repeat
from typing import TYPE_CHECKING

from alcove.platform.aggregator.problems import DapProblem, ProblemType, encode_id
from alcove.platform.cli.demo.processes import ANSWER_TIMEOUT_S, DemoError
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    MEDIA_TYPE,
    HpkeConfigList,
    Report,
    ReportShare,
    Role,
    UploadErrors,
    UploadRequest,
)
from alcove.privacy.dap.reports import Recipients, choose_config, make_config, open_input_share
from alcove.privacy.entropy import OsEntropy
from alcove.registry.policy.dap import make_dap_task
from alcove.sdk.prio3_reports import SeedEntropy, make_window_report
from alcove.sdk.report_files import SEED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from alcove.platform.cli.demo.tokens import FleetTokens
    from alcove.privacy.dap.messages import HpkeConfig
    from alcove.privacy.dap.report_tokens import ReportToken
    from alcove.registry.policy import TaskPolicy

UPLOADED_AT_ONCE = 1000  # reports in a request, the most that the leader takes
PYTHON_DEVICES = 100
AGAIN_S = 0.1
TIMEOUT_S = 60.0
_CHUNKS_LEAST = 8  # requests of a small fleet, so that something can happen in the middle


class PrivateReporter:
    """Reports of one window of a task, each of another device.

    Args:
        leader_url: where reports are sent.
        helper_url: asked for its key.
        task: of the policy.
        window: that all devices report.
        tokens: of the fleet, where the task asks for them.

    Attributes:
        acknowledged: reports that the leader took.
        repeated: uploads that were sent again because nothing acknowledged them.
        compared: reports that Python and the native core made alike.
        waited_s: seconds for tokens of the fleet.
        report_bytes: of one report.
    """

    def __init__(
        self, leader_url: str, helper_url: str, task: TaskPolicy, window: int, tokens: FleetTokens | None = None
    ) -> None:
        self._leader = urllib.parse.urlsplit(leader_url)
        self._recipients = Recipients(_read_config(leader_url), _read_config(helper_url))
        self._task = task
        self._dap_task = make_dap_task(task)
        self._window = window
        self._tokens = tokens
        self.acknowledged = 0
        self.repeated = 0
        self.compared = 0
        self.waited_s = 0.0
        self.report_bytes = 0

    def send_all(self, cells: Sequence[int], progress: Callable[[int], None]) -> None:
        """Make and upload a report of each cell; the next ones are made while the leader stores those before.

        Raises:
            DemoError: the leader refused one, or both forms of a report differ.
        """
        size = max(1, min(UPLOADED_AT_ONCE, len(cells) // _CHUNKS_LEAST))
        tokens = self._find_tokens(len(cells))
        under_way: Future[None] | None = None
        with ThreadPoolExecutor(1) as pool:
            for first in range(0, len(cells), size):
                reports = tuple(
                    self._make(number, cells[number], next(tokens)) for number in _range(first, size, len(cells))
                )
                if under_way is not None:
                    under_way.result()
                under_way = pool.submit(self._upload, reports)
                progress(first + len(reports))
            if under_way is not None:
                under_way.result()

    def forge(self, count: int) -> int:
        """Upload reports of nobody, without a token; return how many the leader refused.

        Raises:
            DemoError: it took one.
        """
        reports = tuple(
            self._make_report(0, OsEntropy().random_bytes(SEED_BYTES), self._recipients) for _ in range(count)
        )
        refused = self._send(reports)
        if len(refused) != count:
            raise DemoError(f"expected that {count} reports without a token are refused; saw {len(refused)}")
        return len(refused)

    def _find_tokens(self, count: int) -> Iterator[ReportToken | None]:
        if self._tokens is None:
            return repeat(None)
        return chain.from_iterable(self._wait(iter(self._tokens.fetch(self._task, self._window, count))))

    def _wait(self, arriving: Iterator[list[ReportToken]]) -> Iterator[list[ReportToken]]:
        while True:
            began_s = time.monotonic()
            tokens = next(arriving, None)
            self.waited_s += time.monotonic() - began_s
            if tokens is None:
                return
            yield tokens

    def _make(self, number: int, cell: int, token: ReportToken | None) -> Report:
        seed = OsEntropy().random_bytes(SEED_BYTES)
        is_native = number >= PYTHON_DEVICES
        if not is_native:
            self._compare_forms(cell, seed, token)
        return self._make_report(cell, seed, self._recipients, token=token, is_native=is_native)

    def _make_report(
        self,
        cell: int,
        seed: bytes,
        recipients: Recipients,
        *,
        token: ReportToken | None = None,
        is_native: bool = True,
    ) -> Report:
        return make_window_report(
            self._task,
            self._dap_task,
            self._window,
            cell,
            recipients=recipients,
            entropy=SeedEntropy(seed),
            token=token,
            is_native=is_native,
        )

    def _compare_forms(self, cell: int, seed: bytes, token: ReportToken | None) -> None:
        """Make a report in Python and in the native core, sealed to the demo's own key, open both and compare."""
        opened = []
        for is_native in (False, True):
            report = self._make_report(cell, seed, _OWN_RECIPIENTS, token=token, is_native=is_native)
            metadata, public = report.metadata, report.public_share
            shares = ((Role.LEADER, report.leader_input_share), (Role.HELPER, report.helper_input_share))
            plain = [
                open_input_share(self._dap_task, role, {0: _OWN_KEY}, ReportShare(metadata, public, share))
                for role, share in shares
            ]
            opened.append((metadata, public, plain))
        if opened[0] != opened[1]:
            raise DemoError("expected the same bytes of a report from Python and from the native core")
        self.compared += 1

    def _upload(self, reports: tuple[Report, ...]) -> None:
        refused = self._send(reports)
        if refused:
            raise DemoError(f"expected that the leader takes all reports; saw {refused[0]} and {len(refused) - 1} more")
        self.acknowledged += len(reports)
        self.report_bytes = len(reports[0].to_bytes())

    def _send(self, reports: tuple[Report, ...]) -> list[str]:
        """Upload until there is an answer; return why reports were refused."""
        body = UploadRequest(reports).to_bytes()
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                return self._post(body)
            except (OSError, http.client.HTTPException) as error:
                self.repeated += 1
                if time.monotonic() > until_s:
                    raise DemoError(f"the leader did not answer: {error}") from error
                time.sleep(AGAIN_S)

    def _post(self, body: bytes) -> list[str]:
        """Upload once; return why reports were refused.

        Raises:
            OSError, http.client.HTTPException: there is no answer, or one that says to come again.
            DemoError: the leader refuses all of it.
        """
        connection = http.client.HTTPConnection(self._leader.hostname or "", self._leader.port, timeout=TIMEOUT_S)
        try:
            path = f"/tasks/{encode_id(self._dap_task.task_id)}/reports"
            connection.request("POST", path, body, {"Content-Type": f"{MEDIA_TYPE};message=upload-req"})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status == HTTPStatus.OK:
            return [status.error.name for status in UploadErrors.from_bytes(data).status] if data else []
        problem = DapProblem.from_json(data)
        if problem is not None and problem.kind is not ProblemType.UNRECOGNIZED_TASK:
            raise DemoError(f"the leader refused an upload: {problem}")
        raise http.client.HTTPException(f"status {answer.status}")  # busy, or the collector has not announced the task


_OWN_KEY = hpke.generate_private_key()
_OWN_RECIPIENTS = Recipients(*(make_config(0, hpke.derive_public_key(_OWN_KEY)) for _ in range(2)))


def _range(first: int, size: int, end: int) -> range:
    return range(first, min(first + size, end))


def _read_config(url: str) -> HpkeConfig:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/hpke_config")
        return choose_config(HpkeConfigList.from_bytes(connection.getresponse().read()))
    finally:
        connection.close()
