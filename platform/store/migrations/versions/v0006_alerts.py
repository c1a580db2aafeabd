"""Makes the tables of alerts."""

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "alert_deliveries",
        sa.Column("sequence", BIG, autoincrement=True, nullable=False),
        sa.Column("alert_id", sa.Text, nullable=False),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("alert", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", BIG, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.Column("next_at_s", BIG, nullable=False),
        sa.Column("ended_at_s", BIG, nullable=True),
        sa.Column("problem", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_alert_deliveries"),
        sa.UniqueConstraint("alert_id", "destination", name="uq_alert_deliveries_alert_id_destination"),
    )
    op.create_index("ix_alert_deliveries_state", "alert_deliveries", ["state", "destination", "next_at_s"])
    op.create_table(
        "alert_cursors",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("sequence", BIG, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_alert_cursors"),
    )


def downgrade() -> None:
    """Remove the tables, and with them what was not sent yet."""
    op.drop_table("alert_cursors")
    op.drop_table("alert_deliveries")
