"""Decides from the estimates and intervals of a comparison whether there is a winner, and if not, why not.

The rules, in order; the first that applies decides. All but the last mean *hold*: keep the shares as they are.

0. `IMPOSSIBLE_REPORTS`: no devices can have sent such counts (`plausibility.py`); callers check this first.
1. `NO_REPORTS`: nothing was read.
2. `SAMPLE_RATIO_MISMATCH`: an arm's expected share lies outside its always-valid interval. Something loses or
   misassigns devices of one arm, so the rest cannot be trusted.
3. `BELOW_MINIMUM_COHORT`: an arm has fewer estimated devices than asked for, or its size cannot be distinguished from
   zero; the intervals are asymptotic.
4. `PRIVACY_NOISE`: the noise alone leaves the size of an arm uncertain by more than 10 % (one standard error); then
   the ratios are neither nearly normal nor nearly unbiased (Cochran's rule, `limits.py`).
5. `INTERVAL_INCLUDES_ZERO`: no arm is better than *every* other one by an interval that excludes zero.  Instead of it
   `METRIC_SAYS_NOTHING`, where a team's own metric decides and all reports are in one of its bins.
6. `GUARDRAIL`: one is, but a guardrail says that it harms; `apply_guardrails` applies this rule to a decision.
7. `BETTER`: one is. It wins; the control may be it.

Where the server moves the arms' shares (a bandit), rules 5 and 7 give way to `ADAPTIVE_ALLOCATION`: no test of a fixed
split holds then, and none is claimed.

Where analyses are planned, `decide` is asked at an analysis; before the first one nothing is (`BEFORE_FIRST_ANALYSIS`).

That the noise makes up most of a standard error is no reason to hold: its variance is inside the interval, so a win
remains a win; under randomized response it nearly always does. It is shown beside each estimate instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.limits import MAX_SIZE_VARIATION


class DecisionKind(StrEnum):
    """The action that follows: take the winner, or hold."""

    WINNER = "winner"
    INCONCLUSIVE = "inconclusive"


class ReasonCode(StrEnum):
    """Which rule decided; see the module's docstring."""

    IMPOSSIBLE_REPORTS = "impossible_reports"
    NO_REPORTS = "no_reports"
    BEFORE_FIRST_ANALYSIS = "before_first_analysis"
    SAMPLE_RATIO_MISMATCH = "sample_ratio_mismatch"
    BELOW_MINIMUM_COHORT = "below_minimum_cohort"
    PRIVACY_NOISE = "privacy_noise"
    INTERVAL_INCLUDES_ZERO = "interval_includes_zero"
    METRIC_SAYS_NOTHING = "metric_says_nothing"
    ADAPTIVE_ALLOCATION = "adaptive_allocation"
    GUARDRAIL = "guardrail"
    BETTER = "better"


@dataclass(frozen=True)
class Decision:
    """The outcome of a comparison.

    Attributes:
        kind: winner or inconclusive; inconclusive means hold.
        winner: index of the winning arm; None when inconclusive.
        code: the rule that decided.
        reason: one sentence for people, with the bound and the value seen.
    """

    kind: DecisionKind
    winner: int | None
    code: ReasonCode
    reason: str


@dataclass(frozen=True)
class Difference:
    """The difference in the accepted part of two arms.

    Attributes:
        arm: index of the arm.
        versus: index of the arm it is compared with.
        value: accepted part of `arm` minus that of `versus`, from unclipped estimates; None where one arm's size is
            below one report.
        interval: always valid, or valid at the interim analyses, at the comparison's alpha shared among all pairs of
            arms, clipped to [-1, 1]; None where unbounded.
        standard_error: one standard error of `value`, sampling and noise.
        noise_percent: by how many per cent of itself the standard error would shrink without privacy noise.
        excludes_ends: whether the difference is strictly inside the interval, as that of a latency quantile in ms.
        score: standard errors at which an interval ends at zero, with the sign of the value; p-values are of it, and it
            is near value / standard_error. None where there is no standard error.
        lift: `arm` relative to `versus`, less 1; None where `versus` is not above zero, and of a quantile.
        lift_interval: of the lift, at the error of `interval`; None where unbounded: `versus` may be zero.
    """

    arm: int
    versus: int
    value: float | None
    interval: Interval | None
    standard_error: float | None
    noise_percent: float | None
    excludes_ends: bool = False
    score: float | None = None
    lift: float | None = None
    lift_interval: Interval | None = None


@dataclass(frozen=True)
class SampleRatio:
    """The test that the arms' sizes fit the shares that the policy gave them.

    Attributes:
        expected: shares of the policy, per arm, summing to 1.
        observed: estimated shares, per arm, not clipped; None without reports.
        intervals: always valid for all arms together at `SAMPLE_RATIO_ALPHA`, clipped to [0, 1]; None without reports.
        mismatched: arms whose expected share lies outside their interval.
    """

    expected: tuple[float, ...]
    observed: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...]
    mismatched: tuple[int, ...]


@dataclass(frozen=True)
class ArmSize:
    """An arm's size, as the rules read it.

    Attributes:
        devices: estimated devices; may be negative.
        noise_variation: standard error of the size from noise alone, relative to the size; infinite for a size
            below one.
        is_distinct_from_zero: whether the size exceeds zero by the critical value of the intervals.
    """

    devices: float
    noise_variation: float
    is_distinct_from_zero: bool


def apply_rules(
    *,
    reports: int,
    sizes: Sequence[ArmSize],
    sample_ratio: SampleRatio,
    pairs: Sequence[Difference],
    minimum_cohort: int,
    better: str = "more accurate",
    unit: str = "",
) -> Decision:
    """Return the decision by the rules of the module's docstring.

    Args:
        reports: reports read.
        sizes: per arm.
        sample_ratio: the check of the shares.
        pairs: one difference for each unordered pair of arms, in either direction; more is better.
        minimum_cohort: estimated devices that each arm must have.
        better: how people say that an arm is better.
        unit: of the differences, with a space before it.
    """
    held = _first_obstacle(reports=reports, sizes=sizes, sample_ratio=sample_ratio, minimum_cohort=minimum_cohort)
    if held is not None:
        return held
    for arm in range(len(sizes)):
        own = [pair for pair in pairs if arm in (pair.arm, pair.versus)]
        margins = [_margin(arm, pair) for pair in own]
        if all(_is_positive(margin, pair) for margin, pair in zip(margins, own, strict=True)):
            others = "the other arm" if len(sizes) == 2 else "each other arm"
            least = min(margin for margin in margins if margin is not None)
            at_least = "more than" if any(pair.excludes_ends for pair in own) else "at least"
            return Decision(
                DecisionKind.WINNER,
                arm,
                ReasonCode.BETTER,
                f"arm {arm} is {better} than {others} by {at_least} {least:.4f}{unit}",
            )
    return _hold(ReasonCode.INTERVAL_INCLUDES_ZERO, _closest_call(pairs))


def apply_silence(decision: Decision, silence: str) -> Decision:
    """Return the decision; where arms cannot be told apart because their metric says nothing, with that reason.

    Args:
        decision: by `apply_rules`.
        silence: one sentence: why the metric says nothing (`bin_metric.py`); "": it does.
    """
    if not silence or decision.code is not ReasonCode.INTERVAL_INCLUDES_ZERO:
        return decision
    return _hold(ReasonCode.METRIC_SAYS_NOTHING, silence)


def apply_guardrails(decision: Decision, harms: Mapping[int, str]) -> Decision:
    """Return the decision, or hold where its winner harms.

    Args:
        decision: by `apply_rules`.
        harms: for each arm that a guardrail calls harmful, what it says.
    """
    if decision.winner is None or decision.winner not in harms:
        return decision
    return _hold(ReasonCode.GUARDRAIL, f"{decision.reason}, but it harms: {harms[decision.winner]}")


def _first_obstacle(
    *, reports: int, sizes: Sequence[ArmSize], sample_ratio: SampleRatio, minimum_cohort: int
) -> Decision | None:
    if reports == 0:
        return _hold(ReasonCode.NO_REPORTS, "there are no reports yet")
    if sample_ratio.mismatched:
        arm = sample_ratio.mismatched[0]
        return _hold(
            ReasonCode.SAMPLE_RATIO_MISMATCH,
            f"arm {arm} should have a share of {sample_ratio.expected[arm]:.4f}, but its interval is "
            f"{_text(sample_ratio.intervals[arm])}",
        )
    smallest = min(range(len(sizes)), key=lambda arm: sizes[arm].devices)
    if sizes[smallest].devices < minimum_cohort:
        return _hold(
            ReasonCode.BELOW_MINIMUM_COHORT,
            f"arm {smallest} has about {max(sizes[smallest].devices, 0.0):.0f} devices of at least {minimum_cohort}",
        )
    for arm, size in enumerate(sizes):
        if not size.is_distinct_from_zero:
            return _hold(
                ReasonCode.BELOW_MINIMUM_COHORT,
                f"arm {arm} has about {max(size.devices, 0.0):.0f} devices, which cannot be distinguished from none",
            )
        if size.noise_variation > MAX_SIZE_VARIATION:
            return _hold(
                ReasonCode.PRIVACY_NOISE,
                f"privacy noise leaves the size of arm {arm} uncertain by {100 * size.noise_variation:.0f} % "
                f"of at most {100 * MAX_SIZE_VARIATION:.0f} %",
            )
    return None


def _hold(code: ReasonCode, reason: str) -> Decision:
    return Decision(DecisionKind.INCONCLUSIVE, None, code, reason)


def _margin(arm: int, pair: Difference) -> float | None:
    """Return the lower end of the interval for `arm` minus the other arm of the pair."""
    if pair.interval is None:
        return None
    return pair.interval.low if pair.arm == arm else -pair.interval.high


def _is_positive(margin: float | None, pair: Difference) -> bool:
    return margin is not None and (margin > 0.0 or (margin == 0.0 and pair.excludes_ends))


def _closest_call(pairs: Sequence[Difference]) -> str:
    """Return what keeps the arm that does best so far from winning: its first pair that is not decided."""
    undecided = [pair for pair in pairs if pair.interval is None or pair.interval.low <= 0.0 <= pair.interval.high]
    best = _best_arm(pairs)
    own = [pair for pair in undecided if best in (pair.arm, pair.versus)]
    first = (own or undecided or pairs)[0]
    return f"arm {first.arm} minus arm {first.versus} may be anything in {_text(first.interval)}"


def _best_arm(pairs: Sequence[Difference]) -> int:
    """Return the arm that is ahead of most others, by the estimates."""
    wins: dict[int, int] = {arm: 0 for pair in pairs for arm in sorted((pair.arm, pair.versus))}
    for pair in pairs:
        if pair.value is not None:
            wins[pair.arm if pair.value > 0 else pair.versus] += 1
    return max(wins, key=lambda arm: wins[arm])


def _text(interval: Interval | None) -> str:
    return "(unbounded)" if interval is None else f"[{interval.low:.4f}, {interval.high:.4f}]"
