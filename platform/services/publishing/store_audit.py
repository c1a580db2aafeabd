"""Audits rows, tree and blobs: each is sound, and they agree; for `alcove registry check`.

- The tree: every signature, date, digest and document that a client can reach, and every blob that they name.
- The rows: every manifest has its digest and is the one in the tree, whose blobs were proved.
- Both: every version of the tree is listed; every document said to be published is the tree's, or older than it.
"""

import asyncio
import hashlib
from dataclasses import dataclass

from alcove.platform.domain.errors import StoreDamagedError
from alcove.platform.store import Store
from alcove.platform.store.manifests import ListedManifest, PublishedDocument, last_published, listed_manifests
from alcove.registry.audit import AuditProblem, AuditReport
from alcove.registry.errors import IntegrityError, MissingTargetError, PublishError, RegistryError
from alcove.registry.layout import halt_path, policy_path
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.policy.document import halt_from_bytes, policy_from_bytes
from alcove.registry.repository import Repository
from alcove.registry.trust import TrustedState
from sqlalchemy import text

__all__ = ["StoreReport", "audit_store"]


@dataclass(frozen=True)
class StoreReport:
    """The result of an audit of the whole store.

    Attributes:
        tree: of the tree and the blobs that it names.
        row_count: listed versions that are as the tree has them.
        problems: what is wrong, of the tree first.
    """

    tree: AuditReport
    row_count: int
    problems: tuple[AuditProblem, ...]

    @property
    def is_sound(self) -> bool:
        """True where no problem was found."""
        return not self.problems


async def audit_store(store: Store | None, tree: Repository) -> StoreReport:
    """Return what could be proved; a server may be running, and what it publishes meanwhile is no fault.

    Args:
        store: the rows; None where there is no database yet.
        tree: says where the blobs are, too.

    Raises:
        StoreDamagedError: the database itself is damaged.
        StoreUnavailableError, StoreBusyError: it cannot be asked.
    """
    # Rows before the tree: a row is written after its version is in the tree, so each that is seen must be there.
    rows = [] if store is None else [item async for item in listed_manifests(store)]
    documents = [] if store is None else await last_published(store)
    if store is not None:
        await _audit_file(store)
    report = await asyncio.to_thread(tree.check)
    if store is None:
        return StoreReport(report, 0, report.problems)
    try:
        state = await asyncio.to_thread(tree.state)
    except RegistryError:
        return StoreReport(report, 0, report.problems)  # which say why
    problems = list(report.problems)
    known = {problem.thing for problem in problems}
    problems += [found for item in rows for found in _row_problems(item, state) if found.thing not in known]
    missing = await asyncio.to_thread(_list_unlisted, tree, {(item.feature, item.version) for item in rows})
    if missing:  # published since, or left by a kill: look again
        listed = {(item.feature, item.version) async for item in listed_manifests(store)}
        problems += [_unlisted_problem(*item) for item in missing if item not in listed]
    problems += [found for item in documents if (found := _document_problem(item, tree)) is not None]
    wrong = {problem.thing for problem in problems}
    sound = sum(manifest_path(item.feature, item.version) not in wrong for item in rows)
    return StoreReport(report, sound, tuple(problems))


async def _audit_file(store: Store) -> None:
    """Let SQLite look at each of its pages; PostgreSQL has checksums and tools of its own."""
    if store.is_shared:
        return
    async with store.read() as session:
        found = (await session.execute(text("PRAGMA integrity_check(3)"))).scalars().all()
    if found != ["ok"]:
        raise StoreDamagedError(store.where, "; ".join(found))


def _row_problems(item: ListedManifest, state: TrustedState) -> list[AuditProblem]:
    path = manifest_path(item.feature, item.version)
    thing = f"row of {path}"
    seen = hashlib.sha256(item.manifest).hexdigest()
    if seen != item.manifest_sha256:
        return [AuditProblem(thing, IntegrityError(thing, expected=item.manifest_sha256, seen=seen))]
    target = state.find(path)
    if target is None:
        return [AuditProblem(thing, MissingTargetError(path))]
    if target.hashes["sha256"] != seen:
        return [AuditProblem(thing, IntegrityError(thing, expected=target.hashes["sha256"], seen=seen))]
    try:
        manifest = Manifest.from_bytes(item.manifest)
    except RegistryError as error:
        return [AuditProblem(thing, error)]
    if (manifest.feature, manifest.version, manifest.team) != (item.feature, item.version, item.team):
        named = f"{manifest.feature} {manifest.version} of {manifest.team}"
        return [AuditProblem(thing, PublishError(f"{thing}, team {item.team}, holds the manifest of {named}"))]
    return []  # its blobs were proved with the tree's, under the same digest


def _list_unlisted(tree: Repository, listed: set[tuple[str, str]]) -> list[tuple[str, str]]:
    try:
        return [
            (manifest.feature, manifest.version)
            for manifest in tree.manifests()
            if (manifest.feature, manifest.version) not in listed
        ]
    except RegistryError:
        return []  # named by the tree's own report


def _unlisted_problem(feature: str, version: str) -> AuditProblem:
    error = PublishError(f"{feature} {version} is published and not listed: the next start of a server lists it")
    return AuditProblem(f"row of {manifest_path(feature, version)}", error)


def _document_problem(row: PublishedDocument, tree: Repository) -> AuditProblem | None:
    """Compare what was said to be published with what the tree holds: that, or what was published since."""
    is_halt = row.kind == "halt"
    path = halt_path(row.app) if is_halt else policy_path(row.app)
    try:
        document = halt_from_bytes(row.document) if is_halt else policy_from_bytes(row.document)
        current = tree.halt(row.app) if is_halt else tree.policy(row.app)
    except RegistryError as error:
        return AuditProblem(f"row of {path}", error)
    if (document.serial, document.app) != (row.serial, row.app):
        named = f"serial {document.serial} of {document.app}"
        return AuditProblem(f"row of {path}", PublishError(f"row of {path}, serial {row.serial}, holds {named}"))
    if current is None:
        return AuditProblem(path, MissingTargetError(path))
    if current.serial > document.serial or current == document:
        return None
    problem = (
        f"{path}: serial {document.serial} was published, the tree has another document, of serial {current.serial}"
    )
    return AuditProblem(path, PublishError(problem))
