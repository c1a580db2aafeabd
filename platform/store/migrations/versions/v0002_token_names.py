"""Gives API tokens a name; those of before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("tokens", sa.Column("name", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Remove the column, and the names with it."""
    with op.batch_alter_table("tokens") as table:
        table.drop_column("name")
