"""Puts into words which of two versions people prefer, for the command line, the console and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.platform.client.experiment_models import Estimate, ExperimentReport
    from alcove.platform.stats import Interval, Preference

__all__ = ["preference_of", "preference_sentences", "spell_preference"]


def preference_of(report: ExperimentReport) -> Preference | None:
    """Return how often people prefer arm 1 to arm 0, where a preference decides; None: too few reports, or another."""
    from alcove.platform.stats import read_preference  # noqa: PLC0415 - loads scipy, which few results need

    found = report.results
    if not report.experiment.primary.is_preference or not found.pairs:
        return None
    difference = found.pairs[0].difference
    if difference.value is None:
        return None
    known = [(one.value, _interval(one)) for arm in found.arms if (one := arm.own_metric) is not None]
    means = tuple((value, interval) for value, interval in known if value is not None)
    return read_preference((difference.value, _interval(difference)), means if len(means) == len(found.arms) else None)


def preference_sentences(report: ExperimentReport) -> tuple[str, ...]:
    """Return which version people prefer and what the order did, each with its interval; empty as `preference_of`."""
    found = preference_of(report)
    if found is None:
        return ()
    control, treatment = (arm.name for arm in report.experiment.arms)
    return spell_preference(found, control, treatment)


def spell_preference(found: Preference, control: str, treatment: str) -> tuple[str, ...]:
    """Return a preference in words, one sentence each without a full stop."""
    ties = "no preference counts half to each"
    says = [f"people prefer {treatment} to {control} in {_percent(found.share, found.interval)} of comparisons; {ties}"]
    if found.order_effect is not None:
        interval = found.order_interval
        shown = "" if interval is None else f" ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
        says.append(
            f"what is shown first is preferred {100 * found.order_effect:+.1f}{shown} points more than by chance; "
            "both orders have equal weight, so that this cancels"
        )
    return tuple(says)


def _interval(estimate: Estimate) -> Interval | None:
    from alcove.platform.stats import Interval  # noqa: PLC0415 - as above

    return None if estimate.low is None or estimate.high is None else Interval(estimate.low, estimate.high)


def _percent(value: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{100 * value:.1f} % (any part is possible)"
    return f"{100 * value:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"
