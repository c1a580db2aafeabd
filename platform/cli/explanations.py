"""`alcove rollout status --explain`: shows which version a described device would run, and why.

The signed policy is read from the server and resolved here, with the code that devices run: nothing is asked of any
device, and a secret that is given goes nowhere.
"""

import re
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer
from alcove.platform.cli.output import print_json, print_rows, print_table, say
from alcove.platform.cli.parameter_values import values_text

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient
    from alcove.platform.domain.device_view import Answer
    from alcove.registry.policy import DeviceAttributes, Policy

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
    from alcove.platform.domain.device_view import DescribedDevice, answers_of  # noqa: PLC0415 - loads pydantic

    if not app:
        raise typer.BadParameter("--explain needs --app: a policy is an app's")
    attributes, key = _attributes(device), _secret(secret)
    policy, halt = client.policy(app)
    if feature and feature not in policy.features:
        raise typer.BadParameter(f"the policy of {app!r} has no feature {feature}")
    now_s = int(time.time())  # a read-out of the holdout ends by it
    answers = answers_of(policy, halt, DescribedDevice(key, attributes), now_s=now_s, feature=feature)
    if as_json:
        print_json([one.to_json() for one in answers])
        return
    facts = ", ".join(f"{name}={getattr(attributes, name)}" for name in sorted(attributes.values)) or "nothing"
    say(f"policy {policy.serial} of {app}; the device says {facts}; secret {key.hex()}")
    _print(policy, answers)


def _print(policy: "Policy", answers: "list[Answer]") -> None:
    for one in answers:
        steps = one.explanation.steps
        rows = [[step.subject, step.check, "yes" if step.passed else "no", step.detail] for step in steps]
        print_table(["about", "question", "goes_on", "because"], rows, title=f"{one.feature}: {_result(one)}")
        for note in one.notes:
            say(f"  {note}")
    if not answers:
        print_rows([], as_json=False, empty=f"the policy of {policy.app} has no feature")


def _result(answer: "Answer") -> str:
    found = answer.explanation.resolution
    if found is None:
        return "nothing may run: the device keeps its previous version or the one inside the app"
    side = "" if found.arm is None else f", arm {found.arm}"
    values = values_text(answer.values)
    return f"{found.version.version}{values and ' with ' + values} ({found.reason}{side})"


def _attributes(text: str) -> "DeviceAttributes":
    from alcove.registry.errors import AudienceError  # noqa: PLC0415 - loads pydantic
    from alcove.registry.policy import parse_attributes  # noqa: PLC0415 - loads pydantic

    try:
        return parse_attributes(text)
    except AudienceError as error:
        raise typer.BadParameter(f"--device: {error}") from None


def _secret(text: str) -> bytes:
    """Return the secret that is given, that of a numbered device (as in the frozen vectors), or a random one."""
    from alcove.platform.domain.device_view import secret_of_number  # noqa: PLC0415 - loads pydantic

    if not text:
        return secrets.token_bytes(SECRET_BYTES)
    if _NUMBER.fullmatch(text):
        return secret_of_number(text)
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    raise typer.BadParameter("--secret is 64 hexadecimal digits, or a number of up to 18 digits")
