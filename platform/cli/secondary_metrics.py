"""Reads the secondary metrics that an operator names, and prints what the reports say of them."""

from typing import TYPE_CHECKING, Final, cast, get_args

import typer
from alcove.platform.cli.few_reports import TOO_FEW, spell_p_value
from alcove.platform.cli.metric_units import is_in_ms
from alcove.platform.cli.output import print_table, say
from alcove.platform.cli.plans import SLOWER
from alcove.platform.cli.primary_metric import own_metric_of

if TYPE_CHECKING:
    from alcove.platform.client import Estimate, Experiment, OutcomeName, Primary, SecondaryView

__all__ = ["SECONDARY_HELP", "secondary_metric", "show_secondary", "spell_estimate", "spell_metric"]

SECONDARY_HELP: Final = (
    "A metric to compare beside the one that decides: accepted, refused, error, crash_fallback, latency_mean, "
    "latency_quantile[:QUANTILE], latency>160ms (the share of slow answers), or a ratio such as "
    "accepted/accepted,refused; or metric:NAME, a metric of your own that the experiment asks about. Repeatable; '' "
    "for none."
)
_SHARES: Final[dict[str, "tuple[tuple[OutcomeName, ...], tuple[OutcomeName, ...]]"]] = {
    "refused": (("refused",), ("refused", "accepted")),
    "error": (("error",), ()),
    "crash_fallback": (("fallback",), ()),
}
_MEDIAN: Final = 0.5


def secondary_metric(text: str) -> "Primary":
    """Return the metric of an option.

    Raises:
        typer.BadParameter: it reads otherwise.
    """
    from alcove.platform.client import Primary  # noqa: PLC0415 - loads gRPC

    name, colon, rest = text.partition(":")
    if name in ("accepted", "latency_mean") and not colon:
        return Primary(kind=name)  # type: ignore[arg-type]
    own = own_metric_of(text)
    if own is not None:
        return own
    slower = SLOWER.fullmatch(text)
    if slower is not None:
        return Primary(kind="latency_share", edge_ms=float(slower[1]))
    if name == "latency_quantile":
        return Primary(kind="latency_quantile", quantile=_quantile(text, rest) if colon else _MEDIAN)
    if name in _SHARES and not colon:
        numerator, denominator = _SHARES[name]
        return Primary(kind="ratio", numerator=numerator, denominator=denominator, less_is_better=True)
    above, slash, below = text.partition("/")
    if slash:
        return Primary(kind="ratio", numerator=_outcomes(text, above), denominator=_outcomes(text, below))
    raise typer.BadParameter(f"{SECONDARY_HELP.partition(':')[2].strip()} Got {text!r}", param_hint="--secondary")


def show_secondary(experiment: "Experiment", view: "SecondaryView") -> None:
    """Print each arm against the control in each secondary metric."""
    if not view.differences:
        return
    rows = []
    for each in view.differences:
        metric = experiment.secondary[each.metric]
        rows.append(
            [
                spell_metric(metric),
                f"{experiment.arms[each.arm].name} - {experiment.arms[each.versus].name}",
                spell_estimate(each.difference, metric),
                spell_p_value(each.p),
                spell_p_value(each.adjusted_p),
            ]
        )
    how = "at the last planned analysis" if view.is_at_horizon else "valid whenever they are read"
    say(f"secondary metrics, which decide nothing; p-values {how}, adjusted by Benjamini and Hochberg:")
    print_table(["metric", "arms", "difference, 95 %", "p", "adjusted p"], rows)


def spell_metric(metric: "Primary") -> str:
    """Return a metric in a few words."""
    if metric.kind == "ratio":
        below = ",".join(metric.denominator) or "all"
        return f"{','.join(metric.numerator)} / {below}"
    if metric.metric:
        return metric.metric
    if metric.edge_ms:
        return f"latency > {metric.edge_ms:g} ms"
    return f"{metric.kind} {metric.quantile:g}" if metric.quantile else metric.kind


def spell_estimate(estimate: "Estimate", metric: "Primary") -> str:
    """Return a difference in a metric with its interval."""
    if estimate.value is None:
        return TOO_FEW
    unit, factor, digits = (" ms", 1, 3) if is_in_ms(metric) else ("", 1, 4) if metric.metric else (" %", 100, 2)
    low, high = ("…" if end is None else f"{factor * end:.{digits}f}" for end in (estimate.low, estimate.high))
    return f"{factor * estimate.value:.{digits}f}{unit} [{low}, {high}]"


def _quantile(text: str, rest: str) -> float:
    try:
        return float(rest)
    except ValueError:
        raise typer.BadParameter(
            f"a quantile such as latency_quantile:0.95; got {text!r}", param_hint="--secondary"
        ) from None


def _outcomes(text: str, names: str) -> "tuple[OutcomeName, ...]":
    from alcove.platform.client import OutcomeName  # noqa: PLC0415 - loads gRPC

    found = tuple(name.strip() for name in names.split(","))
    known = get_args(OutcomeName)
    if any(name not in known for name in found):
        raise typer.BadParameter(f"outcomes are {', '.join(known)}; got {text!r}", param_hint="--secondary")
    return cast("tuple[OutcomeName, ...]", found)
