"""Defines the tables of a version's life after publication: states, tags, aliases, validations and rules.

S6  `state_moves`, `alias_moves`, `alias_proposals`, `validations` and `feature_rules` only grow, as S1 says of `audit`.
S7  `version_facts.state` and `aliases` are the last line of their histories, written in the same transaction; they are
    kept so that a search looks at one row of each version.
"""

from alcove.platform.store.tables import Base
from sqlalchemy import ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

__all__ = [
    "AliasMoveRow",
    "AliasProposalRow",
    "AliasRow",
    "FeatureRulesRow",
    "StateMoveRow",
    "TagRow",
    "ValidationRow",
    "VersionFactsRow",
]


class VersionFactsRow(Base):
    """Fields of a version to search and sort by, and its state; S7."""

    __tablename__ = "version_facts"
    __table_args__ = (Index("ix_version_facts_version_key", "version_key"),)
    version_sequence: Mapped[int] = mapped_column(ForeignKey("versions.sequence"), primary_key=True)
    version_key: Mapped[int]
    search_text: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)


class StateMoveRow(Base):
    """One step of a version's life; S6."""

    __tablename__ = "state_moves"
    __table_args__ = (Index("ix_state_moves_version_sequence", "version_sequence"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    version_sequence: Mapped[int] = mapped_column(ForeignKey("versions.sequence"))
    from_state: Mapped[str] = mapped_column(Text)
    to_state: Mapped[str] = mapped_column(Text)
    moved_by: Mapped[str] = mapped_column(Text)
    moved_at_s: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)


class TagRow(Base):
    """A tag of a version, and who set it when; what it was before is in `audit`.

    `search_text` is key and value in lower case: the databases differ in what that is for letters beyond ASCII.
    """

    __tablename__ = "version_tags"
    __table_args__ = (Index("ix_version_tags_key_value", "key", "value"),)
    version_sequence: Mapped[int] = mapped_column(ForeignKey("versions.sequence"), primary_key=True)
    key: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[str] = mapped_column(Text)
    search_text: Mapped[str] = mapped_column(Text)
    set_by: Mapped[str] = mapped_column(Text)
    set_at_s: Mapped[int]


class AliasRow(Base):
    """The present target of an alias; S7."""

    __tablename__ = "aliases"
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"), primary_key=True)
    alias: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[str] = mapped_column(Text)


class AliasMoveRow(Base):
    """One move of an alias; S6."""

    __tablename__ = "alias_moves"
    __table_args__ = (Index("ix_alias_moves_feature_alias", "feature", "alias"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"))
    alias: Mapped[str] = mapped_column(Text)
    from_version: Mapped[str | None] = mapped_column(Text)
    to_version: Mapped[str | None] = mapped_column(Text)
    moved_by: Mapped[str] = mapped_column(Text)
    moved_at_s: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)
    approved_by: Mapped[str | None] = mapped_column(Text)


class AliasProposalRow(Base):
    """A move that waits for approval as long as `base_sequence` is the alias's last move; S6."""

    __tablename__ = "alias_proposals"
    __table_args__ = (Index("ix_alias_proposals_feature", "feature"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    proposal_id: Mapped[str] = mapped_column(Text, unique=True)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"))
    alias: Mapped[str] = mapped_column(Text)
    base_sequence: Mapped[int]
    from_version: Mapped[str | None] = mapped_column(Text)
    to_version: Mapped[str | None] = mapped_column(Text)
    proposed_by: Mapped[str] = mapped_column(Text)
    proposed_at_s: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)


class ValidationRow(Base):
    """The result of a validation; `checks` is JSON; S6."""

    __tablename__ = "validations"
    __table_args__ = (Index("ix_validations_version_sequence", "version_sequence"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    version_sequence: Mapped[int] = mapped_column(ForeignKey("versions.sequence"))
    is_passed: Mapped[bool]
    checks: Mapped[str] = mapped_column(Text)
    validated_by: Mapped[str] = mapped_column(Text)
    validated_at_s: Mapped[int]


class FeatureRulesRow(Base):
    """The rules that versions of a feature must meet, from a time on; `rules` is JSON; S6."""

    __tablename__ = "feature_rules"
    __table_args__ = (Index("ix_feature_rules_feature", "feature"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    feature: Mapped[str] = mapped_column(Text)
    rules: Mapped[str] = mapped_column(Text)
    set_by: Mapped[str] = mapped_column(Text)
    set_at_s: Mapped[int]
