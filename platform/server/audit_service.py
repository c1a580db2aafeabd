"""Implements AuditService: lists who changed what, when and why."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import json
from typing import Any

from alcove.api.audit.v1 import audit_pb2 as pb
from alcove.api.audit.v1 import audit_pb2_grpc as rpc
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_page
from alcove.platform.store import Store
from alcove.platform.store.audit import AuditFilter, newest_audit

__all__ = ["AuditService"]


class AuditService(rpc.AuditServiceServicer):
    """The audit log of the server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ListEntries(self, request: pb.ListEntriesRequest, context: Any) -> pb.ListEntriesResponse:
        """List entries, the newest first."""
        page = validate_page(request.page_size, request.page_token)
        if request.since_s < 0:
            raise InvalidFieldError("since_s", "at least 0", request.since_s)
        wanted = AuditFilter(subject=request.object, app=request.app, since_s=request.since_s)
        async with self._store.read() as session:
            found = await newest_audit(session, wanted, before=page.after, size=page.size)
        return pb.ListEntriesResponse(
            entries=[
                pb.Entry(
                    sequence=entry.sequence,
                    at_s=entry.at_s,
                    principal=entry.principal,
                    action=entry.action,
                    object=entry.subject,
                    details_json=json.dumps(entry.details, ensure_ascii=False),
                )
                for entry in found
            ],
            next_page_token=str(found[-1].sequence) if len(found) == page.size else "",
        )
