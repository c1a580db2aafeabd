"""How do registry records look on the wire?"""

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.core.records import VersionRecord

__all__ = ["version_message"]


def version_message(record: VersionRecord) -> pb.Version:
    """Return the message of a version."""
    return pb.Version(
        feature=record.feature,
        version=record.version,
        team=record.team,
        manifest_sha256=record.manifest_sha256,
        variants=[
            pb.Variant(
                name=variant.name,
                engine=variant.engine,
                sha256=variant.sha256,
                size_bytes=variant.size_bytes,
                memory_ceiling_bytes=variant.memory_ceiling_bytes,
            )
            for variant in record.variants
        ],
        published_at_s=record.published_at_s,
    )
