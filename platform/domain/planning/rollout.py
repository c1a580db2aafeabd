"""Forecasts a rollout: how many devices each stage needs to find harm, and to find a sound version safe.

Each stage below everybody is planned by itself, with the reports of its own: treatment and a control of the same size,
every device of which reports in each window as far as its ledger pays. Harm is asked for at the end of each window,
safety at the end of each up to the horizon; both by the tests that will run (`stats/guardrail_power.py`).
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Final

from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.mechanism import report_model_of
from alcove.platform.domain.own_metrics import own_name
from alcove.platform.domain.planning.guardrails import PlannedGuardrail, guardrail_of, own_guardrail_of
from alcove.platform.domain.planning.harm import harm_test
from alcove.platform.domain.rollout_records import RolloutPlan, Stage
from alcove.platform.domain.rollouts.analysis import ALPHA
from alcove.platform.domain.rollouts.task import questions_of, task_of, tasks_of
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import HarmTest, SafeTest, devices_for
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy import TaskPolicy

__all__ = [
    "HARM_POWER",
    "SAFE_POWER",
    "GuardrailForecast",
    "PowerPoint",
    "ReportSchedule",
    "RolloutForecast",
    "RolloutQuestion",
    "StageForecast",
    "StageNeeds",
    "forecast_rollout",
    "needs_of_first_stage",
    "schedule_reports",
]

HARM_POWER: Final = 0.95
"""Chance with which harm shall be found: a version that crashes should not be missed."""

SAFE_POWER: Final = 0.8
"""Chance with which a sound version shall be found safe: a stage that holds costs time, not safety."""

HARM_MARGINS: Final = 4
"""Margins by which a version is worse that shall be found, where nothing else is asked for."""

PERIOD_DAYS: Final = 30
_CURVE_POINTS: Final = 11


@dataclass(frozen=True)
class RolloutQuestion:
    """What is asked of a plan.

    Attributes:
        plan: with stages and guardrails, its defaults in place.
        behavior: of the version in use.
        differences: by how much worse a version is that shall be found, in the order of what the plan watches, in each
            metric's unit; 0, or none: `HARM_MARGINS` times the margin.
        harm_days: days of a stage within which harm shall be found, >= 1.
        reports: how reports are made private where the plan is to be compared with another way; None: as it says.
        schedule: of a device's reports, likewise; None: as its ledger pays for them.
        spreads: part of the devices in each bin of own metrics, by their names; the worst case for those without.
    """

    plan: RolloutPlan
    behavior: Behavior = Behavior()  # noqa: RUF009 - immutable
    differences: tuple[float, ...] = ()
    harm_days: int = 2
    reports: ReportModel | None = None
    schedule: "ReportSchedule | None" = None
    spreads: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """Devices of the app, or the audience; 0: not known."""
        return self.plan.expected_devices


@dataclass(frozen=True)
class PowerPoint:
    """The chance to find a difference."""

    difference: float
    power: float


@dataclass(frozen=True)
class GuardrailForecast:
    """One guardrail at one stage; numbers of devices are the app's, 0 where no number is enough.

    Margins, rates and differences are in the metric's unit.

    Attributes:
        metric: what is watched, a name of `RolloutPlan.watched`.
        margin: by how much worse it may be.
        base_rate: that is expected of the version in use.
        difference: by how much worse a version is that shall be found.
        devices_to_find_harm: that find it within the question's days, with `HARM_POWER`.
        harm_power: chance that the app's devices find it within these days; 0: their number is not known.
        detectable: smallest difference that the app's devices find by the horizon, with `HARM_POWER`; 0: none, or their
            number is not known.
        devices_to_be_safe: that find a sound version safe by the horizon, with `SAFE_POWER`, by this guardrail alone.
        safe_power: chance that the app's devices do; 0: their number is not known.
        curve: chance that the app's devices, or as many as find harm, find a difference by the horizon.
        is_planned: False: the test has no plan, and all of the above is 0.
    """

    metric: str
    margin: float
    base_rate: float = 0.0
    difference: float = 0.0
    devices_to_find_harm: int = 0
    harm_power: float = 0.0
    detectable: float = 0.0
    devices_to_be_safe: int = 0
    safe_power: float = 0.0
    curve: tuple[PowerPoint, ...] = ()
    is_planned: bool = True


@dataclass(frozen=True)
class StageForecast:
    """One stage that is compared with a control.

    Attributes:
        stage: its number, from 1.
        share_basis_points: devices that run the version.
        guardrails: in the order of what the plan watches.
        devices_to_be_safe: of the app, with which all of them find a sound version safe by the horizon with
            `SAFE_POWER`; 0: no number.
        days_to_be_safe: days until the app's devices do; 0: not by the horizon, or their number is not known.
        warning: one sentence where the app's devices are too few; "": they are not, or their number is not known.
    """

    stage: int
    share_basis_points: int
    guardrails: tuple[GuardrailForecast, ...]
    devices_to_be_safe: int
    days_to_be_safe: int
    warning: str


@dataclass(frozen=True)
class StageNeeds:
    """What one stage needs to find a sound version safe: cells of a report, devices and days as in `StageForecast`."""

    cells: int
    devices_to_be_safe: int
    days_to_be_safe: int


@dataclass(frozen=True)
class RolloutForecast:
    """What a plan would find.

    Attributes:
        stages: those that are compared with a control.
        cells: of a report.
        horizon_windows: at whose ends a stage may be found safe.
        horizon_days: at whose end the last of them lies.
        harm_windows: reports of one device within the question's days.
    """

    stages: tuple[StageForecast, ...]
    cells: int
    horizon_windows: int
    horizon_days: int
    harm_windows: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each stage that has too few devices."""
        return tuple(stage.warning for stage in self.stages if stage.warning)


@dataclass(frozen=True)
class ReportSchedule:
    """When the reports of one device are in.

    Attributes:
        ends: windows that are over then, of each report; rising.
        window_s: seconds of a window.
    """

    ends: tuple[int, ...]
    window_s: int

    @property
    def days(self) -> tuple[int, ...]:
        """The days at whose end each report is in."""
        return tuple(-(-end * self.window_s // DAY_S) for end in self.ends)

    def until(self, windows: int) -> "ReportSchedule":
        """Return the reports that are in when so many windows are over; the first one at least."""
        return replace(self, ends=tuple(end for end in self.ends if end <= windows) or self.ends[:1])


def schedule_reports(epsilon: Fraction, window_s: int, *, may_use_reserve: bool) -> ReportSchedule:
    """Return when a device that spends as early as it may reports, over `PERIOD_DAYS` days; once at least.

    Args:
        epsilon: privacy loss of a report.
        window_s: seconds of a window.
        may_use_reserve: the reports are a guardrail's.
    """
    windows = max(1, PERIOD_DAYS * DAY_S // window_s)
    times_s = debit_times_s(epsilon, window_s, windows, may_use_reserve=may_use_reserve)
    ends = tuple(time_s // window_s + 1 for time_s in times_s if time_s < PERIOD_DAYS * DAY_S)
    return ReportSchedule(ends or (1,), window_s)


def forecast_rollout(question: RolloutQuestion) -> RolloutForecast:
    """Return what a plan would find, stage by stage."""
    plan = question.plan
    task, _, horizon = _terms_of(question)
    stages = tuple(
        _forecast_stage(question, task, number, stage, horizon)
        for number, stage in enumerate(plan.stages, 1)
        if stage.share_basis_points < POLICY_BUCKETS and plan.watched
    )
    return RolloutForecast(stages, task.cell_count, horizon.windows, horizon.schedule.days[-1], horizon.harm_windows)


def needs_of_first_stage(question: RolloutQuestion) -> StageNeeds:
    """Return what the first stage of a plan needs for a sound version to be found safe."""
    task, _, horizon = _terms_of(question)
    groups = _groups_of(question.plan, task, question.plan.stages[0], horizon)
    known = [each for each in _planned_guardrails(question, task, groups) if each is not None]
    return StageNeeds(task.cell_count, *_safety(question.devices, known, groups, horizon))


def _terms_of(question: RolloutQuestion) -> "tuple[TaskPolicy, ReportModel, _Horizon]":
    task = _largest_task(question.plan)
    reports = question.reports or report_model_of(task)
    plan = question.plan
    schedule = question.schedule or schedule_reports(reports.epsilon, plan.window_s, may_use_reserve=True)
    last = plan.horizon_windows or schedule.ends[-1]
    schedule = schedule.until(last)
    within = max(1, sum(day <= question.harm_days for day in schedule.days))
    return task, reports, _Horizon(len(schedule.ends), schedule, max(last, schedule.ends[-1]), within)


def _largest_task(plan: RolloutPlan) -> TaskPolicy:
    """Return the task of all that is watched, where it is one question, else the one with the most cells."""
    if not plan.own_guardrails:
        return task_of("ro-0", plan, 0)
    return max(tasks_of("ro-0", plan, 0), key=lambda task: task.cell_count)


@dataclass(frozen=True)
class _Horizon:
    """Reports of one device until the horizon, when they are in, the horizon in windows, and reports to find harm."""

    windows: int
    schedule: ReportSchedule
    last: int
    harm_windows: int


@dataclass(frozen=True)
class _Groups:
    """The devices of a stage: their number from the app's, the least that any rule asks for, and the tests."""

    share: float
    control: float
    least: int
    windows: int
    harm_windows: int
    harm: HarmTest
    safe: SafeTest | HarmTest

    def harm_chance(self, guardrail: PlannedGuardrail, difference: float, windows: int, devices: int) -> float:
        """Return the chance that the app's devices find a difference harmful."""
        return guardrail.model.harm_power(difference, self._reporting(guardrail, devices, windows), windows, self.harm)

    def safe_chance(self, guardrails: Sequence[PlannedGuardrail], windows: int, devices: int) -> float:
        """Return the chance that each guardrail finds a sound version safe; they are taken to be independent."""
        chance = 1.0 if devices >= self.least else 0.0
        for guardrail in guardrails:
            if chance:
                reporting = self._reporting(guardrail, devices, windows)
                chance *= guardrail.model.safe_power(reporting, windows, self.safe)
        return chance

    def detectable(self, guardrail: PlannedGuardrail, devices: int) -> float:
        """Return the smallest difference that the app's devices find by the horizon; 0: none."""
        reporting = self._reporting(guardrail, devices, self.windows)
        return guardrail.model.detectable(reporting, self.windows, self.harm, power=HARM_POWER) or 0.0

    def _reporting(self, guardrail: PlannedGuardrail, devices: int, windows: int) -> float:
        """Return the devices that report: no more than an aggregate holds the reports of, which find anything."""
        return min(devices * (self.share + self.control) * guardrail.reporting, MAX_REPORTS // windows)


def _forecast_stage(
    question: RolloutQuestion, task: TaskPolicy, number: int, stage: Stage, horizon: _Horizon
) -> StageForecast:
    groups = _groups_of(question.plan, task, stage, horizon)
    planned = _planned_guardrails(question, task, groups)
    known = [guardrail for guardrail in planned if guardrail is not None]
    needs, days = _safety(question.devices, known, groups, horizon)
    forecast = StageForecast(
        stage=number,
        share_basis_points=stage.share_basis_points,
        guardrails=tuple(
            _forecast_guardrail(question, place, guardrail, groups) for place, guardrail in enumerate(planned)
        ),
        devices_to_be_safe=needs,
        days_to_be_safe=days,
        warning="",
    )
    if question.devices and known and not days:
        return replace(forecast, warning=_warning(forecast, question.devices))
    return forecast


def _planned_guardrails(question: RolloutQuestion, task: TaskPolicy, groups: _Groups) -> list[PlannedGuardrail | None]:
    both = groups.share + groups.control
    split = (groups.control / both, groups.share / both)
    plan = question.plan
    found: list[PlannedGuardrail | None] = []
    tasks = tasks_of(task.experiment_id, plan, task.first_window_start_s)
    for record in plan.guardrails:
        asked = next(own for each, own in zip(questions_of(plan), tasks, strict=True) if record.metric in each.metrics)
        own = question.reports or report_model_of(asked)
        planned = guardrail_of(record, asked, question.behavior, split, own)
        part = asked.share_basis_points / POLICY_BUCKETS
        found.append(None if planned is None else replace(planned, reporting=planned.reporting * part))
    for watched in plan.own_guardrails:
        name = own_name(watched.metric.name)
        asked = next(each for own, each in zip(questions_of(plan), tasks, strict=True) if name in own.metrics)
        parts = question.spreads.get(watched.metric.name, ())
        planned = own_guardrail_of(watched, parts, split, question.reports or report_model_of(asked))
        found.append(replace(planned, reporting=asked.share_basis_points / POLICY_BUCKETS))
    return found


def _safety(devices: int, known: list[PlannedGuardrail], groups: _Groups, horizon: _Horizon) -> tuple[int, int]:
    """Return the devices that find a sound version safe by the horizon, and the days that `devices` take; 0: never."""
    if not known:
        return 0, 0
    needs = devices_for(partial(groups.safe_chance, known, horizon.windows), SAFE_POWER) or 0
    if not devices:
        return needs, 0
    # The chance rises with the windows, of which there may be hundreds.
    first = bisect_left(
        range(horizon.windows), True, key=lambda place: groups.safe_chance(known, place + 1, devices) >= SAFE_POWER
    )
    return needs, horizon.schedule.days[first] if first < horizon.windows else 0


def _groups_of(plan: RolloutPlan, task: TaskPolicy, stage: Stage, horizon: _Horizon) -> _Groups:
    share = stage.share_basis_points / POLICY_BUCKETS
    control = min(share, 1.0 - share)
    harm = harm_test(plan, stage, horizon.schedule.ends)
    batch = 0 if task.aggregation is None else task.aggregation.min_batch_size
    return _Groups(
        share=share,
        control=control,
        least=max(round(stage.minimum_cohort / control), round(batch / (share + control)), 1),
        windows=horizon.windows,
        harm_windows=horizon.harm_windows,
        harm=harm,
        safe=HarmTest(ALPHA, harm.planned_windows, harm.later_windows)
        if plan.is_open_ended
        else SafeTest(ALPHA, horizon.schedule.ends, horizon.last),
    )


def _forecast_guardrail(
    question: RolloutQuestion, place: int, guardrail: PlannedGuardrail | None, groups: _Groups
) -> GuardrailForecast:
    plan = question.plan
    margin = (*(each.margin for each in plan.guardrails), *(each.margin for each in plan.own_guardrails))[place]
    if guardrail is None:
        return GuardrailForecast(plan.watched[place], margin, is_planned=False)
    asked = question.differences[place] if place < len(question.differences) else 0.0
    scale = guardrail.scale
    difference = (asked or HARM_MARGINS * margin) / scale
    if place >= len(plan.guardrails):
        difference = min(difference, guardrail.model.largest_difference)
    within = groups.harm_windows
    harm: Callable[[int], float] = partial(groups.harm_chance, guardrail, difference, within)
    to_find = devices_for(harm, HARM_POWER) or 0
    shown = question.devices or to_find
    largest = max(2.0 * difference, 1.5 * groups.detectable(guardrail, shown) if shown else 0.0)
    largest = min(largest, guardrail.model.largest_difference)
    steps = [largest * step / (_CURVE_POINTS - 1) for step in range(_CURVE_POINTS)]
    return GuardrailForecast(
        metric=plan.watched[place],
        margin=margin,
        base_rate=guardrail.base_rate,
        difference=difference * scale,
        devices_to_find_harm=to_find,
        harm_power=harm(question.devices) if question.devices else 0.0,
        detectable=scale * groups.detectable(guardrail, question.devices) if question.devices else 0.0,
        devices_to_be_safe=devices_for(partial(groups.safe_chance, [guardrail], groups.windows), SAFE_POWER) or 0,
        safe_power=groups.safe_chance([guardrail], groups.windows, question.devices) if question.devices else 0.0,
        curve=tuple(
            PowerPoint(step * scale, groups.harm_chance(guardrail, step, groups.windows, shown)) for step in steps
        )
        if shown
        else (),
    )


def _warning(stage: StageForecast, devices: int) -> str:
    share = f"{stage.share_basis_points / 100:g} %"
    needs = (
        f"{count_text(stage.devices_to_be_safe)} devices" if stage.devices_to_be_safe else "more devices than there are"
    )
    return (
        f"the stage of {share} will hold for ever: to be found safe it needs {needs}, the app has {count_text(devices)}"
    )


def count_text(devices: int) -> str:
    """Return a number of devices as people say it, such as "187 M"."""
    for unit, name in ((10**9, " G"), (10**6, " M"), (10**3, ",000")):
        if devices >= 100 * unit:
            return f"{round(devices / unit)}{name}"
        if devices >= unit > 10**3:
            return f"{devices / unit:.3g}{name}"
    return f"{devices:,}"
