"""Gives rollouts and default versions values of parameters; those of before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = ("defaults", "rollouts")


def upgrade() -> None:
    """Add the columns."""
    for name in TABLES:
        op.add_column(name, sa.Column("parameter_values", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Remove the columns, and the values with them."""
    for name in TABLES:
        op.drop_column(name, "parameter_values")
