"""Defines what a person can do with a version."""

from typing import Any, Final

from alcove.platform.client import PlatformClient
from alcove.platform.console.actions import Action, Field, Form
from alcove.platform.console.pages.features import REGISTRY

__all__ = ["actions_of"]

USABLE: Final = frozenset({"registered", "validated", "released", "deprecated"})  # all but revoked
ALIAS: Final = r"[a-z][a-z0-9_\-]{0,31}"


def actions_of(feature: str, version: str, state: str | None = None, *, is_any_usable: bool = False) -> list[Action]:
    """Return the actions of a version.

    Args:
        feature: that it is of.
        version: its number.
        state: only those that this state allows; None: all.
        is_any_usable: whether the feature's rules let unreleased versions be used.
    """
    usable = USABLE if is_any_usable else frozenset({"released"})
    return [action for action, states in _all(feature, version, usable) if state is None or state in states]


def _all(feature: str, version: str, usable: frozenset[str]) -> list[tuple[Action, frozenset[str]]]:
    def validate(client: PlatformClient, form: Form) -> Any:
        return client.validate_version(feature, version, request_id=form.request_id)

    def release(client: PlatformClient, form: Form) -> Any:
        return client.release_version(feature, version, reason=form.reason, request_id=form.request_id)

    def alias(client: PlatformClient, form: Form) -> Any:
        name = form.values["alias"]
        return client.set_alias(feature, name, version, reason=form.reason, request_id=form.request_id)

    def deprecate(client: PlatformClient, form: Form) -> Any:
        return client.deprecate_version(feature, version, reason=form.reason, request_id=form.request_id)

    def revoke(client: PlatformClient, form: Form) -> Any:
        return client.revoke_version(feature, version, reason=form.reason, request_id=form.request_id)

    name = f"{feature} {version}"
    return [
        (
            Action(
                "validate",
                "Validate",
                REGISTRY + "ValidateVersion",
                "Computes the certificate again on the server and compares the version with the feature's rules.",
                "The version was validated; the checks say what was found.",
                validate,
                needs_reason=False,
            ),
            frozenset({"registered", "validated"}),
        ),
        (
            Action(
                "release",
                "Release",
                REGISTRY + "ReleaseVersion",
                "Says that rollouts and experiments may use the version. No device gets it by that alone.",
                "The version is released.",
                release,
            ),
            frozenset({"validated", "deprecated"}),
        ),
        (
            Action(
                "alias",
                "Move an alias here",
                REGISTRY + "SetAlias",
                "Points a name to this version, or proposes it where the feature's rules ask for a second person.",
                "The alias points here, or its move waits for approval on the feature's page.",
                alias,
                fields=(Field("alias", "Alias", (), ALIAS, "A name such as “stable”: lower case, digits, _ and -."),),
            ),
            usable,
        ),
        (
            Action(
                "deprecate",
                "Deprecate",
                REGISTRY + "DeprecateVersion",
                "Says that the version should not be chosen any more. Devices that run it keep it.",
                "The version is deprecated.",
                deprecate,
            ),
            frozenset({"released"}),
        ),
        (
            Action(
                "revoke",
                "Revoke",
                REGISTRY + "RevokeVersion",
                "Forbids the version for ever, in every app: devices drop it at their next check-in.",
                "The version is revoked; devices drop it at their next check-in.",
                revoke,
                confirmation=name,
                is_grave=True,
            ),
            USABLE,
        ),
    ]
