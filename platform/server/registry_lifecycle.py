"""Implements the calls of RegistryService about states of versions, and the rules that they are validated against."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from typing import Any

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.domain.errors import InvalidFieldError, ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field
from alcove.platform.domain.permissions import require_owner, require_team
from alcove.platform.domain.principal import current_principal
from alcove.platform.domain.records import VersionRecord
from alcove.platform.server.registry_aliases import owned_version
from alcove.platform.server.registry_convert import rules_from, rules_message, validation_message, version_message
from alcove.platform.services.catalog import states
from alcove.platform.services.catalog.revocation import revoke
from alcove.platform.services.catalog.rules import set_rules, validate_rules
from alcove.platform.services.catalog.validation import Validator
from alcove.platform.services.mutations import Mutations
from alcove.platform.store.catalog import list_versions, rules_of
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import get_version
from alcove.registry.canonical import FeatureName, VersionText
from alcove.registry.manifest import manifest_path
from alcove.registry.repository import Repository

__all__ = ["LifecycleCalls"]


class LifecycleCalls:
    """States of versions and rules of features."""

    _mutations: Mutations
    _tree: Repository
    _validator: Validator

    async def ValidateVersion(self, request: pb.ValidateVersionRequest, context: Any) -> pb.ValidateVersionResponse:
        """Hold a version against the rules of its feature."""
        known = await self._mutations.find_response(request, pb.ValidateVersionResponse)
        if known is not None:
            return known
        feature = validate_field("feature", FeatureName, request.feature)
        version = validate_field("version", VersionText, request.version)
        async with self._mutations.store.read() as session:
            require_team(current_principal(), (await get_version(session, feature, version)).team)
        checks = await self._validator.run_checks(feature, version)

        async def work(uow: UnitOfWork) -> pb.ValidateVersionResponse:
            record, validation = await self._validator.conclude(uow, feature, version, checks)
            return pb.ValidateVersionResponse(
                version=await _message(uow, record), validation=validation_message(validation)
            )

        return await self._mutations.run(request, pb.ValidateVersionResponse, work)

    async def ReleaseVersion(self, request: pb.ReleaseVersionRequest, context: Any) -> pb.ReleaseVersionResponse:
        """Say that a version may be used."""

        async def work(uow: UnitOfWork) -> pb.ReleaseVersionResponse:
            owned = await owned_version(uow, request.feature, request.version)
            record = await states.release(uow, owned.feature, owned.version, reason=request.reason)
            return pb.ReleaseVersionResponse(version=await _message(uow, record))

        return await self._mutations.run(request, pb.ReleaseVersionResponse, work)

    async def DeprecateVersion(
        self, request: pb.DeprecateVersionRequest, context: Any
    ) -> pb.DeprecateVersionResponse:  # fmt: skip
        """Say that a version should not be chosen any more."""

        async def work(uow: UnitOfWork) -> pb.DeprecateVersionResponse:
            owned = await owned_version(uow, request.feature, request.version)
            record = await states.deprecate(uow, owned.feature, owned.version, reason=request.reason)
            return pb.DeprecateVersionResponse(version=await _message(uow, record))

        return await self._mutations.run(request, pb.DeprecateVersionResponse, work)

    async def RevokeVersion(self, request: pb.RevokeVersionRequest, context: Any) -> pb.RevokeVersionResponse:
        """Forbid a version for ever, in every app that uses it."""
        feature = validate_field("feature", FeatureName, request.feature)
        version = validate_field("version", VersionText, request.version)

        async def work(uow: UnitOfWork) -> pb.RevokeVersionResponse:
            team = (await get_version(uow.session, feature, version)).team
            require_owner(current_principal(), team, "revoke versions")
            record, apps = await revoke(uow, feature, version, reason=request.reason)
            return pb.RevokeVersionResponse(version=await _message(uow, record), apps=apps)

        return await self._mutations.run(request, pb.RevokeVersionResponse, work)

    async def SetFeatureRules(self, request: pb.SetFeatureRulesRequest, context: Any) -> pb.SetFeatureRulesResponse:
        """Set the rules that versions of a feature must meet."""
        feature = validate_field("feature", FeatureName, request.feature)
        if not request.HasField("rules"):
            raise InvalidFieldError("rules", "the rules, all of them", None)
        rules = validate_rules(rules_from(request.rules))
        state = await asyncio.to_thread(self._tree.state)
        if state.role_for(manifest_path(feature, "0.0.0")) is None:
            raise ResourceNotFoundError("feature that a team owns", feature)

        async def work(uow: UnitOfWork) -> pb.SetFeatureRulesResponse:
            return pb.SetFeatureRulesResponse(rules=rules_message(await set_rules(uow, feature, rules)))

        return await self._mutations.run(request, pb.SetFeatureRulesResponse, work)

    async def GetFeatureRules(self, request: pb.GetFeatureRulesRequest, context: Any) -> pb.GetFeatureRulesResponse:
        """Return the rules that versions of a feature must meet."""
        feature = validate_field("feature", FeatureName, request.feature)
        async with self._mutations.store.read() as session:
            return pb.GetFeatureRulesResponse(rules=rules_message(await rules_of(session, feature)))


async def _message(uow: UnitOfWork, record: VersionRecord) -> pb.Version:
    (version,) = await list_versions(uow.session, [record])
    return version_message(version)
