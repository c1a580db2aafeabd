"""Gives tokens a subject, who signs in by a proof instead of a secret, and sessions the time of their last use."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; sessions of before were last used when they were made."""
    op.add_column("tokens", sa.Column("subject", sa.Text, nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("used_at_s", BIG, nullable=False, server_default="0"))
    op.create_index("ix_tokens_subject", "tokens", ["subject"])


def downgrade() -> None:
    """Remove the columns, the accesses and all sessions: an older version would not end those of certificates."""
    op.execute("DELETE FROM tokens WHERE subject <> '' OR parent_id <> ''")
    op.drop_index("ix_tokens_subject", "tokens")
    with op.batch_alter_table("tokens") as table:
        table.drop_column("used_at_s")
        table.drop_column("subject")
