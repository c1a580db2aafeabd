"""What do tests need around a server?  A folder with keys and tokens, and real server processes on loopback."""

from alcove.platform.testing.world import Served, ServerWorld

__all__ = ["Served", "ServerWorld"]
