"""Stores an aggregator's rows in SQLite or PostgreSQL."""

from alcove.platform.aggregator.store.database import AggregatorDatabase

__all__ = ["AggregatorDatabase"]
