"""Runs migrations for Alembic, through the connection that `Store.open` hands it."""

from alcove.platform.store import alert_tables, catalog_tables, metric_tables  # noqa: F401 - they join `Base`
from alcove.platform.store.tables import Base
from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter columns in place
)
with context.begin_transaction():
    context.run_migrations()
