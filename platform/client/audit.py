"""Reads the server's audit log.  Mixed into `PlatformClient`."""

import json
from collections.abc import Mapping

from alcove.api.audit.v1 import audit_pb2 as pb
from alcove.api.audit.v1.audit_pb2_grpc import AuditServiceStub
from alcove.platform.client.calls import Caller
from alcove.platform.client.models import Value
from alcove.platform.domain.limits import PAGE_SIZE

__all__ = ["AuditCalls", "AuditLine"]


class AuditLine(Value):
    """One change: when, who, what was done to what, and the details, the reason among them."""

    at_s: int
    who: str
    action: str
    subject: str
    details: Mapping[str, object]


class AuditCalls:
    """Calls about the audit log."""

    _audit: AuditServiceStub
    _call: Caller

    def audit(self, *, about: str = "", app: str = "", since_s: int = 0, limit: int | None = None) -> list[AuditLine]:
        """Return changes, the newest first, at most `limit` of them.

        Args:
            about: only what was done to this object; "": to any.
            app: only what was done in this app; "": in any.
            since_s: only what was done at this time or later, seconds since 1970-01-01 UTC.
            limit: largest number of lines; None: all.
        """
        lines: list[AuditLine] = []
        token = ""
        while limit is None or len(lines) < limit:
            size = PAGE_SIZE[1] if limit is None else min(PAGE_SIZE[1], limit - len(lines))
            request = pb.ListEntriesRequest(object=about, app=app, since_s=since_s, page_size=size, page_token=token)
            answer: pb.ListEntriesResponse = self._call(self._audit.ListEntries, request)
            lines += [
                AuditLine(
                    at_s=entry.at_s,
                    who=entry.principal,
                    action=entry.action,
                    subject=entry.object,
                    details=json.loads(entry.details_json),
                )
                for entry in answer.entries
            ]
            token = answer.next_page_token
            if not token:
                break
        return lines
