"""Mails against a real server of SMTP on loopback."""

import base64
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import trustme
from alcove.platform.alerts.mail import Mail, make_message
from alcove.platform.alerts.outcomes import Outcome

from tests.platform.alerts.receivers import MailReceiver, mailbox, make_alert, receive_mail


async def send(receiver: MailReceiver, **more: Any) -> Outcome:
    """Send one alert to a receiver."""
    return await Mail(mailbox(receiver.port, **more), source="alcove", console="").send(make_alert())


async def test_a_mail_arrives_as_plain_sentences() -> None:
    """Who, to whom, what about, and the text."""
    async with receive_mail(MailReceiver()) as receiver:
        assert await send(receiver) == Outcome()
    (mail,) = receiver.mails
    assert (mail["From"], mail["To"]) == ("alcove@acme.example", "ann@acme.example")
    assert mail["Subject"] == "[alcove] rollout halted: ro-1 (mail)"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().startswith("Rollout ro-1 was halted at 10 % of the devices: crashes.")


def test_a_mail_has_one_message_id_at_each_attempt() -> None:
    """A mail that came twice is known by it; another destination has another."""
    ids = {make_message(mailbox(1, name), make_alert(), source="s", console="")["Message-ID"] for name in ("a", "b")}
    again = make_message(mailbox(1, "a"), make_alert(), source="s", console="")["Message-ID"]
    assert again in ids
    assert len(ids) == 2


def test_no_name_adds_a_header() -> None:
    """Line ends in names and reasons are no line ends in the mail."""
    evil = "x\r\nBcc: eve@evil.example\r\n\r\nbody"
    alert = make_alert(subject=evil, app=evil, summary=evil)
    message = make_message(mailbox(1), alert, source="s", console="")
    head = message.as_bytes().partition(b"\n\n")[0]
    assert message["Bcc"] is None
    assert b"\nBcc" not in head


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_password_goes_over_tls_alone(security: str, tmp_path: Path) -> None:
    """TLS comes before the password; a certificate of nobody is refused before it."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    known: dict[str, Any] = {"user": "alcove", "password": "letmein", "security": security}
    async with receive_mail(MailReceiver(tls=tls, is_tls_first=security == "tls")) as receiver:
        assert "certificate of localhost is not trusted" in (await send(receiver, **known)).problem
        assert not any(word.startswith("AUTH") for word in receiver.words)
        assert await send(receiver, tls_root=tmp_path / "ca.pem", **known) == Outcome()
    said = base64.b64encode(b"\0alcove\0letmein").decode()
    assert [word for word in receiver.words if word.startswith("AUTH")] == [f"AUTH PLAIN {said}"]
    assert len(receiver.mails) == 1


async def test_a_server_without_tls_gets_nothing() -> None:
    """Where STARTTLS is asked for and not offered, nothing is sent in clear."""
    async with receive_mail(MailReceiver()) as receiver:
        outcome = await send(receiver, security="starttls", user="alcove", password="letmein")
    assert "cannot be spoken to" in outcome.problem
    assert not receiver.mails
    assert not any(word.startswith(("AUTH", "MAIL")) for word in receiver.words)


@pytest.mark.parametrize("refused", ["MAIL", "RCPT", "DATA"])
async def test_a_refusal_is_said_without_a_secret(refused: str) -> None:
    """The server's code is in the problem, and it is tried again."""
    async with receive_mail(MailReceiver(refuses=(refused,))) as receiver:
        outcome = await send(receiver)
    assert outcome.problem.startswith("localhost ")
    assert not outcome.is_final
    assert not receiver.mails


async def test_a_refused_password_is_not_repeated() -> None:
    """What a server says about a password may repeat it."""
    async with receive_mail(MailReceiver(refuses=("AUTH",))) as receiver:
        outcome = await send(receiver, user="alcove", password="letmein")
    assert "SMTPAuthenticationError" in outcome.problem
    assert "not here" not in outcome.problem


async def test_one_refused_mailbox_of_two_is_said_and_not_sent_twice() -> None:
    """Whoever got it does not get it again."""
    async with receive_mail(MailReceiver(refuses=("bob@",))) as receiver:
        outcome = await send(receiver, to=["ann@acme.example", "bob@acme.example"])
    assert outcome == Outcome("localhost refuses bob@acme.example", is_final=True)
    assert len(receiver.mails) == 1


async def test_a_silent_server_is_left_in_time() -> None:
    """The attempt ends after its timeout, and holds up nothing."""
    async with receive_mail(MailReceiver(is_silent=True)) as receiver:
        assert "did not answer within 0.2 s" in (await send(receiver, timeout_s=0.2)).problem


async def test_a_server_that_is_down_is_said() -> None:
    """Nobody listens any more."""
    async with receive_mail(MailReceiver()) as receiver:
        pass
    assert "localhost cannot be spoken to" in (await send(receiver)).problem
    assert isinstance(make_message(mailbox(1), make_alert(), source="s", console=""), EmailMessage)
