"""Sets and removes tags of versions.  A tag names who set it; what it was before is in the audit log."""

from alcove.platform.domain import limits
from alcove.platform.domain.catalog.names import TagKey, TagValue
from alcove.platform.domain.catalog_records import Tag
from alcove.platform.domain.errors import InvalidFieldError, ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field
from alcove.platform.domain.records import VersionRecord
from alcove.platform.store import catalog
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["remove_tag", "set_tag"]


async def set_tag(uow: UnitOfWork, version: VersionRecord, *, key: str, value: str) -> None:
    """Give a version a tag, or its tag another value.

    Raises:
        InvalidFieldError: key or value is malformed, or the version has its tags already.
    """
    tag = Tag(validate_field("key", TagKey, key), validate_field("value", TagValue, value), uow.principal, uow.now_s)
    (listed,) = await catalog.list_versions(uow.session, [version])
    before = {known.key: known.value for known in listed.tags}
    if key not in before and len(before) >= limits.TAGS_MAX:
        raise InvalidFieldError("key", f"at most {limits.TAGS_MAX} tags of a version", len(before) + 1)
    await catalog.set_tag(uow.session, version, tag)
    subject = f"{version.feature} {version.version}"
    await uow.audit("set tag", subject, key=key, before=before.get(key), after=value)


async def remove_tag(uow: UnitOfWork, version: VersionRecord, *, key: str) -> None:
    """Take a tag from a version.

    Raises:
        InvalidFieldError: the key is malformed.
        ResourceNotFoundError: the version has no such tag.
    """
    key = validate_field("key", TagKey, key)
    tag = await catalog.find_tag(uow.session, version, key)
    if tag is None:
        raise ResourceNotFoundError("tag", f"{version.feature} {version.version} {key}")
    await catalog.remove_tag(uow.session, version, key)
    await uow.audit("remove tag", f"{version.feature} {version.version}", key=key, before=tag.value)
