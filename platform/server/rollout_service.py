"""Implements RolloutService: creates, changes, advances, pauses, rolls back, halts and lists rollouts."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, Protocol

from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1 import rollout_pb2_grpc as rpc
from alcove.platform.domain.field_validation import validate_etag, validate_field, validate_page
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollouts.machine import allowed_actions
from alcove.platform.domain.rollouts.search import parse_query
from alcove.platform.server.parameter_values import values_from
from alcove.platform.server.rollout_convert import (
    collection_message,
    ending_message,
    kept_message,
    need_from,
    order_from,
    plan_from,
    rollout_message,
    states_from,
    update_spec,
)
from alcove.platform.server.watching import changes, read_shared
from alcove.platform.services.collection import read_status
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.rollouts import engine
from alcove.platform.store.audit import find_last_entry
from alcove.platform.store.rollouts import count_rollouts, get_rollout, search_rollouts
from alcove.platform.store.stage_analyses import list_analyses
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.canonical import AppName, FeatureName, VersionText
from alcove.registry.policy import Aggregation

__all__ = ["RolloutService"]

_ENDINGS: Final = {RolloutState.ROLLED_BACK: "rollback rollout", RolloutState.HALTED: "halt rollout"}
"""What the audit log says of a rollout that ended so."""


class RolloutService(rpc.RolloutServiceServicer):
    """Rollouts of versions to the devices of an app."""

    def __init__(self, mutations: Mutations, aggregators: Aggregation | None) -> None:
        self._mutations = mutations
        self._aggregators = aggregators

    async def CreateRollout(self, request: pb.CreateRolloutRequest, context: Any) -> pb.CreateRolloutResponse:
        """Create a draft, or what advances at once."""
        app = validate_field("app", AppName, request.app)
        feature = validate_field("feature", FeatureName, request.feature)
        version = validate_field("version", VersionText, request.version)

        plan = plan_from(request.plan, self._aggregators)
        spec = engine.RolloutSpec(app, feature, version, plan, request.audience, values_from(request.values))

        async def work(uow: UnitOfWork) -> pb.CreateRolloutResponse:
            record = await engine.create(uow, spec)
            if request.share_basis_points:
                record = await engine.advance(
                    uow,
                    record.rollout_id,
                    share_basis_points=request.share_basis_points,
                    override_reason=request.override_reason,
                )
            return pb.CreateRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.CreateRolloutResponse, work)

    async def UpdateRollout(self, request: pb.UpdateRolloutRequest, context: Any) -> pb.UpdateRolloutResponse:
        """Change the plan or the audience."""

        async def work(uow: UnitOfWork) -> pb.UpdateRolloutResponse:
            await _validate_etag(uow, request)
            record = await engine.update(
                uow, request.rollout_id, lambda spec: update_spec(spec, request, self._aggregators)
            )
            return pb.UpdateRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.UpdateRolloutResponse, work)

    async def AdvanceRollout(self, request: pb.AdvanceRolloutRequest, context: Any) -> pb.AdvanceRolloutResponse:
        """Raise the share."""

        async def work(uow: UnitOfWork) -> pb.AdvanceRolloutResponse:
            await _validate_etag(uow, request)
            record = await engine.advance(
                uow,
                request.rollout_id,
                share_basis_points=request.share_basis_points,
                override_reason=request.override_reason,
            )
            return pb.AdvanceRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.AdvanceRolloutResponse, work)

    async def ApproveRollout(self, request: pb.ApproveRolloutRequest, context: Any) -> pb.ApproveRolloutResponse:
        """Make the advance that somebody else has proposed."""

        async def work(uow: UnitOfWork) -> pb.ApproveRolloutResponse:
            await _validate_etag(uow, request)
            return pb.ApproveRolloutResponse(rollout=rollout_message(await engine.approve(uow, request.rollout_id)))

        return await self._mutations.run(request, pb.ApproveRolloutResponse, work)

    async def PauseRollout(self, request: pb.PauseRolloutRequest, context: Any) -> pb.PauseRolloutResponse:
        """Refuse to advance until resumed."""

        async def work(uow: UnitOfWork) -> pb.PauseRolloutResponse:
            await _validate_etag(uow, request)
            record = await engine.pause(uow, request.rollout_id, reason=request.reason)
            return pb.PauseRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.PauseRolloutResponse, work)

    async def ResumeRollout(self, request: pb.ResumeRolloutRequest, context: Any) -> pb.ResumeRolloutResponse:
        """Allow to advance again."""

        async def work(uow: UnitOfWork) -> pb.ResumeRolloutResponse:
            await _validate_etag(uow, request)
            record = await engine.resume(uow, request.rollout_id, reason=request.reason)
            return pb.ResumeRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.ResumeRolloutResponse, work)

    async def RollBackRollout(self, request: pb.RollBackRolloutRequest, context: Any) -> pb.RollBackRolloutResponse:
        """Return all devices to the default version."""

        async def work(uow: UnitOfWork) -> pb.RollBackRolloutResponse:
            await _validate_etag(uow, request)
            record = await engine.roll_back(uow, request.rollout_id, reason=request.reason)
            return pb.RollBackRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.RollBackRolloutResponse, work)

    async def HaltRollout(self, request: pb.HaltRolloutRequest, context: Any) -> pb.HaltRolloutResponse:
        """Forbid the version in the app; the default before takes the place of a halted one."""

        async def work(uow: UnitOfWork) -> pb.HaltRolloutResponse:
            await _validate_etag(uow, request)
            record = await engine.halt(uow, request.rollout_id, reason=request.reason)
            return pb.HaltRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.HaltRolloutResponse, work)

    async def DeleteRollout(self, request: pb.DeleteRolloutRequest, context: Any) -> pb.DeleteRolloutResponse:
        """Delete a draft."""

        async def work(uow: UnitOfWork) -> pb.DeleteRolloutResponse:
            await _validate_etag(uow, request)
            return pb.DeleteRolloutResponse(rollout=rollout_message(await engine.delete(uow, request.rollout_id)))

        return await self._mutations.run(request, pb.DeleteRolloutResponse, work)

    async def GetRollout(self, request: pb.GetRolloutRequest, context: Any) -> pb.GetRolloutResponse:
        """Return one rollout."""
        store, rollout_id = self._mutations.store, request.rollout_id

        async def read() -> pb.GetRolloutResponse:
            async with store.read() as session:
                record = await get_rollout(session, rollout_id)
                action = _ENDINGS.get(record.state)
                ended = None if action is None else await find_last_entry(session, rollout_id, action)
            answer = pb.GetRolloutResponse(rollout=rollout_message(record))
            if ended is not None:
                answer.rollout.ending.CopyFrom(ending_message(ended))
            return answer

        found = await store.version_cache.answer(("rollout", rollout_id), read, pb.GetRolloutResponse.ByteSize)
        if found.rollout.plan.mechanism != pb.MECHANISM_PRIO3:
            return found
        async with store.read() as session:  # changes with time alone, too
            status = await read_status(session, await get_rollout(session, rollout_id), self._mutations.clock.now_s())
        answer = pb.GetRolloutResponse(rollout=found.rollout)
        if status is not None:
            answer.rollout.collection.CopyFrom(collection_message(status))
        return answer

    async def WatchRollout(
        self, request: pb.WatchRolloutRequest, context: Any
    ) -> AsyncIterator[pb.WatchRolloutResponse]:
        """Send the rollout now and at each change, until it has ended."""
        rollout_id = request.rollout_id

        async def look() -> RolloutRecord:
            key = ("rollout", rollout_id)
            return await read_shared(self._mutations.store, key, lambda session: get_rollout(session, rollout_id))

        async with aclosing(changes(look, lambda record: record)) as records:
            async for record in records:
                yield pb.WatchRolloutResponse(rollout=rollout_message(record))
                if not allowed_actions(record.state):
                    return

    async def ListRollouts(self, request: pb.ListRolloutsRequest, context: Any) -> pb.ListRolloutsResponse:
        """List the rollouts that fit every filter, a page at a time."""
        query = parse_query(
            app=request.app,
            feature=request.feature,
            states=states_from(request.states),
            text=request.text,
            order=order_from(request.order),
            need=need_from(request.need),
            now_s=self._mutations.clock.now_s(),
            page_size=request.page_size,
            page_token=request.page_token,
        )
        store = self._mutations.store

        async def read() -> pb.ListRolloutsResponse:
            async with store.read() as session:
                records, has_more = await search_rollouts(session, query)
                total = 0 if query.need is None else await count_rollouts(session, query)
            return pb.ListRolloutsResponse(
                rollouts=[rollout_message(record) for record in records],
                next_page_token=str(records[-1].sequence) if has_more else "",
                total_size=total,
            )

        return await store.version_cache.answer(("rollouts", query), read, pb.ListRolloutsResponse.ByteSize)

    async def ListStageAnalyses(
        self, request: pb.ListStageAnalysesRequest, context: Any
    ) -> pb.ListStageAnalysesResponse:
        """List the analyses of a rollout's stages that are kept, oldest first."""
        page, rollout_id = validate_page(request.page_size, request.page_token), request.rollout_id
        store = self._mutations.store

        async def read() -> pb.ListStageAnalysesResponse:
            async with store.read() as session:
                found = await list_analyses(session, await get_rollout(session, rollout_id), page)
            return pb.ListStageAnalysesResponse(
                analyses=[kept_message(kept) for kept in found[: page.size]],
                next_page_token=str(found[page.size - 1].sequence) if len(found) > page.size else "",
            )

        key = ("stage analyses", page, rollout_id)
        return await store.version_cache.answer(key, read, pb.ListStageAnalysesResponse.ByteSize)


class _Mutation(Protocol):
    rollout_id: str
    etag: str


async def _validate_etag(uow: UnitOfWork, request: _Mutation) -> None:
    """Let a mutation pass whose sender knows the rollout as it is.

    Raises:
        ResourceNotFoundError: there is no such rollout.
        StaleEtagError: it was changed since.
    """
    record = await get_rollout(uow.session, request.rollout_id)
    validate_etag(request.etag, record.revision, kind="rollout", name=record.rollout_id)
