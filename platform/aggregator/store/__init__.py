"""Stores an aggregator's rows in SQLite or PostgreSQL."""

from alcove.platform.aggregator.store.database import AggregatorDatabase, run_in

__all__ = ["AggregatorDatabase", "run_in"]
