"""Implements StatusService: whom devices trust, and which parts of the server work."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from pathlib import Path
from typing import Any, Final

import structlog
from alcove.api.status.v1 import status_pb2 as pb
from alcove.api.status.v1 import status_pb2_grpc as rpc
from alcove.platform.alerts.expiries import read_certificate_life
from alcove.platform.core.sharing import Shared
from alcove.platform.domain.health import HealthCheck, worst_state
from alcove.platform.domain.principal import Principal, current_principal
from alcove.platform.server.health_checks import FRESH_S, HealthChecks, ServerParts
from alcove.platform.server.wire import to_message
from alcove.platform.store.tokens import summarize_tokens
from alcove.registry.trust_summary import RoleSummary, summarize_trust

__all__ = ["StatusService"]

_log: Final = structlog.get_logger()


class StatusService(rpc.StatusServiceServicer):
    """State of the server.

    Args:
        parts: of the server.
        certificate: PEM chain of the server; None: it has none.
    """

    def __init__(self, parts: ServerParts, certificate: Path | None) -> None:
        self._parts = parts
        self._certificate = certificate
        self._health = HealthChecks(parts)
        self._trust = Shared(self._read_trust, FRESH_S)

    async def close(self) -> None:
        """Wait until what is under way has ended."""
        await self._trust.close()
        await self._health.close()

    async def GetTrust(self, request: pb.GetTrustRequest, context: Any) -> pb.GetTrustResponse:
        """Show roles, keys and expiry dates."""
        return await self._trust.get()

    async def GetHealth(self, request: pb.GetHealthRequest, context: Any) -> pb.GetHealthResponse:
        """Look at each part."""
        report = await self._health.read()
        shows_details = _operates_everything(current_principal())
        return pb.GetHealthResponse(
            state=pb.HealthState.Value(f"HEALTH_STATE_{worst_state(report.checks).name}"),
            checks=[_check_message(check, shows_details=shows_details) for check in report.checks],
            checked_at_s=report.checked_at_s,
        )

    async def _read_trust(self) -> pb.GetTrustResponse:
        now_s = self._parts.clock.now_s()
        found = await asyncio.to_thread(lambda: summarize_trust(self._parts.tree.state()))
        async with self._parts.store.read() as session:
            tokens = await summarize_tokens(session, now_s)
        return pb.GetTrustResponse(
            roles=[_role_message(role) for role in found.roles],
            tree=to_message(pb.TreeSize, found),
            tokens=to_message(pb.TokenSummary, tokens),
            certificate_expires_at_s=await asyncio.to_thread(self._find_certificate_end),
            now_s=now_s,
        )

    def _find_certificate_end(self) -> int:
        if self._certificate is None:
            return 0
        try:
            return read_certificate_life(self._certificate)[1]
        except (OSError, ValueError) as error:
            _log.error("the server's certificate cannot be read", problem=type(error).__name__)
            return 0


def _operates_everything(principal: Principal) -> bool:
    return principal.role.name == "operator" and principal.role.team is None


def _role_message(role: RoleSummary) -> pb.TrustedRole:
    return to_message(
        pb.TrustedRole,
        role,
        holder=pb.Holder.Value(f"HOLDER_{role.holder.name}"),
        keys=[to_message(pb.Key, key) for key in role.keys],
    )


def _check_message(check: HealthCheck, *, shows_details: bool) -> pb.HealthCheck:
    state = pb.HealthState.Value(f"HEALTH_STATE_{check.state.name}")
    return to_message(pb.HealthCheck, check, state=state, detail=check.detail if shows_details else "")
