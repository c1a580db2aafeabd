"""Defines a task: what the devices of an experiment or a rollout may report, one cell in each window.

A task's id is the digest of everything else it says (I3 of `document.py`).
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import math
from collections.abc import Sequence  # noqa: TC003 - kept beside the types pydantic reads
from fractions import Fraction
from typing import Annotated, Final, Self

from alcove.registry import limits
from alcove.registry.canonical import Decimal, Digest, Identifier, Part, canonical_json
from alcove.registry.policy.aggregation import Aggregation  # noqa: TC002 - pydantic reads it
from alcove.registry.policy.layout import HistogramLayout
from alcove.registry.policy.metric import MetricTerms  # noqa: TC002 - pydantic reads it
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY, Outcome
from pydantic import Field, field_serializer, field_validator, model_validator

_MICROSECONDS: Final = 1000  # in a millisecond; edges are whole microseconds

OutcomeGroups = tuple[Annotated[tuple[Outcome, ...], Field(min_length=1)], ...]

ANSWERS: Final[OutcomeGroups] = ((Outcome.REFUSED,), (Outcome.ACCEPTED,))
"""Refused and accepted answers, each counted by itself."""

METRIC_OUTCOME: Final = Outcome.ACCEPTED
"""Outcome of the full array that has the bins of a metric; the others are empty."""

_METRIC_GROUPS: Final[OutcomeGroups] = ((METRIC_OUTCOME,),)


class TaskTerms(Part):
    """Everything that a task says besides its id; `TaskPolicy` describes the fields."""

    experiment_id: Identifier
    epsilon: Decimal
    arm_count: Annotated[int, Field(strict=True, ge=2, le=limits.ARMS_MAX)]
    outcome_groups: Annotated[OutcomeGroups, Field(max_length=limits.OUTCOMES_MAX)] = ANSWERS
    latency_edges_ms: Annotated[tuple[float, ...], Field(max_length=limits.LATENCY_EDGES_MAX)]
    share_basis_points: Annotated[int, Field(strict=True, ge=1, le=limits.POLICY_BUCKETS)] = limits.POLICY_BUCKETS
    window_s: Annotated[int, Field(strict=True, ge=1, le=limits.WINDOW_MAX_S)]
    first_window_start_s: Annotated[int, Field(strict=True, ge=0, le=limits.TIME_MAX_S)]
    pre_edges: Annotated[tuple[float, ...], Field(max_length=limits.PRE_EDGES_MAX)] = ()
    is_guardrail: Annotated[bool, Field(strict=True)] = False
    subset_size: Annotated[int, Field(strict=True, ge=1, le=limits.CELLS_MAX)] = 1
    # Not written where it is None: a task without it keeps the id that it had before aggregators (decision 0038).
    aggregation: Annotated[Aggregation | None, Field(exclude_if=lambda value: value is None)] = None
    # Not written where it is None, so that a task of outcomes says nothing of metrics (decision 0053).
    metric: Annotated[MetricTerms | None, Field(exclude_if=lambda value: value is None)] = None
    # Not written where it is None, so that a task without a dimension says nothing of one (decision 0056).
    stratum: Annotated[
        int | None, Field(strict=True, ge=0, le=limits.DIMENSION_VALUES_MAX, exclude_if=lambda value: value is None)
    ] = None

    @field_validator("latency_edges_ms", "pre_edges", mode="before")
    @classmethod
    def _read_edges(cls, value: object) -> object:
        # Decimal text in the document, numbers in the program: no float is ever signed.
        if isinstance(value, (list, tuple)):
            return tuple(float(edge) if isinstance(edge, str) else edge for edge in value)
        return value

    @field_validator("latency_edges_ms")
    @classmethod
    def _validate_edges(cls, edges: tuple[float, ...]) -> tuple[float, ...]:
        for edge in edges:
            if not 0 < edge <= limits.LATENCY_EDGE_MAX_MS or round(edge * _MICROSECONDS) / _MICROSECONDS != edge:
                msg = f"a latency edge is a whole number of microseconds up to {limits.LATENCY_EDGE_MAX_MS} ms: {edge}"
                raise ValueError(msg)
        if any(low >= high for low, high in itertools.pairwise(edges)):
            msg = f"latency edges must rise: {edges}"
            raise ValueError(msg)
        return edges

    @field_validator("pre_edges")
    @classmethod
    def _validate_pre_edges(cls, edges: tuple[float, ...]) -> tuple[float, ...]:
        for edge in edges:
            if not 0 < edge < 1 or round(edge * limits.POLICY_BUCKETS) / limits.POLICY_BUCKETS != edge:
                msg = f"an edge of the earlier share is a whole number of 1/10 000 between 0 and 1: {edge}"
                raise ValueError(msg)
        if any(low >= high for low, high in itertools.pairwise(edges)):
            msg = f"edges of the earlier share must rise: {edges}"
            raise ValueError(msg)
        return edges

    @field_validator("outcome_groups")
    @classmethod
    def _validate_groups(cls, groups: OutcomeGroups) -> OutcomeGroups:
        # One meaning has one spelling: outcomes rise in a group, groups rise by their first outcome.
        counted = [outcome for group in groups for outcome in group]
        is_rising = all(low < high for group in groups for low, high in itertools.pairwise(group))
        is_rising = is_rising and all(one[0] < other[0] for one, other in itertools.pairwise(groups))
        if not is_rising or len(set(counted)) != len(counted):
            msg = f"groups of outcomes are apart, rising, and stand by their first: {_group_text(groups)}"
            raise ValueError(msg)
        return groups

    @field_serializer("latency_edges_ms")
    def _write_edges(self, edges: tuple[float, ...]) -> list[str]:
        return [_millisecond_text(edge) for edge in edges]

    @field_serializer("pre_edges")
    def _write_pre_edges(self, edges: tuple[float, ...]) -> list[str]:
        return [f"0.{round(edge * limits.POLICY_BUCKETS):04d}".rstrip("0") for edge in edges]

    @model_validator(mode="after")
    def _validate_terms(self) -> Self:
        self._validate_question()
        if not 0 < self.epsilon_fraction <= limits.EPSILON_MAX:
            msg = f"epsilon must be in (0, {limits.EPSILON_MAX}], got {self.epsilon}"
            raise ValueError(msg)
        if self.cell_count > limits.CELLS_MAX:
            msg = f"a task has at most {limits.CELLS_MAX} cells, this one {self.cell_count}"
            raise ValueError(msg)
        if self.latency_edges_ms and not any(OUTCOMES_WITH_LATENCY.issuperset(group) for group in self.outcome_groups):
            msg = (
                "latency edges need a group of outcomes that all carry a latency"
                f" ({_group_text((tuple(sorted(OUTCOMES_WITH_LATENCY)),))}), got {_group_text(self.outcome_groups)}"
            )
            raise ValueError(msg)
        most = 1 if self.aggregation is not None else self.cell_count - 1
        if self.subset_size > most:
            msg = (
                f"subset_size is at most {most} of {self.cell_count} cells (1 with aggregators), got {self.subset_size}"
            )
            raise ValueError(msg)
        if self.aggregation is not None and self.first_window_start_s % self.window_s:
            msg = (
                f"with aggregators windows are counted from 1970: first_window_start_s must be a multiple of"
                f" {self.window_s}, got {self.first_window_start_s}"
            )
            raise ValueError(msg)
        return self

    def _validate_question(self) -> None:
        """Refuse a task that asks for nothing, or for two things.

        Raises:
            ValueError: it counts neither outcomes nor a metric, or both.
        """
        if self.metric is None and not self.outcome_groups:
            msg = "a task counts a group of outcomes, or a metric"
            raise ValueError(msg)
        if self.metric is not None and (self.outcome_groups or self.latency_edges_ms or self.pre_edges):
            msg = "a task of a metric has its bins alone: no outcomes, no latency edges, none of an earlier share"
            raise ValueError(msg)

    @property
    def epsilon_fraction(self) -> Fraction:
        """Privacy loss of one report, or of one window's sums where aggregators add them up; exact."""
        return Fraction(self.epsilon)

    @property
    def layout(self) -> HistogramLayout:
        """Order of the cells: one more latency bin than edges; with covariate edges one more bin, 0, for "unknown"."""
        if self.metric is not None:
            return _layout(self.arm_count, _METRIC_GROUPS, self.metric.bin_count, 1)
        return _layout(
            self.arm_count,
            self.outcome_groups,
            len(self.latency_edges_ms) + 1,
            len(self.pre_edges) + 2 if self.pre_edges else 1,
        )

    @property
    def cell_count(self) -> int:
        """Number of cells a report may name."""
        return self.layout.cell_count

    def digest(self) -> str:
        """Return the id that a task with these terms has, 64 hex digits."""
        terms = self.model_dump(mode="json", include=set(TaskTerms.model_fields))
        return hashlib.sha256(canonical_json(terms)).hexdigest()


class TaskPolicy(TaskTerms):
    """The report of an experiment's device in each window: one cell of arm, outcome, latency and earlier share.

    Attributes:
        task_id: 64 hex digits, the digest of all other fields (`make_task` computes it).
        experiment_id: the experiment or rollout that it measures.
        epsilon: privacy loss, decimal text: of one report against everybody (randomized response), or of one window's
            sums against everybody but one of the aggregators (`aggregation`).
        arm_count: arms, numbered as in the experiment; in a rollout 0 = control, 1 = treatment.
        outcome_groups: outcomes that are counted, numbered as in `Outcome`, each group as one; an outcome in no group
            makes no report.  None in a task of a metric.
        latency_edges_ms: rising; bin i holds edge[i-1] <= latency < edge[i]; whole microseconds.  Groups whose outcomes
            all carry a latency have these bins, the others one.
        share_basis_points: part of the comparison's devices that report this task, in 1/10 000; each device reports
            one of its tasks (`assignment.py` draws which).
        window_s: seconds in which a device reports at most once.
        first_window_start_s: seconds since 1970 at which window 0 begins.
        pre_edges: rising, in (0, 1), whole 1/10 000: bins of the accepted share among the device's answers before it
            met the task, `pre_bin` says which; empty: reports say nothing of it (docs/decisions/0022).
        metric: what the device adds up in the place of outcomes (`metric.py`); its bins stand where latency bins do.
        is_guardrail: it watches a rollout; its reports may spend what experiments leave in reserve.
        subset_size: cells that a randomized report names: 1, k-ary randomized response, or a set of them, subset
            selection; 1 with aggregators.
        aggregation: the two aggregators that add reports up by Prio3; windows then begin at multiples of `window_s`,
            as DAP counts time. None: each report is a cell, or a set of them, that the device randomized.
        stratum: number of the value of the experiment's dimension whose devices report it; None: those of all values.
    """

    task_id: Digest

    @model_validator(mode="after")
    def _validate_id(self) -> Self:
        expected = self.digest()
        if self.task_id != expected:
            msg = f"task_id must be the digest of the task, {expected}, got {self.task_id}"
            raise ValueError(msg)
        return self

    def pre_bin(self, answers: int, accepted: int) -> int:
        """Return the bin of a device that took `accepted` of `answers` before it met the task.

        0 stands for fewer than `limits.PRE_ANSWERS_MIN` answers; bin i + 1 holds edge[i-1] <= share < edge[i].

        Raises:
            ValueError: the counts are none.
        """
        if not 0 <= accepted <= answers:
            msg = f"accepted answers must be in [0, {answers}], got {accepted}"
            raise ValueError(msg)
        if not self.pre_edges or answers < limits.PRE_ANSWERS_MIN:
            return 0
        return bisect.bisect_right(self.pre_edges, accepted / answers) + 1

    def cell_index(self, arm: int, outcome: int, latency_ms: float, pre_bin: int = 0) -> int:
        """Return the cell of one measurement in the order of `layout`, in [0, cell_count).

        Raises:
            ValueError: arm or bin out of range, an outcome that is not counted, latency negative or not a number.
        """
        if math.isnan(latency_ms) or latency_ms < 0:
            msg = f"latency must be at least 0 ms, got {latency_ms}"
            raise ValueError(msg)
        layout = self.layout
        latency_bin = bisect.bisect_right(self.latency_edges_ms, latency_ms)
        return layout.cell_index(arm, outcome, latency_bin if layout.latency_bins_of(outcome) > 1 else 0, pre_bin)

    def metric_cell(self, arm: int, records: int, total: float) -> int:
        """Return the cell of a window's result of the task's metric, as `MetricTerms.bin_of` has it.

        Raises:
            ValueError: the arm is out of range, or the task has no metric.
        """
        if self.metric is None:
            msg = "the task has no metric"
            raise ValueError(msg)
        return self.layout.cell_index(arm, METRIC_OUTCOME, self.metric.bin_of(records, total))

    def window_at(self, now_s: int) -> int | None:
        """Return the number of the window that holds `now_s`, or None before the first one."""
        elapsed_s = now_s - self.first_window_start_s
        return None if elapsed_s < 0 else elapsed_s // self.window_s


def make_task(
    *,
    experiment_id: str,
    epsilon: str,
    arm_count: int,
    latency_edges_ms: Sequence[float],
    window_s: int,
    first_window_start_s: int,
    outcome_groups: Sequence[Sequence[Outcome]] | None = None,
    pre_edges: Sequence[float] = (),
    share_basis_points: int = limits.POLICY_BUCKETS,
    is_guardrail: bool = False,
    subset_size: int = 1,
    aggregation: Aggregation | None = None,
    metric: MetricTerms | None = None,
) -> TaskPolicy:
    """Return the task with its id computed; where neither outcomes nor a metric are named, it counts `ANSWERS`.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    if outcome_groups is None:
        outcome_groups = ANSWERS if metric is None else ()
    terms = TaskTerms(
        experiment_id=experiment_id,
        epsilon=epsilon,
        arm_count=arm_count,
        outcome_groups=tuple(map(tuple, outcome_groups)),
        latency_edges_ms=tuple(latency_edges_ms),
        share_basis_points=share_basis_points,
        window_s=window_s,
        first_window_start_s=first_window_start_s,
        pre_edges=tuple(pre_edges),
        is_guardrail=is_guardrail,
        subset_size=subset_size,
        aggregation=aggregation,
        metric=metric,
    )
    return TaskPolicy(task_id=terms.digest(), **dict(terms))


def in_stratum(task: TaskPolicy, stratum: int | None) -> TaskPolicy:
    """Return the task of another value of a dimension; None: of all values together.

    Raises:
        pydantic.ValidationError: the number is none of a value.
    """
    named = {name: getattr(task, name) for name in TaskTerms.model_fields}
    terms = TaskTerms.model_validate(named | {"stratum": stratum})
    return TaskPolicy(task_id=terms.digest(), **dict(terms))


@functools.lru_cache(maxsize=256)
def _layout(arms: int, groups: OutcomeGroups, latency_bins: int, covariate_bins: int) -> HistogramLayout:
    """Return a layout; the same one again, because it remembers what it computed."""
    return HistogramLayout.of_groups(arms, groups, latency_bins=latency_bins, covariate_bins=covariate_bins)


def _group_text(groups: OutcomeGroups) -> str:
    return ", ".join(" + ".join(outcome.name.lower() for outcome in group) for group in groups)


def _millisecond_text(edge_ms: float) -> str:
    whole, rest = divmod(round(edge_ms * _MICROSECONDS), _MICROSECONDS)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
