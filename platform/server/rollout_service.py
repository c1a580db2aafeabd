"""How does RolloutService answer?"""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from typing import Any

from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.api.rollout.v1 import rollout_pb2_grpc as rpc
from alcove.platform.core.checks import check, check_page
from alcove.platform.rollouts import engine
from alcove.platform.server.mutations import Mutations
from alcove.platform.server.rollout_convert import rollout_message
from alcove.platform.store.change import Change
from alcove.platform.store.rollouts import get_rollout, list_rollouts
from alcove.registry.canonical import AppName, FeatureName, VersionText

__all__ = ["RolloutService"]


class RolloutService(rpc.RolloutServiceServicer):
    """Rollouts of versions to the devices of an app."""

    def __init__(self, mutations: Mutations) -> None:
        self._mutations = mutations

    async def CreateRollout(self, request: pb.CreateRolloutRequest, context: Any) -> pb.CreateRolloutResponse:
        """Create a draft."""
        app = check("app", AppName, request.app)
        feature = check("feature", FeatureName, request.feature)
        version = check("version", VersionText, request.version)

        async def work(change: Change) -> pb.CreateRolloutResponse:
            record = await engine.create(change, app=app, feature=feature, version=version)
            return pb.CreateRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.CreateRolloutResponse, work)

    async def AdvanceRollout(self, request: pb.AdvanceRolloutRequest, context: Any) -> pb.AdvanceRolloutResponse:
        """Raise the share."""

        async def work(change: Change) -> pb.AdvanceRolloutResponse:
            record = await engine.advance(
                change,
                request.rollout_id,
                share_permyriad=request.share_permyriad,
                override_reason=request.override_reason,
            )
            return pb.AdvanceRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.AdvanceRolloutResponse, work)

    async def PauseRollout(self, request: pb.PauseRolloutRequest, context: Any) -> pb.PauseRolloutResponse:
        """Refuse to advance until resumed."""

        async def work(change: Change) -> pb.PauseRolloutResponse:
            return pb.PauseRolloutResponse(rollout=rollout_message(await engine.pause(change, request.rollout_id)))

        return await self._mutations.run(request, pb.PauseRolloutResponse, work)

    async def ResumeRollout(self, request: pb.ResumeRolloutRequest, context: Any) -> pb.ResumeRolloutResponse:
        """Allow to advance again."""

        async def work(change: Change) -> pb.ResumeRolloutResponse:
            return pb.ResumeRolloutResponse(rollout=rollout_message(await engine.resume(change, request.rollout_id)))

        return await self._mutations.run(request, pb.ResumeRolloutResponse, work)

    async def RollBackRollout(self, request: pb.RollBackRolloutRequest, context: Any) -> pb.RollBackRolloutResponse:
        """Return all devices to the default version."""

        async def work(change: Change) -> pb.RollBackRolloutResponse:
            record = await engine.roll_back(change, request.rollout_id, reason=request.reason)
            return pb.RollBackRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.RollBackRolloutResponse, work)

    async def HaltRollout(self, request: pb.HaltRolloutRequest, context: Any) -> pb.HaltRolloutResponse:
        """Forbid the version in the app; the default before takes the place of a halted one."""

        async def work(change: Change) -> pb.HaltRolloutResponse:
            record = await engine.halt(change, request.rollout_id, reason=request.reason)
            return pb.HaltRolloutResponse(rollout=rollout_message(record))

        return await self._mutations.run(request, pb.HaltRolloutResponse, work)

    async def GetRollout(self, request: pb.GetRolloutRequest, context: Any) -> pb.GetRolloutResponse:
        """Return one rollout."""
        async with self._mutations.store.read() as session:
            return pb.GetRolloutResponse(rollout=rollout_message(await get_rollout(session, request.rollout_id)))

    async def ListRollouts(self, request: pb.ListRolloutsRequest, context: Any) -> pb.ListRolloutsResponse:
        """List rollouts, oldest first."""
        page = check_page(request.page_size, request.page_token)
        app, feature = request.app or None, request.feature or None
        async with self._mutations.store.read() as session:
            records = await list_rollouts(session, page, app=app, feature=feature)
        token = str(records[-1].sequence) if len(records) == page.size else ""
        return pb.ListRolloutsResponse(rollouts=[rollout_message(record) for record in records], next_page_token=token)
