"""Provides `UnitOfWork`: the transaction of one mutation, its principal and time, and its audit entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from alcove.platform.store.audit import write_audit
from alcove.platform.store.publications import Kind, mark_decided
from alcove.registry.reinstatements import Reinstatement
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["UnitOfWork"]


@dataclass(frozen=True)
class UnitOfWork:
    """A mutation under way.

    Attributes:
        session: its transaction; committed by its opener.
        principal: who asked, as audited.
        now_s: when, seconds since 1970-01-01 UTC.
        min_versions: lowest version of each feature that its team still lets run; features without one are absent.
        reinstatements: what the team that owns each feature has reinstated of halts.
        decided: (kind, app) of documents that the change decided; they are published after the commit.
        audited: numbers of its entries in the audit log, rising.
    """

    session: AsyncSession
    principal: str
    now_s: int
    min_versions: Mapping[str, str] = field(default_factory=dict)
    reinstatements: Mapping[str, tuple[Reinstatement, ...]] = field(default_factory=dict)
    decided: set[tuple[Kind, str]] = field(default_factory=set)
    audited: list[int] = field(default_factory=list)

    async def audit(self, action: str, subject: str, **details: object) -> None:
        """Add an entry to the audit log; `details` are plain JSON values, never a secret."""
        number = await write_audit(
            self.session, at_s=self.now_s, principal=self.principal, action=action, subject=subject, details=details
        )
        self.audited.append(number)

    async def note_decisions(self) -> None:
        """Note beside each document that the change decided who asked for it, and its entries of the audit log.

        The last step of a change: only then all its entries are there.
        """
        audited = range(self.audited[0], self.audited[-1] + 1) if self.audited else range(0)
        for kind, app in sorted(self.decided):
            await mark_decided(self.session, kind, app, at_s=self.now_s, by=self.principal, audited=audited)
