"""`alcove access`: who may sign in to the console without a token; and what `alcove serve` refuses to be told of it."""

from pathlib import Path

import pytest
from alcove.platform.domain.errors import ProviderSettingsError
from alcove.platform.server.settings import Settings
from alcove.platform.server.sign_ins import read_claim_roles
from pydantic import ValidationError

from tests.platform.cli.terminal import Shop, alcove

ISSUER = "https://login.example"


def test_an_access_is_granted_listed_and_revoked(shop: Shop) -> None:
    """Who is granted again has the new access alone; it is no token, and shows nothing secret."""
    where = ("--data-dir", shop.folder / "server")
    grant = ("access", "grant", *where, "--oidc-issuer", ISSUER)
    first = alcove(*grant, "--oidc-subject", "anna-1", "--role", "reader", "--json").json
    again = alcove(*grant, "--oidc-subject", "anna-1", "--role", "operator:text", "--name", "anna", "--json").json
    mail = alcove(*grant, "--email", "Ben@acme.example", "--role", "reader")
    assert (mail.code, "ben@acme.example" in mail.out) == (0, True)
    listed = {row["token_id"]: row for row in alcove("access", "list", *where, "--json").json}
    assert listed[first["token_id"]]["revoked_at_s"] is not None
    assert listed[again["token_id"]]["subject"] == f"{ISSUER} sub anna-1"
    assert "secret_sha256" not in again
    assert again["token_id"] not in {row["token_id"] for row in alcove("token", "list", *where, "--json").json}
    assert alcove("token", "renew", again["token_id"], *where).code == 1
    ended = alcove("access", "revoke", again["token_id"], *where, "--yes", "--json")
    assert (ended.code, ended.json["access_id"]) == (0, again["token_id"])
    (token, *_) = alcove("token", "list", *where, "--json").json
    for unknown in ("0" * 16, token["token_id"]):
        assert alcove("access", "revoke", unknown, *where, "--yes").code == 4
    actions = [row["action"] for row in alcove("audit", "list", *where, "--json").json]
    assert actions.count("grant access") == 3


@pytest.mark.parametrize(
    "options",
    [
        ("--role", "reader"),
        ("--role", "reader", "--oidc-subject", "a", "--email", "a@b"),
        ("--role", "console", "--oidc-subject", "a"),
        ("--role", "reader", "--oidc-subject", "x" * 256),
        ("--role", "reader", "--oidc-subject", "a\nb"),
    ],
)
def test_an_access_of_nobody_in_particular_is_refused(shop: Shop, options: tuple[str, ...]) -> None:
    """One person, one role that there is."""
    where = ("--data-dir", shop.folder / "server", "--oidc-issuer", ISSUER)
    assert alcove("access", "grant", *where, *options).code == 1


CLIENT = {"oidc_issuer": ISSUER, "oidc_client_id": "alcove"}
CERTIFICATES = {"client_ca": "ca.pem", "client_certificates": "list.json", "tls_certificate": "c.pem", "tls_key": "k"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"console_certificates": True},
        {**CERTIFICATES, "console_certificates": True, "console_url": "https://console.example"},
        {**CERTIFICATES, "console_certificates": True, "console": False},
        {"oidc_issuer": ISSUER},
        {"oidc_client_id": "alcove"},
        {"oidc_roles": "roles.json"},
        {"oidc_client_secret_file": "secret"},
        {**CLIENT, "oidc_issuer": "http://login.example"},
        {**CLIENT, "oidc_issuer": "https://login.example/?x=1"},
        {**CLIENT, "oidc_issuer": "https://anna@login.example"},
        {**CLIENT, "console": False},
        {**CLIENT, **CERTIFICATES, "host": "0.0.0.0"},
        {"session_idle_minutes": 9},
        {"session_idle_minutes": 721},
    ],
)
def test_settings_that_would_sign_the_wrong_people_in_are_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    """A proxy's certificate, a provider over plain HTTP, an address to come back to that nobody has."""
    where = {"data_dir": tmp_path, "online_keys": tmp_path, "console": True}
    assert Settings.model_validate({**where, **CLIENT}).oidc_issuer == ISSUER
    assert Settings.model_validate({**where, **CERTIFICATES, "console_certificates": True}).console_certificates
    with pytest.raises(ValidationError):
        Settings.model_validate({**where, **wrong})


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": "console"}', '{"a": "root"}', "null"])
def test_a_list_of_roles_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    """With the file's name."""
    (tmp_path / "roles.json").write_text(content)
    with pytest.raises(ProviderSettingsError, match=r"roles\.json"):
        read_claim_roles(tmp_path / "roles.json")
    with pytest.raises(ProviderSettingsError):
        read_claim_roles(tmp_path / "none.json")
