"""Provides what tests need around a server: a folder with keys and tokens, and server processes on loopback."""

from alcove.platform.testing.world import Served, ServerWorld

__all__ = ["Served", "ServerWorld"]
