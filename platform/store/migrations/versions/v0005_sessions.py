"""Gives tokens a parent, whose session they are; those of before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("tokens", sa.Column("parent_id", sa.Text, nullable=False, server_default=""))
    op.create_index("ix_tokens_parent_id", "tokens", ["parent_id"])


def downgrade() -> None:
    """End all sessions, and remove the column: without it they would be tokens like others."""
    op.execute("DELETE FROM tokens WHERE parent_id <> ''")
    op.drop_index("ix_tokens_parent_id", table_name="tokens")
    with op.batch_alter_table("tokens") as table:
        table.drop_column("parent_id")
