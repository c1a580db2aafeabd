"""`alcove rollout status --explain`: shows which version a described device would run, and why.

The signed policy is read from the server and resolved here, with the code that devices run: nothing is asked of any
device, and a secret that is given goes nowhere.
"""

import hashlib
import re
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from alcove.platform.cli.output import print_json, print_rows, print_table, say
from alcove.platform.cli.parameter_values import values_text

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient
    from alcove.registry.policy import DeviceAttributes, Explanation, FeaturePolicy, Halt, Policy

__all__ = ["Explained", "show_explanations"]

SECRET_BYTES: Final = 32
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class Explained:
    """Options of a command that explains."""

    Flag = Annotated[bool, typer.Option("--explain", help="Tell which version one device of --app would run, and why.")]
    Device = Annotated[
        str, typer.Option(help="What the app says of that device, such as os=ios,app_version=2.3.0,memory_mb=4096.")
    ]
    Secret = Annotated[
        str,
        typer.Option(help="Its installation secret, 64 hexadecimal digits, or a number for a made-up one."),
    ]


def show_explanations(
    client: "PlatformClient", app: str, feature: str, *, device: str, secret: str, as_json: bool
) -> None:
    """Print what the device would run for every feature of the app, or for one, step by step.

    Raises:
        typer.BadParameter: no app, an unknown feature, or a device or secret that cannot be read.
        ClientError: the server refused, or knows no policy of the app.
    """
    from alcove.registry.policy import explain  # noqa: PLC0415 - loads pydantic

    if not app:
        raise typer.BadParameter("--explain needs --app: a policy is an app's")
    attributes, key = _attributes(device), _secret(secret)
    policy, halt = client.policy(app)
    names = [feature] if feature else sorted(policy.features)
    if unknown := set(names) - policy.features.keys():
        raise typer.BadParameter(f"the policy of {app!r} has no feature {', '.join(sorted(unknown))}")
    now_s = int(time.time())  # a read-out of the holdout ends by it
    explanations = [
        explain(policy, name, key, attributes=attributes, halted=halt.digests, now_s=now_s) for name in names
    ]
    if as_json:
        print_json([_plain(one, halt, policy.features[one.feature]) for one in explanations])
        return
    facts = ", ".join(f"{name}={getattr(attributes, name)}" for name in sorted(attributes.values)) or "nothing"
    say(f"policy {policy.serial} of {app}; the device says {facts}; secret {key.hex()}")
    _print(policy, halt, explanations)


def _print(policy: "Policy", halt: "Halt", explanations: "list[Explanation]") -> None:
    for one in explanations:
        rows = [[step.subject, step.check, "yes" if step.passed else "no", step.detail] for step in one.steps]
        print_table(["about", "question", "goes_on", "because"], rows, title=f"{one.feature}: {_result(one)}")
        for note in _notes(one, halt, policy.features[one.feature]):
            say(f"  {note}")
    if not explanations:
        print_rows([], as_json=False, empty=f"the policy of {policy.app} has no feature")


def _result(explanations: "Explanation") -> str:
    found = explanations.resolution
    if found is None:
        return "nothing may run: the device keeps its previous version or the one inside the app"
    side = "" if found.arm is None else f", arm {found.arm}"
    values = values_text({setting.name: setting.value for setting in found.values})
    return f"{found.version.version}{values and ' with ' + values} ({found.reason}{side})"


def _notes(explanations: "Explanation", halt: "Halt", rules: "FeaturePolicy") -> list[str]:
    """Return what else decides on a device: a freeze, and what it fetches."""
    notes = []
    if explanations.feature in halt.frozen:
        notes.append("frozen: a device that has a version of this feature keeps it")
    parts = [one for one in (*rules.experiments, rules.rollout) if one is not None and one.own_arm]
    notes += [f"own_arm: devices in {one.id} fetch their own arm only, so downloads tell it" for one in parts]
    return notes


def _plain(explanations: "Explanation", halt: "Halt", rules: "FeaturePolicy") -> dict[str, Any]:
    found = explanations.resolution
    return {
        "feature": explanations.feature,
        "version": None if found is None else found.version.version,
        "reason": None if found is None else str(found.reason),
        "arm": None if found is None else found.arm,
        "values": {} if found is None else {setting.name: setting.value for setting in found.values},
        "steps": [
            {"about": step.subject, "question": str(step.check), "goes_on": step.passed, "because": step.detail}
            for step in explanations.steps
        ],
        "notes": _notes(explanations, halt, rules),
    }


def _attributes(text: str) -> "DeviceAttributes":
    from alcove.registry.errors import AudienceError  # noqa: PLC0415 - loads pydantic
    from alcove.registry.policy import parse_attributes  # noqa: PLC0415 - loads pydantic

    try:
        return parse_attributes(text)
    except AudienceError as error:
        raise typer.BadParameter(f"--device: {error}") from None


def _secret(text: str) -> bytes:
    """Return the secret that is given, that of a numbered device (as in the frozen vectors), or a random one."""
    if not text:
        return secrets.token_bytes(SECRET_BYTES)
    if _NUMBER.fullmatch(text):
        return hashlib.sha256(text.encode()).digest()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    raise typer.BadParameter("--secret is 64 hexadecimal digits, or a number of up to 18 digits")
