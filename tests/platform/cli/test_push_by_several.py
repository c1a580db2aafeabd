"""A team of three of whom two sign, on the command line, with a real server: nobody's private key leaves its file."""

from pathlib import Path

import pytest

from tests.platform.cli.terminal import Said, Shop, alcove, ok


@pytest.fixture(scope="module")
def duo(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys of ann, bob and cleo, two of whom sign for the team `duo`."""
    folder = tmp_path_factory.mktemp("duo")
    for name in ("ann", "bob", "cleo"):
        ok(alcove("keys", "new", folder / f"{name}.pem"))
    targets, tree = shop.folder / "keys" / "offline" / "targets.pem", ("--data-dir", shop.folder / "server")
    public = [word for name in ("ann", "bob", "cleo") for word in ("--key", folder / f"{name}.pub")]
    steps = (
        (("add-team", "--team", "duo=shared", *public), (targets, folder / "ann.pem")),
        (("rotate", "--role", "team-duo", "--threshold", 2), (targets, folder / "ann.pem", folder / "bob.pem")),
    )
    for number, ((verb, *words), signers) in enumerate(steps):
        change = folder / f"{number}.change"
        ok(alcove("keys", verb, change, *tree, *words))
        for signer in signers:
            ok(alcove("keys", "sign", change, "--key", signer))
        ok(alcove("keys", "accept", change, *tree, "--keys", shop.folder / "server-keys"))
    ok(alcove("token", "create", *tree, "--role", "team:duo", "--out", folder / "token"))
    return folder


def test_two_of_three_push_at_one_place_or_by_a_file(shop: Shop, duo: Path, programs: tuple[Path, Path]) -> None:
    """One key is refused before anything is sent; two publish; one and a file publish when a second has signed."""
    about = ("--feature", "shared", "--team", "duo", "--threshold", 2)
    to = ("--server", shop.server, "--token-file", duo / "token")
    trusted = [word for name in ("ann", "bob", "cleo") for word in ("--cosigner", duo / f"{name}.pub")]

    def push(program: Path, version: str, *words: object) -> Said:
        return alcove("model", "push", program, "--version", version, *about, *trusted, *to, *words)

    alone = push(programs[0], "1.0.0", "--key", duo / "ann.pem")
    assert (alone.code, "2 keys have to sign, got 1" in alone.err) == (2, True)
    both = ok(push(programs[0], "1.0.0", "--key", duo / "ann.pem", "--key", duo / "cleo.pem", "--json")).json
    assert both["version"] == "1.0.0"

    change = duo / "push.change"
    assert ok(push(programs[1], "1.1.0", "--key", duo / "bob.pem", "--out", change, "--json")).json == {
        "change": str(change)
    }
    again = push(programs[1], "1.1.0", "--key", duo / "bob.pem", "--out", change)
    assert (again.code, "is drafted once" in again.err) == (2, True)
    early = alcove("model", "push", "--signed", change, *to)
    assert (early.code, "1/2 keys" in early.err) == (5, True)
    output = ok(alcove("keys", "status", change, "--json")).json
    assert output["is_ready"] is False
    assert [row["version"] for row in output["adds"]] == ["shared/1.1.0"]
    assert "default" in output["adds"][0]["variants"]
    assert "what will be published" in ok(alcove("keys", "status", change)).out
    ok(alcove("keys", "sign", change, "--key", duo / "ann.pem"))
    assert ok(alcove("keys", "status", change, "--json")).json["is_ready"] is True
    published = ok(alcove("model", "push", "--signed", change, *to, "--json")).json
    assert (published["feature"], published["version"]) == ("shared", "1.1.0")
    assert ok(alcove("model", "push", "--signed", change, *to, "--json")).json == published
    rows = ok(alcove("model", "list", "--feature", "shared", *to, "--json")).json
    assert [row["version"] for row in rows] == ["1.0.0", "1.1.0"]
    assert alcove("registry", "check", "--data-dir", shop.folder / "server").code == 0


def test_a_manifest_that_is_not_the_signed_one_is_shown(shop: Shop, duo: Path, programs: tuple[Path, Path]) -> None:
    """A cosigner sees it, and the server refuses it."""
    change = duo / "other.change"
    to = ("--server", shop.server, "--token-file", duo / "token")
    trusted = [word for name in ("ann", "bob", "cleo") for word in ("--cosigner", duo / f"{name}.pub")]
    about = ("--feature", "shared", "--version", "1.2.0", "--team", "duo", "--threshold", 2)
    ok(alcove("model", "push", programs[1], *about, *trusted, "--key", duo / "bob.pem", "--out", change, *to))
    change.write_bytes(change.read_bytes().replace(b'1.2.0.json":"{', b'1.2.0.json":" {'))
    output = ok(alcove("keys", "status", change, "--json")).json
    assert "do not sign" in output["adds"][0]["variants"]
    ok(alcove("keys", "sign", change, "--key", duo / "ann.pem"))
    assert alcove("model", "push", "--signed", change, *to).code == 1


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ((), "also give"),
        (("--feature", "shared"), "also give"),
        (("--signed", "a.change", "--feature", "shared"), "everything is in the signed change"),
    ],
)
def test_what_is_missing_or_too_much_is_reported(words: tuple[str, ...], output: str) -> None:
    """Before any server is asked."""
    said = alcove("model", "push", *words)
    assert (said.code, output in said.err) == (2, True)
