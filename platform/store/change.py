"""What does code that changes something get?  One transaction, who asked and when; and the duty to write it down."""

from dataclasses import dataclass

from alcove.platform.store.audit import write_audit
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["Change"]


@dataclass(frozen=True)
class Change:
    """A mutation under way.

    Attributes:
        session: its transaction; committed by whoever opened it.
        principal: who asked, as audited.
        now_s: when, seconds since 1970-01-01 UTC.
    """

    session: AsyncSession
    principal: str
    now_s: int

    async def audit(self, action: str, subject: str, **details: object) -> None:
        """Add an entry to the audit log; `details` are plain JSON values, never a secret."""
        await write_audit(
            self.session, at_s=self.now_s, principal=self.principal, action=action, subject=subject, details=details
        )
