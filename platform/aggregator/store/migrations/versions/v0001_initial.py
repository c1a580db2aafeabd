"""Creates the first schema of an aggregator."""

import sqlalchemy as sa
from alcove.platform.store.dialects import BIG
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "tasks",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("configuration", sa.LargeBinary, nullable=False),
        sa.Column("created_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_tasks"),
    )
    op.create_table(
        "report_ids",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("report_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "report_id", name="pk_report_ids"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_report_ids_task_id_time", "report_ids", ["task_id", "time"])
    op.create_table(
        "buckets",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.Column("aggregate_share", sa.LargeBinary, nullable=False),
        sa.Column("reports", BIG, nullable=False),
        sa.Column("checksum", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "time", name="pk_buckets"),
    )
    _create_tokens()
    _create_leader()
    _create_helper()


def _create_tokens() -> None:
    op.create_table(
        "spent_tokens",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("nonce", sa.LargeBinary, nullable=False),
        sa.Column("report_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "nonce", name="pk_spent_tokens"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_spent_tokens_task_id_time", "spent_tokens", ["task_id", "time"])
    op.create_table(
        "token_keys",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "time", name="pk_token_keys"),
    )


def _create_leader() -> None:
    op.create_table(
        "packets",
        sa.Column("sequence", BIG, autoincrement=True, nullable=False),
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("time", BIG, nullable=False),
        sa.Column("reports", BIG, nullable=False),
        sa.Column("job", BIG),
        sa.Column("not_before_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_packets"),
    )
    op.create_index("ix_packets_job_sequence", "packets", ["job", "sequence"])
    op.create_index("ix_packets_task_id_time", "packets", ["task_id", "time"])
    op.create_table(
        "packet_reports",
        sa.Column("packet", BIG, autoincrement=False, nullable=False),
        sa.Column("reports", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("packet", name="pk_packet_reports"),
    )
    op.create_table(
        "aggregation_jobs",
        sa.Column("sequence", BIG, autoincrement=True, nullable=False),
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("request", sa.LargeBinary),
        sa.Column("states", sa.LargeBinary),
        sa.Column("attempts", BIG, nullable=False),
        sa.Column("leased_until_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_aggregation_jobs"),
    )
    op.create_index("ix_aggregation_jobs_leased_until_s", "aggregation_jobs", ["leased_until_s"])
    op.create_table(
        "collection_jobs",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("job_id", sa.LargeBinary, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("start", BIG, nullable=False),
        sa.Column("end", BIG, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("response", sa.LargeBinary),
        sa.Column("problem", sa.Text),
        sa.Column("attempts", BIG, nullable=False),
        sa.Column("leased_until_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "job_id", name="pk_collection_jobs"),
    )
    op.create_index("ix_collection_jobs_state_leased_until_s", "collection_jobs", ["state", "leased_until_s"])


def _create_helper() -> None:
    op.create_table(
        "answered_jobs",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("job_id", sa.LargeBinary, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("first_time", BIG, nullable=False),
        sa.Column("last_time", BIG, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "job_id", name="pk_answered_jobs"),
    )
    op.create_table(
        "aggregate_shares",
        sa.Column("task_id", sa.LargeBinary, nullable=False),
        sa.Column("share_id", sa.LargeBinary, nullable=False),
        sa.Column("start", BIG, nullable=False),
        sa.Column("end", BIG, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "share_id", name="pk_aggregate_shares"),
        sa.UniqueConstraint("task_id", "start", name="uq_aggregate_shares_task_id_start"),
    )
