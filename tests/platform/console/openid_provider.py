"""A provider of OpenID Connect for tests: `python openid_provider.py PORT`, or an application in the test's process.

It signs in at once whoever comes, as `claims` say, and does the wrong thing that `fault` names:

    the identity token     the names in `identity_token`, and no_token
    the redirect back      state, foreign_iss, no_code
    the token endpoint     server_error, not_json
    the end of a session   no_end, insecure_end, odd_end: what its configuration says of the address

POST /control changes both while it runs, and makes new keys; its answer says who was signed out.
"""

import base64
import hashlib
import json
import secrets
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

CLIENT_ID, CLIENT_SECRET = "alcove-test", "a secret of the client, long enough"


@dataclass
class Provider:
    """What the provider knows."""

    issuer: str = ""
    fault: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "anna-1"})
    redirect_uris: list[str] = field(default_factory=list)
    signed_out_uris: list[str] = field(default_factory=list)
    signed_out: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": secrets.token_hex(4), "use": "sig"}))


PROVIDER = web.AppKey("provider", Provider)


def create_provider(issuer: str = "") -> web.Application:
    """Return the application; its issuer is the address at which it is asked, unless one is given."""
    app = web.Application()
    app[PROVIDER] = Provider(issuer)
    app.add_routes(
        [
            web.get("/.well-known/openid-configuration", configuration),
            web.get("/keys", keys),
            web.get("/authorize", authorize),
            web.post("/token", give_tokens),
            web.get("/end", end_session),
            web.post("/control", control),
        ]
    )
    return app


def issuer_of(request: web.Request) -> str:
    """The provider's issuer."""
    return request.app[PROVIDER].issuer or f"http://{request.host}"


async def configuration(request: web.Request) -> web.Response:
    """What the provider says of itself."""
    issuer, fault = issuer_of(request), request.app[PROVIDER].fault
    ends: dict[str, dict[str, Any]] = {
        "no_end": {},
        "insecure_end": {"end_session_endpoint": "http://login.example/end"},
        "odd_end": {"end_session_endpoint": [f"{issuer}/end"]},
    }
    return web.json_response(
        ends.get(fault, {"end_session_endpoint": f"{issuer}/end?tenant=7"})
        | {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "response_types_supported": ["code"],
            # What an attacker in its place would add: the algorithms are ours to choose.
            "id_token_signing_alg_values_supported": ["none", "HS256", "ES256"],
            "authorization_response_iss_parameter_supported": True,
        }
    )


async def keys(request: web.Request) -> web.Response:
    """The public keys of now."""
    return web.json_response({"keys": [request.app[PROVIDER].key.as_dict(private=False)]})


async def authorize(request: web.Request) -> web.Response:
    """Send the browser back with a code, if all is as OpenID Connect asks."""
    provider, query = request.app[PROVIDER], request.query
    is_right = (
        query.get("response_type") == "code"
        and query.get("client_id") == CLIENT_ID
        and "openid" in query.get("scope", "").split()
        and query.get("code_challenge_method") == "S256"
        and (not provider.redirect_uris or query.get("redirect_uri") in provider.redirect_uris)
    )
    if not is_right:
        return web.Response(status=400, text="no such client, redirect or method")
    code = secrets.token_urlsafe(16)
    provider.codes[code] = dict(query)
    answer = {"code": code, "state": query["state"], "iss": issuer_of(request)}
    match provider.fault:
        case "state":
            answer["state"] = secrets.token_urlsafe(16)
        case "foreign_iss":
            answer["iss"] = "https://evil.example"
        case "no_code":
            del answer["code"]
            answer["error"] = "access_denied"
    place = f"{query['redirect_uri']}?{urlencode(answer)}"
    return web.Response(status=303, headers={"Location": place})


async def give_tokens(request: web.Request) -> web.Response:
    """Give tokens for a code, once, to the client that has the verifier."""
    provider, form = request.app[PROVIDER], await request.post()
    match provider.fault:
        case "server_error":
            return web.Response(status=503, text="<script>alert(1)</script>")
        case "not_json":
            return web.Response(text="<html>")
    asked = provider.codes.pop(str(form.get("code")), None)
    given = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
    challenge = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
    if asked is None or unquote_plus(given) != f"{CLIENT_ID}:{CLIENT_SECRET}":
        return web.json_response({"error": "invalid_grant"}, status=400)
    expected = base64.urlsafe_b64encode(challenge).decode().rstrip("=")
    if asked["code_challenge"] != expected or asked["redirect_uri"] != form.get("redirect_uri"):
        return web.json_response({"error": "invalid_grant"}, status=400)
    answer: dict[str, Any] = {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": 60}
    if provider.fault != "no_token":
        answer["id_token"] = identity_token(provider, issuer_of(request), asked["nonce"])
    return web.json_response(answer)


def identity_token(provider: Provider, issuer: str, nonce: str) -> str:
    """The identity token, with the fault that is wanted."""
    now_s = int(time.time())
    claims = {"iss": issuer, "aud": CLIENT_ID, "iat": now_s, "exp": now_s + 300, "nonce": nonce} | provider.claims
    key, header = provider.key, {"alg": "ES256", "kid": provider.key.kid}
    changes: dict[str, dict[str, Any]] = {
        "nonce": {"nonce": "another"},
        "no_nonce": {"nonce": None},
        "audience": {"aud": "another-client"},
        "audiences": {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
        "issuer": {"iss": "https://evil.example"},
        "expired": {"iat": now_s - 900, "exp": now_s - 600},
        "no_expiry": {"exp": None},
        "no_subject": {"sub": None},
        "long_subject": {"sub": "x" * 10_000},
        "odd_subject": {"sub": {"sub": 1}},
    }
    claims |= changes.get(provider.fault, {})
    claims = {name: value for name, value in claims.items() if value is not None}
    match provider.fault:
        case "unsigned":
            parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
            return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
        case "symmetric":  # signed with the public key, as if that were a secret
            secret = OctKey.import_key(json.dumps(key.as_dict(private=False)).encode())
            return jwt.encode({"alg": "HS256", "kid": key.kid}, claims, secret)
        case "client_secret":
            return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET.encode()))
        case "other_key":
            return jwt.encode(header, claims, ECKey.generate_key("P-256", {"kid": str(key.kid)}))
        case "garbage":
            return "no.token.at.all"
    return jwt.encode(header, claims, key)


async def end_session(request: web.Request) -> web.Response:
    """Sign out whom the hint names, and send the browser back (RP-Initiated Logout 1.0); with no hint, nobody."""
    provider, query = request.app[PROVIDER], request.query
    if query.get("client_id") != CLIENT_ID or query.get("tenant") != "7":
        return web.Response(status=400, text="no such client")
    if "id_token_hint" not in query:
        return web.Response(text="Do you want to sign out?")
    claims = jwt.decode(query["id_token_hint"], provider.key, algorithms=["ES256"]).claims
    back = query.get("post_logout_redirect_uri", "")
    if claims["aud"] != CLIENT_ID or claims["iss"] != issuer_of(request) or back not in provider.signed_out_uris:
        return web.Response(status=400, text="another client's hint, or an address that nobody wrote down")
    provider.signed_out.append(claims["sub"])
    return web.Response(status=303, headers={"Location": back})


async def control(request: web.Request) -> web.Response:
    """Change what the provider does from now on."""
    provider, wanted = request.app[PROVIDER], await request.json()
    provider.fault = wanted.get("fault", "")
    provider.claims = wanted.get("claims", provider.claims)
    provider.redirect_uris = wanted.get("redirect_uris", provider.redirect_uris)
    provider.signed_out_uris = wanted.get("signed_out_uris", provider.signed_out_uris)
    if wanted.get("rotate"):
        provider.key = ECKey.generate_key("P-256", {"kid": secrets.token_hex(4)})
    return web.json_response({"signed_out": provider.signed_out})


if __name__ == "__main__":
    web.run_app(create_provider(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
