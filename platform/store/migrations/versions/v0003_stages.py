"""Adds stages, guardrails and a second person's approval to rollouts.  Those that are there have none of them."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    for name in ("stage", "stage_started_at_s", "control_permyriad"):
        op.add_column("rollouts", sa.Column(name, BIG, nullable=False, server_default="0"))
    op.add_column("rollouts", sa.Column("revision", BIG, nullable=False, server_default="1"))
    op.add_column("rollouts", sa.Column("plan", sa.Text, nullable=False, server_default="{}"))
    op.add_column("rollouts", sa.Column("audience", sa.Text, nullable=False, server_default=""))
    for name in ("proposal", "examination"):
        op.add_column("rollouts", sa.Column(name, sa.Text))


def downgrade() -> None:
    """Drop what this revision added."""
    for name in (
        "examination",
        "proposal",
        "audience",
        "plan",
        "revision",
        "control_permyriad",
        "stage_started_at_s",
        "stage",
    ):
        op.drop_column("rollouts", name)
