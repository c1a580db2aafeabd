"""Serves teams and operators over gRPC, and keeps the process that answers devices over HTTP."""

from alcove.platform.core.log import silence_grpc

silence_grpc()
