"""Collects batches as the collector: announces tasks to the leader, asks for windows, and opens what comes back.

Source: draft-ietf-ppm-dap-18, sections 4.6.1, 4.6.5 and 4.6.6.
"""

import base64
from http import HTTPStatus
from pathlib import Path
from typing import Annotated
from urllib.parse import urljoin

import aiohttp
from alcove.platform.aggregator.config import Token, read_private_json
from alcove.platform.aggregator.peer import Answer, encode_task_header, send
from alcove.platform.aggregator.problems import encode_id
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    MEDIA_TYPE,
    BatchMode,
    CollectionJobReq,
    CollectionJobResp,
    HpkeConfigList,
    Interval,
    Query,
)
from alcove.privacy.dap.release import Release, open_release
from alcove.privacy.dap.reports import Recipients, choose_config
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapMessageError, HpkeError, VdafError
from alcove.registry.policy import Aggregation
from pydantic import AfterValidator, SecretStr

__all__ = ["CollectorClient", "CollectorConfig", "read_collector_config", "read_recipients"]


def _check_key(text: SecretStr) -> SecretStr:
    try:
        hpke.derive_public_key(base64.b64decode(text.get_secret_value(), validate=True))
    except HpkeError as error:
        raise ValueError(error.reason) from None
    return text


class CollectorConfig(Aggregation):
    """What a collector is configured with, as `alcove aggregator create` writes it: the aggregators, token and key.

    Attributes:
        collector_token: by which the leader knows the collector.
        private_key: base64 of the key to which aggregates are sealed.
    """

    collector_token: Token
    private_key: Annotated[SecretStr, AfterValidator(_check_key)]

    @property
    def aggregation(self) -> Aggregation:
        """What tasks say of the aggregators."""
        return Aggregation(**{name: getattr(self, name) for name in Aggregation.model_fields})

    @property
    def hpke_key(self) -> bytes:
        """The private key's bytes."""
        return base64.b64decode(self.private_key.get_secret_value())


def read_collector_config(path: Path) -> CollectorConfig:
    """Return a collector's configuration.

    Raises:
        KeyFileError, AggregatorFileError: as `read_private_json`.
    """
    return read_private_json(path, CollectorConfig)


class CollectorClient:
    """The collector's requests to the leader.

    Args:
        session: makes the connections; stays the caller's.
        config: URLs, token and key.
    """

    def __init__(self, session: aiohttp.ClientSession, config: CollectorConfig) -> None:
        self._session = session
        self._config = config
        self._jobs: dict[tuple[bytes, bytes], str] = {}  # where those under way are, by task and request

    async def announce(self, task: DapTask) -> None:
        """Let the leader take part in a task; again is the same as once.

        Raises:
            DapProblem: the aggregators' rules do not allow it.
            PeerUnavailableError: the leader does not answer.
        """
        url = f"{self._config.leader_url}/tasks/{encode_id(task.task_id)}"
        await self._send("PUT", task, url, task.encoded, MEDIA_TYPE)

    async def collect(self, task: DapTask, start: int, duration: int) -> Release | None:
        """Return what the aggregators release of the windows from `start`; None: they are at it, ask again.

        The same question gets the same release, for as long as the leader keeps it.

        Raises:
            DapProblem: there is none: too few reports, windows that were collected in another way, an unknown task.
            PeerUnavailableError: the leader does not answer, or what it answers is no release for this key.
        """
        query = Query(BatchMode.TIME_INTERVAL, Interval(start, duration).to_bytes())
        request = CollectionJobReq(query, b"", ())
        made = (task.task_id, request.to_bytes())
        job = self._jobs.pop(made, None)  # whatever becomes of this call: asking from the start is the same
        if job is None:  # or one that failed is asked for again
            url = f"{self._config.leader_url}/tasks/{encode_id(task.task_id)}/collection_jobs"
            media_type = f"{MEDIA_TYPE};message=collection-job-req"
            answer = await self._send("POST", task, url, made[1], media_type)
            job = urljoin(url, answer.location) if answer.location else ""
        else:
            answer = await self._send("GET", task, job, b"", "")
        body = answer.body
        if not body:
            if job.startswith(f"{self._config.leader_url}/"):  # no other party is shown the token
                self._jobs[made] = job
            return None
        try:
            return open_release(task, self._config.hpke_key, request, CollectionJobResp.from_bytes(body))
        except (DapMessageError, HpkeError, VdafError) as error:
            raise PeerUnavailableError(self._config.leader_url, f"no release: {error}") from error

    async def _send(self, method: str, task: DapTask, url: str, body: bytes, media_type: str) -> Answer:
        token = {"Authorization": f"Bearer {self._config.collector_token.get_secret_value()}"}
        headers = token | encode_task_header(task) | ({"Content-Type": media_type} if media_type else {})
        answer = await send(self._session, method, url, body=body, headers=headers)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise PeerUnavailableError(url, f"status {answer.status}")
        return answer


async def read_recipients(session: aiohttp.ClientSession, leader_url: str, helper_url: str) -> Recipients:
    """Return the HPKE configurations that both aggregators tell devices, for a fleet in one process.

    Raises:
        PeerUnavailableError: one does not answer, or with no key that is known here.
    """
    configs = []
    for url in (leader_url, helper_url):
        answer = await send(session, "GET", f"{url}/hpke_config", body=b"", headers={})
        try:
            configs.append(choose_config(HpkeConfigList.from_bytes(answer.body)))
        except DapMessageError as error:
            raise PeerUnavailableError(url, str(error)) from error
    return Recipients(*configs)
