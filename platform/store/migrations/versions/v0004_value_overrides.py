"""Adds values that operators set over every rollout and experiment, and finds audit entries by their subject."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

INDEX = "ix_audit_subject_sequence"


def upgrade() -> None:
    """Add the table and the index."""
    op.create_table(
        "value_overrides",
        sa.Column("app", sa.Text, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("parameter_values", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("set_by", sa.Text, nullable=False),
        sa.Column("set_at_s", BIG, nullable=False),
        sa.Column("first_serial", BIG, nullable=False),
        sa.Column("end_serial", BIG),
        sa.PrimaryKeyConstraint("app", "feature", "first_serial", name="pk_value_overrides"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_value_overrides_feature"),
    )
    op.create_index(INDEX, "audit", ["subject", "sequence"])


def downgrade() -> None:
    """Remove both; devices keep overridden values until the next policy of their app."""
    op.drop_index(INDEX, "audit")
    op.drop_table("value_overrides")
