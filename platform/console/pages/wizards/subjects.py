"""Reads what a wizard is about: a feature with its versions and metrics, and the apps that have it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from alcove.platform.client import FeatureSummary, InvalidRequestError, Metric, NotFoundError, PlatformClient
from alcove.platform.console.actions import may
from alcove.platform.console.viewer import Viewer
from alcove.registry.parameters import Parameter

__all__ = ["Subject", "absence_of", "asked_for", "read_features", "read_subject"]

VERSIONS_SHOWN: Final = 200
FEATURES_SHOWN: Final = 200
USABLE: Final = ("registered", "validated", "released")


@dataclass(frozen=True)
class Subject:
    """A feature.

    Attributes:
        feature: its name.
        team: that owns it.
        versions: that may be used, highest first.
        metrics: of its team, as they are now.
        apps: that had a rollout or an experiment of it.
        parameters: that the version declares which is offered first.
    """

    feature: str
    team: str
    versions: tuple[str, ...]
    metrics: tuple[Metric, ...]
    apps: tuple[str, ...]
    parameters: tuple[Parameter, ...]


def read_features(client: PlatformClient, text: str) -> tuple[FeatureSummary, ...]:
    """Return features to choose from, those whose name contains a text."""
    return client.features_page(text=text, size=FEATURES_SHOWN).items


def read_subject(client: PlatformClient, feature: str, version: str = "") -> Subject:
    """Return what is known of a feature.

    Args:
        client: of who asks.
        feature: its name.
        version: that an address asks for: it is offered even if it is not the newest.

    Raises:
        NotFoundError: it has no version.
    """
    some = client.versions_page(feature, size=1).items
    if not some:
        raise NotFoundError(
            "NOT_FOUND", "ResourceNotFoundError", f"no feature named {feature!r:.80} has a published version"
        )
    states = USABLE if client.rules(feature).accepts_any_state else ("released",)
    found = client.versions_page(feature, states=states, order="highest", size=VERSIONS_SHOWN).items
    versions = [one.version for one in found]
    if version and version not in versions and len(version) <= len("999999.999999.999999"):
        versions.append(version)
    apps = {one.app for one in client.rollouts(feature=feature)} | {one.app for one in client.experiments("", feature)}
    first = version or (versions[0] if versions else some[0].version)
    metrics, parameters = client.metrics(feature), _parameters(client, feature, first)
    return Subject(feature, some[0].team, tuple(versions), tuple(metrics), tuple(sorted(apps)), parameters)


def _parameters(client: PlatformClient, feature: str, version: str) -> tuple[Parameter, ...]:
    """Return the parameters of a version; none of one that there is not."""
    try:
        manifest = json.loads(client.version_details(feature, version=version).manifest)
    except (NotFoundError, InvalidRequestError):  # a version that an address or a form makes up
        return ()
    return tuple(Parameter.model_validate(each) for each in manifest.get("parameters", ()))


def absence_of(viewer: Viewer, team: str, rpc: str) -> str:
    """Return why a viewer has no button for a call about what a team owns, a sentence; "": there is one."""
    if may(viewer.role, rpc, team):
        return ""
    return (
        f"Your role is {viewer.role}; operators create this, of everything or of team {team}. "
        "You can write it here and see the forecast; send an operator this page's address."
    )


def asked_for(query: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return what an address asks a form to begin with."""
    return {name: query[name] for name in names if query.get(name)}
