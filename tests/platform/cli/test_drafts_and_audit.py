"""Drafts go away, what has begun stays; what cannot be undone is asked for; the audit log is read from anywhere."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from alcove.platform.cli.audit import since_of
from alcove.platform.client import PlatformClient
from alcove.platform.domain.limits import CHUNK_BYTES

from tests.platform.cli.terminal import Shop, alcove, ok

SEARCHES = (
    ("--text", "sound kind"),
    ("--by", "team:writing"),
    ("--action", "release"),
    ("--until", "0s"),
    ("--text", "nothing like this"),
)


@pytest.fixture(scope="module")
def kinds(shop: Shop, programs: tuple[Path, Path]) -> tuple[str, str]:
    """Two released versions of a feature."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    for version, program in zip(("14.0.0", "14.1.0"), programs, strict=True):
        options = ("--feature", "kind", "--version", version, "--team", "writing", "--key", key)
        ok(shop.team("model", "push", program, *options))
        ok(shop.team("model", "validate", f"kind@{version}"))
        ok(shop.team("model", "release", f"kind@{version}", "--reason", "sound"))
    return "14.0.0", "14.1.0"


def test_a_draft_is_deleted_and_what_has_begun_is_not(shop: Shop, kinds: tuple[str, str]) -> None:
    """Rollouts and experiments alike; the audit log keeps both what was made and that it is gone."""
    about = ("--app", "drafts", "--feature", "kind")
    (draft,) = ok(shop.operator("rollout", "create", *about, "--version", kinds[0], "--json")).json
    rollout_id = draft["rollout_id"]
    assert rollout_id in ok(shop.operator("rollout", "list", "--app", "drafts")).out
    found = ("rollout", "list", "--app", "drafts", "--text", kinds[0])
    assert rollout_id in ok(shop.operator(*found, "--state", "draft", "--state", "paused")).out
    assert rollout_id not in ok(shop.operator(*found, "--state", "running")).out
    unasked = shop.operator("rollout", "delete", rollout_id)
    assert (unasked.code, "--yes" in unasked.err, f"kind {kinds[0]} in app drafts" in unasked.err) == (2, True, True)
    assert rollout_id in ok(shop.operator("rollout", "list", "--app", "drafts")).out
    stale = shop.operator("rollout", "delete", rollout_id, "--etag", "777", "--yes")
    assert (stale.code, "etag" in stale.err) == (1, True)
    gone = ok(shop.operator("rollout", "delete", rollout_id, "--yes", "--json")).json
    assert (gone["rollout_id"], gone["state"]) == (rollout_id, "draft")
    assert shop.operator("rollout", "status", rollout_id).code == 4
    why = ("--share", "100%", "--override-reason", "a trial")
    (done,) = ok(shop.operator("rollout", "create", *about, "--version", kinds[0], *why, "--json")).json
    kept = shop.operator("rollout", "delete", done["rollout_id"], "--yes")
    assert (kept.code, "cannot delete" in kept.err) == (1, True)

    arms = ("--arm", f"a={kinds[0]}:50%", "--arm", f"b={kinds[1]}:50%")
    (draft,) = ok(shop.operator("experiment", "create", *about, *arms, "--json")).json
    experiment_id = draft["experiment_id"]
    for word in ("show", "status"):
        shown = ok(shop.operator("experiment", word, experiment_id)).out
        assert f"next: alcove experiment start {experiment_id}" in shown
    ok(shop.operator("experiment", "delete", experiment_id, "--yes"))
    assert shop.operator("experiment", "show", experiment_id).code == 4
    (running,) = ok(shop.operator("experiment", "create", *about, *arms, "--start", "--json")).json
    kept = shop.operator("experiment", "delete", running["experiment_id"], "--yes")
    assert (kept.code, "cannot delete" in kept.err) == (1, True)
    ok(shop.operator("experiment", "stop", running["experiment_id"]))

    entries = ok(shop.operator("audit", "list", "--app", "drafts", "--json")).json
    done_to = {(entry["action"], entry["object"]) for entry in entries}
    assert {("create rollout", rollout_id), ("delete rollout", rollout_id)} <= done_to
    assert {("create experiment", experiment_id), ("delete experiment", experiment_id)} <= done_to
    assert ("advance rollout", done["rollout_id"]) in done_to
    times = [entry["at_s"] for entry in entries]
    assert times == sorted(times, reverse=True)


def test_the_audit_log_reads_alike_from_the_server_and_beside_its_data(shop: Shop, kinds: tuple[str, str]) -> None:
    """Newest first, by object, app, time and number; teams and operators may read it."""
    assert kinds
    folder = ("--data-dir", shop.folder / "server")
    for words in (
        (),
        ("--object", f"kind {kinds[0]}"),
        ("--app", "drafts"),
        ("--since", "1d"),
        ("--limit", "3"),
        *SEARCHES,
    ):
        local = ok(alcove("audit", "list", *folder, *words, "--json")).json
        assert ok(shop.team("audit", "list", *words, "--json")).json == local
    released = ok(shop.team("audit", "list", "--action", "release", "--text", "sound kind", "--json")).json
    assert {entry["object"] for entry in released} >= {f"kind {version}" for version in kinds}
    assert len(ok(shop.operator("audit", "list", "--limit", "3", "--json")).json) == 3
    assert ok(shop.operator("audit", "list", "--since", "2999-01-01", "--json")).json == []
    assert "no such change" in ok(shop.operator("audit", "list", "--app", "nobody")).out
    wrong = shop.operator("audit", "list", "--since", "yesterday")
    assert (wrong.code, "2026-11-30" in wrong.err) == (2, True)


def test_the_status_of_a_server_has_its_parts_and_whom_devices_trust(shop: Shop) -> None:
    """For everybody with a token, as a table and as JSON."""
    found = ok(shop.team("server", "status", "--json")).json
    assert found["health"]["state"] in ("ok", "degraded")
    assert {"root", "timestamp", "team-writing"} <= {role["role"] for role in found["trust"]["roles"]}
    shown = ok(shop.operator("server", "status")).out
    for words in ("health: ", "database", "signed tree", "team-writing", "API tokens"):
        assert words in shown


def test_a_time_is_a_day_or_so_long_ago() -> None:
    """Both in UTC."""
    assert since_of("1970-01-03", now_s=10) == 2 * 86_400
    assert since_of("6h", now_s=86_400) == 18 * 3600
    with pytest.raises(typer.BadParameter):
        since_of("soon", now_s=0)


def _at_a_terminal(arguments: list[str], answer: str, shop: Shop) -> tuple[int, str]:
    """Run a command at a terminal, answer what it asks, and return its exit code and what it showed."""
    mine, its = pty.openpty()
    command = [sys.executable, "-m", "alcove.platform.cli.entry", *arguments, "--server", shop.server]
    command += ["--token-file", str(shop.folder / "operator.token")]
    with subprocess.Popen(command, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        os.close(its)
        os.write(mine, f"{answer}\n".encode())
        said, _ = process.communicate(timeout=300)
    os.close(mine)
    return process.returncode, said


def test_what_cannot_be_undone_is_asked_for_at_a_terminal(shop: Shop, kinds: tuple[str, str]) -> None:
    """The question says what would happen; no leaves everything, yes does it; a script without --yes is refused."""
    why = ("--share", "100%", "--override-reason", "a trial")
    about = ("--app", "asked", "--feature", "kind", "--version", kinds[0])
    (rollout,) = ok(shop.operator("rollout", "create", *about, *why, "--json")).json
    halt = ["rollout", "halt", rollout["rollout_id"], "--reason", "a test"]
    refused = shop.operator(*halt)
    assert (refused.code, "no terminal to ask at; add --yes" in refused.err) == (2, True)
    code, said = _at_a_terminal(halt, "n", shop)
    assert (code, "every device of the app drops the version" in said, "stopped" in said) == (1, True, True)
    revoke = shop.operator("model", "revoke", f"kind@{kinds[0]}", "--reason", "a test")
    assert revoke.code == 2
    for words in (f"kind {kinds[0]} is released", f"app asked: {rollout['rollout_id']} is completed at 100 %"):
        assert words in revoke.err
    assert ok(shop.operator("rollout", "status", rollout["rollout_id"], "--json")).json[0]["state"] == "completed"
    code, said = _at_a_terminal(halt, "y", shop)
    assert (code, "halted" in said) == (0, True), said


def test_errors_name_the_options_of_the_command(shop: Shop, kinds: tuple[str, str]) -> None:
    """What the wire calls override_reason or share_basis_points, a person typed as --override-reason or --share."""
    about = ("--app", "drafts", "--feature", "kind", "--version", kinds[1])
    stages = ("--stage", "1%:2d:5000", "--stage", "50%", "--guard", "crash_fallback:1%")
    (draft,) = ok(shop.operator("rollout", "create", *about, *stages, "--json")).json
    share = shop.operator("rollout", "advance", draft["rollout_id"], "--share", "5%")
    assert (share.code, "--share: expected nothing, or 1 %" in share.err) == (1, True), share.err
    begun = ok(shop.operator("rollout", "advance", draft["rollout_id"]))
    assert "after 48 h and 5000 devices in each group" in begun.out
    early = shop.operator("rollout", "advance", draft["rollout_id"])
    assert "give --override-reason, which is audited" in early.err
    assert "stage 1 was not found safe (it has lasted 0.0 h of at least 48 h" in early.err
    updated = ok(shop.operator("rollout", "update", draft["rollout_id"], "--timeout", "7d"))
    assert "audience: every device" in updated.out
    ok(shop.operator("rollout", "rollback", draft["rollout_id"], "--reason", "enough"))
    unread = shop.operator("rollout", "create", *about, "--audience", "os in (ios")
    assert unread.err.startswith("alcove: --audience: expected ',' or ')' at character 11, got 'os in (ios'"), (
        unread.err
    )
    forbidden = shop.team("rollout", "halt", draft["rollout_id"], "--reason", "no", "--yes")
    assert (forbidden.code, "may not halt rollouts; operator may" in forbidden.err) == (5, True)


def test_an_upload_says_how_far_it_is(shop: Shop) -> None:
    """Each piece of a large program; what is there already is not sent again."""
    data, seen = os.urandom(2 * CHUNK_BYTES + 1), list[int]()
    with PlatformClient(shop.server, (shop.folder / "team.token").read_text().strip()) as client:
        digest = client.upload_blob(data, progress=seen.append)
        assert seen == [0, CHUNK_BYTES, 2 * CHUNK_BYTES]
        assert client.upload_blob(data, progress=seen.append) == digest
    assert len(seen) == 3


def test_a_call_is_logged_with_the_id_of_its_request(shop: Shop, kinds: tuple[str, str]) -> None:
    """A mutation by its request id, by which its caller knows it."""
    with PlatformClient(shop.server, (shop.folder / "operator.token").read_text().strip()) as client:
        made = client.create_rollout("logged", "kind", kinds[1], request_id="my-request-0001")
        client.delete_rollout(made.rollout_id, request_id="my-request-0002")
    lines = [json.loads(line) for line in (shop.folder / "log").read_text().splitlines()]
    calls = {line["request_id"]: line["method"] for line in lines if "request_id" in line}
    assert calls["my-request-0001"].endswith("/CreateRollout")
    assert calls["my-request-0002"].endswith("/DeleteRollout")
