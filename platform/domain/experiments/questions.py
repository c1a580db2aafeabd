"""Lists the questions that an experiment asks its devices, of which each device answers one.  Pure.

    outcomes     what came of the answers: one report that the metric and the guardrails of every feature read
    own metric   the bin of a metric of the team's own: one question for each

What decides is asked first.  Outcomes are asked where something reads them, and own metrics where they decide, guard or
are asked for by name.  Shares that the plan states stay; the other questions have equal parts of the rest, the first
one what is left over.  A secondary metric asks nothing: it reads what is there.
A dimension tells the reports of the first question apart, and those of no other.
"""

from collections.abc import Mapping
from dataclasses import replace

from alcove.platform.domain.audience import validate_audience
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.own_metrics import OwnMetric
from alcove.platform.domain.reports import Reports
from alcove.registry.errors import AudienceError
from alcove.registry.limits import POLICY_BUCKETS, TASKS_MAX
from alcove.registry.policy import Dimension, parse_dimension
from alcove.registry.policy.dimension import OTHER

__all__ = [
    "OUTCOMES",
    "dimension_of",
    "questions_of",
    "reports_by_question",
    "shares_by_question",
    "strata_count",
    "validate_dimension",
]

OUTCOMES = ""
"""Name of the question of outcomes beside those of own metrics, each of which goes by its metric's name."""


def questions_of(plan: ExperimentPlan) -> dict[str, OwnMetric | None]:
    """Return the questions by their names, in order, each with its metric; None: outcomes."""
    found: dict[str, OwnMetric | None] = {}
    if plan.own_primary is not None:
        found[plan.own_primary.name] = plan.own_primary
    if plan.own_primary is None or plan.guardrails:
        found[OUTCOMES] = None
    asked = (*(each.metric for each in plan.own_guardrails), *(each.metric for each in plan.own_questions))
    for metric in asked:
        found.setdefault(metric.name, metric)
    return found


def shares_by_question(plan: ExperimentPlan) -> dict[str, int]:
    """Return the part of the devices that each question is asked of, in 1/10 000, together 10 000.

    Where the stated shares leave nothing for the others, these have 0; `validate_own` refuses such a plan.
    """
    names = list(questions_of(plan))
    stated = {each.metric.name: each.share_basis_points for each in plan.own_questions}
    others = [name for name in names if name not in stated]
    rest = max(0, POLICY_BUCKETS - sum(stated.values()))
    part = rest // max(1, len(others))
    shares = {name: stated.get(name, part) for name in names}
    if others:
        shares[others[0]] += rest - part * len(others)
    return shares


def dimension_of(plan: ExperimentPlan) -> Dimension | None:
    """Return the dimension by which the reports that decide are told apart; None: there is none.

    Raises:
        InvalidFieldError: the text is no dimension, or cuts memory between the steps that devices know.
    """
    if not plan.dimension:
        return None
    try:
        dimension = parse_dimension(plan.dimension)
    except AudienceError as error:
        raise InvalidFieldError("dimension", f"a dimension: {error}", plan.dimension) from None
    for audience in dimension.audiences:
        try:
            validate_audience(str(audience))
        except InvalidFieldError as error:
            raise InvalidFieldError("dimension", error.bound, plan.dimension) from None
    return dimension


def strata_count(plan: ExperimentPlan) -> int:
    """Return how many tasks the question that decides has: one for each value of the dimension, or one.

    Raises:
        InvalidFieldError: as `dimension_of`.
    """
    dimension = dimension_of(plan)
    return 1 if dimension is None else len(dimension.names)


def validate_dimension(plan: ExperimentPlan) -> ExperimentPlan:
    """Return the plan with its dimension in canonical text.

    Raises:
        InvalidFieldError: as `dimension_of`, values and other questions are more tasks than an experiment has, or a
            bandit moves shares.
    """
    dimension = dimension_of(plan)
    if dimension is None:
        return replace(plan, dimension="")
    if plan.bandit is not None:
        raise InvalidFieldError("dimension", "absent where a bandit moves the arms' shares", plan.dimension)
    others = len(questions_of(plan)) - 1
    if len(dimension.names) + others > TASKS_MAX:
        bound = f"at most {TASKS_MAX - others} values with {OTHER!r}, beside {others} other questions"
        raise InvalidFieldError("dimension", bound, str(dimension))
    return replace(plan, dimension=str(dimension))


def reports_by_question(plan: ExperimentPlan, reports: Reports) -> Mapping[str, Reports]:
    """Return the reports of each question; those that nobody read are left out."""
    return dict(zip(questions_of(plan), (reports, *reports.others), strict=False))
