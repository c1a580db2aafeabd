"""Shows the wizard that creates a rollout: what, for whom, in which stages, and what the plan would find."""

import json
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import PlatformClient, Rollout, RolloutForecast
from alcove.platform.console.forecasting import ComputingError, Forecasts
from alcove.platform.console.kept_forms import LongForm
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.pages.wizards.audiences import ATTRIBUTE_HELP
from alcove.platform.console.pages.wizards.forecasts import rollout_charts, rollout_choices, stage_table
from alcove.platform.console.pages.wizards.rollout_sheet import RolloutSheet
from alcove.platform.console.pages.wizards.steps import Result, Shown, field_of, handle
from alcove.platform.console.pages.wizards.subjects import (
    Subject,
    absence_of,
    asked_for,
    read_features,
    read_subject,
)
from alcove.platform.console.simulating import Simulator, SimulatorBusyError, why_not
from alcove.platform.console.viewer import VIEWER

__all__ = ["routes"]

PATH: Final = "/rollouts/new"
CREATE: Final = "/alcove.api.rollout.v1.RolloutService/CreateRollout"
_COMPUTING: Final = "Computing: the simulation goes on. Press “Simulate it” again in a moment to see what it found."
_TOO_LONG: Final = "The simulation took too long on this machine and was ended. The forecast above holds."


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this wizard."""
    engines = _Engines(Simulator(), Forecasts(), Forecasts())

    async def show(request: web.Request) -> Answer:
        query = request.query
        if not query.get("feature"):
            features = await pages.ask(request, lambda client: read_features(client, query.get("text", "")))
            return _choose(features, query.get("app", ""))
        subject = await pages.ask(
            request, lambda client: read_subject(client, query["feature"], query.get("version", ""))
        )
        return _page(request, subject, None, Shown(request_id=uuid.uuid4().hex))

    async def send(request: web.Request) -> web.Response:
        subjects: list[Subject] = []  # read once, by the step or by the page

        async def subject_of(form: LongForm) -> Subject:
            if not subjects:
                feature, version = form.fields.get("feature", ""), form.fields.get("version", "")
                subjects.append(await pages.ask(request, lambda client: read_subject(client, feature, version)))
            return subjects[0]

        async def make(form: LongForm, shown: Shown) -> Answer:
            return _page(request, await subject_of(form), form, shown)

        async def step(form: LongForm) -> Result:
            subject = await subject_of(form)
            draft = _Draft(subject, _sheet(subject, form, {}))
            if form.step == "create":
                return await _create(request, pages, draft, form)
            return await _forecast(request, pages, draft, form, engines)

        return await handle(request, pages, make, step)

    return [*pages.routes(PATH, show), web.post(PATH, send), web.post(f"{PATH}.json", send)]


@dataclass(frozen=True)
class _Engines:
    """What computes for the wizard; a simulation keeps no forecast waiting."""

    simulator: Simulator
    forecasts: Forecasts
    simulations: Forecasts


class _Draft:
    """A rollout that is being written, of a feature."""

    def __init__(self, subject: Subject, made: RolloutSheet) -> None:
        self.subject, self.made = subject, made
        self.plan = made.plan()
        sheet = made.sheet
        self.app, self.version, self.values = sheet.text("app"), sheet.text("version"), sheet.pairs("values")
        self.behavior = made.behavior()

    @property
    def problem(self) -> str:
        """What keeps it from being sent, a sentence; "": nothing."""
        count = len(self.made.sheet.problems)
        return (
            "" if not count else "Correct what is marked below." if count > 1 else "Correct the field that is marked."
        )

    def create(self, client: PlatformClient, request_id: str, *, validate_only: bool) -> Rollout:
        return client.create_rollout(
            self.app,
            self.subject.feature,
            self.version,
            plan=self.plan,
            audience=self.made.sheet.values["audience"].strip(),
            values=self.values,
            validate_only=validate_only,
            request_id=request_id,
        )

    @property
    def question(self) -> str:
        """All that its forecast follows from."""
        return json.dumps([self.subject.feature, self.plan.model_dump(mode="json"), self.behavior])

    def forecast(self, client: PlatformClient) -> RolloutForecast:
        """Return what the plan would find."""
        return client.plan_rollout(self.plan, behavior=self.behavior, feature=self.subject.feature)


def _sheet(subject: Subject, form: LongForm | None, asked: dict[str, str]) -> RolloutSheet:
    return RolloutSheet.make(
        None if form is None else form.fields,
        versions=subject.versions,
        metrics=subject.metrics,
        apps=subject.apps,
        asked=asked,
    )


async def _create(request: web.Request, pages: Pages, draft: _Draft, form: LongForm) -> Result:
    if draft.problem:
        return Result(shown=Shown(draft.problem, status=HTTPStatus.BAD_REQUEST))
    request_id = form.fields.get("request_id", "")
    made = await pages.ask(request, lambda client: draft.create(client, request_id, validate_only=False))
    return Result(f"/rollouts/{made.rollout_id}")


async def _forecast(request: web.Request, pages: Pages, draft: _Draft, form: LongForm, engines: _Engines) -> Result:
    """Check a draft as its creation would, forecast it, and simulate it where that is asked for."""
    if draft.problem:
        return Result(shown=Shown(draft.problem, status=HTTPStatus.BAD_REQUEST))
    plan = draft.plan
    if not absence_of(request[VIEWER], draft.subject.team, CREATE):
        # Under an id of its own: a check that keeps nothing is no creation that was sent twice.
        checked = await pages.ask(request, lambda client: draft.create(client, uuid.uuid4().hex, validate_only=True))
        plan = checked.plan
    forecast = None
    if plan.stages and (plan.guardrails or plan.own_guardrails):
        forecast = await engines.forecasts.get(request, draft.question, lambda: pages.ask(request, draft.forecast))
    extra: dict[str, Any] = {
        "is_checked": True,
        "simulated": None,
        "why_not": why_not(plan),
        "simulation_waits": "",
        "asks_again": "",
    }
    data: dict[str, Any] = {"forecast": None, "simulation": None}
    if forecast is not None:
        extra |= {
            "forecast": forecast,
            "stages": stage_table(forecast, plan.expected_devices),
            "charts_shown": rollout_charts(forecast),
            "choices": rollout_choices(forecast.choices),
        }
        data["forecast"] = forecast.model_dump(mode="json")
    if form.step == "simulate" and not extra["why_not"]:
        try:
            question = json.dumps([plan.model_dump(mode="json"), draft.behavior])
            simulated = await engines.simulations.get(
                request, question, lambda: engines.simulator.run(plan, draft.behavior)
            )
            extra |= {"simulated": simulated, "expected": plan.expected_devices}
            data["simulation"] = {
                "devices": simulated.devices,
                "windows": simulated.windows,
                "outcomes": [vars(one) for one in simulated.outcomes],
                "problem": simulated.problem,
            }
        except ComputingError:
            extra |= {"simulation_waits": _COMPUTING, "asks_again": "simulate"}
            data["computing"] = True
        except SimulatorBusyError:
            extra["simulation_waits"] = _TOO_LONG
    return Result(shown=Shown(extra=extra, data=data))


def _choose(features: Any, app: str) -> Answer:
    context = {"wizard": PATH, "title": "New rollout", "features": features, "app": app}
    context |= {"asks_app": False, "kept": {}, "feature": ""}
    return Answer("wizards/choose.html", context, {"features": [one.feature for one in features]})


def _page(request: web.Request, subject: Subject, form: LongForm | None, shown: Shown) -> Answer:
    asked = asked_for(request.query, "app", "version")
    made = _sheet(subject, form, asked)
    if shown.problem:
        _Draft(subject, made)  # which marks what is wrong at its field
    if shown.error is not None and (name := field_of(shown.error, made.sheet.inputs)):
        made.sheet.note(name, f"{made.sheet.inputs[name].title}: {shown.error.message}.")
    absence = absence_of(request[VIEWER], subject.team, CREATE)
    context = {
        "wizard": PATH,
        "subject": subject,
        "sheet": made.sheet,
        "sections": made.sections,
        "reading": made.audience(),
        "attributes": ATTRIBUTE_HELP,
        "absence": absence,
        "shown": shown,
        "is_checked": False,
        "asks_again": "",
        "forecast": None,
    } | dict(shown.extra)
    data = {
        "feature": subject.feature,
        "versions": list(subject.versions),
        "metrics": [metric.name for metric in subject.metrics],
        "parameters": [one.model_dump(mode="json") for one in subject.parameters],
        "fields": made.sheet.values,
        "problems": made.sheet.problems,
        "problem": shown.problem,
        "may_create": not absence,
    } | dict(shown.data)
    return Answer("wizards/rollout.html", context, data, shown.status)
