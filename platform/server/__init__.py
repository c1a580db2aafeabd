"""The server: gRPC for teams and operators, HTTP for devices, in one process and one event loop."""
