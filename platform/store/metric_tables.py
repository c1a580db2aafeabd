"""Defines the tables of teams' own metrics.

S8  `metric_definitions` and `metric_deprecations` only grow, as S1 says of `audit`: a version never changes, a name is
    never another metric's, and what is deprecated stays so.
"""

from alcove.platform.store.tables import Base
from sqlalchemy import Double, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

__all__ = ["MetricDefinitionRow", "MetricDeprecationRow"]


class MetricDefinitionRow(Base):
    """One version of a metric; `edges` is JSON; S8."""

    __tablename__ = "metric_definitions"
    __table_args__ = (UniqueConstraint("feature", "name", "version"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    feature: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    version: Mapped[int]
    kind: Mapped[str] = mapped_column(Text)
    edges: Mapped[str] = mapped_column(Text)
    cap: Mapped[float] = mapped_column(Double)
    more_is_better: Mapped[bool]
    owner: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str] = mapped_column(Text)
    created_at_s: Mapped[int]


class MetricDeprecationRow(Base):
    """That a metric is to be used no more; S8."""

    __tablename__ = "metric_deprecations"
    feature: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    successor: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    deprecated_by: Mapped[str] = mapped_column(Text)
    deprecated_at_s: Mapped[int]
