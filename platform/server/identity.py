"""Identifies the caller by its token, or by its client certificate where there is no token.

A token is looked up in the database unless nobody has committed since it was, so a revoked one is refused with its next
call.  The console's own key is in no database: it holds while the server runs, and on the console's door alone.
Certificates differ by their names, each with its kind before it:

    uri:spiffe://acme/ci    dns:deploy.acme.example    email:ops@acme.example    cn:deploy (if it has no other name)

The list of names is a JSON file, {"dns:deploy.acme.example": "operator", …}; it is read again when it changes, so a
name that is taken out of it is refused without a restart, and so is a session that it signed in.
"""

from __future__ import annotations

import hmac
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.domain.errors import (
    CertificateListError,
    InvalidFieldError,
    PlaintextRefusedError,
    UnauthenticatedError,
)
from alcove.platform.domain.limits import SESSION_IDLE_S
from alcove.platform.domain.principal import CONSOLE, Principal, Role
from alcove.platform.server.token_reads import TokenReads
from alcove.platform.services.auth.tokens import authenticate, token_id_of
from cryptography import x509

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import grpc.aio
    from alcove.platform.store import Store
    from alcove.runtime.clock import Clock

__all__ = ["CertificateList", "Identity", "names_of", "principal_of_certificate"]

_BEARER: Final = "Bearer "
_HEADER: Final = "Bearer alc_"  # how every header with a token begins
_DOOR: Final = "unix:"
_LOOPBACK = ("ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "unix:")


class CertificateList:
    """The names of client certificates and their roles, as a file has them.

    Args:
        path: the JSON file.

    Raises:
        CertificateListError: it cannot be read, is no such list, or gives a role that there is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._roles: Mapping[str, Role] = {}
        self.roles()

    def roles(self) -> Mapping[str, Role]:
        """Return the role of each name, as the file has it now."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_ino)
            if seen != self._seen:
                self._roles = _roles(json.loads(self._path.read_text(encoding="utf-8")))
                self._seen = seen
        except (OSError, ValueError, InvalidFieldError) as error:
            raise CertificateListError(self._path, str(error)) from None
        return self._roles


def _roles(content: Any) -> dict[str, Role]:
    if not isinstance(content, dict):
        msg = 'expected {"dns:name": "role", …}'
        raise ValueError(msg)  # noqa: TRY004 - one kind of fault for all that is wrong with the file
    for name, role in content.items():
        if name.partition(":")[0] not in ("uri", "dns", "email", "cn") or not isinstance(role, str):
            msg = f"{name!r}: expected a name with uri:, dns:, email: or cn: before it, and a role"
            raise ValueError(msg)
    return {name: Role.parse(role) for name, role in content.items()}


@lru_cache(maxsize=1024)
def names_of(pem: bytes) -> tuple[tuple[str, ...], int]:
    """Return the names of a certificate, most telling first, and when it expires (seconds since 1970-01-01 UTC).

    Raises:
        ValueError: it is no certificate.
    """
    certificate = x509.load_pem_x509_certificate(pem)
    expires_s = int(certificate.not_valid_after_utc.timestamp())
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(f"cn:{item.value!s}" for item in common), expires_s
    kinds = (
        ("uri", names.get_values_for_type(x509.UniformResourceIdentifier)),
        ("dns", names.get_values_for_type(x509.DNSName)),
        ("email", names.get_values_for_type(x509.RFC822Name)),
    )
    return tuple(f"{kind}:{value}" for kind, values in kinds for value in values), expires_s


def principal_of_certificate(pem: bytes, certificates: CertificateList, *, now_s: int) -> tuple[Principal, int]:
    """Return the caller whom a client certificate proves, and when the certificate expires.

    Args:
        pem: of the certificate, which its holder has proved to hold.
        certificates: roles of names.
        now_s: seconds since 1970-01-01 UTC.

    Raises:
        UnauthenticatedError: it is none, has expired, or the list does not give its names one role.
        CertificateListError: the list cannot be read any more.
    """
    try:
        names, expires_s = names_of(pem)
    except ValueError:
        names, expires_s = (), 0
    if now_s >= expires_s:  # a connection outlives the check at its start
        reason = "the client certificate has expired"
        raise UnauthenticatedError(reason)
    roles = certificates.roles()
    known = [name for name in names if name in roles]
    if not known:
        reason = f"the client certificate of {', '.join(names) or 'nobody'} is not in the server's list"
        raise UnauthenticatedError(reason)
    if len({roles[name] for name in known}) > 1:
        reason = f"the list gives {', '.join(known)}, names of one client certificate, different roles"
        raise UnauthenticatedError(reason)
    return Principal(known[0], roles[known[0]]), expires_s


class Identity:
    """Tells who makes a call.

    Args:
        store: has the tokens.
        clock: says what has expired.
        certificates: names of client certificates; None: tokens only.
        console_key: by which the server's own console proves itself; "": there is none.
        idle_s: seconds after which a session ends that nobody uses.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        certificates: CertificateList | None = None,
        *,
        console_key: str = "",
        idle_s: int = SESSION_IDLE_S,
    ) -> None:
        self._console_key = console_key
        self._idle_s = idle_s
        self._tokens = TokenReads(store)
        self._clock = clock
        self._certificates = certificates

    def why_stranger(self, metadata: Sequence[tuple[str, str | bytes]]) -> str:
        """Return why the headers of a call alone say that nobody who is known makes it; "" where somebody may."""
        shown = [value for key, value in metadata if key == "authorization"]
        if not shown:
            return "" if self._certificates is not None else "no token"
        return "" if str(shown[0]).startswith(_HEADER) else "malformed authorization"

    async def of(self, context: grpc.aio.ServicerContext[Any, Any]) -> Principal:
        """Return who makes the call.

        Raises:
            PlaintextRefusedError: a token, and neither TLS nor this machine.
            UnauthenticatedError: no valid token, and no certificate that the list names.
            CertificateListError: the list of certificates cannot be read any more.
        """
        values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        peer = context.auth_context()
        if not values:
            return self._of_certificate(peer.get("x509_pem_cert"))
        if not peer.get("transport_security_type") and not context.peer().startswith(_LOOPBACK):
            raise PlaintextRefusedError
        text = values[0] if isinstance(values[0], str) else values[0].decode("ascii", "replace")
        if len(values) > 1 or not text.startswith(_BEARER):
            reason = "malformed authorization"
            raise UnauthenticatedError(reason)
        token = text.removeprefix(_BEARER)
        if self._console_key and hmac.compare_digest(token.encode(), self._console_key.encode()):
            if not context.peer().startswith(_DOOR):
                reason = "the console's key is for the console's own door"
                raise UnauthenticatedError(reason)
            return Principal("own", CONSOLE)
        record = await self._tokens.record(token_id_of(token))
        principal = authenticate(token, record, now_s=self._clock.now_s(), idle_s=self._idle_s)
        if principal.session_id and ":" in principal.token_id:
            self._validate_certificate_session(principal)
        return principal

    def _validate_certificate_session(self, principal: Principal) -> None:
        roles = {} if self._certificates is None else self._certificates.roles()
        if roles.get(principal.token_id) != principal.role:
            reason = f"the server's list does not give {principal.token_id} the role {principal.role} any more"
            raise UnauthenticatedError(reason)

    def _of_certificate(self, pems: Any) -> Principal:
        if not pems or self._certificates is None:
            reason = "no token"
            raise UnauthenticatedError(reason)
        return principal_of_certificate(bytes(pems[0]), self._certificates, now_s=self._clock.now_s())[0]
