"""Runs each mutation once, however often its request is sent, and publishes what it decided.

One transaction holds the change, its audit entry and its response under the caller's request id.  Then what was decided
is published to the tree.  A repeat finds the response and publishes what a failure left unpublished.

A request with `validate_only` goes the same way up to the end of its transaction, which is then thrown away: the answer
is the one that would be given (ids that the server chooses are others), and nothing is kept, audited or published.

The database has one writer at a time.  A caller's mutations go there one after the other, so that a halt waits for one
of each other caller at most, however many they send.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.field_validation import validate_request_id
from alcove.platform.domain.principal import current_principal
from alcove.platform.services.policy.decide import apply_reinstatements
from alcove.platform.services.policy.policy_publisher import PolicyPublisher
from alcove.platform.services.scope import validate_scope
from alcove.platform.store import Store
from alcove.platform.store.requests import find_response, keep_response
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.layout import TEAM_PREFIX, is_team
from alcove.registry.manifest import manifest_path
from alcove.registry.min_versions import parse_min_versions
from alcove.registry.online import reinstatements_by_feature
from alcove.registry.reinstatements import Reinstatement
from alcove.registry.repository import Repository
from alcove.runtime.clock import Clock
from google.protobuf.message import Message

__all__ = ["Mutations"]

_Response = TypeVar("_Response", bound=Message)
_Done = TypeVar("_Done")

_TEAMS = "server/reinstatements"  # principal of what is done because a team has signed it


class _Request(Protocol):
    """Any request of a mutation."""

    request_id: str

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes:  # noqa: N802 - protobuf's name
        """Return the wire bytes."""
        ...


@dataclass(frozen=True)
class Mutations:
    """Runs mutations."""

    store: Store
    publisher: PolicyPublisher
    tree: Repository
    clock: Clock
    _turns: Turns = field(default_factory=lambda: Turns(limits.CALLER_MUTATIONS), init=False)

    async def find_response(self, request: _Request, kind: type[_Response]) -> _Response | None:
        """Return the stored response of this very request, or None when it is new.

        Raises:
            InvalidFieldError: the request id is malformed.
            RequestIdReusedError: the id was used for another content.
        """
        async with self.store.read() as session:
            key = _key(request, kind)
            stored = await find_response(session, **key)
        return None if stored is None else kind.FromString(stored)

    async def run(
        self, request: _Request, kind: type[_Response], work: Callable[[UnitOfWork], Awaitable[_Response]]
    ) -> _Response:
        """Return the response of `work`, done now or when the request came first.

        Args:
            request: names the mutation by its `request_id`; where it has a field `validate_only` that is set, nothing
                is kept.
            kind: class of the response.
            work: changes rows and audits; everything it does is committed together or not at all.

        Raises:
            InvalidFieldError: the request id is malformed.
            RequestIdReusedError: the id was used for another content.
            RegistryError: the tree could not be written; the change stands, and repeating publishes it.
            PlatformError: whatever `work` raises.
        """
        async with self._turns.turn(current_principal().name):
            return await self._run(request, kind, work)

    async def _run(
        self, request: _Request, kind: type[_Response], work: Callable[[UnitOfWork], Awaitable[_Response]]
    ) -> _Response:
        key = _key(request, kind)
        rules = await asyncio.to_thread(self.team_signed_rules)
        now_s = self.clock.now_s()
        if getattr(request, "validate_only", False):
            async with self.store.rehearse() as session:
                await validate_scope(session, current_principal(), request, self.team_of)
                stored = await find_response(session, **key)
                uow = UnitOfWork(session, current_principal().name, now_s, *rules)
                return await work(uow) if stored is None else kind.FromString(stored)
        async with self.store.write() as session:
            await validate_scope(session, current_principal(), request, self.team_of)
            uow = UnitOfWork(session, current_principal().name, now_s, *rules)
            stored = await find_response(session, **key)
            if stored is None:
                response = await work(uow)
                await uow.note_decisions()
                await keep_response(session, **key, response=response.SerializeToString(), now_s=now_s)
            else:
                response = kind.FromString(stored)
        failures = await self.publisher.flush()
        for decided in uow.decided & failures.keys():
            raise failures[decided]
        return response

    async def act(self, principal: str, work: Callable[[UnitOfWork], Awaitable[_Done]]) -> _Done:
        """Return what `work` did, which nobody called for: the server itself acts, as `principal`.

        Raises:
            RegistryError: the tree could not be written; the change stands, and the next flush publishes it.
            PlatformError: whatever `work` raises.
        """
        rules = await asyncio.to_thread(self.team_signed_rules)
        async with self.store.write() as session:
            uow = UnitOfWork(session, principal, self.clock.now_s(), *rules)
            done = await work(uow)
            await uow.note_decisions()
        if uow.decided:
            await self.publisher.flush()
        return done

    def team_of(self, feature: str) -> str | None:
        """Return the team whose role may speak about a feature, None where nobody may.

        Raises:
            RegistryError: the tree is damaged.
        """
        role = self.tree.state().role_for(manifest_path(feature, "0.0.0"))
        return role.removeprefix(TEAM_PREFIX) if role is not None and is_team(role) else None

    def team_signed_rules(self) -> tuple[dict[str, str], dict[str, tuple[Reinstatement, ...]]]:
        """Return the minimum version of each feature that has one, and what the team of each feature has reinstated.

        Raises:
            RegistryError: the tree is damaged.
        """
        state = self.tree.state()
        teams = {role: signed.metadata.signed for role, signed in state.roles.items() if is_team(role)}
        lowest = {
            feature: min_version
            for role, signed in teams.items()
            for feature, min_version in parse_min_versions(role, signed).items()
        }
        return lowest, reinstatements_by_feature(state)

    async def follow_teams(self) -> None:
        """Decide what teams have said to the tree without a call: what they have reinstated leaves the halts.

        Raises:
            RegistryError: the tree is damaged.
        """
        rules = await asyncio.to_thread(self.team_signed_rules)
        async with self.store.write() as session:
            uow = UnitOfWork(session, _TEAMS, self.clock.now_s(), *rules)
            await apply_reinstatements(uow)
            await uow.note_decisions()


def _key(request: _Request, kind: type[Message]) -> dict[str, str]:
    """Return what names a mutation: who (by role, so that a renewed token may repeat), which id, what content.

    To try a request and then to send it is one content: the answers are compared with the same stored one.
    """
    return {
        "principal": str(current_principal().role),
        "request_id": validate_request_id(request.request_id),
        "method": kind.DESCRIPTOR.full_name.rpartition(".")[2].removesuffix("Response"),
        "content_sha256": hashlib.sha256(_content(request)).hexdigest(),
    }


def _content(request: Any) -> bytes:
    if getattr(request, "validate_only", False):
        sent, request = request, type(request)()
        request.CopyFrom(sent)
        request.ClearField("validate_only")
    return bytes(request.SerializeToString(deterministic=True))
