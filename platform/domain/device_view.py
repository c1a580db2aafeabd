"""Says what a described device would run for each feature of an app, and why, in sentences.  Pure.

The command line and the console show it; `registry.policy.explain` decides it, with the code that devices run.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.registry.canonical import FeatureName, VersionText
from alcove.registry.errors import AttributeValueError
from alcove.registry.policy import Check, DeviceAttributes, Explanation, Halt, Policy, Reason, Step, explain
from alcove.registry.policy.attributes import NO_ATTRIBUTES, coarse, spell
from pydantic import TypeAdapter, ValidationError

__all__ = ["Answer", "DescribedDevice", "answers_of", "parse_held", "read_attributes", "secret_of_number"]

NUMBER_DIGITS: Final = 18
HELD_MOST: Final = 200  # versions that a described device may hold
TEXT_MOST: Final = 4096  # characters of a description
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_FEATURE: Final = TypeAdapter(FeatureName)
_VERSION: Final = TypeAdapter(VersionText)


@dataclass(frozen=True)
class DescribedDevice:
    """A device that somebody describes.

    Attributes:
        secret: 32 bytes, of which its buckets are made.
        attributes: what the app says of it.
        held: version that it has installed, by feature.
    """

    secret: bytes
    attributes: DeviceAttributes = NO_ATTRIBUTES
    held: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a device runs for one feature, and the way to it.

    Attributes:
        feature: its name.
        explanation: what was asked and answered.
        halt: of the app.
        own_arm: ids of the parts of the policy whose downloads tell their arm.
        held: version of the feature that the device has; "": none, or not said.
    """

    feature: str
    explanation: Explanation
    halt: Halt
    own_arm: tuple[str, ...]
    held: str = ""

    @property
    def version(self) -> str | None:
        """Version that the policy assigns; None: nothing that it names may run."""
        found = self.explanation.resolution
        return None if found is None else found.version.version

    @property
    def part(self) -> str:
        """Id of the rollout, experiment or read-out that chose; "": the default did."""
        found = self.explanation.resolution
        if found is None or found.reason is Reason.DEFAULT:
            return ""
        if found.experiment_id is not None:
            return found.experiment_id
        subject = next((step.subject for step in reversed(self.explanation.steps) if step.passed), "")
        return subject.rpartition(" ")[2]

    @property
    def values(self) -> dict[str, Any]:
        """What it gives parameters of the version."""
        found = self.explanation.resolution
        return {} if found is None else {setting.name: setting.value for setting in found.values}

    @property
    def task_id(self) -> str | None:
        """Task that the device may report; None: none."""
        found = self.explanation.resolution
        return None if found is None or found.task is None else found.task.task_id

    @property
    def summary(self) -> str:
        """What it runs, in a sentence."""
        found = self.explanation.resolution
        if found is None:
            return "Nothing that the policy names may run: the device keeps its previous version or the app's own."
        side = "" if found.arm is None else f", as arm {found.arm}"
        because = {
            Reason.HOLDOUT: f"because the holdout keeps it for read-out {self.part}",
            Reason.EXPERIMENT: f"by experiment {self.part}{side}",
            Reason.ROLLOUT: f"by rollout {self.part}{side}",
            Reason.DEFAULT: "as the app's default",
        }[found.reason]
        return f"Version {found.version.version}, {because}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each step to it, in order; as many as the explanation has."""
        return tuple(map(_sentence, self.explanation.steps))

    @property
    def notes(self) -> tuple[str, ...]:
        """What else decides on a device: a freeze, what it fetches, what it holds."""
        notes = []
        if self.feature in self.halt.frozen:
            notes.append("frozen: a device that has a version of this feature keeps it")
        notes += [f"own_arm: devices in {one} fetch their own arm only, so downloads tell it" for one in self.own_arm]
        if self.held:
            notes.append(self._on_held())
        return tuple(notes)

    def _on_held(self) -> str:
        """Return what becomes of the version that the device has."""
        held = self.held
        if any((one.feature, one.version.version) == (self.feature, held) for one in self.halt.halted):
            return f"held: {held} is halted, so the device leaves it at its next check-in"
        if self.feature in self.halt.frozen:
            return f"held: the device stays on {held} as long as the feature is frozen"
        if self.version is None:
            return f"held: the device stays on {held}, which is not halted"
        if self.version == held:
            return f"held: the device has {held} already"
        return f"held: {held} answers until {self.version} is installed"

    def to_json(self) -> dict[str, Any]:
        """Return it as programs read it."""
        found = self.explanation.resolution
        return {
            "feature": self.feature,
            "version": self.version,
            "reason": None if found is None else str(found.reason),
            "arm": None if found is None else found.arm,
            "values": self.values,
            "steps": [
                {"about": step.subject, "question": str(step.check), "goes_on": step.passed, "because": step.detail}
                for step in self.explanation.steps
            ],
            "notes": list(self.notes),
        }


def answers_of(policy: Policy, halt: Halt, device: DescribedDevice, *, now_s: int, feature: str = "") -> list[Answer]:
    """Return what a device runs for every feature of the policy, by name, or for one.

    Memory counts by its step, as it does on devices.

    Raises:
        FeatureUnknownError: the policy does not mention the feature.
    """
    seen = coarse(device.attributes)
    found = []
    for name in [feature] if feature else sorted(policy.features):
        explained = explain(policy, name, device.secret, attributes=seen, halted=halt.digests, now_s=now_s)
        rules = policy.features[name]
        parts = [one.id for one in (*rules.experiments, rules.rollout) if one is not None and one.own_arm]
        found.append(Answer(name, explained, halt, tuple(parts), device.held.get(name, "")))
    return found


def secret_of_number(text: str) -> bytes:
    """Return the secret of a made-up device, by its number, as the frozen vectors of the assignment have it.

    Raises:
        InvalidFieldError: it is no number of up to 18 digits.
    """
    if not _NUMBER.fullmatch(text):
        raise InvalidFieldError("device", "a number of up to 18 digits", text)
    return hashlib.sha256(text.encode()).digest()


def read_attributes(texts: Mapping[str, str]) -> DeviceAttributes:
    """Return the attributes that somebody has typed, each by its name; those without a text are not stated.

    Raises:
        InvalidFieldError: one is of another form than the attribute's.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        is_number = name == "memory_mb" and text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS
        if not text:
            continue
        try:
            values[name] = spell(name, int(text) if is_number else text)
        except AttributeValueError as error:
            raise InvalidFieldError(name, error.expected, text) from None
    return DeviceAttributes(**values)


def parse_held(text: str) -> dict[str, str]:
    """Return the versions that text such as "language_id=1.0.0, ranking=2.1.0" says a device has.

    Raises:
        InvalidFieldError: it cannot be read.
    """
    bound = f"FEATURE=VERSION, separated by commas, at most {HELD_MOST}"
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(text) > TEXT_MOST or len(parts) > HELD_MOST:
        raise InvalidFieldError("held", bound, text)
    held: dict[str, str] = {}
    for part in parts:
        name, _, version = (piece.strip() for piece in part.partition("="))
        try:
            held[_FEATURE.validate_python(name)] = _VERSION.validate_python(version)
        except ValidationError:
            raise InvalidFieldError("held", bound, part) from None
    return held


_WORDS: Final[Mapping[tuple[Check, bool], str]] = {
    (Check.HALT, True): "nothing of it is halted",
    (Check.HALT, False): "it does not choose",
    (Check.HOLDOUT, True): "the device may take part in experiments",
    (Check.HOLDOUT, False): "the device takes part in no experiment",
    (Check.LAYER, True): "its part of the layer has the device",
    (Check.LAYER, False): "its part of the layer has other devices",
    (Check.AUDIENCE, True): "the device is in its audience",
    (Check.AUDIENCE, False): "the device is not in its audience",
    (Check.BUCKET, True): "the device takes part",
    (Check.BUCKET, False): "the device does not take part",
    (Check.DIMENSION, True): "its reports are told apart by a value",
    (Check.DIMENSION, False): "its reports are told apart by a value",
    (Check.DEFAULT, True): "the device runs it",
    (Check.DEFAULT, False): "it may not run",
}


def _sentence(step: Step) -> str:
    """Return one step in a sentence, with the bound and the value."""
    words = "" if step.subject.startswith("read-out ") else f"{_WORDS[step.check, step.passed]}: "
    subject = step.subject[:1].upper() + step.subject[1:]
    return f"{subject}: {words}{step.detail}."
