"""Validates versions on the server, without holding up anything else, and keeps the result.

rows read ─▶ programs run, each in a process of its own ─▶ result and state written together

Rules and versions that change while the programs run do not change this result; a state that does (a revocation) makes
the last step refuse.
"""

from dataclasses import dataclass

from alcove.platform.domain.catalog.lifecycle import Action, transition, validate_state
from alcove.platform.domain.catalog.validation import validate
from alcove.platform.domain.catalog_records import CheckResult, FeatureRules, ValidationRecord
from alcove.platform.domain.records import VersionRecord
from alcove.platform.services.catalog.states import move
from alcove.platform.services.validation import ProgramChecks, Supplies
from alcove.platform.store import Store
from alcove.platform.store.catalog import add_validation, rules_of
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.versions import get_version, previous_version
from alcove.registry.manifest import Manifest
from alcove.registry.repository import Repository

__all__ = ["Validator"]


@dataclass(frozen=True)
class Validator:
    """Validates versions.

    Attributes:
        store: where versions and rules are listed.
        tree: has their blobs.
        checks: opens and runs programs.
    """

    store: Store
    tree: Repository
    checks: ProgramChecks

    async def run_checks(self, feature: str, version: str) -> tuple[CheckResult, ...]:
        """Return every check of a version; nothing is written.

        Raises:
            ResourceNotFoundError: it was never published.
            IllegalTransitionError: it is neither registered nor validated.
            ChecksFullError: too many programs wait to be checked.
            RegistryError: its blobs cannot be read.
        """
        async with self.store.read() as session:
            record = await get_version(session, feature, version)
            validate_state(record)
            rules = await rules_of(session, feature)
            previous = await previous_version(session, record)
        return await self._run_checks(record, rules, previous)

    async def conclude(
        self, uow: UnitOfWork, feature: str, version: str, checks: tuple[CheckResult, ...]
    ) -> tuple[VersionRecord, ValidationRecord]:
        """Keep what was found, and take the version along; return both.

        Raises:
            IllegalTransitionError: the version was revoked or released meanwhile.
        """
        before = await get_version(uow.session, feature, version)
        is_passed = all(check.is_passed for check in checks)
        action = Action.ACCEPT if is_passed else Action.REJECT
        validation = ValidationRecord(is_passed, checks, uow.principal, uow.now_s)
        transition(before, action)
        await add_validation(uow.session, before, validation)
        failed = [check for check in checks if not check.is_passed]
        names = [f"{check.name} {check.variant}".strip() for check in failed]
        reason = f"failed: {', '.join(names)}"[:500] if failed else "every check passed"
        return await move(uow, before, action, reason), validation

    async def _run_checks(
        self, record: VersionRecord, rules: FeatureRules, previous: VersionRecord | None
    ) -> tuple[CheckResult, ...]:
        manifest = Manifest.from_bytes(record.manifest)
        found = {
            variant.name: await self.checks.validate(
                manifest.team, variant.name, Supplies(self.tree.blobs, variant.sha256)
            )
            for variant in manifest.variants
        }
        before = None if previous is None else Manifest.from_bytes(previous.manifest)
        return validate(manifest, found, rules, before)
