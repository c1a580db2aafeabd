"""Devices, policies and privacy in the console: over HTTP, a real server with a rollout and an experiment."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from alcove.platform.client import (
    Arm,
    GuardrailPlan,
    InvalidRequestError,
    NotFoundError,
    Plan,
    PlatformClient,
    PolicySummary,
    StagePlan,
)
from alcove.platform.testing import Served, ServerWorld
from alcove.privacy.report import Report, report_to_bytes
from alcove.registry.parameters import Parameter
from alcove.registry.policy import DeviceAttributes, TaskPolicy, explain, resolve

from tests.platform.console.conftest import ROLES, person, stranger
from tests.platform.console.test_pages import XSS, Markup
from tests.registry.policies import secret

APP = "messenger"
AUDIENCE = "os in (ios, ipados) and memory_mb >= 4096"
CHUNK = "x" * 7000  # of an address; the web server refuses a longer request line by itself


@dataclass(frozen=True)
class Seeded:
    """What the module's server has."""

    operator: PlatformClient
    rollout_id: str
    experiment_id: str

    def task(self, feature: str) -> TaskPolicy:
        """The task that is measured for a feature."""
        rules = self.operator.policy(APP)[0].features[feature]
        return rules.experiments[0].tasks[0] if rules.experiments else rules.rollout.tasks[0]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def seeded(world: ServerWorld, served: Served) -> Iterator[Seeded]:
    """An app whose first policy has defaults, then a holdout, a rollout for an audience, and an experiment."""
    parameters = [Parameter(name="floor", type="int", default=1, minimum=0, maximum=9)]
    with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
        for feature in ("text_20", "text_21", "text_22"):
            for version in ("1.0.0", "1.1.0"):
                world.publish(team, feature, version, parameters=parameters)
            moved = operator.create_rollout(APP, feature, "1.0.0")
            operator.advance_rollout(moved.rollout_id, share_basis_points=10_000, override_reason="the first version")
        operator.set_holdout(APP, 500)
        plan = Plan(
            stages=(StagePlan(share_basis_points=1000, minimum_cohort=2000), StagePlan(share_basis_points=10_000)),
            guardrails=(GuardrailPlan(metric="error", margin=0.01),),
        )
        rollout = operator.create_rollout(APP, "text_20", "1.1.0", plan=plan, audience=AUDIENCE)
        operator.advance_rollout(rollout.rollout_id)
        arms = [
            Arm(name=name, version=version, share_basis_points=5000)
            for name, version in (("a", "1.0.0"), ("b", "1.1.0"))
        ]
        experiment = operator.create_experiment(APP, "text_21", arms, epsilon="1.5")
        operator.start_experiment(experiment.experiment_id)
        operator.override_values(APP, "text_22", {"floor": 7}, reason="<script>alert(1)</script> too slow")
        yield Seeded(operator, rollout.rollout_id, experiment.experiment_id)


async def test_a_described_device_is_explained_as_the_policy_resolves_it(
    world: ServerWorld, served: Served, seeded: Seeded
) -> None:
    """For people with each step and where it leads, for programs as the command line says it; shares add up."""
    policy, halt = seeded.operator.policy(APP)
    known = DeviceAttributes(os="ios", memory_mb=8192)
    async with person(world, served, "reader") as one:
        chosen = set()
        for number in range(12):
            address = f"/devices.json?app={APP}&device={number}&os=IOS&memory_mb=8200"
            found = {each["feature"]: each for each in (await one.json(address))["features"]}
            assert found.keys() == policy.features.keys()
            for feature, answer in found.items():
                expected = resolve(policy, feature, secret(number), attributes=known, halted=halt.digests)
                assert (answer["version"], answer["reason"]) == (expected.version.version, expected.reason)
                assert answer["arm"] == expected.arm
                assert answer["task_id"] == (expected.task and expected.task.task_id)
                assert sum(share["share"] for share in answer["shares"]) == pytest.approx(1)
                steps = explain(policy, feature, secret(number), attributes=known).steps
                assert [step["because"] for step in answer["steps"]] == [step.detail for step in steps]
                chosen.add((feature, answer["part"]))
        assert ("text_21", seeded.experiment_id) in chosen
        _, page = await one.get(f"/devices?app={APP}&device=3&os=ios&memory_mb=8192&held=text_21%3D0.9.0")
        assert f"/experiments/{seeded.experiment_id}" in page
        assert f"/rollouts/{seeded.rollout_id}" in page
        assert "memory_mb &gt;= 4096 and os in (ios, ipados)" in page
        assert "held: 0.9.0 answers until" in page
        assert "An operator has overridden values on every device" in page
        assert "<code>floor = 7</code>" in page
        assert not Markup(page).faults


async def test_what_cannot_be_read_is_named_at_its_field(world: ServerWorld, served: Served, seeded: Seeded) -> None:
    """A sentence with the bound and the value; an installation's own secret is not taken in an address."""
    del seeded
    wrong = {
        "device": "ab" * 32,
        "os": "a b",
        "memory_mb": "-1",
        "app_version": "1.x",
        "locale": "?",
        "region": "austria",
        "device_class": "Low-End!",
        "held": "text_21",
    }
    async with person(world, served, "reader") as one:
        for name, text in wrong.items():
            async with one.http.get(one.url + "/devices", params={"app": APP, name: text}) as answer:
                page = await answer.text()
                assert answer.status == 400, name
            assert f'id="{name}-problem">Expected' in page
            assert 'aria-invalid="true"' in page
        async with one.http.get(one.url + "/devices.json", params={"app": APP, **wrong}) as answer:
            assert (answer.status, (await answer.json())["problems"].keys()) == (400, wrong.keys())
        for app, words in (("a/b", "no name of an app"), ("nobody", "No app of this name has a policy")):
            async with one.http.get(one.url + "/devices", params={"app": app}) as answer:
                assert (answer.status, words in await answer.text()) == (400, True)
        for name in ("app", *wrong):
            async with one.http.get(one.url + "/devices", params={name: CHUNK}) as answer:
                assert answer.status == 400, name
                assert CHUNK not in await answer.text()
        assert (await one.get("/devices?app=" + "y" * 10_000))[0] in (400, 414, 431)
        assert "Choose an app" in (await one.get("/devices"))[1] or f'value="{APP}"' in (await one.get("/devices"))[1]


async def test_a_policy_is_shown_as_signed_with_what_changed_and_why(
    world: ServerWorld, served: Served, seeded: Seeded
) -> None:
    """The newest against the one before, or any two; who decided it, by the audit log; the bytes as they are."""
    newest = seeded.operator.policy_at(APP)
    async with person(world, served, "reader") as one:
        (row,) = [row for row in (await one.json("/policies.json"))["rows"] if row["app"] == APP]
        assert row["serial"] == newest.policy.serial
        data = await one.json(f"/policies/{APP}.json")
        assert data["policy"] == json.loads(newest.document)
        assert data["compared_with"] == newest.policy.serial - 1
        assert {"feature": "text_22", "text": "default: floor its own default → 7"} in data["changes"]
        assert data["signature"]["threshold"] <= len(data["signature"]["signing_key_ids"])
        assert data["summary"]["decided_by"].startswith("operator/")
        named = await one.json(f"/policies/{APP}.json?serial={newest.policy.serial}")
        assert [each["feature"] for each in named["overrides"]] == ["text_22"]
        assert [cause["action"] for cause in data["summary"]["causes"]] == ["override values"]
        compared = await one.json(f"/policies/{APP}.json?with=1")
        texts = [f"{change['feature']}: {change['text']}" for change in compared["changes"]]
        assert ": holdout: 0 % → 5 % of the devices" in texts
        assert any(text.startswith(f"text_20: rollout {seeded.rollout_id} of 1.1.0 at 10 %") for text in texts)
        assert any(
            text.startswith(f"text_21: experiment {seeded.experiment_id} started: a 1.0.0 50 %") for text in texts
        )
        first = await one.json(f"/policies/{APP}.json?serial=1")
        assert (first["compared_with"], first["changes"], first["signature"]) == (None, [], None)
        _, page = await one.get(f"/policies/{APP}?with=1")
        assert 'class="added"' in page
        assert "1 of 1 signed" in page
        assert not Markup(page).faults
        async with one.http.get(one.url + f"/policies/{APP}/documents/{newest.policy.serial}") as answer:
            assert await answer.read() == newest.document
            assert "attachment" in answer.headers["Content-Disposition"]
        for address in (f"/policies/{APP}?serial=999", f"/policies/{APP}?with=999", "/policies/nobody"):
            status, page = await one.get(address)
            assert (status, "Not found" in page) == (404, True)
        status, page = await one.get(f"/policies/{APP}?with=x")
        assert (status, "expected a serial number" in page) == (400, True)


def test_policies_of_an_app_are_listed_by_page_with_who_decided_them(seeded: Seeded) -> None:
    """Each once, the newest first; an app's name goes on where a list of apps ended."""
    operator = seeded.operator
    found: list[PolicySummary] = []
    token = ""
    while True:
        page = operator.policies_page(APP, size=2, token=token)
        found += page.items
        token = page.next_token
        if not token:
            break
    serials = [one.serial for one in found]
    assert serials == list(range(operator.policy_at(APP).policy.serial, 0, -1))
    assert all(one.decided_at_s and one.decided_by and one.causes and one.is_published for one in found)
    lines = {(line.action, line.subject, line.at_s, line.who) for line in operator.audit(limit=500)}
    for one in found:
        for cause in one.causes:
            assert (cause.action, cause.object, one.decided_at_s, one.decided_by) in lines
    apps = operator.policies_page(size=1)
    assert [
        one.app for one in operator.policies_page(token=apps.next_token).items if one.app <= apps.items[0].app
    ] == []
    with pytest.raises(NotFoundError):
        operator.privacy("nobody")
    assert operator.privacy(APP).tasks == ()
    assert operator.privacy(APP, ["0" * 64]).tasks == (), "no task of the app"
    with pytest.raises(InvalidRequestError, match="at most 32"):
        operator.privacy(APP, ["0" * 64] * 33)


async def test_the_privacy_page_accounts_for_tasks_budget_observers_noise_and_refusals(
    world: ServerWorld, served: Served, seeded: Seeded
) -> None:
    """By what the policy says, what the server has counted, and what the devices' port refused."""
    before = {one.reason: one.count for one in seeded.operator.privacy(APP).refused}
    task = seeded.task("text_21")
    headers = {"Content-Type": "application/octet-stream"}
    window = task.window_at(seeded.operator.experiment(seeded.experiment_id).started_at_s)
    assert window is not None
    async with aiohttp.ClientSession() as device:
        for cell in range(task.cell_count):
            body = report_to_bytes(Report(bytes.fromhex(task.task_id), window, cell))
            for _ in range(3):
                async with device.post(served.http_url + "/reports", data=body, headers=headers) as answer:
                    assert answer.status == 204
        async with device.post(served.http_url + "/reports", data=b"x", headers=headers) as answer:
            assert answer.status == 400
    async with person(world, served, "reader") as one:
        assert APP in (await one.get("/privacy"))[1]
        data = await one.json(f"/privacy/{APP}.json")
        budget = data["budget"]
        assert (budget["day_cap"], budget["cap_of_30_days"], budget["experiments_cap_of_30_days"]) == (2, 8, 6)
        assert budget["per_30_days"] <= 8
        assert [mode["is_attested"] for mode in data["modes"]] == [False]
        tasks = {each["feature"]: each for each in data["tasks"]}
        assert tasks.keys() == {"text_20", "text_21"}
        tried = tasks["text_21"]
        assert (tried["epsilon"], tried["report_bytes"], tried["cells"]) == ("1.5", 38, task.cell_count)
        assert (tried["cost"]["per_day"], tried["cost"]["per_30_days"]) == (1.5, 6)
        assert tried["reports"]["report_count"] == 3 * task.cell_count
        noise = tried["reports"]["noise"]
        assert [(each["arm"], each["quantity"]) for each in noise] == [(1, "accepted")]
        assert 0 < noise[0]["share"] < 1
        assert tasks["text_20"]["minimum_cohort"] == 2000
        assert tasks["text_20"]["is_guardrail"]
        assert data["reports"]["refused"]["malformed"] == before.get("malformed", 0) + 1
        _, page = await one.get(f"/privacy/{APP}")
        assert "What one report is made of" in page
        assert "malformed" in page
        assert "Randomized response, not attested" in page
        assert not Markup(page).faults
        assert (await one.get("/privacy/nobody"))[0] == 404
        assert "No task at this place" in (await one.get(f"/privacy/{APP}?page=900"))[1]


async def test_everybody_reads_these_pages_and_a_stranger_none(
    world: ServerWorld, served: Served, seeded: Seeded
) -> None:
    """All are reads, for each role; without a session there is no data."""
    del seeded
    addresses = [f"/devices?app={APP}", "/policies", f"/policies/{APP}", "/privacy", f"/privacy/{APP}"]
    for role in ROLES:
        async with person(world, served, role) as one:
            for address in addresses:
                assert (await one.get(address))[0] == 200, (role, address)
    async with stranger(served) as nobody:
        for address in addresses:
            path, _, query = address.partition("?")
            async with nobody.http.get(nobody.url + f"{path}.json?{query}") as answer:
                assert answer.status == 401


async def test_markup_in_what_people_write_is_shown_as_text_on_these_pages(
    world: ServerWorld, served: Served, seeded: Seeded
) -> None:
    """Names, attributes, versions that are held, serials, and the reason of an override."""
    async with person(world, served, "reader") as one:
        pages = []
        for number, text in enumerate(XSS):
            if text.isprintable():
                seeded.operator.override_values(APP, "text_22", {"floor": number % 9}, reason=text)
            fields = ("app", "device", "os", "memory_mb", "locale", "region", "device_class", "app_version", "held")
            queries: list[tuple[str, dict[str, Any]]] = [
                ("/devices", {"app": APP}),
                ("/devices", dict.fromkeys(fields, text)),
                ("/devices", {**dict.fromkeys(fields, text), "app": APP}),
                (f"/policies/{APP}", {"with": text}),
                (f"/policies/{APP}", {"serial": text}),
                (f"/policies/{APP}", {"page": text}),
                ("/policies", {"page": text, "size": text}),
                ("/privacy", {"page": text, "size": text}),
                (f"/privacy/{APP}", {"page": text}),
                (f"/policies/{text}", {}),
                (f"/privacy/{text}", {}),
            ]
            for path, query in queries:
                async with one.http.get(one.url + path, params=query) as answer:
                    pages.append(await answer.text())
                    assert answer.status < 500, (path, query)
        pages.append((await one.get(f"/policies/{APP}"))[1])
        for page in pages:
            assert Markup(page).faults == []
        assert "{{ 7 * 7 }}" in pages[-1] or any("{{ 7 * 7 }}" in page for page in pages)
