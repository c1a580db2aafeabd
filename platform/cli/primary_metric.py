"""Parses what decides an experiment, and which part of the devices is asked about a team's own metrics."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast, get_args

import typer
from alcove.platform.cli.shares import share_basis_points

if TYPE_CHECKING:
    from alcove.platform.client import OutcomeName, OwnQuestion, Primary

__all__ = ["PRIMARY_HELP", "QUESTION_HELP", "own_metric_of", "own_questions_of", "primary_of"]

PRIMARY_HELP: Final = (
    "What decides: accepted (the accepted share, the default), latency_mean, latency_quantile, latency_share, ratio "
    "(of outcomes), or metric:NAME[@VERSION], a metric of your own (`alcove metric create`)."
)
QUESTION_HELP: Final = (
    "Ask a part of the devices about a metric of your own, metric:NAME[@VERSION]:SHARE, such as metric:minutes:20%: "
    "one that decides or guards, or another that --secondary names. A device answers one question. Repeatable; "
    "'' for none."
)
_KINDS: Final = ("accepted", "latency_mean", "latency_quantile", "latency_share", "ratio")
_METRIC: Final = re.compile(r"metric:([a-z][a-z0-9_]*)(?:@(\d{1,4}))?", re.ASCII)


def primary_of(
    text: str | None,
    quantile: float,
    numerator: str | None,
    denominator: str | None,
    *,
    less_is_better: bool,
    slower_than: float | None,
) -> "Primary":
    """Return the metric that the options mean.

    Raises:
        typer.BadParameter: one reads otherwise, or they do not go together.
    """
    from alcove.platform.client import Primary  # noqa: PLC0415 - loads gRPC

    if (text == "latency_share") != (slower_than is not None):
        raise typer.BadParameter("--primary latency_share needs --slower-than, and nothing else takes it")
    if text != "ratio" and (numerator or denominator or less_is_better):
        problem = "outcomes and --less-is-better belong to --primary ratio; a metric of your own says which is better"
        raise typer.BadParameter(problem, param_hint="--primary")
    own = own_metric_of(text or "")
    if own is not None:
        return own
    if text is not None and text not in _KINDS:
        problem = f"one of {', '.join(_KINDS)}, or metric:NAME such as metric:undone_edits; got {text!r}"
        raise typer.BadParameter(problem, param_hint="--primary")
    return Primary.model_validate(
        {
            "kind": text or "accepted",
            "quantile": quantile if text == "latency_quantile" else 0.0,
            "numerator": _outcomes(numerator, "--numerator"),
            "denominator": _outcomes(denominator, "--denominator"),
            "less_is_better": less_is_better,
            "edge_ms": slower_than or 0.0,
        }
    )


def own_metric_of(text: str) -> "Primary | None":
    """Return the metric of the team's own that metric:NAME[@VERSION] means; None: it reads otherwise."""
    from alcove.platform.client import Primary  # noqa: PLC0415 - loads gRPC

    match = _METRIC.fullmatch(text)
    return None if match is None else Primary(kind="metric", metric=match[1], metric_version=int(match[2] or 0))


def own_questions_of(texts: Sequence[str]) -> "tuple[OwnQuestion, ...]":
    """Return the questions that the options mean.

    Raises:
        typer.BadParameter: one reads otherwise.
    """
    return tuple(map(_own_question_of, filter(None, texts)))


def _own_question_of(text: str) -> "OwnQuestion":
    from alcove.platform.client import OwnQuestion  # noqa: PLC0415 - loads gRPC

    name, _, share = text.rpartition(":")
    own = own_metric_of(name)
    if own is None:
        problem = f"a question is written metric:minutes:20% or metric:minutes@2:20%; got {text!r}"
        raise typer.BadParameter(problem, param_hint="--question")
    return OwnQuestion(
        metric=own.metric, metric_version=own.metric_version, share_basis_points=share_basis_points(share)
    )


def _outcomes(text: str | None, option: str) -> "tuple[OutcomeName, ...]":
    from alcove.platform.client import OutcomeName  # noqa: PLC0415 - loads gRPC
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - loads pydantic

    try:
        return TypeAdapter(tuple[OutcomeName, ...]).validate_python(
            [each.strip() for each in text.split(",")] if text else []
        )
    except ValidationError:
        known = ", ".join(cast("tuple[str, ...]", get_args(OutcomeName)))
        raise typer.BadParameter(f"write some of {known}, with commas; got {text!r}", param_hint=option) from None
