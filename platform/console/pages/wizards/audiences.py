"""Says what an audience means in plain words, and where a text that is none goes wrong, while it is written."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.security import form_of
from alcove.platform.console.sheets import Input
from alcove.platform.console.viewer import VIEWER
from alcove.platform.domain.audience import validate_audience
from alcove.platform.domain.errors import InvalidFieldError
from alcove.registry.errors import AudienceError, AudienceSyntaxError, UnknownAttributeError
from alcove.registry.limits import AUDIENCE_LENGTH_MAX
from alcove.registry.policy.attributes import MEMORY_STEPS_MB, OSES, RANGED, app_version_text
from alcove.registry.policy.audience import Audience, Choice, Interval
from alcove.registry.policy.audience_text import parse_audience

__all__ = ["ATTRIBUTE_HELP", "AUDIENCE", "Reading", "read_audience", "routes"]

AUDIENCE: Final = Input(
    "audience",
    "Audience",
    "Empty: every device. Else conditions joined by “and”, such as: os in (ios, ipados) and app_version >= 2.1",
    "words",
    length=AUDIENCE_LENGTH_MAX,
    live="/audience",
)
ATTRIBUTE_HELP: Final = (
    ("app_version", "Version of the app", "<  <=  ==  >=  >", "app_version >= 2.1"),
    ("os", f"System: {', '.join(OSES)}", "==  !=  in  not in", "os in (ios, ipados)"),
    ("locale", "Language, perhaps with region; de covers de-AT", "==  !=  in  not in", "locale in (de, en-GB)"),
    ("region", "Where the device is, two letters", "==  !=  in  not in", "region not in (US, CA)"),
    ("device_class", "A word of the app's own", "==  !=  in  not in", "device_class == low_end"),
    (
        "memory_mb",
        f"Memory, from and below one of {', '.join(map(str, MEMORY_STEPS_MB[1:]))}",
        "<  >=",
        "memory_mb >= 4096",
    ),
)
"""Attribute, what it is, how it is compared, an example."""
_NAMES: Final = {
    "device_class": "device class",
    "locale": "language",
    "os": "system",
    "region": "region",
}


@dataclass(frozen=True)
class Reading:
    """What a text says.

    Attributes:
        text: as it was written.
        canonical: in its one spelling; "": every device, or no audience.
        words: conditions in plain words, all of which a device must meet.
        problem: why it is no audience, a sentence; "": it is one.
        position: of the fault, in characters from 0; None: it is in no one place.
    """

    text: str
    canonical: str = ""
    words: tuple[str, ...] = ()
    problem: str = ""
    position: int | None = None

    @property
    def around(self) -> tuple[str, str, str]:
        """What stands before, at and behind the fault."""
        place = min(self.position or 0, len(self.text))
        end = next((at for at in range(place, len(self.text)) if self.text[at].isspace()), len(self.text))
        return self.text[max(0, place - 60) : place], self.text[place : min(end, place + 40)], self.text[end : end + 60]

    def to_json(self) -> dict[str, Any]:
        """Return it as programs read it."""
        return {
            "audience": self.canonical,
            "words": list(self.words),
            "problem": self.problem,
            "character": None if self.position is None else self.position + 1,
        }


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes that read an audience while it is written; what is no audience is an answer, no error."""

    async def read(request: web.Request) -> Answer:
        reading = read_audience(request.query.get("audience", ""))
        return Answer("wizards/audience.html", {"reading": reading}, reading.to_json())

    async def read_sent(request: web.Request) -> web.Response:
        fields = await form_of(request, request[VIEWER].token)
        reading = read_audience(fields.get("audience", ""))
        return pages.respond(request, Answer("wizards/audience.html", {"reading": reading}, reading.to_json()))

    return [*pages.routes("/audience", read), web.post("/audience", read_sent)]


def read_audience(text: str) -> Reading:
    """Return what a text says, or why it says nothing."""
    if len(text) > AUDIENCE_LENGTH_MAX:
        problem = f"Audience: at most {AUDIENCE_LENGTH_MAX} characters; there are {len(text)}."
        return Reading(text[:AUDIENCE_LENGTH_MAX], problem=problem)
    if not text.strip():
        return Reading(text, words=("Every device of the app.",))
    try:
        audience = parse_audience(text)
        return Reading(text, validate_audience(text), tuple(_describe(audience)))
    except (AudienceError, InvalidFieldError) as error:
        return _explain(text, error)


def _explain(text: str, error: AudienceError | InvalidFieldError) -> Reading:
    """Return why a text is no audience, and where."""
    match error:
        case AudienceSyntaxError():
            problem = f"expected {error.expected}, found {error.found or 'the end'}"
            return Reading(text, problem=f"Character {error.position + 1}: {problem}.", position=error.position)
        case UnknownAttributeError():
            return Reading(text, problem=f"Character {error.position + 1}: {error}.", position=error.position)
        case InvalidFieldError():
            return Reading(text, problem=f"Expected {error.bound}.")
        case _:
            return Reading(text, problem=f"{str(error)[:300]}.")


def _describe(audience: Audience) -> Iterator[str]:
    for name, constraint in audience.constraints:
        if isinstance(constraint, Interval):
            yield _interval_words(name, constraint)
        else:
            yield from _choice_words(_NAMES[name], constraint)


def _interval_words(name: str, interval: Interval) -> str:
    is_version, is_open = name == "app_version", interval.high == RANGED[name]
    ends = (interval.low, 0 if is_open else interval.high)
    low, below = (app_version_text(end) if is_version else f"{end} MB" for end in ends)
    what, more = ("App version", "or newer") if is_version else ("Memory", "or more")
    if interval.high == interval.low + 1:
        return f"{what} {low} exactly."
    if is_open:
        return f"{what} {low} {more}."
    if interval.low == 0:
        return f"{what} below {below}."
    return f"{what} {low} {more}, and below {below}."


def _choice_words(name: str, choice: Choice) -> Iterator[str]:
    if choice.among is not None:
        yield f"{name.capitalize()} is {_join(choice.among, 'or')}."
    if choice.without:
        yield f"{name.capitalize()} is not {_join(choice.without, 'nor')}."


def _join(words: tuple[str, ...], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
