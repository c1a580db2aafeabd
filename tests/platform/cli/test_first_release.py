"""What a team and an operator meet on the way to a first release: each answer names the next step or the way out."""

from pathlib import Path

import pytest

from tests.platform.cli.terminal import Said, Shop, alcove, ok

FEATURE = "first"


@pytest.fixture(scope="module")
def push(shop: Shop) -> tuple[object, ...]:
    """The options of a push of this team."""
    return ("--feature", FEATURE, "--team", "writing", "--key", shop.folder / "keys" / "teams" / "writing.pem")


@pytest.fixture(scope="module")
def steps(shop: Shop, programs: tuple[Path, Path], push: tuple[object, ...]) -> dict[str, str]:
    """What each command on the way to a first release said."""
    name = f"{FEATURE}@11.0.0"
    return {
        "push": ok(shop.team("model", "push", programs[0], "--version", "11.0.0", *push)).out,
        "validate": ok(shop.team("model", "validate", name)).out,
        "release": ok(shop.team("model", "release", name, "--reason", "it passed")).out,
        "alias": ok(shop.team("model", "alias", "set", name, "trial", "--reason", "first release")).out,
    }


@pytest.fixture(scope="module")
def released(
    shop: Shop, steps: dict[str, str], programs: tuple[Path, Path], push: tuple[object, ...]
) -> tuple[str, str]:
    """Two released versions."""
    assert steps
    ok(shop.team("model", "push", programs[1], "--version", "11.1.0", *push))
    shop.release("11.1.0", feature=FEATURE)
    return "11.0.0", "11.1.0"


def test_every_step_up_to_a_first_rollout_names_the_next(shop: Shop, steps: dict[str, str], tmp_path: Path) -> None:
    """From the keys to all devices: whoever reads only what the last command said knows what to type."""
    made = ok(alcove("keys", "create", tmp_path / "keys", "--team", "t=f", "--data-dir", tmp_path / "server"))
    assert f"alcove serve --data-dir {tmp_path}/server" in made.out
    token = ("token", "create", "--data-dir", tmp_path / "server", "--role", "team:t", "--out", tmp_path / "t.token")
    assert f"next: alcove login --token-file {tmp_path}/t.token" in ok(alcove(*token)).out
    name = f"{FEATURE}@11.0.0"
    assert f"next: alcove model validate {name}" in steps["push"]
    assert f"next: alcove model release {name} --reason REASON" in steps["validate"]
    assert f"next: alcove rollout create --app APP --feature {FEATURE} --version 11.0.0" in steps["release"]
    assert f"{FEATURE}@trial points to 11.0.0 (before: nothing)" in steps["alias"]
    about = ("--app", "first", "--feature", FEATURE, "--version", "11.0.0")
    done = ok(shop.operator("rollout", "create", *about, "--share", "100%", "--override-reason", "first release"))
    assert "next: apps take it at their next sync; alcove rollout halt ro-" in done.out


def test_a_rollout_of_a_version_that_nobody_validated_is_refused_with_the_way(
    shop: Shop, programs: tuple[Path, Path], push: tuple[object, ...]
) -> None:
    """Pushed a moment ago, never validated, released to all with the reason "oops": nothing reaches a device."""
    ok(shop.team("model", "push", programs[0], "--version", "11.4.0", *push))
    about = ("--app", "hasty", "--feature", FEATURE, "--version", "11.4.0")
    said = shop.operator("rollout", "create", *about, "--share", "100%", "--override-reason", "oops")
    assert said.code == 1
    assert f"{FEATURE} 11.4.0 is registered, and only released versions may reach devices" in said.err
    assert f"alcove model validate {FEATURE}@11.4.0, then alcove model release {FEATURE}@11.4.0" in said.err
    assert ok(shop.operator("rollout", "list", "--app", "hasty", "--json")).json == []


def test_a_push_of_the_same_bytes_is_repeated_although_newer_versions_came(
    shop: Shop, programs: tuple[Path, Path], released: tuple[str, str], push: tuple[object, ...]
) -> None:
    """A job that runs twice is no failure: deltas start from what they started from at first.  Other bytes are one."""
    for version, program in zip(released, programs, strict=True):
        again = ok(shop.team("model", "push", program, "--version", version, *push))
        assert f"{FEATURE} {version} was published before, with the same bytes: nothing changed" in again.out
    other = shop.team("model", "push", programs[1], "--version", released[0], *push)
    assert (other.code, "exists already; a version never changes" in other.err) == (1, True)


def test_a_push_for_another_team_or_feature_names_the_command_that_helps(
    shop: Shop, programs: tuple[Path, Path], push: tuple[object, ...]
) -> None:
    """A team that is not there is added by `keys add-team`, a feature is given to one by `keys own`."""
    key = push[-1]
    common = ("model", "push", programs[0], "--version", "11.9.0", "--key", key)
    team = shop.team(*common, "--feature", FEATURE, "--team", "nobody")
    assert "the tree holds no team-nobody: alcove keys add-team makes one" in team.err
    feature = shop.team(*common, "--feature", "foreign", "--team", "writing")
    assert "team-writing may not publish foreign/11.9.0.json; it owns " in feature.err
    assert "(alcove keys own: one more)" in feature.err
    assert (team.code, feature.code) == (4, 1)


def test_an_address_that_is_no_grpc_server_is_not_taken_for_one_that_is_away(shop: Shop) -> None:
    """A URL, the port of the devices, nobody at all: each has its sentence, none shows gRPC's own words."""
    token = ("--token-file", shop.folder / "operator.token")
    url = alcove("model", "list", "--server", shop.http, *token)
    assert url.code == 2
    assert "--server: gRPC is at HOST:PORT, such as 127.0.0.1:7443, without http://" in url.err
    devices = alcove("model", "list", "--server", shop.http.removeprefix("http://"), *token)
    assert devices.code == 3
    assert "what answers there is no gRPC server" in devices.err
    away = alcove("model", "list", "--server", "127.0.0.1:1", *token)
    assert away.code == 3
    assert "Is the server running (alcove serve)?  Repeating is safe." in away.err
    assert all("HTTP/2" not in said.err and "ipv4:" not in said.err for said in (url, devices, away))


def test_each_thing_that_is_wrong_with_a_token_has_its_sentence(shop: Shop, tmp_path: Path) -> None:
    """None, no token at all, one that nobody issued: where it is given, and how one is made."""
    (tmp_path / "garbage").write_text("garbage")
    (tmp_path / "garbage").chmod(0o600)
    none = alcove("model", "list", "--server", shop.server)
    assert none.code == 2
    assert all(words in none.err for words in ("ALCOVE_TOKEN_FILE", "alcove login", "alcove token create --out FILE"))
    garbage = alcove("model", "list", "--server", shop.server, "--token-file", tmp_path / "garbage")
    assert garbage.code == 5
    assert "malformed authorization" in garbage.err
    assert "Give the token's file with --token-file or ALCOVE_TOKEN_FILE." in garbage.err
    assert "garbage" not in garbage.err.replace(str(tmp_path / "garbage"), "")


def test_a_token_for_a_team_that_is_not_there_comes_with_a_warning(shop: Shop, tmp_path: Path) -> None:
    """It may come before the team, so it is issued; a misspelled name is seen at once."""
    data_dir = shop.folder / "server"
    said = ok(alcove("token", "create", "--data-dir", data_dir, "--role", "team:nosuch", "--out", tmp_path / "token"))
    assert "warning: the tree has no team 'nosuch' yet (alcove keys add-team)" in said.out + said.err


def test_a_change_that_is_not_signed_says_who_still_has_to_sign(shop: Shop, tmp_path: Path) -> None:
    """Not whether the key is the team's: nobody has signed yet."""
    places = ("--data-dir", shop.folder / "server")
    change = tmp_path / "own.change"
    ok(alcove("keys", "own", change, *places, "--team", "writing=tone"))
    refused = alcove("keys", "accept", change, *places, "--keys", shop.folder / "server-keys")
    assert refused.code == 1
    assert "targets was signed by 0/1 keys" in refused.err
    assert "Who still has to sign: alcove keys status CHANGE" in refused.err
    assert "Is this the key" not in refused.err


def test_a_halted_rollout_says_how_a_halt_is_lifted(shop: Shop, released: tuple[str, str]) -> None:
    """It cannot be resumed; its status names the command, and whose key it takes."""
    about = ("--app", "stopped", "--feature", FEATURE, "--version", released[0])
    (made,) = ok(
        shop.operator("rollout", "create", *about, "--share", "100%", "--override-reason", "a trial", "--json")
    ).json
    bare = shop.operator("rollout", "halt", made["rollout_id"])
    assert (bare.code, "Missing option '--reason'" in bare.err) == (2, True)
    ok(shop.operator("rollout", "halt", made["rollout_id"], "--reason", "it lies", "--yes"))
    resumed = shop.operator("rollout", "resume", made["rollout_id"])
    assert resumed.code == 1
    assert f"rollout {made['rollout_id']} is halted: cannot resume" in resumed.err
    shown = ok(shop.operator("rollout", "status", made["rollout_id"])).out
    assert "next: only the team's key lifts the halt: alcove keys reinstate" in shown
    assert "it lies" in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("os in (ios", "--audience: expected ',' or ')' at character 11, got 'os in (ios'"),
        ("os = ios", "--audience: expected one of == != in not in at character 4"),
        ("os in (ios) or os in (android)", "--audience: expected 'and' or the end at character 13"),
        ("os in (ios) AND locale in (de)", "--audience: expected 'and' or the end at character 13"),
        ("country in (de)", "no device has the attribute 'country'; there are app_version, device_class, locale"),
        ("app_version >= two", "app_version is a version such as 2.1 or 2.1.0"),
        ("os in (ios) and os in (android)", "no device can be in this audience"),
    ],
)
def test_an_audience_that_does_not_read_says_where_and_what_could_stand_there(
    shop: Shop, released: tuple[str, str], text: str, words: str
) -> None:
    """Once, by the option's name, with the character, the words that are expected or the attributes that there are."""
    about = ("--app", "audiences", "--feature", FEATURE, "--version", released[0])
    said = shop.operator("rollout", "create", *about, "--audience", text)
    assert said.code == 1
    assert words in said.err
    assert said.err.count("audience:") <= 2


def test_an_audience_is_shown_in_its_one_form_after_it_was_set(shop: Shop, released: tuple[str, str]) -> None:
    """Other spellings are the same audience, and both commands show what devices will be asked."""
    about = ("--app", "spelled", "--feature", FEATURE, "--version", released[0], "--stage", "10%:2d")
    (made,) = ok(shop.operator("rollout", "create", *about, "--audience", "os in (iOS)", "--json")).json
    assert made["audience"] == "os in (ios)"
    updated = ok(shop.operator("rollout", "update", made["rollout_id"], "--audience", "locale != de_AT"))
    assert "audience: locale not in (de-AT)" in updated.out
    ok(shop.operator("rollout", "delete", made["rollout_id"], "--yes"))


def test_a_refused_first_share_leaves_no_draft_behind(shop: Shop, released: tuple[str, str]) -> None:
    """Repeated as often as somebody wonders why: nothing is there to delete."""
    about = ("--app", "refused", "--feature", FEATURE, "--version", released[0], "--share", "100%")
    for _ in range(2):
        said = shop.operator("rollout", "create", *about)
        assert (said.code, "give --override-reason, which is audited" in said.err) == (1, True)
    assert ok(shop.operator("rollout", "list", "--app", "refused", "--json")).json == []


def test_a_first_version_for_some_devices_says_what_the_others_lack(shop: Shop, released: tuple[str, str]) -> None:
    """Devices outside of the share would have nothing to run: shares are said as they are typed."""
    about = ("--app", "partly", "--feature", FEATURE, "--version", released[0], "--share", "10%")
    said = shop.operator("rollout", "create", *about, "--override-reason", "a trial")
    assert said.code == 1
    assert "has no default version yet, which the devices outside of a share of 10 % would run" in said.err
    assert "(a share of 100 %), or start an experiment" in said.err


def test_rules_that_nobody_set_say_so(shop: Shop) -> None:
    """The table has every rule, and one line says that none holds."""
    assert "nobody has set any" in ok(shop.team("model", "rules", "planned")).out


def _create(shop: Shop, app: str, *arms: str) -> Said:
    given = [word for arm in arms for word in ("--arm", arm)]
    return shop.operator("experiment", "create", "--app", app, "--feature", FEATURE, *given)


def test_arms_that_cannot_be_are_refused_without_ids_and_objects(shop: Shop, released: tuple[str, str]) -> None:
    """More than all devices, and one name twice: the bound and the value, in the words of the command."""
    old, new = released
    for arms, words in (
        ((f"old={old}:50%", f"a={new}:60%"), "got 110 %"),
        ((f"old={old}:50%", f"old={new}:50%"), "different name"),
    ):
        said = _create(shop, "arms", *arms)
        assert said.code != 0
        assert words in said.err, said.err
        assert not [word for word in ("ex-", "salt", "Arm(", "VersionRef", "{'") if word in said.err]
