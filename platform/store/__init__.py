"""Where does the server keep its rows, and what may each part ask of them?  SQLite, write-ahead log, async."""

from alcove.platform.store.database import Store

__all__ = ["Store"]
