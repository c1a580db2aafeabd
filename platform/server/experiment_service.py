"""Implements ExperimentService: creates, changes, starts, stops and lists experiments, and gives their results."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.api.experiment.v1 import experiment_pb2_grpc as rpc
from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.experiments.search import page_token, parse_query
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.principal import current_principal
from alcove.platform.domain.records import ExperimentRecord, ExperimentState
from alcove.platform.server.experiment_convert import (
    collection_message,
    experiment_message,
    experiment_spec,
    order_from,
    results_message,
    states_from,
    update_spec,
)
from alcove.platform.server.experiment_views import (
    allocation_message,
    bayesian_message,
    cells_message,
    dimension_message,
    secondary_view_message,
)
from alcove.platform.server.watching import changes, read_shared
from alcove.platform.services.collection import read_status
from alcove.platform.services.experiments import engine
from alcove.platform.services.mutations import Mutations
from alcove.platform.store import Store
from alcove.platform.store.experiments import count_experiments, get_experiment, list_experiments
from alcove.platform.store.reports import report_marks
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.policy import Aggregation
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ExperimentService"]

_Read = TypeVar("_Read")


class ExperimentService(rpc.ExperimentServiceServicer):
    """Comparisons of versions, decided by statistics over private reports."""

    def __init__(self, mutations: Mutations, aggregators: Aggregation | None) -> None:
        self._mutations = mutations
        self._aggregators = aggregators
        self._evaluations = Turns(limits.CALLER_SEARCHES)

    async def CreateExperiment(self, request: pb.CreateExperimentRequest, context: Any) -> pb.CreateExperimentResponse:
        """Create a draft."""

        async def work(uow: UnitOfWork) -> pb.CreateExperimentResponse:
            record = await engine.create(uow, experiment_spec(request, self._aggregators))
            return pb.CreateExperimentResponse(experiment=experiment_message(record))

        return await self._mutations.run(request, pb.CreateExperimentResponse, work)

    async def UpdateExperiment(self, request: pb.UpdateExperimentRequest, context: Any) -> pb.UpdateExperimentResponse:
        """Change a draft."""

        async def work(uow: UnitOfWork) -> pb.UpdateExperimentResponse:
            record = await engine.update(
                uow,
                request.experiment_id,
                lambda spec: update_spec(spec, request, self._aggregators),
                etag=request.etag,
            )
            return pb.UpdateExperimentResponse(experiment=experiment_message(record))

        return await self._mutations.run(request, pb.UpdateExperimentResponse, work)

    async def StartExperiment(self, request: pb.StartExperimentRequest, context: Any) -> pb.StartExperimentResponse:
        """Put the arms into the policy and open the collection."""

        async def work(uow: UnitOfWork) -> pb.StartExperimentResponse:
            record = await engine.start(uow, request.experiment_id, etag=request.etag)
            return pb.StartExperimentResponse(experiment=experiment_message(record))

        return await self._mutations.run(request, pb.StartExperimentResponse, work)

    async def StopExperiment(self, request: pb.StopExperimentRequest, context: Any) -> pb.StopExperimentResponse:
        """Take the arms from the policy and keep the decision."""

        async def work(uow: UnitOfWork) -> pb.StopExperimentResponse:
            record = await engine.stop(uow, request.experiment_id, reason=request.reason, etag=request.etag)
            return pb.StopExperimentResponse(experiment=experiment_message(record))

        return await self._mutations.run(request, pb.StopExperimentResponse, work)

    async def DeleteExperiment(self, request: pb.DeleteExperimentRequest, context: Any) -> pb.DeleteExperimentResponse:
        """Delete a draft."""

        async def work(uow: UnitOfWork) -> pb.DeleteExperimentResponse:
            record = await engine.delete(uow, request.experiment_id, etag=request.etag)
            return pb.DeleteExperimentResponse(experiment=experiment_message(record))

        return await self._mutations.run(request, pb.DeleteExperimentResponse, work)

    async def GetExperiment(self, request: pb.GetExperimentRequest, context: Any) -> pb.GetExperimentResponse:
        """Return one experiment."""
        async with self._mutations.store.read() as session:
            record = await get_experiment(session, request.experiment_id)
        return pb.GetExperimentResponse(experiment=experiment_message(record))

    async def WatchExperiment(
        self, request: pb.WatchExperimentRequest, context: Any
    ) -> AsyncIterator[pb.WatchExperimentResponse]:
        """Send the experiment now and at each change, or new reports if asked, until it has stopped."""
        watched = _Watched(self._mutations.store, request.experiment_id, with_reports=request.with_reports)
        async with aclosing(changes(watched.look, watched.mark)) as records:
            async for record in records:
                yield pb.WatchExperimentResponse(experiment=experiment_message(record))
                if record.state is ExperimentState.STOPPED:
                    return

    async def GetResults(self, request: pb.GetResultsRequest, context: Any) -> pb.GetResultsResponse:
        """Estimate every arm and decide."""
        store, experiment_id = self._mutations.store, request.experiment_id

        async def read() -> pb.GetResultsResponse:
            async with store.read() as session:
                record, results, views = await engine.read(session, experiment_id, with_cells=request.with_cells)
            found = results_message(record, results)
            found.bayesian.CopyFrom(bayesian_message(views.bayesian))
            found.secondary.CopyFrom(secondary_view_message(views))
            if views.allocation is not None:
                found.allocation.CopyFrom(allocation_message(views.allocation))
            if views.dimension is not None:
                found.dimension.CopyFrom(dimension_message(views.dimension))
            if views.cells is not None:
                found.cells.CopyFrom(cells_message(views.cells))
            return pb.GetResultsResponse(experiment=experiment_message(record), results=found)

        async with self._evaluations.turn(current_principal().name):
            found = await store.version_cache.answer(
                ("results", experiment_id, request.with_cells), read, pb.GetResultsResponse.ByteSize
            )
        if found.experiment.mechanism != pb.MECHANISM_PRIO3:
            return found
        async with store.read() as session:  # changes with time alone, too
            record = await get_experiment(session, experiment_id)
            status = await read_status(session, record, self._mutations.clock.now_s())
        answer = pb.GetResultsResponse(experiment=found.experiment, results=found.results)
        if status is not None:
            answer.results.collection.CopyFrom(collection_message(status))
        return answer

    async def ListExperiments(self, request: pb.ListExperimentsRequest, context: Any) -> pb.ListExperimentsResponse:
        """List the experiments that fit every filter, a page at a time."""
        query = parse_query(
            app=request.app,
            feature=request.feature,
            states=states_from(request.states),
            text=request.text,
            order=order_from(request.order),
            needs_decision_at_s=self._mutations.clock.now_s() if request.needs_decision else None,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        async with self._mutations.store.read() as session:
            records, has_more = await list_experiments(session, query)
            total = await count_experiments(session, query) if request.needs_decision else 0
        messages = [experiment_message(record) for record in records]
        token = page_token(query, records[-1]) if has_more else ""
        return pb.ListExperimentsResponse(experiments=messages, next_page_token=token, total_size=total)


class _Watched:
    """An experiment that is watched, and how many reports it had at the last look at them."""

    def __init__(self, store: Store, experiment_id: str, *, with_reports: bool) -> None:
        self._store = store
        self._experiment_id = experiment_id
        self._with_reports = with_reports
        self._next_look_s = 0.0
        self._reports = (0, 0)

    async def look(self) -> ExperimentRecord:
        """Return the experiment; look at its reports where they count and some seconds have passed."""
        record = await self._read("experiment", lambda session: get_experiment(session, self._experiment_id))
        now_s = asyncio.get_running_loop().time()
        if self._with_reports and record.started_at_s and now_s >= self._next_look_s:
            self._next_look_s = now_s + limits.WATCH_REPORTS_S
            ids = [task.task_id for task in tasks_of(record)]
            self._reports = await self._read("reports", lambda session: report_marks(session, ids))
        return record

    def mark(self, record: ExperimentRecord) -> tuple[int, tuple[int, int]]:
        """Return what differs after a change."""
        return record.revision, self._reports

    async def _read(self, what: str, read: Callable[[AsyncSession], Awaitable[_Read]]) -> _Read:
        return await read_shared(self._store, (what, self._experiment_id), read)
