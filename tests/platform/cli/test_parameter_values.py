"""Values of parameters go from a command to the app on a device: rollouts, stages, experiments, and back."""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from alcove.features.language_id.contract import program_path
from alcove.platform.cli.failures import name_options
from alcove.platform.client import PlatformClient
from alcove.registry.policy import Reason, resolve
from alcove.sdk import Client
from alcove.sdk.openfeature import AlcoveProvider
from alcove.sdk.testing import SeededEntropy
from openfeature import api
from openfeature.flag_evaluation import Reason as FlagReason

from tests.platform.cli.terminal import Said, Shop, ok

FEATURE = "adjusted"
BOUNDS = ("--parameter", "threshold:float=0.5:0.1..0.9", "--parameter", "enabled:bool=true")
WORDS = "below it no answer is shown"


@pytest.fixture(scope="module")
def version(shop: Shop) -> str:
    """A released version with two parameters."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    of = ("--feature", FEATURE, "--team", "writing", "--key", key, "--version", "1.0.0")
    ok(
        shop.team(
            "model",
            "push",
            f"int8={program_path('1.0.0')}",
            *of,
            *BOUNDS,
            "--parameter-description",
            f"threshold={WORDS}",
        )
    )
    shop.release("1.0.0", feature=FEATURE)
    return "1.0.0"


@pytest.fixture
def devices(shop: Shop, tmp_path: Path) -> Iterator[Any]:
    """Makes devices by their seed; closes them."""
    with ExitStack() as stack:

        def make(app: str, seed: int) -> Client:
            root = shop.folder / "keys" / "root.json"
            client = Client(app, tmp_path / str(seed), shop.http, root, entropy=SeededEntropy(seed))
            return stack.enter_context(client)

        yield make


def config_of(client: Client) -> dict[str, Any]:
    """What the app reads after a check-in."""
    assert client.sync().error is None
    return dict(client.feature(FEATURE).config)


def seed_of_arm(shop: Shop, app: str, arm: int) -> int:
    """A device of the rollout's control (0) or treatment (1)."""
    with PlatformClient(shop.server, (shop.folder / "operator.token").read_text().strip()) as client:
        policy, _ = client.policy(app)
    for seed in range(1000):
        found = resolve(policy, FEATURE, SeededEntropy(seed).random_bytes(32))
        if (found.reason, found.arm) == (Reason.ROLLOUT, arm):
            return seed
    raise AssertionError(arm)


def create(shop: Shop, app: str, version: str, *options: object) -> Said:
    """Create a rollout."""
    return shop.operator("rollout", "create", "--app", app, "--feature", FEATURE, "--version", version, *options)


def test_values_go_from_a_command_to_the_app_and_back(shop: Shop, version: str, devices: Any) -> None:
    """All devices, then a stage with a control group, then a rollback; each reads what the policy gives its part."""
    app, at_once = "valued", ("--share", "100%", "--override-reason", "test")
    ok(create(shop, app, version, *at_once))
    first = devices(app, 5000)
    assert config_of(first) == {"enabled": True, "threshold": 0.5}
    everywhere = ok(create(shop, app, version, "--set", "threshold=0.40", "--set", "enabled=false", *at_once))
    assert "values: enabled=false, threshold=0.4" in everywhere.out
    assert "values are for devices of runtime 0.1.0 or newer" in everywhere.out
    assert f"{version} (enabled=false, threshold=0.4)" in everywhere.out
    before = {"enabled": False, "threshold": 0.4}
    assert config_of(first) == before

    stages = ("--stage", "40%:1d:100", "--stage", "50%:1d:100", "--guard", "refused:2%", "--set", "threshold=0.3")
    (rollout,) = ok(create(shop, app, version, *stages, "--json")).json
    assert rollout["values"] == {"threshold": "0.3"}
    ok(shop.operator("rollout", "advance", rollout["rollout_id"]))
    seeds = [seed_of_arm(shop, app, arm) for arm in (0, 1)]
    control, treatment = (devices(app, seed) for seed in seeds)
    assert config_of(control) == before
    assert config_of(treatment) == {"enabled": True, "threshold": 0.3}
    api.set_provider_and_wait(AlcoveProvider(treatment), "values")
    flag = api.get_client("values").get_float_details(f"{FEATURE}.config.threshold", 0.0)
    assert (flag.value, flag.reason) == (0.3, FlagReason.SPLIT)
    api.clear_providers()

    status = ("rollout", "status", "--app", app, "--feature", FEATURE)
    assert "values: threshold=0.3" in ok(shop.operator("rollout", "status", rollout["rollout_id"])).out
    for seed, words in zip(seeds, ("enabled=false, threshold=0.4", "threshold=0.3"), strict=True):
        secret = ("--explain", "--secret", SeededEntropy(seed).random_bytes(32).hex())
        assert f"{version} with {words} (rollout, arm" in ok(shop.operator(*status, *secret)).out
    (explained,) = ok(shop.operator(*status, *secret, "--json")).json
    assert explained["values"] == {"threshold": "0.3"}

    ok(shop.operator("rollout", "rollback", rollout["rollout_id"], "--reason", "no better"))
    assert config_of(treatment) == before


def test_a_kill_switch_works_at_the_next_check_in_while_a_rollout_runs(shop: Shop, version: str, devices: Any) -> None:
    """Both sides of a stage read false and keep their version, and read their own values after it; status says so."""
    app, at_once = "killed", ("--share", "100%", "--override-reason", "test")
    ok(create(shop, app, version, *at_once))
    stages = ("--stage", "40%:1d:100", "--stage", "50%:1d:100", "--guard", "refused:2%", "--set", "threshold=0.3")
    (rollout,) = ok(create(shop, app, version, *stages, "--json")).json
    name = rollout["rollout_id"]
    ok(shop.operator("rollout", "advance", name))
    seeds = [seed_of_arm(shop, app, arm) for arm in (0, 1)]
    control, treatment = (devices(app, seed) for seed in seeds)
    own = [{"enabled": True, "threshold": threshold} for threshold in (0.5, 0.3)]
    assert [config_of(client) for client in (control, treatment)] == own

    where = (FEATURE, "--app", app)
    killed = ok(shop.operator("override", "set", *where, "--set", "enabled=false", "--reason", "it shows nonsense")).out
    assert f"paused: {name}; a person resumes" in killed
    assert f"next: alcove override clear {FEATURE} --app {app}" in killed
    assert [config_of(client) for client in (control, treatment)] == [one | {"enabled": False} for one in own]
    assert {client.feature(FEATURE).predict("Guten Tag").version for client in (control, treatment)} == {version}

    status = ok(shop.operator("rollout", "status", name)).out
    assert "OVERRIDDEN on every device: enabled=false, by operator/" in status
    assert ": it shows nonsense" in status
    assert "paused" in status
    (shown,) = ok(shop.operator("rollout", "status", name, "--json")).json
    assert (shown["state"], shown["override"]["values"]) == ("paused", {"enabled": False})
    assert "enabled=false" in ok(shop.operator("override", "list", "--app", app)).out
    refused = shop.operator("rollout", "resume", name)
    assert refused.code != 0
    assert "alcove override clear" in refused.err
    (entry,) = ok(shop.operator("audit", "list", "--object", f"{app}/{FEATURE}", "--json")).json
    assert (entry["action"], entry["details"]["reason"]) == ("override values", "it shows nonsense")

    cleared = ok(shop.operator("override", "clear", *where, "--reason", "fixed in the app")).out
    assert f"next: alcove rollout resume {name}" in cleared
    assert [config_of(client) for client in (control, treatment)] == own
    (shown,) = ok(shop.operator("rollout", "status", name, "--json")).json
    assert (shown["state"], shown["override"]) == ("paused", None)
    assert "no value is overridden" in ok(shop.operator("override", "list", "--app", app)).out
    ok(shop.operator("rollout", "resume", name))
    ok(shop.operator("rollout", "rollback", name, "--reason", "end of the test"))


def test_a_kill_switch_works_while_an_experiment_runs(shop: Shop, version: str, devices: Any) -> None:
    """Its arms go on without reports, and show says which value stands over theirs."""
    app, at_once = "killed-in-arms", ("--share", "100%", "--override-reason", "test")
    ok(create(shop, app, version, *at_once))
    arms = ("--arm", f"control={version}:50%", "--arm", f"tight={version}:50%", "--set", "tight.threshold=0.7")
    created = ok(shop.operator("experiment", "create", "--app", app, "--feature", FEATURE, *arms, "--start", "--json"))
    name = created.json[0]["experiment_id"]
    client = devices(app, 1)
    before = config_of(client)
    said = ok(shop.operator("override", "set", FEATURE, "--app", app, "--set", "enabled=false", "--reason", "bad")).out
    assert f"without reports until then, on their arms: {name}" in said
    assert config_of(client) == before | {"enabled": False}
    for command in ("show", "results"):
        assert "OVERRIDDEN on every device: enabled=false" in ok(shop.operator("experiment", command, name)).out
        found = ok(shop.operator("experiment", command, name, "--json")).json
        shown = found[0] if command == "show" else found
        assert shown["override"]["reason"] == "bad"
    ok(shop.operator("override", "clear", FEATURE, "--app", app, "--reason", "good"))
    assert config_of(client) == before
    ok(shop.operator("experiment", "stop", name))


def test_model_show_lists_the_parameters_that_its_team_declared(shop: Shop, version: str) -> None:
    """Name, type, default, bounds, what it is for, and the oldest runtime that reads it; a table and JSON."""
    said = ok(shop.operator("model", "show", f"{FEATURE}@{version}"))
    cells = [cell.strip() for line in said.out.splitlines() for cell in line.split("│")]
    for words in (["threshold", "float", "0.5", "0.1 to 0.9", WORDS], ["enabled", "bool", "true", "true, false"]):
        start = cells.index(words[0])
        assert cells[start : start + len(words)] == words
    assert "devices of runtime 0.1.0 or newer" in said.out
    shown = ok(shop.operator("model", "show", f"{FEATURE}@{version}", "--json")).json
    bool_bounds: dict[str, object] = {"minimum": None, "maximum": None, "choices": [], "description": ""}
    float_bounds: dict[str, object] = {"minimum": "0.1", "maximum": "0.9", "choices": [], "description": WORDS}
    assert shown["parameters"] == [
        {"name": "enabled", "type": "bool", "default": True} | bool_bounds,
        {"name": "threshold", "type": "float", "default": "0.5"} | float_bounds,
    ]
    assert shown["min_runtime"] == "0.1.0"


def test_values_of_arms_are_shown(shop: Shop, version: str) -> None:
    """By show and in JSON; and they can be changed while it is a draft."""
    arms = ("--arm", f"control={version}:50%", "--arm", f"tight={version}:50%")
    named = ("--app", "compared", "--feature", FEATURE)
    (draft,) = ok(shop.operator("experiment", "create", *named, *arms, "--set", "tight.threshold=0.7", "--json")).json
    assert [arm["values"] for arm in draft["arms"]] == [{}, {"threshold": "0.7"}]
    name = draft["experiment_id"]
    ok(shop.operator("experiment", "update", name, *arms, "--set", "tight.enabled=false"))
    shown = ok(shop.operator("experiment", "show", name)).out
    assert "values of tight: enabled=false" in shown
    assert f"tight {version} (enabled=false) (50 %)" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threshold=2", "--set threshold: expected a decimal number from 0.1 to 0.9, got '2'"),
        ("enabled=off", "--set enabled: expected true or false, got 'off'"),
        ("treshold=0.4", "--set: expected a parameter of adjusted 1.0.0: enabled, threshold, got 'treshold'"),
        ("threshold", "write PARAMETER=VALUE, such as threshold=0.4; got 'threshold'"),
        ("=1", "write PARAMETER=VALUE, such as threshold=0.4; got '=1'"),
    ],
)
def test_a_value_that_is_none_is_refused_in_the_words_of_the_command(
    shop: Shop, version: str, text: str, message: str
) -> None:
    """Parameter, bound and value."""
    said = create(shop, "refused", version, "--set", text)
    assert said.code != 0
    assert message in said.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tight.threshold=2", "--set tight.threshold: expected a decimal number from 0.1 to 0.9, got '2'"),
        ("tight.x=2", "--set tight: expected a parameter of adjusted 1.0.0: enabled, threshold, got 'x'"),
        ("wide.threshold=0.4", "write ARM.PARAMETER=VALUE with an arm of control, tight; got 'wide.threshold=0.4'"),
        ("threshold=0.4", "write ARM.PARAMETER=VALUE with an arm of control, tight; got 'threshold=0.4'"),
    ],
)
def test_a_value_of_an_arm_that_is_none_is_refused_in_the_words_of_the_command(
    shop: Shop, version: str, text: str, message: str
) -> None:
    """Arm, parameter, bound and value."""
    arms = ("--arm", f"control={version}:50%", "--arm", f"tight={version}:50%")
    said = shop.operator("experiment", "create", "--app", "refused", "--feature", FEATURE, *arms, "--set", text)
    assert said.code != 0
    assert message in said.err


def test_a_value_that_is_set_twice_is_refused(shop: Shop, version: str) -> None:
    """Which of both is meant nobody can tell."""
    said = create(shop, "refused", version, "--set", "threshold=0.4", "--set", "threshold=0.5")
    assert said.code != 0
    assert "expected each parameter once, got threshold twice" in said.err


def test_fields_of_values_are_named_by_the_option() -> None:
    """Only where the command has it."""
    message = "arms.tight.values.threshold: expected a decimal number"
    assert name_options(message, ["--set", "--arm"]) == "--set tight.threshold: expected a decimal number"
    assert name_options("values.rows: expected 1", ["--set"]) == "--set rows: expected 1"
    assert name_options("values.name: expected one", ["--set"]) == "--set: expected one"
    assert name_options(message, ["--share"]) == message


def test_commands_of_the_page_run_from_top_to_bottom(shop: Shop, repository: Path) -> None:
    """With a version of this shop's own in the place of the page's; the kill switch is in the policy until it ends."""
    page = (repository / "docs/how-to/change-a-value.md").read_text("utf-8")
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)).replace("\\\n", "").splitlines()
    own = {
        "int8=language_id.alc": f"int8={program_path('1.0.0')}",
        "language_id": FEATURE,
        "language_id@1.2.0": f"{FEATURE}@1.2.0",
        "text": "writing",
        "keys/teams/text.pem": str(shop.folder / "keys" / "teams" / "writing.pem"),
    }
    for line in lines:
        words = [own.get(word, word) for word in shlex.split(line)]
        place = words.index("--token-file")
        run = shop.team if words[place + 1] == "team.token" else shop.operator
        ok(run(*words[1:place]))
        if words[1] == "override":
            with PlatformClient(shop.server, (shop.folder / "operator.token").read_text().strip()) as client:
                rules = client.policy("messenger")[0].features[FEATURE]
            values = {setting.name: setting.value for setting in rules.values}
            assert values == ({} if words[2] == "clear" else {"enabled": False})
