"""Sends requests to another party of a task: the leader's to the helper, and both aggregators' to the issuer."""

import base64
import io
from http import HTTPStatus
from typing import Final, NamedTuple

import aiohttp
from alcove.platform.aggregator.problems import MEDIA_TYPE as PROBLEM_TYPE
from alcove.platform.aggregator.problems import DapProblem, encode_id
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy.dap.messages import MEDIA_TYPE
from alcove.privacy.dap.report_tokens import token_key_path
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import TokenKeyError
from alcove.privacy.tokens import TokenKey

__all__ = ["Answer", "HttpHelper", "HttpIssuer", "encode_task_header", "send"]

TIMEOUT_S: Final = 60.0
"""Seconds for one exchange; a job of 512 reports takes a tenth of one."""

KEY_TIMEOUT_S: Final = 10.0
"""Seconds for the issuer's key; devices wait for it, one after the other."""

MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
MAX_PROBLEM_BYTES: Final = 64 * 1024


def encode_task_header(task: DapTask) -> dict[str, str]:
    """Return the header that advertises a task: a byte sequence of RFC 9651."""
    return {"DAP-Taskprov": f":{base64.b64encode(task.encoded).decode()}:"}


class Answer(NamedTuple):
    """What another party answers; `location` is where it says that what was made is."""

    status: int
    media_type: str
    body: bytes
    location: str


class HttpHelper:
    """The helper, over HTTP.

    Args:
        session: makes the connections; stays the caller's.
        url: below which the helper answers.
        token: by which it knows the leader.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url
        self._token = token

    async def aggregate(self, task: DapTask, request: bytes) -> bytes:
        """Return the answer to an aggregation job.

        Raises:
            DapProblem: the helper refuses it.
            PeerUnavailableError: there is no answer, or none of DAP.
        """
        return await self._ask(task, "aggregation_jobs", "aggregation-job", request)

    async def release(self, task: DapTask, request: bytes) -> bytes:
        """Return the helper's share of a batch.

        Raises:
            DapProblem: the helper refuses it.
            PeerUnavailableError: there is no answer, or none of DAP.
        """
        return await self._ask(task, "aggregate_shares", "aggregate-share", request)

    async def announce(self, task: DapTask) -> None:
        """Let the helper take part in a task.

        Raises:
            DapProblem: the helper refuses it.
            PeerUnavailableError: there is no answer, or none of DAP.
        """
        url = f"{self._url}/tasks/{encode_id(task.task_id)}"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": MEDIA_TYPE}
        await send(self._session, "PUT", url, body=task.encoded, headers=headers)

    async def _ask(self, task: DapTask, resource: str, message: str, request: bytes) -> bytes:
        url = f"{self._url}/tasks/{encode_id(task.task_id)}/{resource}"
        kind = "aggregation-job-init-req" if message == "aggregation-job" else "aggregate-share-req"
        expected = "aggregation-job-resp" if message == "aggregation-job" else "aggregate-share"
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": f"{MEDIA_TYPE};message={kind}",
        } | encode_task_header(task)
        status, media_type, body, _ = await send(self._session, "POST", url, body=request, headers=headers)
        if status in (HTTPStatus.OK, HTTPStatus.CREATED) and body and f"message={expected}" in media_type:
            return body
        raise PeerUnavailableError(self._url, f"status {status} with {len(body)} bytes of {media_type or 'no type'}")


class HttpIssuer:
    """The issuer of tokens, over HTTP.

    Args:
        session: makes the connections; stays the caller's.
        url: below which the issuer answers.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def fetch_key(self, task: DapTask, time: int) -> TokenKey | None:
        """Return the public key for a task and time; None: the issuer has none.

        Raises:
            PeerUnavailableError: there is no answer, or none that is a key.
        """
        url = f"{self._url}/{token_key_path(task.task_id, time)}"
        status, _, body, _ = await _exchange(self._session, "GET", url, timeout_s=KEY_TIMEOUT_S)
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status != HTTPStatus.OK:
            raise PeerUnavailableError(url, f"status {status}")
        try:
            return TokenKey.from_bytes(body)
        except TokenKeyError as error:
            raise PeerUnavailableError(url, error.reason) from None


async def send(
    session: aiohttp.ClientSession, method: str, url: str, *, body: bytes, headers: dict[str, str]
) -> Answer:
    """Return the answer to a request.

    Raises:
        DapProblem: it is a problem of DAP.
        PeerUnavailableError: there is none, it is longer than any, or it is an error without a type of DAP.
    """
    answer = await _exchange(session, method, url, body=body, headers=headers)
    status, media_type, data, _ = answer
    is_refusal = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    if is_refusal and media_type.startswith(PROBLEM_TYPE) and len(data) <= MAX_PROBLEM_BYTES:
        problem = DapProblem.from_json(data)
        if problem is not None:
            raise problem
    if status >= HTTPStatus.BAD_REQUEST:
        raise PeerUnavailableError(url, f"status {status}")
    return answer


async def _exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """Return the answer, whatever it says.

    Raises:
        PeerUnavailableError: there is none, or it is longer than any.
    """
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    data_sent = io.BytesIO(body) if body else None  # bytes of a megabyte or more make the library warn
    headers = (headers or {}) | {"Accept-Encoding": "identity"}
    try:
        async with session.request(
            method,
            url,
            data=data_sent,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            auto_decompress=False,  # a few kilobytes of another party's could become gigabytes
        ) as answer:
            data = await answer.content.read(MAX_ANSWER_BYTES + 1)
            while len(data) <= MAX_ANSWER_BYTES and not answer.content.at_eof():
                data += await answer.content.read(MAX_ANSWER_BYTES + 1 - len(data))
            fields = [answer.headers.get(name, "") for name in ("Content-Type", "Location")]
            found = Answer(answer.status, fields[0], data, fields[1])
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise PeerUnavailableError(url, f"no answer: {type(error).__name__}") from error
    if len(data) > MAX_ANSWER_BYTES:
        raise PeerUnavailableError(url, f"an answer of more than {MAX_ANSWER_BYTES} bytes")
    return found
