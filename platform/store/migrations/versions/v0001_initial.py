"""Creates the first schema: its tables, and the triggers that keep `audit` and `versions` as they were written."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG, drop_immutable, make_immutable, partial_index
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

IMMUTABLE = ("audit", "versions")


def upgrade() -> None:
    """Make the tables and the triggers."""
    _create_registry()
    _create_control()
    _create_records()
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
        sa.Column("share_permyriad", BIG, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.Column("updated_at_s", BIG, nullable=False),
        sa.Column("policy_serial", BIG, nullable=False),
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
        sa.PrimaryKeyConstraint("sequence", name="pk_experiments"),
        sa.UniqueConstraint("experiment_id", name="uq_experiments_experiment_id"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_experiments_feature"),
    )
    partial_index("ix_experiments_live", "experiments", ["app", "feature"], where="state = 'running'")
    op.create_index("ix_experiments_task_id", "experiments", ["task_id"])


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
        "publications",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("serial", BIG, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("is_published", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("kind", "app", "serial", name="pk_publications"),
    )


def downgrade() -> None:
    """Drop everything; there is nothing before the first schema."""
    for table in (
        "publications",
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
