"""Stores the server's rows in SQLite or PostgreSQL; one module for the queries of each subject."""

from alcove.platform.store.database import Store

__all__ = ["Store"]
