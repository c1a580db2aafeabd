"""Defines the tables of alerts: what is to be sent to whom, and up to where the audit log was read for it."""

from alcove.platform.store.tables import Base
from sqlalchemy import Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

__all__ = ["AlertCursorRow", "AlertDeliveryRow"]


class AlertDeliveryRow(Base):
    """One alert for one destination; `alert` is JSON.  One alert is for each destination once."""

    __tablename__ = "alert_deliveries"
    __table_args__ = (
        UniqueConstraint("alert_id", "destination"),
        Index("ix_alert_deliveries_state", "state", "destination", "next_at_s"),
    )
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    alert_id: Mapped[str] = mapped_column(Text)
    destination: Mapped[str] = mapped_column(Text)
    alert: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    attempts: Mapped[int]
    created_at_s: Mapped[int]
    next_at_s: Mapped[int]
    ended_at_s: Mapped[int | None]
    problem: Mapped[str] = mapped_column(Text)


class AlertCursorRow(Base):
    """Up to which entry a log was read."""

    __tablename__ = "alert_cursors"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    sequence: Mapped[int]
