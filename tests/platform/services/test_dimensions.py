"""Experiments with a dimension, from the request to what an operator reads."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.cli.experiment_results import show_results
from alcove.platform.cli.report.page import page_of
from alcove.platform.client import ExperimentReport
from alcove.platform.client.models import value_of
from alcove.platform.domain.errors import IllegalTransitionError, InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.server.experiment_convert import experiment_message, results_message
from alcove.platform.server.experiment_views import bayesian_message, dimension_message, secondary_view_message
from alcove.platform.services.experiments import engine
from alcove.platform.services.experiments.engine import ArmSpec, ExperimentSpec
from alcove.platform.services.experiments.monitor import due_experiments
from alcove.platform.store import Store
from alcove.platform.store.publications import last_publication
from alcove.platform.store.running_tasks import running_tasks
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.policy import parse_dimension, policy_from_bytes

from tests.platform.services.test_own_experiment_guardrails import BAD, GOOD, defined, report, start

__all__ = ["defined"]  # a fixture


def spec(dimension: str, **changes: Any) -> ExperimentSpec:
    """Two arms by a dimension."""
    plan = replace(ExperimentPlan(dimension=dimension), **changes)
    arms = (ArmSpec("old", "1.0.0", 5000), ArmSpec("new", "2.0.0", 5000))
    return ExperimentSpec("app", "f", arms, "2", (), 86_400, 100, plan)


def with_dimension(text: str, before: ExperimentSpec) -> ExperimentSpec:
    """The same experiment by another dimension."""
    return replace(before, plan=replace(before.plan, dimension=text))


async def read(store: Store, record: ExperimentRecord) -> ExperimentReport:
    """Return what the client gets."""
    async with store.read() as session:
        found, results, views = await engine.read(session, record.experiment_id)
    message = results_message(found, results)
    message.bayesian.CopyFrom(bayesian_message(views.bayesian))
    message.secondary.CopyFrom(secondary_view_message(views))
    if views.dimension is not None:
        message.dimension.CopyFrom(dimension_message(views.dimension))
    answer = pb.GetResultsResponse(experiment=experiment_message(found), results=message)
    return value_of(ExperimentReport, answer)


async def test_policy_has_a_task_for_each_value_and_the_server_takes_their_reports(defined: Store) -> None:
    """The signed policy names the dimension; what was asked for is kept in its one spelling."""
    record = await start(defined, spec("os = ios , android"))
    assert record.plan.dimension == "os=android,ios"
    async with defined.read() as session:
        published = await last_publication(session, "policy", "app")
        running = await running_tasks(session)
    assert published is not None
    (experiment,) = policy_from_bytes(published.document).features["f"].experiments
    assert experiment.dimension == parse_dimension("os=android,ios")
    assert experiment.tasks == tasks_of(record)
    assert set(running) == {task.task_id for task in experiment.tasks}
    assert len(running) == 3


async def test_results_are_of_all_values_and_by_value(defined: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """One decision from all reports; as text and as a page what each value says, and why one says nothing."""
    record = await start(defined, spec("os=android,ios"))
    android, ios, _ = tasks_of(record)
    await report(defined, android, BAD, GOOD, 100_000)
    await report(defined, ios, BAD, BAD, 100_000)
    found = await read(defined, record)
    assert found.experiment.dimension == "os=android,ios"
    assert found.results.report_count == 400_000
    assert found.results.decision.kind == "winner"
    view = found.results.dimension
    assert view is not None
    assert [(one.value, one.report_count) for one in view.strata] == [
        ("android", 200_000),
        ("ios", 200_000),
        ("other", 0),
    ]
    (better,), (level,), none = (one.differences for one in view.strata)
    assert better.difference.value == pytest.approx(0.4, abs=1e-3)
    assert level.difference.value == pytest.approx(0.0, abs=1e-3)
    assert none == ()
    assert found.results.primary[0].difference.value == pytest.approx(0.2, abs=1e-3)
    show_results(found)
    said = " ".join(capsys.readouterr().out.split())
    page = page_of(found)
    for text in (said, page):
        assert "By os=android,ios; this decides nothing" in text
        assert "Cochran" in text
        assert "no report" in text


async def test_dimension_is_stated_before_the_start(defined: Store) -> None:
    """A draft may take another one or none; what has begun may not, so that nobody looks for a value that suits."""
    async with defined.write() as session:
        uow = UnitOfWork(session, "operator/a", 1000)
        made = await engine.create(uow, spec("os=android,ios"))
        for text in ("app_version=2.0,3.0", "", "device_class=phone"):
            changed = await engine.update(uow, made.experiment_id, partial(with_dimension, text))
            assert changed.plan.dimension == (str(parse_dimension(text)) if text else "")
        with pytest.raises(InvalidFieldError, match="dimension: expected a dimension"):
            await engine.create(uow, spec("os=android,ios;locale=de"))
        await engine.start(uow, made.experiment_id)
    async with defined.write() as session:
        with pytest.raises(IllegalTransitionError):
            await engine.update(UnitOfWork(session, "operator/a", 2000), made.experiment_id, lambda before: before)


async def test_planned_analyses_wait_for_the_reports_of_all_values(defined: Store) -> None:
    """Two values with half of the horizon each make the last analysis due."""
    record = await start(defined, spec("os=android,ios", interim_analyses=1, horizon_reports=20_000))
    android, ios, _ = tasks_of(record)
    await report(defined, android, BAD, GOOD, 5000)
    async with defined.read() as session:
        assert await due_experiments(session) == []
    await report(defined, ios, BAD, GOOD, 5100)
    async with defined.read() as session:
        assert await due_experiments(session) == [record.experiment_id]
