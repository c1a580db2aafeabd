"""Opens the gRPC ports: one for tokens, one for client certificates where there is a list of them.

gRPC asks for a client certificate or it does not; it cannot take one and do without.  So callers with certificates
have a port of their own, where each must bring one that the client CA has signed, and may send a token as well.
"""

import errno
from typing import Final

import grpc
import grpc.aio
from alcove.platform.domain import limits
from alcove.platform.listening.http import listen_http
from alcove.platform.server.settings import Settings

__all__ = ["GRPC_OPTIONS", "listen", "listen_for_certificates"]

GRPC_OPTIONS: Final = (
    ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
    ("grpc.max_send_message_length", limits.MESSAGE_BYTES),
    ("grpc.max_allowed_incoming_connections", limits.CONNECTIONS),
    ("grpc.max_concurrent_streams", limits.CALLS_OF_CONNECTION),
    ("grpc.max_connection_age_ms", limits.CONNECTION_AGE_MS),
    ("grpc.max_connection_age_grace_ms", limits.CONNECTION_END_MS),
    ("grpc.max_connection_idle_ms", limits.CONNECTION_IDLE_MS),
    ("grpc.server_handshake_timeout_ms", limits.HANDSHAKE_MS),
    ("grpc.http2.lookahead_bytes", limits.STREAM_WINDOW_BYTES),
    ("grpc.http2.bdp_probe", 0),  # or windows grow to megabytes for a fast sender
    ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share it
)


def listen(server: grpc.aio.Server, settings: Settings) -> int:
    """Open the gRPC port for tokens; return its number.

    Raises:
        OSError: the port is taken or not ours to open, or the TLS files cannot be read.
    """
    if settings.tls_key is None:
        return _open_port(server, settings, settings.grpc_port, None)
    return _open_port(server, settings, settings.grpc_port, grpc.ssl_server_credentials([_pair(settings)]))


def listen_for_certificates(server: grpc.aio.Server, settings: Settings) -> int | None:
    """Open the gRPC port for client certificates; return its number, None where no client CA is set.

    Raises:
        OSError: as `listen`.
    """
    if settings.client_ca is None:
        return None
    trusted = settings.client_ca.read_bytes()
    credentials = grpc.ssl_server_credentials([_pair(settings)], trusted, require_client_auth=True)
    return _open_port(server, settings, settings.mtls_port, credentials)


def _pair(settings: Settings) -> tuple[bytes, bytes]:
    if settings.tls_key is None or settings.tls_certificate is None:
        msg = "no TLS files"
        raise ValueError(msg)
    return settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes()


def _open_port(
    server: grpc.aio.Server, settings: Settings, port: int, credentials: grpc.ServerCredentials | None
) -> int:
    address = f"{settings.url_host}:{port}"
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise _reason(settings, port) or OSError(
            errno.EINVAL, "gRPC refuses the address or the TLS files", address
        ) from error


def _reason(settings: Settings, port: int) -> OSError | None:
    """Return why a port cannot be opened, which gRPC does not say; None where the system would open it."""
    try:
        listen_http(settings.host, port).close()
    except OSError as error:
        return error
    return None
