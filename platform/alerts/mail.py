"""Sends alerts by e-mail: plain text, over TLS unless the server is this machine.

`smtplib` waits, so each attempt has a thread of its own, which holds up neither the loop nor the server's end.
"""

import asyncio
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr

from alcove.platform.alerts.config import EmailConfig
from alcove.platform.alerts.outcomes import Outcome
from alcove.platform.domain.alerts.alert import Alert, one_line
from alcove.platform.domain.alerts.rendering import render_mail

__all__ = ["Mail", "make_message"]


def make_message(config: EmailConfig, alert: Alert, *, source: str, console: str) -> EmailMessage:
    """Return the mail of an alert; the same one, by its Message-ID, at each attempt."""
    subject, text = render_mail(alert, source=source, console=console)
    message = EmailMessage()
    message["From"] = config.sender
    message["To"] = ", ".join(config.to)
    message["Subject"] = one_line(subject)
    message["Date"] = format_datetime(datetime.fromtimestamp(alert.at_s, UTC))
    message["Message-ID"] = f"<{alert.alert_id}.{config.name}@{parseaddr(config.sender)[1].partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no absence note comes back
    message.set_content(text)
    return message


class Mail:
    """Mailboxes behind one server of SMTP.

    Args:
        config: says where, and as whom.
        source: names the server in mails.
        console: address of its console, for links.
    """

    def __init__(self, config: EmailConfig, *, source: str, console: str) -> None:
        self._config = config
        self._source = source
        self._console = console

    async def send(self, alert: Alert) -> Outcome:
        """Send an alert once, and return what came of it; never raises but for cancellation."""
        message = make_message(self._config, alert, source=self._source, console=self._console)
        attempt = _Attempt(self._config, message)
        try:
            async with asyncio.timeout(self._config.timeout_s):
                return await _in_thread(attempt.run)
        except TimeoutError:
            return Outcome.failure(f"{self._config.host} did not answer within {self._config.timeout_s:g} s")
        finally:
            attempt.abandon()


class _Attempt:
    """One exchange with the server."""

    def __init__(self, config: EmailConfig, message: EmailMessage) -> None:
        self._config = config
        self._message = message
        self._smtp: smtplib.SMTP | None = None

    def run(self) -> Outcome:
        """Send the message; returns what came of it."""
        host = self._config.host
        try:
            return self._talk()
        except smtplib.SMTPRecipientsRefused:
            return Outcome.failure(f"{host} refuses every mailbox")
        except smtplib.SMTPResponseException as error:
            code = error.smtp_code
            words = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else ""
            words = "" if isinstance(error, smtplib.SMTPAuthenticationError) else f": {words}"
            return Outcome.failure(f"{host} answered {code} ({type(error).__name__}){words}")
        except ssl.SSLCertVerificationError as error:
            return Outcome.failure(f"the certificate of {host} is not trusted: {error.verify_message}")
        except (OSError, smtplib.SMTPException, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            return Outcome.failure(f"{host} cannot be spoken to: {problem}")
        finally:
            if self._smtp is not None:
                self._smtp.close()

    def abandon(self) -> None:
        """End the connection under a thread that still waits for it."""
        sock = None if self._smtp is None else self._smtp.sock
        if sock is not None:
            with suppress(OSError):  # it has ended
                sock.shutdown(socket.SHUT_RDWR)

    def _talk(self) -> Outcome:
        config = self._config
        context = ssl.create_default_context(cafile=None if config.tls_root is None else str(config.tls_root))
        where = (config.host, config.smtp_port)
        smtp: smtplib.SMTP
        if config.security == "tls":
            self._smtp = smtp = smtplib.SMTP_SSL(*where, timeout=config.timeout_s, context=context)
        else:
            self._smtp = smtp = smtplib.SMTP(*where, timeout=config.timeout_s)
        if config.security == "starttls":
            smtp.starttls(context=context)
        if config.user and config.password is not None:
            smtp.login(config.user, config.password.get_secret_value())
        refused = smtp.send_message(self._message)
        with suppress(OSError, smtplib.SMTPException):  # what was accepted is sent
            smtp.quit()
        # Those who were accepted must not get it twice: what is left is said, and not tried again.
        return Outcome.failure(f"{config.host} refuses {', '.join(refused)}", is_final=True) if refused else Outcome()


async def _in_thread(work: Callable[[], Outcome]) -> Outcome:
    """Return what `work` returns in a thread that nobody waits for at the end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()

    def tell(outcome: Outcome) -> None:
        if not done.done():
            done.set_result(outcome)

    def run() -> None:
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - an attempt that failed in any way is one that failed
            outcome = Outcome.failure(type(error).__name__)
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(tell, outcome)

    threading.Thread(target=run, name="alert-mail", daemon=True).start()
    return await done
