"""Adds what becomes of a version to the schema: states, aliases, tags, validations, rules and searchable facts.

Versions that are there already become searchable by what their manifests say; their cards lie among the blobs, out of a
migration's reach.
"""

import json

import sqlalchemy as sa
from alcove.platform.store.migrations.dialects import BIG, make_immutable
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

IMMUTABLE = ("state_moves", "alias_moves", "alias_proposals", "validations", "feature_rules")


def upgrade() -> None:
    """Make the tables and the triggers, and write the facts of the versions that are there."""
    _create_facts()
    _create_states()
    _create_aliases()
    for table in IMMUTABLE:
        make_immutable(table)
    _write_facts()


def _create_facts() -> None:
    op.create_table(
        "version_facts",
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("version_key", BIG, nullable=False),
        sa.Column("search_text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("version_sequence", name="pk_version_facts"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_version_facts_version_sequence"),
    )
    op.create_index("ix_version_facts_version_key", "version_facts", ["version_key"])
    op.create_table(
        "version_tags",
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("search_text", sa.Text, nullable=False),
        sa.Column("set_by", sa.Text, nullable=False),
        sa.Column("set_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("version_sequence", "key", name="pk_version_tags"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_version_tags_version_sequence"),
    )
    op.create_index("ix_version_tags_key_value", "version_tags", ["key", "value"])


def _create_states() -> None:
    op.create_table(
        "state_moves",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("from_state", sa.Text, nullable=False),
        sa.Column("to_state", sa.Text, nullable=False),
        sa.Column("moved_by", sa.Text, nullable=False),
        sa.Column("moved_at_s", BIG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_state_moves"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_state_moves_version_sequence"),
    )
    op.create_index("ix_state_moves_version_sequence", "state_moves", ["version_sequence"])
    op.create_table(
        "validations",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("version_sequence", BIG, nullable=False),
        sa.Column("is_passed", sa.Boolean, nullable=False),
        sa.Column("checks", sa.Text, nullable=False),
        sa.Column("validated_by", sa.Text, nullable=False),
        sa.Column("validated_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_validations"),
        sa.ForeignKeyConstraint(["version_sequence"], ["versions.sequence"], name="fk_validations_version_sequence"),
    )
    op.create_index("ix_validations_version_sequence", "validations", ["version_sequence"])
    op.create_table(
        "feature_rules",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("rules", sa.Text, nullable=False),
        sa.Column("set_by", sa.Text, nullable=False),
        sa.Column("set_at_s", BIG, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_feature_rules"),
    )
    op.create_index("ix_feature_rules_feature", "feature_rules", ["feature"])


def _create_aliases() -> None:
    op.create_table(
        "aliases",
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feature", "alias", name="pk_aliases"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_aliases_feature"),
    )
    op.create_table(
        "alias_moves",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("from_version", sa.Text),
        sa.Column("to_version", sa.Text),
        sa.Column("moved_by", sa.Text, nullable=False),
        sa.Column("moved_at_s", BIG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.PrimaryKeyConstraint("sequence", name="pk_alias_moves"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_alias_moves_feature"),
    )
    op.create_index("ix_alias_moves_feature_alias", "alias_moves", ["feature", "alias"])
    op.create_table(
        "alias_proposals",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("proposal_id", sa.Text, nullable=False),
        sa.Column("feature", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("base_sequence", BIG, nullable=False),
        sa.Column("from_version", sa.Text),
        sa.Column("to_version", sa.Text),
        sa.Column("proposed_by", sa.Text, nullable=False),
        sa.Column("proposed_at_s", BIG, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_alias_proposals"),
        sa.UniqueConstraint("proposal_id", name="uq_alias_proposals_proposal_id"),
        sa.ForeignKeyConstraint(["feature"], ["features.name"], name="fk_alias_proposals_feature"),
    )
    op.create_index("ix_alias_proposals_feature", "alias_proposals", ["feature"])


def _write_facts() -> None:
    """As the store did when this revision was made; what it does later is its own business."""
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT sequence, feature, version, manifest FROM versions")).all()
    for sequence, feature, version, manifest in rows:
        major, minor, patch = map(int, version.split("."))
        team = json.loads(bytes(manifest)).get("team", "")
        connection.execute(
            sa.text("INSERT INTO version_facts VALUES (:sequence, :key, :text, 'registered')"),
            {
                "sequence": sequence,
                "key": (major * 1_000_000 + minor) * 1_000_000 + patch,
                "text": f"{feature}\n{version}\n{team}".lower(),
            },
        )


def downgrade() -> None:
    """Drop what this revision made."""
    for table in (
        "alias_proposals",
        "alias_moves",
        "aliases",
        "feature_rules",
        "validations",
        "state_moves",
        "version_tags",
        "version_facts",
    ):
        op.drop_table(table)
