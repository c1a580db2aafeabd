"""Experiments in the console over HTTP, on a real server: list, page, report, files, actions, and two who act."""

import csv
import io
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.client import Arm, Experiment, ExperimentPlan, GuardrailPlan, PlatformClient, Primary
from alcove.platform.console import exports
from alcove.platform.console.pages.experiments import report
from alcove.platform.console.problems import Problem
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.conftest import ROLES, person
from tests.platform.console.test_pages import XSS, Markup
from tests.platform.services.test_experiments import send_reports, task_of

if TYPE_CHECKING:
    from alcove.platform.console.pages.page import Pages

ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
OPERATORS = ("operator", "operator:text")


@pytest.fixture(scope="module")
def team(world: ServerWorld, served: Served) -> Iterator[PlatformClient]:
    """A client of the team, which has published two versions of a feature."""
    with world.client(served, "team:text") as client:
        for version in ("1.0.0", "2.0.0"):
            world.publish(client, "text_20", version)
        yield client


@pytest.fixture(scope="module")
def operator(world: ServerWorld, served: Served, team: PlatformClient) -> Iterator[PlatformClient]:
    """A client of an operator."""
    with world.client(served, "operator") as client:
        yield client


def words_of(page: str) -> str:
    """What people read on a page."""
    return " ".join(re.sub(r"<[^>]*>", "", page).split())


def draft(operator: PlatformClient, app: str, **options: Any) -> Experiment:
    """A draft of both versions."""
    return operator.create_experiment(app, "text_20", ARMS, minimum_cohort=50, **options)


@pytest.fixture(scope="module")
def counted(world: ServerWorld, served: Served, operator: PlatformClient) -> Experiment:
    """A running experiment with everything that reports can say by randomized response, and 600 reports."""
    made = draft(
        operator,
        "counted",
        latency_edges_ms=(5.0,),
        guardrails=(GuardrailPlan(metric="refused", margin=0.05),),
        secondary=(Primary(kind="latency_mean"),),
        plan=ExperimentPlan(mde=0.1, interim_analyses=2, horizon_reports=5000),
    )
    running = operator.start_experiment(made.experiment_id)
    send_reports(served, task_of(world, "counted", "text_20"), accepted=(0.3, 0.9), per_arm=300, seed=1)
    return running


async def test_the_list_is_filtered_ordered_and_paged_by_the_server(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Each filter leaves out what does not fit, and the next page goes on where this one ends."""
    made = [draft(operator, "listed").experiment_id for _ in range(3)]
    operator.start_experiment(made[1])
    async with person(world, served, "reader") as one:

        async def ids(query: str) -> list[str]:
            rows = (await one.json(f"/experiments.json?app=listed&{query}"))["rows"]
            return [row["experiment_id"] for row in rows]

        assert await ids("") == made[::-1]
        assert await ids("order=oldest") == made
        assert await ids("state=running") == [made[1]]
        assert await ids("state=stopped") == []
        assert await ids(f"text={made[2]}") == [made[2]]
        assert await ids("text=LARGER+2.0&order=oldest") == made
        assert await ids("text=manifest_sha256") == []
        assert await ids("feature=text_19") == []
        first = await one.json("/experiments.json?app=listed&size=2")
        path, _, query = first["next_page"].partition("?")
        second = await one.json(f"{path}.json?{query}")
        assert [row["experiment_id"] for page in (first, second) for row in page["rows"]] == made[::-1]
        assert second["next_page"] is None
        status, page = await one.get("/experiments?app=nobody")
        assert (status, "Nothing fits these filters" in page) == (200, True)
        assert not Markup((await one.get("/experiments"))[1]).faults
    operator.stop_experiment(made[1])


async def test_a_page_says_the_decision_and_what_it_rests_on(
    world: ServerWorld, served: Served, counted: Experiment
) -> None:
    """Decision, arms with intervals, sample-ratio check, looks, guardrails, privacy: in words and as data."""
    path = f"/experiments/{counted.experiment_id}"
    async with person(world, served, "reader") as one:
        data = await one.json(f"{path}.json")
        assert data["results"]["report_count"] == 600
        assert data["decision"]
        ratio = data["results"]["sample_ratio"]
        assert [arm["expected"] for arm in ratio["arms"]] == [0.5, 0.5]
        assert ratio["alpha"] == 0.01
        assert 0 < data["results"]["pairs"][0]["noise_percent"] < 100
        assert data["actions"] == []
        status, page = await one.get(path)
        assert status == 200
        assert not Markup(page).faults
        for words in (
            "percentage points",
            "Sound: each arm has the part",
            "Privacy makes up",
            "the next is due at 2 500 of 5 000 reports",
            "Guardrails",
            "mean latency",
            "randomized response on the device",
        ):
            assert words in words_of(page), words
        for words in (f'data-live="{path}/live"', "/policies/counted", f"/audit?object={counted.experiment_id}"):
            assert words in page, words


async def test_a_draft_says_the_next_step_and_an_unknown_one_is_not_found(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Where there are no reports, the page says what to do; a forged id meets the server's answer."""
    made = draft(operator, "drafted")
    async with person(world, served, "reader") as one:
        status, page = await one.get(f"/experiments/{made.experiment_id}")
        assert (status, "It has not started" in page) == (200, True)
        assert (await one.json(f"/experiments/{made.experiment_id}.json"))["results"] is None
        assert (await one.get(f"/experiments/{made.experiment_id}/report"))[0] == 200
        assert (await one.get(f"/experiments/{made.experiment_id}/report.csv"))[0] == 409
        for forged in ("ex-0", "ex-000000000000", "..%2Ffeatures", "ex-zz"):
            assert (await one.get(f"/experiments/{forged}"))[0] == 404


async def test_the_report_says_how_it_was_made_and_gives_its_numbers_as_files(
    world: ServerWorld, served: Served, counted: Experiment
) -> None:
    """The page to print has owner, time and method; CSV and JSON have the records of the client."""
    path = f"/experiments/{counted.experiment_id}/report"
    async with person(world, served, "reader") as one:
        status, page = await one.get(path)
        assert status == 200
        assert not Markup(page).faults
        for words in ("owned by team text", " UTC by ", "α = 0.05", "Each interval contains", "2 interim analyses"):
            assert words in words_of(page), words
        data = await one.json(f"{path}.json")
        for table, count in (("differences", 2), ("arms", 2), ("cells", 8)):
            status, text = await one.get(f"{path}.csv?table={table}")
            rows = list(csv.DictReader(io.StringIO(text)))
            assert (status, len(rows)) == (200, count), table
            assert rows[0].keys() == data[table][0].keys()
            assert len(data[table]) == count
        assert (await one.get(f"{path}.csv?table=secrets"))[0] == 400
        async with one.http.get(f"{one.url}{path}.parquet?table=arms") as answer:
            body = await answer.read()
            expected = 200 if exports.can_write_parquet() else 501
            assert (answer.status, body[:4] == b"PAR1") == (expected, expected == 200)


async def test_without_pyarrow_parquet_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """501 with the extra that is missing, before anything is asked of the server; CSV is not affected."""
    monkeypatch.setattr("alcove.platform.console.exports.find_spec", lambda _name: None)
    refused: list[Problem] = []
    asked: list[str] = []

    class Staged:
        """The pages' way to the server, which notes what is asked."""

        def refuse(self, _request: web.Request, problem: Problem) -> web.Response:
            """Note what is refused."""
            refused.append(problem)
            return web.Response(status=problem.status)

        async def ask(self, _request: web.Request, _work: object) -> bytes:
            """Note that something is asked."""
            asked.append("asked")
            return b"a,b"

        def routes(self, _path: str, _page: object) -> list[web.RouteDef]:
            """None of a page."""
            return []

    app = web.Application()
    app.add_routes(report.routes(cast("Pages", Staged())))
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/experiments/ex-1/report.parquet")).status == 501
        assert (refused[0].kind, asked) == ("MissingExtraError", [])
        assert "alcove-platform[parquet]" in refused[0].remedy
        answer = await client.get("/experiments/ex-1/report.csv")
        assert (answer.status, await answer.text()) == (200, "a,b")
    assert exports.can_write_parquet() is False


def test_a_text_that_a_spreadsheet_would_compute_is_written_as_text() -> None:
    """Formulas get an apostrophe; numbers stay numbers, a negative one too."""
    for start in exports.FORMULA_STARTS:
        text = exports.csv_of([{"name": f"{start}1+1", "number": -1.5, "nothing": None}])
        (row,) = csv.DictReader(io.StringIO(text))
        assert row == {"name": f"'{start}1+1", "number": "-1.5", "nothing": ""}
    assert exports.csv_of([]) == ""


async def test_every_action_on_an_experiment_is_offered_to_its_roles_and_refused_to_the_others(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Every action × every role over HTTP; a forged form meets the server's refusal."""
    number = 0
    shared = {name: draft(operator, f"roles-{name}") for name in ("start", "stop", "delete")}
    shared["stop"] = operator.start_experiment(shared["stop"].experiment_id)
    for role in sorted(ROLES, key=lambda role: role in OPERATORS):  # who may comes last
        async with person(world, served, role) as one:
            for name in ("start", "stop", "delete"):
                number += 1
                made = shared[name]
                if role == OPERATORS[1]:  # the other one who may has used that one
                    made = draft(operator, f"roles-{number}")
                    made = operator.start_experiment(made.experiment_id) if name == "stop" else made
                path = f"/experiments/{made.experiment_id}"
                offered = (await one.json(f"{path}.json"))["actions"]
                assert (name in offered) == (role in OPERATORS), (role, name)
                status, page = await one.act(
                    f"{path}/actions/{name}",
                    request_id=f"request-{number:04d}",
                    reason="for a test",
                    confirmation=made.experiment_id,
                    etag=made.etag,
                    seen=made.state,
                )
                assert status == (200 if role in OPERATORS else 403), (role, name, page)
                if role not in OPERATORS:
                    assert "Not allowed" in page
                    assert operator.experiment(made.experiment_id) == made
                else:
                    assert 'class="done"' in page


async def test_who_comes_second_sees_both_states_and_changes_nothing(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """A form carries the etag of what its reader saw; another person started it meanwhile."""
    made = draft(operator, "conflict")
    path = f"/experiments/{made.experiment_id}"
    async with person(world, served, "operator:text") as one:
        _, page = await one.get(path)
        assert f'name="etag" value="{made.etag}"' in page
        operator.start_experiment(made.experiment_id)
        fields = {"etag": made.etag, "seen": "draft", "confirmation": made.experiment_id}
        status, page = await one.act(f"{path}/actions/delete", request_id="delete-01", **fields)
        assert status == 409
        assert "You decided on a page that said <strong>draft</strong>" in page
        assert "the experiment is now <strong>running</strong>" in page
        assert "start experiment, by " in page
        status, page = await one.act(f"{path}/actions/stop", request_id="stop-0001", etag="1", reason="", seen="draft")
        assert (status, "Say why" in page) == (400, True)
        status, page = await one.act(
            f"{path}/actions/stop", request_id="stop-0002", etag=operator.experiment(made.experiment_id).etag,
            reason="the wrong audience", seen="running",
        )  # fmt: skip
        assert (status, 'class="done"' in page) == (200, True)
        assert "the wrong audience" in page
    (line,) = [line for line in operator.audit(about=made.experiment_id) if line.action == "stop experiment"]
    assert line.details["stop_reason"] == "the wrong audience"


async def test_markup_around_an_experiment_is_shown_as_text(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Reasons, filters, etags and files: no page has an element that no template wrote."""
    made = draft(operator, "hostile")
    operator.start_experiment(made.experiment_id)
    path = f"/experiments/{made.experiment_id}"
    pages = []
    async with person(world, served, "operator") as one:
        csrf = await one.csrf()
        for text, action in zip(XSS, itertools.cycle(("stop", "start", "delete")), strict=False):
            names = ("app", "feature", "state", "text", "order", "size", "page", "done")
            async with one.http.get(f"{one.url}/experiments", params=dict.fromkeys(names, text)) as answer:
                pages.append(await answer.text())
            async with one.http.get(f"{one.url}{path}/report.csv", params={"table": text}) as answer:
                pages.append(await answer.text())
            fields = {"request_id": text, "reason": text, "etag": text, "seen": text, "confirmation": text}
            pages.append((await one.post(f"{path}/actions/{action}", {"csrf": csrf, **fields}))[1])
        operator.stop_experiment(made.experiment_id, reason=XSS[0])
        pages += [(await one.get(path))[1], (await one.get(f"{path}/report"))[1]]
        assert "&lt;script&gt;" in pages[-2]
    for page in pages:
        assert Markup(page).faults == []
