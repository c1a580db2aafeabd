"""Keeps of each policy and halt when it was decided, by whom, and which entries of the audit log say why."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COLUMNS = ("decided_at_s", "first_audit", "last_audit")


def upgrade() -> None:
    """Add the columns; of what was decided before, nothing is known."""
    for name in COLUMNS:
        op.add_column("publications", sa.Column(name, BIG, nullable=False, server_default="0"))
    op.add_column("publications", sa.Column("decided_by", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Remove the columns, and what they say."""
    for name in (*COLUMNS, "decided_by"):
        op.drop_column("publications", name)
