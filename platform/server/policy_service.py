"""Implements PolicyService: layers, holdouts with their read-outs, overridden values, and an app's signed policy."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from alcove.api.policy.v1 import policy_pb2 as pb
from alcove.api.policy.v1 import policy_pb2_grpc as rpc
from alcove.api.rollout.v1 import rollout_pb2
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field, validate_page
from alcove.platform.domain.records import ExperimentRecord, HoldoutRecord, LayerRecord
from alcove.platform.ingress.figures import IngressFigures
from alcove.platform.server.parameter_values import setting_messages, values_from
from alcove.platform.server.policy_reads import list_policy_summaries, privacy_message, read_policy, validate_task_ids
from alcove.platform.server.readout_convert import readout_message, readout_spec
from alcove.platform.services import value_overrides as overrides
from alcove.platform.services.experiments import layers
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.privacy import read_task_reports
from alcove.platform.services.readouts import engine as readouts
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.layers import find_holdout, layers_of_app
from alcove.platform.store.publications import last_publication
from alcove.platform.store.readouts import get_readout, list_readouts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.canonical import AppName
from alcove.registry.policy import Aggregation

__all__ = ["PolicyService"]


class PolicyService(rpc.PolicyServiceServicer):
    """Layers, holdouts with their read-outs, overridden values, and the signed policy of an app."""

    def __init__(
        self,
        mutations: Mutations,
        aggregators: Aggregation | None,
        figures: Callable[[], Awaitable[IngressFigures]] | None = None,
    ) -> None:
        """Answer calls.

        Args:
            mutations: rows, tree and clock.
            aggregators: the server's.
            figures: gives the sums of the devices' process; None: it is another server's.
        """
        self._mutations = mutations
        self._aggregators = aggregators
        self._figures = figures

    async def CreateLayer(self, request: pb.CreateLayerRequest, context: Any) -> pb.CreateLayerResponse:
        """Create a layer."""

        async def work(uow: UnitOfWork) -> pb.CreateLayerResponse:
            layer = await layers.create_layer(uow, app=request.app, name=request.name)
            return pb.CreateLayerResponse(layer=_layer(layer, ()))

        return await self._mutations.run(request, pb.CreateLayerResponse, work)

    async def ListLayers(self, request: pb.ListLayersRequest, context: Any) -> pb.ListLayersResponse:
        """List an app's layers with what is claimed of them."""
        app = validate_field("app", AppName, request.app)
        async with self._mutations.store.read() as session:
            found = await layers_of_app(session, app)
            running = await running_experiments(session, app)
        return pb.ListLayersResponse(layers=[_layer(layer, running) for layer in found])

    async def SetHoldout(self, request: pb.SetHoldoutRequest, context: Any) -> pb.SetHoldoutResponse:
        """Set who takes part in no experiment."""

        async def work(uow: UnitOfWork) -> pb.SetHoldoutResponse:
            holdout = await layers.set_holdout(
                uow, app=request.app, share_basis_points=request.share_basis_points, etag=request.etag
            )
            return pb.SetHoldoutResponse(holdout=_holdout(holdout))

        return await self._mutations.run(request, pb.SetHoldoutResponse, work)

    async def GetHoldout(self, request: pb.GetHoldoutRequest, context: Any) -> pb.GetHoldoutResponse:
        """Return who takes part in no experiment."""
        app = validate_field("app", AppName, request.app)
        async with self._mutations.store.read() as session:
            holdout = await find_holdout(session, app) or layers.no_holdout(app)
        return pb.GetHoldoutResponse(holdout=_holdout(holdout))

    async def StartReadout(self, request: pb.StartReadoutRequest, context: Any) -> pb.StartReadoutResponse:
        """Start a read-out of a holdout."""

        async def work(uow: UnitOfWork) -> pb.StartReadoutResponse:
            record = await readouts.start(uow, readout_spec(request, self._aggregators))
            return pb.StartReadoutResponse(readout=readout_message(record))

        return await self._mutations.run(request, pb.StartReadoutResponse, work)

    async def StopReadout(self, request: pb.StopReadoutRequest, context: Any) -> pb.StopReadoutResponse:
        """Stop a read-out."""

        async def work(uow: UnitOfWork) -> pb.StopReadoutResponse:
            record = await readouts.stop(uow, request.readout_id, reason=request.reason, etag=request.etag)
            return pb.StopReadoutResponse(readout=readout_message(record))

        return await self._mutations.run(request, pb.StopReadoutResponse, work)

    async def GetReadout(self, request: pb.GetReadoutRequest, context: Any) -> pb.GetReadoutResponse:
        """Return a read-out."""
        async with self._mutations.store.read() as session:
            record = await get_readout(session, request.readout_id)
        return pb.GetReadoutResponse(readout=readout_message(record))

    async def ListReadouts(self, request: pb.ListReadoutsRequest, context: Any) -> pb.ListReadoutsResponse:
        """List an app's read-outs, oldest first."""
        app = validate_field("app", AppName, request.app)
        page = validate_page(request.page_size, request.page_token)
        async with self._mutations.store.read() as session:
            records = await list_readouts(session, page, app=app)
        token = str(records[-1].sequence) if len(records) == page.size else ""
        return pb.ListReadoutsResponse(readouts=map(readout_message, records), next_page_token=token)

    async def OverrideValues(self, request: pb.OverrideValuesRequest, context: Any) -> pb.OverrideValuesResponse:
        """Set values over every rollout and experiment."""

        async def work(uow: UnitOfWork) -> pb.OverrideValuesResponse:
            found = await overrides.override_values(
                uow,
                app=request.app,
                feature=request.feature,
                values=values_from(request.values),
                reason=request.reason,
            )
            return pb.OverrideValuesResponse(
                override=_override(found), paused_rollout_ids=found.paused, silent_experiment_ids=found.silent
            )

        return await self._mutations.run(request, pb.OverrideValuesResponse, work)

    async def ClearOverride(self, request: pb.ClearOverrideRequest, context: Any) -> pb.ClearOverrideResponse:
        """End an override."""

        async def work(uow: UnitOfWork) -> pb.ClearOverrideResponse:
            found = await overrides.clear_override(uow, app=request.app, feature=request.feature, reason=request.reason)
            return pb.ClearOverrideResponse(override=_override(found), paused_rollout_ids=found.paused)

        return await self._mutations.run(request, pb.ClearOverrideResponse, work)

    async def ListOverrides(self, request: pb.ListOverridesRequest, context: Any) -> pb.ListOverridesResponse:
        """List the overrides that stand."""
        async with self._mutations.store.read() as session:
            found = await overrides.list_overrides(session, request.app)
        return pb.ListOverridesResponse(overrides=map(_override, found))

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Any) -> pb.GetPolicyResponse:
        """Return the documents that an app's devices read, or an earlier policy."""
        app = validate_field("app", AppName, request.app)
        return await read_policy(self._mutations.store, self._mutations.tree, app, request.serial)

    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Any) -> pb.ListPoliciesResponse:
        """List the policies of an app, or the newest of each."""
        return await list_policy_summaries(self._mutations.store, request)

    async def GetPrivacy(self, request: pb.GetPrivacyRequest, context: Any) -> pb.GetPrivacyResponse:
        """Return what there is of an app's reports."""
        app = validate_field("app", AppName, request.app)
        task_ids = validate_task_ids(request.task_ids)
        figures = None if self._figures is None else await self._figures()
        async with self._mutations.store.read() as session:
            if await last_publication(session, "policy", app) is None:
                raise ResourceNotFoundError("policy of app", app)
            found = await read_task_reports(session, app, task_ids, self._mutations.clock.now_s())
        return privacy_message(found, figures)


def _override(status: overrides.OverrideStatus) -> pb.ValueOverride:
    override = status.override
    return pb.ValueOverride(
        app=override.app,
        feature=override.feature,
        values=setting_messages(rollout_pb2.Setting, override.values),
        reason=override.reason,
        set_by=override.set_by,
        set_at_s=override.set_at_s,
        unreached_versions=status.unreached,
        policy_serial=status.policy_serial,
    )


def _layer(record: LayerRecord, running: Sequence[ExperimentRecord]) -> pb.Layer:
    claims = [
        pb.Claim(experiment_id=one.experiment_id, feature=one.feature, first=one.segment.first, count=one.segment.count)
        for one in running
        if one.segment is not None and one.segment.layer == record.name
    ]
    return pb.Layer(
        app=record.app,
        name=record.name,
        created_at_s=record.created_at_s,
        claims=sorted(claims, key=lambda claim: claim.first),
    )


def _holdout(record: HoldoutRecord) -> pb.Holdout:
    return pb.Holdout(
        app=record.app,
        share_basis_points=record.share_basis_points,
        etag=str(record.revision),
        policy_serial=record.policy_serial,
    )
