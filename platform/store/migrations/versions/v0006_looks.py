"""Adds planned looks to experiments.  Those that are there have none."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("experiments", sa.Column("looks", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    """Drop it, with the looks that were taken."""
    op.drop_column("experiments", "looks")
