"""Defines the database's tables, and the invariants that the database itself keeps.

S1  `audit` only grows: triggers refuse UPDATE and DELETE (see the first migration).
S2  One report is never a row: `report_counts` holds sums per task, window and cell only, `collected_windows` sums with
    noise.
S3  A version is immutable: (feature, version) is unique and triggers refuse UPDATE and DELETE.
S4  At most one live rollout per app and feature (partial unique index).  Running experiments of a feature share no
    device: the change that starts one looks (`domain/experiments/claims.py`), and one policy of each serial is decided.
S5  Token secrets are stored as digests only.
S6  An installation gets one token for a task and window: `issued_tokens` has one row for it, with the digest of the one
    request that is answered.  A token's private key is emptied when no more of them are made.
"""

from typing import ClassVar

from alcove.platform.store.dialects import BIG
from sqlalchemy import ForeignKey, Index, LargeBinary, MetaData, Text, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = [
    "AnnouncementRow",
    "AuditRow",
    "Base",
    "CollectedWindowRow",
    "DefaultRow",
    "EnrollmentRow",
    "ExperimentRow",
    "FeatureRow",
    "HoldoutRow",
    "IssuedTokenRow",
    "IssuerKeyRow",
    "IssuerSecretRow",
    "LayerRow",
    "PublicationRow",
    "ReadoutRow",
    "ReportCountRow",
    "RequestRow",
    "RolloutRow",
    "StageAnalysisRow",
    "TokenRow",
    "ValueOverrideRow",
    "VersionRow",
    "WindowRequestRow",
]


class Base(DeclarativeBase):
    """Names every constraint, so that migrations can."""

    type_annotation_map: ClassVar = {int: BIG}
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


_RUNNING = text("state = 'running'")


def _partial_index(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, unique=True, sqlite_where=text(where), postgresql_where=text(where))


class FeatureRow(Base):
    """A feature and the team whose key signs it."""

    __tablename__ = "features"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    team: Mapped[str] = mapped_column(Text)


class VersionRow(Base):
    """A published version; S3."""

    __tablename__ = "versions"
    __table_args__ = (UniqueConstraint("feature", "version"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"))
    version: Mapped[str] = mapped_column(Text)
    manifest_sha256: Mapped[str] = mapped_column(Text)
    manifest: Mapped[bytes] = mapped_column(LargeBinary)
    published_at_s: Mapped[int]


class DefaultRow(Base):
    """The version that an app's devices run where nothing else is decided; `parameter_values` are JSON, "" for none."""

    __tablename__ = "defaults"
    app: Mapped[str] = mapped_column(Text, primary_key=True)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"), primary_key=True)
    version: Mapped[str] = mapped_column(Text)
    manifest_sha256: Mapped[str] = mapped_column(Text)
    parameter_values: Mapped[str] = mapped_column(Text, server_default="")


class ValueOverrideRow(Base):
    """Values (JSON) that all devices of an app have for a feature in its policies from one serial to before another.

    `end_serial` None: it stands, the only such one of the feature.
    """

    __tablename__ = "value_overrides"
    app: Mapped[str] = mapped_column(Text, primary_key=True)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"), primary_key=True)
    parameter_values: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    set_by: Mapped[str] = mapped_column(Text)
    set_at_s: Mapped[int]
    first_serial: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    end_serial: Mapped[int | None]


class RolloutRow(Base):
    """A rollout; `plan`, `proposal`, `analysis`, `evidence` and `parameter_values` ("" for none) are JSON; S4."""

    __tablename__ = "rollouts"
    __table_args__ = (
        _partial_index("ix_rollouts_live", "app", "feature", where="state IN ('running', 'paused')"),
        Index("ix_rollouts_state_sequence", "state", "sequence"),  # a page of those in a state
        Index("ix_rollouts_app_sequence", "app", "sequence"),  # of an app
        Index("ix_rollouts_feature_sequence", "feature", "sequence"),  # of a feature
    )
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    rollout_id: Mapped[str] = mapped_column(Text, unique=True)
    app: Mapped[str] = mapped_column(Text)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"))
    version: Mapped[str] = mapped_column(Text)
    manifest_sha256: Mapped[str] = mapped_column(Text)
    salt: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    share_basis_points: Mapped[int]
    created_at_s: Mapped[int]
    updated_at_s: Mapped[int]
    policy_serial: Mapped[int]
    plan: Mapped[str] = mapped_column(Text)
    audience: Mapped[str] = mapped_column(Text)
    stage: Mapped[int]
    stage_started_at_s: Mapped[int]
    control_basis_points: Mapped[int]
    proposal: Mapped[str | None] = mapped_column(Text)
    analysis: Mapped[str | None] = mapped_column(Text)
    evidence: Mapped[str] = mapped_column(Text)
    revision: Mapped[int]
    parameter_values: Mapped[str] = mapped_column(Text, server_default="")


class StageAnalysisRow(Base):
    """An analysis (JSON) of a rollout's stage that found something new; old ones are thinned out."""

    __tablename__ = "stage_analyses"
    __table_args__ = (Index("ix_stage_analyses_rollout_sequence", "rollout_sequence", "sequence"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    rollout_sequence: Mapped[int] = mapped_column(ForeignKey("rollouts.sequence"))
    stage: Mapped[int]
    share_basis_points: Mapped[int]
    analyzed_at_s: Mapped[int]
    analysis: Mapped[str] = mapped_column(Text)


class ExperimentRow(Base):
    """An experiment; `arms`, `latency_edges_ms`, `decision`, `plan`, `interim_analyses`, `allocation` are JSON; S4."""

    __tablename__ = "experiments"
    __table_args__ = (
        Index("ix_experiments_live", "app", "feature", sqlite_where=_RUNNING, postgresql_where=_RUNNING),
        Index("ix_experiments_task_id", "task_id"),
    )
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    experiment_id: Mapped[str] = mapped_column(Text, unique=True)
    app: Mapped[str] = mapped_column(Text)
    feature: Mapped[str] = mapped_column(ForeignKey("features.name"))
    salt: Mapped[str] = mapped_column(Text)
    arms: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    epsilon: Mapped[str] = mapped_column(Text)
    latency_edges_ms: Mapped[str] = mapped_column(Text)
    window_s: Mapped[int]
    minimum_cohort: Mapped[int]
    created_at_s: Mapped[int]
    started_at_s: Mapped[int | None]
    stopped_at_s: Mapped[int | None]
    task_id: Mapped[str | None] = mapped_column(Text)
    decision: Mapped[str | None] = mapped_column(Text)
    policy_serial: Mapped[int]
    plan: Mapped[str] = mapped_column(Text)
    revision: Mapped[int]
    audience: Mapped[str] = mapped_column(Text)
    layer: Mapped[str] = mapped_column(Text)
    segment_first: Mapped[int]
    segment_count: Mapped[int]
    interim_analyses: Mapped[str] = mapped_column(Text)
    allocation: Mapped[str] = mapped_column(Text)


class LayerRow(Base):
    """A layer of an app; it stays, with its salt, so that devices stay where they are."""

    __tablename__ = "layers"
    app: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    salt: Mapped[str] = mapped_column(Text)
    created_at_s: Mapped[int]


class HoldoutRow(Base):
    """The holdout of an app; its salt stays, whatever the share."""

    __tablename__ = "holdouts"
    app: Mapped[str] = mapped_column(Text, primary_key=True)
    salt: Mapped[str] = mapped_column(Text)
    share_basis_points: Mapped[int]
    revision: Mapped[int]
    policy_serial: Mapped[int]


class ReadoutRow(Base):
    """A read-out of the holdout of an app; `kept`, `plan` and `result` are JSON; one at most runs in each app."""

    __tablename__ = "readouts"
    __table_args__ = (_partial_index("ix_readouts_live", "app", where="state = 'running'"),)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    readout_id: Mapped[str] = mapped_column(Text, unique=True)
    app: Mapped[str] = mapped_column(Text)
    kept: Mapped[str] = mapped_column(Text)
    plan: Mapped[str] = mapped_column(Text)
    share_basis_points: Mapped[int]
    state: Mapped[str] = mapped_column(Text)
    started_at_s: Mapped[int]
    until_s: Mapped[int]
    ended_at_s: Mapped[int | None]
    end_reason: Mapped[str] = mapped_column(Text)
    result: Mapped[str | None] = mapped_column(Text)
    policy_serial: Mapped[int]
    revision: Mapped[int]


class RequestRow(Base):
    """The stored response of a mutation, by who asked and under which request id."""

    __tablename__ = "requests"
    principal: Mapped[str] = mapped_column(Text, primary_key=True)
    request_id: Mapped[str] = mapped_column(Text, primary_key=True)
    method: Mapped[str] = mapped_column(Text)
    content_sha256: Mapped[str] = mapped_column(Text)
    response: Mapped[bytes] = mapped_column(LargeBinary)
    created_at_s: Mapped[int]


class AuditRow(Base):
    """One mutation, who did it and why; S1."""

    __tablename__ = "audit"
    __table_args__ = (Index("ix_audit_subject_sequence", "subject", "sequence"),)  # one subject's entries, by time
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at_s: Mapped[int]
    principal: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    details: Mapped[str] = mapped_column(Text)


class TokenRow(Base):
    """An API token, with a `subject` an access without a secret, with a `parent_id` a session of either; S5."""

    __tablename__ = "tokens"
    __table_args__ = (Index("ix_tokens_parent_id", "parent_id"), Index("ix_tokens_subject", "subject"))
    token_id: Mapped[str] = mapped_column(Text, primary_key=True)
    secret_sha256: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text, server_default="")
    created_at_s: Mapped[int]
    expires_at_s: Mapped[int]
    revoked_at_s: Mapped[int | None]
    parent_id: Mapped[str] = mapped_column(Text, server_default="")
    subject: Mapped[str] = mapped_column(Text, server_default="")
    used_at_s: Mapped[int] = mapped_column(server_default="0")


class ReportCountRow(Base):
    """The number of reports that named a cell; S2."""

    __tablename__ = "report_counts"
    task_id: Mapped[str] = mapped_column(Text, primary_key=True)
    window: Mapped[int] = mapped_column(primary_key=True)
    cell: Mapped[int] = mapped_column(primary_key=True)
    count: Mapped[int]


class CollectedWindowRow(Base):
    """The noised sums of a window by Prio3, eight bytes a cell; S2."""

    __tablename__ = "collected_windows"
    task_id: Mapped[str] = mapped_column(Text, primary_key=True)
    window: Mapped[int] = mapped_column(primary_key=True)
    reports: Mapped[int]
    counts: Mapped[bytes] = mapped_column(LargeBinary)


class WindowRequestRow(Base):
    """What came of asking the leader for a window that is not collected; `not_before_s` is a lease, too."""

    __tablename__ = "window_requests"
    task_id: Mapped[str] = mapped_column(Text, primary_key=True)
    window: Mapped[int] = mapped_column(primary_key=True)
    attempts: Mapped[int]
    not_before_s: Mapped[int]
    problem: Mapped[str] = mapped_column(Text)


class AnnouncementRow(Base):
    """What came of announcing a task to the leader."""

    __tablename__ = "announcements"
    task_id: Mapped[str] = mapped_column(Text, primary_key=True)
    not_before_s: Mapped[int]
    problem: Mapped[str] = mapped_column(Text)


class PublicationRow(Base):
    """A policy or halt document of an app: serials only rise; unpublished ones are published at the next chance.

    `first_audit` and `last_audit` bound the entries of the audit log of the change that decided it.  0 and "" where it
    was decided before these were kept.
    """

    __tablename__ = "publications"
    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    app: Mapped[str] = mapped_column(Text, primary_key=True)
    serial: Mapped[int] = mapped_column(primary_key=True)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    is_published: Mapped[bool]
    decided_at_s: Mapped[int] = mapped_column(server_default="0")
    decided_by: Mapped[str] = mapped_column(Text, server_default="")
    first_audit: Mapped[int] = mapped_column(server_default="0")
    last_audit: Mapped[int] = mapped_column(server_default="0")


class IssuerSecretRow(Base):
    """The one secret with which the issuer of tokens makes and knows again its challenges."""

    __tablename__ = "issuer_secrets"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    secret: Mapped[bytes] = mapped_column(LargeBinary)


class EnrollmentRow(Base):
    """An installation that may have tokens, and the key by which it asks for them; the newest key counts."""

    __tablename__ = "enrollments"
    installation: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    public_key: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    enrolled_at_s: Mapped[int]


class IssuerKeyRow(Base):
    """The key of the tokens for one task of DAP and one of its times; S6."""

    __tablename__ = "issuer_keys"
    task_id: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    time: Mapped[int] = mapped_column(primary_key=True)
    public_key: Mapped[bytes] = mapped_column(LargeBinary)
    private_key: Mapped[bytes] = mapped_column(LargeBinary)


class IssuedTokenRow(Base):
    """That an installation has its token for a task and time; which one it is, nobody can tell; S6."""

    __tablename__ = "issued_tokens"
    task_id: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    time: Mapped[int] = mapped_column(primary_key=True)
    installation: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    request_sha256: Mapped[bytes] = mapped_column(LargeBinary)
