"""Pushing, rollouts, experiments, the audit log and the registry's check, as a team and an operator type them."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.platform.cli.terminal import Said, Shop, alcove

Case = tuple[int, str, Callable[[], Said]]
"""The exit code, words that are read, and the command."""


def test_from_push_to_everyone(shop: Shop, programs: tuple[Path, Path]) -> None:
    """Two versions, an experiment without reports, an override, everyone; then a halt, and a sound tree throughout."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    card = shop.folder / "card.md"
    card.write_text("# Polite\n")
    options = ("--feature", "polite", "--team", "writing", "--key", key, "--card", card)
    for version, program in zip(("1.0.0", "1.1.0"), programs, strict=True):
        said = shop.team("model", "push", f"f32={program}", "--version", version, *options, "--json")
        assert said.code == 0, said.err
        assert (said.json["version"], said.json["variants"][0]["name"]) == (version, "f32")
    again = shop.team("model", "push", f"f32={programs[1]}", "--version", "1.1.0", *options)
    assert again.code == 0, again.err
    assert "polite 1.1.0 was published before, with the same bytes: nothing changed" in again.out
    other = shop.team("model", "push", f"f32={programs[0]}", "--version", "1.1.0", *options)
    assert other.code == 1
    assert "polite 1.1.0 exists already" in other.err
    assert [row["version"] for row in shop.operator("model", "list", "--feature", "polite", "--json").json] == [
        "1.0.0",
        "1.1.0",
    ]

    arms = ("--arm", "control=1.0.0:50%", "--arm", "new=1.1.0:5000")
    unreleased = shop.operator("experiment", "create", "--app", "mail", "--feature", "polite", *arms, "--start")
    assert unreleased.code == 1
    assert "only released versions may reach devices: alcove model validate polite@1.0.0, then alcove" in unreleased.err
    shop.release("1.0.0", "1.1.0")
    said = shop.operator("experiment", "create", "--app", "mail", "--feature", "polite", *arms, "--start", "--json")
    assert said.code == 0, said.err
    (experiment,) = said.json
    assert (experiment["state"], [arm["share_basis_points"] for arm in experiment["arms"]]) == ("running", [5000, 5000])
    shown = shop.operator("experiment", "results", experiment["experiment_id"])
    assert "inconclusive, hold" in shown.out
    report = shop.operator("experiment", "results", experiment["experiment_id"], "--json").json
    assert report["results"]["report_count"] == 0
    running = shop.operator("experiment", "list", "--app", "mail", "--state", "running", "--text", "polite", "--json")
    assert experiment["experiment_id"] in {one["experiment_id"] for one in running.json}
    assert (
        shop.operator("experiment", "list", "--app", "mail", "--state", "draft", "--text", "nothing", "--json").json
        == []
    )
    stopped = shop.operator("experiment", "stop", experiment["experiment_id"])
    assert stopped.code == 0
    assert "inconclusive, hold" in stopped.out

    (rollout,) = shop.operator(
        "rollout", "create", "--app", "mail", "--feature", "polite", "--version", "1.1.0", "--json"
    ).json
    refused = shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "100%")
    assert refused.code == 1
    assert "--override-reason" in refused.err
    why = ("--override-reason", "a trial")
    (half,) = shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "50%", *why, "--json").json
    assert half["share_basis_points"] == 5000
    because = ("--reason", "users complain", "--json")
    assert shop.operator("rollout", "pause", rollout["rollout_id"], *because).json[0]["state"] == "paused"
    assert "users complain" in shop.operator("audit", "list", "--object", rollout["rollout_id"]).out
    assert shop.operator("rollout", "resume", rollout["rollout_id"], "--json").json[0]["state"] == "running"
    done = shop.operator("rollout", "advance", rollout["rollout_id"], "--share", "10000", *why)
    assert "completed" in done.out
    assert "100 %" in done.out
    going = ("--app", "mail", "--feature", "polite", "--version", "1.0.0", "--share", "1%", *why)
    (back,) = shop.operator("rollout", "create", *going, "--json").json
    rolled_back = shop.operator("rollout", "rollback", back["rollout_id"], "--reason", "it was better before", "--json")
    assert rolled_back.json[0]["state"] == "rolled_back"
    listed = shop.operator("rollout", "status", "--app", "mail")
    assert "rolled back" in listed.out
    assert "completed" in listed.out

    audit = ("audit", "list", "--data-dir", shop.folder / "server")
    entries = alcove(*audit, "--object", rollout["rollout_id"], "--json").json
    assert [entry["action"].split()[0] for entry in entries] == ["advance", "resume", "pause", "advance", "create"]
    assert [entry["details"]["override_reason"] for entry in entries if entry["action"] == "advance rollout"] == [
        "a trial"
    ] * 2
    assert {entry["who"].partition("/")[0] for entry in entries} == {"operator"}
    assert all(entry["at_s"] > 0 and entry["object"] == rollout["rollout_id"] for entry in entries)
    table = alcove(*audit, "--limit", "0").out  # all: other tests have added to it
    assert "create token" in table
    assert "a trial" in table

    checked = alcove("registry", "check", "--data-dir", shop.folder / "server", "--json")
    assert (checked.code, checked.json["is_sound"], checked.json["problems"]) == (0, True, [])


def test_a_changed_blob_is_found_by_the_check(shop: Shop, programs: tuple[Path, Path]) -> None:
    """One flipped byte in a published program: exit code 1, and the blob is named."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", "kind", "--version", "1.0.0", "--team", "writing", "--key", key)
    pushed = shop.team("model", "push", programs[0], *options, "--json")
    assert pushed.code == 0, pushed.err
    blob = shop.folder / "server" / "tree" / "blobs" / pushed.json["variants"][0]["sha256"]
    good = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    try:
        for form in ((), ("--json",)):
            said = alcove("registry", "check", "--data-dir", shop.folder / "server", *form)
            assert said.code == 1
            assert blob.name in said.out.replace("\n", "")
    finally:
        blob.write_bytes(good)


def test_blobs_that_nothing_names_are_reported_and_removed(shop: Shop) -> None:
    """The young one stays, the old one is listed by a dry run and then gone; store and server are whole."""
    folder = shop.folder / "server" / "tree" / "blobs"
    named = {path.name for path in folder.iterdir()}
    old, young = folder / hashlib.sha256(b"old").hexdigest(), folder / hashlib.sha256(b"young").hexdigest()
    old.write_bytes(b"old")
    young.write_bytes(b"young")
    os.utime(old, (1, 1))
    collect = ("registry", "gc", "--data-dir", shop.folder / "server")
    output = alcove(*collect, "--dry-run", "--json")
    assert (output.code, output.json["is_dry_run"], output.json["freed_bytes"]) == (0, True, 3)
    assert [blob["sha256"] for blob in output.json["removed"]] == [old.name]
    assert old.name in alcove(*collect, "--dry-run").out.replace("\n", "")
    assert old.exists()
    assert alcove(*collect).code == 0
    assert {path.name for path in folder.iterdir()} == named | {young.name}
    assert alcove(*collect, "--json").json["removed"] == []
    assert alcove("registry", "check", "--data-dir", shop.folder / "server").code == 0
    young.unlink()


def test_what_goes_wrong_is_reported_in_a_sentence(shop: Shop, programs: tuple[Path, Path], tmp_path: Path) -> None:
    """Exit codes 1 (refused), 2 (wrong use), 3 (no answer), 4 (not found), 5 (not allowed); no traceback."""
    (tmp_path / "bad.alc").write_bytes(b"not a program")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    (tmp_path / "latin").chmod(0o600)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "alcove.db").write_bytes(b"this is not a database, it is a sentence" * 100)
    (tmp_path / "bare.token").write_text(f"alc_{'0' * 16}_{'0' * 64}")
    (tmp_path / "bare.token").chmod(0o600)
    key = shop.folder / "keys" / "teams" / "writing.pem"
    push = ("model", "push", "--feature", "polite", "--version", "9.0.0", "--team", "writing")
    operator_file = shop.folder / "operator.token"
    factory = f"{shop.folder}/polite_model.py"
    here = ("--server", shop.server, "--token-file")
    create = ("rollout", "create", "--app", "a", "--version", "1.0.0", "--feature")
    experiment = ("experiment", "create", "--app", "a", "--feature", "polite", "--arm")
    cases: list[Case] = [
        (3, "alcove serve", lambda: alcove("model", "list", "--server", "127.0.0.1:1", "--token-file", operator_file)),
        (2, "ALCOVE_TOKEN_FILE", lambda: alcove("model", "list", "--server", shop.server)),
        (1, "absent.token", lambda: alcove("model", "list", "--token-file", tmp_path / "absent.token")),
        (1, "latin: expected UTF-8 text", lambda: alcove("model", "list", *here, tmp_path / "latin")),
        (1, "UTF-8 text", lambda: shop.team(*push, programs[0], "--key", key, "--card", tmp_path / "latin")),
        (1, "put a backup", lambda: alcove("token", "list", "--data-dir", tmp_path / "damaged")),
        (1, "put a backup", lambda: alcove("audit", "list", "--data-dir", tmp_path / "damaged")),
        (5, "unknown token", lambda: alcove("model", "list", *here, tmp_path / "bare.token")),
        (5, "may not create rollouts", lambda: shop.team(*create, "polite")),
        (4, "no version named", lambda: shop.operator(*create, "nothing")),
        (2, "a share is written", lambda: shop.operator("rollout", "advance", "ro-1", "--share", "101%")),
        (4, "no rollout named 'ro-1'", lambda: shop.operator("rollout", "status", "ro-1")),
        (4, "no experiment named", lambda: shop.operator("experiment", "results", "ex-1")),
        (2, "NAME=VERSION:SHARE", lambda: shop.operator(*experiment, "1.0.0")),
        (1, "bad.alc", lambda: alcove("model", "inspect", tmp_path / "absent" / "bad.alc")),
        (1, "alcove: ", lambda: alcove("model", "inspect", tmp_path / "bad.alc")),
        (1, "alcove: ", lambda: alcove("model", "verify", tmp_path / "bad.alc")),
        (2, "JSON array", lambda: alcove("model", "run", programs[0], "hello")),
        (2, "inputs are x", lambda: alcove("model", "run", programs[0], "--input", "y=[[1]]")),
        (2, "inputs are x", lambda: alcove("model", "run", programs[0], "--input", "x=[[1]]", "--input", "x=[[1]]")),
        (2, "or none", lambda: alcove("model", "run", programs[0], "[[1]]", "--input", "x=[[1]]")),
        (2, "takes 1 inputs", lambda: alcove("model", "run", programs[0], "[[1]]", "[[1]]")),
        (1, "alcove: ", lambda: alcove("model", "run", programs[0], "[[1.0]]")),
        (1, "alcove: ", lambda: shop.team(*push, tmp_path / "bad.alc", "--key", key)),
        (2, "twice", lambda: shop.team(*push, programs[0], programs[1], "--key", key)),
        (1, "absent.pem", lambda: shop.team(*push, programs[0], "--key", tmp_path / "absent.pem")),
        (1, "key of the team", lambda: shop.team(*push, programs[0], "--key", shop.folder / "server-keys/policy.pem")),
        (2, "MODULE:FACTORY", lambda: alcove("model", "export", "nothing", "--out", tmp_path / "x")),
        (2, "absent.py", lambda: alcove("model", "export", f"{tmp_path}/absent.py:make", "--out", tmp_path / "x")),
        (2, "no function 'absent'", lambda: alcove("model", "export", f"{factory}:absent", "--out", tmp_path / "x")),
        (2, "must return", lambda: alcove("model", "export", f"{factory}:nonsense", "--out", tmp_path / "x")),
        (2, "no_such_module", lambda: alcove("model", "export", "no_such_module:make", "--out", tmp_path / "x")),
        (1, "alcove: ", lambda: alcove("registry", "check", "--data-dir", tmp_path)),
    ]  # fmt: skip
    for code, words, run in cases:
        said = run()
        flat = " ".join((said.out + said.err).replace("│", " ").split())
        assert (said.code, words in flat or words == "alcove: ") == (code, True), (words, said)
        assert "Traceback" not in flat
    assert not (tmp_path / "x").exists()


def test_a_rollout_in_stages_from_the_command_line(shop: Shop, programs: tuple[Path, Path]) -> None:
    """Planned, tried, created, begun, shown, changed, refused with an old etag, rolled back while somebody watches."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    for version, program in zip(("3.0.0", "3.1.0"), programs, strict=True):
        options = ("--feature", "kind", "--version", version, "--team", "writing", "--key", key)
        assert shop.team("model", "push", program, *options).code == 0
    shop.release("3.0.0", "3.1.0", feature="kind")
    about = ("--app", "chat", "--feature", "kind")
    why = ("--override-reason", "the first")
    assert shop.operator("rollout", "create", *about, "--version", "3.0.0", "--share", "100%", *why).code == 0
    plan: tuple[str, ...] = (
        "--stage",
        "1%:2d:5000",
        "--stage",
        "10%:6h",
        "--stage",
        "50%",
        "--guard",
        "crash_fallback:0.5%",
    )
    plan += ("--guard", "latency:20ms:0.9", "--guard", "latency>40ms:1%", "--timeout", "14d")
    plan += tuple(part for edge in ("10", "20", "30", "40", "50") for part in ("--latency-edge", edge))
    plan += ("--expected-devices", "500000", "--horizon-windows", "3")
    wanted = (*about, "--version", "3.1.0", *plan, "--audience", "os == ios and app_version >= 2.1")
    tried = shop.operator("rollout", "create", *wanted, "--validate-only", "--json").json[0]
    assert "draft" not in shop.operator("rollout", "status", "--app", "chat").out
    shown = shop.operator("rollout", "create", *wanted, "--validate-only").out
    questions = tried["plan"]["questions"]
    assert questions == [{"metrics": ["crash_fallback", "latency"], "share_basis_points": 10_000}]
    assert "every device of both groups reports on: crash_fallback, latency" in shown
    fine = [part for edge in range(10, 80, 10) for part in ("--latency-edge", str(edge))]
    guards = ("--stage", "1%", "--guard", "crash_fallback:0.5%", "--guard", "latency:20ms", *fine)
    apart = shop.operator("rollout", "create", *about, "--version", "3.1.0", *guards, "--validate-only").out
    for metric in ("crash_fallback", "latency"):
        assert f"% of the devices reports on: {metric}" in apart
    (made,) = shop.operator("rollout", "create", *wanted, "--json").json
    assert made["plan"] == tried["plan"]
    assert [stage["share_basis_points"] for stage in made["plan"]["stages"]] == [100, 1000, 5000]
    assert (made["plan"]["stages"][0]["minimum_s"], made["plan"]["stages"][0]["minimum_cohort"]) == (172_800, 5000)
    assert (made["plan"]["expected_devices"], made["plan"]["horizon_windows"]) == (500_000, 3)
    rollout_id = made["rollout_id"]
    begun = shop.operator("rollout", "advance", rollout_id, "--etag", made["etag"], "--json")
    assert begun.code == 0, begun.err
    assert (begun.json[0]["stage"], begun.json[0]["control_basis_points"]) == (1, 100)
    stale = shop.operator("rollout", "pause", rollout_id, "--etag", made["etag"])
    assert stale.code == 1
    assert "etag" in stale.err
    shown = shop.operator("rollout", "status", rollout_id).out
    for words in ("app_version >= 2.1", "1 of 3", "5000", "a person advances", "1 % of the devices keep the default"):
        assert words in shown, shown
    assert "randomized response: each report hides arm and outcome up to ε = 2" in shown
    safe = shop.operator("rollout", "advance", rollout_id)
    assert safe.code == 1
    assert "--override-reason" in safe.err
    changed = shop.operator("rollout", "update", rollout_id, "--audience", "", "--timeout", "7d", "--json")
    assert (changed.json[0]["audience"], changed.json[0]["plan"]["timeout_s"]) == ("", 7 * 86_400)
    narrowed = shop.operator("rollout", "update", rollout_id, "--audience", "os == ios")
    assert narrowed.code == 1
    assert "while the rollout is live" in narrowed.err
    file = shop.folder / "plan.json"
    file.write_text(json.dumps(changed.json[0]["plan"]))
    again = shop.operator(
        "rollout", "update", rollout_id, "--plan", file, "--auto-advance-reason", "nothing is at stake", "--json"
    )
    assert again.json[0]["plan"] == changed.json[0]["plan"] | {"auto_advance_reason": "nothing is at stake"}
    assert shop.operator("rollout", "rollback", rollout_id, "--reason", "enough").code == 0
    watched = shop.operator("rollout", "watch", rollout_id, "--for", "5m", "--json")
    assert json.loads(watched.out.splitlines()[-1])["state"] == "rolled_back"


BAD_PLANS = (
    (("--stage", "1%:soon"), "90s, 15m, 6h or 2d"),
    (("--stage", "1%:2d:many"), "SHARE[:TIME[:DEVICES]]"),
    (("--stage", "200%"), "at most 100%"),
    (("--guard", "mood:1%"), "latency:20ms:0.95"),
    (("--guard", "error:1"), "latency:20ms:0.95"),
    (("--guard", "latency:20"), "latency:20ms:0.95"),
    (("--guard", "latency>160:1%"), "latency>160ms:1%"),
    (("--guard", "latency>160ms:20ms"), "latency>160ms:1%"),
    (("--stage", "1%", "--guard", "latency:9ms", "--latency-edge", "10", "--latency-edge", "80"), "71, 75.5, 80, 84.5"),
    (("--plan", "nowhere.json"), "nowhere.json"),
    (("--stage", "10%", "--stage", "5%"), "more than 10 %"),
    (("--audience", "shoe_size == 46"), "shoe_size"),
    (("--mechanism", "prio3"), "this server has none: ask for randomized response"),
    (("--mechanism", "exact"), "randomized-response"),
)


@pytest.mark.parametrize(("options", "output"), BAD_PLANS)
def test_a_plan_that_reads_wrongly_says_how_it_is_written(shop: Shop, options: tuple[str, ...], output: str) -> None:
    """Exit code not 0, and the words that are expected."""
    said = shop.operator("rollout", "create", "--app", "x", "--feature", "kind", "--version", "1.0.0", *options)
    assert said.code != 0
    assert output in " ".join(said.err.replace("│", " ").split()), said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--app", "My Notes", "--feature", "kind", "--version", "1.0.0"), "app: expected 1 to 64 of a-z, 0-9"),
        (("--app", "notes", "--feature", "Kind", "--version", "1.0.0"), "feature: expected 1 to 64 of a-z, 0-9"),
        (
            ("--app", "notes", "--feature", "kind", "--version", "latest"),
            "version: expected MAJOR.MINOR.PATCH, such as",
        ),
    ],
)
def test_form_of_a_name_is_said_in_words(shop: Shop, words: tuple[str, ...], said: str) -> None:
    """A regular expression is no message."""
    refused = shop.operator("rollout", "create", *words)
    assert refused.code == 1
    assert said in refused.err
    assert "^" not in refused.err
    assert "pattern" not in refused.err


def test_version_of_another_form_is_refused_before_the_push(shop: Shop, programs: tuple[Path, Path]) -> None:
    """With the form, and an example."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    for version in ("1.2", "v1.2.0"):
        said = shop.team(
            "model", "push", programs[0], "--feature", "kind", "--version", version, "--team", "writing", "--key", key
        )
        assert said.code == 1
        assert f"--version: expected MAJOR.MINOR.PATCH, such as 1.2.0, got '{version}'" in said.err
