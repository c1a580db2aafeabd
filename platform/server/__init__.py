"""The server: gRPC for teams and operators, HTTP for devices, in one process and one event loop."""

from alcove.platform.server.serve import serve
from alcove.platform.server.settings import Settings

__all__ = ["Settings", "serve"]
