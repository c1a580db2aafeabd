"""Makes the table of analyses of stages, and the indexes of lists of rollouts."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them; the table begins empty: of before only each rollout's last analysis is known."""
    op.create_table(
        "stage_analyses",
        sa.Column("sequence", BIG, autoincrement=True, nullable=False),
        sa.Column("rollout_sequence", BIG, nullable=False),
        sa.Column("stage", BIG, nullable=False),
        sa.Column("share_basis_points", BIG, nullable=False),
        sa.Column("analyzed_at_s", BIG, nullable=False),
        sa.Column("analysis", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_stage_analyses"),
        sa.ForeignKeyConstraint(["rollout_sequence"], ["rollouts.sequence"], name="fk_stage_analyses_rollout_sequence"),
    )
    op.create_index("ix_stage_analyses_rollout_sequence", "stage_analyses", ["rollout_sequence", "sequence"])
    for column in ("state", "app", "feature"):
        op.create_index(f"ix_rollouts_{column}_sequence", "rollouts", [column, "sequence"])


def downgrade() -> None:
    """Remove them; the audit log keeps the analyses that led to an action."""
    for column in ("feature", "app", "state"):
        op.drop_index(f"ix_rollouts_{column}_sequence", table_name="rollouts")
    op.drop_table("stage_analyses")
