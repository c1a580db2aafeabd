"""Lists versions in a database without a tree, for tests of what happens to them later."""

import json
from dataclasses import replace

from alcove.platform.domain.records import VersionRecord, VersionState
from alcove.platform.store.versions import add_version, save_state
from sqlalchemy.ext.asyncio import AsyncSession

MANIFEST = json.dumps(
    {
        "signature": {
            "inputs": [{"dtype": "text", "is_ragged": False, "labels": [], "name": "text", "shape": []}],
            "outputs": [{"dtype": "f32", "is_ragged": False, "labels": [], "name": "score", "shape": [1]}],
        },
        "variants": [],
    }
).encode()
"""What is read of a manifest: a text in, a number out, no program."""


async def add_released(
    session: AsyncSession, *, feature: str, version: str, team: str, manifest_sha256: str
) -> VersionRecord:
    """List a version that is released."""
    record = await add_version(
        session,
        feature=feature,
        version=version,
        team=team,
        manifest_sha256=manifest_sha256,
        manifest=MANIFEST,
        published_at_s=1,
    )
    record = replace(record, state=VersionState.RELEASED)
    await save_state(session, record)
    return record
