"""Receivers of alerts on loopback: HTTP and SMTP, obedient or not, and a store that dies at a chosen step."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from alcove.platform.alerts.config import EmailConfig, WebhookConfig
from alcove.platform.domain.alerts.alert import Alert, AlertKind
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import RolloutPlan, Stage
from alcove.platform.store import Store
from alcove.platform.store.rollouts import add_rollout
from alcove.platform.store.tables import FeatureRow
from alcove.platform.store.unit_of_work import UnitOfWork

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LOOPBACK = ("127.0.0.0/8", "::1/128")
Answer = Callable[["Request"], bytes | None]
"""What a receiver answers; None: nothing, ever."""


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpReceiver:
    """A server that keeps each request and answers as it is told to."""

    answer: Answer = lambda _request: b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{self.scheme}://localhost:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        """The ids of the messages, in the order in which they came."""
        return [each.headers["webhook-id"] for each in self.requests]


def status(code: int, *headers: str, body: bytes = b"") -> Answer:
    """Return an answer of a status."""
    head = "\r\n".join([f"HTTP/1.1 {code} Whatever", f"Content-Length: {len(body)}", *headers])
    return lambda _request: head.encode() + b"\r\n\r\n" + body


class _Callers:
    """The connections of a server: each is waited for at its end."""

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()

    async def finish(self) -> None:
        """End the connections that are open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def receive_http(receiver: HttpReceiver, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpReceiver]:
    """Run a receiver inside the block."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, value in (each.split(": ", 1) for each in head[1:] if each)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            receiver.requests.append(request := Request(head[0], headers, body))
            said = receiver.answer(request)
            if said is None:
                await reader.read()  # until the caller goes
            else:
                writer.write(said)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(callers := _Callers(serve), "127.0.0.1", receiver.port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    receiver.scheme = "http" if tls is None else "https"
    try:
        yield receiver
    finally:
        server.close()
        await callers.finish()


@dataclass
class MailReceiver:
    """A server of SMTP that keeps each mail; `refuses` are words to which it says no."""

    refuses: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    is_tls_first: bool = False
    is_silent: bool = False
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


async def _answer_mail(
    receiver: MailReceiver, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one line of a client's."""
    word = line.split(" ", maxsplit=1)[0].split(":", maxsplit=1)[0].upper()
    more = ["250-STARTTLS"] if receiver.tls and not receiver.is_tls_first else []
    answers = {"EHLO": ["250-sink", *more, "250 AUTH PLAIN"], "STARTTLS": ["220 go"], "AUTH": ["235 known"]}
    answers |= {"DATA": ["354 go"], "QUIT": ["221 bye"]}
    is_refused = any(each.lower() in line.lower() for each in receiver.refuses)
    said = ["550 5.7.1 not here"] if is_refused else answers.get(word, ["250 fine"])
    writer.write("".join(f"{each}\r\n" for each in said).encode())
    await writer.drain()
    if is_refused:
        return
    if word == "STARTTLS" and receiver.tls is not None:
        await writer.start_tls(receiver.tls)
    elif word == "DATA":
        data = await reader.readuntil(b"\r\n.\r\n")
        receiver.mails.append(BytesParser(EmailMessage, policy=policy.default).parsebytes(data[:-5]))
        writer.write(b"250 kept\r\n")
    elif word == "QUIT":
        writer.close()


@asynccontextmanager
async def receive_mail(receiver: MailReceiver) -> AsyncIterator[MailReceiver]:
    """Run a receiver inside the block.  Source: RFC 5321, RFC 3207 (STARTTLS), RFC 4954 (AUTH)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if receiver.is_silent:
                await reader.read()
                return
            writer.write(b"220 sink\r\n")
            while line := (await reader.readline()).decode().strip():
                receiver.words.append(line)
                await _answer_mail(receiver, line, reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    tls = receiver.tls if receiver.is_tls_first else None
    server = await asyncio.start_server(callers := _Callers(serve), "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await callers.finish()


def webhook(url: str, name: str = "pager", **more: Any) -> WebhookConfig:
    """Return a destination that may be on this machine."""
    wanted = {"name": name, "url": url, "secrets": [SECRET], "allow_addresses": LOOPBACK, "timeout_s": 10.0}
    return WebhookConfig.model_validate(wanted | more)


def mailbox(port: int, name: str = "team", **more: Any) -> EmailConfig:
    """Return a destination of mails."""
    wanted: dict[str, Any] = {"name": name, "to": ["ann@acme.example"], "from": "alcove@acme.example"}
    wanted |= {"host": "localhost", "port": port, "security": "none", "timeout_s": 10.0}
    return EmailConfig.model_validate(wanted | more)


def make_alert(number: int = 1, **more: Any) -> Alert:
    """Return an alert."""
    fields: dict[str, Any] = {
        "alert_id": f"al-{number:024d}",
        "kind": AlertKind.ROLLOUT_HALTED,
        "at_s": 1_800_000_000,
        "subject": "ro-1",
        "summary": "Rollout ro-1 was halted at 10 % of the devices: crashes.",
        "app": "mail",
        "feature": "text",
        "facts": (("by", "operator/ab12"), ("reason", "crashes")),
        "path": "features/language_id",
    }
    return Alert(**fields | more)


def make_rollout(rollout_id: str = "ro-1", **more: Any) -> RolloutRecord:
    """Return a rollout of two stages."""
    fields: dict[str, Any] = {
        "sequence": 0,
        "rollout_id": rollout_id,
        "app": "mail",
        "feature": "text",
        "version": "1.2.0",
        "manifest_sha256": "0" * 64,
        "salt": "00",
        "state": RolloutState.RUNNING,
        "share_basis_points": 1000,
        "created_at_s": 1,
        "updated_at_s": 1,
        "policy_serial": 1,
        "plan": RolloutPlan(stages=(Stage(1000, 3600, 1000), Stage(5000, 3600, 1000))),
    }
    return RolloutRecord(**fields | more)


async def write_rollout(store: Store, rollout_id: str = "ro-1", **more: Any) -> None:
    """Write a rollout, and its feature where it is new."""
    record = make_rollout(rollout_id, **more)
    async with store.write() as session:
        if await session.get(FeatureRow, record.feature) is None:
            session.add(FeatureRow(name=record.feature, team="text"))
            await session.flush()
        await add_rollout(session, record)


async def write_entry(store: Store, action: str, subject: str = "ro-1", *, now_s: int, **details: object) -> None:
    """Write an audit entry, as a mutation does."""
    async with store.write() as session:
        await UnitOfWork(session, "operator/ab12", now_s).audit(action, subject, **details)


def write_secret(path: Path, text: str = SECRET) -> Path:
    """Write a file of secrets."""
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return path


async def wait_until(is_true: Callable[[], bool], timeout_s: float = 120.0) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(timeout_s):
        while not is_true():  # noqa: ASYNC110 - what is waited for happens in a socket
            await asyncio.sleep(0.01)
