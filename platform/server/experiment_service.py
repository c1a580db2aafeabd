"""Implements ExperimentService: creates, changes, starts, stops and lists experiments, and gives their results."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.api.experiment.v1 import experiment_pb2_grpc as rpc
from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.field_validation import validate_page
from alcove.platform.domain.principal import current_principal
from alcove.platform.domain.records import ExperimentState
from alcove.platform.server.experiment_convert import (
    collection_message,
    experiment_message,
    experiment_spec,
    results_message,
    update_spec,
)
from alcove.platform.server.experiment_views import (
    allocation_message,
    bayesian_message,
    cells_message,
    dimension_message,
    secondary_view_message,
)
from alcove.platform.services.collection import read_status
from alcove.platform.services.experiments import engine
from alcove.platform.services.mutations import Mutations
from alcove.platform.store.experiments import get_experiment, list_experiments
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.policy import Aggregation

__all__ = ["ExperimentService"]


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
            record = await engine.stop(uow, request.experiment_id, etag=request.etag)
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
        """Send the experiment now and at each change, until it has stopped."""
        seen = 0
        while True:
            async with self._mutations.store.read() as session:
                record = await get_experiment(session, request.experiment_id)
            if record.revision != seen:
                yield pb.WatchExperimentResponse(experiment=experiment_message(record))
            if record.state is ExperimentState.STOPPED:
                return
            seen = record.revision
            await asyncio.sleep(limits.WATCH_S)

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
        """List experiments, oldest first."""
        page = validate_page(request.page_size, request.page_token)
        app, feature = request.app or None, request.feature or None
        async with self._mutations.store.read() as session:
            records = await list_experiments(session, page, app=app, feature=feature)
        token = str(records[-1].sequence) if len(records) == page.size else ""
        messages = [experiment_message(record) for record in records]
        return pb.ListExperimentsResponse(experiments=messages, next_page_token=token)
