"""Reads policies with their history and signature, and what there is of an app's reports, as messages."""

import asyncio
from collections.abc import Collection, Sequence

from alcove.api.policy.v1 import policy_pb2 as pb
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field, validate_page
from alcove.platform.ingress.figures import IngressFigures
from alcove.platform.services.privacy import TaskReports
from alcove.platform.store import Store
from alcove.platform.store.publications import (
    DecidedPolicy,
    find_publication,
    last_publication,
    list_policies,
    newest_policies,
)
from alcove.registry.canonical import AppName, Digest
from alcove.registry.limits import SERIAL_MAX
from alcove.registry.policy_signature import PolicySignature, read_policy_signature
from alcove.registry.repository import Repository

__all__ = ["list_policy_summaries", "privacy_message", "read_policy", "validate_task_ids"]


async def read_policy(store: Store, tree: Repository, app: str, serial: int) -> pb.GetPolicyResponse:
    """Return a policy of an app with the newest halt; `serial` 0: the newest policy.

    Raises:
        InvalidFieldError: no policy has such a serial number.
        ResourceNotFoundError: there is no such policy.
    """
    if serial > SERIAL_MAX:
        raise InvalidFieldError("serial", f"at most {SERIAL_MAX}", serial)
    async with store.read() as session:
        newest = await last_publication(session, "policy", app)
        found = await find_publication(session, "policy", app, serial) if serial else newest
        halt = await last_publication(session, "halt", app)
        if found is None:
            raise ResourceNotFoundError("policy of app", f"{app}, serial {serial}" if serial else app)
        (summary,) = await list_policies(session, app, before=found.serial + 1, size=1)
    signature = await asyncio.to_thread(read_policy_signature, tree.state(), app, found.document)
    return pb.GetPolicyResponse(
        policy=found.document,
        halt=b"" if halt is None else halt.document,
        summary=_summary(summary),
        signature=None if signature is None else _signature(signature),
    )


async def list_policy_summaries(store: Store, request: pb.ListPoliciesRequest) -> pb.ListPoliciesResponse:
    """Return a page of an app's policies; without an app of the newest of each.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    if not request.app:
        size = validate_page(request.page_size, "").size
        after = request.page_token and validate_field("page_token", AppName, request.page_token)
        async with store.read() as session:
            found = await newest_policies(session, after=after, size=size)
        token = found[-1].app if len(found) == size else ""
        return pb.ListPoliciesResponse(policies=map(_summary, found), next_page_token=token)
    app = validate_field("app", AppName, request.app)
    page = validate_page(request.page_size, request.page_token)
    async with store.read() as session:
        found = await list_policies(session, app, before=page.after, size=page.size)
    token = str(found[-1].serial) if len(found) == page.size else ""
    return pb.ListPoliciesResponse(policies=map(_summary, found), next_page_token=token)


def validate_task_ids(task_ids: Collection[str]) -> frozenset[str]:
    """Return the tasks whose reports are read.

    Raises:
        InvalidFieldError: they are too many, or one is no id of a task.
    """
    if len(task_ids) > limits.TASKS_READ:
        raise InvalidFieldError("task_ids", f"at most {limits.TASKS_READ}", len(task_ids))
    return frozenset(validate_field("task_ids", Digest, one) for one in task_ids)


def privacy_message(tasks: Sequence[TaskReports], figures: IngressFigures | None) -> pb.GetPrivacyResponse:
    """Return what there is of reports; `figures` None: another server answers devices."""
    refused = {} if figures is None else figures.refused
    return pb.GetPrivacyResponse(
        tasks=[
            pb.TaskReports(
                task_id=one.task_id,
                report_count=one.reports,
                window_count=one.windows,
                waiting_windows=one.waiting,
                missing_windows=one.missing,
                noise=[pb.NoiseShare(arm=each.arm, quantity=each.quantity, share=each.share) for each in one.noise],
            )
            for one in tasks
        ],
        counts_refusals=figures is not None,
        accepted_count=0 if figures is None else figures.counted,
        refused=[pb.RefusedCount(reason=reason, count=count) for reason, count in sorted(refused.items())],
    )


def _summary(policy: DecidedPolicy) -> pb.PolicySummary:
    return pb.PolicySummary(
        app=policy.app,
        serial=policy.serial,
        decided_at_s=policy.decided_at_s,
        decided_by=policy.decided_by,
        causes=[pb.PolicyCause(sequence=one.sequence, action=one.action, object=one.subject) for one in policy.causes],
        is_published=policy.is_published,
        size_bytes=policy.size_bytes,
    )


def _signature(signature: PolicySignature) -> pb.PolicySignature:
    return pb.PolicySignature(
        version=signature.version,
        key_ids=signature.key_ids,
        signing_key_ids=signature.signing_key_ids,
        threshold=signature.threshold,
        expires_at_s=signature.expires_at_s,
    )
