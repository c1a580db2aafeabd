"""Lists the distributions that `make wheel` writes, and the extras that each offers.

    alcove-sdk                what every app carries
    alcove-feature-NAME       one feature
    alcove-platform           compiler, training, commands; its extra `server` adds what a server needs

An extra belongs to the distribution whose code imports what it adds.  The name `alcove` is another project's on the
public index, and is none of ours: whoever follows a message or a page must not install a stranger's package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SDK: Final = "alcove-sdk"
PLATFORM: Final = "alcove-platform"
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    SDK: ("openfeature",),
    PLATFORM: ("server", "export", "oidc", "onnx", "parquet", "plot", "traces"),
}
NOT_OFFERED: Final = frozenset({"commands", "dev", "site"})
"""Extras of pyproject.toml that no wheel has: what `alcove-platform` requires anyway, and what only this work needs."""


def name_feature(name: str) -> str:
    """Return the distribution of a feature: "alcove-feature-language-id" of "language_id"."""
    return f"alcove-feature-{name.replace('_', '-')}"


def list_distributions(root: Path) -> dict[str, frozenset[str]]:
    """Return every distribution with the names of its extras.

    Args:
        root: of the repository.
    """
    features = {name_feature(path.parent.name): frozenset[str]() for path in root.glob("features/*/contract.py")}
    return {name: frozenset(extras) for name, extras in EXTRAS.items()} | features


def read_extras(project: Mapping[str, Any], name: str) -> dict[str, tuple[str, ...]]:
    """Return what each extra of a distribution requires.

    Args:
        project: table of pyproject.toml.
        name: of the distribution.

    Raises:
        KeyError: pyproject.toml lacks an extra.
    """
    return {extra: tuple(project["optional-dependencies"][extra]) for extra in EXTRAS.get(name, ())}
