"""Shows what a described device would run for each feature of an app, and why, and how devices split.

Everything that is described is in the address, so that it can be shared.  A device is a number: an installation's own
secret has no place in an address, so it is refused here; `alcove rollout status --explain` takes it and sends it
nowhere.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import NotFoundError, PlatformClient, SignedPolicy, ValueOverride
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.domain import device_view
from alcove.platform.domain.device_view import DescribedDevice
from alcove.platform.domain.errors import InvalidFieldError
from alcove.registry.canonical import AppName
from alcove.registry.policy import VersionShare, split_devices
from alcove.registry.policy.attributes import ATTRIBUTES, OSES, coarse
from pydantic import TypeAdapter, ValidationError

__all__ = ["part_address", "routes"]

FIRST_DEVICE: Final = "1"
APPS_SHOWN: Final = 200  # of the list to choose from; any other can be typed
TEXT_SHOWN: Final = 200  # characters of what was typed that are shown again
_TITLES: Final = {
    "app_version": ("App version", "such as 2.3.0"),
    "device_class": ("Device class", "the app's own word, such as phone"),
    "locale": ("Locale", "language, script, region, such as de-AT"),
    "memory_mb": ("Memory (MB)", "such as 4096; counts by its step"),
    "os": ("System", ", ".join(OSES)),
    "region": ("Region", "two letters or three digits, such as AT"),
}


@dataclass(frozen=True)
class _Field:
    """One field of the form."""

    name: str
    title: str
    help: str
    value: str
    problem: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Found:
    """What was found of an app."""

    signed: SignedPolicy
    overrides: Mapping[str, ValueOverride]


def part_address(part: str, reason: str) -> str:
    """Return the page of a part of a policy; "": it has none."""
    return {"rollout": f"/rollouts/{part}", "experiment": f"/experiments/{part}"}.get(reason, "") if part else ""


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def devices(request: web.Request) -> Answer:
        query = request.query
        app = query.get("app", "").strip()
        apps, found, problem = await pages.ask(request, lambda client: _read(client, app))
        device, problems = _device(query)
        if app and problem:
            problems["app"] = problem
        fields = _fields(query, problems, apps)
        context: dict[str, Any] = {"fields": fields, "app": app, "apps": apps, "answers": None, "policy": None}
        context |= {"is_wrong": bool(problems)}
        data: dict[str, Any] = {"problems": problems}
        if device is None or problems or found is None:
            status = HTTPStatus.BAD_REQUEST if problems else HTTPStatus.OK
            return Answer("devices/devices.html", context, data, status)
        shown = _explain(found, device)
        context |= {"policy": found.signed.policy, "answers": shown, "part_address": part_address}
        data = {
            "app": app,
            "policy_serial": found.signed.policy.serial,
            "device": query.get("device", "").strip() or FIRST_DEVICE,
            "attributes": {name: getattr(device.attributes, name) for name in ATTRIBUTES},
            "features": [_to_json(each) for each in shown],
        }
        return Answer("devices/devices.html", context, data)

    return pages.routes("/devices", devices)


@dataclass(frozen=True)
class _Shown:
    """What is shown of a feature."""

    answer: device_view.Answer
    shares: tuple[VersionShare, ...]
    override: ValueOverride | None

    @property
    def steps(self) -> list[tuple[str, str, str]]:
        """Each step as a sentence, with what it is about and the page of that."""
        pairs = zip(self.answer.explanation.steps, self.answer.sentences, strict=True)
        return [(sentence, step.subject, part_address(*step.subject.split(" ")[::-1][:2])) for step, sentence in pairs]


def _read(client: PlatformClient, app: str) -> tuple[list[str], _Found | None, str]:
    """Return the apps, what there is of the one that is asked for, and why there is nothing."""
    apps = [one.app for one in client.policies_page(size=APPS_SHOWN).items]
    if not app:
        return apps, None, ""
    if not _is_name(app):
        return apps, None, "This is no name of an app: letters, digits, “.”, “_” and “-”."
    try:
        signed = client.policy_at(app)
    except NotFoundError:
        return apps, None, "No app of this name has a policy. Next: create a rollout for it."
    return apps, _Found(signed, {one.feature: one for one in client.overrides(app)}), ""


def _is_name(text: str) -> bool:
    try:
        TypeAdapter(AppName).validate_python(text)
    except ValidationError:
        return False
    return True


def _device(query: Mapping[str, str]) -> tuple[DescribedDevice | None, dict[str, str]]:
    """Return the device that an address describes, or what is wrong with it, by field."""
    problems: dict[str, str] = {}

    def attempt(read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except InvalidFieldError as error:
            problems[error.field] = f"Expected {error.bound}, got “{str(error.value)[:TEXT_SHOWN]}”."
            return None

    secret = attempt(device_view.secret_of_number, query.get("device", "").strip() or FIRST_DEVICE)
    typed = {name: query.get(name, "").strip() for name in ATTRIBUTES}
    for name, text in typed.items():
        attempt(device_view.read_attributes, {name: text})
    held = attempt(device_view.parse_held, query.get("held", ""))
    if problems:
        return None, problems
    return DescribedDevice(secret, device_view.read_attributes(typed), held), {}


def _fields(query: Mapping[str, str], problems: Mapping[str, str], apps: list[str]) -> list[_Field]:
    wanted = [
        ("app", "App", "whose policy is asked", tuple(apps)),
        ("device", "Device number", "any number; each is another made-up device with buckets of its own", ()),
        *((name, *_TITLES[name], OSES if name == "os" else ()) for name in ATTRIBUTES),
        ("held", "Versions it has", "FEATURE=VERSION, separated by commas; may be empty", ()),
    ]
    default = {"device": FIRST_DEVICE, "app": apps[0] if len(apps) == 1 else ""}
    return [
        _Field(
            name,
            title,
            words,
            query.get(name, default.get(name, ""))[:TEXT_SHOWN],
            problems.get(name, ""),
            tuple(options),
        )
        for name, title, words, options in wanted
    ]


def _explain(found: _Found, device: DescribedDevice) -> list[_Shown]:
    policy, halt, now_s = found.signed.policy, found.signed.halt, int(time.time())
    attributes = coarse(device.attributes)
    return [
        _Shown(
            answer,
            split_devices(policy, answer.feature, attributes=attributes, halted=halt.digests, now_s=now_s),
            found.overrides.get(answer.feature),
        )
        for answer in device_view.answers_of(policy, halt, device, now_s=now_s)
    ]


def _to_json(shown: _Shown) -> dict[str, Any]:
    answer = shown.answer
    return answer.to_json() | {
        "summary": answer.summary,
        "sentences": list(answer.sentences),
        "part": answer.part or None,
        "task_id": answer.task_id,
        "override": None if shown.override is None else shown.override.model_dump(mode="json"),
        "shares": [_share(one) for one in shown.shares],
    }


def _share(one: VersionShare) -> dict[str, Any]:
    return {
        "version": one.version or None,
        "reason": str(one.reason),
        "part": one.part or None,
        "arm": one.arm,
        "share": float(one.share),
    }
