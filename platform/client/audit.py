"""Reads the server's audit log.  Mixed into `PlatformClient`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from alcove.api.audit.v1 import audit_pb2 as pb
from alcove.api.audit.v1.audit_pb2_grpc import AuditServiceStub
from alcove.platform.client.calls import Caller
from alcove.platform.client.models import Page, Value
from alcove.platform.domain.limits import PAGE_SIZE

__all__ = ["AuditCalls", "AuditLine", "AuditPage"]


class AuditLine(Value):
    """One change: when, who, what was done to what, and the details, the reason among them."""

    at_s: int
    who: str
    action: str
    subject: str
    details: Mapping[str, object]


@dataclass(frozen=True)
class AuditPage(Page[AuditLine]):
    """A page of the log.

    A search looks through a part of the log for each page, so a page may be short, or empty, and not be the last.

    Attributes:
        searched_back_to_s: time of the oldest change that was looked through; 0: all were.
    """

    searched_back_to_s: int = 0


class AuditCalls:
    """Calls about the audit log."""

    _audit: AuditServiceStub
    _call: Caller

    def audit(
        self,
        *,
        about: str = "",
        app: str = "",
        text: str = "",
        principal: str = "",
        action: str = "",
        since_s: int = 0,
        until_s: int = 0,
        limit: int | None = None,
    ) -> list[AuditLine]:
        """Return changes, the newest first, at most `limit` of them; filters as in `audit_page`.

        Args:
            about: only what was done to this object; "": to any.
            app: only what was done in this app; "": in any.
            text: only where each of these words occurs.
            principal: only what was done by somebody in whose name this occurs.
            action: only actions in which this occurs.
            since_s: only what was done at this time or later, seconds since 1970-01-01 UTC.
            until_s: only what was done before this time; 0: at any time.
            limit: largest number of lines; None: all.
        """
        lines: list[AuditLine] = []
        token = ""
        while limit is None or len(lines) < limit:
            page = self.audit_page(
                about=about,
                app=app,
                text=text,
                principal=principal,
                action=action,
                since_s=since_s,
                until_s=until_s,
                size=PAGE_SIZE[1] if limit is None else min(PAGE_SIZE[1], limit - len(lines)),
                token=token,
            )
            lines += page.items
            token = page.next_token
            if not token:
                break
        return lines

    def audit_page(
        self,
        *,
        about: str = "",
        app: str = "",
        text: str = "",
        principal: str = "",
        action: str = "",
        since_s: int = 0,
        until_s: int = 0,
        size: int = 0,
        token: str = "",
    ) -> AuditPage:
        """Return one page of the changes that fit every filter that is given, the newest first.

        Args:
            about: only what was done to this object; found by an index.
            app: only what was done in this app, to its rollouts and experiments too.
            text: only where each of these words occurs, in the object or the details; the reason is one of them.
            principal: only what was done by somebody in whose name this occurs.
            action: only actions in which this occurs.
            since_s: only what was done at this time or later, seconds since 1970-01-01 UTC.
            until_s: only what was done before this time; 0: at any time.
            size: most changes; 0: as the server likes.
            token: of the page; "": the first one.
        """
        request = pb.ListEntriesRequest(
            object=about,
            app=app,
            text=text,
            principal=principal,
            action=action,
            since_s=since_s,
            until_s=until_s,
            page_size=size,
            page_token=token,
        )
        answer: pb.ListEntriesResponse = self._call(self._audit.ListEntries, request)
        lines = tuple(
            AuditLine(
                at_s=entry.at_s,
                who=entry.principal,
                action=entry.action,
                subject=entry.object,
                details=json.loads(entry.details_json),
            )
            for entry in answer.entries
        )
        return AuditPage(lines, answer.next_page_token, answer.searched_back_to_s)
