"""`alcove keys` and `alcove token`: what is secret lies in private files, is made once, and can be taken back."""

import asyncio
import json
import shutil
import stat
from pathlib import Path

from alcove.platform.domain.principal import Principal, Role
from alcove.platform.services.auth.sessions import create_session
from alcove.platform.store import Store
from alcove.runtime.clock import SYSTEM_CLOCK

from tests.platform.cli.terminal import Shop, alcove


def test_keys_are_private_and_never_made_twice(shop: Shop, tmp_path: Path) -> None:
    """0600 each; a second ceremony for a tree or with the same keys is refused; one that was interrupted continues."""
    modes = {stat.S_IMODE(path.stat().st_mode) for path in shop.folder.glob("*keys/**/*.pem")}
    assert modes == {0o600}
    places = (shop.folder / "keys", shop.folder / "server-keys")
    rows = [row for place in places for row in alcove("keys", "show", place, "--json").json]
    assert {row["kept"] for row in rows} == {"offline", "online", "team"}
    assert len({row["key_id"] for row in rows}) == len(rows) == 7
    assert sum(alcove("keys", "show", place).out.count("│ 0600 │") for place in places) == 7
    twice = alcove("keys", "create", tmp_path / "keys", "--data-dir", shop.folder / "server", "--team", "a=b")
    assert twice.code == 2
    assert not (tmp_path / "keys").exists()

    first = alcove("keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "one", "--team", "a=b", "--json")
    assert first.code == 0, first.err
    ids = alcove("keys", "show", tmp_path / "keys", "--json").json
    root = (tmp_path / "keys" / "root.json").read_bytes()
    other = alcove("keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "two", "--team", "a=b")
    assert (other.code, "finished ceremony" in " ".join(other.err.replace("│", " ").split())) == (2, True)
    assert not (tmp_path / "two").exists()
    for interrupted_before in ("timestamp.json", "root.json"):
        (tmp_path / "keys" / "root.json").unlink()
        if interrupted_before == "timestamp.json":
            shutil.rmtree(tmp_path / "one")
        resumed = alcove("keys", "create", tmp_path / "keys", "--data-dir", tmp_path / "one", "--team", "a=b")
        assert resumed.code == 0, resumed.err
        assert alcove("keys", "show", tmp_path / "keys", "--json").json == ids
    again = (tmp_path / "keys" / "root.json").read_bytes()
    assert again == (tmp_path / "one" / "tree" / "metadata" / "1.root.json").read_bytes()
    assert json.loads(root)["signed"]["roles"] == json.loads(again)["signed"]["roles"]
    for bad in ("a", "=b", "a=", "a=b,b", "A=b", "a=policy"):
        said = alcove("keys", "create", tmp_path / "bad", "--data-dir", tmp_path / "bad-data", "--team", bad)
        assert said.code == 2, bad
    assert not (tmp_path / "bad").exists()


def test_a_token_file_is_private_from_its_first_moment_and_never_replaced(shop: Shop, tmp_path: Path) -> None:
    """0600; an existing file is left alone and no token is issued for it; a refused role leaves no file."""
    data_dir = shop.folder / "server"
    assert stat.S_IMODE((shop.folder / "operator.token").stat().st_mode) == 0o600
    before = len(alcove("token", "list", "--data-dir", data_dir, "--json").json)
    (tmp_path / "there").write_text("mine")
    said = alcove("token", "create", "--data-dir", data_dir, "--role", "reader", "--out", tmp_path / "there")
    assert said.code == 1
    assert (tmp_path / "there").read_text() == "mine"
    said = alcove("token", "create", "--data-dir", data_dir, "--role", "king", "--out", tmp_path / "new")
    assert said.code == 1
    assert not (tmp_path / "new").exists()
    assert len(alcove("token", "list", "--data-dir", data_dir, "--json").json) == before


def test_a_revoked_token_is_refused_by_the_running_server(shop: Shop, tmp_path: Path) -> None:
    """From the next call on, without a restart; lists show it, and never a digest."""
    data_dir = shop.folder / "server"
    shown = alcove("token", "create", "--data-dir", data_dir, "--role", "reader", "--days", "1", "--json").json
    (tmp_path / "reader").write_text(shown["token"])
    (tmp_path / "reader").chmod(0o600)
    listing = ("model", "list", "--server", shop.server, "--token-file", tmp_path / "reader", "--json")
    assert alcove(*listing).code == 0
    assert alcove("token", "revoke", shown["token_id"], "--data-dir", data_dir, "--yes").code == 0
    said = alcove(*listing)
    assert said.code == 5
    assert "revoked" in said.err
    (row,) = [
        row
        for row in alcove("token", "list", "--data-dir", data_dir, "--json").json
        if row["token_id"] == shown["token_id"]
    ]
    assert row["revoked_at_s"] is not None
    assert not [key for key in row if "secret" in key]
    assert shown["token_id"] in alcove("token", "list", "--data-dir", data_dir).out
    assert alcove("token", "revoke", "absent", "--data-dir", data_dir, "--json").code == 4


def test_sessions_are_listed_apart_from_tokens_and_end_with_them(tmp_path: Path) -> None:
    """Each with the token that it is of; a list of tokens says how many there are."""
    made = alcove("token", "create", "--data-dir", tmp_path, "--role", "reader", "--name", "anna", "--json").json
    parent = made["token_id"]

    async def sign_in() -> None:
        store = await Store.open(tmp_path / "alcove.db")
        await create_session(store, Principal(parent, Role.parse("reader")), now_s=SYSTEM_CLOCK.now_s())
        await store.close()

    asyncio.run(sign_in())
    assert [row["token_id"] for row in alcove("token", "list", "--data-dir", tmp_path, "--json").json] == [parent]
    assert (
        "1 session of the console: alcove token list --sessions" in alcove("token", "list", "--data-dir", tmp_path).out
    )
    listing = ("token", "list", "--data-dir", tmp_path, "--sessions", "--json")
    (row,) = alcove(*listing).json
    assert (row["parent_id"], row["name"], row["revoked_at_s"]) == (parent, "anna", None)
    assert alcove("token", "renew", row["token_id"], "--data-dir", tmp_path).code == 1
    assert alcove("token", "revoke", parent, "--data-dir", tmp_path, "--yes").code == 0
    assert alcove(*listing).json[0]["revoked_at_s"] is not None
