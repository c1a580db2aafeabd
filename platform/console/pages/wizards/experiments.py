"""Shows the wizard that creates an experiment: arms, devices, layer, what decides, and what it would find."""

import json
import uuid
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import Experiment, ExperimentForecast, Layer, NotFoundError, PlatformClient
from alcove.platform.console.forecasting import Forecasts
from alcove.platform.console.kept_forms import LongForm
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.pages.wizards.audiences import ATTRIBUTE_HELP
from alcove.platform.console.pages.wizards.experiment_sheet import ExperimentSheet
from alcove.platform.console.pages.wizards.forecasts import experiment_charts, experiment_choices
from alcove.platform.console.pages.wizards.layers import strips_of
from alcove.platform.console.pages.wizards.primary_metrics import unit_of
from alcove.platform.console.pages.wizards.steps import Result, Shown, field_of, handle
from alcove.platform.console.pages.wizards.subjects import (
    Subject,
    absence_of,
    asked_for,
    read_features,
    read_subject,
)
from alcove.platform.console.viewer import VIEWER

__all__ = ["routes"]

PATH: Final = "/experiments/new"
CREATE: Final = "/alcove.api.experiment.v1.ExperimentService/CreateExperiment"
ASKED: Final = ("mde", "base_rate", "expected_devices", "epsilon", "mechanism", "window_h", "primary")
APP_LENGTH: Final = 64


class _About:
    """What an experiment is about: a feature in an app, and the app's layers."""

    def __init__(self, subject: Subject, app: str, layers: list[Layer]) -> None:
        self.subject, self.app, self.layers = subject, app, layers


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this wizard."""
    forecasts = Forecasts()

    async def show(request: web.Request) -> Answer:
        query = request.query
        if not (query.get("feature") and query.get("app")):
            features = await pages.ask(request, lambda client: read_features(client, query.get("text", "")))
            return _choose(features, request)
        about = await pages.ask(request, lambda client: _read(client, query["feature"], query["app"]))
        return _page(request, about, None, Shown(request_id=uuid.uuid4().hex))

    async def send(request: web.Request) -> web.Response:
        abouts: list[_About] = []  # read once, by the step or by the page

        async def about_of(form: LongForm) -> _About:
            if not abouts:
                feature, app = form.fields.get("feature", ""), form.fields.get("app", "")
                abouts.append(await pages.ask(request, lambda client: _read(client, feature, app)))
            return abouts[0]

        async def make(form: LongForm, shown: Shown) -> Answer:
            return _page(request, await about_of(form), form, shown)

        async def step(form: LongForm) -> Result:
            about = await about_of(form)
            draft = _Draft(about, _sheet(about, form, {}))
            if draft.problem:
                return Result(shown=Shown(draft.problem, status=HTTPStatus.BAD_REQUEST))
            if form.step == "create":
                request_id = form.fields.get("request_id", "")
                made = await pages.ask(request, lambda client: draft.create(client, request_id, validate_only=False))
                return Result(f"/experiments/{made.experiment_id}")
            return await _forecast(request, pages, draft, forecasts)

        return await handle(request, pages, make, step)

    return [*pages.routes(PATH, show), web.post(PATH, send), web.post(f"{PATH}.json", send)]


class _Draft:
    """An experiment that is being written."""

    def __init__(self, about: _About, made: ExperimentSheet) -> None:
        self.about, self.made = about, made
        self.fields = made.read()

    @property
    def problem(self) -> str:
        """What keeps it from being sent, a sentence; "": nothing."""
        return "Correct what is marked." if self.made.sheet.problems else ""

    @property
    def question(self) -> dict[str, Any]:
        """The arguments of its forecast."""
        left_out = ("arms", "audience", "segment", "secondary", "bandit")
        asked = {name: value for name, value in self.fields.items() if name not in left_out}
        shares = [arm.share_basis_points for arm in self.fields["arms"]]
        return asked | {"arm_shares_basis_points": shares, "feature": self.about.subject.feature}

    def create(self, client: PlatformClient, request_id: str, *, validate_only: bool) -> Experiment:
        """Create it, or only check that it could be."""
        return client.create_experiment(
            self.about.app,
            self.about.subject.feature,
            **self.fields,
            validate_only=validate_only,
            request_id=request_id,
        )

    def forecast(self, client: PlatformClient) -> ExperimentForecast:
        """Return what it would find."""
        return client.plan_experiment(**self.question)


def _read(client: PlatformClient, feature: str, app: str) -> _About:
    subject = read_subject(client, feature)
    if not app or len(app) > APP_LENGTH:
        raise NotFoundError(
            "NOT_FOUND", "ResourceNotFoundError", f"app: expected 1 to {APP_LENGTH} characters, got {len(app)}"
        )
    return _About(subject, app, client.layers(app))


def _sheet(about: _About, form: LongForm | None, asked: dict[str, str]) -> ExperimentSheet:
    return ExperimentSheet.make(
        None if form is None else form.fields,
        versions=about.subject.versions,
        metrics=about.subject.metrics,
        layers=about.layers,
        asked=asked,
    )


async def _forecast(request: web.Request, pages: Pages, draft: _Draft, forecasts: Forecasts) -> Result:
    """Check a draft as its creation would, and forecast it where something is planned."""
    if not absence_of(request[VIEWER], draft.about.subject.team, CREATE):
        # Under an id of its own: a check that keeps nothing is no creation that was sent twice.
        await pages.ask(request, lambda client: draft.create(client, uuid.uuid4().hex, validate_only=True))
    plan = draft.fields["plan"]
    extra: dict[str, Any] = {"is_checked": True, "plan": plan, "is_bandit": draft.fields["bandit"] is not None}
    data: dict[str, Any] = {"forecast": None}
    if (plan.mde or plan.expected_devices) and not extra["is_bandit"]:
        question = json.dumps(draft.question, default=lambda value: value.model_dump(mode="json"))
        forecast = await forecasts.get(request, question, lambda: pages.ask(request, draft.forecast))
        unit = unit_of(draft.fields["primary"])
        extra |= {
            "forecast": forecast,
            "unit": unit,
            "charts_shown": experiment_charts(forecast, unit, plan.mde),
            "choices": experiment_choices(forecast.choices, PATH),
        }
        data["forecast"] = forecast.model_dump(mode="json")
    return Result(shown=Shown(extra=extra, data=data))


def _choose(features: Any, request: web.Request) -> Answer:
    query = request.query
    kept = asked_for(query, *ASKED)
    context = {"wizard": PATH, "title": "New experiment", "features": features, "app": query.get("app", "")}
    context |= {"asks_app": True, "kept": kept, "feature": query.get("feature", "")}
    return Answer("wizards/choose.html", context, {"features": [one.feature for one in features]})


def _page(request: web.Request, about: _About, form: LongForm | None, shown: Shown) -> Answer:
    made = _sheet(about, form, asked_for(request.query, *ASKED))
    if shown.problem:
        _Draft(about, made)  # which marks what is wrong at its field
    if shown.error is not None and (name := field_of(shown.error, made.sheet.inputs)):
        made.sheet.note(name, f"{made.sheet.inputs[name].title}: {shown.error.message}.")
    absence = absence_of(request[VIEWER], about.subject.team, CREATE)
    context = {
        "wizard": PATH,
        "subject": about.subject,
        "app": about.app,
        "sheet": made.sheet,
        "sections": made.sections,
        "reading": made.audience(),
        "attributes": ATTRIBUTE_HELP,
        "strips": strips_of(about.layers, made.segment()),
        "absence": absence,
        "shown": shown,
        "is_checked": False,
        "is_bandit": False,
        "asks_again": "",
        "forecast": None,
    } | dict(shown.extra)
    data = {
        "feature": about.subject.feature,
        "app": about.app,
        "versions": list(about.subject.versions),
        "layers": [layer.model_dump(mode="json") for layer in about.layers],
        "metrics": [metric.name for metric in about.subject.metrics],
        "parameters": [one.model_dump(mode="json") for one in about.subject.parameters],
        "fields": made.sheet.values,
        "problems": made.sheet.problems,
        "problem": shown.problem,
        "may_create": not absence,
    } | dict(shown.data)
    return Answer("wizards/experiment.html", context, data, shown.status)
