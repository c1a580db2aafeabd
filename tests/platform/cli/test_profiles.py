"""`alcove login` keeps server and token by name; tokens have names and successors."""

import json
import stat
from pathlib import Path

import pytest

from tests.platform.cli.terminal import Shop, alcove, ok


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of its own."""
    monkeypatch.setenv("ALCOVE_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


def test_after_a_login_no_command_needs_server_and_token(shop: Shop, home: Path) -> None:
    """The default profile, a named one, and what is typed besides; a named server never gets another one's token."""
    operator, team = shop.folder / "operator.token", shop.folder / "team.token"
    said = ok(alcove("login", "--server", shop.server, "--token-file", operator))
    assert "next: alcove model list" in said.out
    assert stat.S_IMODE((home / "profiles.json").stat().st_mode) == 0o600
    assert "alc_" not in (home / "profiles.json").read_text()
    assert ok(alcove("rollout", "list", "--app", "nobody")).out == "no rollout yet: alcove rollout create\n"
    create = ("rollout", "create", "--app", "a", "--feature", "nothing", "--version", "1.0.0")
    assert alcove(*create).code == 4
    ok(alcove("login", "--profile", "team", "--server", shop.server, "--token-file", team))
    assert alcove(*create, "--profile", "team").code == 5
    assert alcove(*create, ALCOVE_PROFILE="team").code == 5
    assert alcove(*create, "--profile", "team", "--token-file", operator).code == 4
    unnamed = alcove("rollout", "list", "--server", shop.server)
    assert (unnamed.code, "alcove login" in unnamed.err) == (2, True)
    unknown = alcove("rollout", "list", "--profile", "nobody")
    assert (unknown.code, "there are default, team" in unknown.err) == (2, True)
    assert [row["profile"] for row in alcove("profile", "list", "--json").json] == ["default", "team"]
    ok(alcove("profile", "delete", "team"))  # the token's file is not the login's own
    assert team.exists()
    assert [row["profile"] for row in alcove("profile", "list", "--json").json] == ["default"]


def test_a_login_that_does_not_work_keeps_nothing(shop: Shop, home: Path, tmp_path: Path) -> None:
    """A wrong token, no token and no terminal, and a name that no file may have."""
    wrong = tmp_path / "wrong.token"
    wrong.write_text(f"alc_{'0' * 16}_{'0' * 64}")
    wrong.chmod(0o600)
    assert alcove("login", "--server", shop.server, "--token-file", wrong).code == 5
    assert alcove("login", "--server", shop.server).code == 2
    assert alcove("login", "--server", shop.server, "--token-file", wrong, "--profile", "../x").code == 2
    assert not home.exists()


def test_profiles_that_others_can_read_or_that_are_damaged_are_refused(home: Path) -> None:
    """The file is named, and what to do about it."""
    home.mkdir()
    (home / "profiles.json").write_text("{}")
    (home / "profiles.json").chmod(0o644)
    opened = alcove("rollout", "list")
    assert (opened.code, "profiles.json" in opened.err, "0600" in opened.err) == (1, True, True)
    (home / "profiles.json").chmod(0o600)
    for text in ("no json", "[]", '{"default": {"host": "x"}}'):
        (home / "profiles.json").write_text(text)
        damaged = alcove("rollout", "list")
        assert (damaged.code, "log in again" in damaged.err) == (1, True), damaged.err


def test_a_token_has_a_name_and_a_successor(shop: Shop, tmp_path: Path) -> None:
    """It has role and name of the old one, which holds for the overlap; a revoked one has no successor."""
    folder = ("--data-dir", shop.folder / "server")
    made = ok(alcove("token", "create", *folder, "--role", "reader", "--name", "release job", "--json")).json
    assert made["name"] == "release job"
    out = tmp_path / "new.token"
    renew = ("token", "renew", made["token_id"], *folder, "--out", out, "--overlap-hours", "0", "--json")
    new = ok(alcove(*renew)).json
    assert (new["name"], new["role"]) == ("release job", "reader")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    listing = ("model", "list", "--server", shop.server, "--token-file")
    ok(alcove(*listing, out))
    (tmp_path / "old.token").write_text(made["token"])
    (tmp_path / "old.token").chmod(0o600)
    old = alcove(*listing, tmp_path / "old.token")
    assert (old.code, "expired" in old.err) == (5, True)
    rows = {row["token_id"]: row for row in alcove("token", "list", *folder, "--json").json}
    assert rows[made["token_id"]]["expires_at_s"] < rows[new["token_id"]]["expires_at_s"]
    assert "release job" in alcove("token", "list", *folder).out
    unasked = alcove("token", "revoke", new["token_id"], *folder)
    assert (unasked.code, "release job" in unasked.err) == (2, True)
    ok(alcove("token", "revoke", new["token_id"], *folder, "--yes"))
    assert alcove("token", "renew", new["token_id"], *folder).code == 1
    assert alcove("token", "renew", "0" * 16, *folder).code == 4
    unknown = ok(alcove("token", "create", *folder, "--role", "team:nosuch"))
    assert "the tree has no team 'nosuch' yet (alcove keys add-team)" in unknown.err
    assert ok(alcove("token", "create", *folder, "--role", "team:writing")).err == ""
    long = alcove("token", "create", *folder, "--role", "reader", "--name", "x" * 65)
    assert (long.code, "--name: expected at most 64" in long.err) == (1, True)
    entries = json.loads(alcove("audit", "list", *folder, "--object", new["token_id"], "--json").out)
    assert ("renew token", made["token_id"]) in [(e["action"], e["details"].get("in_place_of")) for e in entries]
