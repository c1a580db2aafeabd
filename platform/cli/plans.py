"""Parses a rollout's plan from the command line: stages and guardrails as short texts, or all of it as a file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from alcove.platform.cli.own_guardrails import OWN_GUARD_HELP, own_difference_of, own_guardrails_of, without_own
from alcove.platform.cli.shares import share_basis_points

if TYPE_CHECKING:
    from alcove.platform.client import GuardrailPlan, Mechanism, Plan, StagePlan

__all__ = [
    "SLOWER",
    "AskedMechanism",
    "PlanOptions",
    "behavior_of",
    "differences_of",
    "duration_s",
    "guardrail_of",
    "mechanism_of",
    "stage_of",
]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,8}", re.ASCII)
_NUMBER: Final = re.compile(r"\d+(\.\d+)?", re.ASCII)
SLOWER: Final = re.compile(r"latency>(\d+(?:\.\d+)?)ms", re.ASCII)
_SHARES: Final = ("crash_fallback", "error", "refused")
_BEHAVIOR: Final = (*_SHARES, "feedback")

Act = Literal["hold", "pause", "roll_back", "halt"]
AskedMechanism = Annotated[
    Literal["randomized-response", "prio3"] | None,
    typer.Option(
        "--mechanism",
        help="How reports become sums: each randomized on its device, or added up by two aggregators (prio3). "
        "By default prio3 where the server has aggregators.",
    ),
]


@dataclass(frozen=True)
class PlanOptions:
    """The options of a plan, as Typer reads them."""

    stages: Annotated[
        list[str] | None,
        typer.Option(
            "--stage",
            help="A step, SHARE[:TIME[:DEVICES]]: 1%:2d:5000 is 1 % for at least 2 days and until each group has "
            "about 5000 devices. Repeatable, rising.",
        ),
    ] = None
    guardrails: Annotated[
        list[str] | None,
        typer.Option(
            "--guard",
            help="What must not get worse, METRIC:MARGIN: crash_fallback:0.5%, error:1%, refused:2%, or "
            "latency:20ms[:QUANTILE] (bins no wider than the margin), or latency>160ms:1%, the share of answers that "
            f"take as long as a latency edge or longer; {OWN_GUARD_HELP}. Repeatable.",
        ),
    ] = None
    on_harm: Annotated[
        Act | None,
        typer.Option(help="What harm does: pause, roll_back or halt (the default). Unattested reports only pause."),
    ] = None
    on_timeout: Annotated[
        Act | None, typer.Option(help="What happens when a stage was not found safe in time: hold (the default), …")
    ] = None
    timeout: Annotated[
        str | None, typer.Option(help="Time after which a stage is too late, such as 14d; by default never.")
    ] = None
    auto_advance_reason: Annotated[
        str | None,
        typer.Option(help="Why it may advance by itself where a stage is safe; else a person advances. Audited."),
    ] = None
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Privacy loss ε of one report (prio3: of a window's sums), from 0.01 to 2; 2 by default (prio3: 1)."
            " Up to 8 where the app allows a report above 2 a day."
        ),
    ] = None
    mechanism: AskedMechanism = None
    latency_edges_ms: Annotated[
        list[float] | None,
        typer.Option(
            "--latency-edge",
            help="Upper edge of a latency bin in ms, where a guardrail reads latency; repeatable, rising.",
        ),
    ] = None
    window: Annotated[
        str | None, typer.Option(help="Length of a window, such as 1d (the default); a device reports once in each.")
    ] = None
    expected_devices: Annotated[
        int | None, typer.Option(help="Devices of the app, about: the tests are sharpest at the reports they can send.")
    ] = None
    horizon_windows: Annotated[
        int | None,
        typer.Option(
            help="Windows of a stage at whose ends it may be found safe; by default as many as a device's budget of 30 "
            "days pays for."
        ),
    ] = None
    open_ended: Annotated[
        bool | None,
        typer.Option(
            "--open-ended/--with-horizon",
            help="Let a stage be found safe at any time, without a horizon; this takes about twice the devices.",
        ),
    ] = None
    signature_override_reason: Annotated[
        str | None,
        typer.Option(
            help="Why the version may take or give something else than the one that devices run, which breaks apps "
            "built for that one; audited."
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option("--plan", help="The plan as JSON, as `rollout status ID --json` prints it; options go before it."),
    ] = None

    def plan(self) -> "tuple[Plan, tuple[str, ...]]":
        """Return the plan that the options mean, and the names of its fields that were given.

        Raises:
            typer.BadParameter: an option or the file reads otherwise.
        """
        document = None if self.file is None else _read_plan(self.file)
        guardrails = None if self.guardrails is None else tuple(map(guardrail_of, without_own(self.guardrails)))
        given: dict[str, object] = {
            "stages": None if self.stages is None else tuple(map(stage_of, self.stages)),
            "guardrails": guardrails,
            "own_guardrails": None if self.guardrails is None else own_guardrails_of(self.guardrails),
            "on_harm": self.on_harm,
            "on_timeout": self.on_timeout,
            "timeout_s": None if self.timeout is None else duration_s(self.timeout),
            "auto_advance_reason": self.auto_advance_reason,
            "epsilon": self.epsilon,
            "latency_edges_ms": None if self.latency_edges_ms is None else tuple(self.latency_edges_ms),
            "window_s": None if self.window is None else duration_s(self.window),
            "mechanism": None if self.mechanism is None else mechanism_of(self.mechanism),
            "expected_devices": self.expected_devices,
            "horizon_windows": self.horizon_windows,
            "is_open_ended": self.open_ended,
            "signature_override_reason": self.signature_override_reason,
        }
        given = {name: value for name, value in given.items() if value is not None}
        from alcove.platform.client import Plan  # noqa: PLC0415 - loads gRPC's messages
        from pydantic import ValidationError  # noqa: PLC0415

        if document is None:
            return Plan().model_copy(update=given), tuple(given)
        try:
            plan = Plan.model_validate_json(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise typer.BadParameter(f"{self.file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return plan.model_copy(update=given), tuple(Plan.model_fields)


def _read_plan(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None


def mechanism_of(asked: AskedMechanism) -> "Mechanism":
    """Return the mechanism as the client has it."""
    if asked is None:
        return "unspecified"
    return "prio3" if asked == "prio3" else "randomized_response"


def duration_s(text: str) -> int:
    """Return seconds of a text such as 90s, 15m, 6h or 2d.

    Raises:
        typer.BadParameter: it reads otherwise.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"a time is written 90s, 15m, 6h or 2d; got {text!r}")
    return int(match[1]) * _UNITS[match[2]]


def stage_of(text: str) -> "StagePlan":
    """Return the stage that SHARE[:TIME[:DEVICES]] means.

    Raises:
        typer.BadParameter: it reads otherwise.
    """
    from alcove.platform.client import StagePlan  # noqa: PLC0415 - loads gRPC

    share, *rest = text.split(":")
    if len(rest) > 2 or (len(rest) == 2 and _COUNT.fullmatch(rest[1]) is None):
        raise typer.BadParameter(f"a stage is written SHARE[:TIME[:DEVICES]], such as 1%:2d:5000; got {text!r}")
    return StagePlan(
        share_basis_points=share_basis_points(share),
        minimum_s=duration_s(rest[0]) if rest else 0,
        minimum_cohort=int(rest[1]) if len(rest) == 2 else 0,
    )


def behavior_of(option: str, given: Sequence[str] | None) -> dict[str, float]:
    """Return how a version behaves: crash_fallback, error, refused and feedback as shares, latency_ms.

    Args:
        option: its name, for errors.
        given: NAME=VALUE each.

    Raises:
        typer.BadParameter: one reads otherwise.
    """
    values: dict[str, float] = {}
    for text in given or ():
        name, _, value = text.partition("=")
        if name == "latency" and value.endswith("ms") and _NUMBER.fullmatch(value[:-2]):
            values["latency_ms"] = float(value[:-2])
        elif name in _BEHAVIOR and value.endswith("%") and _NUMBER.fullmatch(value[:-1]):
            values[name] = float(value[:-1]) / 100
        else:
            raise typer.BadParameter(
                f"{option}: crash_fallback=1%, error=1%, refused=20%, feedback=100% or latency=25ms; got {text!r}"
            )
    return values


def differences_of(plan: "Plan", given: Sequence[str]) -> list[float]:
    """Return by how much worse a version is that shall be found, in the order of what a plan watches; 0: not said.

    Args:
        plan: with guardrails.
        given: METRIC:POINTS each, such as crash_fallback:2%, latency:50ms for a quantile, or metric:NAME:DIFFERENCE in
            the metric's unit.

    Raises:
        typer.BadParameter: one reads otherwise, or the plan has no such guardrail.
    """
    found = [0.0] * (len(plan.guardrails) + len(plan.own_guardrails))
    for text in given:
        if (own := own_difference_of(text)) is not None:
            names = [each.metric for each in plan.own_guardrails]
            if own[0] not in names:
                raise typer.BadParameter(f"no guardrail watches metric:{own[0]}", param_hint="--harm")
            found[len(plan.guardrails) + names.index(own[0])] = own[1]
            continue
        metric, _, points = text.partition(":")
        is_in_ms = metric == "latency" and points.endswith("ms") and _NUMBER.fullmatch(points[:-2]) is not None
        places = [place for place, guardrail in enumerate(plan.guardrails) if guardrail.metric == metric]
        if not is_in_ms and not (points.endswith("%") and _NUMBER.fullmatch(points[:-1])):
            raise typer.BadParameter(f"harm is written crash_fallback:2%; got {text!r}", param_hint="--harm")
        if not places:
            raise typer.BadParameter(f"no guardrail watches {metric!r}", param_hint="--harm")
        for place in places:
            found[place] = float(points[:-2]) if is_in_ms else float(points[:-1]) / 100
    return found


def guardrail_of(text: str) -> "GuardrailPlan":
    """Return the guardrail that METRIC:MARGIN[:QUANTILE] or latency>EDGE:MARGIN means.

    Raises:
        typer.BadParameter: it reads otherwise.
    """
    from alcove.platform.client import GuardrailPlan  # noqa: PLC0415 - loads gRPC

    metric, *rest = text.split(":")
    if metric in _SHARES and len(rest) == 1 and rest[0].endswith("%") and _NUMBER.fullmatch(rest[0][:-1]):
        return GuardrailPlan.model_validate({"metric": metric, "margin": float(rest[0][:-1]) / 100})
    slower = SLOWER.fullmatch(metric)
    if slower is not None and len(rest) == 1 and rest[0].endswith("%") and _NUMBER.fullmatch(rest[0][:-1]):
        return GuardrailPlan(metric="latency", margin=float(rest[0][:-1]) / 100, edge_ms=float(slower[1]))
    is_latency = metric == "latency" and 1 <= len(rest) <= 2 and rest[0].endswith("ms")
    if is_latency and _NUMBER.fullmatch(rest[0][:-2]) and all(_NUMBER.fullmatch(part) for part in rest[1:]):
        quantile = float(rest[1]) if len(rest) == 2 else 0.0
        return GuardrailPlan(metric="latency", margin=float(rest[0][:-2]), quantile=quantile)
    shapes = ", ".join(f"{name}:0.5%" for name in _SHARES)
    shapes += ", latency:20ms:0.95, latency>160ms:1% or metric:NAME:MARGIN"
    raise typer.BadParameter(f"a guardrail is written {shapes}; got {text!r}")
