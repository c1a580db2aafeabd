"""Adds layers and holdouts, and audiences of experiments.  Those that are there are for every device."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

RUNNING = sa.text("state = 'running'")


def upgrade() -> None:
    """Make the tables, add the columns, and let several experiments of a feature run."""
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
        sa.Column("share_permyriad", BIG, nullable=False),
        sa.Column("revision", BIG, nullable=False),
        sa.Column("policy_serial", BIG, nullable=False),
        sa.PrimaryKeyConstraint("app", name="pk_holdouts"),
    )
    for name in ("audience", "layer"):
        op.add_column("experiments", sa.Column(name, sa.Text, nullable=False, server_default=""))
    for name in ("segment_first", "segment_count"):
        op.add_column("experiments", sa.Column(name, BIG, nullable=False, server_default="0"))
    _index(is_unique=False)


def downgrade() -> None:
    """Drop what this revision added; refused by the index where several experiments of a feature run."""
    _index(is_unique=True)
    for name in ("segment_count", "segment_first", "layer", "audience"):
        op.drop_column("experiments", name)
    op.drop_table("holdouts")
    op.drop_table("layers")


def _index(*, is_unique: bool) -> None:
    op.drop_index("ix_experiments_live", "experiments")
    op.create_index(
        "ix_experiments_live",
        "experiments",
        ["app", "feature"],
        unique=is_unique,
        sqlite_where=RUNNING,
        postgresql_where=RUNNING,
    )
