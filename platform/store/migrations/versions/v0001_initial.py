"""Creates the first schema: its tables, and the triggers that keep what may only be added to as it was written."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG, drop_immutable, make_immutable, partial_index
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

IMMUTABLE = (
    "audit",
    "versions",
    "state_moves",
    "alias_moves",
    "alias_proposals",
    "validations",
    "feature_rules",
    "metric_definitions",
    "metric_deprecations",
)
RUNNING = sa.text("state = 'running'")


def upgrade() -> None:
    """Make the tables and the triggers."""
    _create_registry()
    _create_control()
    _create_records()
    _create_facts()
    _create_states()
    _create_aliases()
    _create_issuer()
    _create_metrics()
    for table in IMMUTABLE:
        make_immutable(table)


def _create_registry() -> None:
    op.create_table(
        "features",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("team", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_features"),
    )
    op.create_table(
        "versions",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("manifest_sha256", sa.Text, nullable=False),
        sa.Column("manifest", sa.LargeBinary, nullable=False),
        sa.Column("published_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_versions"),
        sa.UniqueConstraint("feature", "version", name="uq_versions_feature_version"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_versions_feature"),
    )
    op.create_table(
        "defaults",
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("manifest_sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "feature", name="pk_defaults"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_defaults_feature"),
    )


def _create_control() -> None:
    op.create_table(
        "rollouts",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("rollout_id", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("manifest_sha256", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("share_basis_points", BIG, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.Column("updated_at_s", BIG, nullable=False),
        sa.Column("policy_serial", BIG, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("audience", sa.Text, nullable=False),
        sa.Column("stage", BIG, nullable=False),
        sa.Column("stage_started_at_s", BIG, nullable=False),
        sa.Column("control_basis_points", BIG, nullable=False),
        sa.Column("proposal", sa.Text),
        sa.Column("analysis", sa.Text),
        sa.Column("evidence", sa.Text, nullable=False),
        sa.Column("revision", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_rollouts"),
        sa.UniqueConstraint("rollout_id", name="uq_rollouts_rollout_id"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_rollouts_feature"),
    )
    partial_index("ix_rollouts_live", "rollouts", ["app", "feature"], where="state IN ('running', 'paused')")
    op.create_table(
        "experiments",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("experiment_id", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("arms", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("latency_edges_ms", sa.Text, nullable=False),
        sa.Column("window_s", BIG, nullable=False),
        sa.Column("minimum_cohort", BIG, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.Column("started_at_s", BIG),
        sa.Column("stopped_at_s", BIG),
        sa.Column("task_id", sa.Text),
        sa.Column("decision", sa.Text),
        sa.Column("policy_serial", BIG, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("revision", BIG, nullable=False),
        sa.Column("audience", sa.Text, nullable=False),
        sa.Column("layer", sa.Text, nullable=False),
        sa.Column("segment_first", BIG, nullable=False),
        sa.Column("segment_count", BIG, nullable=False),
        sa.Column("interim_analyses", sa.Text, nullable=False),
        sa.Column("allocation", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_experiments"),
        sa.UniqueConstraint("experiment_id", name="uq_experiments_experiment_id"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_experiments_feature"),
    )
    op.create_index(
        "ix_experiments_live", "experiments", ["app", "feature"], sqlite_where=RUNNING, postgresql_where=RUNNING
    )
    op.create_index("ix_experiments_task_id", "experiments", ["task_id"])
    op.create_table(
        "layers",
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("app", "name", name="pk_layers"),
    )
    op.create_table(
        "holdouts",
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("share_basis_points", BIG, nullable=False),
        sa.Column("revision", BIG, nullable=False),
        sa.Column("policy_serial", BIG, nullable=False),
        sa.PrimaryKeyConstraint("app", name="pk_holdouts"),
    )
    op.create_table(
        "readouts",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("readout_id", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("kept", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("share_basis_points", BIG, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at_s", BIG, nullable=False),
        sa.Column("until_s", BIG, nullable=False),
        sa.Column("ended_at_s", BIG),
        sa.Column("end_reason", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("policy_serial", BIG, nullable=False),
        sa.Column("revision", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_readouts"),
        sa.UniqueConstraint("readout_id", name="uq_readouts_readout_id"),
    )
    partial_index("ix_readouts_live", "readouts", ["app"], where="state = 'running'")


def _create_records() -> None:
    op.create_table(
        "requests",
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("content_sha256", sa.Text, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("principal", "request_id", name="pk_requests"),
    )
    op.create_table(
        "audit",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("at_s", BIG, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit"),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("secret_sha256", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.Column("expires_at_s", BIG, nullable=False),
        sa.Column("revoked_at_s", BIG),
        sa.PrimaryKeyConstraint("token_id", name="pk_tokens"),
    )
    op.create_table(
        "report_counts",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("window", BIG, nullable=False),
        sa.Column("cell", BIG, nullable=False),
        sa.Column("count", BIG, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "window", "cell", name="pk_report_counts"),
    )
    op.create_table(
        "collected_windows",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("window", BIG, nullable=False),
        sa.Column("reports", BIG, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "window", name="pk_collected_windows"),
    )
    op.create_table(
        "window_requests",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("window", BIG, nullable=False),
        sa.Column("attempts", BIG, nullable=False),
        sa.Column("not_before_s", BIG, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "window", name="pk_window_requests"),
    )
    op.create_table(
        "announcements",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("not_before_s", BIG, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_announcements"),
    )
    op.create_table(
        "publications",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("serial", BIG, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("is_published", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("kind", "app", "serial", name="pk_publications"),
    )


def _create_issuer() -> None:
    op.create_table(
        "issuer_secrets",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_issuer_secrets"),
    )
    op.create_table(
        "enrollments",
        sa.Column("installation", sa.LargeBinary, nullable=False),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("enrolled_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("installation", name="pk_enrollments"),
        sa.UniqueConstraint("public_key", name="uq_enrollments_public_key"),
    )
    op.create_table(
        "issuer_keys",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("private_key", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "time", name="pk_issuer_keys"),
    )
    op.create_table(
        "issued_tokens",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.Column("installation", sa.LargeBinary, nullable=False),
        sa.Column("request_sha256", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "time", "installation", name="pk_issued_tokens"),
    )


def _create_facts() -> None:
    op.create_table(
        "version_facts",
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("version_key", BIG, nullable=False),
        sa.Column("search_text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("version_sequence", name="pk_version_facts"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_version_facts_version_sequence"),
    )
    op.create_index("ix_version_facts_version_key", "version_facts", ["version_key"])
    op.create_table(
        "version_tags",
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("search_text", sa.Text, nullable=False),
        sa.Column("set_by", sa.Text, nullable=False),
        sa.Column("set_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("version_sequence", "key", name="pk_version_tags"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_version_tags_version_sequence"),
    )
    op.create_index("ix_version_tags_key_value", "version_tags", ["key", "value"])


def _create_states() -> None:
    op.create_table(
        "state_moves",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("from_state", sa.Text, nullable=False),
        sa.Column("to_state", sa.Text, nullable=False),
        sa.Column("moved_by", sa.Text, nullable=False),
        sa.Column("moved_at_s", BIG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_state_moves"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_state_moves_version_sequence"),
    )
    op.create_index("ix_state_moves_version_sequence", "state_moves", ["version_sequence"])
    op.create_table(
        "validations",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("is_passed", sa.Boolean, nullable=False),
        sa.Column("checks", sa.Text, nullable=False),
        sa.Column("validated_by", sa.Text, nullable=False),
        sa.Column("validated_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_validations"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_validations_version_sequence"),
    )
    op.create_index("ix_validations_version_sequence", "validations", ["version_sequence"])
    op.create_table(
        "feature_rules",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("rules", sa.Text, nullable=False),
        sa.Column("set_by", sa.Text, nullable=False),
        sa.Column("set_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_feature_rules"),
    )
    op.create_index("ix_feature_rules_feature", "feature_rules", ["feature"])


def _create_aliases() -> None:
    op.create_table(
        "aliases",
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feature", "alias", name="pk_aliases"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_aliases_feature"),
    )
    op.create_table(
        "alias_moves",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("from_version", sa.Text),
        sa.Column("to_version", sa.Text),
        sa.Column("moved_by", sa.Text, nullable=False),
        sa.Column("moved_at_s", BIG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.PrimaryKeyConstraint("sequence", name="pk_alias_moves"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_alias_moves_feature"),
    )
    op.create_index("ix_alias_moves_feature_alias", "alias_moves", ["feature", "alias"])
    op.create_table(
        "alias_proposals",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("proposal_id", sa.Text, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("base_sequence", BIG, nullable=False),
        sa.Column("from_version", sa.Text),
        sa.Column("to_version", sa.Text),
        sa.Column("proposed_by", sa.Text, nullable=False),
        sa.Column("proposed_at_s", BIG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_alias_proposals"),
        sa.UniqueConstraint("proposal_id", name="uq_alias_proposals_proposal_id"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_alias_proposals_feature"),
    )
    op.create_index("ix_alias_proposals_feature", "alias_proposals", ["feature"])


def _create_metrics() -> None:
    op.create_table(
        "metric_definitions",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", BIG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("edges", sa.Text, nullable=False),
        sa.Column("cap", sa.Double, nullable=False),
        sa.Column("more_is_better", sa.Boolean, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_metric_definitions"),
        sa.UniqueConstraint("feature", "name", "version", name="uq_metric_definitions_feature_name_version"),
    )
    op.create_table(
        "metric_deprecations",
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("successor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("deprecated_by", sa.Text, nullable=False),
        sa.Column("deprecated_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("feature", "name", name="pk_metric_deprecations"),
    )


def downgrade() -> None:
    """Drop everything; there is nothing before the first schema."""
    for table in (
        "metric_deprecations",
        "metric_definitions",
        "alias_proposals",
        "alias_moves",
        "aliases",
        "feature_rules",
        "validations",
        "state_moves",
        "version_tags",
        "version_facts",
        "readouts",
        "holdouts",
        "layers",
        "issued_tokens",
        "issuer_keys",
        "enrollments",
        "issuer_secrets",
        "publications",
        "announcements",
        "window_requests",
        "collected_windows",
        "report_counts",
        "tokens",
        "audit",
        "requests",
        "experiments",
        "rollouts",
        "defaults",
        "versions",
        "features",
    ):
        op.drop_table(table)
    drop_immutable()
