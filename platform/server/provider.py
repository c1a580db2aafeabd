"""Signs people in through a provider of OpenID Connect: authorization code flow with PKCE, state and nonce.

begin: state, nonce, verifier, a secret for the browser ─▶ the provider ─▶ finish: each is right, once
─▶ code for tokens ─▶ the identity token holds ─▶ a person

P1  A sign-in ends once: its state is forgotten with the first answer, right or wrong, and after ten minutes.
P2  An answer counts only from the browser that began: it brings the secret that only that browser has (login CSRF).
P3  The identity token is signed by a key that the issuer publishes, with an algorithm of `ALGORITHMS`, which has
    neither "none" nor one with the client's secret for a key; issuer, audience, expiry and nonce are right.
P4  All of it happens in the server: the console carries what one browser brings for one sign-in, and makes no person.
P5  A sign-out ends the session here first.  Then the provider gets the browser, with the identity token of that session
    for a hint: it is kept in memory, no longer than the session, and given to that session alone, once.

There is one provider, so that no answer can be taken for another's; its issuer in the answer (RFC 9207) is compared all
the same.
"""

import hashlib
import hmac
import json
import secrets
import ssl
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import PeerUnavailableError, ProviderSettingsError, SignInRefusedError
from alcove.platform.services.auth.access import MAX_SUBJECT_LENGTH, Person
from alcove.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALGORITHMS", "Begun", "Provider", "ProviderAnswer", "ProviderSettings"]

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
SCOPE: Final = "openid email profile"
PATIENCE_S: Final = 10.0  # of a request to the provider
LEEWAY_S: Final = 60  # between the provider's clock and ours
DOCUMENT_BYTES: Final = 512 * 1024  # of the provider's configuration, and of its keys
KEPT_S: Final = 3600  # for which the provider's configuration is not asked for again
HINTS: Final = 4096  # identity tokens of sessions that are kept for their sign-out; the oldest is forgotten first
HINT_LENGTH: Final = 4096  # characters of one: a browser brings it in an address
_MISSING: Final = "the libraries are not there: pip install 'alcove-platform[server,oidc]'"


@dataclass(frozen=True)
class ProviderSettings:
    """How the server is known to its provider.

    Attributes:
        issuer: URL, as the provider's tokens write it.
        client_id: of the server there.
        client_secret: "": the server is a public client, by PKCE alone.
        redirect_uri: of the console, as it is written down there.
        role_claim: claim of the identity token that roles are given by.
        signed_out_uri: of the console, to which the provider sends a browser after signing out; written down there too.
    """

    issuer: str
    client_id: str
    client_secret: str
    redirect_uri: str
    role_claim: str = "groups"
    signed_out_uri: str = ""

    def __repr__(self) -> str:
        return f"ProviderSettings(issuer={self.issuer!r}, client_id={self.client_id!r})"


@dataclass(frozen=True)
class Begun:
    """A sign-in that has begun: where the browser goes, and the secret that it keeps."""

    authorization_url: str
    browser_secret: str


@dataclass(frozen=True)
class ProviderAnswer:
    """What the provider's redirect brought; `browser_secret` is what the browser had kept."""

    state: str
    code: str
    issuer: str
    error: str
    browser_secret: str


@dataclass(frozen=True)
class _Waiting:
    secret_sha256: bytes
    nonce: str
    verifier: str
    until_s: int


@dataclass(frozen=True)
class _Hint:
    identity_token: str
    until_s: int


class Provider:
    """A provider of OpenID Connect.

    Args:
        settings: how the server is known there.
        clock: says what has expired.

    Raises:
        ProviderSettingsError: the libraries for it are not installed.
    """

    def __init__(self, settings: ProviderSettings, clock: Clock) -> None:
        try:
            import authlib.integrations.httpx_client  # noqa: F401, PLC0415 - of the extra `oidc`
        except ImportError as error:
            raise ProviderSettingsError(settings.issuer, _MISSING) from error
        self._settings = settings
        self._clock = clock
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._hints: OrderedDict[str, _Hint] = OrderedDict()
        self._metadata: Mapping[str, Any] = {}
        self._metadata_until_s = 0
        self._keys: Any = None
        self._tls = ssl.create_default_context()

    async def begin(self) -> Begun:
        """Begin a sign-in.

        Raises:
            PeerUnavailableError: the provider does not answer, or not as a provider does.
        """
        metadata = await self._configuration()
        state, nonce, verifier, secret = (secrets.token_urlsafe(32) for _ in range(4))
        async with self._client() as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], state=state, code_verifier=verifier, nonce=nonce
            )
        until_s = self._clock.now_s() + limits.SIGN_IN_S
        self._waiting[state] = _Waiting(_digest(secret), nonce, verifier, until_s)
        while len(self._waiting) > limits.SIGN_INS_BEGUN:
            self._waiting.popitem(last=False)
        return Begun(str(url), secret)

    async def finish(self, answer: ProviderAnswer) -> Person:
        """Return the person whom the provider has proved.

        Raises:
            SignInRefusedError: the answer is to no sign-in of this browser, or its proof does not hold.
            PeerUnavailableError: the provider does not answer, or not as a provider does.
        """
        waiting = self._waiting.pop(answer.state, None)
        is_of_browser = waiting is not None and hmac.compare_digest(
            waiting.secret_sha256, _digest(answer.browser_secret)
        )
        if waiting is None or not is_of_browser or self._clock.now_s() >= waiting.until_s:
            problem = "this answer belongs to no sign-in that this browser has begun in the last ten minutes"
            raise SignInRefusedError(problem)
        metadata = await self._configuration()
        is_issuer_due = metadata.get("authorization_response_iss_parameter_supported") is True
        if answer.issuer != self._settings.issuer and (answer.issuer or is_issuer_due):
            raise SignInRefusedError(f"the answer is of the issuer {answer.issuer[:200]!r}, not of ours")
        if answer.error or not answer.code:
            raise SignInRefusedError(f"the provider has signed nobody in: {answer.error[:100] or 'no code'}")
        raw, access_token = await self._exchange(metadata["token_endpoint"], answer.code, waiting.verifier)
        return self._person(await self._verify(raw, access_token, waiting.nonce), raw)

    def note_session(self, session_id: str, person: Person, expires_at_s: int) -> None:
        """Keep by what the provider knows the person again when this session ends (P5)."""
        now_s = self._clock.now_s()
        for old in [session for session, hint in self._hints.items() if hint.until_s <= now_s]:
            del self._hints[old]
        if len(person.identity_token) <= HINT_LENGTH:
            self._hints[session_id] = _Hint(person.identity_token, expires_at_s)
        while len(self._hints) > HINTS:
            self._hints.popitem(last=False)

    def take_hint(self, session_id: str) -> str:
        """Return the identity token of a session that ended, and forget it; "": there is none, or none any more."""
        found = self._hints.pop(session_id, None)
        return "" if found is None else found.identity_token

    def has_proved(self, subject: str) -> bool:
        """Return whether the store's name of a person (`subject_of`) says that this provider proved it."""
        return subject.startswith(f"{self._settings.issuer} ")

    async def sign_out_url(self, hint: str) -> str:
        """Return where a browser goes to be signed out at the provider, too (OpenID Connect RP-Initiated Logout 1.0).

        Args:
            hint: identity token of the session that ended; "": the provider may ask the person.

        Returns:
            The address; "": the provider has none of https, or does not answer, and the session here has ended anyway.
        """
        from authlib.common.urls import add_params_to_uri  # noqa: PLC0415
        from authlib.oidc.rpinitiated import OpenIDProviderMetadata  # noqa: PLC0415

        try:
            metadata = OpenIDProviderMetadata(await self._configuration())
            endpoint = metadata.get("end_session_endpoint")
            if not isinstance(endpoint, str) or not endpoint:
                return ""
            metadata.validate_end_session_endpoint()
        except (PeerUnavailableError, ValueError):
            return ""
        sent = {
            "id_token_hint": hint,
            "client_id": self._settings.client_id,
            "post_logout_redirect_uri": self._settings.signed_out_uri,
        }
        return str(add_params_to_uri(endpoint, [(name, value) for name, value in sent.items() if value]))

    async def _exchange(self, endpoint: str, code: str, verifier: str) -> tuple[str, str | None]:
        from authlib.integrations.base_client import OAuthError  # noqa: PLC0415
        from httpx2 import HTTPError  # noqa: PLC0415

        try:
            async with self._client() as client:
                tokens = await client.fetch_token(
                    endpoint, grant_type="authorization_code", code=code, code_verifier=verifier
                )
        except OAuthError as error:
            raise SignInRefusedError(f"the provider refuses the code: {str(error.error)[:100]}") from None
        except (HTTPError, OSError, ValueError) as error:
            raise self._away(error) from None
        raw, access_token = tokens.get("id_token"), tokens.get("access_token")
        if not isinstance(raw, str):
            problem = "the provider gave no identity token: is the scope openid allowed?"
            raise SignInRefusedError(problem)
        return raw, access_token if isinstance(access_token, str) else None

    async def _verify(self, raw: str, access_token: str | None, nonce: str) -> Any:
        """Return the claims of an identity token that holds (P3)."""
        from authlib.oidc.core import CodeIDToken  # noqa: PLC0415
        from joserfc import jwt  # noqa: PLC0415
        from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError  # noqa: PLC0415

        ours = self._settings
        try:
            try:
                token = jwt.decode(raw, await self._key_set(), algorithms=list(ALGORITHMS))
            except (InvalidKeyIdError, BadSignatureError):  # of a key that came since
                token = jwt.decode(raw, await self._key_set(again=True), algorithms=list(ALGORITHMS))
            expected = {
                "iss": {"essential": True, "value": ours.issuer},
                "aud": {"essential": True, "value": ours.client_id},
                "nonce": {"essential": True, "value": nonce},
            }
            proof = {"nonce": nonce, "client_id": ours.client_id, "access_token": access_token}
            claims = CodeIDToken(token.claims, token.header, expected, proof)
            claims.validate(now=self._clock.now_s(), leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            raise SignInRefusedError(f"the provider's identity token does not hold: {str(error)[:200]}") from None
        return claims

    def _person(self, claims: "Mapping[str, Any]", identity_token: str) -> Person:
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT_LENGTH or not subject.isprintable():
            problem = f"the provider's name of the person is none of 1 to {MAX_SUBJECT_LENGTH} printable characters"
            raise SignInRefusedError(problem)
        email = claims.get("email")
        is_address = isinstance(email, str) and len(email) <= MAX_SUBJECT_LENGTH and email.isprintable()
        is_verified = is_address and claims.get("email_verified") is True
        name = next((each for key in ("name", "preferred_username", "email") if (each := claims.get(key))), "")
        held = claims.get(self._settings.role_claim)
        values = [held] if isinstance(held, str) else held if isinstance(held, list) else []
        return Person(
            self._settings.issuer,
            subject,
            email=str(email) if is_verified else "",
            name=str(name),
            claims=frozenset(each for each in values if isinstance(each, str)),
            identity_token=identity_token,
        )

    async def _configuration(self) -> "Mapping[str, Any]":
        """Return what the provider says of itself (OpenID Connect Discovery 1.0), asked for once an hour."""
        from authlib.common.security import is_secure_transport  # noqa: PLC0415

        if self._clock.now_s() < self._metadata_until_s:
            return self._metadata
        issuer = self._settings.issuer
        found = await self._read(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise PeerUnavailableError(issuer, f"it calls itself {str(found.get('issuer'))[:200]!r}")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not isinstance(found.get(name), str) or not is_secure_transport(found[name]):
                raise PeerUnavailableError(issuer, f"its {name} is no address of https")
        self._metadata, self._metadata_until_s = found, self._clock.now_s() + KEPT_S
        return found

    async def _key_set(self, *, again: bool = False) -> Any:
        from joserfc.errors import JoseError  # noqa: PLC0415
        from joserfc.jwk import KeySet  # noqa: PLC0415

        if self._keys is None or again:
            found = await self._read((await self._configuration())["jwks_uri"])
            try:
                self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]
            except (JoseError, KeyError, ValueError, TypeError) as error:
                raise self._away(error) from None
        return self._keys

    async def _read(self, url: str) -> dict[str, Any]:
        """Return a document of the provider."""
        from httpx2 import AsyncClient, HTTPError  # noqa: PLC0415

        content = bytearray()
        try:
            async with AsyncClient(timeout=PATIENCE_S, verify=self._tls) as client, client.stream("GET", url) as found:
                found.raise_for_status()
                async for part in found.aiter_bytes():
                    content += part
                    if len(content) > DOCUMENT_BYTES:
                        raise PeerUnavailableError(url, f"it has more than {DOCUMENT_BYTES} bytes")
            document = json.loads(content)
        except (HTTPError, OSError, ValueError) as error:
            raise self._away(error) from None
        if not isinstance(document, dict):
            raise PeerUnavailableError(url, "it is no JSON object")
        return document

    def _client(self) -> Any:
        from authlib.integrations.httpx_client import AsyncOAuth2Client  # noqa: PLC0415

        ours = self._settings
        return AsyncOAuth2Client(
            ours.client_id,
            ours.client_secret or None,
            token_endpoint_auth_method="client_secret_basic" if ours.client_secret else "none",
            scope=SCOPE,
            redirect_uri=ours.redirect_uri,
            code_challenge_method="S256",
            timeout=PATIENCE_S,
            verify=self._tls,
        )

    def _away(self, error: Exception) -> PeerUnavailableError:
        what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return PeerUnavailableError(self._settings.issuer, f"the provider does not answer as one does: {what}")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
