"""The server: gRPC for teams and operators, and the keeper of the process that answers devices over HTTP."""

from alcove.platform.core.log import silence_grpc

silence_grpc()
