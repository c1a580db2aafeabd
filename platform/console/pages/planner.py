"""Shows the power planner: what an experiment of given size, effect and privacy would find, and by which day."""

import json
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from alcove.platform.client import ClientError, ExperimentForecast, ExperimentPlan, PlatformClient, UnauthenticatedError
from alcove.platform.console.forecasting import ComputingError, Forecasts
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.pages.wizards.forecasts import POINTS, experiment_charts, experiment_choices
from alcove.platform.console.pages.wizards.rollout_sheet import HOUR_S, MECHANISMS
from alcove.platform.console.problems import problem_of
from alcove.platform.console.sheets import Input, Sheet
from alcove.platform.console.sliders import PLACES, place_of, settle
from alcove.platform.domain import limits

__all__ = ["routes"]

PATH: Final = "/planner"
HALVES: Final = (5000, 5000)
INPUTS: Final = (
    Input(
        "mde",
        "Smallest difference to find",
        "Of the accepted share of the answers.",
        "range",
        unit="percentage points",
        default="2",
        low=0.05,
        high=50,
        is_logarithmic=True,
    ),
    Input(
        "expected_devices",
        "Devices that take part",
        "In both arms together; each reports once in a window.",
        "range",
        unit="devices",
        default="100000",
        low=100,
        high=limits.EXPECTED_DEVICES_MAX,
        is_logarithmic=True,
    ),
    Input(
        "epsilon",
        "Privacy loss ε",
        "Less is more private, and takes more devices.",
        "range",
        unit="a report",
        default="2",
        low=0.01,
        high=6,
        is_logarithmic=True,
    ),
    Input("base_rate", "Accepted share now", "Of the control.", "range", unit="%", default="50", low=1, high=99),
    Input(
        "window_h",
        "Window",
        "A device reports once in each; longer windows cost the budget of fewer reports.",
        "range",
        unit="hours",
        default="24",
        low=1,
        high=24 * 30,
        is_logarithmic=True,
    ),
    Input("mechanism", "How reports become sums", "", "choice", options=MECHANISMS),
)


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""
    forecasts = Forecasts()

    async def planner(request: web.Request) -> Answer:
        sheet = Sheet(INPUTS, {field.name: field.default for field in INPUTS} | dict(request.query))
        question = _question(sheet)
        context: dict[str, Any] = {"sheet": sheet, "forecast": None, "problem": "", "is_computing": False}
        context |= {"places": {name: place_of(field, sheet.values[name]) for name, field in sheet.inputs.items()}}
        context |= {"last_place": PLACES, "used": _use(sheet)}
        status = HTTPStatus.BAD_REQUEST if sheet.problems else HTTPStatus.OK
        if not sheet.problems:
            try:
                name = json.dumps(question, default=lambda value: value.model_dump(mode="json"))
                forecast = await forecasts.get(
                    request, name, lambda: pages.ask(request, lambda client: _forecast(client, question))
                )
                context |= _context_of(forecast, question["plan"])
            except ComputingError:
                context["is_computing"] = True
            except UnauthenticatedError:
                raise
            except ClientError as error:
                found = problem_of(error)
                context["problem"], status = f"{found.title}: {found.detail}.", found.status
        return Answer("planner/planner.html", context, _to_json(sheet, context), _status(request, status))

    async def show(request: web.Request) -> web.Response:
        settled = settle({field.name: field for field in INPUTS if field.kind == "range"}, request.query)
        if settled is None:
            return pages.respond(request, await planner(request))
        settled |= {"mechanism": request.query["mechanism"]} if request.query.get("mechanism") else {}
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": f"{PATH}?{urlencode(settled)}"})

    return [web.get(PATH, show), web.get(f"{PATH}.json", show)]


def _question(sheet: Sheet) -> dict[str, Any]:
    plan = ExperimentPlan(
        mde=sheet.part("mde") or 0.0,
        base_rate=sheet.part("base_rate") or 0.0,
        expected_devices=sheet.whole("expected_devices") or 0,
    )
    epsilon, mechanism = sheet.number("epsilon"), sheet.text("mechanism") or "unspecified"
    if not sheet.problems and not (plan.mde or plan.expected_devices):
        sheet.expect("mde", "a difference, or a number of devices")
    return {
        "plan": plan,
        "epsilon": "" if epsilon is None else sheet.text("epsilon").replace(",", "."),
        "window_s": round((sheet.number("window_h") or 0) * HOUR_S),
        "mechanism": mechanism,
    }


def _forecast(client: PlatformClient, question: dict[str, Any]) -> ExperimentForecast:
    return client.plan_experiment(HALVES, **question)


def _context_of(forecast: ExperimentForecast, plan: ExperimentPlan) -> dict[str, Any]:
    return {
        "forecast": forecast,
        "plan": plan,
        "unit": POINTS,
        "charts_shown": experiment_charts(forecast, POINTS, plan.mde),
        "choices": experiment_choices(forecast.choices, PATH),
    }


def _use(sheet: Sheet) -> str:
    """Return the address of a new experiment with these values."""
    return "/experiments/new?" + urlencode({name: text for name, text in sheet.values.items() if text.strip()})


def _status(request: web.Request, status: HTTPStatus) -> HTTPStatus:
    """Return the status of an answer: a script shows the part of a page that says what is wrong, and no error."""
    return HTTPStatus.OK if "HX-Request" in request.headers else status


def _to_json(sheet: Sheet, context: dict[str, Any]) -> dict[str, Any]:
    forecast: ExperimentForecast | None = context["forecast"]
    return {
        "fields": sheet.values,
        "problems": sheet.problems | ({"": context["problem"]} if context["problem"] else {}),
        "is_computing": context["is_computing"],
        "forecast": None if forecast is None else forecast.model_dump(mode="json"),
    }
