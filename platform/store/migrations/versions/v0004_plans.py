"""Adds plan and revision to experiments.  Those that are there have no plan, and are as they were made."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("experiments", sa.Column("plan", sa.Text, nullable=False, server_default="{}"))
    op.add_column("experiments", sa.Column("revision", BIG, nullable=False, server_default="1"))


def downgrade() -> None:
    """Drop what this revision added."""
    op.drop_column("experiments", "revision")
    op.drop_column("experiments", "plan")
