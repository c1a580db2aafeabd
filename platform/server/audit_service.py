"""Implements AuditService: lists who changed what, when and why."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import json
from typing import Any

from alcove.api.audit.v1 import audit_pb2 as pb
from alcove.api.audit.v1 import audit_pb2_grpc as rpc
from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_page, validate_search
from alcove.platform.domain.principal import current_principal
from alcove.platform.store import Store
from alcove.platform.store.audit import AuditFilter, search_audit

__all__ = ["AuditService"]


class AuditService(rpc.AuditServiceServicer):
    """The audit log of the server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._searches = Turns(limits.CALLER_SEARCHES)

    async def ListEntries(self, request: pb.ListEntriesRequest, context: Any) -> pb.ListEntriesResponse:
        """List entries, the newest first."""
        page = validate_page(request.page_size, request.page_token)
        for field in ("since_s", "until_s"):
            if getattr(request, field) < 0:
                raise InvalidFieldError(field, "at least 0", getattr(request, field))
        wanted = AuditFilter(
            subject=request.object,
            app=request.app,
            since_s=request.since_s,
            until_s=request.until_s,
            words=validate_search(request.text),
            principal=_part("principal", request.principal),
            action=_part("action", request.action),
        )
        async with self._searches.turn(current_principal().name), self._store.read(is_long=True) as session:
            found = await search_audit(session, wanted, before=page.after, size=page.size)
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
                for entry in found.entries
            ],
            next_page_token=str(found.before or ""),
            searched_back_to_s=found.searched_back_to_s,
        )


def _part(field: str, text: str) -> str:
    """Return a part of a name to search for.

    Raises:
        InvalidFieldError: it is too long, or not printable.
    """
    most = limits.SEARCH_WORDS[1]
    if len(text) > most or not text.isprintable():
        raise InvalidFieldError(field, f"at most {most} printable characters", text)
    return text
